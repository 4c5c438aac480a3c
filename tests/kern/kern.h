/* kern: shared by the kernel tests: repeatable random numbers, buffers that detect stray writes,
 * comparisons that name the place. */
#ifndef RETAIN_TESTS_KERN_H
#define RETAIN_TESTS_KERN_H

#include "tests/test.h"

#include "kernels/kernels.h"

#include <math.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

/* ---- random numbers ------------------------------------------------------------------------- */

struct rng {
    uint64_t state;
};

/* splitmix64 */
static inline uint64_t rng_bits(struct rng *rng)
{
    uint64_t z = rng->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline int rng_below(struct rng *rng, int n)
{
    return (int)(rng_bits(rng) % (uint64_t)n);
}

/* Uniform in -1..1. */
static inline float rng_float(struct rng *rng)
{
    return (float)((double)(rng_bits(rng) >> 11) * 0x1p-52 - 1.0);
}

static inline void rng_fill(struct rng *rng, float *x, size_t n, float scale)
{
    for (size_t i = 0; i < n; i++) x[i] = rng_float(rng) * scale;
}

/* ---- memory --------------------------------------------------------------------------------- */

enum { GUARD = 64, GUARD_BYTE = 0xa5 };

static struct buffer {
    struct buffer *before;
    void *at;
    size_t bytes;
    bool guarded; /* its first and last bytes are guards */
} * buffers;

static inline void buffers_end(struct buffer **outer)
{
    while (buffers != *outer) {
        struct buffer b = *buffers;
        free(buffers);
        buffers = b.before;
        const uint8_t *before = b.at, *after = before + b.bytes - GUARD;
        for (size_t i = 0; b.guarded && i < GUARD; i++) {
            if (before[i] != GUARD_BYTE) fail_msg("wrote %zu bytes before the buffer", GUARD - i);
            if (after[i] != GUARD_BYTE) fail_msg("wrote %zu bytes past the buffer", i);
        }
        free(b.at);
    }
}

/* At the end of this block, buffers taken in it are checked and freed. */
#define AUTO_BUFFERS __attribute__((cleanup(buffers_end), unused)) struct buffer *outer_ = buffers

/* Input of exactly this size, so that the address sanitizer detects a read past its end. */
static inline void *take(size_t bytes)
{
    struct buffer *b = calloc(1, sizeof *b);
    assert_non_null(b);
    assert_int_equal(posix_memalign(&b->at, 64, bytes ? bytes : 1), 0);
    b->before = buffers;
    b->bytes = bytes;
    buffers = b;
    return b->at;
}

static inline void *take_copy(const void *from, size_t bytes)
{
    void *p = take(bytes);
    if (bytes) memcpy(p, from, bytes);
    return p;
}

/* Output: all ones (not a number), with guard bytes on both sides. */
static inline void *guarded(size_t bytes)
{
    uint8_t *p = take(bytes + 2 * GUARD);
    buffers->guarded = true;
    memset(p, GUARD_BYTE, bytes + 2 * GUARD);
    return memset(p + GUARD, 0xff, bytes);
}

/* ---- comparisons ---------------------------------------------------------------------------- */

static inline void assert_near(double got, double want, double tolerance, const char *what)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s: got %.9g, want %.9g within %.3g", what, got, want, tolerance);
}

static inline void assert_same(const void *a, const void *b, size_t bytes, const char *what)
{
    const uint8_t *x = a, *y = b;
    for (size_t i = 0; i < bytes; i++)
        if (x[i] != y[i]) fail_msg("%s: differs at byte %zu of %zu", what, i, bytes);
}

/* Angles of theta 10000, as runtime/model/rope.c makes them. */
static inline struct kn_rope rope_new(int n_pos, int head_dim)
{
    const int half = head_dim / 2;
    float *c = take((size_t)(n_pos * half) * sizeof *c),
          *s = take((size_t)(n_pos * half) * sizeof *s);

    for (int p = 0; p < n_pos; p++)
        for (int i = 0; i < half; i++) {
            const double angle = p * pow(10000.0, -2.0 * i / head_dim);
            c[p * half + i] = (float)cos(angle);
            s[p * half + i] = (float)sin(angle);
        }
    struct kn_rope rope = {n_pos, head_dim, c, s, NULL};
    if (head_dim % KN_GROUP == 0) {
        uint32_t *places = take(KN_PLACES(head_dim) * sizeof *places);
        kn_rope_places(places, &rope);
        rope.places = places;
    }
    return rope;
}

/* ---- activations ---------------------------------------------------------------------------- */

static inline struct kn_act act_new(struct rng *rng, int n_tok, int n_in, float scale)
{
    const size_t n = (size_t)n_tok * (size_t)n_in, groups = n / KN_GROUP;
    float *x = take(n * sizeof *x);
    struct kn_act act = {.n_in = n_in, .x = x};

    rng_fill(rng, x, n, scale);
    if (n_in % KN_GROUP) return act;
    act.q = take(n);
    act.d = take(groups * sizeof *act.d);
    act.sum = take(groups * sizeof *act.sum);
    kn_table("ref")->quantize(act.q, act.d, act.sum, x, (int)n);
    return act;
}

/* The tokens from t on. */
static inline struct kn_act act_from(const struct kn_act *act, int t)
{
    const size_t at = (size_t)t * (size_t)act->n_in;
    struct kn_act part = {.n_in = act->n_in, .x = act->x + at};

    if (act->q) {
        part.q = act->q + at;
        part.d = act->d + at / KN_GROUP;
        part.sum = act->sum + at / KN_GROUP;
    }
    return part;
}

#endif
