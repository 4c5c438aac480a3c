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

/* Whether the device has experts of a layer. */
static bool on_device(const struct model *m)
{
    for (int i = 0; i < model_n_device(m); i++)
        if (m->layers[i].experts.n && !model_experts_on_host(m, i)) return true;
    return false;
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
    s->ones = arena_take(a, chunk, f);
    s->same = arena_take(a, chunk, sizeof *s->same);
    if (!on_device(x->m)) return;
    s->tiles = arena_take(a, (size_t)n_tiles(of, (int)rows, CUDA_EXPERT_FEW), sizeof *s->tiles);
    s->n_tiles = arena_take(a, 1, sizeof *s->n_tiles);
    s->gate = arena_take(a, rows * (size_t)of->n_ff, f);
    s->up = arena_take(a, rows * (size_t)of->n_ff, f);
    s->out = arena_take(a, rows * (size_t)x->m->n_embd, f);
    cuda_take_act(&s->act, of->n_ff, rows, a);
}

void cuda_experts_plan_host(struct cuda_context *x, struct arena *a)
{
    const struct model_experts *of = model_experts_of(x->m);
    struct cuda_experts_rows *s = &x->experts;
    const size_t floats = (size_t)x->chunk * (size_t)x->m->n_embd;
    if (!model_n_host_experts(x->m)) return;
    s->host.input = arena_take(a, floats, sizeof(float));
    s->host.sum = arena_take(a, floats, sizeof(float));
    s->host.weight = arena_take(a, n_rows(x, of), sizeof(float));
    s->host.chosen = arena_take(a, n_rows(x, of), sizeof *s->host.chosen);
}

int cuda_experts_open(struct cuda_context *x, struct err *e)
{
    const struct cuda_experts_rows *s = &x->experts;
    if (!model_n_host_experts(x->m)) return 0;
    for (int i = 0; i < x->chunk; i++) {
        s->host.sum[i] = 1.0f;
        s->host.chosen[i] = i;
    }
    int rc = cuda_put(x->g, s->ones, s->host.sum, (size_t)x->chunk * sizeof *s->ones, e);
    if (!rc) rc = cuda_put(x->g, s->same, s->host.chosen, (size_t)x->chunk * sizeof *s->same, e);
    return rc ? rc : cuda_wait(x->g, e);
}

static const enum cuda_kernel few_of[] = {
    CUDA_OF_QUANTS(experts_few), [KN_MX4] = CUDA_KERNEL_experts_few_mx4};
static const enum cuda_kernel many_of[] = {
    CUDA_OF_QUANTS(experts_many), [KN_MX4] = CUDA_KERNEL_experts_many_mx4};
static const enum cuda_kernel floats_of[] = {CUDA_OF_FLOATS(experts)};

static void choose(struct cuda_context *x, const struct model_layer *l, const struct cuda_rows *in)
{
    const struct model_experts *of = &l->experts;
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
        .choice_bias = of->choice_bias,
        .weight_scale = of->weight_scale,
        .x = in->x,
        .shared_gate = of->shared_gate,
        .n_embd = x->m->n_embd,
        .chosen = s->chosen,
        .weight = s->weight,
        .shared = s->shared,
    };
    const float scale = of->beside ? 1.0f / sqrtf((float)x->m->n_embd) : 1.0f;
    cuda_multiply(x, &of->router, of->router_bias, in, scale, s->logits);
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

static void launch(struct cuda_context *x, enum kn_type type, int tile, int tiles,
                   const struct cuda_expert *job)
{
    const int n_out = job->n_out;
    if (!kn_is_quantized(type))
        cuda_launch(x, floats_of[type], cuda_parts_of(n_out, 4), tiles, 1, CUDA_EXPERT_THREADS, 0,
                    job);
    else if (tile == CUDA_EXPERT_FEW)
        cuda_launch(x, few_of[type], n_out / KN_PANEL, tiles, 1, CUDA_EXPERT_THREADS,
                    CUDA_FEW_SHARED, job);
    else
        cuda_launch(x, many_of[type], cuda_parts_of(n_out, CUDA_EXPERT_MANY), tiles, 1,
                    CUDA_EXPERT_THREADS, 0, job);
}

/* y = the chosen experts' matrices times the sorted rows. */
static void multiply(struct cuda_context *x, const struct model_experts *of,
                     const struct kn_weight *w, const float *bias, const struct cuda_rows *in,
                     const int32_t *from, float *y)
{
    const struct cuda_experts_rows *s = &x->experts;
    const int tile = tile_of(x, of), n_out = w->n_out / of->n;
    const int tiles = n_tiles(of, x->n * of->n_used, tile);
    const struct cuda_expert job = {cuda_weight_of(w), n_out,      bias, in->act, in->x, from,
                                    s->tiles,          s->n_tiles, y,    0,       0};
    launch(x, w->type, tile, tiles, &job);
}

void cuda_multiply_heads(struct cuda_context *x, const struct kn_weight *w,
                         const struct cuda_rows *in, float *y)
{
    const bool few = x->n <= CUDA_EXPERT_FEW && kn_is_quantized(w->type);
    const int n = x->m->n_head, tile = few ? CUDA_EXPERT_FEW : CUDA_EXPERT_MANY;
    const struct cuda_expert job = {.w = cuda_weight_of(w),
                                    .n_out = w->n_out / n,
                                    .act = in->act,
                                    .x = in->x,
                                    .y = y,
                                    .n_head = n,
                                    .n_tok = x->n};
    launch(x, w->type, tile, n * cuda_parts_of(x->n, tile), &job);
}

/* The sum of the experts' rows and of the dense feed-forward or shared experts in x->added, added
 * to the stream. */
static void combine(struct cuda_context *x, const struct model_layer *l, bool on_host)
{
    const struct cuda_experts_rows *s = &x->experts;
    const struct model_experts *e = &l->experts;
    const int n = x->m->n_embd;
    const float scale = x->m->residual_scale;
    const bool has_norm = l->ffn_post_norm != NULL, beside = e->beside;
    const struct cuda_combine job = {
        .rows = on_host ? x->norm : s->out,
        .place = on_host ? s->same : s->place,
        .weight = on_host ? s->ones : s->weight,
        .base = l->gate.n_out && !beside ? x->added : NULL,
        .shared = s->shared,
        .n = n,
        .n_used = on_host ? 1 : e->n_used,
        .add = !has_norm,
        .scale = has_norm ? 1.0f : scale,
        .y = beside     ? x->norm
             : has_norm ? x->added
                        : x->x,
    };
    LAUNCH(x, experts_combine, x->n, 1, 1, 256, 0, &job);
    if (beside) {
        cuda_normalize(x, x->added, n, e->dense_post_norm, n, 1.0f, NULL);
        cuda_normalize(x, x->norm, n, e->post_norm, n, 1.0f, x->added);
    }
    if (has_norm) cuda_normalize(x, x->added, n, l->ffn_post_norm, n, scale, x->x);
}

/* The dense feed-forward or the shared experts, to x->added. */
static void run_shared(struct cuda_context *x, const struct model_layer *l,
                       const struct cuda_rows *in)
{
    if (!l->gate.n_out) return;
    const struct cuda_rows gated = cuda_run_gate(x, l, in);
    cuda_multiply(x, &l->down, l->down_bias, &gated, 1.0f, x->added);
}

/* The rows of the chosen experts. */
static void run_chosen(struct cuda_context *x, const struct model_layer *l,
                       const struct cuda_rows *in)
{
    const struct model_experts *of = &l->experts;
    const struct cuda_experts_rows *s = &x->experts;
    const int rows = x->n * of->n_used, n_ff = of->n_ff;
    const struct cuda_gate_rows gate = {s->gate, s->up, n_ff, n_ff, n_ff, cuda_activation_of(l),
                                        s->gate};
    const struct cuda_rows down = {rows, s->act, s->gate, {0}};
    sort(x, of, tile_of(x, of));
    multiply(x, of, &of->gate, of->gate_bias, in, s->from, s->gate);
    multiply(x, of, &of->up, of->up_bias, in, s->from, s->up);
    LAUNCH(x, gate_rows, rows, 1, 1, CUDA_NORM_THREADS, 0, &gate);
    if (kn_is_quantized(of->down.type))
        cuda_norm_quantize(x, s->gate, n_ff, NULL, n_ff, rows, s->act, NULL);
    multiply(x, of, &of->down, of->down_bias, &down, NULL, s->out);
}

/* The sum of the chosen experts' rows, to x->norm: the CPU computes it, the device the shared
 * experts at the same time. */
static void run_on_host(struct cuda_context *x, const struct model_layer *l,
                        const struct cuda_rows *in)
{
    const struct cuda_experts_rows *s = &x->experts;
    const size_t choices = (size_t)(x->n * l->experts.n_used);
    const size_t bytes = (size_t)x->n * (size_t)x->m->n_embd * sizeof(float);
    if (!x->rc) x->rc = cuda_get(x->g, s->host.input, in->x, bytes, x->e);
    if (!x->rc)
        x->rc = cuda_get(x->g, s->host.chosen, s->chosen, choices * sizeof *s->chosen, x->e);
    if (cuda_get_now(x, s->host.weight, s->weight, choices * sizeof *s->weight)) return;
    if (l->gate.n_out) {
        const struct cuda_rows shared = cuda_ready_stream(x, l->ffn_norm);
        run_shared(x, l, &shared);
    }
    const struct cuda_chosen c = {(int)(l - x->m->layers), x->n, s->host.input, s->host.chosen,
                                  s->host.weight};
    x->host_experts.sum(x->host_experts.ctx, &c, s->host.sum);
    if (!x->rc) x->rc = cuda_put(x->g, x->norm, s->host.sum, bytes, x->e);
}

void cuda_run_experts(struct cuda_context *x, const struct model_layer *l)
{
    const bool beside = l->experts.beside;
    const bool on_host = model_experts_on_host(x->m, (int)(l - x->m->layers));
    struct cuda_rows in = cuda_ready_stream(x, l->ffn_norm);
    if (!on_host) run_shared(x, l, &in);
    if (beside) in = cuda_ready_stream(x, l->experts.router_norm);
    choose(x, l, &in);
    if (beside) in = cuda_ready_stream(x, l->experts.norm);
    if (on_host)
        run_on_host(x, l, &in);
    else
        run_chosen(x, l, &in);
    combine(x, l, on_host);
}
