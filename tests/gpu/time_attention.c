/* Attention of one token and of chunks, and the launches around it. */
#include <stdio.h>

#include "tests/gpu/timed.h"

/* ---- attention ------------------------------------------------------------------------------- */

static struct cuda_attend attend_of(int copy, int n_tok, int n_split)
{
    const int rows = n_tok * now.shape.heads * now.shape.group * n_split;
    return (struct cuda_attend){.cache = cache_of(copy),
                                .q = floats(),
                                .q_stride = n_qkv(),
                                .cos = floats(),
                                .sin = floats(),
                                .n_tok = n_tok,
                                .n_group = now.shape.group,
                                .n_split = n_split,
                                .scale = 0.088f,
                                .m = out(),
                                .l = out() + rows,
                                .acc = out() + 2 * rows};
}

static void one_args(int copy, void *to)
{
    *(struct cuda_attend_one *)to = (struct cuda_attend_one){.at = attend_of(copy, 1, now.n_split),
                                                             .k = floats(),
                                                             .v = floats(),
                                                             .pos = &now.words->pos,
                                                             .ticket = now.words->tickets,
                                                             .act = act()};
}

/* Keys and values of any numbers. */
static struct cuda_expanded expanded(void)
{
    const int n_tile = parts_of(now.n_units + now.n_tok, CUDA_TILE);
    const size_t numbers = (size_t)(now.shape.heads * n_tile) * CUDA_TILE * (size_t)now.shape.dim;
    return (struct cuda_expanded){now.expanded, (uint16_t *)(void *)(now.expanded + 2 * numbers),
                                  floats(), n_tile, 0};
}

static void expand_args(int copy, void *to)
{
    *(struct cuda_expand *)to =
        (struct cuda_expand){cache_of(copy), floats(), floats(), now.n_tok, expanded(), floats()};
}

static void chunk_args(int copy, void *to)
{
    struct cuda_attend *a = to;
    *a = attend_of(copy, now.n_tok, 1);
    a->units = expanded();
}

static void attend_token(int n_units)
{
    char size[32];
    if (!use_units(KN_KV_S5, n_units)) return;
    now.n_split = splits_of(n_units, CUDA_ATTEND_BLOCKS(now.shape.dim));
    const double bytes = (double)now.shape.heads * n_units * unit_bytes();
    const double multiply_adds = 2.0 * now.shape.heads * CUDA_ATTEND_COLS * now.shape.dim * n_units;
    const struct job j = {.name = "attend_one",
                          .kernel = CUDA_KERNEL_attend_one_64 +
                                    (enum cuda_kernel)(now.shape.dim / 32 - 2),
                          .grid = {now.n_split, now.shape.heads, 1},
                          .threads = CUDA_ATTEND_THREADS,
                          .shared = (size_t)CUDA_DECODE_SHARED(now.shape.dim),
                          .work = {.bytes = bytes, .f16 = multiply_adds},
                          .mma = multiply_adds / (16 * 8 * 16),
                          .n_copies = cache_copies(),
                          .args = one_args};
    snprintf(size, sizeof size, "q4 %d", n_units);
    time_job(&j, now.shape.name, size);
}

static void expand(enum kn_kv kv, const char *kv_name, int n_units, bool is_int8)
{
    char size[32];
    if (!use_units(kv, n_units)) return;
    const double numbers = 2.0 * now.shape.heads * n_units * now.shape.dim;
    const struct job j = {.name = is_int8 ? "expand_int8" : "expand_f16",
                          .kernel = is_int8 ? CUDA_KERNEL_expand_int8 : CUDA_KERNEL_expand_f16,
                          .grid = {expanded().n_tile, now.shape.heads, 1},
                          .threads = CUDA_ATTEND_THREADS,
                          .shared = CUDA_EXPAND_SHARED,
                          .work.bytes = numbers * (is_int8 ? 1.5 : 2) +
                                        2.0 * now.shape.heads * n_units *
                                            (double)kn_kv_bytes(kv, now.shape.dim),
                          .n_copies = cache_copies(),
                          .args = expand_args};
    snprintf(size, sizeof size, "%s %d", kv_name, n_units);
    time_job(&j, now.shape.name, size);
}

static void attend_chunk(int n_units, bool is_int8)
{
    char size[32];
    if (!use_units(KN_KV_S5, n_units)) return;
    /* of the products with keys, and as many with values */
    const double half = (double)now.shape.heads * now.shape.group * now.shape.dim * now.n_tok *
                        (n_units + now.n_tok / 2.0);
    const enum cuda_kernel first =
        is_int8 ? CUDA_KERNEL_attend_int8_64 : CUDA_KERNEL_attend_chunk_64;
    const struct job j = {
        .name = is_int8 ? "attend_int8" : "attend_chunk",
        .kernel = first + (enum cuda_kernel)(now.shape.dim / 32 - 2),
        .grid = {parts_of(now.n_tok * now.shape.group, CUDA_ATTEND_ROWS), now.shape.heads, 1},
        .threads = CUDA_CHUNK_THREADS,
        .shared = CUDA_CHUNK_SHARED((size_t)now.shape.dim, is_int8 ? 1u : 2u),
        .work = {.bytes = 2.0 * now.shape.heads * n_units * now.shape.dim * (is_int8 ? 1.5 : 2),
                 .f16 = is_int8 ? half : 2 * half,
                 .s8 = is_int8 ? half : 0},
        .mma = is_int8 ? half / (16 * 8 * 32) + half / (16 * 8 * 16) : 2 * half / (16 * 8 * 16),
        .n_copies = cache_copies(),
        .args = chunk_args};
    snprintf(size, sizeof size, "%d", n_units);
    time_job(&j, now.shape.name, size);
}

static void any_args(int copy, void *to)
{
    *(struct cuda_attend_any *)to = (struct cuda_attend_any){.at = attend_of(copy, 1, now.n_split)};
}

static void merge_any_args(int copy, void *to)
{
    const struct cuda_attend at = attend_of(copy, 1, now.n_split);
    *(struct cuda_merge_any *)to = (struct cuda_merge_any){.m = at.m,
                                                           .l = at.l,
                                                           .acc = at.acc,
                                                           .n_split = now.n_split,
                                                           .n_tok = 1,
                                                           .n_group = now.shape.group,
                                                           .n_head = now.shape.heads,
                                                           .head_dim = now.shape.dim,
                                                           .out = floats()};
}

/* One token with units other than 4-bit ones: attend_any, and the merge of its splits. */
static void attend_other_units(enum kn_kv kv, const char *kv_name, int n_units)
{
    char size[32];
    if (!use_units(kv, n_units)) return;
    now.n_split = splits_of(n_units, 2);
    const struct shape *s = &now.shape;
    const int most = s->dim > 64 ? 128 : 64;
    const struct job any = {
        .name = "attend_any",
        .kernel = most > 64 ? CUDA_KERNEL_attend_any_128 : CUDA_KERNEL_attend_any_64,
        .grid = {1, s->heads, now.n_split},
        .threads = CUDA_ATTEND_THREADS,
        .shared = CUDA_ANY_SHARED(most, (size_t)s->dim, 2 * kn_kv_bytes(kv, s->dim)),
        .work.bytes = 2.0 * s->heads * n_units * (double)kn_kv_bytes(kv, s->dim),
        .n_copies = cache_copies(),
        .args = any_args};
    const struct job merge = {.name = "merge_any",
                              .kernel = CUDA_KERNEL_merge_any,
                              .grid = {s->group, s->heads, 1},
                              .threads = 128,
                              .work.bytes = 4.0 * s->heads * s->group * now.n_split *
                                            CUDA_PARTIAL_FLOATS(s->dim),
                              .n_copies = 1,
                              .args = merge_any_args};
    snprintf(size, sizeof size, "%s %d", kv_name, n_units);
    time_job(&any, s->name, size);
    if (kv == KN_KV_Q8) time_job(&merge, s->name, size);
}

static void append_args(int copy, void *to)
{
    *(struct cuda_append *)to = (struct cuda_append){.cache = cache_of(copy),
                                                     .k = floats(),
                                                     .v = floats(),
                                                     .stride = n_qkv(),
                                                     .pos = &now.words->pos,
                                                     .n_tok = now.n_tok};
}

static void merge_args(int copy, void *to)
{
    const struct cuda_attend at = attend_of(copy, now.n_tok, 1);
    *(struct cuda_merge *)to = (struct cuda_merge){.m = at.m,
                                                   .l = at.l,
                                                   .acc = at.acc,
                                                   .n_split = 1,
                                                   .n_tok = now.n_tok,
                                                   .n_group = now.shape.group,
                                                   .n_head = now.shape.heads,
                                                   .head_dim = now.shape.dim,
                                                   .act = made_act()};
}

/* The two small launches around a chunk's attention. */
static void append_and_merge(void)
{
    const struct shape *s = &now.shape;
    if (!use_units(KN_KV_S5, scaled(16384, CUDA_TILE))) return;
    const double numbers = (double)now.n_tok * s->heads * s->dim;
    const struct job append = {.name = "kv_append",
                               .kernel = CUDA_KERNEL_kv_append,
                               .grid = {now.n_tok, s->heads, 1},
                               .threads = 128,
                               .work.bytes = numbers * (8 + unit_bytes() / s->dim),
                               .n_copies = cache_copies(),
                               .args = append_args};
    const struct job merge = {.name = "attend_merge",
                              .kernel = CUDA_KERNEL_attend_merge,
                              .grid = {parts_of(now.n_tok * s->group, 4), s->heads, 1},
                              .threads = 128,
                              .work.bytes = numbers * s->group * 5,
                              .n_copies = 1,
                              .args = merge_args};
    time_job(&append, s->name, "q5:q4");
    time_job(&merge, s->name, "chunk");
}

void time_attention(void)
{
    for (int n = 1024, last = 0; n <= UNITS_MAX; n *= 4) {
        const int n_units = scaled(n, CUDA_TILE);
        if (n_units == last) continue; /* of a dry run */
        last = n_units;
        attend_token(n_units);
        attend_other_units(KN_KV_Q8, "q8", n_units);
        attend_other_units(KN_KV_F16, "f16", n_units);
        attend_chunk(n_units, false);
        attend_chunk(n_units, true);
    }
    expand(KN_KV_S5, "q5:q4", scaled(16384, CUDA_TILE), false);
    expand(KN_KV_S5, "q5:q4", scaled(16384, CUDA_TILE), true);
    expand(KN_KV_Q8, "q8", scaled(16384, CUDA_TILE), false);
    expand(KN_KV_F16, "f16", scaled(16384, CUDA_TILE), false);
    append_and_merge();
}
