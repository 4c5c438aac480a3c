/* cache: units come and go. Bytes, survivors and counters are those of the CPU. */
#include "kernels/cuda/cache.cuh"

/* Four warps share the groups of a token's key and value. */
KERNEL(kv_append, struct cuda_append, 128, 1)
{
    const int token = block_x(), head = block_y();
    const int64_t at = token * a.stride + (int64_t)head * a.cache.head_dim;

    append_unit(a.cache, head, a.cache.len[head] + token, a.k + at, a.v + at,
                *a.pos + (uint32_t)token, a.score ? a.score + head * a.n_tok + token : NULL);
}

/* Copies words: units are whole ones. */
DEVICE uint32_t *copy_words(uint32_t *to, const void *from, int n)
{
    for (int i = thread_id(); i < n; i += 256) to[i] = ((const uint32_t *)from)[i];
    return to + n;
}

KERNEL(cache_gather, struct cuda_gather, 256, 1)
{
    const int head = block_x(), slot = a.cache.len[head] - a.back;
    const int64_t k = a.cache.k_bytes, v = a.cache.v_bytes;
    uint32_t *to = (uint32_t *)(a.out + head * a.n * (k + v));

    to = copy_words(to, a.cache.k + head * a.cache.k_stride + slot * k, a.n * (int)k / 4);
    copy_words(to, a.cache.v + head * a.cache.v_stride + slot * v, a.n * (int)v / 4);
}

/* ---- eviction -------------------------------------------------------------------------------- */

enum { THREADS = CUDA_EVICT_THREADS, BATCH = CUDA_EVICT_BATCH, LIST = BATCH * 4 };

struct head { /* one head's units */
    uint32_t *k, *v, *pos;
    uint32_t *score; /* bits */
    int k_words, v_words, len;
};

/* Scores as unsigned numbers in the same order; NaN is the lowest, protected units the highest. */
DEVICE uint32_t key_of(const struct cuda_evict &a, const struct head *h, int s)
{
    const uint32_t u = h->score[s];

    if (h->pos[s] < (uint32_t)a.sinks || s >= h->len - a.stabilizers) return 0xffffffffu;
    if ((u & 0x7fffffffu) > 0x7f800000u) return 0;
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

/* The n-th largest key, and in *equal how many of those equal to it stay. Counts are integers:
 * their order does not matter. */
DEVICE uint32_t select_key(const struct cuda_evict &a, const struct head *h, int n, int *equal,
                           uint32_t *count)
{
    uint32_t prefix = 0, mask = 0;

    for (int shift = 24; shift >= 0; shift -= 8) {
        int digit = 255;

        barrier(); /* the counts of the digit before have been read */
        count[thread_id()] = 0;
        barrier();
        for (int s = thread_id(); s < h->len; s += THREADS) {
            const uint32_t key = key_of(a, h, s);
            if ((key & mask) == prefix) atomic_add(&count[key >> shift & 255], 1);
        }
        barrier();
        while ((int)count[digit] < n) n -= (int)count[digit--];
        prefix |= (uint32_t)digit << shift;
        mask |= 255u << shift;
    }
    *equal = n;
    return prefix;
}

/* Which of 64 slots stay, by every warp for itself: lane i looks at slots i and i + 32. Older units
 * win ties: *equal of them are still free. */
DEVICE void choose(uint32_t stay[2], const struct cuda_evict &a, const struct head *h, int slot0,
                   uint32_t threshold, int *equal)
{
    UNROLL
    for (int i = 0; i < 2; i++) {
        const int s = slot0 + 32 * i + lane_id();
        const uint32_t key = s < h->len ? key_of(a, h, s) : 0;
        const uint32_t ties = warp_ballot(s < h->len && key == threshold);
        const int before = popcount(ties & ((1u << lane_id()) - 1));
        const bool tie = s < h->len && key == threshold && before < *equal;

        stay[i] = warp_ballot(tie || (s < h->len && key > threshold));
        *equal = max_int(*equal - popcount(ties), 0);
    }
}

/* Survivors' words to shared memory, or from there to their new place. */
DEVICE void move_batch(const struct head *h, uint32_t *stage, const int32_t *from, int to, int n,
                       bool out)
{
    const int words = h->k_words + h->v_words + 2;

    for (int i = thread_id(); i < n * words; i += THREADS) {
        const int unit = i / words, w = i % words;
        const int64_t slot = out ? to + unit : from[unit];
        uint32_t *at = w < h->k_words                ? h->k + slot * h->k_words + w
                       : w < h->k_words + h->v_words ? h->v + slot * h->v_words + (w - h->k_words)
                       : w == words - 1              ? h->pos + slot
                                                     : h->score + slot;
        if (out)
            *at = stage[i];
        else
            stage[i] = *at;
    }
}

/* In place: a batch of 64 slots is read whole before its survivors are written, and they never go
 * beyond it. */
DEVICE int compact(const struct cuda_evict &a, const struct head *h, uint32_t threshold, int equal,
                   char *shared)
{
    int32_t *from = (int32_t *)shared;
    uint32_t *stage = (uint32_t *)(shared + LIST);
    int to = 0;

    for (int slot0 = 0; slot0 < h->len; slot0 += BATCH) {
        uint32_t stay[2];

        choose(stay, a, h, slot0, threshold, &equal);
        const int low = popcount(stay[0]), n = low + popcount(stay[1]);
        barrier(); /* the batch before has been written, everyone has chosen */
        if (to < slot0 || n < BATCH) {
            if (thread_id() < BATCH) {
                const int half = thread_id() / 32, lane = lane_id();
                const uint32_t mask = half ? stay[1] : stay[0];
                if (mask >> lane & 1)
                    from[half * low + popcount(mask & ((1u << lane) - 1))] = slot0 + thread_id();
            }
            barrier();
            move_batch(h, stage, from, to, n, false);
            barrier();
            move_batch(h, stage, from, to, n, true);
        }
        to += n;
    }
    barrier();
    return to;
}

/* Units alive per column of positions. */
DEVICE void recount(const struct cuda_evict &a, const struct head *h, int head)
{
    uint32_t *kept = a.kept + (int64_t)head * a.n_col;

    for (int i = thread_id(); i < a.n_col; i += THREADS) kept[i] = 0;
    barrier();
    for (int s = thread_id(); s < h->len; s += THREADS)
        atomic_add(&kept[h->pos[s] / *a.col_width], 1);
}

KERNEL(cache_evict, struct cuda_evict, CUDA_EVICT_THREADS, 1)
{
    const int i = block_x();
    char *shared = shared_memory();
    struct head h = {(uint32_t *)(a.cache.k + i * a.cache.k_stride),
                     (uint32_t *)(a.cache.v + i * a.cache.v_stride),
                     a.cache.pos + i * a.cache.stride,
                     (uint32_t *)(a.cache.score + i * a.cache.stride),
                     a.cache.k_bytes / 4,
                     a.cache.v_bytes / 4,
                     a.cache.len[i]};
    int equal;

    if (h.len <= a.budget) return;
    const uint32_t threshold = select_key(a, &h, a.budget, &equal, (uint32_t *)shared);
    barrier(); /* the counts become the list of a batch */
    h.len = compact(a, &h, threshold, equal, shared);
    if (a.kept) recount(a, &h, i);
    if (thread_id() == 0) a.cache.len[i] = h.len;
}
