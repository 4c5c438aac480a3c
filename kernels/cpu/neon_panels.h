/* What neon.c, dotprod.c and i8mm.c share: products with quantized weights, a quarter of a panel, 4
 * rows, per register. They define PANEL_TOK before, the tokens of a tile, and dot_half.
 *
 * Weights become signed bytes; the sum of the activations corrects for the rest of their offset (8
 * of Q4, 32 of Q6). Integer sums are exact, and the float sum of a row adds its groups in order, so
 * tiles of any height give the same bits. */
#ifndef RETAIN_KERNELS_CPU_NEON_PANELS_H
#define RETAIN_KERNELS_CPU_NEON_PANELS_H

#include "kernels/cpu/v16_neon.h"

enum { PANEL_CHUNK = 32, PANEL_ROWS = 1, PANEL_WIDE = PANEL_TOK, PANEL_STREAMS = 1 };

#include "kernels/cpu/v16_panels.h"
#include "kernels/cpu/v16_table.h"

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

/* From codes: values, which need no offset. */
V16_INLINE void codes_to_values(uint8x16_t w[8], const int8_t *values)
{
    const uint8x16_t table = vreinterpretq_u8_s8(vld1q_s8(values));

#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) w[j] = vqtbl1q_u8(table, w[j]);
}

V16_INLINE void unpack_values(uint8x16_t w[8], const int8_t *values,
                              const uint8_t (*qs)[KN_PANEL][4], int quarter)
{
    unpack_nibbles(w, qs, quarter);
    codes_to_values(w, values);
}

V16_INLINE void unpack_low_bits(uint8x16_t w[8], const uint8_t (*ql)[KN_PANEL][4], int quarter)
{
    const uint8x16_t low[2] = {vld1q_u8(ql[0][4 * quarter]), vld1q_u8(ql[1][4 * quarter])};

#pragma GCC unroll 8
    for (int j = 0; j < 8; j++)
        w[j] = vandq_u8(vshlq_u8(low[j / 4], vdupq_n_s8((int8_t)(-2 * (j % 4)))), vdupq_n_u8(3));
}

V16_INLINE void unpack_three_bits(uint8x16_t w[8], const struct kn_q3s_panel *panel, int s,
                                  int quarter)
{
    const uint8x16_t third = vld1q_u8(panel->qh[s][4 * quarter]);

    unpack_low_bits(w, panel->ql[s], quarter);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) w[j] = or_bits(w[j], third, 2 - j, 4);
}

V16_INLINE void unpack_q3s(uint8x16_t w[8], const struct kn_q3s_panel *panel, int s, int quarter)
{
    unpack_three_bits(w, panel, s, quarter);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) w[j] = vsubq_u8(w[j], vdupq_n_u8(4));
}

/* w[j]: columns 4j to 4j + 3 of 4 rows, of group s of the panel. */
V16_INLINE void unpack(enum kn_type type, int8x16_t w[8], const uint8_t *panel, int s, int quarter)
{
    const struct kn_iq4s_panel *iq4s = (const struct kn_iq4s_panel *)panel;
    const struct kn_mx4_panel *mx4 = (const struct kn_mx4_panel *)panel;
    const struct kn_nv4_panel *nv4 = (const struct kn_nv4_panel *)panel;
    const struct kn_q4_panel *q4 = (const struct kn_q4_panel *)panel;
    uint8x16_t u[8];

    switch (type) {
    case KN_IQ4: unpack_values(u, kn_values_iq4, q4->qs, quarter); break;
    case KN_MX4: unpack_values(u, kn_values_e2m1, mx4->qs, quarter); break;
    case KN_NV4: unpack_values(u, kn_values_e2m1, nv4->qs, quarter); break;
    case KN_IQ4S:
    case KN_IQ3X:
    case KN_IQ3S: unpack_values(u, kn_code_values(type), iq4s->qs[s], quarter); break;
    case KN_Q4S: unpack_nibbles(u, ((const struct kn_q4s_panel *)panel)->qs[s], quarter); break;
    case KN_Q3S: unpack_q3s(u, (const struct kn_q3s_panel *)panel, s, quarter); break;
    case KN_IQ2:
    case KN_IQ1:
        unpack_three_bits(u, (const struct kn_q3s_panel *)panel, s, quarter);
        codes_to_values(u, kn_code_values(type));
        break;
    case KN_Q2S: unpack_low_bits(u, ((const struct kn_q2s_panel *)panel)->ql[s], quarter); break;
    case KN_Q4: unpack_nibbles(u, ((const struct kn_q4_panel *)panel)->qs, quarter); break;
    case KN_Q8: unpack_q8(u, (const struct kn_q8_panel *)panel, quarter); break;
    case KN_Q4A: unpack_nibbles(u, ((const struct kn_q4a_panel *)panel)->qs, quarter); break;
    case KN_Q5A: unpack_q5a(u, (const struct kn_q5a_panel *)panel, quarter); break;
    default: unpack_q6(u, (const struct kn_q6_panel *)panel, quarter); break;
    }
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) w[j] = vreinterpretq_s8_u8(u[j]);
}

V16_INLINE uint8x8_t load_four(const void *p)
{
    uint32_t four;
    memcpy(&four, p, sizeof four);
    return vcreate_u8(four);
}

V16_INLINE float32x4_t load_bytes(const void *p)
{
    return vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(load_four(p)))));
}

V16_INLINE float32x4_t load_signed(const void *p)
{
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(load_four(p))))));
}

/* An exponent of 0 or 1 becomes the bits of 0. */
V16_INLINE float32x4_t load_exponents(const void *p)
{
    const uint8x8_t e = vqsub_u8(load_four(p), vdup_n_u8(1));
    return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(vget_low_u16(vmovl_u8(e))), 23));
}

V16_INLINE float32x4_t load_e4m3(const void *p)
{
    const uint16x4_t bits = vshl_n_u16(vget_low_u16(vmovl_u8(load_four(p))), 7);
    return vmulq_n_f32(v4_from_halves(bits), 128.0f);
}

V16_INLINE float32x4_t load_nibble(const void *p, int shift)
{
    const uint8x8_t x = vand_u8(vshl_u8(load_four(p), vdup_n_s8((int8_t)-shift)), vdup_n_u8(15));
    return vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(x))));
}

/* The scales of group s, or of its half h. Most panels begin with 16 halves. */
V16_INLINE float32x4_t panel_scales(enum kn_type type, const uint8_t *panel, int s, int h,
                                    int quarter)
{
    const struct kn_iq4s_panel *iq4s = (const struct kn_iq4s_panel *)panel;
    const struct kn_q4s_panel *q4s = (const struct kn_q4s_panel *)panel;
    const struct kn_q3s_panel *q3s = (const struct kn_q3s_panel *)panel;
    const struct kn_q2s_panel *q2s = (const struct kn_q2s_panel *)panel;
    const int at = 4 * quarter;

    if (type == KN_MX4) return load_exponents(panel + at);
    if (type == KN_NV4) return load_e4m3(((const struct kn_nv4_panel *)panel)->d[h] + at);

    const int first = type == KN_Q6 ? KN_PANEL * h : 0;
    const float unit = kn_code_unit(type);
    const float32x4_t half = v4_from_halves(vld1_u16((const uint16_t *)panel + first + at));
    const float32x4_t d = unit == 1.0f ? half : vmulq_n_f32(half, unit);

    switch (type) {
    case KN_IQ4S:
    case KN_IQ3X:
    case KN_IQ3S: return vmulq_f32(d, load_signed(iq4s->scale[s] + at));
    case KN_Q4S: return vmulq_f32(d, load_bytes(q4s->scale[s] + at));
    case KN_Q3S:
    case KN_IQ2:
    case KN_IQ1: return vmulq_f32(d, load_signed(q3s->scale[2 * s + h] + at));
    case KN_Q2S: return vmulq_f32(d, load_nibble(q2s->scale[2 * s + h] + at, 0));
    default: return d;
    }
}

/* The offset of each weight: 16 more halves, in super-groups times a negative integer. */
V16_INLINE float32x4_t panel_mins(enum kn_type type, const uint8_t *panel, int s, int h,
                                  int quarter)
{
    const struct kn_q4s_panel *q4 = (const struct kn_q4s_panel *)panel;
    const struct kn_q2s_panel *q2 = (const struct kn_q2s_panel *)panel;
    const int at = 4 * quarter;
    const float32x4_t m = v4_from_halves(vld1_u16((const uint16_t *)panel + KN_PANEL + at));

    if (type == KN_Q4S) return vnegq_f32(vmulq_f32(m, load_bytes(q4->min[s] + at)));
    if (type == KN_Q2S) return vnegq_f32(vmulq_f32(m, load_nibble(q2->scale[2 * s + h] + at, 4)));
    return m;
}

/* The offset of the weights that `unpack` leaves. */
V16_INLINE int32_t signed_offset(enum kn_type type)
{
    return type == KN_Q4 ? 8 : type == KN_Q6 ? 32 : 0;
}

V16_INLINE void panel_starts(enum kn_type type, int32_t start[2], const int8_t *q, int32_t sum,
                             int32_t first)
{
    (void)q;
    offset_starts(start, signed_offset(type), sum, first);
}

/* acc[t] + dot[t] * scale * d[t] */
V16_INLINE void add_scaled(float32x4_t *acc, int T, const int32x4_t *dot, float32x4_t scale,
                           const float *d)
{
#pragma GCC unroll 8
    for (int t = 0; t < T; t++)
        acc[t] = vfmaq_f32(acc[t], vcvtq_f32_s32(dot[t]), vmulq_n_f32(scale, d[t]));
}

/* acc[t] + group s of a panel, 4 rows, times T tokens; a part, the group or a half of it, has its
 * own scale */
V16_INLINE void add_group(enum kn_type type, float32x4_t *acc, int T, const uint8_t *panel, int s,
                          int quarter, struct act_at x)
{
    const int halves = panel_halves(type);
    int8x16_t w[8];

    unpack(type, w, panel, s, quarter);
#pragma GCC unroll 2
    for (int h = 0; h <= halves; h++) {
        int32x4_t dot[PANEL_TOK];

#pragma GCC unroll 8
        for (int t = 0; t < T; t++) dot[t] = vdupq_n_s32(x.start[h][t]);
        dot_half(type, dot, T, w, x.q, h);
        if (!halves) dot_half(type, dot, T, w, x.q, 1);
        add_scaled(acc, T, dot, panel_scales(type, panel, s, h, quarter), x.d);
        if (!panel_minima(type)) continue;

        const float32x4_t min = panel_mins(type, panel, s, h, quarter);
#pragma GCC unroll 8
        for (int t = 0; t < T; t++) acc[t] = vfmaq_n_f32(acc[t], min, x.total[h][t]);
    }
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
V16_INLINE void tile_by_quarters(enum kn_type type, int T, const struct panel_job *job)
{
    for (int quarter = 0; quarter < 4 && job->n_row > 4 * quarter; quarter++) {
        const int n_row = job->n_row - 4 * quarter;
        const uint8_t *panel = job->panels;
        float *y = job->y + 4 * quarter;
        float32x4_t acc[PANEL_TOK];

#pragma GCC unroll 8
        for (int t = 0; t < T; t++)
            acc[t] =
                v4_load_n(y + (size_t)t * job->stride, job->first || t >= job->n_tok ? 0 : n_row);
        for (int g = 0; g < job->n_group; panel += panel_step(type, g++)) {
            if (quarter == 0) panel_prefetch(type, panel + job->ahead, g);
            add_group(type, acc, T, panel, g % panel_groups(type), quarter,
                      act_in_tile(job->x + g, job->t0));
        }
#pragma GCC unroll 8
        for (int t = 0; t < T; t++)
            v4_store_n(y + (size_t)t * job->stride, acc[t], t < job->n_tok ? n_row : 0);
    }
}

V16_INLINE void panel_stream(enum kn_type type, int P, const uint8_t *panels, size_t step,
                             int n_group, const struct kn_act *x, float *y, int n_row)
{
    v16 acc[PANEL_STREAMS];

#pragma GCC unroll 8
    for (int p = 0; p < P; p++) acc[p] = v16_zero();
    for (int g = 0; g < n_group; panels += panel_step(type, g++)) {
        struct act_one one;
        const struct act_at at = act_of_token(type, x, g, &one);
        const ptrdiff_t ahead = panel_ahead(type, (P - 1) * (ptrdiff_t)step, g, n_group);

#pragma GCC unroll 8
        for (int p = 0; p < P; p++) {
            const uint8_t *panel = panels + (size_t)p * step;

            panel_prefetch(type, panel + ahead, g);
#pragma GCC unroll 4
            for (int quarter = 0; quarter < 4; quarter++)
                add_group(type, &acc[p].r[quarter], 1, panel, g % panel_groups(type), quarter, at);
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
