/* cache: appends, scores and evicts units. Bytes, survivors and counters equal those of the CPU. */
#include "kernels/cuda/cache.cuh"

/* Four warps share the groups of a token's key and value. */
KERNEL(kv_append, struct cuda_append, 128, 1)
{
    const int token = block_x(), head = block_y();
    const int64_t from = token * a.stride + (int64_t)head * a.cache.head_dim;
    const int64_t at = place_of(a.cache, head, a.cache.len[head] + token);
    const uint32_t pos = *a.pos + (uint32_t)token;

    pack_unit(a.cache, head, a.cache.k + at * a.cache.k_bytes, a.cache.v + at * a.cache.v_bytes,
              a.k + from, a.v + from, pos == 0);
    if (thread_id() == 0)
        mark_unit(a.cache, at, pos, a.score ? a.score + head * a.n_tok + token : NULL);
}

/* Copies words of a head's units (keys, values or one word each) to or from the stage. */
DEVICE uint32_t *copy_words(const struct cuda_copy &a, void *pool, int words, uint32_t *stage)
{
    const int head = block_x(), slot0 = a.cache.len[head] - a.back;

    for (int i = thread_id(); i < a.n * words; i += 256) {
        const int slot = slot0 + i / words;
        if (slot < 0) continue;
        uint32_t *at = (uint32_t *)pool + place_of(a.cache, head, slot) * words + i % words;
        if (a.in)
            *at = stage[i];
        else
            stage[i] = *at;
    }
    return stage + a.n * words;
}

KERNEL(cache_copy, struct cuda_copy, 256, 1)
{
    const int k = a.cache.k_bytes / 4, v = a.cache.v_bytes / 4;
    const int words = (a.units ? k + v : 0) + (a.words ? 2 : 0);
    uint32_t *stage = (uint32_t *)a.stage + (int64_t)block_x() * a.n * words;

    if (a.units) {
        stage = copy_words(a, a.cache.k, k, stage);
        stage = copy_words(a, a.cache.v, v, stage);
    }
    if (a.words) {
        stage = copy_words(a, a.cache.pos, 1, stage);
        copy_words(a, a.cache.score, 1, stage);
    }
}

/* ---- values of units ------------------------------------------------------------------------- */

enum { THREADS = CUDA_EVICT_THREADS, BATCH = CUDA_EVICT_BATCH, LIST = BATCH * 4 };

/* Four numbers of a lane, from a key whose length is returned too; lanes past the key have
 * zeros. */
DEVICE float lane_key(float x[4], const struct cuda_cache &c, int head, int slot)
{
    const int lane = lane_id();
    float square = 0.0f;

    UNROLL
    for (int i = 0; i < 4; i++) x[i] = 0.0f;
    if (lane < c.head_dim / 4)
        key_numbers(x, c, head, place_of(c, head, slot), slot, 4 * lane);
    UNROLL
    for (int i = 0; i < 4; i++) square += x[i] * x[i];
    return sqrt_of(warp_sum(square)) + 1e-20f;
}

/* -cos(k, sum of k / |k|), a warp per unit. Each warp adds its units in order, then the warps are
 * added in order. */
KERNEL(key_values, struct cuda_values, CUDA_EVICT_THREADS, 1)
{
    const int head = block_x(), len = a.cache.len[head], dim = a.cache.head_dim;
    float *sums = (float *)shared_memory() + warp_id() * dim, mean[4] = {}, x[4], square = 0.0f;

    for (int s = warp_id(); s < len; s += THREADS / 32) {
        const float norm = lane_key(x, a.cache, head, s);
        UNROLL
        for (int i = 0; i < 4; i++) mean[i] += x[i] / norm;
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        if (lane_id() < dim / 4) sums[4 * lane_id() + i] = mean[i];
        mean[i] = 0.0f;
    }
    barrier();
    for (int w = 0; w < THREADS / 32 && lane_id() < dim / 4; w++) UNROLL
    for (int i = 0; i < 4; i++) mean[i] += ((float *)shared_memory())[w * dim + 4 * lane_id() + i];
    UNROLL
    for (int i = 0; i < 4; i++) square += mean[i] * mean[i];
    const float mean_norm = sqrt_of(warp_sum(square)) + 1e-20f;
    for (int s = warp_id(); s < len; s += THREADS / 32) {
        const float norm = lane_key(x, a.cache, head, s);
        float dot = 0.0f;
        UNROLL
        for (int i = 0; i < 4; i++) dot += x[i] * mean[i];
        dot = warp_sum(dot);
        if (lane_id() == 0) a.value[place_of(a.cache, head, s)] = -dot / (mean_norm * norm);
    }
}

/* As kn_key_signs: four numbers of each half at a time. */
DEVICE uint32_t key_signs(const struct cuda_cache &c, int64_t place)
{
    const uint8_t *key = c.k + place * c.k_bytes;
    const int first = c.head_dim - 32;
    uint32_t bits = 0;

    for (int r = 0; r < 16; r += 4) {
        float a[4], b[4];
        unit_numbers(a, key, c.k_type, first + r);
        unit_numbers(b, key, c.k_type, first + 16 + r);
        UNROLL
        for (int i = 0; i < 4; i++) bits |= (a[i] >= b[i] ? 1u : 0u) << (r + i);
    }
    return bits;
}

KERNEL(near_duplicates, struct cuda_values, CUDA_EVICT_THREADS, 1)
{
    const int head = block_x(), len = a.cache.len[head];
    /* number of units by half of their signs */
    uint32_t *low = (uint32_t *)shared_memory(), *high = low + 256;

    low[thread_id()] = high[thread_id()] = 0;
    barrier();
    for (int s = thread_id(); s < len; s += THREADS) {
        const int64_t at = place_of(a.cache, head, s);
        const uint32_t signs = key_signs(a.cache, at);
        atomic_add(&low[signs & 255], 1);
        atomic_add(&high[signs >> 8], 1);
        a.value[at] = bits_float(signs);
    }
    barrier();
    for (int s = thread_id(); s < len; s += THREADS) {
        const int64_t at = place_of(a.cache, head, s);
        const uint32_t signs = float_bits(a.value[at]);
        const uint32_t logs = float_bits((float)low[signs & 255]) - 0x3f800000u +
                              float_bits((float)high[signs >> 8]) - 0x3f800000u; /* 2^23 log2 */
        a.value[at] = -(float)(int)logs * (0.693147181f / (8 << 23));
    }
}

/* ---- selection ------------------------------------------------------------------------------- */

enum : uint32_t { KEY_NEVER = 0, KEY_NAN = 1, KEY_PROTECTED = 0xffffffffu };

struct head { /* the head to select from */
    const struct cuda_cache &c;
    const uint32_t *key;
    int index, len;
};

DEVICE struct head this_head(const struct cuda_cache &c, const uint32_t *key)
{
    return {c, key, block_x(), c.len[block_x()]};
}

DEVICE uint32_t key_at(const struct head &h, int slot)
{
    return h.key[place_of(h.c, h.index, slot)];
}

/* The order-preserving key of a value; -0 and 0 are equal. */
DEVICE uint32_t key_of(float value)
{
    const uint32_t u = float_bits(value + 0.0f);

    if ((u & 0x7fffffffu) > 0x7f800000u) return KEY_NAN;
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

/* Counts the keys with the given prefix by their next digit. Counts are integers, so their order
 * does not matter. */
DEVICE void count_digits(const struct head &h, uint32_t prefix, int shift, uint32_t *count)
{
    const uint32_t mask = shift == 24 ? 0 : ~0u << (shift + 8);

    barrier(); /* the previous digit's counts have been read */
    count[thread_id()] = 0;
    barrier();
    for (int s = thread_id(); s < h.len; s += THREADS) {
        const uint32_t key = key_at(h, s);
        if ((key & mask) == prefix) atomic_add(&count[key >> shift & 255], 1);
    }
    barrier();
}

/* The n-th largest key; *equal: how many of the keys equal to it belong to the n largest. */
DEVICE uint32_t select_key(const struct head &h, int n, int *equal, uint32_t *count)
{
    uint32_t prefix = 0;

    for (int shift = 24; shift >= 0; shift -= 8) {
        int digit = 255;
        count_digits(h, prefix, shift, count);
        while ((int)count[digit] < n) n -= (int)count[digit--];
        prefix |= (uint32_t)digit << shift;
    }
    *equal = n;
    barrier(); /* the counts have been read */
    return prefix;
}

/* Which of 64 slots are among the best, computed by every warp for itself: lane i checks slots i
 * and i + 32. Older units win ties: *equal more of them may be chosen. */
DEVICE void choose(uint32_t in[2], const struct head &h, int slot0, uint32_t threshold, int *equal)
{
    UNROLL
    for (int i = 0; i < 2; i++) {
        const int s = slot0 + 32 * i + lane_id();
        const uint32_t key = s < h.len ? key_at(h, s) : 0;
        const uint32_t ties = warp_ballot(s < h.len && key == threshold);
        const int before = popcount(ties & ((1u << lane_id()) - 1));
        const bool tie = s < h.len && key == threshold && before < *equal;

        in[i] = warp_ballot(tie || (s < h.len && key > threshold));
        *equal = max_int(*equal - popcount(ties), 0);
    }
}

/* Sets the keys of the n best units, or of all others, to `becomes`. */
DEVICE void mark(const struct head &h, uint32_t *key, int n, bool best, uint32_t becomes,
                 uint32_t *count)
{
    int equal = 0;
    const uint32_t threshold = select_key(h, n, &equal, count);

    for (int slot0 = 0; slot0 < h.len; slot0 += BATCH) {
        const int i = thread_id(), s = slot0 + i;
        uint32_t in[2];
        choose(in, h, slot0, threshold, &equal);
        barrier(); /* all have chosen */
        const uint32_t mask = i < 32 ? in[0] : in[1];
        if (i < BATCH && s < h.len && (mask >> i % 32 & 1) == (best ? 1u : 0u))
            key[place_of(h.c, h.index, s)] = becomes;
    }
    barrier();
}

/* As evict_least of the CPU. */
DEVICE float least_score(uint32_t age, float recency)
{
    const uint32_t log = float_bits((float)age * recency) - 0x3f800000u; /* 2^23 log2 */

    return -(float)(int)log * (0.693147181f / (1 << 23));
}

DEVICE bool is_pinned(const struct cuda_rank &a, uint32_t pos)
{
    bool in = false;
    for (int i = 0; i < a.n_pins; i++) in |= pos >= a.pins[i].from && pos < a.pins[i].end;
    return in;
}

KERNEL(cache_rank, struct cuda_rank, CUDA_EVICT_THREADS, 1)
{
    const struct head h = this_head(a.cache, a.key);
    uint32_t *count = (uint32_t *)shared_memory();

    for (int s = thread_id(); s < h.len; s += THREADS) {
        const int64_t at = place_of(h.c, h.index, s);
        const uint32_t pos = h.c.pos[at];
        const bool protect =
            pos < (uint32_t)a.sinks || s >= h.len - a.stabilizers || is_pinned(a, pos);
        float x = a.scored ? h.c.score[at] : 0.0f;
        if (a.std) x = x * a.std[h.index] + a.mean[h.index];
        if (a.valued) x += bits_float(a.key[at]);
        a.key[at] = protect ? KEY_PROTECTED : key_of(x);
    }
    barrier();
    const int safe = a.safe ? min_int(a.safe[h.index], h.len) : 0;
    if (safe) mark(h, a.key, safe, true, KEY_PROTECTED, count);
    for (int s = thread_id(); a.recency > 0.0f && s < h.len; s += THREADS) {
        const int64_t at = place_of(h.c, h.index, s);
        const uint32_t least = key_of(least_score(a.n_pos - h.c.pos[at], a.recency));
        a.key[at] = a.key[at] > least ? a.key[at] : least;
    }
    barrier();
    if (a.most && a.most < h.len) mark(h, a.key, a.most, false, KEY_NEVER, count);
}

KERNEL(cache_digits, struct cuda_digits, CUDA_EVICT_THREADS, 1)
{
    const struct head h = this_head(a.cache, a.key);
    uint32_t *count = (uint32_t *)shared_memory();

    count_digits(h, a.prefix[h.index], a.shift, count);
    a.count[h.index * 256 + thread_id()] = count[thread_id()];
}

/* ---- eviction -------------------------------------------------------------------------------- */

/* Copies survivors' words to shared memory, or from there to their new slots. */
DEVICE void move_batch(const struct head &h, uint32_t *stage, const int32_t *from, int to, int n,
                       bool out)
{
    const int k = h.c.k_bytes / 4, v = h.c.v_bytes / 4, words = k + v + 2;

    for (int i = thread_id(); i < n * words; i += THREADS) {
        const int unit = i / words, w = i % words;
        const int64_t place = place_of(h.c, h.index, out ? to + unit : from[unit]);
        uint32_t *at = w < k            ? (uint32_t *)h.c.k + place * k + w
                       : w < k + v      ? (uint32_t *)h.c.v + place * v + (w - k)
                       : w == words - 1 ? h.c.pos + place
                                        : (uint32_t *)h.c.score + place;
        if (out)
            *at = stage[i];
        else
            stage[i] = *at;
    }
}

/* In place: a batch of 64 slots is read completely before its survivors are written, and they are
 * never written beyond it. */
DEVICE int compact(const struct head &h, uint32_t threshold, int equal, char *shared,
                   uint32_t *stays)
{
    int32_t *from = (int32_t *)shared;
    uint32_t *stage = (uint32_t *)(shared + LIST);
    int to = 0;

    for (int slot0 = 0; slot0 < h.len; slot0 += BATCH) {
        uint32_t stay[2];

        choose(stay, h, slot0, threshold, &equal);
        if (thread_id() == 0) stays[slot0 / 32] = stay[0], stays[slot0 / 32 + 1] = stay[1];
        const int low = popcount(stay[0]), n = low + popcount(stay[1]);
        barrier(); /* the previous batch is written, and all threads have chosen */
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

KERNEL(cache_evict, struct cuda_evict, CUDA_EVICT_THREADS, 1)
{
    struct head h = this_head(a.cache, a.key);
    const int keep = a.keep[h.index];
    int equal;

    if (h.len > keep) {
        const uint32_t threshold = select_key(h, keep, &equal, (uint32_t *)shared_memory());
        h.len = compact(h, threshold, equal, shared_memory(),
                        a.stays + (int64_t)h.index * 2 * h.c.n_pages);
        if (thread_id() == 0) a.cache.len[h.index] = h.len;
    }
}
