/* Attention statistics of every instruction set against a reference in double precision. */
#include "tests/kern/kern.h"

enum { DIM_MAX = 128, SLOTS = 200, TOKENS = 9, GROUP_MAX = 4 };

struct input {
    int dim, n_group, pos0;
    enum kn_kv k_type;
    uint8_t *k;
    float *q, *lse, *cos, *sin;
    float centre[3][DIM_MAX];           /* of S4: mean, scale, that of position 0 */
    double p[TOKENS][GROUP_MAX][SLOTS]; /* attention, 0 for invisible slots */
};

static void rotate(double *out, const float *x, const struct input *in, int pos)
{
    int half = in->dim / 2;
    for (int i = 0; i < half; i++) {
        double c = in->cos[pos * half + i], s = in->sin[pos * half + i];
        out[i] = x[i] * c - x[i + half] * s;
        out[i + half] = x[i + half] * c + x[i] * s;
    }
}

static void attention(struct input *in, const struct kernels *ref)
{
    size_t bytes = kn_kv_bytes(in->k_type, in->dim);
    double q[DIM_MAX], k[DIM_MAX];
    float x[DIM_MAX];
    for (int t = 0; t < TOKENS; t++)
        for (int g = 0; g < in->n_group; g++) {
            double sum = 0;
            rotate(q, in->q + (t * in->n_group + g) * in->dim, in, in->pos0 + t);
            for (int s = 0; s < SLOTS; s++) {
                double dot = 0;
                ref->kv_unpack[in->k_type](x, in->k + (size_t)s * bytes, in->dim);
                for (int i = 0; in->k_type == KN_KV_S4 && i < in->dim; i++)
                    x[i] = in->centre[s ? 0 : 2][i] + in->centre[1][i] * x[i];
                rotate(k, x, in, s);
                for (int i = 0; i < in->dim; i++) dot += q[i] * k[i];
                in->p[t][g][s] = s <= in->pos0 + t ? exp(dot / sqrt(in->dim)) : 0;
                sum += in->p[t][g][s];
            }
            for (int s = 0; s < SLOTS; s++) in->p[t][g][s] /= sum;
            in->lse[t * in->n_group + g] = (float)log(sum);
        }
}

static void fill(struct input *in, int dim, int n_group, int pos0, enum kn_kv type)
{
    struct rng rng = {(uint64_t)(dim * 31 + n_group + pos0)};
    const struct kernels *ref = kn_table("ref");
    size_t bytes = kn_kv_bytes(type, dim), half = (size_t)dim / 2;
    float x[DIM_MAX];
    *in = (struct input){.dim = dim, .n_group = n_group, .pos0 = pos0, .k_type = type};
    in->k = take(SLOTS * bytes);
    in->q = take((size_t)(TOKENS * n_group * dim) * sizeof(float));
    in->lse = take((size_t)(TOKENS * n_group) * sizeof(float));
    in->cos = take(SLOTS * half * sizeof(float));
    in->sin = take(SLOTS * half * sizeof(float));
    for (size_t p = 0; p < SLOTS; p++)
        for (size_t i = 0; i < half; i++) {
            double angle = (double)p * pow(10000, -(double)i / (double)half);
            in->cos[p * half + i] = (float)cos(angle);
            in->sin[p * half + i] = (float)sin(angle);
        }
    for (size_t s = 0; s < SLOTS; s++) {
        rng_fill(&rng, x, (size_t)dim, 2);
        ref->kv_pack[type](in->k + s * bytes, x, dim);
    }
    for (int i = 0; i < 3; i++) rng_fill(&rng, in->centre[i], (size_t)dim, 1.5f);
    rng_fill(&rng, in->q, (size_t)(TOKENS * n_group * dim), 2);
    attention(in, ref);
}

static void drop(struct input *in)
{
    free(in->k);
    free(in->q);
    free(in->lse);
    free(in->cos);
    free(in->sin);
}

static double expected(const struct input *in, enum kn_stat stat, int s, double before)
{
    double out = before;
    for (int t = s > in->pos0 ? s - in->pos0 : 0; t < TOKENS; t++) {
        double mean = 0;
        for (int g = 0; g < in->n_group; g++) {
            mean += in->p[t][g][s] / in->n_group;
            if (stat == KN_STAT_MAX) out = fmax(out, in->p[t][g][s]);
        }
        if (stat == KN_STAT_SUM) out += mean;
    }
    return out;
}

static void check(const struct kernels *kn, const struct input *in, enum kn_stat stat, int slot0,
                  int slot1)
{
    float out[SLOTS];
    const struct kn_rope rope = {SLOTS, in->dim, in->cos, in->sin, NULL};
    const struct kn_centre centre = {
        .mean = in->centre[0], .scale = in->centre[1], .first = in->centre[2]};
    struct kn_stats job = {.stat = stat,
                           .centre = &centre,
                           .first = true,
                           .k_type = in->k_type,
                           .head_dim = in->dim,
                           .n_group = in->n_group,
                           .k = in->k,
                           .slot0 = slot0,
                           .slot1 = slot1,
                           .n_tok = TOKENS,
                           .pos0 = in->pos0,
                           .q = in->q,
                           .q_stride = (size_t)(in->n_group * in->dim),
                           .rope = &rope,
                           .scale = (float)(1 / sqrt(in->dim)),
                           .lse = in->lse,
                           .lse_stride = (size_t)in->n_group,
                           .out = out};
    for (int s = 0; s < SLOTS; s++) out[s] = 0.001f;
    kn->attend_stats(&job);
    for (int s = 0; s < SLOTS; s++) {
        double want = s >= slot0 && s < slot1 ? expected(in, stat, s, 0.001) : 0.001;
        if (fabs(out[s] - want) > 1e-4)
            fail_msg("%s: dim %d, group %d, stat %d, slot %d: %g, expected %g", kn->isa, in->dim,
                     in->n_group, stat, s, (double)out[s], want);
    }
}

TEST(test_statistics)
{
    static const int dims[] = {32, 64, 96, 128}, groups[] = {1, 2, 4}, starts[] = {0, 60, 191};
    struct input in;
    for (const char *const *isa = kn_isa_list(); *isa; isa++)
        for (int i = 0; i < COUNT(dims) * COUNT(groups) * COUNT(starts); i++) {
            int pos0 = starts[i / 12];
            fill(&in, dims[i % 4], groups[i / 4 % 3], pos0, (enum kn_kv)(i % KN_KV_TYPES));
            for (int stat = KN_STAT_SUM; stat <= KN_STAT_MAX; stat++) {
                check(kn_table(*isa), &in, (enum kn_stat)stat, 0, pos0 + TOKENS);
                check(kn_table(*isa), &in, (enum kn_stat)stat, 5, pos0 + 3);
            }
            drop(&in);
        }
}

/* However slots are split into ranges, each number is the same to the bit. */
TEST(test_cuts_do_not_matter)
{
    struct input in;
    float whole[SLOTS] = {0}, cut[SLOTS] = {0};
    fill(&in, 64, 2, 191, KN_KV_Q4);
    for (const char *const *isa = kn_isa_list(); *isa; isa++) {
        const struct kn_rope rope = {SLOTS, in.dim, in.cos, in.sin, NULL};
        struct kn_stats job = {.k_type = in.k_type,
                               .head_dim = in.dim,
                               .n_group = 2,
                               .k = in.k,
                               .slot1 = SLOTS,
                               .n_tok = TOKENS,
                               .pos0 = 191,
                               .q = in.q,
                               .q_stride = (size_t)(2 * in.dim),
                               .rope = &rope,
                               .scale = 0.125f,
                               .lse = in.lse,
                               .lse_stride = 2,
                               .out = whole};
        memset(whole, 0, sizeof whole);
        memset(cut, 0, sizeof cut);
        kn_table(*isa)->attend_stats(&job);
        job.out = cut;
        for (int s = 0; s < SLOTS; s += 37) {
            job.slot0 = s;
            job.slot1 = s + 37 < SLOTS ? s + 37 : SLOTS;
            kn_table(*isa)->attend_stats(&job);
        }
        assert_memory_equal(whole, cut, sizeof whole);
    }
    drop(&in);
}
