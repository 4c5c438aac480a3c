/* Products with quantized weights on NEON: a quarter of a panel, 4 rows, per register. The file
 * that includes this one must include v16_panels.h first and define
 *
 *   dot_half          16 columns of 4 rows with T tokens
 *
 * Weights become signed bytes; the sum of the activations corrects for the rest of their offset (8
 * of Q4, 32 of Q6). Integer sums are exact, and the float sum of a row adds its groups in order, so
 * tiles of any height give the same bits. */
#ifndef RETAIN_KERNELS_CPU_NEON_PANELS_H
#define RETAIN_KERNELS_CPU_NEON_PANELS_H

#include <arm_neon.h>

/* dot[t] += sum over columns 16h to 16h + 15 of w x, w[j] being columns 4j to 4j + 3 of 4 rows. */
V16_INLINE void dot_half(enum kn_type type, int32x4_t *dot, int T, const int8x16_t w[8],
                         const int8_t *q, int h);

V16_INLINE void unpack_nibbles(uint8x16_t w[8], const uint8_t (*qs)[KN_PANEL][4], int quarter)
{
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        const uint8x16_t both = vld1q_u8(qs[j][4 * quarter]);
        w[j] = vandq_u8(both, vdupq_n_u8(15));
        w[4 + j] = vshrq_n_u8(both, 4);
    }
}

/* w | bits of x under mask, after x is shifted left by n bits */
V16_INLINE uint8x16_t or_bits(uint8x16_t w, uint8x16_t x, int n, int mask)
{
    const uint8x16_t moved = vshlq_u8(x, vdupq_n_s8((int8_t)n));
    return vorrq_u8(w, vandq_u8(moved, vdupq_n_u8((uint8_t)mask)));
}

V16_INLINE void unpack_q8(uint8x16_t w[8], const struct kn_q8_panel *panel, int quarter)
{
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++)
        w[j] = veorq_u8(vld1q_u8(panel->qs[j][4 * quarter]), vdupq_n_u8(128));
}

V16_INLINE void unpack_q5a(uint8x16_t w[8], const struct kn_q5a_panel *panel, int quarter)
{
    const uint8x16_t fifth = vld1q_u8(panel->qh[4 * quarter]);

    unpack_nibbles(w, panel->qs, quarter);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) w[j] = or_bits(w[j], fifth, 4 - j, 0x10);
}

V16_INLINE void unpack_q6(uint8x16_t w[8], const struct kn_q6_panel *panel, int quarter)
{
    const uint8x16_t high[2] = {vld1q_u8(panel->qh[0][4 * quarter]),
                                vld1q_u8(panel->qh[1][4 * quarter])};

    unpack_nibbles(w, panel->qs, quarter);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) w[j] = or_bits(w[j], high[j / 4], 4 - 2 * (j % 4), 0x30);
}

/* w[j]: columns 4j to 4j + 3 of 4 rows. */
V16_INLINE void unpack(enum kn_type type, int8x16_t w[8], const uint8_t *panel, int quarter)
{
    uint8x16_t u[8];

    switch (type) {
    case KN_Q4: unpack_nibbles(u, ((const struct kn_q4_panel *)panel)->qs, quarter); break;
    case KN_Q8: unpack_q8(u, (const struct kn_q8_panel *)panel, quarter); break;
    case KN_Q4A: unpack_nibbles(u, ((const struct kn_q4a_panel *)panel)->qs, quarter); break;
    case KN_Q5A: unpack_q5a(u, (const struct kn_q5a_panel *)panel, quarter); break;
    default: unpack_q6(u, (const struct kn_q6_panel *)panel, quarter); break;
    }
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) w[j] = vreinterpretq_s8_u8(u[j]);
}

/* Every panel begins with 16 scales; in Q4A and Q5A 16 minima follow, in Q6 the scales of the last
 * 16 columns. */
V16_INLINE float32x4_t panel_scales(const uint8_t *panel, int i, int quarter)
{
    return v4_from_halves(vld1_u16((const uint16_t *)panel + 16 * i + 4 * quarter));
}

/* acc[t] + dot[t] * scale * d[t] */
V16_INLINE void add_scaled(float32x4_t *acc, int T, const int32x4_t *dot, float32x4_t scale,
                           const float *d)
{
#pragma GCC unroll 8
    for (int t = 0; t < T; t++)
        acc[t] = vfmaq_f32(acc[t], vcvtq_f32_s32(dot[t]), vmulq_n_f32(scale, d[t]));
}

/* Two scales per group: each half separately. */
V16_INLINE void add_group_q6(float32x4_t *acc, int T, const uint8_t *panel, int quarter,
                             struct act_at x)
{
    int8x16_t w[8];

    unpack(KN_Q6, w, panel, quarter);
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        int32x4_t dot[PANEL_TOK];

#pragma GCC unroll 8
        for (int t = 0; t < T; t++)
            dot[t] = vdupq_n_s32(-32 * (h == 0 ? x.first[t] : x.sum[t] - x.first[t]));
        dot_half(KN_Q6, dot, T, w, x.q, h);
        add_scaled(acc, T, dot, panel_scales(panel, h, quarter), x.d);
    }
}

/* acc[t] + one group of 4 rows times T tokens */
V16_INLINE void add_group(enum kn_type type, float32x4_t *acc, int T, const uint8_t *panel,
                          int quarter, struct act_at x)
{
    int8x16_t w[8];
    int32x4_t dot[PANEL_TOK];

    if (type == KN_Q6) {
        add_group_q6(acc, T, panel, quarter, x);
        return;
    }
    unpack(type, w, panel, quarter);
#pragma GCC unroll 8
    for (int t = 0; t < T; t++) dot[t] = vdupq_n_s32(type == KN_Q4 ? -8 * x.sum[t] : 0);
    dot_half(type, dot, T, w, x.q, 0);
    dot_half(type, dot, T, w, x.q, 1);
    add_scaled(acc, T, dot, panel_scales(panel, 0, quarter), x.d);
    if (type != KN_Q4A && type != KN_Q5A) return;

    const float32x4_t min = panel_scales(panel, 1, quarter);
#pragma GCC unroll 8
    for (int t = 0; t < T; t++) acc[t] = vfmaq_n_f32(acc[t], min, x.total[t]);
}

V16_INLINE float32x4_t v4_load_n(const float *p, int n)
{
    float full[4] = {0};

    if (n >= 4) return vld1q_f32(p);
    for (int i = 0; i < n; i++) full[i] = p[i];
    return vld1q_f32(full);
}

V16_INLINE void v4_store_n(float *p, float32x4_t x, int n)
{
    float full[4];

    if (n >= 4) {
        vst1q_f32(p, x);
        return;
    }
    vst1q_f32(full, x);
    for (int i = 0; i < n; i++) p[i] = full[i];
}

/* panel_tile of v16_panels.h */
V16_INLINE void tile_by_quarters(enum kn_type type, int T, const uint8_t *panels, size_t ahead,
                                 int n_group, const struct act_group *x, int n_tok, float *y,
                                 size_t stride, int n_row, int first)
{
    for (int quarter = 0; quarter < 4 && n_row > 0; quarter++, y += 4, n_row -= 4) {
        const uint8_t *panel = panels;
        float32x4_t acc[PANEL_TOK];

#pragma GCC unroll 8
        for (int t = 0; t < T; t++)
            acc[t] = v4_load_n(y + (size_t)t * stride, first || t >= n_tok ? 0 : n_row);
        for (int g = 0; g < n_group; g++, panel += panel_bytes(type)) {
            if (quarter == 0) panel_prefetch(panel + ahead, panel_bytes(type));
            add_group(type, acc, T, panel, quarter, act_in_tile(x + g));
        }
#pragma GCC unroll 8
        for (int t = 0; t < T; t++)
            v4_store_n(y + (size_t)t * stride, acc[t], t < n_tok ? n_row : 0);
    }
}

V16_INLINE void panel_stream(enum kn_type type, int P, const uint8_t *panels, size_t step,
                             int n_group, const struct kn_act *x, float *y, int n_row)
{
    v16 acc[PANEL_STREAMS];

#pragma GCC unroll 8
    for (int p = 0; p < P; p++) acc[p] = v16_zero();
    for (int g = 0; g < n_group; g++, panels += panel_bytes(type)) {
        struct act_one one;
        const struct act_at at = act_of_token(type, x, g, &one);
        const size_t ahead = panel_ahead(type, P, step, g, n_group);

#pragma GCC unroll 8
        for (int p = 0; p < P; p++) {
            const uint8_t *panel = panels + (size_t)p * step;

            panel_prefetch(panel + ahead, panel_bytes(type));
#pragma GCC unroll 4
            for (int quarter = 0; quarter < 4; quarter++)
                add_group(type, &acc[p].r[quarter], 1, panel, quarter, at);
        }
    }
#pragma GCC unroll 8
    for (int p = 0; p < P; p++) {
        if (n_row < KN_PANEL)
            v16_store_n(y + p * KN_PANEL, acc[p], n_row);
        else
            v16_store(y + p * KN_PANEL, acc[p]);
    }
}

#endif
