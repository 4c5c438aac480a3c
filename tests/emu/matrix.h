/* matrix: random quantized matrices, as the CPU and as the device read them. */
#ifndef RETAIN_TESTS_EMU_MATRIX_H
#define RETAIN_TESTS_EMU_MATRIX_H

#include "tests/emu/kit.h"

#include "kernels/cuda/list.h"
#include "kernels/cuda/pack.h"

#define ENTRY(name, args) DECLARE_KERNEL(name, args);
CUDA_KERNELS(ENTRY)
#undef ENTRY

/* One matrix for both sides. */
struct matrix {
    struct kn_weight cpu;
    struct cuda_weight gpu;
};

/* Random blocks, as GGUF has them; scales are halves of about 0.01. */
static inline void random_row(struct rng *rng, enum kn_type type, uint8_t *blocks, size_t n,
                              size_t block)
{
    const int n_scale = type == KN_MX4 ? 0 : type == KN_Q4 || type == KN_Q8 ? 1 : 2;

    for (size_t i = 0; i < n * block; i++) blocks[i] = (uint8_t)rng_bits(rng);
    for (size_t i = 0; i < n; i++) {
        for (int k = 0; k < n_scale; k++) {
            const uint16_t scale = kn_half_from_float(0.01f * rng_float(rng));
            memcpy(blocks + i * block + 2 * k, &scale, 2);
        }
        if (type == KN_MX4) blocks[i * block] = (uint8_t)(116 + rng_below(rng, 6));
        for (int k = 0; k < 32 && type == KN_Q6; k++) blocks[i * block + 4 + k] &= 63;
    }
}

static inline struct matrix matrix_new(struct rng *rng, enum kn_type type, int n_out, int n_in)
{
    static const size_t block[KN_TYPES] = {
        [KN_Q4] = 18,  [KN_Q8] = 34,  [KN_Q4A] = 20,
        [KN_Q5A] = 24, [KN_MX4] = 17, [KN_Q6] = sizeof(struct kn_q6_block)};
    const size_t n = (size_t)n_in / 32, bytes = kn_weight_bytes(type, n_out, n_in);
    const size_t panels = (size_t)cuda_panels(n_out);
    uint8_t *blocks = take(n * block[type]);
    void *data = take(bytes), *q = take(panels * cuda_panel_bytes(type, n_in));
    void *d = take(panels * cuda_panel_scale_bytes(type, n_in));
    struct matrix m = {{.type = type, .n_out = n_out, .n_in = n_in, .data = data},
                       {q, d, n_out, n_in}};

    memset(data, 0, bytes);
    for (int r = 0; r < n_out; r++) {
        random_row(rng, type, blocks, n, block[type]);
        kn_pack(type, data, r, n_in, blocks);
    }
    cuda_pack(q, d, &m.cpu, 0, (int)panels);
    return m;
}

#endif
