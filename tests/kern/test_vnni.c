/* Products of AVX-VNNI have the bits of AVX2's, for every type of weights and tiles of every size.
 * On a processor that lacks it, its kernels run with the encoding of AVX-512. */
#include "tests/kern/kern.h"

/* Linked where it runs. */
extern const struct kernels vnni_evex __attribute__((weak));

enum { ROWS = 37, COLS = 512, TOKENS = 9 };

static const struct kernels *vnni(void)
{
#if defined(__x86_64__)
    if (&vnni_evex && !kn_table("avxvnni") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vnni"))
        return &vnni_evex;
#endif
    return kn_table("avxvnni");
}

/* Random bytes, with small normal numbers wherever a half may be. */
static void *random_weights(struct rng *rng, size_t bytes)
{
    uint64_t *w = take(bytes + 8);
    for (size_t i = 0; i <= bytes / 8; i++)
        w[i] = (rng_bits(rng) & 0x83ff83ff83ff83ffu) | 0x3000300030003000u;
    return w;
}

static void product(float *y, const struct kernels *k, const struct kn_weight *w,
                    const struct kn_act *x, int n_tok)
{
    const struct kn_matmul job = {
        .w = w, .x = x, .n_tok = n_tok, .row1 = ROWS, .y = y, .y_stride = ROWS};
    memset(y, 0, ROWS * TOKENS * sizeof *y);
    k->matmul[w->type](&job);
}

TEST(test_bits)
{
    AUTO_BUFFERS;
    static float numbers[TOKENS * COLS], one[ROWS * TOKENS], other[ROWS * TOKENS];
    const struct kernels *avx2 = kn_table("avx2"), *avxvnni = vnni();
    struct rng rng = {1};
    struct kn_act x = {COLS, numbers, take(sizeof numbers), take(sizeof numbers),
                       take(sizeof numbers)};

    if (!avx2 || !avxvnni) skip();
    rng_fill(&rng, numbers, TOKENS * COLS, 1);
    avx2->quantize(x.q, x.d, x.sum, numbers, TOKENS * COLS);
    for (int type = KN_Q4; type < KN_TYPES; type++) {
        const size_t bytes = kn_weight_bytes((enum kn_type)type, ROWS, COLS);
        const struct kn_weight w = {.type = (enum kn_type)type,
                                    .n_out = ROWS,
                                    .n_in = COLS,
                                    .data = random_weights(&rng, bytes)};

        for (int n = 1; n <= TOKENS; n++) {
            product(one, avx2, &w, &x, n);
            product(other, avxvnni, &w, &x, n);
            if (memcmp(one, other, sizeof one)) fail_msg("type %d, %d tokens", type, n);
        }
    }
}
