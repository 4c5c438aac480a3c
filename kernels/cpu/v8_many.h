/* Products of many tokens for 256-bit registers, included by v8_panels.h, whose tiles unpack
 * weights and scales for only four tokens. Here a panel row is unpacked once for a block of 128
 * tokens, into the first-level cache, and the tiles of all its tokens read it from there; the
 * packed tokens of the block stay in the second-level cache. The integer sums are those of
 * v8_panels.h, and the float sums are in the same order, so the bits are the same.
 *
 * Signed weights are unpacked to words, and so are their tokens: vpmaddwd adds their products
 * without moving signs. A dword has the even or the odd columns of four. */
#ifndef RETAIN_KERNELS_CPU_V8_MANY_H
#define RETAIN_KERNELS_CPU_V8_MANY_H

enum {
    MANY_TOK = 128,
    MANY_TILES = MANY_TOK / PANEL_TOK,
    MANY_WORDS = PANEL_CHUNK / 2, /* groups of words that are unpacked together */
};

/* The even columns of each token, then the odd ones; x ~ d q. */
struct act_words {
    int16_t q[PANEL_TOK][2][KN_GROUP / 2];
    float d[PANEL_TOK];
};

/* A panel row and the tokens of a block, 240 KB. Weights of a group: bytes [8][KN_PANEL][4] or
 * words [16][KN_PANEL][2]. */
struct many {
    _Alignas(64) uint8_t weights[PANEL_CHUNK * KN_GROUP * KN_PANEL];
    float scale[PANEL_CHUNK][2][KN_PANEL], min[PANEL_CHUNK][2][KN_PANEL];
    union {
        struct act_group x[MANY_TILES][PANEL_CHUNK];
        struct act_words words[MANY_TILES][MANY_WORDS];
    };
};

V16_INLINE int many_groups(enum kn_type type)
{
    return is_signed(type) ? MANY_WORDS : PANEL_CHUNK;
}

/* Bytes of four columns of a panel's rows. */
V16_INLINE int many_step(enum kn_type type)
{
    return KN_PANEL * 4 * (is_signed(type) ? 2 : 1);
}

/* The even or the odd bytes of q as words. */
V16_INLINE __m256i words_of(__m256i q, int odd)
{
    return _mm256_srai_epi16(odd ? q : _mm256_slli_epi16(q, 8), 8);
}

static inline void pack_words(struct act_words *out, const struct kn_act *x, int t0, int n_tok,
                              int g0, int n_group)
{
    const size_t row = (size_t)x->n_in / KN_GROUP;

    if (n_tok < PANEL_TOK) memset(out, 0, (size_t)n_group * sizeof *out);
    for (int t = 0; t < n_tok; t++)
        for (int g = 0; g < n_group; g++) {
            const size_t at = (size_t)(t0 + t) * row + (size_t)(g0 + g);
            const __m256i q = _mm256_loadu_si256((const __m256i *)(x->q + at * KN_GROUP));

            _mm256_storeu_si256((__m256i *)out[g].q[t][0], words_of(q, 0));
            _mm256_storeu_si256((__m256i *)out[g].q[t][1], words_of(q, 1));
            out[g].d[t] = x->d[at];
        }
}

V16_INLINE void pack_many(enum kn_type type, struct many *many, const struct kn_act *x, int t0,
                          int n_tok, int g0, int n_group)
{
    for (int t = 0; t < n_tok; t += PANEL_TOK) {
        const int n = n_tok - t < PANEL_TOK ? n_tok - t : PANEL_TOK, tile = t / PANEL_TOK;

        if (is_signed(type))
            pack_words(many->words[tile], x, t0 + t, n, g0, n_group);
        else
            pack_tile(type, many->x[tile], x, t0 + t, n, g0, n_group);
    }
}

V16_INLINE void unpack_many(enum kn_type type, struct many *many, const uint8_t *panel, int n_group)
{
    uint8_t *to = many->weights;

    for (int g = 0; g < n_group; panel += panel_step(type, g++)) {
        const int s = g % panel_groups(type);

#pragma GCC unroll 8
        for (int j = 0; j < 8; j++, to += many_step(type))
#pragma GCC unroll 2
            for (int half = 0; half < 2; half++) {
                const __m256i w = columns(type, panel, s, half, j);
                __m256i *at = (__m256i *)to + half;

                _mm256_storeu_si256(at, is_signed(type) ? words_of(w, 0) : w);
                if (is_signed(type)) _mm256_storeu_si256(at + 2, words_of(w, 1));
            }
        for (int h = 0; h <= panel_halves(type); h++)
#pragma GCC unroll 2
            for (int half = 0; half < 2; half++) {
                const int at = 8 * half;
                _mm256_storeu_ps(many->scale[g][h] + at, panel_scales(type, panel, s, h, half));
                if (panel_minima(type))
                    _mm256_storeu_ps(many->min[g][h] + at, panel_mins(type, panel, s, h, half));
            }
    }
}

/* The integer dot products of part h of a group with the tokens of a tile. */
V16_INLINE void dot_many(enum kn_type type, __m256i dot[][2], const uint8_t *weights, int h,
                         struct act_at x)
{
    const int words = is_signed(type), n = (panel_halves(type) ? 4 : 8) << words;
    const __m256i *w = (const __m256i *)weights + 2 * n * h;

    start_dots(type, dot, PANEL_TOK, x.start[h]);
#pragma GCC unroll 16
    for (int i = 0; i < n; i++) {
        const __m256i w0 = _mm256_load_si256(w + 2 * i), w1 = _mm256_load_si256(w + 2 * i + 1);
        const int j = i + n * h, at = words ? 4 * (j / 2) + j % 2 * KN_GROUP : 4 * j;

#pragma GCC unroll 4
        for (int t = 0; t < PANEL_TOK; t++) {
            const __m256i four = four_columns(x.q + ((t * KN_GROUP) << words) + at);

            if (words) {
                dot[t][0] = _mm256_add_epi32(dot[t][0], _mm256_madd_epi16(w0, four));
                dot[t][1] = _mm256_add_epi32(dot[t][1], _mm256_madd_epi16(w1, four));
            } else {
                dot[t][0] = dot_four(type, dot[t][0], w0, four);
                dot[t][1] = dot_four(type, dot[t][1], w1, four);
            }
            V8_KEEP(dot[t][0], dot[t][1]);
            V8_IN_ORDER();
        }
    }
}

V16_INLINE struct act_at act_of_many(enum kn_type type, const struct many *many, int tile, int g)
{
    if (!is_signed(type)) return act_in_tile(&many->x[tile][g], 0);

    const struct act_words *words = &many->words[tile][g];
    return (struct act_at){.q = (const int8_t *)words->q, .d = words->d};
}

V16_INLINE void tile_many(enum kn_type type, const struct many *many, int tile, int n_group,
                          float (*sums)[KN_PANEL])
{
    for (int g = 0; g < n_group; g++) {
        const struct act_at x = act_of_many(type, many, tile, g);

#pragma GCC unroll 2
        for (int h = 0; h <= panel_halves(type); h++) {
            __m256i dot[PANEL_TOK][2];

            dot_many(type, dot, many->weights + g * 8 * many_step(type), h, x);
#pragma GCC unroll 2
            for (int k = 0; k < 2; k++) {
                const __m256 scale = _mm256_loadu_ps(many->scale[g][h] + 8 * k);
                const __m256 min = _mm256_loadu_ps(many->min[g][h] + 8 * k);

                add_scaled(type, sums, 8 * k, PANEL_TOK, dot, k, scale, min, h, x);
            }
            V8_IN_ORDER();
        }
    }
}

#define V8_MANY_LOOPS(type)                                                                 \
    V16_APART void unpack_many_##type(struct many *many, const uint8_t *panel, int n_group) \
    {                                                                                       \
        unpack_many(type, many, panel, n_group);                                            \
    }                                                                                       \
    V16_APART void tile_many_##type(const struct many *many, int tile, int n_group,         \
                                    float(*sums)[KN_PANEL])                                 \
    {                                                                                       \
        tile_many(type, many, tile, n_group, sums);                                         \
    }
V8_TYPES(V8_MANY_LOOPS)

#define V8_UNPACK_MANY(type)                      \
    case type:                                    \
        unpack_many_##type(many, panel, n_group); \
        break;
#define V8_TILE_MANY(type) \
    case type: tile_many_##type(many, t / PANEL_TOK, n_group, sums); break;

/* n_row rows of y, continued unless `first`, for the packed tokens. Fetches the sums of the next
 * tile and the n_group groups at `next`: both are far from those before them. */
V16_INLINE void panel_row_many(enum kn_type type, struct many *many, const uint8_t *panel,
                               const uint8_t *next, int n_group, int n_tok, float *y, size_t stride,
                               int n_row, bool first)
{
    _Alignas(32) float sums[PANEL_TOK][KN_PANEL];

    switch (type) {
        V8_TYPES(V8_UNPACK_MANY)
    default: break;
    }
    for (size_t i = 0; i < panels_bytes(type, (size_t)n_group); i += 64)
        __builtin_prefetch(next + i, 0, 2);
    for (int t = 0; t < n_tok; t += PANEL_TOK, y += PANEL_TOK * stride) {
        const int n = n_tok - t < PANEL_TOK ? n_tok - t : PANEL_TOK;

        load_sums(sums, PANEL_TOK, y, stride, first ? 0 : n, n_row);
        for (int i = PANEL_TOK; i < 2 * PANEL_TOK && t + i < n_tok; i++)
            __builtin_prefetch(y + (size_t)i * stride, 1);
        switch (type) {
            V8_TYPES(V8_TILE_MANY)
        default: break;
        }
        store_sums(sums, y, stride, n, n_row);
    }
}

/* A last token alone would cost as much as a tile of four. */
V16_INLINE void matmul_many(enum kn_type type, const struct kn_matmul *job, float *y)
{
    const int n_group = job->w->n_in / KN_GROUP, most = many_groups(type);
    const int end = job->n_tok - (job->n_tok % PANEL_TOK == 1);
    struct many many;

    for (int t = 0; t < end; t += MANY_TOK) {
        const int n_tok = end - t < MANY_TOK ? end - t : MANY_TOK;

        for (int g = 0; g < n_group; g += most) {
            const int n = n_group - g < most ? n_group - g : most;
            float *to = y + (size_t)t * job->y_stride;

            pack_many(type, &many, job->x, t, n_tok, g, n);
            for (int r = job->row0; r < job->row1; r += KN_PANEL, to += KN_PANEL) {
                const int left = job->row1 - r, next = left > KN_PANEL ? r + KN_PANEL : r;

                panel_row_many(type, &many, panel_at(job->w, r, g), panel_at(job->w, next, g), n,
                               n_tok, to, job->y_stride, left < KN_PANEL ? left : KN_PANEL, g == 0);
            }
        }
    }
    if (end < job->n_tok) {
        const struct kn_act *x = job->x;
        const size_t group = (size_t)end * (size_t)n_group;
        const struct kn_act last = {x->n_in, NULL, x->q + group * KN_GROUP, x->d + group,
                                    x->sum + group};
        const struct kn_matmul one = {
            .w = job->w, .x = &last, .row0 = job->row0, .row1 = job->row1};

        panel_streams(type, &one, y + (size_t)end * job->y_stride);
    }
}

/* Apart, because other products need no such stack. */
#define V8_MATMUL_MANY(type)                                                 \
    V16_APART void matmul_many_##type(const struct kn_matmul *job, float *y) \
    {                                                                        \
        matmul_many(type, job, y);                                           \
    }
V8_TYPES(V8_MATMUL_MANY)

#define V8_MANY(type) \
    case type: matmul_many_##type(job, y); break;

V16_INLINE void panel_many(enum kn_type type, const struct kn_matmul *job, float *y)
{
    switch (type) {
        V8_TYPES(V8_MANY)
    default: break;
    }
}

#endif
