/* Layouts: sizes, packing of GGUF blocks into panels, half floats, the signs of packed keys, and
 * the merge of partial softmaxes. These run once per model, token or eviction, or are bound by
 * memory, so one version in plain C is enough. */
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <string.h>

const int8_t kn_values_iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};
const int8_t kn_values_iq3x[16] = {4,  12,  20,  28,  36,  44,  52,  62,
                                   -4, -12, -20, -28, -36, -44, -52, -62};
const int8_t kn_values_iq3s[16] = {-15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15};
const int8_t kn_values_iq2[16] = {8, 25, 43, 0, -8, -25, -43};
const int8_t kn_values_iq1[16] = {-9, -1, 7, 0, -7, 1, 9};
const int8_t kn_values_e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

size_t kn_weight_bytes(enum kn_type type, int n_out, int n_in)
{
    const size_t rows = (size_t)n_out, cols = (size_t)n_in;

    if (!kn_is_quantized(type)) return rows * cols * (type == KN_F32 ? 4 : 2);
    return (rows + KN_PANEL - 1) / KN_PANEL * (cols / (size_t)kn_columns(type)) *
           kn_panel_bytes(type);
}

struct kn_weight kn_weight_rows(const struct kn_weight *w, int row0, int row1)
{
    struct kn_weight rows = *w;
    rows.n_out = row1 - row0;
    rows.data = (const char *)w->data + kn_weight_bytes(w->type, row0, w->n_in);
    return rows;
}

size_t kn_kv_bytes(enum kn_kv type, int head_dim)
{
    const size_t dim = (size_t)head_dim, groups = dim / KN_GROUP;

    switch (type) {
    case KN_KV_F16: return dim * sizeof(uint16_t);
    case KN_KV_F32: return dim * sizeof(float);
    case KN_KV_Q8: return (groups * 34 + 3) & ~(size_t)3;
    case KN_KV_Q4:
    case KN_KV_S4: return (groups * 18 + 3) & ~(size_t)3;
    case KN_KV_Q5:
    case KN_KV_S5: return (groups * 22 + 3) & ~(size_t)3;
    case KN_KV_KEY:
    case KN_KV_TYPES: break;
    }
    return 0;
}

static uint32_t load_four(const uint8_t *p)
{
    uint32_t four;
    memcpy(&four, p, sizeof four);
    return four;
}

/* ---- packing --------------------------------------------------------------------------------- */

/* The functions of the table below put a block into one row, `lane`, of a panel. */

static void put_nibbles(uint8_t (*qs)[KN_PANEL][4], int lane, const uint8_t *src)
{
    for (int j = 0; j < 4; j++) memcpy(qs[j][lane], src + 4 * j, 4);
}

/* half d, 16 bytes of nibbles */
static void pack_q4(void *panel, int lane, const void *block)
{
    struct kn_q4_panel *p = panel;
    memcpy(&p->d[lane], block, 2);
    put_nibbles(p->qs, lane, (const uint8_t *)block + 2);
}

/* half d, 32 signed bytes */
static void pack_q8(void *panel, int lane, const void *block)
{
    struct kn_q8_panel *p = panel;
    memcpy(&p->d[lane], block, 2);
    for (int j = 0; j < 8; j++) {
        const uint32_t q = load_four((const uint8_t *)block + 2 + 4 * j) ^ 0x80808080u;
        memcpy(p->qs[j][lane], &q, sizeof q);
    }
}

/* half d, half m, 16 bytes of nibbles */
static void pack_q4a(void *panel, int lane, const void *block)
{
    struct kn_q4a_panel *p = panel;
    memcpy(&p->d[lane], block, 2);
    memcpy(&p->m[lane], (const uint8_t *)block + 2, 2);
    put_nibbles(p->qs, lane, (const uint8_t *)block + 4);
}

/* Bits 0, 4, 8 … 28 as bits 0 to 7. */
static uint8_t every_fourth_bit(uint32_t x)
{
    x &= 0x11111111u;
    x = (x | x >> 3) & 0x03030303u;
    x = (x | x >> 6) & 0x000f000fu;
    return (uint8_t)(x | x >> 12);
}

/* half d, half m, 32 fifth bits, 16 bytes of nibbles */
static void pack_q5a(void *panel, int lane, const void *block)
{
    struct kn_q5a_panel *p = panel;
    const uint8_t *src = block;
    const uint32_t high = load_four(src + 4);
    memcpy(&p->d[lane], src, 2);
    memcpy(&p->m[lane], src + 2, 2);
    put_nibbles(p->qs, lane, src + 8);
    for (int i = 0; i < 4; i++) p->qh[lane][i] = every_fourth_bit(high >> i);
}

/* at any address */
static void pack_q6(void *panel, int lane, const void *block)
{
    struct kn_q6_panel *p = panel;
    const uint8_t *src = block;
    uint32_t high[2] = {0, 0};
    for (int h = 0; h < 2; h++) memcpy(&p->d[h][lane], src + 2 * h, 2);
    for (int j = 0; j < 4; j++) {
        const uint32_t a = load_four(src + 4 + 4 * j), b = load_four(src + 20 + 4 * j);
        const uint32_t low = (a & 0x0f0f0f0fu) | (b & 0x0f0f0f0fu) << 4;
        memcpy(p->qs[j][lane], &low, sizeof low);
        high[0] |= (a >> 4 & 0x03030303u) << 2 * j;
        high[1] |= (b >> 4 & 0x03030303u) << 2 * j;
    }
    for (int h = 0; h < 2; h++) memcpy(p->qh[h][lane], &high[h], sizeof high[h]);
}

/* exponent, 16 bytes of nibbles */
static void pack_mx4(void *panel, int lane, const void *block)
{
    struct kn_mx4_panel *p = panel;
    p->e[lane] = *(const uint8_t *)block;
    put_nibbles(p->qs, lane, (const uint8_t *)block + 1);
}

static void pack_nv4(void *panel, int lane, const void *block)
{
    struct kn_nv4_panel *p = panel;
    const struct kn_nv4_block *b = block;
    for (int h = 0; h < 2; h++) p->d[h][lane] = b->d[h];
    put_nibbles(p->qs, lane, b->qs);
}

static void pack_iq4s(void *panel, int lane, const void *block)
{
    struct kn_iq4s_panel *p = panel;
    const struct kn_iq4s_block *b = block;
    p->d[lane] = b->d;
    for (int g = 0; g < 8; g++) {
        p->scale[g][lane] = b->scale[g];
        put_nibbles(p->qs[g], lane, b->qs[g]);
    }
}

static void pack_q4s(void *panel, int lane, const void *block)
{
    struct kn_q4s_panel *p = panel;
    const struct kn_q4s_block *b = block;
    p->d[lane] = b->d;
    p->m[lane] = b->m;
    for (int g = 0; g < 8; g++) {
        p->scale[g][lane] = b->scale[g];
        p->min[g][lane] = b->min[g];
        put_nibbles(p->qs[g], lane, b->qs[g]);
    }
}

/* The two low bits of 32 columns. */
static void put_low_bits(uint8_t (*ql)[KN_PANEL][4], int lane, const uint8_t *q)
{
    for (int h = 0; h < 2; h++) {
        uint32_t low = 0;
        for (int j = 0; j < 4; j++) low |= (load_four(q + 16 * h + 4 * j) & 0x03030303u) << 2 * j;
        memcpy(ql[h][lane], &low, sizeof low);
    }
}

static void pack_q3s(void *panel, int lane, const void *block)
{
    struct kn_q3s_panel *p = panel;
    const struct kn_q3s_block *b = block;
    p->d[lane] = b->d;
    for (int i = 0; i < 16; i++) p->scale[i][lane] = b->scale[i];
    for (int g = 0; g < 8; g++) {
        const uint8_t *q = b->q + KN_GROUP * g;
        uint32_t high = 0;
        put_low_bits(p->ql[g], lane, q);
        for (int j = 0; j < 8; j++) high |= (load_four(q + 4 * j) >> 2 & 0x01010101u) << j;
        memcpy(p->qh[g][lane], &high, sizeof high);
    }
}

static void pack_q2s(void *panel, int lane, const void *block)
{
    struct kn_q2s_panel *p = panel;
    const struct kn_q2s_block *b = block;
    p->d[lane] = b->d;
    p->m[lane] = b->m;
    for (int i = 0; i < 16; i++) p->scale[i][lane] = b->scale[i];
    for (int g = 0; g < 8; g++) put_low_bits(p->ql[g], lane, b->q + KN_GROUP * g);
}

static const struct {
    void (*pack)(void *panel, int lane, const void *block);
    size_t bytes; /* of a block */
} packers[KN_TYPES] = {
    [KN_Q4] = {pack_q4, 18},
    [KN_Q8] = {pack_q8, 34},
    [KN_Q4A] = {pack_q4a, 20},
    [KN_Q5A] = {pack_q5a, 24},
    [KN_Q6] = {pack_q6, sizeof(struct kn_q6_block)},
    [KN_IQ4] = {pack_q4, 18},
    [KN_MX4] = {pack_mx4, 17},
    [KN_NV4] = {pack_nv4, sizeof(struct kn_nv4_block)},
    [KN_IQ4S] = {pack_iq4s, sizeof(struct kn_iq4s_block)},
    [KN_Q4S] = {pack_q4s, sizeof(struct kn_q4s_block)},
    [KN_Q3S] = {pack_q3s, sizeof(struct kn_q3s_block)},
    [KN_Q2S] = {pack_q2s, sizeof(struct kn_q2s_block)},
    [KN_IQ3X] = {pack_iq4s, sizeof(struct kn_iq4s_block)},
    [KN_IQ3S] = {pack_iq4s, sizeof(struct kn_iq4s_block)},
    [KN_IQ2] = {pack_q3s, sizeof(struct kn_q3s_block)},
    [KN_IQ1] = {pack_q3s, sizeof(struct kn_q3s_block)},
};

void kn_pack(enum kn_type type, void *panels, int r, int n_in, const void *blocks)
{
    const size_t n = (size_t)(n_in / kn_columns(type)), step = kn_panel_bytes(type);
    uint8_t *panel = (uint8_t *)panels + (size_t)(r / KN_PANEL) * n * step;
    const uint8_t *block = blocks;

    for (size_t i = 0; i < n; i++, panel += step, block += packers[type].bytes)
        packers[type].pack(panel, r % KN_PANEL, block);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* NaNs keep the upper bits of their payload and become quiet, as F16C does. */
uint16_t kn_half_from_float(float x)
{
    const uint32_t u = kn_bits_from_float(x), sign = u >> 16 & 0x8000u, abs = u & 0x7fffffffu;
    uint32_t h;

    if (abs > 0x7f800000u) h = 0x7e00u | (abs >> 13 & 0x3ffu);
    /* 65520, half way between the largest half and the next power of two */
    else if (abs >= 0x477ff000u)
        h = 0x7c00u;
    else if (abs >= 0x38800000u) /* 2^-14: normal; rebias, then round on the 13 dropped bits */
        h = (abs - 0x38000000u + 0xfffu + (abs >> 13 & 1u)) >> 13;
    else /* denormal: adding 0.5 leaves the half's 10 bits at the bottom, rounded by the adder */
        h = kn_bits_from_float(kn_float_from_bits(abs) + 0.5f) - 0x3f000000u;
    return (uint16_t)(sign | h);
}

float kn_float_from_half(uint16_t h)
{
    const uint32_t sign = (h & 0x8000u) << 16, abs = h & 0x7fffu;

    if (abs > 0x7c00u) return kn_float_from_bits(sign | 0x7fc00000u | abs << 13);
    if (abs == 0x7c00u) return kn_float_from_bits(sign | 0x7f800000u);
    if (abs >= 0x400u) return kn_float_from_bits(sign | ((abs << 13) + 0x38000000u));
    /* denormal: abs * 2^-24, exact */
    const float mag = (float)abs * 0x1p-24f;
    return sign ? -mag : mag;
}

static uint32_t word_of(float x)
{
    return (uint16_t)(int16_t)lrintf(x * 32767.0f);
}

void kn_rope_places(uint32_t *out, const struct kn_rope *rope)
{
    const int half = rope->head_dim / 2;

    for (int table = 0; table < 2; table++)
        for (int r = 0; r < half / 2; r++)
            for (int p = 0; p < KN_TILE; p++, out++) {
                const int i = r / 8 * 16 + r % 8 / 2 * 4 + r % 2;
                const float *x = (table ? rope->sin : rope->cos) + p * half + i;
                *out = p < rope->n_pos ? word_of(x[0]) | word_of(x[2]) << 16 : 0;
            }
}

/* Numbers over the unit, in the order of kn_rope_places. */
static void put_words(uint32_t *out, const float *x, const float *less, float unit, int head_dim)
{
    for (int r = 0; r < head_dim / 2; r++, out++) {
        const int i = r / 8 * 16 + r % 8 / 2 * 4 + r % 2;
        const float a = x[i] - (less ? less[i] : 0.0f), b = x[i + 2] - (less ? less[i + 2] : 0.0f);
        *out = word_of(a / unit / 32767.0f) | word_of(b / unit / 32767.0f) << 16;
    }
}

/* A key of S4 is less than 32 scales from its centre, see key_centre. No word exceeds 2^14, so
 * that the words of rotated pairs do not exceed 2^15. */
void kn_centre_words(struct kn_centre *c, uint32_t *out, int head_dim)
{
    const int n = head_dim / 2;
    float top = 0x1p-60f;

    for (int i = 0; i < head_dim; i++) {
        const float a = fabsf(c->mean[i]), b = fabsf(c->first[i]), m = a > b ? a : b;
        top = m + 32.0f * c->scale[i] > top ? m + 32.0f * c->scale[i] : top;
    }
    c->unit = top * 0x1p-14f;
    c->mean_words = out;
    c->lift_words = out + n;
    c->scale_words = out + 2 * n;
    put_words(out, c->mean, NULL, c->unit, head_dim);
    put_words(out + n, c->first, c->mean, c->unit, head_dim);
    put_words(out + 2 * n, c->scale, NULL, c->unit * 0x1p-5f, head_dim);
}

void kn_key_restore(float *k, const struct kn_centre *c, bool first, int head_dim)
{
    const float *mean = first ? c->first : c->mean;

    for (int i = 0; i < head_dim; i++) k[i] = mean[i] + c->scale[i] * k[i];
}

/* Bit i: the low nibble of byte i is at least its high nibble. */
static uint32_t low_at_least_high(uint64_t bytes)
{
    const uint64_t nibbles = 0x0f0f0f0f0f0f0f0fu, high = 0x8080808080808080u;
    const uint64_t flags = (((bytes & nibbles) | high) - (bytes >> 4 & nibbles)) & high;
    return (uint32_t)((flags >> 7) * 0x0102040810204080u >> 56);
}

static uint16_t signs_q4(const uint8_t *nibbles)
{
    uint64_t a, b;
    memcpy(&a, nibbles, 8);
    memcpy(&b, nibbles + 8, 8);
    return (uint16_t)(low_at_least_high(a) | low_at_least_high(b) << 8);
}

/* The last n numbers of a key, at most a group, or numbers with the same order. */
static void last_numbers(float *x, const void *key, enum kn_kv type, int head_dim, int n)
{
    const int from = head_dim - n, n_group = head_dim / KN_GROUP, group = n_group - 1;
    const uint8_t *bytes = key;

    for (int i = 0; i < n; i++) {
        switch (type) {
        case KN_KV_F32: x[i] = ((const float *)key)[from + i]; break;
        case KN_KV_F16: x[i] = kn_float_from_half(((const uint16_t *)key)[from + i]); break;
        case KN_KV_Q8: x[i] = ((const struct kn_kv_q8 *)key)[group].q[i]; break;
        default: x[i] = (float)(bytes[16 * group + i % 16] >> i / 16 * 4 & 15);
        }
    }
    if (type != KN_KV_Q5 && type != KN_KV_S5) return;
    const uint32_t high = kn_dword_at(bytes + 16 * n_group + 4 * group);
    const float d = kn_float_from_half(kn_half_at(bytes + kn_halves_at(true, n_group) + 2 * group));
    for (int i = 0; i < n; i++) x[i] = d * (x[i] + (high >> i & 1 ? 0.0f : -16.0f));
}

static uint16_t signs(const void *key, enum kn_kv type, int head_dim)
{
    const int half = head_dim < KN_GROUP ? head_dim / 2 : KN_GROUP / 2;
    float x[KN_GROUP];
    uint32_t bits = 0;
    last_numbers(x, key, type, head_dim, 2 * half);
    for (int i = 0, at = 0; i < 16; i++, at = at + 1 < half ? at + 1 : 0)
        bits |= (uint32_t)(x[at] >= x[half + at]) << i;
    return (uint16_t)bits;
}

void kn_key_signs(uint16_t *out, const void *k, enum kn_kv type, int head_dim, int n)
{
    const size_t bytes = kn_kv_bytes(type, head_dim);
    const uint8_t *key = k;
    for (int i = 0; i < n; i++, key += bytes) {
        __builtin_prefetch(key + 4096); /* bound by memory: this makes it a third faster */
        out[i] = type == KN_KV_Q4 || type == KN_KV_S4 ? signs_q4(key + head_dim / 2 - KN_GROUP / 2)
                                                      : signs(key, type, head_dim);
    }
}

void kn_attend_add(const struct kernels *k, struct kn_partial to, struct kn_partial part, int rows,
                   int head_dim)
{
    const size_t dim = (size_t)head_dim;

    for (size_t r = 0; r < (size_t)rows; r++) {
        if (part.m[r] == -INFINITY) continue;
        const float max = part.m[r] > to.m[r] ? part.m[r] : to.m[r];
        const float kept = expf(to.m[r] - max), share = expf(part.m[r] - max);
        to.m[r] = max;
        to.l[r] = kept * to.l[r] + share * part.l[r];
        k->mix(to.acc + r * dim, part.acc + r * dim, head_dim, kept, share);
    }
}

/* out = acc weight / sum. gcc vectorises inner loops of four. */
static void divide(float *restrict out, const float *restrict acc, float weight, float sum, int n)
{
    int i = 0;

    for (; i + 4 <= n; i += 4)
#pragma GCC unroll 4
        for (int j = i; j < i + 4; j++) out[j] = weight * acc[j] / sum;
    for (; i < n; i++) out[i] = weight * acc[i] / sum;
}

void kn_attend_finish(float *out, struct kn_partial p, const float *sinks, int rows, int head_dim)
{
    for (int r = 0; r < rows; r++, out += head_dim, p.acc += head_dim) {
        const float m = p.m[r], sink = sinks ? sinks[r] : -INFINITY, max = m > sink ? m : sink;
        const float weight = max > -INFINITY ? expf(m - max) : 0.0f;
        float sum = weight * p.l[r];
        if (sink > -INFINITY) sum += expf(sink - max);
        divide(out, p.acc, weight, sum > 0.0f ? sum : 1.0f, head_dim);
    }
}
