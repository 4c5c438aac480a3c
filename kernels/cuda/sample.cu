/* sample: reduces logits to the data from which the host chooses a token: the best one, or the k
 * best. Bytes copied back per token: 4, or 8 k. */
#include "kernels/cuda/args.h"
#include "kernels/cuda/device.cuh"

enum { THREADS = 1024, WARPS = THREADS / 32 };

/* shared: 256 bytes */
KERNEL(argmax, struct cuda_argmax, 1024, 1)
{
    const float *x = a.logits + (int64_t)block_x() * a.n;
    struct best *shared = (struct best *)shared_memory(), b = {-INF, a.n};

    for (int i = thread_id(); i < a.n; i += THREADS) b = better(b, {x[i], i});
    b = warp_best(b);
    if (lane_id() == 0) shared[warp_id()] = b;
    barrier();
    if (warp_id()) return;
    b = warp_best(shared[lane_id()]);
    if (lane_id() == 0) a.id[block_x()] = b.i < a.n ? b.i : 0;
}

/* ---- the k largest --------------------------------------------------------------------------- */

/* Logits as unsigned numbers in the same order, -0 as 0; 0 for excluded logits. */
DEVICE uint32_t key_of(float x)
{
    const uint32_t u = float_bits(x == 0.0f ? 0.0f : x);

    if ((u & 0x7fffffffu) > 0x7f800000u || u == 0xff800000u) return 0;
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

struct top { /* in shared memory */
    uint32_t count[256];
    uint32_t key[CUDA_TOP_MAX];
    int32_t id[CUDA_TOP_MAX];
    uint32_t ties[WARPS]; /* ties in 1024 logits, by warp */
    uint32_t n;           /* number of logits above the threshold so far */
};

/* The k-th largest key (0: there are fewer), and how many of the keys equal to it are needed. */
DEVICE uint32_t threshold_of(struct top *top, const struct cuda_top &a, int *equal)
{
    uint32_t prefix = 0, mask = 0;
    int n = a.k;

    for (int shift = 24; shift >= 0; shift -= 8) {
        barrier(); /* the previous digit's counts have been read */
        if (thread_id() < 256) top->count[thread_id()] = 0;
        barrier();
        for (int i = thread_id(); i < a.n; i += THREADS) {
            const uint32_t key = key_of(a.logits[i]);
            if ((key & mask) == prefix) atomic_add(&top->count[key >> shift & 255], 1);
        }
        barrier();
        prefix |= (uint32_t)digit_of_nth(top->count, &n) << shift;
        mask |= 255u << shift;
    }
    *equal = n;
    return prefix;
}

/* Collects keys above the threshold, in any order: they are sorted later. */
DEVICE void gather_above(struct top *top, const struct cuda_top &a, uint32_t threshold)
{
    for (int i = thread_id(); i < a.n; i += THREADS) {
        const uint32_t key = key_of(a.logits[i]);
        if (key <= threshold) continue;
        const uint32_t at = atomic_next(&top->n);
        top->key[at] = key;
        top->id[at] = i;
    }
}

/* Collects the first `equal` keys at the threshold, after the others. */
DEVICE void gather_ties(struct top *top, const struct cuda_top &a, uint32_t threshold, int equal)
{
    const int first = a.k - equal;
    int found = 0;

    for (int i0 = 0; i0 < a.n && found < equal; i0 += THREADS) {
        const int i = i0 + thread_id();
        const bool tie = i < a.n && key_of(a.logits[i]) == threshold;
        const uint32_t ties = warp_ballot(tie);
        int at = found;

        if (lane_id() == 0) top->ties[warp_id()] = (uint32_t)popcount(ties);
        barrier();
        for (int w = 0; w < WARPS; w++) {
            if (w < warp_id()) at += (int)top->ties[w];
            found += (int)top->ties[w];
        }
        at += popcount(ties & ((1u << lane_id()) - 1));
        if (tie && at < equal) {
            top->key[first + at] = threshold;
            top->id[first + at] = i;
        }
        barrier(); /* the counts have been read */
    }
}

KERNEL(top_k, struct cuda_top, 1024, 1)
{
    struct top *top = (struct top *)shared_memory();
    const int first = block_x() * a.part, i = thread_id();
    struct cuda_top own = a;
    int equal;

    own.logits += first;
    own.n = min_int(a.n - first, a.part);
    if (i == 0) top->n = 0;
    const uint32_t threshold = threshold_of(top, own, &equal);
    gather_above(top, own, threshold);
    if (threshold) gather_ties(top, own, threshold, equal);
    barrier();
    const int n = threshold ? a.k : (int)top->n;
    int rank = i < n ? 0 : i; /* missing ones come last */
    if (i == 0) a.n_out[block_x()] = n;
    if (i >= a.k) return;
    for (int j = 0; j < n && i < n; j++)
        rank +=
            top->key[j] > top->key[i] || (top->key[j] == top->key[i] && top->id[j] < top->id[i]);
    const int from = first + (i < n ? top->id[i] : 0), to = block_x() * a.k + rank;
    a.id[to] = a.ids ? a.ids[from] : from;
    a.logit[to] = i < n ? a.logits[from] : -INF;
}
