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

enum { THREADS = CUDA_EVICT_THREADS, WARPS = THREADS / 32, DIM = CUDA_VALUES_DIM };

/* Calls the function for units of this type; those of S4 and S5 are packed as Q4 and Q5. */
#define WITH_TYPE(type, function, ...)                                                 \
    ((type) == CUDA_KV_S4 || (type) == CUDA_KV_Q4 ? function<CUDA_KV_Q4>(__VA_ARGS__)  \
     : (type) == CUDA_KV_Q8                       ? function<CUDA_KV_Q8>(__VA_ARGS__)  \
     : (type) == CUDA_KV_F16                      ? function<CUDA_KV_F16>(__VA_ARGS__) \
                                                  : function<CUDA_KV_Q5>(__VA_ARGS__))

/* By channel, zeros past the head's. */
struct key_rows {
    float scale[DIM], mean[2][DIM]; /* the centre: of all keys, of the key at position 0 */
    float sum[WARPS][DIM];
};

/* A warp reads four keys at a time, each with eight lanes, of which lane l has the four channels
 * from 4 l on, from 4 l + 32, and so on. */
enum { KEY_LANES = 8, AT_ONCE = 32 / KEY_LANES, NUMBERS = DIM / KEY_LANES };

DEVICE int channel_of(int i)
{
    return i / 4 * 32 + lane_id() % KEY_LANES * 4 + i % 4;
}

/* The sum over a key's lanes. */
DEVICE float key_sum(float x)
{
    UNROLL
    for (int mask = KEY_LANES / 2; mask; mask >>= 1) x += shfl_xor_f32(x, mask);
    return x;
}

DEVICE void load_centre(struct key_rows *rows, const struct cuda_cache &c, int head)
{
    const int i = thread_id();
    const float *from =
        CUDA_KV_CENTRED(c.k_type) && i < c.head_dim ? c.centres + head * 3 * c.head_dim + i : NULL;

    if (i < DIM) {
        rows->scale[i] = from ? from[c.head_dim] : i < c.head_dim ? 1.0f : 0.0f;
        rows->mean[0][i] = from ? from[0] : 0.0f;
        rows->mean[1][i] = from ? from[2 * c.head_dim] : 0.0f;
    }
    barrier();
}

/* 1 / |x| */
DEVICE float inverse_length(const float x[NUMBERS])
{
    float square = 0.0f;

    UNROLL
    for (int i = 0; i < NUMBERS; i++) square = fma_f32(x[i], x[i], square);
    return rsqrt_fast(max_f32(key_sum(square), 1e-30f));
}

/* A lane's numbers of a key; first: that of position 0. */
template <enum cuda_kv type>
DEVICE void lane_key(float x[NUMBERS], const struct key_rows *rows, const struct cuda_cache &c,
                     int64_t place, bool first)
{
    const uint8_t *key = c.k + place * c.k_bytes;

    UNROLL
    for (int i = 0; i < NUMBERS; i += 4)
        unit_numbers(x + i, key, type, min_int(channel_of(i), c.head_dim - 4), c.head_dim);
    UNROLL
    for (int i = 0; i < NUMBERS; i++)
        x[i] = fma_f32(rows->scale[channel_of(i)], x[i], rows->mean[first][channel_of(i)]);
}

/* The keys of the block's slots, of which a warp has whole pages: calls use(its place, its
 * numbers). Lanes without a slot call it with the head's last key, and place -1. */
template <enum cuda_kv type, class T>
DEVICE void for_keys(const struct key_rows *rows, const struct cuda_cache &c, int head, T use)
{
    const int len = c.len[head], end = min_int(len, (block_x() + 1) * CUDA_PIECE);
    float x[NUMBERS];

    for (int slot0 = block_x() * CUDA_PIECE + warp_id() * CUDA_TILE; slot0 < end;
         slot0 += WARPS * CUDA_TILE) {
        const int64_t place0 = place_of(c, head, slot0);
        const bool begins = slot0 == 0 && c.pos[place0] == 0;
        UNROLL_BY(1)
        for (int k = 0; k < CUDA_TILE; k += AT_ONCE) {
            const int own = k + lane_id() / KEY_LANES, i = min_int(own, len - 1 - slot0);
            lane_key<type>(x, rows, c, place0 + i, begins && i == 0);
            use(own == i ? place0 + i : -1, x);
        }
    }
}

template <enum cuda_kv type>
DEVICE void add_keys(float sum[NUMBERS], const struct key_rows *rows, const struct cuda_cache &c,
                     int head)
{
    for_keys<type>(rows, c, head, [sum](int64_t place, const float *x) {
        const float all = inverse_length(x), by = place < 0 ? 0.0f : all;
        UNROLL
        for (int i = 0; i < NUMBERS; i++) sum[i] = fma_f32(x[i], by, sum[i]);
    });
}

DEVICE float *part_of(const struct cuda_values &a, int head, int piece)
{
    return a.part + (head * ceil_div(a.cache.n_pages * CUDA_TILE, CUDA_PIECE) + piece) * DIM;
}

/* Each lane adds its keys in order, then a warp's lanes are added, then the warps in order. */
KERNEL(key_sums, struct cuda_values, CUDA_EVICT_THREADS, 2)
{
    const int head = block_y(), i = thread_id();
    struct key_rows *rows = (struct key_rows *)shared_memory();
    float sum[NUMBERS] = {};

    if (block_x() * CUDA_PIECE >= a.cache.len[head]) return;
    load_centre(rows, a.cache, head);
    WITH_TYPE(a.cache.k_type, add_keys, sum, rows, a.cache, head);
    UNROLL
    for (int k = 0; k < NUMBERS; k++) {
        UNROLL
        for (int mask = KEY_LANES; mask < 32; mask *= 2) sum[k] += shfl_xor_f32(sum[k], mask);
        if (lane_id() < KEY_LANES) rows->sum[warp_id()][channel_of(k)] = sum[k];
    }
    barrier();
    if (i >= DIM) return;
    float all = 0.0f;
    for (int w = 0; w < WARPS; w++) all += rows->sum[w][i];
    part_of(a, head, block_x())[i] = all;
}

template <enum cuda_kv type>
DEVICE void compare_keys(float *value, const float mean[NUMBERS], const struct key_rows *rows,
                         const struct cuda_cache &c, int head)
{
    const float by = inverse_length(mean);

    for_keys<type>(rows, c, head, [=](int64_t place, const float *x) {
        const float length = inverse_length(x);
        float dot = 0.0f;
        UNROLL
        for (int i = 0; i < NUMBERS; i++) dot = fma_f32(x[i], mean[i], dot);
        dot = key_sum(dot);
        if (place >= 0 && lane_id() % KEY_LANES == 0) value[place] = -dot * by * length;
    });
}

/* -cos(k, sum of k / |k|); the sums of the pieces are added in order. */
KERNEL(key_values, struct cuda_values, CUDA_EVICT_THREADS, 2)
{
    const int head = block_y(), len = a.cache.len[head], channel = thread_id();
    struct key_rows *rows = (struct key_rows *)shared_memory();
    float mean[NUMBERS], all = 0.0f;

    if (block_x() * CUDA_PIECE >= len) return;
    for (int i = 0; channel < DIM && i * CUDA_PIECE < len; i++) all += part_of(a, head, i)[channel];
    if (channel < DIM) rows->sum[0][channel] = all;
    load_centre(rows, a.cache, head);
    UNROLL
    for (int i = 0; i < NUMBERS; i++) mean[i] = rows->sum[0][channel_of(i)];
    WITH_TYPE(a.cache.k_type, compare_keys, a.value, mean, rows, a.cache, head);
}

/* As kn_key_signs: four numbers of each half at a time. */
template <enum cuda_kv type> DEVICE uint32_t key_signs(const struct cuda_cache &c, int64_t place)
{
    const uint8_t *key = c.k + place * c.k_bytes;
    const int first = c.head_dim - 32;
    uint32_t bits = 0;

    UNROLL
    for (int r = 0; r < 16; r += 4) {
        float a[4], b[4];
        unit_numbers(a, key, type, first + r, c.head_dim);
        unit_numbers(b, key, type, first + 16 + r, c.head_dim);
        UNROLL
        for (int i = 0; i < 4; i++) bits |= (a[i] >= b[i] ? 1u : 0u) << (r + i);
    }
    return bits;
}

KERNEL(near_duplicates, struct cuda_values, CUDA_EVICT_THREADS, 2)
{
    const int head = block_x(), len = a.cache.len[head];
    /* number of units by half of their signs */
    uint32_t *low = (uint32_t *)shared_memory(), *high = low + 256;

    low[thread_id()] = high[thread_id()] = 0;
    barrier();
    UNROLL_BY(2)
    for (int s = thread_id(); s < len; s += THREADS) {
        const int64_t at = place_of(a.cache, head, s);
        const uint32_t signs = WITH_TYPE(a.cache.k_type, key_signs, a.cache, at);
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

/* The border of the best units: of those with its key the first `ties` are among them. */
struct line {
    uint32_t key;
    int ties;
};

/* Counts the keys with the line's first n digits of 8 bits by their next one. Counts are integers,
 * so their order does not matter. */
DEVICE void count_digits(const struct head &h, struct line l, int n, uint32_t *count)
{
    const int shift = 24 - 8 * n;
    const uint32_t mask = n ? ~0u << (shift + 8) : 0;

    barrier(); /* the previous counts have been read */
    count[thread_id()] = 0;
    barrier();
    for (int s = thread_id(); s < h.len; s += THREADS) {
        const uint32_t key = key_at(h, s);
        if ((key & mask) == l.key) atomic_add(&count[key >> shift & 255], 1);
    }
    barrier();
}

/* The line's next digit, n being known. */
DEVICE void add_digit(struct line *l, int n, const uint32_t *count)
{
    l->key |= (uint32_t)digit_of_nth(count, &l->ties) << (24 - 8 * n);
}

/* A head's n best units. */
DEVICE struct line best_of(const struct head &h, int n, uint32_t *count)
{
    struct line l = {0, n};

    for (int i = 0; i < 4; i++) {
        count_digits(h, l, i, count);
        add_digit(&l, i, count);
    }
    return l;
}

enum { BATCH = CUDA_EVICT_BATCH }; /* slots, one per lane */

/* The first of a warp's batches; those of the next warp follow. */
DEVICE int batch_of(const struct head &h, int warp)
{
    const int n = ceil_div(h.len, BATCH);
    return min_int(warp * ceil_div(n, WARPS), n);
}

/* Which slots of a batch are among the best; older units win ties. */
DEVICE uint32_t choose(const struct head &h, int batch, struct line *l)
{
    const int s = batch * BATCH + lane_id();
    const uint32_t key = s < h.len ? key_at(h, s) : 0;
    const uint32_t ties = warp_ballot(s < h.len && key == l->key);
    const int before = popcount(ties & ((1u << lane_id()) - 1));
    const bool tie = s < h.len && key == l->key && before < l->ties;

    l->ties = max_int(l->ties - popcount(ties), 0);
    return warp_ballot(tie || (s < h.len && key > l->key));
}

/* Takes the ties of the warps before this one. shared: a number per warp. */
DEVICE void take_ties(const struct head &h, struct line *l, uint32_t *shared)
{
    int n = 0;

    for (int b = batch_of(h, warp_id()); b < batch_of(h, warp_id() + 1); b++) {
        const int s = b * BATCH + lane_id();
        n += popcount(warp_ballot(s < h.len && key_at(h, s) == l->key));
    }
    barrier();
    if (lane_id() == 0) shared[warp_id()] = (uint32_t)n;
    barrier();
    for (int w = 0; w < warp_id(); w++) l->ties = max_int(l->ties - (int)shared[w], 0);
}

/* Sets the keys of the n best units, or of all others, to `becomes`. */
DEVICE void mark(const struct head &h, uint32_t *key, int n, bool best, uint32_t becomes,
                 uint32_t *count)
{
    struct line l = best_of(h, n, count);

    take_ties(h, &l, count);
    for (int b = batch_of(h, warp_id()); b < batch_of(h, warp_id() + 1); b++) {
        const int s = b * BATCH + lane_id();
        const uint32_t in = choose(h, b, &l);
        if (s < h.len && (in >> lane_id() & 1) == (best ? 1u : 0u))
            key[place_of(h.c, h.index, s)] = becomes;
    }
    barrier();
}

/* As least_score of the CPU (runtime/cache/evict.c). */
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

    for (int i = 0; i < 4; i++) a.total[(i * h.c.n_head + h.index) * 256 + thread_id()] = 0;
    for (int s = thread_id(); s < h.len; s += THREADS) {
        const int64_t at = place_of(h.c, h.index, s);
        const uint32_t pos = h.c.pos[at];
        const bool protect = pos < (uint32_t)a.sinks || s >= h.len - a.stabilizers ||
                             is_pinned(a, pos);
        float x = a.scored ? h.c.score[at] : 0.0f;
        if (a.std) x = x * a.std[h.index] + a.mean[h.index];
        if (a.valued) x += bits_float(a.key[at]);
        a.key[at] = protect ? KEY_PROTECTED : key_of(x);
    }
    barrier();
    const int safe = min_int(a.safe, h.len);
    if (safe) mark(h, a.key, safe, true, KEY_PROTECTED, count);
    for (int s = thread_id(); a.recency > 0.0f && s < h.len; s += THREADS) {
        const int64_t at = place_of(h.c, h.index, s);
        const uint32_t least = key_of(least_score(a.n_pos - h.c.pos[at], a.recency));
        a.key[at] = a.key[at] > least ? a.key[at] : least;
    }
    barrier();
    if (a.most && a.most < h.len) mark(h, a.key, a.most, false, KEY_NEVER, count);
}

DEVICE int first_of_group(const struct cuda_digits &a, int head)
{
    return head / a.n_group * a.n_group;
}

/* The first n digits of the line of a head's group. */
DEVICE struct line group_line(const struct cuda_digits &a, int head, int n, uint32_t *count)
{
    struct line l = {0, a.keep[head]};

    for (int i = 0; i < n; i++) {
        const int at = (i * a.cache.n_head + first_of_group(a, head)) * 256;
        barrier();
        count[thread_id()] = a.total[at + thread_id()];
        barrier();
        add_digit(&l, i, count);
    }
    return l;
}

KERNEL(cache_digits, struct cuda_digits, CUDA_EVICT_THREADS, 1)
{
    const struct head h = this_head(a.cache, a.key);
    uint32_t *count = (uint32_t *)shared_memory();
    const int digit = thread_id(), first = first_of_group(a, h.index);

    if (a.keep[h.index] == CUDA_KEEP_ALL) return;
    count_digits(h, group_line(a, h.index, a.n_known, count), a.n_known, count);
    if (count[digit])
        atomic_add(&a.total[(a.n_known * h.c.n_head + first) * 256 + digit], count[digit]);
    if (a.n_known == 3) a.last[h.index * 256 + digit] = count[digit];
}

/* ---- eviction -------------------------------------------------------------------------------- */

/* Lower heads of a group win ties. */
KERNEL(cache_choose, struct cuda_evict, CUDA_EVICT_THREADS, 1)
{
    const struct head h = this_head(a.digits.cache, a.digits.key);
    uint32_t *shared = (uint32_t *)shared_memory();
    int before = 0;

    if (a.digits.keep[h.index] == CUDA_KEEP_ALL) return;
    struct line l = group_line(a.digits, h.index, 4, shared);
    const int digit = (int)(l.key & 255);
    for (int i = first_of_group(a.digits, h.index) + lane_id(); i < h.index; i += 32)
        before += (int)a.digits.last[i * 256 + digit];
    l.ties = max_int(l.ties - warp_sum_int(before), 0);
    take_ties(h, &l, shared);
    for (int b = batch_of(h, warp_id()); b < batch_of(h, warp_id() + 1); b++) {
        const uint32_t stay = choose(h, b, &l);
        if (lane_id() == 0) a.stays[(int64_t)h.index * 2 * h.c.n_pages + b] = stay;
    }
}

/* A batch's units in shared memory, one array after the other. */
struct staged {
    char *k, *v, *pos, *score;
};

enum { STAGES = CUDA_EVICT_STAGES };

DEVICE struct staged stage_of(const struct cuda_cache &c, int stage)
{
    char *at = shared_memory() + stage * BATCH * (c.k_bytes + c.v_bytes + 8);

    return {at, at + BATCH * c.k_bytes, at + BATCH * (c.k_bytes + c.v_bytes),
            at + BATCH * (c.k_bytes + c.v_bytes + 4)};
}

DEVICE void fetch(char *to, const void *array, int64_t place, int bytes)
{
    const char *from = (const char *)array + place * bytes;

    for (int i = thread_id() * 16; i < BATCH * bytes; i += THREADS * 16)
        cp_async16(to + i, from + i, 16);
}

DEVICE void fetch_batch(const struct head &h, int batch, int stage)
{
    if (batch * BATCH < h.len) {
        const struct staged to = stage_of(h.c, stage);
        const int64_t place = place_of(h.c, h.index, batch * BATCH);
        fetch(to.k, h.c.k, place, h.c.k_bytes);
        fetch(to.v, h.c.v, place, h.c.v_bytes);
        fetch(to.pos, h.c.pos, place, 4);
        fetch(to.score, h.c.score, place, 4);
    }
    cp_async_commit();
}

/* A warp writes a unit of a batch to its new slot. */
DEVICE void write_unit(const struct head &h, const struct staged &from, int i, int slot)
{
    const int k = h.c.k_bytes / 4, v = h.c.v_bytes / 4, lane = lane_id();
    const int64_t place = place_of(h.c, h.index, slot);

    for (int w = lane; w < k; w += 32)
        ((uint32_t *)h.c.k)[place * k + w] = ((const uint32_t *)from.k)[i * k + w];
    for (int w = lane; w < v; w += 32)
        ((uint32_t *)h.c.v)[place * v + w] = ((const uint32_t *)from.v)[i * v + w];
    if (lane == 0) h.c.pos[place] = ((const uint32_t *)from.pos)[i];
    if (lane == 1) h.c.score[place] = ((const float *)from.score)[i];
}

/* In place, batch by batch: while one is written the next ones arrive. No unit is written beyond
 * the batch that it comes from. Returns the number of units. */
DEVICE int compact(const struct head &h, const uint32_t *stays)
{
    int to = 0, stage = 0;

    for (int b = 0; b < STAGES - 1; b++) fetch_batch(h, b, b);
    for (int b = 0; b * BATCH < h.len; b++) {
        const uint32_t stay = stays[b];
        const int before = stage ? stage - 1 : STAGES - 1, n = popcount(stay);
        const bool moves = to < b * BATCH || n < BATCH;
        cp_async_wait<STAGES - 2>();
        barrier(); /* this batch has arrived, and the one before is written */
        fetch_batch(h, b + STAGES - 1, before);
        for (int i = warp_id(); moves && i < BATCH; i += WARPS)
            if (stay >> i & 1)
                write_unit(h, stage_of(h.c, stage), i, to + popcount(stay & ((1u << i) - 1)));
        to += n;
        stage = stage + 1 < STAGES ? stage + 1 : 0;
    }
    return to;
}

KERNEL(cache_evict, struct cuda_evict, CUDA_EVICT_THREADS, 4)
{
    const struct head h = this_head(a.digits.cache, a.digits.key);

    if (a.digits.keep[h.index] == CUDA_KEEP_ALL) return;
    const int n = compact(h, a.stays + (int64_t)h.index * 2 * h.c.n_pages);
    if (thread_id() == 0) h.c.len[h.index] = n;
}
