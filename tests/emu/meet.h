/* meet: a conversation on the emulated GPU next to the same one on the CPU.
 *
 * Two correct implementations of a quantized model diverge: a difference of 1e-7 before an
 * activation or a key is rounded to int8 or int4 is sometimes a whole step after it, and after four
 * layers this is 1e-1 of the logits. The CPU diverges from itself in the same way (`alone`). So
 * each matrix's input is compared with the CPU's, and then replaced by it. */
#ifndef RETAIN_TESTS_MEET_H
#define RETAIN_TESTS_MEET_H

#include <dlfcn.h>
#include <limits.h>

#include "driver.h"
#include "kernels/cuda/args.h"
#include "runtime/cuda/parts.h"
#include "tests/emu/side.h"

static emu_driver_fail_fn *driver_fail;
static emu_driver_calls_fn *driver_calls;
static emu_driver_memory_fn *driver_memory;
static emu_driver_version_fn *driver_version;
static emu_driver_watch_fn *driver_watch;
static emu_driver_held_fn *driver_held;
static void *driver_library;
static const char *centres_folder; /* in which both sides find the same centres */

/* ---- the driver ------------------------------------------------------------------------------ */

static inline void find(void *to, void *library, const char *name)
{
    void *p = dlsym(library, name);
    if (!p) fail_msg("%s", dlerror());
    memcpy(to, &p, sizeof p);
}

/* Loads the driver beside this program; from now on it is found by name, as NVIDIA's would be. */
static inline int load_driver(void **state)
{
    void *d = driver_library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!d) fail_msg("%s", dlerror());
    find(&driver_fail, d, "emu_driver_fail");
    find(&driver_calls, d, "emu_driver_calls");
    find(&driver_memory, d, "emu_driver_memory");
    find(&driver_version, d, "emu_driver_version");
    find(&driver_watch, d, "emu_driver_watch");
    find(&driver_held, d, "emu_driver_held");
    centres_folder = folder_new();
    return 0;
}

/* ---- a conversation -------------------------------------------------------------------------- */

static inline struct options demo_options(const char *device, const char *policy)
{
    struct options o;
    options_init(&o);
    ok(options_set(&o, OPTIONS_MODEL, "device", device, &err));
    ok(options_set(&o, OPTIONS_MEMORY, "policy", policy, &err));
    o.session.plan.budget = 44;
    o.session.plan.policy.sinks = 2;
    o.session.plan.policy.stabilizers = 8;
    o.session.plan.chunk = 32;
    o.session.plan.attention = PLAN_ATTENTION_FLOAT; /* the CPU's numbers */
    o.session.plan.policy.reserve = 32;
    o.engine.threads = 1;
    o.session.sampling.seed = 1;
    return o;
}

/* The demo model has centres here, too. */
static inline int open_engine(struct side *s, const struct options *o, struct err *e)
{
    struct engine_opts opts = o->engine;
    opts.weight_cache_dir = centres_folder; /* centres that are known are not measured again */
    *s = (struct side){0};
    int rc = engine_open(&s->engine, &opts, &o->session.plan, 1, NULL, NULL, e);
    if (rc) return rc;
    centre_close(s->engine);
    return centre_open(s->engine, centres_folder, true, NULL, NULL, e);
}

static inline int side_open(struct side *s, const struct options *o, struct err *e)
{
    int rc = open_engine(s, o, e);
    return rc ? rc
              : context_open(&s->x, s->engine, &o->session.plan, o->session.sampling.seed, 1, e);
}

/* The same, with scores that can compete across heads without calibration. */
static inline void side_open_plain(struct side *s, const char *device, const char *policy)
{
    struct options o = demo_options(device, policy);
    ok(open_engine(s, &o, &err));
    const struct retaining *h = s->engine->retaining;
    for (int i = 0; i < h->shape.n_layer * h->shape.n_head; i++)
        h->label_std[i] = 1, h->label_mean[i] = 0;
    ok(context_open(&s->x, s->engine, &o.session.plan, o.session.sampling.seed, 1, &err));
}

static inline void open_both(struct side *cpu, struct side *gpu, const char *policy)
{
    struct options o = demo_options("cpu", policy), p = demo_options("cuda", policy);
    if (side_open(cpu, &o, &err) || side_open(gpu, &p, &err)) fail_msg("%s", err.text);
}

/* The distance of the logits, relative to their size. */
static inline double distance(struct side *a, struct side *b)
{
    float *want, *got;
    if (context_logits(&a->x, &want, &err) || context_logits(&b->x, &got, &err))
        fail_msg("%s", err.text);
    return relative(got, want, (size_t)a->engine->model->n_vocab);
}

static inline void run(struct side *s, const int32_t *ids, int n)
{
    ok(context_run(&s->x, ids, n, 1, &err));
}

/* ---- inputs of matrices ---------------------------------------------------------------------- */

enum { INPUTS_MAX = 64 };

struct inputs { /* inputs of the CPU's matrices in one step; shared inputs once */
    const struct model *model;
    const float *stream; /* the CPU's residual stream */
    struct {
        float *x, *stream; /* the input, and what it was normed from, if it was */
        int n_in, n_tok;
    } seen[INPUTS_MAX];
    int n, at;
    int fresh;         /* an input was computed since the last matrix read one */
    const float *made; /* what the last matrix computed its input from, if it did */
};

static inline bool is_first_reader(const struct model *m, const struct kn_weight *w)
{
    for (int i = 0; i < m->n_layer; i++) {
        const struct model_layer *l = &m->layers[i];
        if (w == &l->k || w == &l->v || w == &l->up) return false;
    }
    return true;
}

static inline void watch_cpu(void *ctx, const struct kn_weight *w, const float *x, int n_tok)
{
    struct inputs *in = ctx;
    const size_t bytes = (size_t)w->n_in * (size_t)n_tok * sizeof *x;
    if (!is_first_reader(in->model, w)) return;
    assert_true(in->n < INPUTS_MAX);
    in->seen[in->n].x = malloc(bytes);
    memcpy(in->seen[in->n].x, x, bytes);
    in->seen[in->n].stream = malloc(bytes);
    if (w->n_in == in->model->n_embd) memcpy(in->seen[in->n].stream, in->stream, bytes);
    in->seen[in->n].n_in = w->n_in;
    in->seen[in->n++].n_tok = n_tok;
}

static inline void forget(struct inputs *in)
{
    while (in->n--) {
        free(in->seen[in->n].x);
        free(in->seen[in->n].stream);
    }
    in->n = 0;
    in->at = in->fresh = 0;
    in->made = NULL;
}

/* Byte of column c in a token's blocks (args.h). */
static inline size_t place_of(int c)
{
    return (size_t)(c / 64 * 64 + c % 16 / 4 * 16 + c % 64 / 32 * 8 + c % 32 / 16 * 4 + c % 4);
}

/* Compares the device's int8 with the CPU's floats, then replaces it by their int8. */
static inline void meet(struct inputs *in, const struct cuda_act *act)
{
    assert_true(in->at < in->n);
    const int n_in = in->seen[in->at].n_in, blocks = (n_in + 63) / 64;
    const float *x = in->seen[in->at].x;
    const struct kernels *k = kn_table("ref");
    int8_t *q = malloc((size_t)n_in);
    float *d = malloc((size_t)n_in), *mine = malloc((size_t)n_in * sizeof *mine);
    int32_t *sum = malloc((size_t)n_in * sizeof *sum);
    for (int t = 0; t < in->seen[in->at].n_tok; t++, x += n_in) {
        int8_t *to = act->q + (size_t)(t * blocks) * 64;
        struct cuda_scale *scale = act->scale + (size_t)(t * blocks) * 2;
        k->quantize(q, d, sum, x, n_in);
        for (int c = 0; c < n_in; c++) {
            mine[c] = scale[c / 32].d * (float)to[place_of(c)];
            to[place_of(c)] = q[c];
            scale[c / 32] = (struct cuda_scale){d[c / 32], d[c / 32] * (float)sum[c / 32]};
        }
        const double off = relative(mine, x, (size_t)n_in);
        if (!(off < 2e-2)) fail_msg("input %d, token %d: off by %.1e", in->at, t, off);
    }
    in->at++;
    free(q);
    free(d);
    free(mine);
    free(sum);
}

/* An input that each block computes from a row: the row is compared. */
static inline void meet_row(struct inputs *in, const struct cuda_input *made)
{
    assert_true(in->at < in->n && in->seen[in->at].n_tok == 1);
    const size_t n = (size_t)in->seen[in->at].n_in;
    const float *row = made->w ? in->seen[in->at].stream : in->seen[in->at].x;
    const double off = relative(made->x, row, n);
    if (!(off < 2e-3)) fail_msg("row %d: off by %.1e", in->at, off);
    memcpy((float *)made->x, row, n * sizeof(float));
    in->at++;
}

static inline void watch_gpu(void *ctx, const char *kernel, const void *args)
{
    struct inputs *in = ctx;
    const bool gate = !strncmp(kernel, "matvec_gate", 11);
    if (!strncmp(kernel, "mat", 3)) {
        const struct cuda_matvec *m = args;
        const struct cuda_matvec_gate *g = args;
        const struct cuda_input *made = gate ? &g->made : &m->made;
        if (made->x && made->x != in->made) meet_row(in, made);
        if (!made->x && in->fresh) meet(in, gate ? &g->x : &m->x);
        in->made = made->x;
        in->fresh = 0;
    }
    if (gate || !strcmp(kernel, "norm_quantize") || !strcmp(kernel, "gate_quantize") ||
        !strcmp(kernel, "attend_merge") || !strncmp(kernel, "attend_one", 10))
        in->fresh = 1;
}

/* From now on. Inputs of products that one launch computes cannot be replaced. */
static inline void meet_begin(struct inputs *in, struct side *cpu, struct side *gpu)
{
    in->model = cpu->engine->model;
    in->stream = cpu->x.forward.x;
    cpu->x.forward.watch = watch_cpu;
    cpu->x.forward.watch_ctx = in;
    gpu->x.gpu->chain.off = true;
    driver_watch(watch_gpu, in, true);
}

static inline void meet_end(void)
{
    driver_watch(NULL, NULL, true);
}

static inline void step(struct side *cpu, struct side *gpu, struct inputs *in, const int32_t *ids,
                        int n, const char *what)
{
    run(cpu, ids, n);
    run(gpu, ids, n);
    assert_int_equal(in->at, in->n);
    forget(in);
    const double off = distance(cpu, gpu);
    printf("%s: logits differ by %.1e of their size\n", what, off);
    assert_true(off < 1e-4);
}

/* With equal scores, the same units survive; scores differ in their last bits here, but the demo's
 * are never that close. */
static inline void evict_both(struct side *cpu, struct side *gpu)
{
    int64_t n_evicted[2];
    const struct cache *a = &cpu->x.cache, *b = &gpu->x.cache;
    ok(context_evict(&cpu->x, &n_evicted[0], &err));
    ok(context_evict(&gpu->x, &n_evicted[1], &err));
    assert_true(n_evicted[0] > 0);
    assert_int_equal(n_evicted[0], n_evicted[1]);
    for (int i = 0; i < a->shape.n_layer * a->shape.n_head; i++) {
        assert_int_equal(a->kv_heads[i].len, b->kv_heads[i].len);
        assert_memory_equal(a->kv_heads[i].pos, b->kv_heads[i].pos, (size_t)a->kv_heads[i].len * 4);
    }
    assert_memory_equal(a->kept, b->kept,
                        (size_t)(a->shape.n_layer * a->shape.n_head) * RETENTION_COLS * 4);
}

/* Evicts on both sides, which compute on their own; returns how many survivors of the first layer's
 * heads are the same, of the head with the fewest. */
static inline int evict_first_layer(struct side *cpu, struct side *gpu)
{
    int64_t n_evicted;
    const struct cache *a = &cpu->x.cache, *b = &gpu->x.cache;
    int least = INT_MAX;
    ok(context_evict(&cpu->x, &n_evicted, &err));
    ok(context_evict(&gpu->x, &n_evicted, &err));
    for (int i = 0; i < a->shape.n_head; i++) {
        int n = 0;
        for (int s = 0; s < a->kv_heads[i].len; s++)
            n += cache_slot(&b->kv_heads[i], a->kv_heads[i].pos[s]) < b->kv_heads[i].len &&
                 b->kv_heads[i].pos[cache_slot(&b->kv_heads[i], a->kv_heads[i].pos[s])] ==
                     a->kv_heads[i].pos[s];
        least = n < least ? n : least;
    }
    return least;
}

#endif
