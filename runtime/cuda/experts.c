#include "runtime/cuda/parts.h"

#include <math.h>

static size_t n_rows(const struct cuda_context *x, const struct model_experts *of)
{
    return (size_t)x->chunk * (size_t)of->n_used;
}

/* The tiles that rows are cut into, at most. */
static int n_tiles(const struct model_experts *of, int rows, int tile)
{
    const int n = rows / tile + of->n;
    return n < rows ? n : rows;
}

void cuda_experts_plan(struct cuda_context *x, struct arena *a)
{
    const struct model_experts *of = model_experts_of(x->m);
    struct cuda_experts_rows *s = &x->experts;
    if (!of) return;
    const size_t chunk = (size_t)x->chunk, rows = n_rows(x, of), f = sizeof(float);
    s->logits = arena_take(a, chunk * (size_t)of->n, f);
    s->chosen = arena_take(a, rows, sizeof *s->chosen);
    s->weight = arena_take(a, rows, f);
    s->shared = arena_take(a, chunk, f);
    s->place = arena_take(a, rows, sizeof *s->place);
    s->from = arena_take(a, rows, sizeof *s->from);
    s->tiles = arena_take(a, (size_t)n_tiles(of, (int)rows, CUDA_EXPERT_FEW), sizeof *s->tiles);
    s->n_tiles = arena_take(a, 1, sizeof *s->n_tiles);
    s->gate = arena_take(a, rows * (size_t)of->n_ff, f);
    s->up = arena_take(a, rows * (size_t)of->n_ff, f);
    s->out = arena_take(a, rows * (size_t)x->m->n_embd, f);
    cuda_take_act(&s->act, of->n_ff, rows, a);
}

static const enum cuda_kernel few_of[KN_TYPES] = {
    [KN_Q4] = CUDA_KERNEL_experts_few_q4,   [KN_Q8] = CUDA_KERNEL_experts_few_q8,
    [KN_Q4A] = CUDA_KERNEL_experts_few_q4a, [KN_Q5A] = CUDA_KERNEL_experts_few_q5a,
    [KN_Q6] = CUDA_KERNEL_experts_few_q6,   [KN_MX4] = CUDA_KERNEL_experts_few_mx4,
};
static const enum cuda_kernel many_of[KN_TYPES] = {
    [KN_Q4] = CUDA_KERNEL_experts_many_q4,   [KN_Q8] = CUDA_KERNEL_experts_many_q8,
    [KN_Q4A] = CUDA_KERNEL_experts_many_q4a, [KN_Q5A] = CUDA_KERNEL_experts_many_q5a,
    [KN_Q6] = CUDA_KERNEL_experts_many_q6,   [KN_MX4] = CUDA_KERNEL_experts_many_mx4,
};
static const enum cuda_kernel floats_of[] = {[KN_F32] = CUDA_KERNEL_experts_f32,
                                             [KN_F16] = CUDA_KERNEL_experts_f16,
                                             [KN_BF16] = CUDA_KERNEL_experts_bf16};

static void choose(struct cuda_context *x, const struct cuda_layer *l, const struct cuda_rows *in)
{
    const struct model_experts *of = &l->of->experts;
    const struct cuda_experts_rows *s = &x->experts;
    const struct cuda_choose job = {
        .logits = s->logits,
        .n = of->n,
        .n_used = of->n_used,
        .n_groups = of->n_groups,
        .n_groups_used = of->n_groups_used,
        .sigmoid = of->sigmoid,
        .normalized = of->normalized,
        .scale = of->scale,
        .choice_bias = l->experts.choice_bias,
        .weight_scale = l->experts.weight_scale,
        .x = in->x,
        .shared_gate = l->experts.shared_gate,
        .n_embd = x->m->n_embd,
        .chosen = s->chosen,
        .weight = s->weight,
        .shared = s->shared,
    };
    const float scale = of->beside ? 1.0f / sqrtf((float)x->m->n_embd) : 1.0f;
    cuda_multiply(x, &l->experts.router, in, x->n, scale, false, s->logits, of->n);
    LAUNCH(x, experts_choose, x->n, 1, 1, 32, CUDA_CHOOSE_SHARED(of->n), &job);
}

/* Rows of one tile: few as long as an expert is expected to have few rows. */
static int tile_of(const struct cuda_context *x, const struct model_experts *of)
{
    return x->n * of->n_used <= CUDA_EXPERT_FEW * of->n ? CUDA_EXPERT_FEW : CUDA_EXPERT_MANY;
}

static void sort(struct cuda_context *x, const struct model_experts *of, int tile)
{
    const struct cuda_experts_rows *s = &x->experts;
    const struct cuda_sort job = {s->chosen, x->n * of->n_used, of->n_used, of->n,     tile,
                                  s->place,  s->from,           s->tiles,   s->n_tiles};
    LAUNCH(x, experts_sort, 1, 1, 1, 256, CUDA_SORT_SHARED(of->n), &job);
}

/* y = the chosen experts' matrices times the sorted rows. */
static void multiply(struct cuda_context *x, const struct model_experts *of,
                     const struct cuda_matrix *m, const float *bias, const struct cuda_rows *in,
                     const int32_t *from, float *y)
{
    const struct cuda_experts_rows *s = &x->experts;
    const int tile = tile_of(x, of), n_out = m->w.n_out / of->n;
    const int tiles = n_tiles(of, x->n * of->n_used, tile);
    const struct cuda_expert job = {m->w, n_out,    bias,       in->act, in->x,
                                    from, s->tiles, s->n_tiles, y};
    if (!kn_is_quantized(m->type))
        cuda_launch(x, floats_of[m->type], cuda_parts_of(n_out, 4), tiles, 1, CUDA_EXPERT_THREADS,
                    0, &job);
    else if (tile == CUDA_EXPERT_FEW)
        cuda_launch(x, few_of[m->type], n_out / KN_PANEL, tiles, 1, CUDA_EXPERT_THREADS,
                    CUDA_FEW_SHARED, &job);
    else
        cuda_launch(x, many_of[m->type], cuda_parts_of(n_out, CUDA_EXPERT_MANY), tiles, 1,
                    CUDA_EXPERT_THREADS, 0, &job);
}

/* The sum of the experts' rows and of the dense feed-forward or shared experts in x->added, added to
 * the stream. */
static void combine(struct cuda_context *x, const struct cuda_layer *l)
{
    const struct cuda_experts_rows *s = &x->experts;
    const struct cuda_experts *e = &l->experts;
    const int n = x->m->n_embd;
    const float scale = x->m->residual_scale;
    const bool has_norm = l->ffn_post_norm != NULL, beside = l->of->experts.beside;
    const struct cuda_combine job = {
        .rows = s->out,
        .place = s->place,
        .weight = s->weight,
        .base = l->of->gate.n_out && !beside ? x->added : NULL,
        .shared = s->shared,
        .n = n,
        .n_used = l->of->experts.n_used,
        .add = !has_norm,
        .scale = has_norm ? 1.0f : scale,
        .y = beside ? x->norm : has_norm ? x->added : x->x,
    };
    LAUNCH(x, experts_combine, x->n, 1, 1, 256, 0, &job);
    if (beside) {
        cuda_normalize(x, x->added, n, e->dense_post_norm, n, 1.0f, NULL);
        cuda_normalize(x, x->norm, n, e->post_norm, n, 1.0f, x->added);
    }
    if (has_norm) cuda_normalize(x, x->added, n, l->ffn_post_norm, n, scale, x->x);
}

void cuda_run_experts(struct cuda_context *x, const struct cuda_layer *l)
{
    const struct model_experts *of = &l->of->experts;
    const struct cuda_experts_rows *s = &x->experts;
    const struct cuda_experts *e = &l->experts;
    const int rows = x->n * of->n_used, n_ff = of->n_ff;
    struct cuda_rows in = cuda_ready_stream(x, l->ffn_norm);
    const struct cuda_gate_rows gate = {s->gate, s->up, n_ff, n_ff, n_ff, cuda_activation_of(l->of),
                                        s->gate};
    const struct cuda_rows down = {s->act, s->gate, {0}};
    if (l->of->gate.n_out) { /* the dense feed-forward or the shared experts */
        const struct cuda_rows shared = cuda_run_gate(x, l, &in);
        cuda_multiply(x, &l->down, &shared, x->n, 1.0f, false, x->added, x->m->n_embd);
    }
    if (of->beside) in = cuda_ready_stream(x, e->router_norm);
    choose(x, l, &in);
    if (of->beside) in = cuda_ready_stream(x, e->norm);
    sort(x, of, tile_of(x, of));
    multiply(x, of, &e->gate, e->gate_bias, &in, s->from, s->gate);
    multiply(x, of, &e->up, e->up_bias, &in, s->from, s->up);
    LAUNCH(x, gate_rows, rows, 1, 1, CUDA_NORM_THREADS, 0, &gate);
    if (kn_is_quantized(e->down.type))
        cuda_norm_quantize(x, s->gate, n_ff, NULL, n_ff, rows, s->act, NULL);
    multiply(x, of, &e->down, e->down_bias, &down, NULL, s->out);
    combine(x, l);
}
