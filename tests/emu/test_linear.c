/* Matrices, the retaining head, norms and the embedding against the C reference. Integer sums are
 * exact on both sides: only the order of the floats differs. */
#include "tests/emu/matrix.h"

#define BY_TYPE(name)                                                                           \
    {                                                                                           \
        [KN_Q4] = name##_q4, [KN_Q8] = name##_q8, [KN_Q4A] = name##_q4a, [KN_Q5A] = name##_q5a, \
        [KN_Q6] = name##_q6                                                                     \
    }

typedef const char *linear_kernel(const struct emu_launch *, const struct cuda_matvec *);

/* sum |w x| of a row: the scale of rounding errors. */
static double row_size(const struct matrix *m, const struct kn_act *x, int r, int t)
{
    AUTO_BUFFERS;
    const int n = m->cpu.n_in;
    float *row = take((size_t)n * sizeof *row);
    double size = 0;

    kn_row(row, &m->cpu, r);
    for (int c = 0; c < n; c++)
        size += fabs((double)row[c] * (double)x->q[t * n + c] * (double)x->d[(t * n + c) / 32]);
    return size;
}

static void run_matrix(enum kn_type type, bool chunk, const struct cuda_matvec *job, uint64_t seed)
{
    static linear_kernel *const few[KN_TYPES] = BY_TYPE(matvec);
    static linear_kernel *const many[KN_TYPES] = BY_TYPE(matmul);
    const int n = job->w.n_out, x = chunk ? (n + 127) / 128 : (n + 15) / 16;
    const int y = chunk ? (job->n_tok + 63) / 64 : 1;

    if (chunk)
        LAUNCH(many[type], job, x, y, 1, 128, CUDA_MATMUL_SHARED, seed);
    else
        LAUNCH(few[type], job, x, y, 1, 256, CUDA_MATVEC_SHARED, seed);
}

static void check_matrix(enum kn_type type, bool chunk, int n_out, int n_in, int n_tok)
{
    AUTO_BUFFERS;
    struct rng rng = {(uint64_t)(n_out * 31 + n_in * 7 + n_tok)};
    struct matrix m = matrix_new(&rng, type, n_out, n_in);
    struct kn_act x = act_new(&rng, n_tok, n_in, 2.0f);
    struct cuda_act act = cuda_act_from(&x, n_tok);
    const int stride = n_out + 5;
    const size_t bytes = (size_t)(n_tok * stride) * sizeof(float);
    float *y = guarded(bytes), *again = guarded(bytes), *want = take(bytes);
    float *bias = take((size_t)n_out * sizeof *bias);
    struct cuda_matvec job = {m.gpu, act, n_tok, NULL, 1.0f, 0, y, stride, {0}};

    rng_fill(&rng, bias, (size_t)n_out, 1.0f);
    kn_table("ref")->matmul[type](
        &(struct kn_matmul){&m.cpu, &x, n_tok, 0, n_out, want, (size_t)stride});
    run_matrix(type, chunk, &job, 1);
    memcpy(again, y, bytes);
    job.bias = bias;
    job.scale = 0.5f;
    job.add = 1;
    run_matrix(type, chunk, &job, 2);
    for (int t = 0; t < n_tok; t++)
        for (int r = 0; r < n_out; r++) {
            const size_t at = (size_t)(t * stride + r);
            const double size = row_size(&m, &x, r, t) * 0x1p-20 + 1e-6;
            assert_near((double)again[at], (double)want[at], size, "matrix");
            assert_near((double)y[at], (double)(again[at] + (again[at] + bias[r]) * 0.5f), size,
                        "bias, scale and add");
        }
}

TEST(matvec_shapes)
{
    for (int type = KN_Q4; type <= KN_Q6; type++) {
        check_matrix(type, false, 16, 32, 1);
        check_matrix(type, false, 1, 64, 1);
        check_matrix(type, false, 40, 352, 3);
        check_matrix(type, false, 17, 2080, 8);
        check_matrix(type, false, 100, 576, 5);
    }
}

/* A token's bits do not depend on the tokens beside it. */
static void check_alone(enum kn_type type, int n_out, int n_in)
{
    AUTO_BUFFERS;
    struct rng rng = {(uint64_t)(n_out + n_in)};
    struct matrix m = matrix_new(&rng, type, n_out, n_in);
    struct kn_act x = act_new(&rng, CUDA_MATVEC_TOKENS, n_in, 1.0f);
    struct cuda_act act = cuda_act_from(&x, CUDA_MATVEC_TOKENS);
    const size_t bytes = (size_t)n_out * sizeof(float);
    const int n_block = (n_in + CUDA_BLOCK - 1) / CUDA_BLOCK;
    float *all = guarded(CUDA_MATVEC_TOKENS * bytes), *one = guarded(bytes);
    struct cuda_matvec job = {m.gpu, act, CUDA_MATVEC_TOKENS, NULL, 1.0f, 0, all, n_out, {0}};

    run_matrix(type, false, &job, 1);
    job.n_tok = 1;
    job.y = one;
    for (int t = 0; t < CUDA_MATVEC_TOKENS; t++) {
        job.x = (struct cuda_act){act.q + t * n_block * CUDA_BLOCK, act.scale + t * n_block * 2};
        run_matrix(type, false, &job, (uint64_t)t);
        assert_same(one, all + t * n_out, bytes, "a token alone");
    }
}

TEST(tokens_alone)
{
    for (int type = KN_Q4; type <= KN_Q6; type++) {
        check_alone(type, 17, 352);
        check_alone(type, 16, 4672);
    }
}

TEST(matmul_shapes)
{
    for (int type = KN_Q4; type <= KN_Q6; type++) {
        check_matrix(type, true, 16, 32, 1);
        check_matrix(type, true, 130, 96, 70);
        check_matrix(type, true, 200, 320, 9);
        check_matrix(type, true, 7, 256, 64);
    }
}

/* ---- inputs computed by the blocks that read them -------------------------------------------- */

/* The same bits as norm_quantize and then the matrix. */
static void check_made(enum kn_type type, int n_out, int n_in, bool norm)
{
    AUTO_BUFFERS;
    static linear_kernel *const few[KN_TYPES] = BY_TYPE(matvec);
    struct rng rng = {(uint64_t)(n_out + n_in)};
    struct matrix m = matrix_new(&rng, type, n_out, n_in);
    float *x = take((size_t)n_in * 4), *w = take((size_t)n_in * 4);
    float *y = guarded((size_t)n_out * 4), *want = guarded((size_t)n_out * 4);
    struct cuda_act act = cuda_act_new(1, n_in);
    const struct cuda_norm first = {x, n_in, norm ? w : NULL, n_in, 1e-5f, act, NULL, NULL};
    const struct cuda_matvec then = {m.gpu, act, 1, NULL, 1.0f, 0, want, n_out, {0}};
    const struct cuda_matvec both = {
        m.gpu, {0}, 1, NULL, 1.0f, 0, y, n_out, {x, norm ? w : NULL, 1e-5f}};
    const int panels = cuda_panels(n_out);

    rng_fill(&rng, x, (size_t)n_in, 3.0f);
    rng_fill(&rng, w, (size_t)n_in, 1.0f);
    LAUNCH(norm_quantize, &first, 1, 1, 1, 256, 32, 1);
    LAUNCH(few[type], &then, panels, 1, 1, 256, CUDA_MATVEC_SHARED, 2);
    LAUNCH(few[type], &both, panels, 1, 1, 256, CUDA_MATVEC_SHARED_MADE(n_in), 3);
    assert_same(y, want, (size_t)n_out * 4, "made");
}

TEST(made_inputs)
{
    check_made(KN_Q4, 40, 352, true);
    check_made(KN_Q8, 17, 96, true);
    check_made(KN_Q6, 16, 576, false);
}

/* ---- the gate -------------------------------------------------------------------------------- */

static void same_act(const struct cuda_act *got, const float *x, int n_tok, int n, const char *what)
{
    AUTO_BUFFERS;
    const size_t floats = (size_t)(n_tok * n), blocks = (size_t)(n_tok * ((n + 63) / 64));
    struct kn_act act = {n, x, take(floats), take(floats * 4), take(floats * 4)};

    kn_table("ref")->quantize(act.q, act.d, act.sum, x, (int)floats);
    struct cuda_act want = cuda_act_from(&act, n_tok);
    assert_same(got->q, want.q, blocks * 64, what);
    assert_same(got->scale, want.scale, blocks * 2 * sizeof(struct cuda_scale), what);
}

/* d q of the device against the CPU's floats: half a step of the scale and rounding. */
static void near_act(const struct cuda_act *got, const float *x, int n_tok, int n)
{
    for (int t = 0; t < n_tok; t++)
        for (int c = 0; c < n; c++) {
            const struct cuda_scale *s =
                &got->scale[(t * ((n + 63) / 64) + c / 64) * 2 + c % 64 / 32];
            assert_near((double)(s->d * (float)got->q[cuda_act_at(t, c, n)]), (double)x[t * n + c],
                        (double)s->d * 0.51 + 1e-5, "gated");
        }
}

static void relu_mul(float *y, const float *gate, const float *up, int n)
{
    for (int i = 0; i < n; i++) y[i] = gate[i] > 0 ? gate[i] * up[i] : 0;
}

static void check_gate(enum kn_type type, int n_out, int n_in, int n_tok, enum cuda_activation f)
{
    AUTO_BUFFERS;
    struct rng rng = {(uint64_t)(n_out + n_in)};
    struct matrix gate = matrix_new(&rng, type, n_out, n_in),
                  up = matrix_new(&rng, type, n_out, n_in);
    struct kn_act x = act_new(&rng, n_tok, n_in, 1.0f);
    const size_t n = (size_t)(n_out * n_tok);
    float *g = take(n * sizeof *g), *u = take(n * sizeof *u), *bias = take(n * sizeof *bias);
    struct cuda_matvec_gate job = {gate.gpu, up.gpu, cuda_act_from(&x, n_tok),   n_tok,
                                   NULL,     bias,   cuda_act_new(n_tok, n_out), {0},
                                   f};

    rng_fill(&rng, bias, (size_t)n_out, 1.0f);
    static const char *(*const gates[KN_TYPES])(
        const struct emu_launch *, const struct cuda_matvec_gate *) = BY_TYPE(matvec_gate);
    LAUNCH(gates[type], &job, n_out / 32, 1, 1, 256, CUDA_MATVEC_SHARED, 5);
    const struct kernels *ref = kn_table("ref");
    ref->matmul[type](&(struct kn_matmul){&gate.cpu, &x, n_tok, 0, n_out, g, (size_t)n_out});
    ref->matmul[type](&(struct kn_matmul){&up.cpu, &x, n_tok, 0, n_out, u, (size_t)n_out});
    for (size_t i = 0; i < n; i++) u[i] += bias[i % (size_t)n_out];
    struct cuda_gate two = {g, u, n_out, cuda_act_new(n_tok, n_out), f};
    float *rows = guarded(n * sizeof *rows);
    const struct cuda_gate_rows floats = {g, u, n_out, n_out, n_out, f, rows};
    LAUNCH(gate_quantize, &two, n_tok, (n_out + 1023) / 1024, 1, 256, 0, 6); /* as used by chunks */
    LAUNCH(gate_rows, &floats, n_tok, 1, 1, 256, 0, 7);
    void (*const mul[])(float *, const float *, const float *,
                        int) = {ref->silu_mul, ref->silu_clamped_mul, ref->gelu_mul, relu_mul};
    for (int t = 0; t < n_tok; t++) mul[f](g + t * n_out, g + t * n_out, u + t * n_out, n_out);
    for (size_t i = 0; i < n; i++)
        assert_near((double)rows[i], (double)g[i], 1e-5 + 1e-5 * fabs((double)g[i]), "gated");
    near_act(&job.act, g, n_tok, n_out);
    near_act(&two.act, g, n_tok, n_out);
}

/* ---- chains ---------------------------------------------------------------------------------- */

/* The products of a layer, of different types: o, gate and up, down, and two parts of the next q, k
 * and v, of one token with d columns and ff hidden ones. */
struct layer {
    struct matrix o, gate, up, down, q, k;
    struct cuda_act in, wide;
    float *x, *w, *qkv; /* w: of the norm, and a bias of q */
    struct cuda_chain job;
};

static struct layer layer_new(int d, int ff, const enum kn_type types[5])
{
    struct rng rng = {(uint64_t)(d + ff)};
    struct layer l = {
        .o = matrix_new(&rng, types[0], d, d),
        .gate = matrix_new(&rng, types[1], ff, d),
        .up = matrix_new(&rng, types[1], ff, d),
        .down = matrix_new(&rng, types[2], d, ff),
        .q = matrix_new(&rng, types[3], d + 8, d),
        .k = matrix_new(&rng, types[4], 24, d),
        .in = cuda_act_new(1, d),
        .wide = cuda_act_new(1, ff),
        .x = guarded((size_t)d * 4),
        .w = take((size_t)(d + 8) * 4),
        .qkv = guarded((size_t)(d + 32) * 4),
    };
    rng_fill(&rng, l.w, (size_t)d + 8, 1.0f);
    return l;
}

static enum cuda_format format_of(enum kn_type type)
{
    return type == KN_Q4    ? CUDA_Q4
           : type == KN_Q8  ? CUDA_Q8
           : type == KN_Q4A ? CUDA_Q4A
           : type == KN_Q5A ? CUDA_Q5A
                            : CUDA_Q6;
}

static void chain_steps(struct layer *l, int d, const enum kn_type types[5], uint32_t *ended)
{
    const struct cuda_input made = {l->x, l->w, 1e-5f};
    const struct cuda_matvec o = {l->o.gpu, l->in, 1, NULL, 0.5f, 1, l->x, d, {0}};
    const struct cuda_matvec down = {l->down.gpu, l->wide, 1, NULL, 1.0f, 1, l->x, d, {0}};
    const struct cuda_matvec q = {l->q.gpu, {0}, 1, l->w, 1.0f, 0, l->qkv, d, made};
    const struct cuda_matvec k = {l->k.gpu, {0}, 1, NULL, 1.0f, 0, l->qkv + d + 8, d, made};
    const struct cuda_matvec_gate gate = {l->gate.gpu, l->up.gpu, {0},  1,        NULL,
                                          NULL,        l->wide,   made, CUDA_SILU};
    l->job = (struct cuda_chain){.steps = {{.product = o},
                                           {.gates = 1, .waits = 1, .gate = gate},
                                           {.waits = 1, .product = down},
                                           {.waits = 1, .product = q},
                                           {.product = k}},
                                 .n = 5,
                                 .ended = ended};
    for (int i = 0; i < 5; i++) l->job.steps[i].format = format_of(types[i]);
}

/* As the steps' own kernels, and again with the count that the first launch left. */
static void check_chain(int d, int ff, const enum kn_type types[5])
{
    AUTO_BUFFERS;
    static linear_kernel *const product[KN_TYPES] = BY_TYPE(matvec);
    typedef const char *gate_kernel(const struct emu_launch *, const struct cuda_matvec_gate *);
    static gate_kernel *const gates[KN_TYPES] = BY_TYPE(matvec_gate);
    struct layer l = layer_new(d, ff, types);
    struct rng rng = {3};
    struct kn_act in = act_new(&rng, 1, d, 1.0f);
    const size_t bytes = (size_t)d * 4, qkv_bytes = (size_t)(d + 32) * 4;
    float *x0 = take(bytes), *x1 = take(bytes), *qkv = take(qkv_bytes);
    uint32_t *ended = take(4);

    *ended = 0;
    rng_fill(&rng, x0, (size_t)d, 1.0f);
    l.in = cuda_act_from(&in, 1);
    chain_steps(&l, d, types, ended);
    memcpy(l.x, x0, bytes);
    for (int i = 0; i < 5; i++) {
        const struct cuda_chain_step *s = &l.job.steps[i];
        const size_t shared = CUDA_MATVEC_SHARED_MADE(s->gates ? d : s->product.w.n_in);
        if (s->gates)
            LAUNCH(gates[types[i]], &s->gate, ff / 32, 1, 1, 256, shared, 1);
        else
            LAUNCH(product[types[i]], &s->product, (s->product.w.n_out + 15) / 16, 1, 1, 256,
                   shared, 1);
    }
    memcpy(x1, l.x, bytes);
    memcpy(qkv, l.qkv, qkv_bytes);
    for (uint64_t seed = 0; seed < 3; seed++) {
        memcpy(l.x, x0, bytes);
        memset(l.qkv, 0xff, qkv_bytes);
        memset(l.wide.q, 0x55, (size_t)((ff + 63) / 64 * 64));
        LAUNCH_TOGETHER(chain, &l.job, 4 - (int)seed, 256, CUDA_MATVEC_SHARED_MADE(d), seed);
        assert_same(l.x, x1, bytes, "the stream");
        assert_same(l.qkv, qkv, qkv_bytes, "q, k and v");
        assert_int_equal(*ended, 0);
    }
}

TEST(chains)
{
    check_chain(96, 160, (enum kn_type[]){KN_Q4, KN_Q4, KN_Q4, KN_Q4, KN_Q4});
    check_chain(160, 96, (enum kn_type[]){KN_Q8, KN_Q5A, KN_Q6, KN_Q4A, KN_Q6});
}

TEST(gate_shapes)
{
    check_gate(KN_Q4, 96, 160, 1, CUDA_SILU);
    check_gate(KN_Q4, 64, 576, 8, CUDA_GELU);
    check_gate(KN_Q8, 32, 352, 3, CUDA_SILU_CLAMPED);
    check_gate(KN_Q4A, 32, 96, 2, CUDA_SILU);
    check_gate(KN_Q5A, 64, 64, 1, CUDA_GELU);
    check_gate(KN_Q6, 32, 160, 4, CUDA_SILU_CLAMPED);
    check_gate(KN_Q4, 96, 64, 5, CUDA_RELU);
}

/* ---- the retaining head ---------------------------------------------------------------------- */

/* later: of units that the lengths include already. */
static void check_score(int n_in, int n_hidden, int n_head, int n_tok, bool later)
{
    AUTO_BUFFERS;
    struct rng rng = {(uint64_t)(n_in + n_hidden)};
    struct matrix w1 = matrix_new(&rng, KN_Q8, n_hidden, n_in);
    struct kn_act x = act_new(&rng, n_tok, n_in, 1.0f);
    const int n_part = (n_hidden + 127) / 128;
    const size_t part_bytes = (size_t)(n_part * n_tok * n_head) * sizeof(float);
    float *w2 = take((size_t)(n_head * n_hidden) * sizeof *w2), *want = take(part_bytes);
    float *copy = take((size_t)(n_head * n_tok) * sizeof *copy);
    struct cuda_cache c = cuda_cache_new(64, n_head, n_tok + 9, CUDA_KV_Q4, CUDA_KV_Q4);
    struct cuda_score job = {w1.gpu, w2,     cuda_act_from(&x, n_tok),
                             n_tok,  n_head, guarded(part_bytes)};
    struct cuda_score_sum sum = {job.part, n_part, n_tok, later ? -n_tok : 0, c, copy};

    rng_fill(&rng, w2, (size_t)(n_head * n_hidden), 1.0f);
    for (int h = 0; h < n_head; h++) c.len[h] = h % 8 + (later ? n_tok : 0);
    LAUNCH(score_q8, &job, n_part, (n_tok + 63) / 64, 1, 128, CUDA_SCORE_SHARED, 7);
    LAUNCH(score_sum, &sum, (n_tok * n_head + 127) / 128, 1, 1, 128, 0, 8);
    kn_table("ref")->score(&(struct kn_score){&w1.cpu, w2, &x, n_tok, n_head, want});
    for (int t = 0; t < n_tok; t++)
        for (int h = 0; h < n_head; h++) {
            const float got = c.score[cuda_place(&c, h, c.len[h] + sum.first + t)];
            assert_near((double)got, (double)want[t * n_head + h],
                        1e-4 * n_hidden / 16 + 1e-5 * fabs((double)want[t * n_head + h]), "score");
            assert_true(copy[h * n_tok + t] == got);
        }
}

TEST(score_shapes)
{
    check_score(96, 16, 1, 1, false);
    check_score(192, 144, 3, 70, false);
    check_score(64, 300, 32, 5, true);
}

/* ---- norms and the embedding ----------------------------------------------------------------- */

static void check_norm(int n, int n_tok, bool norm)
{
    AUTO_BUFFERS;
    struct rng rng = {(uint64_t)n};
    const size_t floats = (size_t)(n_tok * n);
    float *x = take(floats * 4), *w = take((size_t)n * 4), *want = take((size_t)n * 4);
    struct cuda_norm job = {
        x, n, norm ? w : NULL, n, 1e-5f, cuda_act_new(n_tok, n), guarded(floats * 4), NULL};

    rng_fill(&rng, x, floats, 3.0f);
    rng_fill(&rng, w, (size_t)n, 1.0f);
    for (int i = 0; i < 32; i++) x[i] = 0.0f; /* a group without a scale */
    LAUNCH(norm_quantize, &job, n_tok, 1, 1, 256, 32, 9);
    for (int t = 0; t < n_tok; t++) {
        memcpy(want, x + t * n, (size_t)n * 4);
        if (norm) kn_table("ref")->rmsnorm(want, x + t * n, w, n, 1e-5f);
        for (int i = 0; i < n; i++)
            assert_near((double)job.y[t * n + i], (double)want[i], 4e-7 * fabs((double)want[i]),
                        "norm");
    }
    same_act(&job.act, job.y, n_tok, n, "quantized norm");
}

TEST(norms)
{
    check_norm(32, 1, true);
    check_norm(576, 2, true);
    check_norm(2080, 1, true);
    check_norm(352, 3, false);
}

/* Rows normed where they are, or added to others. */
static void check_norm_rows(int n, float *to, float *x, bool add)
{
    AUTO_BUFFERS;
    enum { TOKENS = 3, GAP = 5 };
    struct rng rng = {(uint64_t)n};
    const int stride = n + GAP;
    const size_t bytes = (size_t)(TOKENS * stride) * 4;
    float *w = take((size_t)n * 4), *want = take(bytes), *y = take((size_t)n * 4);
    const struct cuda_norm_rows job = {x, stride, w, n, 1e-5f, add ? 0.22f : 1.0f, add, to, stride};
    rng_fill(&rng, x, (size_t)(TOKENS * stride), 2.0f);
    if (add) rng_fill(&rng, to, (size_t)(TOKENS * stride), 2.0f);
    rng_fill(&rng, w, (size_t)n, 1.0f);
    memcpy(want, to, bytes);
    for (int t = 0; t < TOKENS; t++) {
        kn_table("ref")->rmsnorm(y, x + t * stride, w, n, 1e-5f);
        for (int i = 0; i < n; i++)
            want[t * stride + i] = add ? want[t * stride + i] + 0.22f * y[i] : y[i];
    }
    LAUNCH(norm_rows, &job, TOKENS, 1, 1, CUDA_NORM_THREADS, 32, 1);
    for (int i = 0; i < TOKENS * stride; i++)
        assert_near((double)to[i], (double)want[i], 2e-6, "normed row");
}

TEST(normed_rows)
{
    static const int lengths[] = {1, 64, 352, 1031};
    for (int i = 0; i < 4; i++) {
        AUTO_BUFFERS;
        const size_t bytes = (size_t)(3 * (lengths[i] + 5)) * 4;
        float *x = guarded(bytes), *y = guarded(bytes);
        check_norm_rows(lengths[i], x, x, false);
        check_norm_rows(lengths[i], y, x, true);
    }
}

/* Four query heads and two keys; values are normed without weights, or unchanged. */
static void check_heads(int dim, bool norm, int n_pairs, bool values, float growth)
{
    AUTO_BUFFERS;
    enum { TOKENS = 2, HEADS = 4, KV = 2 };
    struct rng rng = {(uint64_t)(dim + n_pairs)};
    const int stride = (HEADS + 2 * KV) * dim + 3, half = dim / 2;
    const size_t bytes = (size_t)(TOKENS * stride) * 4;
    float *x = guarded(bytes), *want = take(bytes), *w = take((size_t)dim * 8);
    int32_t *len = take_copy((const int32_t[KV]){9, 20}, KV * sizeof *len);
    const struct cuda_heads job = {
        x,     stride,  HEADS, KV,     dim, norm ? w : NULL, norm ? w + dim : NULL,
        1e-5f, n_pairs, 0.75f, growth, 10,  HEADS / KV,      len};

    rng_fill(&rng, x, (size_t)(TOKENS * stride), 2.0f);
    rng_fill(&rng, w, (size_t)dim * 2, 1.0f);
    memcpy(want, x, bytes);
    float *ones = take((size_t)dim * 4);
    for (int i = 0; i < dim; i++) ones[i] = 1.0f;
    LAUNCH(finish_heads, &job, TOKENS, HEADS + (values ? 2 : 1) * KV, 1, 32, 0, 1);
    for (int t = 0; t < TOKENS; t++)
        for (int h = 0; h < HEADS + (values ? 2 : 1) * KV; h++) {
            float *y = want + t * stride + h * dim;
            const float *v = h < HEADS ? w : h < HEADS + KV ? w + dim : ones;
            if (norm || h >= HEADS + KV) kn_table("ref")->rmsnorm(y, y, v, dim, 1e-5f);
            for (int i = n_pairs; i < half && h < HEADS; i++) {
                y[i] *= 0.75f;
                y[i + half] *= 0.75f;
            }
            /* slots 9, 10, 20 and 21 of a context of 10 */
            const double passed = h < HEADS ? (len[h / 2] + t) / 10 : 0;
            for (int i = 0; i < dim; i++) y[i] *= (float)(1 + (double)growth * log(1 + passed));
        }
    for (int i = 0; i < TOKENS * stride; i++)
        assert_near((double)x[i], (double)want[i], 5e-7 * fabs((double)want[i]), "head");
}

TEST(heads)
{
    check_heads(64, true, 32, true, 0);
    check_heads(96, false, 36, false, 0.3f);
    check_heads(128, true, 40, false, 0.1f);
    check_heads(16, false, 8, true, 0);
}

TEST(embedding)
{
    struct rng rng = {11};
    for (int type = KN_Q4; type <= KN_Q6; type++) {
        AUTO_BUFFERS;
        struct matrix m = matrix_new(&rng, type, 37, 352);
        int32_t *ids = take_copy((const int32_t[]){0, 36, 17, 8}, 4 * sizeof *ids);
        float *x = guarded(4 * 352 * 4), want[352];
        const struct cuda_embed job = {m.gpu, ids, 1.0f, x};

        static const char *(*const rows[KN_TYPES])(const struct emu_launch *,
                                                   const struct cuda_embed *) = BY_TYPE(embed);
        LAUNCH(rows[type], &job, 4, 1, 1, 128, 0, 1);
        for (int t = 0; t < 4; t++) {
            kn_row(want, &m.cpu, ids[t]);
            assert_same(x + t * 352, want, sizeof want, "row");
        }
    }
}
