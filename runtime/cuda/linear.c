#include "runtime/cuda/parts.h"

/* Kernels by the type of their weights. */
static const enum cuda_kernel matvec_of[KN_TYPES] = {
    /* of floats; chain.c has the others */
    [KN_F32] = CUDA_KERNEL_matvec_f32,
    [KN_F16] = CUDA_KERNEL_matvec_f16,
    [KN_BF16] = CUDA_KERNEL_matvec_bf16,
};
static const enum cuda_kernel matmul_of[KN_TYPES] = {
    [KN_F32] = CUDA_KERNEL_matmul_f32,   [KN_F16] = CUDA_KERNEL_matmul_f16,
    [KN_BF16] = CUDA_KERNEL_matmul_bf16, [KN_Q4] = CUDA_KERNEL_matmul_q4,
    [KN_Q8] = CUDA_KERNEL_matmul_q8,     [KN_Q4A] = CUDA_KERNEL_matmul_q4a,
    [KN_Q5A] = CUDA_KERNEL_matmul_q5a,   [KN_Q6] = CUDA_KERNEL_matmul_q6,
};
static const enum cuda_kernel embed_of[KN_TYPES] = {
    [KN_F32] = CUDA_KERNEL_embed_f32,   [KN_F16] = CUDA_KERNEL_embed_f16,
    [KN_BF16] = CUDA_KERNEL_embed_bf16, [KN_Q4] = CUDA_KERNEL_embed_q4,
    [KN_Q8] = CUDA_KERNEL_embed_q8,     [KN_Q4A] = CUDA_KERNEL_embed_q4a,
    [KN_Q5A] = CUDA_KERNEL_embed_q5a,   [KN_Q6] = CUDA_KERNEL_embed_q6,
};

/* ---- inputs ---------------------------------------------------------------------------------- */

static bool reads_integers(const struct cuda_linear *l)
{
    for (int i = 0; i < l->n; i++)
        if (kn_is_quantized(l->part[i].m.type)) return true;
    return false;
}

static bool reads_floats(const struct cuda_linear *l)
{
    for (int i = 0; i < l->n; i++)
        if (!kn_is_quantized(l->part[i].m.type)) return true;
    return false;
}

void cuda_norm_quantize(struct cuda_context *x, const float *from, int stride, const float *w,
                        int n, int n_tok, struct cuda_act act, float *floats)
{
    const struct cuda_norm job = {from, stride, w, n, x->m->norm_eps, act, floats, NULL};
    LAUNCH(x, norm_quantize, n_tok, 1, 1, CUDA_NORM_THREADS, 32, &job);
}

static struct cuda_rows prepare(struct cuda_context *x, const float *from, const float *w, int n,
                                int n_tok, bool integers, bool floats, struct cuda_act act)
{
    const struct cuda_rows rows = {act, w ? x->norm : from, {0}};
    if (integers || w)
        cuda_norm_quantize(x, from, n, w, n, n_tok, act, w && floats ? x->norm : NULL);
    return rows;
}

struct cuda_rows cuda_rows_of(struct cuda_context *x, const float *from, const float *w, int n,
                              int n_tok, const struct cuda_linear *reader, struct cuda_act act)
{
    return prepare(x, from, w, n, n_tok, reads_integers(reader), reads_floats(reader), act);
}

/* For one token, blocks norm the residual stream themselves if it fits in shared memory next to
 * their sums. */
static bool makes_input(const struct cuda_context *x)
{
    return x->n == 1 && CUDA_MATVEC_SHARED_MADE(x->m->n_embd) <= 48 << 10;
}

struct cuda_rows cuda_read_stream(struct cuda_context *x, const float *w,
                                  const struct cuda_linear *const readers[CUDA_READERS])
{
    bool integers = false, floats = false;
    for (int i = 0; i < CUDA_READERS && readers[i]; i++) {
        integers = integers || reads_integers(readers[i]);
        floats = floats || reads_floats(readers[i]);
    }
    if (!floats && makes_input(x))
        return (struct cuda_rows){x->act, x->x, {x->x, w, x->m->norm_eps}};
    return prepare(x, x->x, w, x->m->n_embd, x->n, integers, floats, x->act);
}

struct cuda_rows cuda_ready_stream(struct cuda_context *x, const float *w)
{
    return prepare(x, x->x, w, x->m->n_embd, x->n, true, true, x->act);
}

/* ---- products -------------------------------------------------------------------------------- */

void cuda_multiply_floats(struct cuda_context *x, enum kn_type type, const struct cuda_floats *job)
{
    if (job->n_tok <= CUDA_MATVEC_TOKENS)
        cuda_launch(x, matvec_of[type], cuda_parts_of(job->n_out, CUDA_FLOATS_THREADS / 32), 1, 1,
                    CUDA_FLOATS_THREADS, 0, job);
    else
        cuda_launch(x, matmul_of[type], cuda_parts_of(job->n_out, CUDA_FLOATS_TILE),
                    cuda_parts_of(job->n_tok, CUDA_FLOATS_TILE), 1, CUDA_FLOATS_THREADS,
                    CUDA_FLOATS_SHARED, job);
}

static void multiply_integers(struct cuda_context *x, const struct cuda_linear_part *p,
                              const struct cuda_matvec *job, bool waits)
{
    if (job->n_tok <= CUDA_MATVEC_TOKENS)
        cuda_add_product(x, p->m.type, job, waits);
    else
        cuda_launch(x, matmul_of[p->m.type], cuda_parts_of(p->m.w.n_out, CUDA_MATMUL_ROWS),
                    cuda_parts_of(job->n_tok, CUDA_MATMUL_TOKENS), 1, CUDA_MATMUL_THREADS,
                    CUDA_MATMUL_SHARED, job);
}

void cuda_multiply(struct cuda_context *x, const struct cuda_linear *l, const struct cuda_rows *in,
                   int n_tok, float scale, bool add, float *y, int stride)
{
    for (int i = 0; i < l->n; i++) {
        const struct cuda_linear_part *p = &l->part[i];
        const struct cuda_weight *w = &p->m.w;
        float *to = y + p->row0;
        if (kn_is_quantized(p->m.type)) {
            const struct cuda_matvec job = {*w,  in->act, n_tok,  p->bias, scale,
                                            add, to,      stride, in->made};
            multiply_integers(x, p, &job, i == 0);
        } else {
            const struct cuda_floats job = {w->q,    w->n_out, w->n_in, in->x, w->n_in, n_tok,
                                            p->bias, scale,    add,     to,    stride};
            cuda_multiply_floats(x, p->m.type, &job);
        }
    }
}

void cuda_embed_ids(struct cuda_context *x, const struct cuda_matrix *m, float scale, float *to)
{
    const struct cuda_embed job = {m->w, x->step->len + x->n_len, scale, to};
    cuda_launch(x, embed_of[m->type], x->n, 1, 1, 128, 0, &job);
}

/* ---- rows ------------------------------------------------------------------------------------ */

void cuda_normalize(struct cuda_context *x, float *from, int stride, const float *w, int n,
                    float scale, float *add_to)
{
    const struct cuda_norm_rows job = {
        from, stride, w, n, x->m->norm_eps, scale, add_to != NULL, add_to ? add_to : from, stride};
    LAUNCH(x, norm_rows, x->n, 1, 1, CUDA_NORM_THREADS, 32, &job);
}

struct cuda_rows cuda_gated(struct cuda_context *x, const struct cuda_linear *reader, float *gate,
                            const float *up, int up_stride, int n, enum cuda_activation f)
{
    const struct cuda_gate_rows job = {gate, up, n, up_stride, n, f, gate};
    LAUNCH(x, gate_rows, x->n, 1, 1, CUDA_NORM_THREADS, 0, &job);
    return cuda_rows_of(x, gate, NULL, n, x->n, reader, x->wide);
}

void cuda_scale_floats(struct cuda_context *x, float *y, int64_t n, const float *by, float scale,
                       float softcap)
{
    const struct cuda_scale_rows job = {y, n, by, scale, softcap};
    LAUNCH(x, scale_rows, (int)((n + 1023) / 1024), 1, 1, 256, 0, &job);
}
