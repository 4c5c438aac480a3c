#include "quant/heads/heads_net.h"

#include <assert.h>
#include <math.h>

#include "base/pool.h"
#include "base/random.h"
#include "kernels/kernels.h"

#define ROWS_PER_PART    64 /* tokens */
#define NUMBERS_PER_PART 65536

/* ---- memory ---------------------------------------------------------------------------------- */

void heads_net_plan(struct heads_net *net, int n_in, int n_hidden, int n_head, struct arena *a)
{
    size_t n = (size_t)n_hidden * (size_t)(n_in + n_head);
    *net = (struct heads_net){.n_in = n_in, .n_hidden = n_hidden, .n_head = n_head, .n = n};
    net->weights = arena_take(a, n, sizeof(float));
    net->gradient = arena_take(a, n, sizeof(float));
    net->first = arena_take(a, n, sizeof(float));
    net->second = arena_take(a, n, sizeof(float));
}

void heads_work_plan(struct heads_work *w, int n_rows, int n_in, int n_hidden, int n_head,
                     int n_threads, struct arena *a)
{
    size_t n = (size_t)n_rows;
    *w = (struct heads_work){.n_rows = n_rows};
    w->x_t = arena_take(a, n * (size_t)n_in, sizeof(float));
    w->z = arena_take(a, n * (size_t)n_hidden, sizeof(float));
    w->a = arena_take(a, n * (size_t)n_hidden, sizeof(float));
    w->dz_t = arena_take(a, n * (size_t)n_hidden, sizeof(float));
    w->score = arena_take(a, n * (size_t)n_head, sizeof(float));
    w->d_score = arena_take(a, n * (size_t)n_head, sizeof(float));
    w->part =
        arena_take(a, (size_t)n_threads * (size_t)n_hidden * HEADS_NET_COLUMNS, sizeof(float));
}

/* ---- initial weights ------------------------------------------------------------------------- */

/* Box-Muller. */
static float normal(uint64_t seed, int stream, uint64_t i)
{
    double u = 1 - random_at(seed, (uint64_t)stream, 2 * i);
    double v = random_at(seed, (uint64_t)stream, 2 * i + 1);
    return (float)(sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v));
}

static float pace_of(const struct heads_net *net, size_t i)
{
    const size_t n_in = (size_t)net->n_in;
    return net->pace && i < (size_t)net->n_hidden * n_in ? net->pace[i % n_in] : 1;
}

void heads_net_init(struct heads_net *net, uint64_t seed, int stream)
{
    const size_t n_in = (size_t)net->n_in, n1 = (size_t)net->n_hidden * n_in;
    const float deviation = 1 / sqrtf((float)net->n_in);
    for (size_t i = 0; i < net->n; i++)
        net->weights[i] = i < n1 ? normal(seed, stream, i) * deviation * pace_of(net, i) : 0.0f;
}

/* ---- forward --------------------------------------------------------------------------------- */

struct job {
    const struct heads_net *net;
    const struct heads_rows *rows;
    struct heads_work *w;
};

static int parts_of(size_t n, size_t size)
{
    return (int)((n + size - 1) / size);
}

/* y[t][r] = W[r] · x[t] for rows [row0, row1) of W and all n_tok rows of x. */
static void product(const struct heads_work *w, const float *weight, int n_out, int n_in,
                    const float *x, int n_tok, int row0, int row1, float *y)
{
    struct kn_weight weights = {.type = KN_F32, .n_out = n_out, .n_in = n_in, .data = weight};
    struct kn_act act = {.n_in = n_in, .x = x};
    struct kn_matmul m = {&weights, &act, n_tok, row0, row1, y, (size_t)n_out};
    w->kernels->matmul[KN_F32](&m);
}

static float silu(float z)
{
    return z / (1 + expf(-z));
}

static float silu_slope(float z)
{
    float s = 1 / (1 + expf(-z));
    return s * (1 + z * (1 - s));
}

static int part_rows(const struct job *j, int part)
{
    int left = j->rows->n - part * ROWS_PER_PART;
    return left < ROWS_PER_PART ? left : ROWS_PER_PART;
}

static void forward_part(void *ctx, int part, int thread)
{
    const struct job *j = ctx;
    const struct heads_net *net = j->net;
    int n = part_rows(j, part), n_hidden = net->n_hidden;
    size_t t0 = (size_t)part * ROWS_PER_PART;
    float *z = j->w->z + t0 * (size_t)n_hidden, *a = j->w->a + t0 * (size_t)n_hidden;
    (void)thread;
    product(j->w, net->weights, n_hidden, net->n_in, j->rows->x + t0 * (size_t)net->n_in, n, 0,
            n_hidden, z);
    for (int i = 0; i < n * n_hidden; i++) a[i] = silu(z[i]);
    product(j->w, heads_net_w2(net), net->n_head, n_hidden, a, n, 0, net->n_head,
            j->w->score + t0 * (size_t)net->n_head);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* The rows' part of the loss, and its derivative with respect to each score. */
static double compare(const struct job *j, float weight)
{
    const struct heads_rows *r = j->rows;
    const int n = r->n * j->net->n_head;
    float *s = j->w->score, *d = j->w->d_score;
    double loss = 0;
    for (int i = 0; i < n; i++) {
        float e = s[i] - r->label[i], size = fabsf(e);
        loss += size < 1 ? 0.5 * e * e : size - 0.5;
        d[i] = weight * (size < 1 ? e : copysignf(1, e));
    }
    return (double)weight * loss;
}

/* dz = (d_score · W2) * silu'(z), and x, both transposed so that tokens are columns. */
static void turn_part(void *ctx, int part, int thread)
{
    const struct job *j = ctx;
    const struct heads_net *net = j->net;
    const float *w2 = heads_net_w2(net);
    size_t n_rows = (size_t)j->rows->n, n_hidden = (size_t)net->n_hidden;
    size_t n_in = (size_t)net->n_in, n_head = (size_t)net->n_head;
    size_t t0 = (size_t)part * ROWS_PER_PART, t1 = t0 + (size_t)part_rows(j, part);
    (void)thread;
    for (size_t k = 0; k < n_hidden; k++)
        for (size_t t = t0; t < t1; t++) {
            float sum = 0;
            for (size_t h = 0; h < n_head; h++)
                sum += j->w->d_score[t * n_head + h] * w2[h * n_hidden + k];
            j->w->dz_t[k * n_rows + t] = sum * silu_slope(j->w->z[t * n_hidden + k]);
        }
    for (size_t i = 0; i < n_in; i++)
        for (size_t t = t0; t < t1; t++) j->w->x_t[i * n_rows + t] = j->rows->x[t * n_in + i];
}

/* Adds some columns of the gradient of W1: dz^T · x. */
static void first_part(void *ctx, int part, int thread)
{
    const struct job *j = ctx;
    const struct heads_net *net = j->net;
    const size_t n_in = (size_t)net->n_in, n_rows = (size_t)j->rows->n;
    const size_t at = (size_t)part * HEADS_NET_COLUMNS;
    const size_t n = n_in - at < HEADS_NET_COLUMNS ? n_in - at : HEADS_NET_COLUMNS;
    float *sums = j->w->part + (size_t)thread * (size_t)net->n_hidden * HEADS_NET_COLUMNS;
    product(j->w, j->w->x_t + at * n_rows, (int)n, j->rows->n, j->w->dz_t, net->n_hidden, 0, (int)n,
            sums);
    for (size_t k = 0; k < (size_t)net->n_hidden; k++)
        for (size_t i = 0; i < n; i++) net->gradient[k * n_in + at + i] += sums[k * n + i];
}

/* Adds the gradient of one row of W2. */
static void second_part(void *ctx, int h, int thread)
{
    const struct job *j = ctx;
    const struct heads_net *net = j->net;
    size_t n_hidden = (size_t)net->n_hidden;
    float *g = net->gradient + (heads_net_w2(net) - net->weights) + (size_t)h * n_hidden;
    (void)thread;
    for (int t = 0; t < j->rows->n; t++) {
        float d = j->w->d_score[t * net->n_head + h];
        const float *a = j->w->a + (size_t)t * n_hidden;
        for (size_t k = 0; k < n_hidden; k++) g[k] += d * a[k];
    }
}

double heads_net_gradient(struct heads_net *net, const struct heads_rows *rows, float weight,
                          struct heads_work *w)
{
    struct job j = {net, rows, w};
    assert(rows->n <= w->n_rows);
    pool_run(w->pool, parts_of((size_t)rows->n, ROWS_PER_PART), forward_part, &j);
    double loss = compare(&j, weight);
    pool_run(w->pool, parts_of((size_t)rows->n, ROWS_PER_PART), turn_part, &j);
    pool_run(w->pool, parts_of((size_t)net->n_in, HEADS_NET_COLUMNS), first_part, &j);
    pool_run(w->pool, net->n_head, second_part, &j);
    return loss;
}

/* ---- the step -------------------------------------------------------------------------------- */

struct step {
    struct heads_net *net;
    float rate, clip, unbias1, unbias2;
};

static void step_part(void *ctx, int part, int thread)
{
    static const float beta1 = 0.9f, beta2 = 0.95f, decay = 0.01f, epsilon = 1e-8f;
    const struct step *s = ctx;
    struct heads_net *net = s->net;
    size_t i = (size_t)part * NUMBERS_PER_PART, end = i + NUMBERS_PER_PART;
    (void)thread;
    for (; i < end && i < net->n; i++) {
        float g = fminf(fmaxf(net->gradient[i], -s->clip), s->clip);
        net->first[i] = beta1 * net->first[i] + (1 - beta1) * g;
        net->second[i] = beta2 * net->second[i] + (1 - beta2) * g * g;
        float root = sqrtf(net->second[i] / s->unbias2) + epsilon;
        net->weights[i] -= s->rate * (decay * net->weights[i] +
                                      pace_of(net, i) * net->first[i] / s->unbias1 / root);
        net->gradient[i] = 0;
    }
}

void heads_net_step(struct heads_net *net, float rate, float clip, int step, struct pool *p)
{
    struct step s = {net, rate, clip, (float)(1 - pow(0.9, step)), (float)(1 - pow(0.95, step))};
    pool_run(p, parts_of(net->n, NUMBERS_PER_PART), step_part, &s);
}
