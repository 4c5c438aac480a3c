/* i8mm: the kernels of ARMv8.6 with integer matrix products. Differs from neon.c only in the
 * products with quantized weights: smmla multiplies 2 rows by 2 tokens, 8 columns deep. A single
 * token would waste half of it and uses sdot. */
enum { PANEL_TOK = 8 };

#include "kernels/cpu/neon_sdot.h"

/* The register tile of 4 rows and PANEL_TOK tokens: [row pair][token pair], lanes r0t0 r0t1 r1t0
 * r1t1. */
enum { PAIRS = PANEL_TOK / 2 };

/* out[r][c]: columns 8c to 8c + 7 of rows 2r and 2r + 1 of a quarter. */
V16_INLINE void pair_rows(int8x16_t out[2][4], const int8x16_t w[8])
{
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
        const int32x4_t a = vreinterpretq_s32_s8(w[2 * c]);
        const int32x4_t b = vreinterpretq_s32_s8(w[2 * c + 1]);

        out[0][c] = vreinterpretq_s8_s32(vzip1q_s32(a, b));
        out[1][c] = vreinterpretq_s8_s32(vzip2q_s32(a, b));
    }
}

/* dot += sum over columns 16h to 16h + 15 of w x, for n pairs of tokens */
V16_INLINE void dot_pairs(int32x4_t dot[2][PAIRS], int n, const int8x16_t w[2][4], const int8_t *q,
                          int h)
{
#pragma GCC unroll 4
    for (int p = 0; p < n; p++) {
        const int8_t *x = q + 2 * p * KN_GROUP + 16 * h;
        const int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(x));
        const int64x2_t b = vreinterpretq_s64_s8(vld1q_s8(x + KN_GROUP));
        const int8x16_t first = vreinterpretq_s8_s64(vzip1q_s64(a, b));
        const int8x16_t last = vreinterpretq_s8_s64(vzip2q_s64(a, b));

#pragma GCC unroll 2
        for (int r = 0; r < 2; r++) {
            dot[r][p] = vmmlaq_s32(dot[r][p], w[r][2 * h], first);
            dot[r][p] = vmmlaq_s32(dot[r][p], w[r][2 * h + 1], last);
        }
    }
}

/* Each row of a pair starts with the starts of the two tokens. */
V16_INLINE void start_pairs(int32x4_t dot[2][PAIRS], int n, const int32_t *start)
{
#pragma GCC unroll 4
    for (int p = 0; p < n; p++) {
        const int32x2_t both = vld1_s32(start + 2 * p);
        dot[0][p] = dot[1][p] = vcombine_s32(both, both);
    }
}

/* acc + dot * scale * d */
V16_INLINE void add_scaled_pairs(float32x4_t acc[2][PAIRS], int n, const int32x4_t dot[2][PAIRS],
                                 float32x4_t scale, const float *d)
{
    const float32x4_t rows[2] = {vzip1q_f32(scale, scale), vzip2q_f32(scale, scale)};

#pragma GCC unroll 4
    for (int p = 0; p < n; p++) {
        const float32x2_t both = vld1_f32(d + 2 * p);
        const float32x4_t tokens = vcombine_f32(both, both);

#pragma GCC unroll 2
        for (int r = 0; r < 2; r++)
            acc[r][p] = vfmaq_f32(acc[r][p], vcvtq_f32_s32(dot[r][p]), vmulq_f32(rows[r], tokens));
    }
}

/* acc + min * total */
V16_INLINE void add_minima_pairs(float32x4_t acc[2][PAIRS], int n, float32x4_t min,
                                 const float *total)
{
#pragma GCC unroll 4
    for (int p = 0; p < n; p++) {
        const float32x2_t both = vld1_f32(total + 2 * p);
        const float32x4_t tokens = vcombine_f32(both, both);

        acc[0][p] = vfmaq_f32(acc[0][p], vzip1q_f32(min, min), tokens);
        acc[1][p] = vfmaq_f32(acc[1][p], vzip2q_f32(min, min), tokens);
    }
}

/* acc + one group of 4 rows times n pairs of tokens */
V16_INLINE void add_group_pairs(enum kn_type type, float32x4_t acc[2][PAIRS], int n,
                                const uint8_t *panel, int s, int quarter, const struct act_group *x)
{
    const int halves = panel_halves(type); /* each has its own scale */
    int8x16_t w[8], rows[2][4];
    int32x4_t dot[2][PAIRS];

    unpack(type, w, panel, s, quarter);
    pair_rows(rows, w);
    for (int h = 0; h <= halves; h++) {
        start_pairs(dot, n, x->start[h]);
        dot_pairs(dot, n, rows, x->q[0], h);
        if (!halves) dot_pairs(dot, n, rows, x->q[0], 1);
        add_scaled_pairs(acc, n, dot, panel_scales(type, panel, s, h, quarter), x->d);
        if (panel_minima(type))
            add_minima_pairs(acc, n, panel_mins(type, panel, s, h, quarter), x->total[h]);
    }
}

V16_INLINE void panel_tile(enum kn_type type, int R, int T, const struct panel_job *job)
{
    const int n = T / 2, n_tok = job->n_tok;
    const size_t stride = job->stride;

    (void)R;
    for (int quarter = 0; quarter < 4 && job->n_row > 4 * quarter; quarter++) {
        const int n_row = job->n_row - 4 * quarter;
        const uint8_t *panel = job->panels;
        float *y = job->y + 4 * quarter;
        float32x4_t acc[2][PAIRS];

#pragma GCC unroll 4
        for (int p = 0; p < n; p++) {
            float *at = y + 2 * (size_t)p * stride;
            const float32x4_t a = v4_load_n(at, job->first || 2 * p >= n_tok ? 0 : n_row);
            const float32x4_t b =
                v4_load_n(at + stride, job->first || 2 * p + 1 >= n_tok ? 0 : n_row);
            acc[0][p] = vzip1q_f32(a, b);
            acc[1][p] = vzip2q_f32(a, b);
        }
        for (int g = 0; g < job->n_group; panel += panel_step(type, g++)) {
            if (quarter == 0) panel_prefetch(type, panel + job->ahead, g);
            add_group_pairs(type, acc, n, panel, g % panel_groups(type), quarter, job->x + g);
        }
#pragma GCC unroll 4
        for (int p = 0; p < n; p++) {
            float *at = y + 2 * (size_t)p * stride;
            v4_store_n(at, vuzp1q_f32(acc[0][p], acc[1][p]), 2 * p < n_tok ? n_row : 0);
            v4_store_n(at + stride, vuzp2q_f32(acc[0][p], acc[1][p]),
                       2 * p + 1 < n_tok ? n_row : 0);
        }
    }
}

const struct kernels kn_i8mm = V16_PRODUCTS_TABLE("i8mm");
