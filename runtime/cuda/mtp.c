/* The MTP layer, as forward/mtp.c. */
#include "runtime/cuda/parts.h"

void cuda_mtp_plan(struct cuda_context *x, struct arena *a)
{
    const size_t n = (size_t)x->m->n_embd;
    if (!x->n_mtp_rows) return;
    x->mtp_rows = arena_take(a, (size_t)x->n_mtp_rows * n, sizeof *x->mtp_rows);
    x->mtp_in = arena_take(a, (size_t)x->chunk * 2 * n, sizeof *x->mtp_in);
}

float *cuda_mtp_rows(const struct cuda_context *x)
{
    return x->mtp_rows;
}

float *cuda_stream(const struct cuda_context *x)
{
    return x->x;
}

void cuda_keep_rows(struct cuda_context *x, float *to, const float *from, int n)
{
    const size_t bytes = (size_t)n * (size_t)x->m->n_embd * sizeof *to;
    struct err e;
    if (x->broken) return;
    if (!cuda_begin(x, &e)) x->rc = cuda_copy(x->g, to, from, bytes, &e);
    if (x->rc) cuda_break(x, &e);
}

static void norm_rows(struct cuda_context *x, const float *from, const float *w, int n, float *y)
{
    const int embd = x->m->n_embd;
    const struct cuda_norm_rows job = {from, embd, w, embd, x->m->norm_eps, 1.0f, 0, y, 2 * embd};
    LAUNCH(x, norm_rows, n, 1, 1, CUDA_NORM_THREADS, 32, &job);
}

/* The second halves of what the projection reads: their norms change from run to run, so that they
 * are in no graph. Adjacent rows take one launch. */
int cuda_run_mtp(struct cuda_context *x, const struct cuda_mtp_input *in, int n, int n_logits,
                 struct err *e)
{
    const int embd = x->m->n_embd;
    if (cuda_begin(x, e)) return x->rc;
    for (int t = 0, k; t < n; t += k) {
        for (k = 1; t + k < n && in->before[t + k] == in->before[t] + (size_t)k * embd;) k++;
        norm_rows(x, in->before[t], in->norm, k, x->mtp_in + (size_t)(2 * t + 1) * (size_t)embd);
    }
    return x->rc ? x->rc : cuda_run(x, in->ids, n, n_logits, e);
}

void cuda_mtp_begin(struct cuda_context *x)
{
    const struct model_mtp *w = &x->m->mtp;
    const int n = x->m->n_embd;
    norm_rows(x, x->x, w->embedding_norm, x->n, x->mtp_in);
    cuda_normalize(x, x->mtp_in + n, 2 * n, w->hidden_norm, n, 1.0f, NULL);
    const struct cuda_rows in = cuda_rows_of(x, x->mtp_in, NULL, 2 * n, x->n, &w->project, x->wide);
    cuda_multiply(x, &w->project, NULL, &in, 1.0f, x->x);
}
