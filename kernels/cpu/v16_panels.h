/* Products with quantized weights: the order of the tiles, the same for every instruction set. The
 * file that includes this one must define
 *
 *   PANEL_TOK         tokens that are packed together
 *   PANEL_CHUNK       groups that are packed together, a multiple of 8
 *   PANEL_ROWS        panel rows of a tile
 *   PANEL_WIDE        tokens of a tile, at most 8; PANEL_TOK is a multiple
 *   PANEL_STREAMS     panel rows read at once for a single token
 *   panel_tile        a tile: PANEL_ROWS panel rows or one, the first T tokens, a run of groups
 *   panel_stream      P panel rows, one token, all groups
 *   PANEL_FEW         optional: products of more tokens are left to panel_many
 *
 * Several tokens: the groups of a chunk are packed next to each other on the stack (at most 20 KB),
 * because rows of x, often a power of two apart, would compete for the same cache sets. A block of
 * 16 panel rows of these groups stays in the second-level cache while all tokens are computed with
 * it, and the panel rows of a tile stay in the first-level cache with the packed tokens. Sums
 * continue in y, which changes no bit: the order of the groups is the same as without blocks. */
#ifndef RETAIN_KERNELS_CPU_V16_PANELS_H
#define RETAIN_KERNELS_CPU_V16_PANELS_H

#include "kernels/cpu/v16.h"

#include <string.h>

enum {
    PANEL_BLOCK = 16,
    PANEL_AHEAD = 4096,           /* approximate bytes that a stream is prefetched ahead */
    PANEL_LONG = 4096 / KN_GROUP, /* groups */
};

/* One group of the packed tokens: x ~ d q, and for the group or each of its halves what its minima
 * are multiplied by and what its integer sums begin with, see panel_starts. */
struct act_group {
    int8_t q[PANEL_TOK][KN_GROUP];
    float d[PANEL_TOK], total[2][PANEL_TOK];
    int32_t start[2][PANEL_TOK];
};

/* Pointers to the same numbers of T tokens: token t's q at q + t * KN_GROUP, the rest at [t]. */
struct act_at {
    const int8_t *q;
    const float *d, *total[2];
    const int32_t *start[2];
};

/* The offset that unsigned weights have, except where an instruction set reads them as signed. */
V16_INLINE int32_t panel_offset(enum kn_type type)
{
    switch (type) {
    case KN_Q4: return 8;
    case KN_Q8:
    case KN_IQ4:
    case KN_IQ4S: return 128;
    case KN_MX4:
    case KN_NV4: return 12;
    case KN_Q6: return 32;
    case KN_Q3S: return 4;
    case KN_IQ3X:
    case KN_IQ2: return 64;
    case KN_IQ3S:
    case KN_IQ1: return 16;
    default: return 0;
    }
}

/* Whether the halves of a group have separate scales, and whether groups have minima. */
V16_INLINE int panel_halves(enum kn_type type)
{
    return type == KN_Q6 || type == KN_NV4 || type == KN_Q3S || type == KN_Q2S || type == KN_IQ2 ||
           type == KN_IQ1;
}

V16_INLINE int panel_minima(enum kn_type type)
{
    return type == KN_Q4A || type == KN_Q5A || type == KN_Q4S || type == KN_Q2S;
}

/* Groups of a panel. */
V16_INLINE int panel_groups(enum kn_type type)
{
    return kn_columns(type) / KN_GROUP;
}

/* Bytes of n groups, of whole panels. */
V16_INLINE size_t panels_bytes(enum kn_type type, size_t n)
{
    return n / (size_t)panel_groups(type) * kn_panel_bytes(type);
}

/* The bytes from the panel of group g to that of the next one. */
V16_INLINE size_t panel_step(enum kn_type type, int g)
{
    return (g + 1) % panel_groups(type) == 0 ? kn_panel_bytes(type) : 0;
}

static inline const uint8_t *panel_at(const struct kn_weight *w, int r, int g)
{
    const size_t n_group = (size_t)w->n_in / KN_GROUP;
    return (const uint8_t *)w->data +
           panels_bytes(w->type, (size_t)(r / KN_PANEL) * n_group + (size_t)g);
}

/* The work of a tile: n_row rows of y[t * stride + row], continued unless `first`, for the n_tok
 * packed tokens from t0 on that exist. A panel row is `step` bytes after the one above it; the
 * panels that are needed next are `ahead` bytes after these, 0 = not prefetched. */
struct panel_job {
    const uint8_t *panels;
    size_t step;
    ptrdiff_t ahead;
    int ahead_from, ahead_to; /* of these rows of the tile */
    int n_group;
    const struct act_group *x;
    int t0, n_tok;
    float *y;
    size_t stride;
    int n_row, first;
};

/* The starts of the integer sums of a group, or of its halves: they correct for the weights'
 * offset. sum: of q; first: of its first half, or the same if the type has no halves. */
V16_INLINE void panel_starts(enum kn_type type, int32_t start[2], const int8_t *q, int32_t sum,
                             int32_t first);

/* With sums of 32 bits. */
V16_INLINE void offset_starts(int32_t start[2], int offset, int32_t sum, int32_t first)
{
    start[0] = -offset * first;
    start[1] = -offset * (sum - first);
}

/* The numbers of a group of one token that are not in struct kn_act. */
struct act_one {
    float total[2];
    int32_t start[2];
};

V16_INLINE void group_of_token(enum kn_type type, struct act_one *out, const int8_t *q, float d,
                               int32_t sum)
{
    const int32_t first = panel_halves(type) ? v16_sum_i8(q) : sum;

    out->start[0] = out->start[1] = 0;
    panel_starts(type, out->start, q, sum, first);
    if (!panel_minima(type)) return;
    out->total[0] = d * (float)first;
    out->total[1] = d * (float)(sum - first);
}

/* R: panel rows, T: tokens (2, 4, … PANEL_WIDE), of which n_row and n_tok are stored. */
V16_INLINE void panel_tile(enum kn_type type, int R, int T, const struct panel_job *job);
V16_INLINE void panel_stream(enum kn_type type, int P, const uint8_t *panels, size_t step,
                             int n_group, const struct kn_act *x, float *y, int n_row);
#ifdef PANEL_FEW
V16_INLINE void panel_many(enum kn_type type, const struct kn_matmul *job, float *y);
#endif

/* Packs tokens [t0, t0 + n_tok) of groups [g0, g0 + n_group); missing tokens of a tile are zero. */
V16_INLINE void pack_tile(enum kn_type type, struct act_group *out, const struct kn_act *x, int t0,
                          int n_tok, int g0, int n_group)
{
    const size_t row = (size_t)x->n_in / KN_GROUP;

    if (n_tok < PANEL_TOK) memset(out, 0, (size_t)n_group * sizeof *out);
    for (int t = 0; t < n_tok; t++) {
        const size_t at = (size_t)(t0 + t) * row + (size_t)g0;

        for (int g = 0; g < n_group; g++) {
            const int8_t *q = x->q + (at + (size_t)g) * KN_GROUP;
            struct act_one one;

            group_of_token(type, &one, q, x->d[at + (size_t)g], x->sum[at + (size_t)g]);
            memcpy(out[g].q[t], q, KN_GROUP);
            out[g].d[t] = x->d[at + (size_t)g];
            for (int h = 0; h < 2; h++) {
                out[g].start[h][t] = one.start[h];
                if (panel_minima(type) && h <= panel_halves(type))
                    out[g].total[h][t] = one.total[h];
            }
        }
    }
}

/* A tile no wider than its tokens need. */
V16_INLINE void panel_narrow(enum kn_type type, int R, const struct panel_job *job)
{
    if (job->n_tok <= 2)
        panel_tile(type, R, 2, job);
    else if (job->n_tok <= 4 && PANEL_WIDE > 4)
        panel_tile(type, R, 4, job);
    else
        panel_tile(type, R, PANEL_WIDE, job);
}

/* The packed tokens with the panel rows of a tile. */
V16_INLINE void panel_wide(enum kn_type type, struct panel_job job, int n_tok)
{
    job.ahead_to =
        n_tok > PANEL_WIDE ? 1 : PANEL_ROWS; /* while two tiles are computed, if so many are */
    for (job.t0 = 0; job.t0 < n_tok; job.t0 += job.n_tok) {
        const int left = n_tok - job.t0;

        /* no tile of one or two tokens after a wide one: it has too few sums to fill the ports */
        job.n_tok = left <= PANEL_WIDE ? left : left <= PANEL_WIDE + 2 ? 4 : PANEL_WIDE;
        if (PANEL_ROWS > 1 && job.n_row > KN_PANEL)
            panel_narrow(type, PANEL_ROWS, &job);
        else
            panel_narrow(type, 1, &job);
        job.y += (size_t)job.n_tok * job.stride;
        job.ahead_from = job.ahead_to;
        job.ahead_to = PANEL_ROWS;
    }
}

/* Computes tokens [0, n_tok) with the panel rows of a block [r0, r1), groups [g0, g0 + n_group);
 * after it, the panels at `next` are needed. */
V16_INLINE void panel_block(enum kn_type type, const struct kn_matmul *job, int n_tok, int r0,
                            int r1, int g0, int n_group, const uint8_t *next, float *y)
{
    const size_t row = panels_bytes(type, (size_t)job->w->n_in / KN_GROUP);
    const int height = KN_PANEL * PANEL_ROWS;
    _Alignas(64) struct act_group x[PANEL_CHUNK];

    for (int t = 0; t < n_tok; t += PANEL_TOK) {
        const int n = n_tok - t < PANEL_TOK ? n_tok - t : PANEL_TOK;

        pack_tile(type, x, job->x, t, n, g0, n_group);
        for (int r = r0, n_row; r < r1; r += n_row) {
            const uint8_t *panels = panel_at(job->w, r, g0);

            n_row = r1 - r >= height ? height : r1 - r < KN_PANEL ? r1 - r : KN_PANEL;
            const struct panel_job tile = {
                .panels = panels,
                .step = row,
                .ahead = t > 0            ? 0
                         : r + n_row < r1 ? n_row / KN_PANEL * (ptrdiff_t)row
                                          : next - panels,
                .n_group = n_group,
                .x = x,
                .y = y + (size_t)t * job->y_stride + (r - job->row0),
                .stride = job->y_stride,
                .n_row = n_row,
                .first = g0 == 0,
            };
            panel_wide(type, tile, n);
        }
    }
}

V16_INLINE void panel_tiles(enum kn_type type, const struct kn_matmul *job, int n_tok, float *y)
{
    enum { BLOCK_ROWS = PANEL_BLOCK * KN_PANEL };
    const int n_group = job->w->n_in / KN_GROUP, row1 = job->row1;

    for (int r = job->row0; r < row1; r += BLOCK_ROWS) {
        const int end = row1 - r < BLOCK_ROWS ? row1 : r + BLOCK_ROWS;
        for (int g = 0; g < n_group; g += PANEL_CHUNK) {
            const int n = n_group - g < PANEL_CHUNK ? n_group - g : PANEL_CHUNK;
            const int to = g + n < n_group ? r : end;
            panel_block(type, job, n_tok, r, end, g, n, panel_at(job->w, to, (g + n) % n_group), y);
        }
    }
}

/* The only token. On a Sapphire Rapids eight streams read rows of 8,192 columns up to 12 % faster
 * than four, and rows of 576 a fifth slower. */
V16_INLINE void panel_streams(enum kn_type type, const struct kn_matmul *job, float *y)
{
    enum { STREAM_ROWS = PANEL_STREAMS * KN_PANEL, HALF = STREAM_ROWS / 2 };
    const size_t n_group = (size_t)job->w->n_in / KN_GROUP, step = panels_bytes(type, n_group);
    const struct kn_act *x = job->x;
    const bool all = PANEL_STREAMS <= 4 || n_group >= PANEL_LONG;
    int r = job->row0;

    for (; all && r + STREAM_ROWS <= job->row1; r += STREAM_ROWS, y += STREAM_ROWS)
        panel_stream(type, PANEL_STREAMS, panel_at(job->w, r, 0), step, (int)n_group, x, y,
                     KN_PANEL);
    for (; PANEL_STREAMS > 4 && r + HALF <= job->row1; r += HALF, y += HALF)
        panel_stream(type, PANEL_STREAMS / 2, panel_at(job->w, r, 0), step, (int)n_group, x, y,
                     KN_PANEL);
    for (; r < job->row1; r += KN_PANEL, y += KN_PANEL)
        panel_stream(type, 1, panel_at(job->w, r, 0), step, (int)n_group, x, y,
                     job->row1 - r < KN_PANEL ? job->row1 - r : KN_PANEL);
}

V16_INLINE void matmul_panels(enum kn_type type, const struct kn_matmul *job, float *y)
{
    if (job->n_tok == 1) panel_streams(type, job, y);
#ifdef PANEL_FEW
    else if (job->n_tok > PANEL_FEW)
        panel_many(type, job, y);
#endif
    else
        panel_tiles(type, job, job->n_tok, y);
}

/* ---- shared by the tiles of every instruction set ------------------------------------------- */

/* Of the packed tokens from t on. */
V16_INLINE struct act_at act_in_tile(const struct act_group *x, int t)
{
    const struct act_at at = {
        x->q[t], x->d + t, {x->total[0] + t, x->total[1] + t}, {x->start[0] + t, x->start[1] + t}};
    return at;
}

/* Group g of the first token of x. */
V16_INLINE struct act_at act_of_token(enum kn_type type, const struct kn_act *x, int g,
                                      struct act_one *one)
{
    const int8_t *q = x->q + g * KN_GROUP;
    const struct act_at at = {
        q, x->d + g, {&one->total[0], &one->total[1]}, {&one->start[0], &one->start[1]}};

    group_of_token(type, one, q, x->d[g], x->sum[g]);
    return at;
}

/* Distance from group g of a run of groups to the data that is prefetched with it; near the end of
 * the run this is in the next one, `jump` bytes after that end. */
V16_INLINE ptrdiff_t panel_ahead(enum kn_type type, ptrdiff_t jump, int g, int n_group)
{
    const int n = PANEL_AHEAD / (int)kn_panel_bytes(type);
    return n * (ptrdiff_t)kn_panel_bytes(type) + (g + n * panel_groups(type) < n_group ? 0 : jump);
}

/* The share of group g in the bytes of its panel. */
V16_INLINE size_t panel_share(enum kn_type type)
{
    return kn_panel_bytes(type) / (size_t)panel_groups(type);
}
V16_INLINE size_t panel_share_at(enum kn_type type, int g)
{
    return (size_t)(g % panel_groups(type)) * panel_share(type);
}

/* Hardware prefetchers stop at every page border and do not know the blocks. */
V16_INLINE void panel_prefetch(enum kn_type type, const uint8_t *panel, int g)
{
    const uint8_t *at = panel + panel_share_at(type, g);
    for (size_t i = 0; i < panel_share(type); i += 64) __builtin_prefetch(at + i);
}

/* The same for P streams, a P-th with each of them, line by line through all: memory bandwidth
 * grows with the number of pages read at once. Two threads of a Xeon reached 80 % of the bandwidth
 * of 8 streams with 2, 93 % with 4, and 93 % with 8 panel by panel. */
V16_INLINE void panel_prefetch_share(enum kn_type type, int P, int p, const uint8_t *panels,
                                     size_t step, int g)
{
    const int n_line = (int)(panel_share(type) + 63) / 64;

    panels += panel_share_at(type, g);
#pragma GCC unroll 16
    for (int i = p * n_line; i < (p + 1) * n_line; i++)
        __builtin_prefetch(panels + (size_t)(i % P) * step + (size_t)(i / P) * 64);
}

/* ---- entries of the table ------------------------------------------------------------------- */

#define PANEL_ENTRY(name, type)                          \
    static inline void name(const struct kn_matmul *job) \
    {                                                    \
        matmul_panels(type, job, job->y + job->row0);    \
    }
PANEL_ENTRY(matmul_q4_v16, KN_Q4)
PANEL_ENTRY(matmul_q8_v16, KN_Q8)
PANEL_ENTRY(matmul_q4a_v16, KN_Q4A)
PANEL_ENTRY(matmul_q5a_v16, KN_Q5A)
PANEL_ENTRY(matmul_q6_v16, KN_Q6)
PANEL_ENTRY(matmul_iq4_v16, KN_IQ4)
PANEL_ENTRY(matmul_mx4_v16, KN_MX4)
PANEL_ENTRY(matmul_nv4_v16, KN_NV4)
PANEL_ENTRY(matmul_iq4s_v16, KN_IQ4S)
PANEL_ENTRY(matmul_q4s_v16, KN_Q4S)
PANEL_ENTRY(matmul_q3s_v16, KN_Q3S)
PANEL_ENTRY(matmul_q2s_v16, KN_Q2S)
PANEL_ENTRY(matmul_iq3x_v16, KN_IQ3X)
PANEL_ENTRY(matmul_iq3s_v16, KN_IQ3S)
PANEL_ENTRY(matmul_iq2_v16, KN_IQ2)
PANEL_ENTRY(matmul_iq1_v16, KN_IQ1)

#endif
