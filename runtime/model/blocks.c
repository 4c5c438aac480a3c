#include "runtime/model/blocks.h"

#include <math.h>
#include <string.h>

#include "runtime/model/codes.h"
#include "runtime/model/gguf.h"

static float read_half(const uint8_t *p)
{
    return kn_float_from_half(read_u16(p));
}

/* ---- fields of the formats, for floats and for packing --------------------------------------- */

/* Q4_K, Q5_K: 6-bit scales and minima of 8 sub-blocks, in 12 bytes */
static void read_scales(struct super_block *b, const uint8_t *s)
{
    for (int j = 0; j < 8; j++) {
        const int scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
        const int min = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | s[j] >> 6 << 4;
        b->scale[2 * j] = b->scale[2 * j + 1] = (int8_t)scale;
        b->min[2 * j] = b->min[2 * j + 1] = (uint8_t)min;
    }
}

/* Takes the bits above `shift` of 32 bytes, masked, and moves them to bit `to` of q. Works on eight
 * bytes at a time: the mask removes the bits that a shift brings in from the next byte. */
static void or_bits(uint8_t q[32], const uint8_t *p, int shift, uint8_t mask, int to)
{
    for (int l = 0; l < 32; l += 8) {
        uint64_t x, out;
        memcpy(&x, p + l, sizeof x);
        memcpy(&out, q + l, sizeof out);
        out |= (x >> shift & mask * 0x0101010101010101u) << to;
        memcpy(q + l, &out, sizeof out);
    }
}

/* scales[16] (low nibble scale, high nibble minimum), qs[64], half d, half dmin */
static void read_q2_k(struct super_block *b, const uint8_t *p)
{
    b->d = read_u16(p + 80);
    b->m = read_u16(p + 82);
    for (int i = 0; i < 16; i++) {
        b->scale[i] = p[i] & 15;
        b->min[i] = p[i] >> 4;
    }
    for (int j = 0; j < 8; j++) or_bits(b->q + 32 * j, p + 16 + j / 4 * 32, j % 4 * 2, 3, 0);
}

/* hmask[32], qs[64], scales[12] of 6 bits, half d */
static void read_q3_k(struct super_block *b, const uint8_t *p)
{
    const uint8_t *s = p + 96;
    b->offset = 4;
    b->d = read_u16(p + 108);
    for (int i = 0; i < 16; i++) {
        const int low = i < 8 ? s[i] & 15 : s[i - 8] >> 4;
        b->scale[i] = (int8_t)((low | (s[8 + i % 4] >> i / 4 * 2 & 3) << 4) - 32);
    }
    for (int j = 0; j < 8; j++) {
        or_bits(b->q + 32 * j, p + 32 + j / 4 * 32, j % 4 * 2, 3, 0);
        or_bits(b->q + 32 * j, p, j, 1, 2);
    }
}

/* half d, half dmin, scales[12], qs[128] */
static void read_q4_k(struct super_block *b, const uint8_t *p)
{
    b->d = read_u16(p);
    b->m = read_u16(p + 2);
    read_scales(b, p + 4);
    for (int j = 0; j < 8; j++) or_bits(b->q + 32 * j, p + 16 + j / 2 * 32, j % 2 * 4, 15, 0);
}

/* half d, half dmin, scales[12], qh[32], qs[128] */
static void read_q5_k(struct super_block *b, const uint8_t *p)
{
    b->d = read_u16(p);
    b->m = read_u16(p + 2);
    read_scales(b, p + 4);
    for (int j = 0; j < 8; j++) {
        or_bits(b->q + 32 * j, p + 48 + j / 2 * 32, j % 2 * 4, 15, 0);
        or_bits(b->q + 32 * j, p + 16, j, 1, 4);
    }
}

/* ql[128], qh[64], int8 scales[16], half d */
static void read_q6_k(struct super_block *b, const uint8_t *p)
{
    b->offset = 32;
    b->d = read_u16(p + 208);
    memcpy(b->scale, p + 192, sizeof b->scale);
    for (int j = 0; j < 8; j++) {
        or_bits(b->q + 32 * j, p + j / 4 * 64 + j % 2 * 32, j % 4 / 2 * 4, 15, 0);
        or_bits(b->q + 32 * j, p + 128 + j / 4 * 32, j % 4 * 2, 3, 4);
    }
}

/* Q5_0, Q5_1: number j of 32, 0..31; high[4] holds the fifth bits */
static int q5_number(const uint8_t *qs, uint32_t high, int j)
{
    const int low = j < 16 ? qs[j] & 15 : qs[j - 16] >> 4;
    return low | (int)(high >> j & 1) << 4;
}

/* IQ4_NL, IQ4_XS, MXFP4: the values of 32 nibbles */
static void code_numbers(int8_t q[32], const int8_t values[16], const uint8_t *qs)
{
    for (int j = 0; j < 16; j++) {
        q[j] = values[qs[j] & 15];
        q[j + 16] = values[qs[j] >> 4];
    }
}

/* MXFP4: 2^(e - 128), also where this is denormal */
static float mxfp4_scale(uint8_t e)
{
    return kn_float_from_bits(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

/* NVFP4: e4m3 without a sign; 0x7f is 0 */
static uint8_t nvfp4_bits(uint8_t d)
{
    return d == 0x7f ? 0 : d & 0x7f;
}

/* Half of e4m3, whose bits are those of a half with another bias. */
static float nvfp4_scale(uint8_t d)
{
    return kn_float_from_half((uint16_t)(nvfp4_bits(d) << 7)) * 128.0f;
}

/* IQ4_XS: half d, u16 high bits, low[4], qs[128]; 6-bit scale of sub-block j, -32..31 */
static int iq4_xs_scale(const uint8_t *block, int j)
{
    const int low = block[4 + j / 2] >> j % 2 * 4 & 15;
    return (low | (read_u16(block + 2) >> 2 * j & 3) << 4) - 32;
}

/* ---- one block to floats --------------------------------------------------------------------- */

/* half d, nibbles[16], low ones first; w = d (q - 8) */
static void q4_0_to_float(float *out, const uint8_t *p)
{
    const float d = read_half(p);
    for (int j = 0; j < 16; j++) {
        out[j] = d * (float)((p[2 + j] & 15) - 8);
        out[j + 16] = d * (float)((p[2 + j] >> 4) - 8);
    }
}

/* half d, half m, nibbles[16]; w = d q + m */
static void q4_1_to_float(float *out, const uint8_t *p)
{
    const float d = read_half(p), m = read_half(p + 2);
    for (int j = 0; j < 16; j++) {
        out[j] = d * (float)(p[4 + j] & 15) + m;
        out[j + 16] = d * (float)(p[4 + j] >> 4) + m;
    }
}

/* half d, high[4], nibbles[16]; w = d (q - 16) */
static void q5_0_to_float(float *out, const uint8_t *p)
{
    const float d = read_half(p);
    const uint32_t high = read_u32(p + 2);
    for (int j = 0; j < 32; j++) out[j] = d * (float)(q5_number(p + 6, high, j) - 16);
}

/* half d, half m, high[4], nibbles[16]; w = d q + m */
static void q5_1_to_float(float *out, const uint8_t *p)
{
    const float d = read_half(p), m = read_half(p + 2);
    const uint32_t high = read_u32(p + 4);
    for (int j = 0; j < 32; j++) out[j] = d * (float)q5_number(p + 8, high, j) + m;
}

/* half d, int8[32]; w = d q */
static void q8_0_to_float(float *out, const uint8_t *p)
{
    const float d = read_half(p);
    for (int j = 0; j < 32; j++) out[j] = d * (float)(int8_t)p[2 + j];
}

static void super_to_float(float *out, const struct super_block *b)
{
    const float d = kn_float_from_half(b->d), m = kn_float_from_half(b->m);
    for (int i = 0; i < KN_SUPER / 16; i++) {
        const float scale = d * (float)b->scale[i], min = m * (float)b->min[i];
        for (int l = 16 * i; l < 16 * i + 16; l++)
            out[l] = b->values ? d * ((float)b->scale[i] * b->unit) * (float)b->values[b->q[l]]
                               : scale * (float)(b->q[l] - b->offset) - min;
    }
}

/* half d, nibbles[16]; w = d value[q] */
static void iq4_nl_to_float(float *out, const uint8_t *p)
{
    const float d = read_half(p);
    int8_t q[32];
    code_numbers(q, kn_values_iq4, p + 2);
    for (int l = 0; l < 32; l++) out[l] = d * (float)q[l];
}

/* exponent, nibbles[16]; w = 2^(e - 128) value[q] */
static void mxfp4_to_float(float *out, const uint8_t *p)
{
    const float d = mxfp4_scale(p[0]);
    int8_t q[32];
    code_numbers(q, kn_values_e2m1, p + 1);
    for (int l = 0; l < 32; l++) out[l] = d * (float)q[l];
}

/* scales[4], nibbles[4][8], of 16 numbers the first 8 low; w = d value[q] */
static void nvfp4_to_float(float *out, const uint8_t *p)
{
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 8; j++) {
            const float d = nvfp4_scale(p[i]);
            *(out + 16 * i + j) = d * (float)kn_values_e2m1[p[4 + 8 * i + j] & 15];
            *(out + 16 * i + j + 8) = d * (float)kn_values_e2m1[p[4 + 8 * i + j] >> 4];
        }
}

/* w = d scale value[q] */
static void iq4_xs_to_float(float *out, const uint8_t *p)
{
    const float d = read_half(p);
    int8_t q[32];
    for (int j = 0; j < 8; j++, out += 32) {
        const float d1 = d * (float)iq4_xs_scale(p, j);
        code_numbers(q, kn_values_iq4, p + 8 + 16 * j);
        for (int l = 0; l < 32; l++) out[l] = d1 * (float)q[l];
    }
}

/* ---- one block to the blocks that the kernels pack ------------------------------------------- */

/* Rounded to half; a damaged file must not produce an infinity. */
static void write_half(uint8_t *p, float x)
{
    const uint16_t h = kn_half_from_float(x > 65504.0f ? 65504.0f : x < -65504.0f ? -65504.0f : x);
    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
}

/* 32 numbers 0..15 as nibbles[16] */
static void write_nibbles(uint8_t *p, const uint8_t q[32])
{
    for (int j = 0; j < 16; j++) p[j] = (uint8_t)((q[j] & 15) | q[j + 16] << 4);
}

/* Bit 4 of eight numbers: the product moves bit 8i to 56 + i and no other bit above 55. */
static uint8_t fifth_bits(const uint8_t q[8])
{
    uint64_t x;
    memcpy(&x, q, sizeof x);
    return (uint8_t)((x >> 4 & 0x0101010101010101u) * 0x0102040810204080u >> 56);
}

/* Q5_1 blocks whose minimum is -16 d */
static void q5_0_recode(uint8_t *out, const uint8_t *p)
{
    memcpy(out, p, 2);
    write_half(out + 2, -16.0f * read_half(p));
    memcpy(out + 4, p + 2, 4 + 16);
}

/* Q8_0 blocks */
static void iq4_nl_recode(uint8_t *out, const uint8_t *p)
{
    memcpy(out, p, 2);
    code_numbers((int8_t *)out + 2, kn_values_iq4, p + 2);
}

static void iq4_xs_recode(uint8_t *out, const uint8_t *p)
{
    const float d = read_half(p);
    for (int j = 0; j < 8; j++, out += 34) {
        write_half(out, d * (float)iq4_xs_scale(p, j));
        code_numbers((int8_t *)out + 2, kn_values_iq4, p + 8 + 16 * j);
    }
}

/* Q8_0 blocks of numbers that cannot share a scale, and are quantized again. */
static void quantize_again(uint8_t *out, const float w[KN_SUPER])
{
    for (int j = 0; j < 8; j++, out += 34) {
        const float *x = w + 32 * j;
        float max = 0.0f;
        for (int l = 0; l < 32; l++) max = fabsf(x[l]) > max ? fabsf(x[l]) : max;
        write_half(out, max / 127.0f);
        const float d = read_half(out), scale = d > 0.0f ? 1.0f / d : 0.0f;
        for (int l = 0; l < 32; l++) {
            const long q = lrintf(x[l] * scale);
            out[2 + l] = (uint8_t)(q > 127 ? 127 : q < -127 ? -127 : q);
        }
    }
}

/* ---- super-blocks ---------------------------------------------------------------------------- */

/* Q4_1 or Q5_1 blocks, or struct kn_q6_block, with rounded scales. */
static void super_to_wide(uint8_t *out, const struct super_block *b, enum kn_type kernel)
{
    const float d = kn_float_from_half(b->d), m = kn_float_from_half(b->m);
    float w[KN_SUPER];
    if (kernel == KN_Q8) {
        super_to_float(w, b);
        quantize_again(out, w);
        return;
    }
    for (int j = 0; j < 8; j++) {
        const uint8_t *q = b->q + 32 * j;
        write_half(out, d * (float)b->scale[2 * j]);
        if (kernel == KN_Q6) {
            write_half(out + 2, d * (float)b->scale[2 * j + 1]);
            for (int l = 0; l < 32; l++) out[4 + l] = (uint8_t)(q[l] + 32 - b->offset);
            out += 36;
            continue;
        }
        write_half(out + 2, -m * (float)b->min[2 * j]);
        out += 4;
        for (int i = 0; kernel == KN_Q5A && i < 4; i++) *out++ = fifth_bits(q + 8 * i);
        write_nibbles(out, q);
        out += 16;
    }
}

/* The blocks of super-groups, exact. */
static void super_to_compact(uint8_t *out, const struct super_block *b, enum kn_type kernel)
{
    if (kernel == KN_Q4S) {
        struct kn_q4s_block to = {.d = b->d, .m = b->m};
        for (int j = 0; j < 8; j++) {
            to.scale[j] = (uint8_t)b->scale[2 * j];
            to.min[j] = b->min[2 * j];
            write_nibbles(to.qs[j], b->q + 32 * j);
        }
        memcpy(out, &to, sizeof to);
    } else if (kernel == KN_IQ3X || kernel == KN_IQ3S) {
        struct kn_iq4s_block to = {.d = b->d};
        for (int j = 0; j < 8; j++) {
            to.scale[j] = b->scale[2 * j];
            write_nibbles(to.qs[j], b->q + 32 * j);
        }
        memcpy(out, &to, sizeof to);
    } else if (kernel == KN_Q2S) {
        struct kn_q2s_block to = {.d = b->d, .m = b->m};
        for (int i = 0; i < 16; i++) to.scale[i] = (uint8_t)(b->scale[i] | b->min[i] << 4);
        memcpy(to.q, b->q, sizeof to.q);
        memcpy(out, &to, sizeof to);
    } else {
        struct kn_q3s_block to = {.d = b->d};
        memcpy(to.scale, b->scale, sizeof to.scale);
        memcpy(to.q, b->q, sizeof to.q);
        memcpy(out, &to, sizeof to);
    }
}

/* ---- other blocks of super-groups, exact ----------------------------------------------------- */

static void iq4_xs_super(uint8_t *out, const uint8_t *p)
{
    struct kn_iq4s_block b = {.d = read_u16(p)};
    for (int j = 0; j < 8; j++) b.scale[j] = (int8_t)iq4_xs_scale(p, j);
    memcpy(b.qs, p + 8, sizeof b.qs);
    memcpy(out, &b, sizeof b);
}

/* Two blocks of Q6: twice a 4-bit float is an integer below 13, and half of e4m3 a half. */
static void nvfp4_wide(uint8_t *out, const uint8_t *p)
{
    for (int g = 0; g < 2; g++, out += sizeof(struct kn_q6_block))
        for (int h = 0; h < 2; h++) {
            const uint8_t *codes = p + 4 + 16 * g + 8 * h;
            write_half(out + 2 * h, nvfp4_scale(p[2 * g + h]));
            for (int j = 0; j < 8; j++) {
                out[4 + 16 * h + j] = (uint8_t)(kn_values_e2m1[codes[j] & 15] + 32);
                out[4 + 16 * h + j + 8] = (uint8_t)(kn_values_e2m1[codes[j] >> 4] + 32);
            }
        }
}

/* Two blocks, with nibbles in the order of the other types. */
static void nvfp4_recode(uint8_t *out, const uint8_t *p)
{
    for (int g = 0; g < 2; g++) {
        const uint8_t *first = p + 4 + 16 * g, *second = first + 8;
        struct kn_nv4_block b = {.d = {nvfp4_bits(p[2 * g]), nvfp4_bits(p[2 * g + 1])}};
        for (int j = 0; j < 8; j++) {
            b.qs[j] = (uint8_t)((first[j] & 15) | (second[j] & 15) << 4);
            b.qs[j + 8] = (uint8_t)(first[j] >> 4 | (second[j] & 0xf0));
        }
        memcpy(out + (size_t)g * sizeof b, &b, sizeof b);
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

/* A layout in which a type is kept; its packer reads the file's blocks, or the blocks that `recode`
 * makes of them. */
struct layout {
    enum kn_type kernel;
    void (*recode)(uint8_t *out, const uint8_t *block);
};

/* compact.kernel 0: the same as wide. super: it has super-blocks, instead of to_float. */
static const struct reader {
    uint32_t type;
    void (*to_float)(float *out, const uint8_t *block);
    super_read *super;
    struct layout wide, compact;
} readers[] = {
    {GGUF_T_Q4_0, q4_0_to_float, NULL, {KN_Q4, NULL}, {0}},
    {GGUF_T_Q4_1, q4_1_to_float, NULL, {KN_Q4A, NULL}, {0}},
    {GGUF_T_Q5_0, q5_0_to_float, NULL, {KN_Q5A, q5_0_recode}, {0}},
    {GGUF_T_Q5_1, q5_1_to_float, NULL, {KN_Q5A, NULL}, {0}},
    {GGUF_T_Q8_0, q8_0_to_float, NULL, {KN_Q8, NULL}, {0}},
    {GGUF_T_Q2_K, NULL, read_q2_k, {KN_Q8, NULL}, {KN_Q2S, NULL}},
    {GGUF_T_Q3_K, NULL, read_q3_k, {KN_Q6, NULL}, {KN_Q3S, NULL}},
    {GGUF_T_Q4_K, NULL, read_q4_k, {KN_Q4A, NULL}, {KN_Q4S, NULL}},
    {GGUF_T_Q5_K, NULL, read_q5_k, {KN_Q5A, NULL}, {0}},
    {GGUF_T_Q6_K, NULL, read_q6_k, {KN_Q6, NULL}, {0}},
    {GGUF_T_IQ4_NL, iq4_nl_to_float, NULL, {KN_Q8, iq4_nl_recode}, {KN_IQ4, NULL}},
    {GGUF_T_IQ4_XS, iq4_xs_to_float, NULL, {KN_Q8, iq4_xs_recode}, {KN_IQ4S, iq4_xs_super}},
    {GGUF_T_MXFP4, mxfp4_to_float, NULL, {KN_MX4, NULL}, {0}},
    {GGUF_T_NVFP4, nvfp4_to_float, NULL, {KN_Q6, nvfp4_wide}, {KN_NV4, nvfp4_recode}},
    {GGUF_T_IQ3_XXS, NULL, codes_read_iq3_xxs, {KN_Q8, NULL}, {KN_IQ3X, NULL}},
    {GGUF_T_IQ3_S, NULL, codes_read_iq3_s, {KN_Q8, NULL}, {KN_IQ3S, NULL}},
    {GGUF_T_IQ2_XXS, NULL, codes_read_iq2_xxs, {KN_Q8, NULL}, {KN_IQ2, NULL}},
    {GGUF_T_IQ2_XS, NULL, codes_read_iq2_xs, {KN_Q8, NULL}, {KN_IQ2, NULL}},
    {GGUF_T_IQ2_S, NULL, codes_read_iq2_s, {KN_Q8, NULL}, {KN_IQ2, NULL}},
    {GGUF_T_IQ1_S, NULL, codes_read_iq1_s, {KN_Q8, NULL}, {KN_IQ1, NULL}},
    {GGUF_T_IQ1_M, NULL, codes_read_iq1_m, {KN_Q8, NULL}, {KN_IQ1, NULL}},
    {GGUF_T_TQ1_0, NULL, codes_read_tq1_0, {KN_Q8, NULL}, {KN_Q2S, NULL}},
    {GGUF_T_TQ2_0, NULL, codes_read_tq2_0, {KN_Q8, NULL}, {KN_Q2S, NULL}},
};

static void read_floats(const struct reader *r, float *out, const uint8_t *block)
{
    struct super_block b = {0};
    if (r->to_float) {
        r->to_float(out, block);
        return;
    }
    r->super(&b, block);
    super_to_float(out, &b);
}

/* Makes the blocks that a layout's packer reads. */
static void recode(const struct reader *r, const struct layout *to, uint8_t *out,
                   const uint8_t *block)
{
    struct super_block b = {0};
    if (r->to_float) {
        to->recode(out, block);
        return;
    }
    r->super(&b, block);
    (to == &r->compact ? super_to_compact : super_to_wide)(out, &b, to->kernel);
}

static const struct reader *find_reader(uint32_t type)
{
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (readers[i].type == type) return &readers[i];
    return NULL;
}

bool blocks_readable(uint32_t type)
{
    return type == GGUF_T_F32 || type == GGUF_T_F16 || type == GGUF_T_BF16 || find_reader(type);
}

enum kn_type blocks_kernel_type(uint32_t type, bool wide)
{
    const struct reader *reader = find_reader(type);
    if (reader)
        return wide || !reader->compact.kernel ? reader->wide.kernel : reader->compact.kernel;
    return type == GGUF_T_F16 ? KN_F16 : type == GGUF_T_BF16 ? KN_BF16 : KN_F32;
}

void blocks_to_float(float *out, uint32_t type, const void *blocks, size_t n)
{
    const struct gguf_tensor_type *t = gguf_tensor_type(type);
    const struct reader *reader = find_reader(type);
    const uint8_t *p = blocks;

    if (reader)
        for (size_t i = 0; i < n; i += (size_t)t->block, p += t->block_bytes)
            read_floats(reader, out + i, p);
    else if (type == GGUF_T_F32)
        memcpy(out, p, n * sizeof *out);
    else if (type == GGUF_T_F16)
        for (size_t i = 0; i < n; i++) out[i] = read_half(p + 2 * i);
    else if (type == GGUF_T_BF16)
        for (size_t i = 0; i < n; i++) out[i] = kn_float_from_bf16(read_u16(p + 2 * i));
}

void blocks_pack(const struct kn_weight *w, int r, uint32_t type, const void *row)
{
    const struct gguf_tensor_type *t = gguf_tensor_type(type);
    const struct reader *reader = find_reader(type);
    const size_t panels_bytes = kn_weight_bytes(w->type, KN_PANEL, w->n_in);
    uint8_t *data = (uint8_t *)w->data + (size_t)(r / KN_PANEL) * panels_bytes;
    const uint8_t *p = row;
    const struct layout *to = reader && reader->compact.kernel == w->type && w->type != KN_F32
                                  ? &reader->compact
                              : reader ? &reader->wide
                                       : NULL;
    _Alignas(8) uint8_t blocks[KN_SUPER / KN_GROUP * sizeof(struct kn_q6_block)];

    if (w->type == KN_F32) {
        blocks_to_float((float *)w->data + (size_t)r * (size_t)w->n_in, type, row, (size_t)w->n_in);
    } else if (!reader) {
        const size_t bytes = (size_t)w->n_in * (size_t)t->block_bytes;
        memcpy((uint8_t *)w->data + (size_t)r * bytes, row, bytes);
    } else if (!to->recode && reader->to_float) {
        kn_pack(w->type, data, r % KN_PANEL, w->n_in, row);
    } else {
        const size_t step = kn_weight_bytes(w->type, KN_PANEL, t->block);
        for (int i = 0; i < w->n_in; i += t->block, p += t->block_bytes, data += step) {
            recode(reader, to, blocks, p);
            kn_pack(w->type, data, r % KN_PANEL, t->block, blocks);
        }
    }
}
