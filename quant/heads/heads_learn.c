#include "quant/heads/heads_learn.h"

#include <assert.h>
#include <math.h>

#include "base/pool.h"
#include "quant/convert/encode.h"
#include "quant/heads/heads_sample.h"
#include "runtime/forward/engine.h"

#define CLIP 0.5f

/* ---- memory ---------------------------------------------------------------------------------- */

static void plan_nets(struct heads_learn *l, const struct engine *g,
                      const struct heads_learn_opts *o, struct arena *a)
{
    const struct model *m = g->model;
    int n_in = model_n_qkv(m), n = g->gpu ? 1 : m->n_kv_layer;
    struct heads_net unused, *nets = arena_take(a, (size_t)n, sizeof *nets);
    l->pace = arena_take(a, (size_t)m->n_kv_layer * (size_t)n_in, sizeof *l->pace);
    for (int i = 0; i < n; i++) {
        heads_net_plan(nets ? &nets[i] : &unused, n_in, o->hidden, m->n_kv_head, a);
        if (nets) nets[i].pace = l->pace + (size_t)i * (size_t)n_in;
    }
    l->nets = nets;
    if (g->gpu) {
        l->asked = arena_take(a, (size_t)o->length, sizeof *l->asked);
        return;
    }
    heads_work_plan(&l->work, o->length, n_in, o->hidden, m->n_kv_head, pool_n_threads(g->pool), a);
    l->work.kernels = g->kernels;
    l->work.pool = g->pool;
}

static void plan(struct heads_learn *l, const struct engine *g, const struct heads_learn_opts *o,
                 struct arena *a)
{
    const struct model *m = g->model;
    plan_nets(l, g, o, a);
    heads_linear_plan(&l->start, m, a);
}

static struct cuda_trainer_opts trainer_opts(const struct engine *g,
                                             const struct heads_learn_opts *o)
{
    return (struct cuda_trainer_opts){
        .model = g->model, .n_text = o->length, .n_hidden = o->hidden, .noise = HEADS_SHARE_NOISE};
}

size_t heads_learn_bytes(const struct engine *g, const struct heads_learn_opts *o)
{
    const struct cuda_trainer_opts device = trainer_opts(g, o);
    struct heads_learn l;
    struct arena a;
    arena_init_plan(&a, "training");
    plan(&l, g, o, &a);
    return a.used + (g->gpu ? cuda_trainer_plan(&device).host : heads_watch_bytes(g, o->length));
}

size_t heads_learn_device_bytes(const struct engine *g, const struct heads_learn_opts *o)
{
    const struct cuda_trainer_opts device = trainer_opts(g, o);
    return cuda_trainer_plan(&device).device;
}

static bool on_gpu(const struct heads_learn *l)
{
    return l->engine->gpu != NULL;
}

static int open_device(struct heads_learn *l, const struct heads_learn_opts *o, struct err *e)
{
    const struct cuda_trainer_opts device = trainer_opts(l->engine, o);
    const struct plan_opts plan = heads_watch_plan(o->length, 0);
    int rc = context_open(&l->context, l->engine, &plan, 0, 1, e);
    return rc ? rc : cuda_trainer_open(&l->trainer, l->context.gpu, &device, e);
}

int heads_learn_open(struct heads_learn *l, struct engine *g, const struct heads_learn_opts *o,
                     struct err *e)
{
    int rc = 0;
    *l = (struct heads_learn){.engine = g, .layer = -1};
    while (arena_make(&l->arena, "training", &rc, e)) plan(l, g, o, &l->arena);
    if (rc) return rc;
    return g->gpu ? open_device(l, o, e) : heads_watch_open(&l->watch, g, o->length, e);
}

/* The rows and columns of the closed form. */
static void set_linear(const struct heads_linear *start, struct heads_net *net, int layer)
{
    float *w2 = heads_net_w2(net);
    for (int r = 0; r < HEADS_LINEAR_SIDES * net->n_head; r++)
        heads_linear_row(start, layer, RETAINING_W1, r,
                         net->weights + (size_t)r * (size_t)net->n_in);
    for (int h = 0; h < net->n_head; h++)
        heads_linear_row(start, layer, RETAINING_W2, h, w2 + (size_t)h * (size_t)net->n_hidden);
}

/* 1 / the size of 32 inputs. */
static void set_pace(struct heads_learn *l)
{
    const int n = l->engine->model->n_kv_layer * model_n_qkv(l->engine->model);
    for (int i = 0; i < n; i += ENCODE_BLOCK) {
        const int end = i + ENCODE_BLOCK < n ? i + ENCODE_BLOCK : n;
        double sum = 0;
        for (int k = i; k < end; k++)
            sum += (double)l->start.size[k] * (double)l->start.size[k] / (end - i);
        for (int k = i; k < end; k++) l->pace[k] = (float)(1 / sqrt(fmax(sum, 1e-12)));
    }
}

/* Gives the device what a checkpoint or the closed form says. */
static int send_scale(struct heads_learn *l, struct err *e)
{
    return on_gpu(l) ? cuda_trainer_scale(l->trainer, l->start.mean, l->pace, e) : 0;
}

int heads_learn_start(struct heads_learn *l, const struct heads_linear *from, uint64_t seed,
                      struct err *e)
{
    const size_t n_in = (size_t)model_n_qkv(l->engine->model);
    heads_linear_copy(&l->start, from);
    set_pace(l);
    int rc = send_scale(l, e);
    for (int i = 0; !rc && i < l->engine->model->n_kv_layer; i++) {
        struct heads_net *net = &l->nets[on_gpu(l) ? 0 : i];
        net->pace = l->pace + (size_t)i * n_in;
        heads_net_init(net, seed, i + 1);
        set_linear(&l->start, net, i);
        if (on_gpu(l)) rc = cuda_trainer_put(l->trainer, i, CUDA_TRAINER_WEIGHTS, net->weights, e);
    }
    return rc;
}

void heads_learn_close(struct heads_learn *l)
{
    cuda_trainer_close(l->trainer);
    context_release(&l->context);
    heads_watch_close(&l->watch);
    arena_release(&l->arena);
}

int heads_learn_weights(struct heads_learn *l, int layer, const float **out, struct err *e)
{
    *out = l->nets[on_gpu(l) ? 0 : layer].weights;
    if (!on_gpu(l) || l->layer == layer) return 0;
    l->layer = layer;
    return cuda_trainer_get(l->trainer, layer, CUDA_TRAINER_WEIGHTS, l->nets->weights, e);
}

/* ---- a step ---------------------------------------------------------------------------------- */

static void tick(const struct heads_learn *l)
{
    if (l->tick) l->tick(l->tick_ctx);
}

static void add_layer(void *ctx, int layer, struct heads_rows *rows)
{
    struct heads_learn *l = ctx;
    const int n_head = l->engine->model->n_kv_head;
    const float *mean = l->start.mean + layer * n_head;
    for (int i = 0; i < rows->n * n_head; i++) rows->label[i] -= mean[i % n_head];
    l->loss += heads_net_gradient(&l->nets[layer], rows, l->weight, &l->work);
    tick(l);
}

static int add_on_gpu(struct heads_learn *l, const struct heads_sample *s, struct err *e)
{
    struct cuda_trainer_text text = {s->ids.ids, (int)s->ids.n, s->n_context, l->asked, 0};
    assert(text.n <= l->context.plan.chunk);
    for (int t = 0; t < text.n; t++)
        if (s->asks[t]) l->asked[text.n_asked++] = t;
    cache_clear(&l->context.cache);
    int rc = cuda_trainer_add(l->trainer, &text, l->weight, &l->loss, e);
    for (int i = 0; i < l->engine->model->n_kv_layer; i++) tick(l); /* it is short work */
    return rc;
}

int heads_learn_add(struct heads_learn *l, const struct heads_sample *s, int n_rows, double *loss,
                    struct err *e)
{
    const struct model *m = l->engine->model;
    int rc = 0;
    l->weight = 1 / (float)m->n_kv_layer / (float)(n_rows * m->n_kv_head);
    l->loss = 0;
    if (on_gpu(l))
        rc = add_on_gpu(l, s, e);
    else
        heads_watch_run(&l->watch, s, add_layer, l);
    *loss += l->loss;
    return rc;
}

int heads_learn_step(struct heads_learn *l, float rate, int step, struct err *e)
{
    l->layer = -1;
    if (on_gpu(l)) return cuda_trainer_step(l->trainer, rate, CLIP, step, e);
    for (int i = 0; i < l->engine->model->n_kv_layer; i++)
        heads_net_step(&l->nets[i], rate, CLIP, step, l->engine->pool);
    return 0;
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static int transfer(FILE *f, bool write, float *p, size_t n, struct err *e)
{
    if ((write ? fwrite(p, sizeof *p, n, f) : fread(p, sizeof *p, n, f)) == n) return 0;
    return err_set(e, ERR_FORMAT, "the checkpoint ends early");
}

/* On a GPU, by the memory of one net. */
static int transfer_part(struct heads_learn *l, FILE *f, bool write, int layer,
                         enum cuda_trainer_part part, struct err *e)
{
    struct heads_net *net = &l->nets[on_gpu(l) ? 0 : layer];
    float *p = part == CUDA_TRAINER_FIRST    ? net->first
               : part == CUDA_TRAINER_SECOND ? net->second
                                             : net->weights;
    int rc = 0;
    if (on_gpu(l) && write) rc = cuda_trainer_get(l->trainer, layer, part, p, e);
    if (!rc) rc = transfer(f, write, p, net->n, e);
    if (!rc && on_gpu(l) && !write) rc = cuda_trainer_put(l->trainer, layer, part, p, e);
    return rc;
}

static int transfer_start(struct heads_learn *l, FILE *f, bool write, struct err *e)
{
    const struct model *m = l->engine->model;
    const size_t n = (size_t)m->n_kv_layer * (size_t)m->n_kv_head;
    int rc = transfer(f, write, l->start.weight, n * (size_t)l->start.n_unit, e);
    if (!rc) rc = transfer(f, write, l->start.mean, n, e);
    if (!rc) rc = transfer(f, write, l->start.size, (size_t)(m->n_kv_layer * model_n_qkv(m)), e);
    set_pace(l);
    return rc || write ? rc : send_scale(l, e);
}

int heads_learn_transfer(struct heads_learn *l, FILE *f, bool write, struct err *e)
{
    int rc = transfer_start(l, f, write, e);
    l->layer = -1;
    for (int i = 0; !rc && i < l->engine->model->n_kv_layer; i++) {
        rc = transfer_part(l, f, write, i, CUDA_TRAINER_WEIGHTS, e);
        if (!rc) rc = transfer_part(l, f, write, i, CUDA_TRAINER_FIRST, e);
        if (!rc) rc = transfer_part(l, f, write, i, CUDA_TRAINER_SECOND, e);
    }
    return rc;
}
