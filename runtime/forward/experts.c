#include "runtime/forward/forward.h"

#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "runtime/cuda/cuda.h"

#define SPAN 8 /* panels that a thread takes at once */

/* ---- memory ---------------------------------------------------------------------------------- */

void experts_plan(struct forward *f, struct arena *a)
{
    const struct model_experts *x = model_experts_of(f->model);
    struct experts *s = &f->experts;
    if (!x) return;
    const size_t chunk = (size_t)f->chunk, rows = chunk * (size_t)x->n_used;
    const size_t embd = (size_t)f->model->n_embd, ff = (size_t)x->n_ff;
    s->logits = arena_take(a, chunk * (size_t)x->n, sizeof(float));
    s->chosen = arena_take(a, rows, sizeof(int32_t));
    s->weight = arena_take(a, rows, sizeof(float));
    s->shared = arena_take(a, chunk, sizeof(float));
    s->row = arena_take(a, rows, sizeof(int32_t));
    s->token = arena_take(a, rows, sizeof(int32_t));
    s->first = arena_take(a, (size_t)x->n + 1, sizeof(int32_t));
    s->active = arena_take(a, (size_t)x->n, sizeof(int32_t));
    s->x = arena_take(a, rows * embd, sizeof(float));
    s->gate = arena_take(a, rows * ff, sizeof(float));
    s->up = arena_take(a, rows * ff, sizeof(float));
    linear_plan(&s->in, f->model->n_embd, rows, a);
    linear_plan(&s->in_down, x->n_ff, rows, a);
    s->in.x = s->x;
    s->in_down.x = s->gate;
}

void experts_plan_alone(struct forward *f, const struct forward_opts *o, struct arena *a)
{
    *f = (struct forward){
        .model = o->model, .kernels = o->kernels, .pool = o->pool, .chunk = o->chunk};
    linear_plan(&f->act, o->model->n_embd, (size_t)o->chunk, a);
    experts_plan(f, a);
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* Logits to the numbers s of struct model_experts. */
static void gate_logits(const struct model_experts *x, float *s)
{
    float max = s[0], sum = 0.0f;
    if (x->sigmoid) {
        for (int e = 0; e < x->n; e++) s[e] = 1.0f / (1.0f + expf(-s[e]));
        return;
    }
    for (int e = 1; e < x->n; e++) max = s[e] > max ? s[e] : max;
    for (int e = 0; e < x->n; e++) sum += s[e] = expf(s[e] - max);
    for (int e = 0; e < x->n; e++) s[e] /= sum;
}

static float worth(const struct model_experts *x, const float *s, int e)
{
    return x->choice_bias ? s[e] + x->choice_bias[e] : s[e];
}

/* The sum of the two largest numbers of a group; of probabilities the largest (DeepSeek V2). */
static float group_worth(const struct model_experts *x, const float *s, int group)
{
    const int size = x->n / x->n_groups;
    float first = -INFINITY, second = -INFINITY;
    for (int e = group * size; e < (group + 1) * size; e++) {
        const float v = worth(x, s, e);
        second = v > first ? first : v > second ? v : second;
        first = v > first ? v : first;
    }
    return x->sigmoid ? first + second : first;
}

/* The first of the largest numbers that are not closed; numbers that are not comparable count as
 * small. */
static int largest_open(const float *v, const bool *closed, int n)
{
    int best = -1;
    for (int i = 0; i < n; i++)
        if (!closed[i] && (best < 0 || v[i] > v[best])) best = i;
    return best;
}

/* Closes the experts of all groups but the best. */
static void close_groups(const struct model_experts *x, const float *s, bool *closed)
{
    const int size = x->n / x->n_groups;
    float v[MODEL_EXPERTS_MAX];
    bool used[MODEL_EXPERTS_MAX] = {false};
    for (int g = 0; g < x->n_groups; g++) v[g] = group_worth(x, s, g);
    for (int i = 0; i < x->n_groups_used; i++) used[largest_open(v, used, x->n_groups)] = true;
    for (int e = 0; e < x->n; e++) closed[e] = !used[e / size];
}

/* Chooses the experts of one token from the router's logits. */
static void choose_one(const struct model_experts *x, float *logits, int32_t *chosen, float *weight)
{
    float v[MODEL_EXPERTS_MAX], sum = 0.0f;
    bool closed[MODEL_EXPERTS_MAX] = {false};
    gate_logits(x, logits);
    if (x->n_groups > 1) close_groups(x, logits, closed);
    for (int e = 0; e < x->n; e++) v[e] = worth(x, logits, e);
    for (int k = 0; k < x->n_used; k++) {
        const int e = largest_open(v, closed, x->n);
        closed[e] = true;
        chosen[k] = e;
        weight[k] = logits[e];
        sum += logits[e];
    }
    const float scale = x->normalized ? x->scale / (sum + 1e-20f) : x->scale;
    for (int k = 0; k < x->n_used; k++) weight[k] *= scale;
    for (int k = 0; x->weight_scale && k < x->n_used; k++) weight[k] *= x->weight_scale[chosen[k]];
}

static float dot(const float *a, const float *b, int n)
{
    double sum = 0.0;
    for (int i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return (float)sum;
}

static void choose_token(void *ctx, int t, int thread)
{
    const struct layer_step *step = ctx;
    const struct model_experts *x = &step->layer->experts;
    const struct forward *f = step->f;
    const struct experts *s = &f->experts;
    const int n_embd = f->model->n_embd;
    const size_t at = (size_t)t * (size_t)x->n_used;
    (void)thread;
    choose_one(x, s->logits + (size_t)t * (size_t)x->n, s->chosen + at, s->weight + at);
    s->shared[t] = 1.0f;
    if (!x->shared_gate) return;
    const float logit = dot(f->act.x + (size_t)t * (size_t)n_embd, x->shared_gate, n_embd);
    s->shared[t] = 1.0f / (1.0f + expf(-logit));
}

/* ---- sorting --------------------------------------------------------------------------------- */

static void sort_rows(struct experts *s, const struct model_experts *x, int n_tok)
{
    memset(s->first, 0, ((size_t)x->n + 1) * sizeof *s->first);
    for (int i = 0; i < n_tok * x->n_used; i++) s->first[s->chosen[i] + 1]++;
    s->n_active = 0;
    for (int e = 0; e < x->n; e++) {
        if (s->first[e + 1]) s->active[s->n_active++] = e;
        s->first[e + 1] += s->first[e];
    }
    for (int i = 0; i < n_tok * x->n_used; i++) {
        s->row[i] = s->first[s->chosen[i]]++;
        s->token[s->row[i]] = i / x->n_used;
    }
    /* every first row is now that of the next expert */
    memmove(s->first + 1, s->first, (size_t)x->n * sizeof *s->first);
    s->first[0] = 0;
}

/* Copies the input of a row's token, which is prepared in f->act. */
static void gather_row(void *ctx, int r, int thread)
{
    const struct layer_step *step = ctx;
    const struct forward *f = step->f;
    const struct experts *s = &f->experts;
    const size_t embd = (size_t)f->model->n_embd, groups = embd / KN_GROUP;
    const size_t to = (size_t)r, from = (size_t)s->token[r];
    const bool floats = f->watch || !kn_is_quantized(step->layer->experts.gate.type) ||
                        !kn_is_quantized(step->layer->experts.up.type);
    (void)thread;
    memcpy(s->in.q + to * embd, f->act.q + from * embd, embd);
    memcpy(s->in.d + to * groups, f->act.d + from * groups, groups * sizeof(float));
    memcpy(s->in.sum + to * groups, f->act.sum + from * groups, groups * sizeof(int32_t));
    if (floats) memcpy(s->x + to * embd, f->act.x + from * embd, embd * sizeof(float));
}

/* ---- products -------------------------------------------------------------------------------- */

/* Computes rows [row0, row1) of expert e's matrix with the inputs sorted to it. */
static void multiply(const struct layer_step *step, const struct kn_weight *stack,
                     const float *bias, int e, const struct kn_act *in, float *y, int row0,
                     int row1)
{
    const struct forward *f = step->f;
    const struct experts *s = &f->experts;
    const int n_out = stack->n_out / step->layer->experts.n, n_in = stack->n_in;
    const size_t first = (size_t)s->first[e], groups = (size_t)(n_in / KN_GROUP);
    const struct kn_weight w = kn_weight_rows(stack, e * n_out, (e + 1) * n_out);
    const struct kn_act x = {n_in, in->x + first * (size_t)n_in, in->q + first * (size_t)n_in,
                             in->d + first * groups, in->sum + first * groups};
    const struct kn_matmul job = {.w = &w,
                                  .x = &x,
                                  .n_tok = s->first[e + 1] - s->first[e],
                                  .row0 = row0,
                                  .row1 = row1,
                                  .y = y + first * (size_t)n_out,
                                  .y_stride = (size_t)n_out};
    f->kernels->matmul[w.type](&job);
    for (int t = 0; stack->factors && t < job.n_tok; t++)
        linear_scale(job.y + (size_t)t * job.y_stride + row0, stack->factors[e], row1 - row0);
    for (int t = 0; bias && t < job.n_tok; t++)
        f->kernels->mix(job.y + (size_t)t * job.y_stride + row0,
                        bias + (size_t)e * (size_t)n_out + row0, row1 - row0, 1.0f, 1.0f);
}

/* Rows [row0, row1) of gate and up of an expert. */
static void multiply_gate(const struct layer_step *step, int e, int row0, int row1)
{
    const struct model_experts *x = &step->layer->experts;
    const struct experts *s = &step->f->experts;
    linear_gated *gated = linear_activation(step->f, step->layer);
    multiply(step, &x->gate, x->gate_bias, e, &s->in, s->gate, row0, row1);
    multiply(step, &x->up, x->up_bias, e, &s->in, s->up, row0, row1);
    for (int r = s->first[e]; r < s->first[e + 1]; r++) {
        const size_t at = (size_t)r * (size_t)x->n_ff + (size_t)row0;
        gated(s->gate + at, s->gate + at, s->up + at, row1 - row0);
    }
}

static void multiply_down(const struct layer_step *step, int e, int row0, int row1)
{
    const struct model_experts *x = &step->layer->experts;
    const struct experts *s = &step->f->experts;
    multiply(step, &x->down, x->down_bias, e, &s->in_down, s->x, row0, row1);
}

struct product {
    const struct layer_step *step;
    void (*rows)(const struct layer_step *step, int e, int row0, int row1);
    int n_out;
};

/* Panels [begin, end), counted over the experts that have rows. */
static void run_panels(void *ctx, int begin, int end, int thread)
{
    const struct product *p = ctx;
    const int per = linear_parts(p->n_out, KN_PANEL);
    (void)thread;
    while (begin < end) {
        const int i = begin / per, from = begin % per;
        const int to = end - begin < per - from ? from + end - begin : per;
        const int row1 = to * KN_PANEL < p->n_out ? to * KN_PANEL : p->n_out;
        p->rows(p->step, p->step->f->experts.active[i], from * KN_PANEL, row1);
        begin += to - from;
    }
}

static void run_product(const struct layer_step *step, int n_out,
                        void (*rows)(const struct layer_step *, int, int, int))
{
    struct product p = {step, rows, n_out};
    pool_run_spans(step->f->pool, step->f->experts.n_active * linear_parts(n_out, KN_PANEL), SPAN,
                   run_panels, &p);
}

static void quantize_row(void *ctx, int r, int thread)
{
    const struct layer_step *step = ctx;
    (void)thread;
    linear_quantize(step->f, &step->f->experts.in_down, step->f->experts.gate, r);
}

/* ---- a layer --------------------------------------------------------------------------------- */

/* Adds the rows of token t, in the order of its choices, to y. */
static void add_choices(const struct layer_step *step, int t, float *y)
{
    const struct experts *s = &step->f->experts;
    const int n_embd = step->f->model->n_embd, used = step->layer->experts.n_used;
    for (int k = t * used; k < (t + 1) * used; k++) {
        const float *row = s->x + (size_t)s->row[k] * (size_t)n_embd, w = s->weight[k];
        for (int i = 0; i < n_embd; i++) y[i] += w * row[i];
    }
}

/* The sum of the experts' rows and of the dense feed-forward or shared experts, in f->tmp. */
static void combine_token(void *ctx, int t, int thread)
{
    const struct layer_step *step = ctx;
    const struct forward *f = step->f;
    const struct model_experts *x = &step->layer->experts;
    const int n_embd = f->model->n_embd;
    const float eps = f->model->norm_eps;
    const size_t at = (size_t)t * (size_t)n_embd;
    float *y = f->tmp + at, *sum = x->beside ? f->norm + at : y;
    (void)thread;
    if (step->layer->gate.n_out && !x->beside)
        linear_scale(y, f->experts.shared[t], n_embd);
    else
        memset(sum, 0, (size_t)n_embd * sizeof *sum);
    add_choices(step, t, sum);
    if (!x->beside) return;
    f->kernels->rmsnorm(y, y, x->dense_post_norm, n_embd, eps);
    f->kernels->rmsnorm(sum, sum, x->post_norm, n_embd, eps);
    f->kernels->mix(y, sum, n_embd, 1.0f, 1.0f);
}

/* The dense feed-forward or the shared experts, to f->tmp. */
static void run_shared(const struct layer_step *step)
{
    struct forward *f = step->f;
    const struct model_layer *l = step->layer;
    struct linear down = {.f = f, .x = f->gate, .n = step->n, .scale = 1.0f};
    linear_gate(f, l, step->n);
    linear_add(&down, &l->down, l->down_bias, f->tmp, f->model->n_embd);
    linear_run(&down);
}

static void watch_rows(const struct layer_step *step, const struct kn_weight *w, const float *x)
{
    const struct forward *f = step->f;
    if (f->watch) f->watch(f->watch_ctx, w, x, step->n * step->layer->experts.n_used);
}

/* The router's logits; its input is prepared in f->act. */
static void route(const struct layer_step *step)
{
    struct forward *f = step->f;
    const struct model_experts *x = &step->layer->experts;
    struct linear l = {.f = f,
                       .x = f->x,
                       .norm = x->beside ? x->router_norm : step->layer->ffn_norm,
                       .n = step->n,
                       .scale = x->beside ? 1.0f / sqrtf((float)f->model->n_embd) : 1.0f,
                       .integers = true};
    linear_add(&l, &x->router, x->router_bias, f->experts.logits, x->n);
    linear_run(&l);
}

/* The experts' input, where it is not the router's. */
static void prepare(const struct layer_step *step, const float *x, const float *norm)
{
    struct linear l = {.f = step->f, .x = x, .norm = norm, .n = step->n, .integers = true};
    linear_prepare(&l, step->f->model->n_embd);
}

/* The rows of the chosen experts, in s->x, from the input in f->act. */
static void run_chosen(struct layer_step *step)
{
    struct forward *f = step->f;
    struct experts *s = &f->experts;
    const struct model_experts *x = &step->layer->experts;
    const int rows = step->n * x->n_used;
    sort_rows(s, x, step->n);
    linear_each(f, rows, gather_row, step);
    watch_rows(step, &x->gate, s->x);
    watch_rows(step, &x->up, s->x);
    run_product(step, x->n_ff, multiply_gate);
    watch_rows(step, &x->down, s->gate);
    if (kn_is_quantized(x->down.type)) linear_each(f, rows, quantize_row, step);
    run_product(step, f->model->n_embd, multiply_down);
}

void experts_run(struct layer_step *step)
{
    route(step);
    linear_each(step->f, step->n, choose_token, step);
    if (step->layer->experts.beside) prepare(step, step->f->x, step->layer->experts.norm);
    run_chosen(step);
    if (step->layer->gate.n_out) run_shared(step);
    linear_each(step->f, step->n, combine_token, step);
}

/* ---- for a GPU ------------------------------------------------------------------------------- */

static void sum_token(void *ctx, int t, int thread)
{
    const struct layer_step *step = ctx;
    const size_t n_embd = (size_t)step->f->model->n_embd;
    float *y = step->f->tmp + (size_t)t * n_embd;
    (void)thread;
    memset(y, 0, n_embd * sizeof *y);
    add_choices(step, t, y);
}

void experts_sum(void *forward, const struct cuda_chosen *c, float *y)
{
    struct forward *f = forward;
    struct layer_step step = {.f = f, .layer = &f->model->layers[c->layer], .n = c->n};
    const size_t choices = (size_t)(c->n * step.layer->experts.n_used);
    memcpy(f->experts.chosen, c->chosen, choices * sizeof *c->chosen);
    memcpy(f->experts.weight, c->weight, choices * sizeof *c->weight);
    f->tmp = y;
    prepare(&step, c->input, NULL);
    run_chosen(&step);
    linear_each(f, c->n, sum_token, &step);
}
