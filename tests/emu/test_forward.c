/* The demo model's whole forward pass by device kernels, beside the CPU backend: chunks, retaining
 * heads, one eviction, then single tokens. Launches are those a backend makes per layer.
 *
 * Rounding an activation or a key to int8 or int4 turns a difference of 2^-11 into one of a step
 * here and there, and four layers of that into 1e-1 of the logits, whoever computes. So what each
 * matrix reads is compared, and then replaced by what the CPU's matrix read. */
#include "tests/emu/kit.h"

#include "kernels/cuda/pack.h"
#include "runtime/base/pool.h"
#include "runtime/context.h"
#include "runtime/engine.h"
#include "runtime/evict.h"
#include "runtime/options.h"

DECLARE_KERNEL(norm_quantize, cuda_norm);
DECLARE_KERNEL(gate_quantize, cuda_gate);
DECLARE_KERNEL(matvec_q4, cuda_matvec);
DECLARE_KERNEL(matvec_q8, cuda_matvec);
DECLARE_KERNEL(matvec_gate_q4, cuda_matvec_gate);
DECLARE_KERNEL(matvec_gate_q8, cuda_matvec_gate);
DECLARE_KERNEL(matmul_q4, cuda_matvec);
DECLARE_KERNEL(matmul_q8, cuda_matvec);
DECLARE_KERNEL(score_q8, cuda_score);
DECLARE_KERNEL(score_sum, cuda_score_sum);
DECLARE_KERNEL(embed_q4, cuda_embed);
DECLARE_KERNEL(embed_q8, cuda_embed);
DECLARE_KERNEL(kv_append, cuda_append);
DECLARE_KERNEL(cache_advance, cuda_advance);
DECLARE_KERNEL(cache_evict, cuda_evict);
DECLARE_KERNEL(attend_decode_64, cuda_attend);
DECLARE_KERNEL(attend_chunk_64, cuda_attend);
DECLARE_KERNEL(attend_merge, cuda_merge);
DECLARE_KERNEL(argmax, cuda_argmax);

enum { CHUNK = 32, CAPACITY = 64, SPLITS = 2, LAYERS = 32 };
enum { OF_QKV, OF_O, OF_FFN, OF_DOWN, INPUTS }; /* matrices by their input */

struct matrix {
    enum kn_type type;
    struct cuda_weight w;
};

struct device { /* what a backend would hold */
    const struct model *m;
    const struct heads *heads;
    struct matrix q[LAYERS], k[LAYERS], v[LAYERS], o[LAYERS], gate[LAYERS], up[LAYERS],
        down[LAYERS], w1[LAYERS], embedding, output;
    struct cuda_cache cache[LAYERS];
    int32_t *len; /* [n_layer][n_kv_head] */
    uint32_t pos;
    int32_t ids[CHUNK], next;
    float *x, *qkv, *gated, *upped, *part, *logits, *m_part, *l_part, *acc_part;
    struct cuda_act act, act_qkv;
    struct kn_rope rope;
    int n_q, n_kv, n_row, n; /* n: tokens of this step */
    float *att, *norm;
    float *seen[LAYERS][INPUTS + 1]; /* inputs of the CPU's matrices, of the output matrix last */
    uint64_t seed;
    void *held[1024];
    int n_held;
};

/* Device memory, freed with the device. fill: 0, or 0xff for NaN. */
static void *hold(struct device *g, size_t bytes, int fill)
{
    void *p = take(bytes);

    assert_true(g->n_held < COUNT(g->held));
    g->held[g->n_held++] = p;
    memset(p, fill, bytes);
    return p;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* A GGUF block from a panel: a panel's quarters are a block's words. */
static void block_of(uint8_t *block, const struct kn_weight *w, int r, int g)
{
    const int lane = r % KN_PANEL;
    const size_t at = (size_t)(r / KN_PANEL) * (size_t)(w->n_in / 32) + (size_t)g;

    if (w->type == KN_Q4) {
        const struct kn_q4_panel *p = (const struct kn_q4_panel *)w->data + at;
        memcpy(block, &p->d[lane], 2);
        for (int j = 0; j < 4; j++) memcpy(block + 2 + 4 * j, p->qs[j][lane], 4);
    } else {
        const struct kn_q8_panel *p = (const struct kn_q8_panel *)w->data + at;
        memcpy(block, &p->d[lane], 2);
        for (int i = 0; i < 32; i++) block[2 + i] = (uint8_t)(p->qs[i / 4][lane][i % 4] - 128);
    }
}

static struct matrix upload(struct device *g, const struct kn_weight *w)
{
    uint8_t row[34 * 1024];
    const bool q4 = w->type == KN_Q4;

    if (w->type != KN_Q4 && w->type != KN_Q8) fail_msg("a matrix is of type %d", w->type);
    const size_t n = q4 ? cuda_q4_bytes(w->n_out, w->n_in) : cuda_q8_bytes(w->n_out, w->n_in);
    uint8_t *q = hold(g, n, 0);
    uint16_t *d = hold(g, cuda_scale_bytes(w->n_out, w->n_in), 0);
    for (int r = 0; r < w->n_out; r++) {
        for (int i = 0; i < w->n_in / 32; i++) block_of(row + i * (q4 ? 18 : 34), w, r, i);
        if (q4)
            cuda_pack_q4(q, d, r, w->n_in, row);
        else
            cuda_pack_q8(q, d, r, w->n_in, row);
    }
    return (struct matrix){w->type, {q, d, w->n_out, w->n_in}};
}

static void open_cache(struct device *g, int layer)
{
    const struct model *m = g->m;
    const size_t head = (size_t)CAPACITY * kn_kv_bytes(KN_KV_Q4, m->head_dim);
    const size_t heads = (size_t)m->n_kv_head, slots = heads * CAPACITY * 4;

    g->cache[layer] = (struct cuda_cache){hold(g, head * heads, 0xff),
                                          hold(g, head * heads, 0xff),
                                          (int64_t)head,
                                          (int64_t)head,
                                          hold(g, slots, 0xff),
                                          hold(g, slots, 0xff),
                                          CAPACITY,
                                          g->len + layer * m->n_kv_head,
                                          m->n_kv_head,
                                          m->head_dim};
}

static struct device *device_open(const struct context *x)
{
    struct device *g = calloc(1, sizeof *g);

    assert_non_null(g);
    const struct model *m = g->m = x->engine->model;
    const size_t f = sizeof(float), n = CHUNK;

    g->heads = x->engine->heads;
    g->rope = x->forward.rope;
    g->n_q = m->n_head * m->head_dim;
    g->n_kv = m->n_kv_head * m->head_dim;
    g->n_row = g->n_q + 2 * g->n_kv;
    g->len = hold(g, (size_t)(m->n_layer * m->n_kv_head) * 4, 0);
    for (int i = 0; i < m->n_layer; i++) {
        const struct model_layer *l = &m->layers[i];
        g->q[i] = upload(g, &l->q), g->k[i] = upload(g, &l->k), g->v[i] = upload(g, &l->v);
        g->o[i] = upload(g, &l->o), g->gate[i] = upload(g, &l->gate), g->up[i] = upload(g, &l->up);
        g->down[i] = upload(g, &l->down), g->w1[i] = upload(g, &g->heads->layers[i].w1);
        open_cache(g, i);
    }
    g->embedding = upload(g, &m->embedding);
    g->output = upload(g, &m->output);
    const size_t widest = (size_t)(m->n_ff > g->n_row ? m->n_ff : g->n_row) + 64;
    g->x = hold(g, n * (size_t)m->n_embd * f, 0xff);
    g->qkv = hold(g, n * (size_t)g->n_row * f, 0xff);
    g->gated = hold(g, n * (size_t)m->n_ff * f, 0xff);
    g->upped = hold(g, n * (size_t)m->n_ff * f, 0xff);
    g->part = hold(g, 8 * n * (size_t)m->n_kv_head * f, 0xff);
    g->logits = hold(g, (size_t)m->n_vocab * f, 0xff);
    g->m_part = hold(g, SPLITS * n * (size_t)m->n_head * f, 0xff);
    g->l_part = hold(g, SPLITS * n * (size_t)m->n_head * f, 0xff);
    g->acc_part = hold(g, SPLITS * n * (size_t)g->n_q * f, 0xff);
    g->att = hold(g, n * (size_t)g->n_q * f, 0xff);
    g->norm = hold(g, n * widest * f, 0xff);
    g->act = (struct cuda_act){hold(g, n * widest, 0xff), hold(g, n * widest, 0xff)};
    g->act_qkv = (struct cuda_act){hold(g, n * widest, 0xff), hold(g, n * widest, 0xff)};
    return g;
}

static void device_close(struct device *g)
{
    while (g->n_held) free(g->held[--g->n_held]);
    for (int i = 0; i < LAYERS; i++)
        for (int k = 0; k <= INPUTS; k++) free(g->seen[i][k]);
    free(g);
}

/* ---- what the CPU's matrices read --------------------------------------------------------------
 */

static float **seen_at(struct device *g, const struct kn_weight *w)
{
    const struct model *m = g->m;

    for (int i = 0; i < m->n_layer; i++) {
        const struct model_layer *l = &m->layers[i];
        if (w == &l->q) return &g->seen[i][OF_QKV];
        if (w == &l->o) return &g->seen[i][OF_O];
        if (w == &l->gate) return &g->seen[i][OF_FFN];
        if (w == &l->down) return &g->seen[i][OF_DOWN];
    }
    return w == &m->output ? &g->seen[0][INPUTS] : NULL;
}

static void watch(void *ctx, const struct kn_weight *w, const float *x, int n_tok)
{
    const size_t n = (size_t)w->n_in * (size_t)n_tok;
    float **at = seen_at(ctx, w);

    if (!at) return;
    free(*at);
    *at = take(n * sizeof **at);
    memcpy(*at, x, n * sizeof **at);
}

/* The device's input of a matrix is near the CPU's, which it then becomes. */
static void meet(struct device *g, const float *mine, const float *seen, int n, int n_tok,
                 struct cuda_act act, const char *what)
{
    const struct cuda_norm job = {seen, n, NULL, n, 0, act, NULL};
    double diff = 0, size = 0;

    for (int i = 0; mine && i < n * n_tok; i++) {
        diff += ((double)mine[i] - (double)seen[i]) * ((double)mine[i] - (double)seen[i]);
        size += (double)seen[i] * (double)seen[i];
    }
    if (diff > 2e-3 * 2e-3 * size) fail_msg("%s: off by %.1e", what, sqrt(diff / size));
    LAUNCH(norm_quantize, &job, n_tok, 1, 1, 256, 32, g->seed++);
}

/* ---- a step ---------------------------------------------------------------------------------- */

static void norm(struct device *g, const float *x, int stride, const float *w, int n, int n_tok,
                 struct cuda_act act)
{
    const struct cuda_norm job = {x, stride, w, n, g->m->norm_eps, act, g->norm};
    LAUNCH(norm_quantize, &job, n_tok, 1, 1, 256, 32, g->seed++);
}

static void linear(struct device *g, const struct matrix *m, const float *bias, int n_tok, int add,
                   float *y, int stride)
{
    const struct cuda_matvec job = {m->w, g->act, n_tok, bias, 1.0f, add, y, stride};
    const int rows = m->w.n_out, panels = (rows + 15) / 16, x = (rows + 127) / 128;
    const int y_blocks = (n_tok + 63) / 64;
    const size_t shared = CUDA_MATMUL_SHARED;
    const uint64_t s = g->seed++;

    if (n_tok <= 8 && m->type == KN_Q4) LAUNCH(matvec_q4, &job, panels, 1, 1, 256, 4096, s);
    if (n_tok <= 8 && m->type == KN_Q8) LAUNCH(matvec_q8, &job, panels, 1, 1, 256, 4096, s);
    if (n_tok > 8 && m->type == KN_Q4) LAUNCH(matmul_q4, &job, x, y_blocks, 1, 128, shared, s);
    if (n_tok > 8 && m->type == KN_Q8) LAUNCH(matmul_q8, &job, x, y_blocks, 1, 128, shared, s);
}

/* What a retaining head says of the raw projections, into the slots they are about to take. */
static void score(struct device *g, int layer)
{
    const struct heads *heads = g->heads;
    const int parts = (heads->n_hidden + 127) / 128;
    const struct cuda_score job = {g->w1[layer].w, heads->layers[layer].w2, g->act_qkv,
                                   g->n,           heads->n_head,           g->part};
    const struct cuda_score_sum sum = {
        g->part, parts, g->n, heads->n_head, g->cache[layer].len, g->cache[layer].score, CAPACITY};

    norm(g, g->qkv, g->n_row, NULL, g->n_row, g->n, g->act_qkv);
    LAUNCH(score_q8, &job, parts, (g->n + 63) / 64, 1, 128, CUDA_SCORE_SHARED, g->seed++);
    LAUNCH(score_sum, &sum, (g->n * heads->n_head + 127) / 128, 1, 1, 128, 0, g->seed++);
}

static void attention(struct device *g, int layer)
{
    const struct model *m = g->m;
    const int group = m->n_head / m->n_kv_head, rows = g->n * group, n_kv = m->n_kv_head;
    const struct cuda_attend job = {g->cache[layer], g->qkv,    g->n_row,  g->rope.cos,
                                    g->rope.sin,     g->n,      group,     SPLITS,
                                    m->attn_scale,   g->m_part, g->l_part, g->acc_part};
    const struct cuda_merge merge = {g->m_part, g->l_part,   g->acc_part, SPLITS, g->n, group,
                                     n_kv,      m->head_dim, g->act,      g->att, NULL};

    if (rows <= CUDA_ATTEND_COLS)
        LAUNCH(attend_decode_64, &job, SPLITS, n_kv, 1, 128, CUDA_DECODE_SHARED(64), g->seed++);
    else
        LAUNCH(attend_chunk_64, &job, (rows + 63) / 64, n_kv, SPLITS, 128, CUDA_CHUNK_SHARED(64),
               g->seed++);
    LAUNCH(attend_merge, &merge, rows, n_kv, 1, 128, 0, g->seed++);
    meet(g, g->att, g->seen[layer][OF_O], g->n_q, g->n, g->act, "attention");
}

/* int8 of the gate against floats: half a step, and rounding. */
static void near_act(const struct cuda_act *got, const float *x, int n_tok, int n)
{
    for (int t = 0; t < n_tok; t++)
        for (int c = 0; c < n; c++) {
            const struct cuda_scale *s =
                &got->scale[(t * ((n + 63) / 64) + c / 64) * 2 + c % 64 / 32];
            assert_near((double)(s->d * (float)got->q[cuda_act_at(t, c, n)]), (double)x[t * n + c],
                        (double)s->d * 0.52 + 1e-5, "gated");
        }
}

static void feed_forward(struct device *g, int layer)
{
    const struct model *m = g->m;
    const struct matrix *gate = &g->gate[layer], *up = &g->up[layer];

    norm(g, g->x, m->n_embd, m->layers[layer].ffn_norm, m->n_embd, g->n, g->act);
    meet(g, g->norm, g->seen[layer][OF_FFN], m->n_embd, g->n, g->act, "norm");
    if (g->n <= 8) {
        const struct cuda_matvec_gate job = {gate->w, up->w, g->act, g->n, NULL, NULL, g->act_qkv};
        if (gate->type == KN_Q4)
            LAUNCH(matvec_gate_q4, &job, m->n_ff / 32, 1, 1, 256, 4096, g->seed++);
        else
            LAUNCH(matvec_gate_q8, &job, m->n_ff / 32, 1, 1, 256, 4096, g->seed++);
    } else {
        const struct cuda_gate job = {g->gated, g->upped, m->n_ff, g->act_qkv};
        linear(g, gate, NULL, g->n, 0, g->gated, m->n_ff);
        linear(g, up, NULL, g->n, 0, g->upped, m->n_ff);
        LAUNCH(gate_quantize, &job, g->n, 1, 1, 256, 0, g->seed++);
    }
    near_act(&g->act_qkv, g->seen[layer][OF_DOWN], g->n, m->n_ff);
    meet(g, NULL, g->seen[layer][OF_DOWN], m->n_ff, g->n, g->act_qkv, "gate");
    const struct cuda_act act = g->act;
    g->act = g->act_qkv;
    linear(g, &g->down[layer], NULL, g->n, 1, g->x, m->n_embd);
    g->act = act;
}

static void run_layer(struct device *g, int layer)
{
    const struct model *m = g->m;
    float *k = g->qkv + g->n_q, *v = k + g->n_kv;
    const struct cuda_append append = {g->cache[layer], k, v, g->n_row, &g->pos, g->n};

    norm(g, g->x, m->n_embd, m->layers[layer].attn_norm, m->n_embd, g->n, g->act);
    meet(g, g->norm, g->seen[layer][OF_QKV], m->n_embd, g->n, g->act, "norm");
    linear(g, &g->q[layer], m->layers[layer].q_bias, g->n, 0, g->qkv, g->n_row);
    linear(g, &g->k[layer], m->layers[layer].k_bias, g->n, 0, k, g->n_row);
    linear(g, &g->v[layer], m->layers[layer].v_bias, g->n, 0, v, g->n_row);
    LAUNCH(kv_append, &append, g->n, m->n_kv_head, 1, 128, 0, g->seed++);
    score(g, layer);
    attention(g, layer);
    linear(g, &g->o[layer], NULL, g->n, 1, g->x, m->n_embd);
    feed_forward(g, layer);
}

/* Runs n tokens; logits and the likeliest id of the last. */
static void device_run(struct device *g, const int32_t *ids, int n)
{
    const struct model *m = g->m;
    const struct cuda_embed embed = {g->embedding.w, g->ids, m->embed_scale, g->x};
    const struct cuda_advance advance = {g->len, m->n_layer * m->n_kv_head, n, &g->pos};
    const struct cuda_argmax last = {g->logits, m->n_vocab, &g->next};

    g->n = n;
    memcpy(g->ids, ids, (size_t)n * sizeof *ids);
    if (g->embedding.type == KN_Q4)
        LAUNCH(embed_q4, &embed, n, 1, 1, 128, 0, g->seed++);
    else
        LAUNCH(embed_q8, &embed, n, 1, 1, 128, 0, g->seed++);
    for (int i = 0; i < m->n_layer; i++) run_layer(g, i);
    LAUNCH(cache_advance, &advance, 1, 1, 1, 256, 0, g->seed++);
    norm(g, g->x + (n - 1) * m->n_embd, m->n_embd, m->output_norm, m->n_embd, 1, g->act);
    meet(g, g->norm, g->seen[0][INPUTS], m->n_embd, 1, g->act, "output norm");
    linear(g, &g->output, NULL, 1, 0, g->logits, m->n_vocab);
    LAUNCH(argmax, &last, 1, 1, 1, 1024, 256, g->seed++);
}

/* ---- the comparison -------------------------------------------------------------------------- */

static void step(struct context *x, struct device *g, const int32_t *ids, int n, const char *what)
{
    const int n_vocab = g->m->n_vocab;
    double diff = 0, size = 0;
    int best = 0;

    forward_run(&x->forward, &x->cache, ids, n, 1);
    device_run(g, ids, n);
    for (int i = 0; i < n_vocab; i++) {
        const double want = (double)x->forward.logits[i], d = (double)g->logits[i] - want;
        diff += d * d;
        size += want * want;
        if (x->forward.logits[i] > x->forward.logits[best]) best = i;
    }
    printf("%s: logits differ by %.1e of their size\n", what, sqrt(diff / size));
    assert_true(sqrt(diff / size) < 1e-4);
    assert_int_equal(g->next, best);
}

/* Scores are near the CPU's; then, given the same scores, the same units survive. */
static void evict_both(struct context *x, struct device *g, struct evict_rule rule)
{
    const struct model *m = g->m;
    union evict_slot *slots = take(cache_slots(&x->cache.shape) * sizeof *slots);

    for (int i = 0; i < m->n_layer; i++) {
        const struct cuda_cache *c = &g->cache[i];
        const struct cuda_evict job = {*c,   rule.budget, rule.sinks, rule.stabilizers,
                                       NULL, 0,           NULL};
        for (int h = 0; h < m->n_kv_head; h++) {
            const struct cache_head *want = cache_head(&x->cache, i, h);
            for (int s = 0; s < want->len; s++) {
                float *score = &c->score[h * CAPACITY + s];
                assert_near((double)*score, (double)want->score[s],
                            1e-3 * (1 + fabs((double)want->score[s])), "score");
                *score = want->score[s];
            }
        }
        LAUNCH(cache_evict, &job, m->n_kv_head, 1, 1, 256, CUDA_EVICT_SHARED(2 * x->cache.k_bytes),
               g->seed++);
    }
    evict_values(&x->cache, slots);
    assert_true(evict(&x->cache, &rule, x->engine->pool, slots) > 0);
    for (int i = 0; i < m->n_layer; i++)
        for (int h = 0; h < m->n_kv_head; h++) {
            const struct cache_head *want = cache_head(&x->cache, i, h);
            assert_int_equal(g->cache[i].len[h], want->len);
            assert_same(g->cache[i].pos + h * CAPACITY, want->pos, (size_t)want->len * 4,
                        "survivors");
        }
    free(slots);
}

static void demo_model(void **state)
{
    struct options o;
    struct engine *engine;
    struct context x;
    struct err e = {0};
    int32_t ids[64];

    (void)state;
    options_init(&o);
    o.model = "quant/demo/retain-demo.gguf";
    o.heads = "quant/demo/retain-demo-heads.gguf";
    o.kv = "q4";
    o.policy = "locret";
    o.budget = "64";
    o.chunk = CHUNK;
    o.threads = 1;
    if (engine_open(&engine, &o, NULL, NULL, NULL, &e)) fail_msg("%s", e.text);
    if (context_open(&x, engine, &o, 1, &e)) fail_msg("%s", e.text);
    struct device *g = device_open(&x);
    x.forward.watch = watch;
    x.forward.watch_ctx = g;
    for (int i = 0; i < 64; i++) ids[i] = (i * 37 + 11) % g->m->n_vocab;

    step(&x, g, ids, 29, "a chunk");
    step(&x, g, ids + 29, 9, "a second chunk");
    evict_both(&x, g, (struct evict_rule){.budget = 24, .sinks = 2, .stabilizers = 6});
    step(&x, g, ids + 38, 3, "three tokens after an eviction");
    for (int i = 0; i < 3; i++) step(&x, g, ids + 41 + i, 1, "a token");
    device_close(g);
    context_release(&x);
    engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(demo_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
