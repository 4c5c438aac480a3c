#include "runtime/cuda/trainer.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "runtime/cuda/parts.h"

#define ROWS 1024 /* rows of logits (token, query head) that are computed together */
#define PAD  8    /* float matrices have a multiple of 8 columns */

/* A net of n numbers: W1, then W2. */
struct net {
    float *weight, *gradient, *first, *second;
};

struct cuda_trainer {
    struct cuda_context *x;
    const struct model *m;
    struct cuda_trainer_opts o;
    int n_in, n_head;
    int64_t n; /* numbers of a net */
    struct arena arena, host;
    /* in device memory */
    float *mean;                  /* [n_kv_layer * n_head] */
    float *pace;                  /* [n_kv_layer][n_in] */
    int32_t *asked;               /* [n_text] */
    float *keys;                  /* [n_text][head_dim] of a KV head, rotated */
    float *queries;               /* [ROWS][head_dim] */
    float *logits;                /* [ROWS][n_text] */
    float *base;                  /* [ROWS] */
    float *label, *score, *slope; /* [n_text][n_head] */
    float *slope_t;               /* [n_head][n_pad] */
    float *z;                     /* [n_text][n_hidden] before silu */
    float *wide;                  /* the same after it; then two transposed, one after the other */
    float *x_t;                   /* [n_in][n_pad] */
    float *loss;                  /* [n_kv_layer][n_loss] */
    int n_loss;
    /* on the host */
    struct net *nets; /* [n_kv_layer], in device memory */
    float *loss_host;
    /* of the text that runs */
    const struct cuda_trainer_text *text;
    float weight; /* of a term of the loss */
};

/* ---- memory ---------------------------------------------------------------------------------- */

static int padded(int n)
{
    return (n + PAD - 1) / PAD * PAD;
}

static struct cuda_trainer describe(const struct cuda_trainer_opts *o)
{
    const struct model *m = o->model;
    struct cuda_trainer t = {.m = m, .o = *o, .n_in = model_n_qkv(m), .n_head = m->n_kv_head};
    t.n = (int64_t)o->n_hidden * (t.n_in + t.n_head);
    t.n_loss = cuda_parts_of(o->n_text * t.n_head, 256);
    return t;
}

static void plan_host(struct cuda_trainer *t, struct arena *a)
{
    const size_t layers = (size_t)t->m->n_kv_layer;
    t->nets = arena_take(a, layers, sizeof *t->nets);
    t->loss_host = arena_take(a, layers * (size_t)t->n_loss, sizeof *t->loss_host);
}

static void plan(struct cuda_trainer *t, struct arena *a)
{
    const size_t f = sizeof(float), n_text = (size_t)t->o.n_text,
                 n_pad = (size_t)padded(t->o.n_text);
    const size_t n_head = (size_t)t->n_head, n_hidden = (size_t)t->o.n_hidden;
    const size_t layers = (size_t)t->m->n_kv_layer, dim = (size_t)t->m->head_dim;
    for (int i = 0; i < t->m->n_kv_layer; i++) {
        struct net net = {arena_take(a, (size_t)t->n, f), arena_take(a, (size_t)t->n, f),
                          arena_take(a, (size_t)t->n, f), arena_take(a, (size_t)t->n, f)};
        if (t->nets) t->nets[i] = net;
    }
    t->mean = arena_take(a, layers * n_head, f);
    t->pace = arena_take(a, layers * (size_t)t->n_in, f);
    t->asked = arena_take(a, n_text, sizeof *t->asked);
    t->keys = arena_take(a, n_text * dim, f);
    t->queries = arena_take(a, ROWS * dim, f);
    t->logits = arena_take(a, ROWS * n_text, f);
    t->base = arena_take(a, ROWS, f);
    t->label = arena_take(a, n_text * n_head, f);
    t->score = arena_take(a, n_text * n_head, f);
    t->slope = arena_take(a, n_text * n_head, f);
    t->slope_t = arena_take(a, n_pad * n_head, f);
    t->z = arena_take(a, n_text * n_hidden, f);
    t->wide = arena_take(a, n_pad * n_hidden, f);
    t->x_t = arena_take(a, n_pad * (size_t)t->n_in, f);
    t->loss = arena_take(a, layers * (size_t)t->n_loss, f);
}

struct cuda_trainer_bytes cuda_trainer_plan(const struct cuda_trainer_opts *o)
{
    struct cuda_trainer t = describe(o);
    struct arena device, host;
    arena_init_plan(&device, "training");
    arena_init_plan(&host, "training");
    plan(&t, &device);
    plan_host(&t, &host);
    return (struct cuda_trainer_bytes){device.used, host.used};
}

int cuda_trainer_open(struct cuda_trainer **out, struct cuda_context *x,
                      const struct cuda_trainer_opts *o, struct err *e)
{
    const struct cuda_trainer_bytes bytes = cuda_trainer_plan(o);
    struct cuda_trainer *t = memory_new(1, sizeof *t);
    *out = NULL;
    *t = describe(o);
    t->x = x;
    int rc = arena_init(&t->host, "training", bytes.host, e);
    if (!rc) rc = cuda_begin(x, e);
    if (!rc) rc = cuda_arena_init(x->g, &t->arena, "training", bytes.device, e);
    if (!rc) rc = cuda_wait(x->g, e); /* until it is zero: the trainer may be closed unused */
    if (rc) {
        cuda_trainer_close(t);
        return rc;
    }
    plan_host(t, &t->host);
    plan(t, &t->arena);
    *out = t;
    return 0;
}

void cuda_trainer_close(struct cuda_trainer *t)
{
    if (!t) return;
    struct err ignored;
    t->x->g->driver.cuCtxSetCurrent(t->x->g->context);
    cuda_wait(t->x->g, &ignored); /* for the last step */
    cuda_arena_release(t->x->g, &t->arena);
    arena_release(&t->host);
    free(t);
}

static float *part_of(const struct cuda_trainer *t, int layer, enum cuda_trainer_part part)
{
    const struct net *net = &t->nets[layer];
    return part == CUDA_TRAINER_FIRST    ? net->first
           : part == CUDA_TRAINER_SECOND ? net->second
                                         : net->weight;
}

static int send(struct cuda_trainer *t, void *to, const void *from, size_t bytes, struct err *e)
{
    int rc = cuda_begin(t->x, e);
    if (!rc) rc = cuda_put(t->x->g, to, from, bytes, e);
    return rc ? rc : cuda_wait(t->x->g, e);
}

int cuda_trainer_put(struct cuda_trainer *t, int layer, enum cuda_trainer_part part,
                     const float *from, struct err *e)
{
    return send(t, part_of(t, layer, part), from, (size_t)t->n * sizeof *from, e);
}

int cuda_trainer_get(struct cuda_trainer *t, int layer, enum cuda_trainer_part part, float *to,
                     struct err *e)
{
    if (cuda_begin(t->x, e)) return t->x->rc;
    return cuda_get_now(t->x, to, part_of(t, layer, part), (size_t)t->n * sizeof *to);
}

int cuda_trainer_scale(struct cuda_trainer *t, const float *mean, const float *pace, struct err *e)
{
    const size_t layers = (size_t)t->m->n_kv_layer;
    int rc = send(t, t->mean, mean, layers * (size_t)t->n_head * sizeof *mean, e);
    return rc ? rc : send(t, t->pace, pace, layers * (size_t)t->n_in * sizeof *pace, e);
}

/* ---- labels ---------------------------------------------------------------------------------- */

/* y[t][r] = w[r] · x[t], or added to y. */
static void multiply(struct cuda_trainer *t, const float *w, int n_out, int n_in, const float *x,
                     int x_stride, int n_tok, bool add, float *y, int y_stride)
{
    const struct cuda_floats job = {w,    n_out, n_in, x, x_stride, n_tok,
                                    NULL, 1.0f,  add,  y, y_stride};
    cuda_multiply_floats(t->x, KN_F32, &job);
}

static void rotate(struct cuda_trainer *t, const struct cuda_rope *rope, const float *from,
                   const int32_t *token, int n_group, int n_row, float *to)
{
    const struct cuda_train_rotate job = {from,           t->n_in,   token,     n_group,
                                          t->m->head_dim, rope->cos, rope->sin, to};
    LAUNCH(t->x, train_rotate, n_row, 1, 1, 64, 0, &job);
}

/* The labels of KV head h from some of the asking tokens, whose keys are in t->keys. */
static void ask(struct cuda_trainer *t, const struct model_layer *l, const struct cuda_rope *rope,
                int h, int at, int n_asked)
{
    const struct model *m = t->m;
    const int group = model_group(m), dim = m->head_dim, n_row = n_asked * group;
    const int32_t *token = t->asked + at;
    const int seen = t->text->asked[at + n_asked - 1] + 1;
    rotate(t, rope, t->x->qkv + h * group * dim, token, group, n_row, t->queries);
    multiply(t, t->keys, seen, dim, t->queries, dim, n_row, false, t->logits, t->o.n_text);
    const struct cuda_train_rows rows = {
        t->logits,     t->o.n_text,     token,  group, l->sinks ? l->sinks + h * group : NULL,
        m->attn_scale, m->attn_softcap, t->base};
    LAUNCH(t->x, train_rows, n_row, 1, 1, 256, CUDA_TRAIN_SHARED, &rows);
    const struct cuda_train_columns columns = {t->logits, t->o.n_text,        token,     group,
                                               n_row,     t->text->n_context, t->n_head, t->base,
                                               at == 0,   t->label + h};
    LAUNCH(t->x, train_columns, cuda_parts_of(t->text->n_context, 128), 1, 1, 128, 0, &columns);
}

static void label(struct cuda_trainer *t, const struct model_layer *l, const struct cuda_rope *rope)
{
    const struct model *m = t->m;
    const int most = ROWS / model_group(m);
    for (int h = 0; h < m->n_kv_head; h++) {
        rotate(t, rope, t->x->qkv + (m->n_head + h) * m->head_dim, NULL, 1, t->text->n, t->keys);
        for (int at = 0; at < t->text->n_asked; at += most) {
            const int left = t->text->n_asked - at;
            ask(t, l, rope, h, at, left < most ? left : most);
        }
    }
}

/* ---- the net --------------------------------------------------------------------------------- */

static void score(struct cuda_trainer *t, const struct net *net)
{
    const int n = t->text->n_context, n_hidden = t->o.n_hidden;
    const struct cuda_train_silu silu = {t->z, (int64_t)n * n_hidden, t->wide};
    multiply(t, net->weight, n_hidden, t->n_in, t->x->qkv, t->n_in, n, false, t->z, n_hidden);
    LAUNCH(t->x, train_silu, (int)((silu.n + 255) / 256), 1, 1, 256, 0, &silu);
    multiply(t, net->weight + (int64_t)n_hidden * t->n_in, t->n_head, n_hidden, t->wide, n_hidden,
             n, false, t->score, t->n_head);
}

/* to[c][t] of rows of n_col numbers. */
static void transpose(struct cuda_trainer *t, enum cuda_transpose what, const float *x, int n_col,
                      const float *w2, float *to)
{
    const int n = t->text->n_context, n_pad = padded(n);
    const struct cuda_train_transpose job = {x,    n_col,    n,  n_col,     n_pad,
                                             what, t->slope, w2, t->n_head, to};
    LAUNCH(t->x, train_transpose, cuda_parts_of(n_col, 32), cuda_parts_of(n_pad, 32), 1, 256,
           CUDA_TRANSPOSE_SHARED, &job);
}

/* Adds the gradients of W1 = dz^T · x and of W2 = slope^T · silu(z). */
static void add(struct cuda_trainer *t, int layer)
{
    const struct net *net = &t->nets[layer];
    const int n = t->text->n_context, n_pad = padded(n), n_hidden = t->o.n_hidden;
    const int64_t w2 = (int64_t)n_hidden * t->n_in;
    const struct cuda_train_loss loss = {t->score,  t->label,  t->mean + layer * t->n_head,
                                         n,         t->n_head, t->o.noise,
                                         t->weight, t->slope,  t->loss + layer * t->n_loss};
    LAUNCH(t->x, train_loss, cuda_parts_of(n * t->n_head, 256), 1, 1, 256, CUDA_TRAIN_SHARED,
           &loss);
    transpose(t, CUDA_TRANSPOSE_COPY, t->x->qkv, t->n_in, NULL, t->x_t);
    transpose(t, CUDA_TRANSPOSE_SLOPE, t->z, n_hidden, net->weight + w2, t->wide);
    multiply(t, t->x_t, t->n_in, n_pad, t->wide, n_pad, n_hidden, true, net->gradient, t->n_in);
    transpose(t, CUDA_TRANSPOSE_SILU, t->z, n_hidden, NULL, t->wide);
    transpose(t, CUDA_TRANSPOSE_COPY, t->slope, t->n_head, NULL, t->slope_t);
    multiply(t, t->wide, n_hidden, n_pad, t->slope_t, n_pad, t->n_head, true, net->gradient + w2,
             n_hidden);
}

/* ---- a text ---------------------------------------------------------------------------------- */

/* q, k and v of a layer are in x->qkv, before RoPE, as attention and heads read them. */
static void watch(void *ctx, const struct model_layer *l, const struct cuda_rope *rope)
{
    struct cuda_trainer *t = ctx;
    const int layer = l->kv_layer;
    label(t, l, rope);
    score(t, &t->nets[layer]);
    add(t, layer);
}

static int run(struct cuda_trainer *t, const struct cuda_trainer_text *text, struct err *e)
{
    struct cuda_context *x = t->x;
    int rc = send(t, t->asked, text->asked, (size_t)text->n_asked * sizeof *text->asked, e);
    if (rc) return rc;
    t->text = text;
    x->watch = watch;
    x->watch_ctx = t;
    rc = cuda_run(x, text->ids, text->n, 0, e);
    x->watch = NULL;
    return rc;
}

int cuda_trainer_add(struct cuda_trainer *t, const struct cuda_trainer_text *text, float weight,
                     double *loss, struct err *e)
{
    const int used = cuda_parts_of(text->n_context * t->n_head, 256), layers = t->m->n_kv_layer;
    t->weight = weight;
    *loss = 0;
    int rc = run(t, text, e);
    if (!rc)
        rc = cuda_get_now(t->x, t->loss_host, t->loss,
                          (size_t)(layers * t->n_loss) * sizeof *t->loss);
    for (int i = 0; !rc && i < layers * t->n_loss; i++)
        if (i % t->n_loss < used) *loss += (double)t->loss_host[i];
    return rc;
}

int cuda_trainer_step(struct cuda_trainer *t, float rate, float clip, int step, struct err *e)
{
    if (cuda_begin(t->x, e)) return t->x->rc;
    for (int i = 0; i < t->m->n_kv_layer; i++) {
        const struct net *net = &t->nets[i];
        const struct cuda_train_step job = {net->weight,
                                            net->gradient,
                                            net->first,
                                            net->second,
                                            t->pace + (int64_t)i * t->n_in,
                                            t->n,
                                            (int64_t)t->o.n_hidden * t->n_in,
                                            t->n_in,
                                            rate,
                                            clip,
                                            (float)(1 - pow(0.9, step)),
                                            (float)(1 - pow(0.95, step))};
        LAUNCH(t->x, train_step, (int)((t->n + 255) / 256), 1, 1, 256, 0, &job);
    }
    return t->x->rc;
}
