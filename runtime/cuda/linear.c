#include "runtime/cuda/parts.h"

/* Kernels by the type of their weights; chain.c has the products of a few tokens with integers. */
static const enum cuda_kernel matvec_of[] = {CUDA_OF_FLOATS(matvec)};
static const enum cuda_kernel matmul_of[] = {CUDA_OF_FLOATS(matmul), CUDA_OF_QUANTS(matmul)};
static const enum cuda_kernel embed_of[] = {CUDA_OF_FLOATS(embed), CUDA_OF_QUANTS(embed)};

/* ---- inputs ---------------------------------------------------------------------------------- */

void cuda_norm_quantize(struct cuda_context *x, const float *from, int stride, const float *w,
                        int n, int n_tok, struct cuda_act act, float *floats)
{
    const struct cuda_norm job = {from, stride, w, n, x->m->norm_eps, act, floats, NULL};
    LAUNCH(x, norm_quantize, n_tok, 1, 1, CUDA_NORM_THREADS, 32, &job);
}

static struct cuda_rows prepare(struct cuda_context *x, const float *from, const float *w, int n,
                                int n_tok, bool integers, bool floats, struct cuda_act act)
{
    const struct cuda_rows rows = {n_tok, act, w ? x->norm : from, {0}};
    if (integers || w)
        cuda_norm_quantize(x, from, n, w, n, n_tok, act, w && floats ? x->norm : NULL);
    return rows;
}

bool cuda_makes_row(const struct cuda_context *x, const struct kn_weight *reader)
{
    return x->n == 1 && kn_is_quantized(reader->type) &&
           CUDA_MATVEC_SHARED_MADE(reader->n_in) <= CUDA_SHARED_MAX;
}

struct cuda_rows cuda_rows_of(struct cuda_context *x, const float *from, const float *w, int n,
                              int n_tok, const struct kn_weight *reader, struct cuda_act act)
{
    const bool integers = kn_is_quantized(reader->type);
    if (cuda_makes_row(x, reader))
        return (struct cuda_rows){1, act, from, {from, w, x->m->norm_eps}};
    return prepare(x, from, w, n, n_tok, integers, !integers, act);
}

struct cuda_rows cuda_read_stream(struct cuda_context *x, const float *w,
                                  const struct kn_weight *const readers[CUDA_READERS])
{
    bool integers = false, floats = false;
    for (int i = 0; i < CUDA_READERS && readers[i]; i++) {
        if (!readers[i]->n_out) continue;
        *(kn_is_quantized(readers[i]->type) ? &integers : &floats) = true;
    }
    if (!floats && cuda_makes_row(x, readers[0]))
        return (struct cuda_rows){x->n, x->act, x->x, {x->x, w, x->m->norm_eps}};
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

static void multiply_integers(struct cuda_context *x, enum kn_type type,
                              const struct cuda_matvec *job, bool waits)
{
    if (job->n_tok <= CUDA_MATVEC_TOKENS)
        cuda_add_product(x, type, job, waits);
    else
        cuda_launch(x, matmul_of[type], cuda_parts_of(job->w.n_out, CUDA_MATMUL_ROWS),
                    cuda_parts_of(job->n_tok, CUDA_MATMUL_TOKENS), 1, CUDA_MATMUL_THREADS,
                    CUDA_MATMUL_SHARED, job);
}

/* `to` says where the product is written or added, with which scale and bias. waits: as in
 * cuda_add_product. */
static void multiply(struct cuda_context *x, const struct kn_weight *w, const struct cuda_rows *in,
                     const struct cuda_floats *to, bool waits)
{
    if (!w->n_out) return;
    if (kn_is_quantized(w->type)) {
        const struct cuda_matvec job = {cuda_weight_of(w), in->act, in->n, to->bias,
                                        to->scale,         to->add, to->y, to->y_stride,
                                        in->made};
        multiply_integers(x, w->type, &job, waits);
    } else {
        const struct cuda_floats job = {w->data,  w->n_out,  w->n_in, in->x, w->n_in,     in->n,
                                        to->bias, to->scale, to->add, to->y, to->y_stride};
        cuda_multiply_floats(x, w->type, &job);
    }
}

void cuda_multiply(struct cuda_context *x, const struct kn_weight *w, const float *bias,
                   const struct cuda_rows *in, float scale, float *y)
{
    const struct cuda_floats to = {.bias = bias, .scale = scale, .y = y, .y_stride = w->n_out};
    multiply(x, w, in, &to, true);
}

void cuda_multiply_add(struct cuda_context *x, const struct kn_weight *w, const float *bias,
                       const struct cuda_rows *in, float scale)
{
    const struct cuda_floats to = {
        .bias = bias, .scale = scale, .add = true, .y = x->x, .y_stride = w->n_out};
    multiply(x, w, in, &to, true);
}

/* Whether `next` continues the rows of `w` in memory. */
static bool continues(const struct kn_weight *w, const float *bias, const struct kn_weight *next,
                      const float *next_bias)
{
    return w->type == next->type && w->n_in == next->n_in && w->n_out % KN_PANEL == 0 &&
           next_bias == (bias ? bias + w->n_out : NULL) &&
           (const char *)w->data + cuda_quant_bytes(w) == (const char *)next->data &&
           (const char *)w->scales + cuda_scale_bytes(w) == (const char *)next->scales;
}

void cuda_multiply_qkv(struct cuda_context *x, const struct model_layer *l,
                       const struct cuda_rows *in)
{
    const struct model_heads h = model_heads(x->m, l->is_windowed);
    const struct kn_weight *w[] = {&l->q, &l->k, l->v.n_out ? &l->v : &l->k};
    const float *bias[] = {l->q_bias, l->k_bias, l->v.n_out ? l->v_bias : l->k_bias};
    float *y = x->qkv;
    for (int i = 0, n; i < 3 && w[i]->n_out; i += n) {
        const struct cuda_floats to = {
            .bias = bias[i], .scale = 1.0f, .y = y, .y_stride = heads_n_qkv(&h)};
        struct kn_weight all = *w[i];
        for (n = 1; i + n < 3 && continues(&all, bias[i], w[i + n], bias[i + n]); n++)
            all.n_out += w[i + n]->n_out;
        multiply(x, &all, in, &to, i == 0);
        y += all.n_out;
    }
}

void cuda_embed_ids(struct cuda_context *x, const struct kn_weight *w, float scale, float *to)
{
    const struct cuda_embed job = {cuda_weight_of(w), x->step->len + x->n_len, scale, to};
    cuda_launch(x, embed_of[w->type], x->n, 1, 1, 128, 0, &job);
}

/* ---- rows ------------------------------------------------------------------------------------ */

void cuda_normalize(struct cuda_context *x, float *from, int stride, const float *w, int n,
                    float scale, float *add_to)
{
    const struct cuda_norm_rows job = {
        from, stride, w, n, x->m->norm_eps, scale, add_to != NULL, add_to ? add_to : from, stride};
    LAUNCH(x, norm_rows, x->n, 1, 1, CUDA_NORM_THREADS, 32, &job);
}

void cuda_gated(struct cuda_context *x, const struct kn_weight *reader, const float *up,
                int up_stride, int n, enum cuda_activation f)
{
    const struct cuda_gate_rows job = {x->gate, up, n, up_stride, n, f, x->gate};
    LAUNCH(x, gate_rows, x->n, 1, 1, CUDA_NORM_THREADS, 0, &job);
    if (kn_is_quantized(reader->type))
        cuda_norm_quantize(x, x->gate, n, NULL, n, x->n, x->wide, NULL);
}

void cuda_scale_floats(struct cuda_context *x, float *y, int64_t n, const float *by, float scale,
                       float softcap)
{
    const struct cuda_scale_rows job = {y, n, by, scale, softcap};
    LAUNCH(x, scale_rows, (int)((n + 1023) / 1024), 1, 1, 256, 0, &job);
}
