#include "base/memory.h"
#include "runtime/cuda/parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/model/recurrent.h"

/* ---- memory ---------------------------------------------------------------------------------- */

bool cuda_scores_are_sent(const struct policy *p)
{
    return p->scorer == POLICY_POSITION || p->scorer == POLICY_RANDOM;
}

/* The scores and ids of a step of n tokens, in numbers of four bytes. */
static size_t step_words(const struct cuda_context *x, int n)
{
    size_t scores = cuda_scores_are_sent(x->policy) ? (size_t)x->n_heads * (size_t)n : 0;
    return (size_t)n + scores;
}

/* Where position and lengths of tried token t of n are, counted from step->len. */
static size_t step_of_tried(const struct cuda_context *x, int t, int n)
{
    const size_t each = 1 + (size_t)x->n_len;
    return (size_t)x->n_len + step_words(x, n) + (size_t)t * each;
}

static size_t step_bytes(const struct cuda_context *x, int n)
{
    const int n_tried = x->tries ? n : 0;
    return sizeof *x->step + step_of_tried(x, n_tried, n) * 4;
}

void cuda_take_act(struct cuda_act *act, int n, size_t n_row, struct arena *a)
{
    const size_t blocks = n_row * (size_t)cuda_parts_of(n, CUDA_BLOCK);
    act->q = arena_take(a, blocks, CUDA_BLOCK);
    act->scale = arena_take(a, blocks * 2, sizeof *act->scale);
}

static void take_rope(struct cuda_rope *r, size_t n, struct arena *a)
{
    r->cos = arena_take(a, n, sizeof *r->cos);
    r->sin = arena_take(a, n, sizeof *r->sin);
}

static int most(int a, int b)
{
    return a > b ? a : b;
}

/* The results of a layer's operations, [chunk] rows each. */
static void plan_rows(struct cuda_context *x, struct arena *a)
{
    const struct model *m = x->m;
    const struct model_widths n = model_widths(m);
    const size_t chunk = (size_t)x->chunk, f = sizeof(float), embd = (size_t)m->n_embd;
    x->x = arena_take(a, chunk * embd, f);
    x->norm = arena_take(a, chunk * embd, f);
    x->qkv = arena_take(a, chunk * (size_t)n.qkv, f);
    x->att = arena_take(a, chunk * (size_t)n.q, f);
    if (model_has(m).gates) x->open = arena_take(a, chunk * (size_t)n.q, f);
    x->gate = arena_take(a, chunk * (size_t)n.ff, f);
    x->up = arena_take(a, chunk * (size_t)n.ff, f);
    if (m->layers[0].norms != MODEL_NORMS_BEFORE || m->layer_inputs.n || model_experts_of(m))
        x->added = arena_take(a, chunk * embd, f);
    if (m->layer_inputs.n) {
        const size_t all = (size_t)m->n_layer * (size_t)m->layer_inputs.n;
        x->layer_inputs = arena_take(a, chunk * all, f);
        x->layer_own = arena_take(a, chunk * all, f);
    }
    cuda_take_act(&x->act, most(m->n_embd, n.q), chunk, a);
    cuda_take_act(&x->wide, most(most(n.in, n.qkv), x->n_mtp_rows ? 2 * m->n_embd : 0), chunk, a);
}

/* A piece costs 2 % of a wave, and one more must save 5 %: so on an H100 the chunks of SmolLM2, 3B
 * and 8B are cut into 5, 2 and 1. */
int cuda_chunk_splits(int places, int blocks, int most)
{
    int best = 1;
    double least = 1e9;
    for (int n = 1; n <= most; n++) {
        const double waves = cuda_parts_of(blocks * n, places);
        const double time = waves / n + 0.02 * n * blocks / places;
        if (time < 0.95 * least) least = time, best = n;
    }
    return best;
}

/* Partial softmaxes of the layers of one of the caches; *floats: the numbers of all rows. */
static void count_partial(const struct cuda_context *x, struct cuda_units *u,
                          const struct model_heads *h, size_t *floats)
{
    u->n_partial = cuda_larger((size_t)(u->n_split * CUDA_ATTEND_COLS * h->n_kv_head),
                               (size_t)x->chunk * (size_t)(h->n_head * u->chunk_splits));
    *floats = cuda_larger(*floats, u->n_partial * (size_t)h->head_dim);
}

/* Whole layers while heads are of equal length; longer heads one after the other. */
static void plan_expanded(struct cuda_context *x, const struct cache_shape *s, struct arena *a)
{
    const struct model *m = x->m;
    const int dim = m->head_dim;
    struct cuda_expanded_units *u = &x->expanded;
    if (m->latent.rank || (dim != 64 && dim != 96 && dim != 128)) return;
    u->n_tile = cuda_larger((size_t)cuda_parts_of(cache_head_max(s), CUDA_TILE),
                            (size_t)m->n_kv_head * (size_t)cuda_parts_of(s->capacity, CUDA_TILE));
    const size_t numbers = u->n_tile * CUDA_TILE * (size_t)dim;
    u->to.k = arena_take(a, numbers, u->is_int8 ? 1 : 2);
    u->to.v = arena_take(a, numbers, 2);
    u->to.k_scale = arena_take(a, u->n_tile, sizeof *u->to.k_scale);
    u->mean = arena_take(a, (size_t)(m->n_kv_head * dim), sizeof *u->mean);
}

static void plan_attention(struct cuda_context *x, const struct cache_shape *s, struct arena *a)
{
    const struct model *m = x->m;
    const struct model_heads h = model_heads(m, false), w = model_heads(m, true);
    /* attend_decode reads the first tile's rows, even if the cache is smaller */
    const size_t rotations =
        cuda_larger((size_t)cache_head_max(s), CUDA_TILE) * (size_t)m->head_dim / 2;
    size_t floats = 0;
    take_rope(&x->rope, rotations, a);
    if (model_has(m).no_rope) take_rope(&x->still, rotations, a);
    plan_expanded(x, s, a);
    count_partial(x, &x->kv, &h, &floats);
    if (m->windowed.n_layer) {
        take_rope(&x->windowed,
                  (size_t)cache_windows_capacity(&s->windows) * (size_t)w.head_dim / 2, a);
        count_partial(x, &x->windows, &w, &floats);
    }
    const size_t rows = cuda_larger(x->kv.n_partial, x->windows.n_partial);
    x->m_part = arena_take(a, rows, sizeof(float));
    x->l_part = arena_take(a, rows, sizeof(float));
    x->acc_part = arena_take(a, floats, sizeof(float));
}

/* Of n tokens. */
static size_t head_in_floats(const struct cuda_context *x, int n)
{
    return (size_t)(x->kv.n_layer * n) * (size_t)x->n_head_in;
}

static void plan_scratch(struct cuda_context *x, const struct cache_shape *s, struct arena *a)
{
    const struct model *m = x->m;
    const size_t f = sizeof(float);
    x->step_bytes =
        sizeof *x->step + step_of_tried(x, CUDA_TRY_MAX, most(x->chunk, CUDA_TRY_MAX)) * 4;
    x->stage_bytes = cuda_stage_bytes(x);
    x->step = arena_take(a, 1, x->step_bytes);
    plan_rows(x, a);
    plan_attention(x, s, a);
    cuda_experts_plan(x, a);
    cuda_latent_plan(x, a);
    cuda_mtp_plan(x, a);
    if (x->n_logits) x->logits = arena_take(a, (size_t)x->n_logits * (size_t)m->n_vocab, f);
    cuda_scores_plan(x, a);
    if (x->n_head_in) x->head_in = arena_take(a, head_in_floats(x, x->chunk), f);
    x->tickets = arena_take(a, (size_t)m->n_kv_head + 1, sizeof *x->tickets);
    x->best = arena_take(a, CUDA_TRY_MAX, sizeof *x->best);
    const size_t tops = 1 + (size_t)cuda_parts_of(m->n_vocab, CUDA_TOP_PART);
    x->top_id = arena_take(a, tops * CUDA_TOP_MAX, sizeof *x->top_id);
    x->top_logit = arena_take(a, tops * CUDA_TOP_MAX, f);
    x->n_top = arena_take(a, tops, sizeof *x->n_top);
    x->stage = arena_take(a, 1, x->stage_bytes);
}

/* Splits of a cache when few tokens attend: as many blocks as the processors run at one time, each
 * of at least one tile. Constant, so that sums have one order. */
static int splits_of(const struct cuda *g, int slots, const struct model_heads *h)
{
    const int tiles = cuda_parts_of(slots, CUDA_TILE);
    const int n = CUDA_ATTEND_BLOCKS(h->head_dim) * g->device.n_sm / h->n_kv_head;
    return n > tiles ? tiles : n > 1 ? n : 1;
}

/* GeForce (sm_86, 89 and 120) adds the products of halves as floats at half the rate; elsewhere
 * int8 keys would gain nothing, see docs/gpu.md. */
static bool adds_halves_faster(const struct cuda *g)
{
    const int arch = g->device.arch;
    return arch == 86 || arch == 89 || arch == 120;
}

static void describe_scorers(struct cuda_context *x, const struct cuda_context_opts *o)
{
    const bool reads_heads = o->retaining && o->policy->scorer == POLICY_CIS;
    if (reads_heads && cuda_runs_heads(o->retaining))
        x->retaining = o->retaining;
    else if (reads_heads)
        x->n_head_in = o->retaining->shape.n_in;
    x->reads_hidden = x->n_head_in && retaining_reads_hidden(o->retaining->shape.form);
}

static struct cuda_context describe(const struct cuda *g, const struct cuda_context_opts *o)
{
    const struct model *m = o->model;
    const struct cache_windows *w = &o->shape->windows;
    const struct model_heads heads = model_heads(m, false), windowed = model_heads(m, true);
    const struct model_counts n = model_count_layers(m, model_n_device(m));
    struct cuda_context x = {
        .m = m,
        .policy = o->policy,
        .seed = o->seed,
        .chunk = o->chunk,
        .n_logits = model_is_split(m) ? 0 : o->n_logits,
        .n_layer = model_n_device(m),
        .n_mtp_rows = o->n_mtp_rows,
        .n_recurrent = n.n_recurrent,
        .kv.n_layer = n.n_kv,
        .expanded.is_int8 = !o->floats && adds_halves_faster(g),
        .host_experts = o->experts,
    };
    x.kv.n_heads = x.kv.n_layer * m->n_kv_head;
    describe_scorers(&x, o);
    x.kv.n_split = splits_of(g, cache_head_max(o->shape), &heads);
    x.kv.chunk_splits = cuda_chunk_splits(
        g->device.n_sm, m->n_kv_head * cuda_parts_of(o->chunk * model_group(m), CUDA_ATTEND_ROWS),
        5);
    if (n.n_windowed)
        x.windows = (struct cuda_units){
            .n_layer = n.n_windowed,
            .n_heads = n.n_windowed * w->n_head,
            .n_split = splits_of(g, cache_windows_capacity(w), &windowed),
            .chunk_splits = 1,
        };
    x.n_heads = x.kv.n_heads;
    x.n_len = x.n_heads + x.windows.n_heads;
    return x;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int send_rope(struct cuda_context *x, const struct cuda_rope *to, const float *freq,
                     int head_dim, int n_pos, struct err *e)
{
    const int half = head_dim / 2;
    const size_t n = (size_t)n_pos * (size_t)half;
    float *table = malloc(2 * n * sizeof *table);
    if (!table) return err_set(e, ERR_FAIL, "out of memory for the rotary table");
    rope_table(table, table + n, freq, half, n_pos);
    int rc = cuda_put(x->g, to->cos, table, n * sizeof *table, e);
    if (!rc) rc = cuda_put(x->g, to->sin, table + n, n * sizeof *table, e);
    if (!rc) rc = cuda_wait(x->g, e);
    free(table);
    return rc;
}

static int send_ropes(struct cuda_context *x, const struct cache_shape *s, struct err *e)
{
    const struct model *m = x->m;
    const struct model_windowed *w = &m->windowed;
    const int longest = cache_head_max(s), n = most(longest, CUDA_TILE);
    int rc = send_rope(x, &x->rope, rope_freq(&m->rope, longest), m->head_dim, n, e);
    if (!rc && x->still.cos) rc = send_rope(x, &x->still, rope_still, m->head_dim, n, e);
    if (!rc && x->windowed.cos)
        rc = send_rope(x, &x->windowed, rope_freq(&w->rope, longest), w->head_dim,
                       cache_windows_capacity(&s->windows), e);
    return rc;
}

/* Page-locked host memory. */
static void plan_locked(struct cuda_context *x, struct arena *a)
{
    const size_t n_heads = (size_t)x->n_heads, chunk = (size_t)x->chunk, f = sizeof(float);
    const size_t scored = cuda_larger(chunk, CACHE_UNSCORED_MAX);
    x->step_host = arena_take(a, 1, x->step_bytes);
    x->stage_host = arena_take(a, 1, x->stage_bytes);
    x->scores_host = arena_take(a, n_heads * scored, f);
    x->keep_host = arena_take(a, n_heads, sizeof *x->keep_host);
    x->head_in_host = arena_take(a, head_in_floats(x, x->chunk), f);
    if (model_is_split(x->m)) x->rows_host = arena_take(a, chunk * (size_t)x->m->n_embd, f);
    cuda_experts_plan_host(x, a);
}

static void plan_all(struct cuda_context *x, const struct cache_shape *s, struct arena *cache,
                     struct arena *scratch, struct arena *locked)
{
    cuda_cache_plan(x, s, cache, scratch);
    cuda_recurrent_plan(x, cache, scratch);
    plan_scratch(x, s, scratch);
    plan_locked(x, locked);
}

struct cuda_bytes cuda_context_plan(const struct cuda *g, const struct cuda_context_opts *o)
{
    struct cuda_context x = describe(g, o);
    struct arena cache, scratch, locked;
    arena_init_plan(&cache, "cache");
    arena_init_plan(&scratch, "scratch");
    arena_init_plan(&locked, "page-locked memory");
    plan_all(&x, o->shape, &cache, &scratch, &locked);
    return (struct cuda_bytes){cache.used, scratch.used, locked.used};
}

static int take_memory(struct cuda_context *x, const struct cache_shape *s, struct cuda_bytes n,
                       struct err *e)
{
    int rc = cuda_arena_init(x->g, &x->cache_arena, "the cache", n.cache, e);
    if (!rc) rc = cuda_arena_init(x->g, &x->scratch, "scratch", n.scratch, e);
    if (!rc) rc = CUDA_DO(x->g, e, cuMemHostAlloc, &x->locked, n.locked, 0);
    if (rc) return rc;
    struct arena locked = {"page-locked memory", x->locked, n.locked, 0};
    plan_all(x, s, &x->cache_arena, &x->scratch, &locked);
    rc = cuda_cache_open(x, s, e);
    if (!rc) rc = cuda_experts_open(x, e);
    return rc ? rc : send_ropes(x, s, e);
}

int cuda_context_open(struct cuda_context **out, struct cuda *g, const struct cuda_context_opts *o,
                      struct cache *c, struct err *e)
{
    struct cuda_context *x = memory_new(1, sizeof *x);
    *out = NULL;
    *x = describe(g, o);
    x->g = g;
    x->cache = c;
    x->kv.host = c;
    if (x->windows.n_layer) x->windows.host = c->windows;
    int rc = cuda_enter(g, e);
    if (!rc) rc = take_memory(x, o->shape, cuda_context_plan(g, o), e);
    if (rc) {
        cuda_context_close(x);
        return rc;
    }
    c->source = (struct cache_source){cuda_fetch, cuda_fetch_state, x};
    c->n_away = x->n_heads;
    if (c->windows) c->windows->n_away = x->windows.n_heads;
    *out = x;
    return 0;
}

void cuda_context_close(struct cuda_context *x)
{
    if (!x) return;
    x->g->driver.cuCtxSetCurrent(x->g->context);
    x->g->driver.cuStreamSynchronize(x->g->stream); /* copies to memory that is released now */
    for (int i = 0; i <= CUDA_TRY_MAX; i++)
        if (x->graphs[i]) x->g->driver.cuGraphExecDestroy(x->graphs[i]);
    cuda_arena_release(x->g, &x->cache_arena);
    cuda_arena_release(x->g, &x->scratch);
    if (x->locked) x->g->driver.cuMemFreeHost(x->locked);
    cuda_cache_close(x);
    free(x);
}

/* ---- launches -------------------------------------------------------------------------------- */

void cuda_launch(struct cuda_context *x, enum cuda_kernel k, int grid_x, int grid_y, int grid_z,
                 int threads, size_t shared_bytes, const void *args)
{
    void *params[] = {(void *)args};
    cuda_end_chain(x);
    if (x->rc) return;
    for (int tries = 2; tries--;) { /* a refused launch left nothing behind */
        x->rc = CUDA_DO(x->g, x->e, cuLaunchKernel, x->g->kernels[k], (unsigned)grid_x,
                        (unsigned)grid_y, (unsigned)grid_z, (unsigned)threads, 1, 1,
                        (unsigned)shared_bytes, x->g->stream, params, NULL);
        if (!x->rc || !cuda_refused(&x->g->driver)) return;
    }
}

void cuda_launch_together(struct cuda_context *x, enum cuda_kernel k, int grid, int threads,
                          size_t shared_bytes, const void *args)
{
    void *params[] = {(void *)args};
    if (x->rc) return;
    x->rc = CUDA_DO(x->g, x->e, cuLaunchCooperativeKernel, x->g->kernels[k], (unsigned)grid, 1, 1,
                    (unsigned)threads, 1, 1, (unsigned)shared_bytes, x->g->stream, params);
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Writes to page-locked memory, which the copy (or the graph's copy) reads. */
static void write_step(struct cuda_context *x, const int32_t *ids, int n)
{
    const struct cache *c = x->cache;
    struct cuda_step *s = x->step_host;
    s->pos = (uint32_t)c->n_pos;
    s->n_unscored = c->n_unscored;
    for (int i = 0; i < x->n_heads; i++) s->len[i] = c->kv_heads[i].len;
    for (int i = x->n_heads; i < x->n_len; i++)
        s->len[i] = c->windows->kv_heads[i - x->n_heads].len;
    if (ids) memcpy(s->len + x->n_len, ids, (size_t)n * sizeof *ids);
    if (!n || !cuda_scores_are_sent(x->policy)) return;
    float *scores = (float *)(void *)(s->len + x->n_len + n);
    for (int i = 0; i < x->n_heads; i++)
        for (int t = 0; t < n; t++)
            scores[x->tries ? t * x->n_heads + i : i * n + t] =
                policy_score(x->policy, x->seed, i, c->n_pos + t);
}

static void write_tried(struct cuda_context *x, int n)
{
    int32_t *len = x->step_host->len;
    for (int t = 0; t < n; t++) {
        int32_t *to = len + step_of_tried(x, t, n);
        *to++ = (int32_t)(x->step_host->pos + (uint32_t)t);
        for (int i = 0; i < x->n_len; i++) to[i] = len[i] + t;
    }
}

struct cuda_context cuda_alone(const struct cuda_context *x, const struct model_heads *h, int t)
{
    const size_t at = step_of_tried(x, t, x->n), row = (size_t)t;
    const size_t blocks = row * (size_t)cuda_parts_of(heads_n_q(h), CUDA_BLOCK);
    struct cuda_context one = *x;
    one.n = 1;
    one.pos = (const uint32_t *)(const void *)(x->step->len + at);
    one.len_at = (int)at + 1;
    one.sent += t * x->n_heads;
    one.qkv += row * (size_t)heads_n_qkv(h);
    one.att += row * (size_t)heads_n_q(h);
    if (one.open) one.open += row * (size_t)heads_n_q(h);
    one.act.q += blocks * CUDA_BLOCK;
    one.act.scale += blocks * 2;
    return one;
}

/* The logits of n rows of the stream. */
static void run_output(struct cuda_context *x, const float *rows, int n, float *logits)
{
    const struct model *m = x->m;
    const struct cuda_rows in =
        x->n == 1 && rows == x->x
            ? cuda_read_stream(x, m->output_norm,
                               (const struct kn_weight *const[CUDA_READERS]){&m->output})
            : cuda_rows_of(x, rows, m->output_norm, m->n_embd, n, &m->output, x->act);
    cuda_multiply(x, &m->output, m->output_bias, &in, m->logit_scale, logits);
    if (m->logit_softcap > 0.0f)
        cuda_scale_floats(x, logits, (int64_t)n * m->n_vocab, NULL, 1.0f, m->logit_softcap);
}

void cuda_run_logits(struct cuda_context *x)
{
    const struct cuda_argmax best = {x->logits, x->m->n_vocab, x->best};
    run_output(x, x->x + (size_t)(x->n - x->rows) * (size_t)x->m->n_embd, x->rows, x->logits);
    LAUNCH(x, argmax, x->tries ? x->rows : 1, 1, 1, 1024, 256, &best);
}

static size_t rows_bytes(const struct cuda_context *x)
{
    return (size_t)x->n * (size_t)x->m->n_embd * sizeof(float);
}

/* The beginning of the residual stream: embeddings, or rows that the host has computed. */
static void begin_stream(struct cuda_context *x)
{
    if (!x->rows_host) cuda_embed_ids(x, &x->m->embedding, x->m->embed_scale, x->x);
    if (!x->rows_host && x->m->is_centred) cuda_centre(x, NULL);
    if (x->rows_host && !x->rc) x->rc = cuda_put(x->g, x->x, x->rows_host, rows_bytes(x), x->e);
    if (x->m->layer_inputs.n) cuda_run_layer_inputs(x);
    if (x->mtp_rows) cuda_mtp_begin(x);
}

static void run_step(struct cuda_context *x)
{
    if (!x->rc) x->rc = cuda_put(x->g, x->step, x->step_host, step_bytes(x, x->n), x->e);
    begin_stream(x);
    for (int i = 0; i < x->n_layer; i++) cuda_run_ops(x, &x->m->layers[i]);
    cuda_keep_hidden(x);
    if (x->rows) cuda_run_logits(x);
    cuda_end_chain(x);
    if (x->rows_host && !x->rc) x->rc = cuda_get(x->g, x->rows_host, x->x, rows_bytes(x), x->e);
    if (x->n_head_in && !x->rc)
        x->rc = cuda_get(x->g, x->head_in_host, x->head_in, head_in_floats(x, x->n) * sizeof(float),
                         x->e);
    if (x->retaining && !cuda_scores_later(x) && !x->rc)
        x->rc = cuda_get(x->g, x->scores_host, x->new_scores,
                         (size_t)x->n_heads * (size_t)x->n * sizeof *x->new_scores, x->e);
}

/* Records the step of one token, or of as many tried ones; the numbers that change from step to
 * step are in device memory. */
static void record_step(struct cuda_context *x, struct CUgraphExec_st **out)
{
    struct cuda *g = x->g;
    struct CUgraph_st *graph = NULL;
    struct err e;
    x->rc = CUDA_DO(g, x->e, cuStreamBeginCapture, g->stream, CUDA_CAPTURE_THREAD_LOCAL);
    if (x->rc) return;
    x->chain.records = x->n == 1 && g->device.chain_blocks && !x->chain.off;
    run_step(x);
    x->chain.records = false;
    x->chain.job.n = 0; /* after a failure */
    int rc = CUDA_DO(g, x->rc ? &e : x->e, cuStreamEndCapture, g->stream, &graph);
    if (!x->rc) x->rc = rc;
    if (!x->rc) x->rc = CUDA_DO(g, x->e, cuGraphInstantiateWithFlags, out, graph, 0);
    if (graph) g->driver.cuGraphDestroy(graph);
}

/* With chains; without them if the driver refuses a launch that it took when the device was
 * opened. */
static void record(struct cuda_context *x, struct CUgraphExec_st **out)
{
    record_step(x, out);
    if (!x->rc || x->chain.off || !cuda_refused(&x->g->driver)) return;
    x->chain.off = true;
    record_step(x, out);
}

int cuda_begin(struct cuda_context *x, struct err *e)
{
    x->e = e;
    x->rc = x->broken ? x->why.code : cuda_enter(x->g, e);
    if (x->broken && e) *e = x->why;
    return x->rc;
}

int cuda_break(struct cuda_context *x, const struct err *e)
{
    x->broken = true;
    err_set(&x->why, ERR_FAIL, "%s; %s", e->text,
            cuda_refused(&x->g->driver) ? "open the conversation again" : "start retain again");
    return x->why.code;
}

/* The first score of head i's unit of token t, of n. */
static float first_score(const struct cuda_context *x, int i, int t, int n)
{
    if (cuda_scores_later(x)) return 0.0f;
    if (x->retaining) return x->scores_host[i * n + t];
    return policy_score(x->policy, x->seed, i, x->cache->n_pos + t);
}

/* The host's part of the new units; those of windows have no scores. */
static void append_units(struct cuda_context *x, const struct cuda_units *u, int n)
{
    for (int i = 0; i < u->n_heads; i++) {
        struct cache_head *h = &u->host->kv_heads[i];
        for (int t = 0; t < n; t++) {
            h->pos[h->len + t] = (uint32_t)(u->host->n_pos + t);
            h->score[h->len + t] = u == &x->kv ? first_score(x, i, t, n) : 0.0f;
        }
        h->len += n;
    }
}

/* Runs n tokens, whose ids (or rows of the stream) are where the step reads them. */
static int run(struct cuda_context *x, const int32_t *ids, int n, int n_logits, bool tries)
{
    /* not where the CPU takes part in the step; of a split model, the device has no logits */
    const bool recorded = x->g->device.graphs && !model_n_host_experts(x->m) &&
                          (tries || (n == 1 && n_logits == (x->rows_host ? 0 : 1)));
    assert(n >= 1 && n <= x->chunk && n_logits <= x->n_logits && n_logits <= n);
    assert(cache_room(x->cache) >= n);
    if (cuda_cache_room(x, n)) return x->rc;
    x->n = n;
    x->rows = n_logits;
    x->tries = tries;
    x->pos = &x->step->pos;
    x->sent = (const float *)(const void *)(x->step->len + x->n_len + n);
    cuda_put_state(x);
    write_step(x, ids, n);
    if (tries) write_tried(x, n);
    if (recorded) {
        if (!x->graphs[n]) record(x, &x->graphs[n]);
        if (!x->rc) x->rc = CUDA_DO(x->g, x->e, cuGraphLaunch, x->graphs[n], x->g->stream);
    } else {
        run_step(x);
    }
    if (!x->rc) x->rc = cuda_wait(x->g, x->e);
    if (x->rc) return x->rc;
    append_units(x, &x->kv, n);
    append_units(x, &x->windows, n);
    return 0;
}

int cuda_run(struct cuda_context *x, const int32_t *ids, int n, int n_logits, struct err *e)
{
    if (n > 1) cuda_score(x);
    int rc = cuda_begin(x, e);
    if (!rc) rc = run(x, ids, n, n_logits, false);
    if (rc) return rc;
    cache_appended(x->cache, n);
    if (cuda_scores_later(x) && ++x->cache->n_unscored == CACHE_UNSCORED_MAX) cuda_score(x);
    return 0;
}

int cuda_try(struct cuda_context *x, const int32_t *ids, int n, struct err *e)
{
    assert(n > 1 && n <= CUDA_TRY_MAX);
    cuda_score(x);
    int rc = cuda_begin(x, e);
    if (!rc) rc = run(x, ids, n, n, true);
    if (!rc) cache_take_back(x->cache, n);
    return rc;
}

struct cuda_head_inputs cuda_head_inputs(const struct cuda_context *x)
{
    return (struct cuda_head_inputs){x->kv.n_layer, x->n, x->n_head_in ? x->head_in_host : NULL,
                                     (size_t)x->n * (size_t)x->n_head_in};
}

int cuda_run_rows(struct cuda_context *x, float *rows, int n, bool tries, struct err *e)
{
    const size_t bytes = (size_t)n * (size_t)x->m->n_embd * sizeof *rows;
    int rc = cuda_begin(x, e);
    if (rc) return rc;
    memcpy(x->rows_host, rows, bytes);
    rc = run(x, NULL, n, 0, tries);
    if (!rc) memcpy(rows, x->rows_host, bytes);
    return rc;
}

/* ---- copies to the host ---------------------------------------------------------------------- */

int cuda_get_now(struct cuda_context *x, void *to, const void *from, size_t bytes)
{
    if (!x->rc) x->rc = cuda_get(x->g, to, from, bytes, x->e);
    if (!x->rc) x->rc = cuda_wait(x->g, x->e);
    return x->rc;
}

int cuda_logits(struct cuda_context *x, int row, float *out, struct err *e)
{
    const size_t n_vocab = (size_t)x->m->n_vocab, at = x->tries ? (size_t)row * n_vocab : 0;
    if (cuda_begin(x, e)) return x->rc;
    return cuda_get_now(x, out + at, x->logits + at,
                        (x->tries ? 1 : (size_t)x->rows) * n_vocab * sizeof *out);
}

/* The k largest logits of a row: those of each part of the vocabulary, then the largest of these.
 * Returns where they are. */
static struct cuda_top find_top(struct cuda_context *x, int row, int k)
{
    const int n = x->m->n_vocab, parts = cuda_parts_of(n, CUDA_TOP_PART);
    const struct cuda_top each = {x->logits + (size_t)row * (size_t)n,
                                  n,
                                  k,
                                  x->top_id,
                                  x->top_logit,
                                  x->n_top,
                                  CUDA_TOP_PART,
                                  NULL};
    const struct cuda_top all = {x->top_logit,
                                 parts * k,
                                 k,
                                 x->top_id + parts * CUDA_TOP_MAX,
                                 x->top_logit + parts * CUDA_TOP_MAX,
                                 x->n_top + parts,
                                 parts * k,
                                 x->top_id};
    LAUNCH(x, top_k, parts, 1, 1, 1024, CUDA_TOP_SHARED, &each);
    if (parts == 1) return each;
    LAUNCH(x, top_k, 1, 1, 1, 1024, CUDA_TOP_SHARED, &all);
    return all;
}

int cuda_candidates(struct cuda_context *x, int row, const struct sampling *s,
                    struct sampler_entry *out, int *n, struct err *e)
{
    int32_t ids[CUDA_TOP_MAX];
    float logits[CUDA_TOP_MAX];
    *n = 0;
    if (s->repeat_penalty != 1) return 0;
    if (cuda_begin(x, e)) return x->rc;
    if (s->temperature <= 0) {
        *n = 1;
        out->logit = 0;
        return cuda_get_now(x, &out->id, x->best + row, sizeof out->id);
    }
    if (s->top_k <= 0 || s->top_k > CUDA_TOP_MAX || s->top_k >= x->m->n_vocab) return 0;
    const struct cuda_top top = find_top(x, row, s->top_k);
    const size_t k = (size_t)s->top_k;
    if (!x->rc) x->rc = cuda_get(x->g, ids, top.id, k * sizeof *ids, e);
    if (!x->rc) x->rc = cuda_get(x->g, logits, top.logit, k * sizeof *logits, e);
    if (cuda_get_now(x, n, top.n_out, sizeof *n)) return x->rc;
    for (int i = 0; i < *n; i++) out[i] = (struct sampler_entry){logits[i], ids[i]};
    return 0;
}

int cuda_put_lengths(struct cuda_context *x)
{
    x->tries = false;
    write_step(x, NULL, 0);
    if (!x->rc) x->rc = cuda_put(x->g, x->step, x->step_host, step_bytes(x, 0), x->e);
    return x->rc;
}
