/* kit: shared by the tests of device kernels. Random numbers, guarded buffers and comparisons are
 * in tests/kern/kern.h. */
#ifndef RETAIN_TESTS_EMU_KIT_H
#define RETAIN_TESTS_EMU_KIT_H

#include "tests/kern/kern.h"

#include <stdbool.h>

#include "kernels/cuda/args.h"
#include "launch.h"

#define DECLARE_KERNEL(name, args) const char *name(const struct emu_launch *, const struct args *)

/* A GPU reaches neither the stack nor the program's own data: what kernels read and write is in
 * buffers of `take` and `guarded`, which tests/gpu sends to the device. Says which 8 bytes of a
 * kernel's arguments point elsewhere, or -1. */
static inline int on_host(const void *args, size_t bytes)
{
    extern char __executable_start[], _end[];
    extern void *__libc_stack_end;
    for (size_t i = 0; i < bytes / 8; i++) {
        uintptr_t at;
        memcpy(&at, (const char *)args + 8 * i, 8);
        if (at >= (uintptr_t)__executable_start && at < (uintptr_t)_end) return (int)i;
        if ((uintptr_t)__libc_stack_end - at < (uintptr_t)64 << 20) return (int)i;
    }
    return -1;
}

/* Whatever the padding of arguments holds would pass for half an address. */
#if defined __has_builtin
#if __has_builtin(__builtin_clear_padding)
#define CLEAR_PADDING(p) __builtin_clear_padding(p)
#endif
#endif
#ifndef CLEAR_PADDING
#define CLEAR_PADDING(p) (void)(p)
#endif

/* Launches a kernel; on error fails the test with the emulator's message. */
#define LAUNCH_AT(name, args, ...)                                                                \
    do {                                                                                          \
        const struct emu_launch at_ = {__VA_ARGS__};                                              \
        __auto_type args_ = *(args);                                                              \
        CLEAR_PADDING(&args_);                                                                    \
        const int word_ = on_host(&args_, sizeof args_);                                          \
        if (word_ >= 0) fail_msg("%s: word %d of the arguments is a host address", #name, word_); \
        const char *wrong_ = name(&at_, &args_);                                                  \
        if (wrong_) fail_msg("%s: %s", #name, wrong_);                                            \
    } while (0)

#define LAUNCH(name, args, x, y, z, n_threads, shared, order) \
    LAUNCH_AT(name, args, {x, y, z}, n_threads, shared, order, 0)

/* The same of a cooperative launch of x blocks. */
#define LAUNCH_TOGETHER(name, args, x, n_threads, shared, order) \
    LAUNCH_AT(name, args, {x, 1, 1}, n_threads, shared, order, 1)

/* ---- a cache --------------------------------------------------------------------------------- */

static inline enum kn_kv kn_kv_of(enum cuda_kv type)
{
    static const enum kn_kv types[] = {KN_KV_Q4, KN_KV_Q8, KN_KV_F16, KN_KV_Q5, KN_KV_S4, KN_KV_S5};
    return types[type];
}

/* Slots of the pool: enough pages for `capacity` slots per head, and one unused page. */
static inline size_t cuda_cache_slots(const struct cuda_cache *c)
{
    return (size_t)(c->n_head * c->n_pages + 1) * CUDA_TILE;
}

/* Centres of n_head heads, with channels of very different means and scales. */
static inline float *centres_new(int dim, int n_head)
{
    struct rng rng = {(uint64_t)dim};
    float *x = take((size_t)(n_head * 3 * dim) * sizeof *x);

    rng_fill(&rng, x, (size_t)(n_head * 3 * dim), 1.0f);
    for (int i = 0; i < n_head * dim; i++) {
        float *mean = x + i / dim * 3 * dim + i % dim, *scale = mean + dim, *first = scale + dim;
        *scale = (fabsf(*scale) + 0.1f) * (i % 5 ? 0.3f : 1.0f);
        if (i % 7 == 0) *mean = *mean * 8 + 4;
        *first = *mean - 3 * *first;
    }
    return x;
}

static inline struct kn_centre centre_of(const struct cuda_cache *c, int head)
{
    const float *x = c->centres + head * 3 * c->head_dim;
    return (struct kn_centre){.mean = x, .scale = x + c->head_dim, .first = x + 2 * c->head_dim};
}

/* Heads take pages alternately from the pool's end. All bytes are NaN, with guards around. */
static inline struct cuda_cache cuda_cache_new(int dim, int n_head, int capacity,
                                               enum cuda_kv k_type, enum cuda_kv v_type)
{
    struct cuda_cache c = {.n_pages = (capacity + CUDA_TILE - 1) / CUDA_TILE,
                           .n_head = n_head,
                           .head_dim = dim,
                           .k_bytes = (int)kn_kv_bytes(kn_kv_of(k_type), dim),
                           .v_bytes = (int)kn_kv_bytes(kn_kv_of(v_type), dim),
                           .k_type = k_type,
                           .v_type = v_type,
                           .centres = CUDA_KV_CENTRED(k_type) ? centres_new(dim, n_head) : NULL};
    const size_t slots = cuda_cache_slots(&c);
    int32_t *pages = take((size_t)(n_head * c.n_pages) * sizeof *pages);

    for (int h = 0; h < n_head; h++)
        for (int i = 0; i < c.n_pages; i++) pages[h * c.n_pages + i] = (c.n_pages - i) * n_head - h;
    c.pages = pages;
    c.len = take((size_t)n_head * sizeof *c.len);
    c.k = guarded(slots * (size_t)c.k_bytes);
    c.v = guarded(slots * (size_t)c.v_bytes);
    c.pos = guarded(slots * sizeof *c.pos);
    c.score = guarded(slots * sizeof *c.score);
    return c;
}

/* The index of a head's slot in the pool. */
static inline size_t cuda_place(const struct cuda_cache *c, int head, int slot)
{
    const size_t page = (size_t)c->pages[head * c->n_pages + slot / CUDA_TILE];
    return page * CUDA_TILE + (size_t)(slot % CUDA_TILE);
}

static inline uint8_t *cuda_key(const struct cuda_cache *c, int head, int slot)
{
    return c->k + cuda_place(c, head, slot) * (size_t)c->k_bytes;
}

static inline uint8_t *cuda_value(const struct cuda_cache *c, int head, int slot)
{
    return c->v + cuda_place(c, head, slot) * (size_t)c->v_bytes;
}

/* Packs a head's key or value, x, into its slot; unpacks it. */
static inline void pack_key(struct cuda_cache *c, int head, int slot, float *x)
{
    const struct kn_centre centre = centre_of(c, head);
    const bool first = slot == 0 && c->pos[cuda_place(c, head, 0)] == 0;
    if (CUDA_KV_CENTRED(c->k_type)) kn_table("ref")->key_centre(x, &centre, first, c->head_dim);
    kn_table("ref")->kv_pack[kn_kv_of(c->k_type)](cuda_key(c, head, slot), x, c->head_dim);
}

static inline void unpack_key(float *x, const struct cuda_cache *c, int head, int slot)
{
    const struct kn_centre centre = centre_of(c, head);
    const bool first = slot == 0 && c->pos[cuda_place(c, head, 0)] == 0;
    kn_table("ref")->kv_unpack[kn_kv_of(c->k_type)](x, cuda_key(c, head, slot), c->head_dim);
    if (CUDA_KV_CENTRED(c->k_type)) kn_key_restore(x, &centre, first, c->head_dim);
}

/* ---- activations ----------------------------------------------------------------------------- */

/* Activations in fragment order. */
static inline struct cuda_act cuda_act_new(int n_tok, int n)
{
    const size_t blocks = (size_t)n_tok * (size_t)((n + CUDA_BLOCK - 1) / CUDA_BLOCK);
    return (struct cuda_act){guarded(blocks * CUDA_BLOCK),
                             guarded(blocks * 2 * sizeof(struct cuda_scale))};
}

/* Byte of column c of token t. */
static inline size_t cuda_act_at(int t, int c, int n)
{
    const size_t block =
        (size_t)t * (size_t)((n + CUDA_BLOCK - 1) / CUDA_BLOCK) + (size_t)(c / CUDA_BLOCK);
    const int group = c % 64 / 32, half = c % 32 / 16, word = c % 16 / 4;
    return block * CUDA_BLOCK + (size_t)(16 * word + 8 * group + 4 * half + c % 4);
}

/* The same numbers as a struct kn_act. */
static inline struct cuda_act cuda_act_from(const struct kn_act *x, int n_tok)
{
    const int n = x->n_in, blocks = (n + CUDA_BLOCK - 1) / CUDA_BLOCK;
    struct cuda_act act = cuda_act_new(n_tok, n);

    memset(act.q, 0, (size_t)(n_tok * blocks) * CUDA_BLOCK);
    memset(act.scale, 0, (size_t)(n_tok * blocks) * 2 * sizeof *act.scale);
    for (int t = 0; t < n_tok; t++)
        for (int c = 0; c < n; c++) {
            const size_t group = (size_t)t * (size_t)(n / 32) + (size_t)(c / 32);
            act.q[cuda_act_at(t, c, n)] = x->q[(size_t)t * (size_t)n + (size_t)c];
            act.scale[(t * blocks + c / 64) * 2 + c % 64 / 32] =
                (struct cuda_scale){x->d[group], x->d[group] * (float)x->sum[group]};
        }
    return act;
}

#endif
