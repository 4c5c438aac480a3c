/* Time of a whole model's token and chunk behind a full cache, and what each kernel takes of it:
 * both are timed again with every kernel left out in turn, between two runs with all of them. The
 * difference is what the kernel costs where it stands; speed.c times it alone. Next to it is the
 * bound by the time model (ceilings.h), of the kernels that read weights or units. Then chunks that
 * are followed by evictions from all heads.
 *
 * Usage: whole MODEL [DEPTH [CHUNK [TOKENS]]]: a model file, or "-" for the demo model; units per
 * head; tokens of a chunk; generated tokens of a run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/system.h"
#include "cli/options/options.h"
#include "runtime/forward/context.h"
#include "runtime/forward/engine.h"
#include "tests/gpu/ceilings.h"

enum { RUNS = 3, QUICK = 1024 /* a dry run, if the depth is less */ };

static const char *const names[CUDA_N_KERNELS] = {
#define ENTRY(name, args) #name,
    CUDA_KERNELS(ENTRY)
#undef ENTRY
};

static struct whole {
    struct engine *engine;
    struct cuda *gpu;
    struct plan_opts plan;
    struct context x;
    struct ceilings ceilings;
    char folder[400]; /* of this program */
    int depth, chunk, tokens;
    int32_t *ids;                  /* [chunk] */
    struct sampler_entry *scratch; /* [n_vocab] */
    struct err error;

    /* launches, by the functions that stand in for the driver's */
    struct cuda_driver driver;
    struct CUfunc_st *left_out;
    bool counts;
    int64_t waited; /* when the host last had waited for the device */
    int launches[CUDA_N_KERNELS];
    struct work work[CUDA_N_KERNELS]; /* of all launches together */
} the;

static void check(int rc)
{
    if (!rc) return;
    fprintf(stderr, "whole: %s\n", the.error.text);
    exit(1);
}

/* ---- work of a launch ------------------------------------------------------------------------ */

/* The format at the end of a kernel's name, "matmul_q4"; -1 = another end. */
static int format_of(const char *name)
{
    static const char *const ends[] = {"_q4", "_q8", "_mx4", "_q4a", "_q5a", "_q6"};
    for (int i = 0; i < 6; i++)
        if (!strcmp(strrchr(name, '_') ? strrchr(name, '_') : name, ends[i])) return i;
    return -1;
}

/* Adds a product with n_tok tokens. A matrix instruction computes eight of them. */
static void add_product(struct work *to, const struct cuda_weight *w, int format, int n_tok)
{
    const double tiles = (double)((w->n_out + 15) / 16) * ((w->n_in + CUDA_BLOCK - 1) / CUDA_BLOCK);
    to->bytes += tiles * (CUDA_TILE_BYTES(format) + CUDA_TILE_SCALE_BYTES(format));
    to->s8 += tiles * 16 * CUDA_BLOCK * ((n_tok + 7) / 8 * 8);
}

static void add_gate(struct work *to, const struct cuda_matvec_gate *a, int format)
{
    add_product(to, &a->gate, format, a->n_tok);
    add_product(to, &a->up, format, a->n_tok);
}

static void add_chain(struct work *to, const struct cuda_chain *a)
{
    for (int i = 0; i < a->n; i++) {
        const struct cuda_chain_step *s = &a->steps[i];
        if (s->gates)
            add_gate(to, &s->gate, (int)s->format);
        else
            add_product(to, &s->product.w, (int)s->format, s->product.n_tok);
    }
}

/* rows: of queries that a matrix instruction computes, also when there are fewer. */
static void add_attention(struct work *to, const struct cuda_attend *a, int heads, int rows,
                          double unit_bytes, bool keys_int8)
{
    const double units = the.depth + a->n_tok / 2.0;
    const double half = units * heads * rows * a->cache.head_dim;
    to->bytes += units * heads * unit_bytes;
    to->f16 += keys_int8 ? half : 2 * half;
    to->s8 += keys_int8 ? half : 0;
}

/* Adds the work of a launch; of other kernels than these it is not known. */
static void add_work(struct work *to, const char *name, const void *args, int grid_y)
{
    const int format = format_of(name);
    if (!strcmp(name, "chain")) {
        add_chain(to, args);
    } else if (!strncmp(name, "matvec_gate_q", 13)) {
        add_gate(to, args, format);
    } else if (!strncmp(name, "matvec_q", 8) || !strncmp(name, "matmul_q", 8)) {
        const struct cuda_matvec *a = args;
        add_product(to, &a->w, format, a->n_tok);
    } else if (!strncmp(name, "attend_one_", 11)) {
        const struct cuda_attend *a = &((const struct cuda_attend_one *)args)->at;
        add_attention(to, a, grid_y, CUDA_ATTEND_COLS, a->cache.k_bytes + a->cache.v_bytes, false);
    } else if (!strncmp(name, "attend_chunk_", 13) || !strncmp(name, "attend_int8_", 12)) {
        const struct cuda_attend *a = args;
        const bool is_int8 = name[7] == 'i';
        add_attention(to, a, grid_y, a->n_tok * a->n_group, a->cache.head_dim * (is_int8 ? 3 : 4),
                      is_int8);
    } else if (!strcmp(name, "top_k")) {
        to->bytes += 4.0 * ((const struct cuda_top *)args)->n;
    } else if (!strcmp(name, "argmax")) {
        to->bytes += 4.0 * ((const struct cuda_argmax *)args)->n;
    }
}

/* ---- between the program and the driver ------------------------------------------------------ */

/* Notes a launch; false: it is left out. */
static bool launches(struct CUfunc_st *f, unsigned grid_y, void **args)
{
    for (int k = 0; the.counts && k < CUDA_N_KERNELS; k++)
        if (the.gpu->kernels[k] == f) {
            the.launches[k]++;
            add_work(&the.work[k], names[k], args[0], (int)grid_y);
        }
    return f != the.left_out;
}

static int launch_kernel(struct CUfunc_st *f, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                         unsigned block_x, unsigned block_y, unsigned block_z,
                         unsigned shared_bytes, struct CUstream_st *s, void **args, void **extra)
{
    return launches(f, grid_y, args)
               ? the.driver.cuLaunchKernel(f, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                           shared_bytes, s, args, extra)
               : 0;
}

static int launch_cooperative(struct CUfunc_st *f, unsigned grid_x, unsigned grid_y,
                              unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                              unsigned shared_bytes, struct CUstream_st *s, void **args)
{
    return launches(f, grid_y, args)
               ? the.driver.cuLaunchCooperativeKernel(f, grid_x, grid_y, grid_z, block_x, block_y,
                                                      block_z, shared_bytes, s, args)
               : 0;
}

static int wait_stream(struct CUstream_st *s)
{
    const int rc = the.driver.cuStreamSynchronize(s);
    the.waited = system_clock_ns();
    return rc;
}

static void stand_between(void)
{
    the.driver = the.gpu->driver;
    the.gpu->driver.cuLaunchKernel = launch_kernel;
    the.gpu->driver.cuLaunchCooperativeKernel = launch_cooperative;
    the.gpu->driver.cuStreamSynchronize = wait_stream;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static double seconds_since(int64_t t0)
{
    return (double)(system_clock_ns() - t0) / 1e9;
}

static void draw_ids(int n)
{
    const int n_vocab = the.engine->model->n_vocab;
    for (int i = 0; i < n; i++)
        the.ids[i] = (int32_t)(random_at(1, 2, (uint64_t)(the.x.cache.n_pos + i)) * n_vocab);
}

/* Runs n ids; returns the seconds. */
static double run_ids(int n)
{
    draw_ids(n);
    int64_t t0 = system_clock_ns();
    check(context_run(&the.x, the.ids, n, 1, &the.error));
    return seconds_since(t0);
}

/* Cuts the cache to `depth` units; not counted. */
static void make_room(void)
{
    const bool counts = the.counts;
    int64_t n_evicted;
    the.counts = false;
    check(context_evict(&the.x, &n_evicted, &the.error));
    the.counts = counts;
}

/* Seconds of a chunk behind `depth` units. */
static double run_chunk(void)
{
    make_room();
    return run_ids(the.chunk);
}

static double run_token(void)
{
    const struct sampling greedy = {.temperature = 0, .repeat_penalty = 1};
    int32_t id;
    int64_t t0 = system_clock_ns();
    run_ids(1);
    check(context_draw(&the.x, &greedy, NULL, 0, 0, the.scratch, &id, &the.error));
    return seconds_since(t0);
}

/* Seconds of a generated token, the mean of `tokens`, after one that records the graph. */
static double run_tokens(void)
{
    double seconds = 0;
    struct CUgraphExec_st **graph = &the.x.gpu->graphs[1];
    make_room();
    if (*graph) the.driver.cuGraphExecDestroy(*graph);
    *graph = NULL;
    run_token();
    the.counts = false;
    for (int i = 0; i < the.tokens; i++) seconds += run_token();
    return seconds / the.tokens;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int n_runs(void)
{
    return the.depth < QUICK ? 1 : RUNS;
}

static double median(const double v[RUNS])
{
    double low = v[0] < v[1] ? v[0] : v[1], high = v[0] < v[1] ? v[1] : v[0];
    if (n_runs() < RUNS) return v[0];
    return v[2] < low ? low : v[2] > high ? high : v[2];
}

/* What a run takes longer with this kernel than without it. */
static double cost_of(struct CUfunc_st *kernel, double (*run)(void))
{
    double v[RUNS];
    for (int i = 0; i < n_runs(); i++) {
        const double before = run();
        the.left_out = kernel;
        const double without = run();
        the.left_out = NULL;
        v[i] = (before + run()) / 2 - without;
    }
    return median(v);
}

static void print_row(const char *of, int k, double seconds)
{
    struct work w = the.work[k];
    const double each = w.s8 / (16 * 8 * 32) + w.f16 / (16 * 8 * 16); /* matrix instructions */
    w.slots = each * ceilings_slots_of(the.folder, names[k], the.gpu->device.arch);
    const struct bound b = ceilings_bound(&the.ceilings, &w);
    printf("%-18s %-6s %8d %10.1f ", names[k], of, the.launches[k], 1e6 * seconds);
    if (b.seconds > 0)
        printf("%10.1f %-7s %7.2f\n", 1e6 * b.seconds, b.by, seconds / b.seconds);
    else
        printf("%10s %-7s %7s\n", "-", "-", "-");
    fflush(stdout);
}

/* A row for each kernel of a token or of a chunk, and one for the rest: the gaps between launches,
 * and the host. */
static void time_parts(const char *of, double (*run)(void))
{
    double v[RUNS], sum = 0, all;
    memset(the.launches, 0, sizeof the.launches);
    memset(the.work, 0, sizeof the.work);
    the.counts = true;
    run();
    the.counts = false;
    for (int i = 0; i < n_runs(); i++) v[i] = run();
    all = median(v);
    const int n = run == run_chunk ? the.chunk : 1;
    printf("\n%s of %s behind %d units: %.2f ms, %.1f tokens/s\n\n", of, the.engine->model->name,
           the.depth, 1e3 * all, n / all);
    printf("%-18s %-6s %8s %10s %10s %-7s %7s\n", "left out", "of", "launches", "us", "bound us",
           "by", "times");
    fflush(stdout);
    for (int k = 0; k < CUDA_N_KERNELS; k++) {
        if (!the.launches[k]) continue;
        const double seconds = cost_of(the.gpu->kernels[k], run);
        print_row(of, k, seconds);
        sum += seconds;
    }
    printf("%-18s %-6s %8s %10.1f\n", "the rest", of, "", 1e6 * (all - sum));
    fflush(stdout);
}

/* ---- evictions ------------------------------------------------------------------------------- */

static void open_context(const char *policy)
{
    the.plan.policy = policy_choice(policy);
    check(context_open(&the.x, the.engine, &the.plan, 1, 1, &the.error));
}

static void fill(void)
{
    while (cache_len_max(&the.x.cache) < the.depth) run_chunk();
}

/* Cuts all heads to `depth` units on average after each chunk. */
static void time_evictions(const char *policy)
{
    double chunk[RUNS], known[RUNS], all[RUNS];
    int64_t n_evicted;
    context_release(&the.x);
    open_context(policy);
    fill();
    make_room();
    for (int i = 0; i < n_runs(); i++) {
        chunk[i] = run_ids(the.chunk);
        const int64_t t0 = system_clock_ns();
        check(context_evict(&the.x, &n_evicted, &the.error));
        all[i] = seconds_since(t0);
        known[i] = (double)(the.waited - t0) / 1e9;
    }
    printf("\n%s of %s behind %d units: eviction %.2f ms, survivors known after %.2f; chunk before "
           "it %.2f ms\n",
           policy, the.engine->model->name, the.depth, 1e3 * median(all), 1e3 * median(known),
           1e3 * median(chunk));
    fflush(stdout);
}

/* ---- all ------------------------------------------------------------------------------------- */

static void open_model(const char *path)
{
    struct options o;
    options_init(&o);
    check(options_set(&o, OPTIONS_MODEL, "device", "cuda", &the.error));
    if (strcmp(path, "-") != 0) o.engine.model = path;
    o.session.plan.policy = policy_choice("sink");
    o.session.plan.budget = the.depth;
    o.session.plan.chunk = the.chunk;
    the.plan = o.session.plan;
    check(engine_open(&the.engine, &o.engine, &the.plan, 1, NULL, NULL, &the.error));
    open_context("sink");
    the.gpu = the.engine->gpu;
    the.ids = calloc((size_t)the.chunk, sizeof *the.ids);
    the.scratch = calloc((size_t)the.engine->model->n_vocab, sizeof *the.scratch);
    if (!the.ids || !the.scratch) check(err_set(&the.error, ERR_FAIL, "out of memory"));
}

/* Prints how far the GPU's logits are from the CPU's, after a short chunk and one more token. */
static void compare(const char *path)
{
    const int chunk = the.chunk < 16 ? the.chunk : 16;
    const int n_vocab = the.engine->model->n_vocab;
    struct options o;
    struct engine *engine;
    struct context x;
    float *want, *got;
    options_init(&o);
    check(options_set(&o, OPTIONS_MODEL, "device", "cpu", &the.error));
    if (strcmp(path, "-") != 0) o.engine.model = path;
    o.session.plan.policy = policy_choice("sink");
    check(engine_open(&engine, &o.engine, &o.session.plan, 1, NULL, NULL, &the.error));
    check(context_open(&x, engine, &o.session.plan, 1, 1, &the.error));
    for (int n = chunk; n; n = n > 1) {
        double square = 0, most = 0;
        int best[2] = {0};
        run_ids(n);
        check(context_run(&x, the.ids, n, 1, &the.error));
        check(context_logits(&the.x, &got, &the.error));
        check(context_logits(&x, &want, &the.error));
        for (int i = 0; i < n_vocab; i++) {
            if (want[i] > want[best[0]]) best[0] = i;
            if (got[i] > got[best[1]]) best[1] = i;
            if (fabs((double)want[i] - (double)got[i]) > most)
                most = fabs((double)want[i] - (double)got[i]);
            square += (double)want[i] * (double)want[i];
        }
        printf("logits of %d tokens: largest difference to the CPU's %.1e of their rms, first "
               "token %s\n",
               n, most / sqrt(square / n_vocab), best[0] == best[1] ? "equal" : "DIFFERS");
    }
    context_release(&x);
    engine_close(engine);
}

static int number(char **argv, int argc, int i, int otherwise)
{
    return argc > i && atoi(argv[i]) > 0 ? atoi(argv[i]) : otherwise;
}

int main(int argc, char **argv)
{
    struct cuda_device device;
    if (argc < 2) {
        fprintf(stderr, "usage: whole MODEL [DEPTH [CHUNK [TOKENS]]]\n");
        return 2;
    }
    the.depth = number(argv, argc, 2, 16384);
    the.chunk = number(argv, argc, 3, 1024);
    the.tokens = number(argv, argc, 4, 16);
    snprintf(the.folder, sizeof the.folder, "%s", argv[0]);
    if (strrchr(the.folder, '/')) *strrchr(the.folder, '/') = '\0';
    if (cuda_devices(&device, 1, &the.error) < 0) {
        printf("skip: no GPU: %s\n", the.error.text);
        return 0;
    }
    int64_t t0 = system_clock_ns();
    open_model(argv[1]);
    printf("%s: loaded in %.1f s\n", the.engine->model->name, seconds_since(t0));
    compare(argv[1]);
    check(ceilings_measure(&the.ceilings, the.gpu, the.folder, the.depth < QUICK, &the.error));
    stand_between();
    fill();
    time_parts("token", run_tokens);
    time_parts("chunk", run_chunk);
    time_evictions("keydiff+global");
    if (the.engine->retaining) time_evictions("keeper");
    context_release(&the.x);
    engine_close(the.engine);
    return 0;
}
