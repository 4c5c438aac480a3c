/* kernels: the arithmetic of a transformer on raw pointers, behind one table.
 *
 * Each instruction set has a file, cpu/avx2.c and so on, that exports one complete table; cpu/ref.c
 * is the readable reference of all entries. Nothing here allocates, spawns threads, or knows files,
 * models or policies. The caller splits the work: every entry computes a range, and disjoint ranges
 * may be computed concurrently.
 *
 * Determinism: each output number is a sum in a fixed order that depends on the shapes alone, never
 * on the split into ranges or on the number of threads. Different instruction sets may differ in
 * rounding.
 *
 * Alignment: every base pointer is 64-byte aligned unless said otherwise.
 * Floats are IEEE binary32; `half` means the bits of an IEEE binary16 in a uint16_t. */
#ifndef RETAIN_KERNELS_KERNELS_H
#define RETAIN_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- weight matrices: [n_out][n_in], y = W x ------------------------------------------------ */

enum kn_type {
    KN_F32,  /* row-major float */
    KN_F16,  /* row-major half */
    KN_BF16, /* row-major, upper half of a float */
    KN_Q4,   /* int4, groups of 32, symmetric: w = d * (q - 8); panels, see kn_q4_panel */
    KN_Q8,   /* int8, groups of 32, symmetric: w = d * q; panels, see kn_q8_panel */
    KN_Q4A,  /* int4, groups of 32, affine: w = d * q + m; panels, see kn_q4a_panel */
    KN_Q5A,  /* int5, the same; see kn_q5a_panel */
    KN_Q6,   /* int6, groups of 32 with a scale per 16: w = d * (q - 32); see kn_q6_panel */
    KN_IQ4,  /* codes of 4 bits, groups of 32: w = d * kn_values_iq4[q]; panels as of Q4 */
    KN_MX4,  /* e2m1, groups of 32 with powers of two: w = d * kn_values_e2m1[q]; kn_mx4_panel */
    KN_NV4,  /* e2m1, groups of 16 with e4m3 scales; see kn_nv4_panel */
    KN_IQ4S, /* as IQ4, groups of 32 in super-groups of 256; see kn_iq4s_panel */
    KN_Q4S,  /* int4, affine, the same; see kn_q4s_panel */
    KN_Q3S,  /* int3, groups of 16 in super-groups of 256: w = d scale (q - 4); kn_q3s_panel */
    KN_Q2S,  /* int2, affine, the same; see kn_q2s_panel */
    /* codes in super-groups, w = d scale kn_code_unit kn_code_values[q]: */
    KN_IQ3X, /* of 4 bits, panels as of IQ4S */
    KN_IQ3S,
    KN_IQ2, /* of 3 bits, panels as of Q3S */
    KN_IQ1,
    KN_TYPES,
};

#define KN_GROUP 32  /* weights, activations and cache units that share one scale */
#define KN_PANEL 16  /* rows of a panel: one 512-bit register of int32 accumulators */
#define KN_SUPER 256 /* weights of a super-group, whose groups have integer scales of one float */

/* Quantized matrices are stored as [ceil(n_out / 16)][n_in / 32] panels, so that one pass over
 * memory feeds 16 rows. Rows beyond n_out are zero. Each dword holds 4 consecutive columns of one
 * row, the operand of a 4-way int8 dot product.
 *   Q4: low nibble of qs[j][r][i] is column 4j+i of row r, high nibble is column 16+4j+i. */
struct kn_q4_panel {
    uint16_t d[KN_PANEL];       /* half scales, one per row */
    uint8_t qs[4][KN_PANEL][4]; /* unsigned 0..15, offset 8 */
};

/*   Q8: qs[j][r][i] is column 4j+i of row r, stored as q + 128. */
struct kn_q8_panel {
    uint16_t d[KN_PANEL];
    uint8_t qs[8][KN_PANEL][4];
};

/* Q4A: qs as in Q4. */
struct kn_q4a_panel {
    uint16_t d[KN_PANEL]; /* half scales and minima, one per row */
    uint16_t m[KN_PANEL];
    uint8_t qs[4][KN_PANEL][4]; /* unsigned 0..15, no offset */
};

/* Q5A: qs as in Q4; bit j of qh[r][i] is bit 4 of column 4j+i. */
struct kn_q5a_panel {
    uint16_t d[KN_PANEL];
    uint16_t m[KN_PANEL];
    uint8_t qs[4][KN_PANEL][4];
    uint8_t qh[KN_PANEL][4];
};

/* Q6: d[h] and qh[h] belong to columns 16h to 16h+15; qs as in Q4; bits 2j and 2j+1 of qh[h][r][i]
 *   are bits 4 and 5 of column 16h+4j+i. */
struct kn_q6_panel {
    uint16_t d[2][KN_PANEL];
    uint8_t qs[4][KN_PANEL][4]; /* unsigned 0..63, offset 32 */
    uint8_t qh[2][KN_PANEL][4];
};

/* MX4 (OCP microscaling formats): a scale is 2^(e - 128), or 0 if e is 0 or 1. NV4: one per half,
 * e4m3 without sign and NaN, times 1/2. qs as in Q4. */
struct kn_mx4_panel {
    uint8_t e[KN_PANEL];
    uint8_t qs[4][KN_PANEL][4];
};
struct kn_nv4_panel {
    uint8_t d[2][KN_PANEL];
    uint8_t qs[4][KN_PANEL][4];
};

/* Panels of super-groups: 16 rows of 256 columns. IQ4S: w = d scale[g] value; Q4S: w = d scale[g] q
 * - m min[g]; qs[g] as in Q4. */
struct kn_iq4s_panel {
    uint16_t d[KN_PANEL];
    int8_t scale[8][KN_PANEL];
    uint8_t qs[8][4][KN_PANEL][4];
};
struct kn_q4s_panel {
    uint16_t d[KN_PANEL], m[KN_PANEL];
    uint8_t scale[8][KN_PANEL], min[8][KN_PANEL];
    uint8_t qs[8][4][KN_PANEL][4];
};

/* Q3S, Q2S: a scale per half of a group; Q2S's has the scale in its low nibble and the minimum in
 * the high one, w = d scale q - m min. Of group g, bits 2j and 2j+1 of ql[g][h][r][i] are the low
 * ones of column 16h+4j+i, bit j of qh[g][r][i] is bit 2 of column 4j+i. */
struct kn_q3s_panel {
    uint16_t d[KN_PANEL];
    int8_t scale[16][KN_PANEL];
    uint8_t ql[8][2][KN_PANEL][4]; /* unsigned 0..7, offset 4 */
    uint8_t qh[8][KN_PANEL][4];
};
struct kn_q2s_panel {
    uint16_t d[KN_PANEL], m[KN_PANEL];
    uint8_t scale[16][KN_PANEL];
    uint8_t ql[8][2][KN_PANEL][4]; /* unsigned 0..3, no offset */
};

/* The numbers of the codes of IQ4, those of MX4 and NV4, twice the value of a 4-bit float, and of
 * the types of GGUF's IQ3, IQ2 and IQ1. */
extern const int8_t kn_values_iq4[16], kn_values_e2m1[16], kn_values_iq3x[16], kn_values_iq3s[16],
    kn_values_iq2[16], kn_values_iq1[16];

/* Those of a type whose weights are codes. */
static inline const int8_t *kn_code_values(enum kn_type type)
{
    return type == KN_IQ4 || type == KN_IQ4S ? kn_values_iq4
           : type == KN_IQ3X                 ? kn_values_iq3x
           : type == KN_IQ3S                 ? kn_values_iq3s
           : type == KN_IQ2                  ? kn_values_iq2
           : type == KN_IQ1                  ? kn_values_iq1
                                             : kn_values_e2m1;
}
static inline float kn_code_unit(enum kn_type type)
{
    return type == KN_IQ2 || type == KN_IQ1 ? 0.125f : type == KN_IQ3X ? 0.25f : 1.0f;
}

_Static_assert(sizeof(struct kn_mx4_panel) == 16 * 17, "same bytes as GGUF MXFP4");
_Static_assert(sizeof(struct kn_nv4_panel) == 16 * 18, "same bytes as GGUF NVFP4");
_Static_assert(sizeof(struct kn_iq4s_panel) == 16 * 138, "1.5 % more than GGUF IQ4_XS");
_Static_assert(sizeof(struct kn_q4s_panel) == 16 * 148, "2.8 % more than GGUF Q4_K");
_Static_assert(sizeof(struct kn_q3s_panel) == 16 * 114, "3.6 % more than GGUF Q3_K");
_Static_assert(sizeof(struct kn_q2s_panel) == 16 * 84, "same bytes as GGUF Q2_K");
_Static_assert(sizeof(struct kn_q4_panel) == 16 * 18, "same bytes as GGUF Q4_0");
_Static_assert(sizeof(struct kn_q8_panel) == 16 * 34, "same bytes as GGUF Q8_0");
_Static_assert(sizeof(struct kn_q4a_panel) == 16 * 20, "same bytes as GGUF Q4_1");
_Static_assert(sizeof(struct kn_q5a_panel) == 16 * 24, "same bytes as GGUF Q5_1");
_Static_assert(sizeof(struct kn_q6_panel) == 16 * 28, "7 bits a weight");

struct kn_weight {
    enum kn_type type;
    int n_out, n_in; /* n_in is a multiple of kn_columns(type) */
    const void *data;
    const void *scales; /* in the layout of a GPU, whose panels have none; else NULL */
    /* [matrices of a stack] factors of their products, which callers apply, not kernels; NULL: 1 */
    const float *factors;
};

/* Whether the matrix is stored as panels of integers, computed with quantized activations. */
static inline int kn_is_quantized(enum kn_type type)
{
    return type >= KN_Q4;
}

/* Columns of a panel; 1 for float weights. */
static inline int kn_columns(enum kn_type type)
{
    return type >= KN_IQ4S ? KN_SUPER : kn_is_quantized(type) ? KN_GROUP : 1;
}

/* Bytes of a panel of a quantized matrix; of a matrix in the layout above. */
__attribute__((always_inline)) static inline size_t kn_panel_bytes(enum kn_type type)
{
    switch (type) {
    case KN_Q4:
    case KN_IQ4: return sizeof(struct kn_q4_panel);
    case KN_Q8: return sizeof(struct kn_q8_panel);
    case KN_Q4A: return sizeof(struct kn_q4a_panel);
    case KN_Q5A: return sizeof(struct kn_q5a_panel);
    case KN_Q6: return sizeof(struct kn_q6_panel);
    case KN_MX4: return sizeof(struct kn_mx4_panel);
    case KN_NV4: return sizeof(struct kn_nv4_panel);
    case KN_IQ4S:
    case KN_IQ3X:
    case KN_IQ3S: return sizeof(struct kn_iq4s_panel);
    case KN_Q4S: return sizeof(struct kn_q4s_panel);
    case KN_Q3S:
    case KN_IQ2:
    case KN_IQ1: return sizeof(struct kn_q3s_panel);
    case KN_Q2S: return sizeof(struct kn_q2s_panel);
    default: return 0;
    }
}
size_t kn_weight_bytes(enum kn_type type, int n_out, int n_in);

/* Rows [row0, row1) as a separate matrix. row0 is a multiple of KN_PANEL if w is quantized. */
struct kn_weight kn_weight_rows(const struct kn_weight *w, int row0, int row1);

/* Unpacks row r of a matrix to n_in floats: for the embedding. */
void kn_row(float *out, const struct kn_weight *w, int r);

/* ---- activations ---------------------------------------------------------------------------- */

/* n_tok rows of n_in numbers: as floats and, for quantized weights, as int8 with one scale per 32
 * (x ~ d * q, q in -127..127) and the sum of each 32 q, which corrects for the weights' offset. */
struct kn_act {
    int n_in;
    const float *x; /* [n_tok][n_in] */
    int8_t *q;      /* [n_tok][n_in] */
    float *d;       /* [n_tok][n_in / 32] */
    int32_t *sum;   /* [n_tok][n_in / 32] */
};

/* ---- cache units ---------------------------------------------------------------------------- */

#define KN_TILE         64  /* slots of an attention tile; each call begins at a multiple of it */
#define KN_HEAD_DIM_MAX 576 /* attention keeps a tile of keys and values on the stack */

enum kn_kv {
    KN_KV_F16,
    KN_KV_F32, /* exact, for comparisons */
    KN_KV_Q8,  /* per 32: half d, int8 q[32];           x = d * q      (34 bytes, as GGUF Q8_0) */
    KN_KV_Q4,  /* per 32: nibbles[16], half d, whose last 7 bits are z;  x = d * (q - z / 8)  (18
                  bytes; low nibble of byte j = element j, high nibble = element j + 16) */
    KN_KV_S4,  /* keys less their centre, packed as Q4 */
    KN_KV_Q5,  /* per 32: nibbles[16], bits 4 of q[4], half d;  x = d * (q - 16)  (22 bytes) */
    KN_KV_S5,  /* keys less their centre, packed as Q5 */
    KN_KV_TYPES,
    KN_KV_KEY = 15, /* of values that are the keys (struct model_latent): no bytes, no kernels */
};

/* Bytes of one key or value of head_dim numbers, a multiple of 4 (Q8, Q5 and Q4 with an odd number
 * of groups end in two zero bytes), and these types need head_dim % 32 == 0. Q4 and Q5 have the
 * nibbles of all groups first, then their bits 4, then their halves. Scales and halves that would
 * be infinite saturate at 65504. */
size_t kn_kv_bytes(enum kn_kv type, int head_dim);

/* Whether keys of this type are stored less their centre. */
static inline bool kn_kv_centred(enum kn_kv type)
{
    return type == KN_KV_S4 || type == KN_KV_S5;
}

/* What a KV head's keys of S4 and S5 are less of: number c of a key is mean[c] + scale[c] x, x as
 * stored. The key of position 0, to which most heads look when they look for nothing, differs from
 * all others: it is first[c] + scale[c] x. Measured by runtime/forward/centre.h. */
struct kn_centre {
    const float *mean, *scale, *first; /* [head_dim] */
    /* for fixed point, by kn_centre_words: words of mean and first - mean over `unit`, and of scale
     * over unit 2^10 (v16_attend_fixed.h); [head_dim / 2] dwords of two numbers, as in
     * kn_rope_places */
    const uint32_t *mean_words, *lift_words, *scale_words;
    float unit;
};
void kn_centre_words(struct kn_centre *c, uint32_t *out, int head_dim); /* [3][head_dim / 2] */

/* Undoes key_centre of the table. first: it is the key of position 0. */
void kn_key_restore(float *k, const struct kn_centre *c, bool first, int head_dim);

/* Rotary embedding, "rotate half": number i pairs with i + head_dim/2 and rotates by angle p *
 * freq[i]. The table holds every position that the cache can reach, with scaled frequencies. It
 * must be a pure rotation, cos^2 + sin^2 = 1, since kernels compose its rows: the square of an
 * attention factor (YaRN, LongRoPE) is part of kn_attend.scale. */
struct kn_rope {
    int n_pos;
    int head_dim;
    const float *cos; /* [n_pos][head_dim / 2] */
    const float *sin;
    const uint32_t *places; /* see kn_rope_places; read only for units of 4 and 5 bits */
};

/* ---- jobs ----------------------------------------------------------------------------------- */

/* y[t * y_stride + r] = sum_k W[r][k] x[t][k] for rows [row0, row1) and tokens [0, n_tok).
 * row0 is a multiple of KN_PANEL; row1 too, unless it is n_out. Float weights read x->x, quantized
 * weights read x->q, d, sum: int32 dot products per group of 32, scaled and added in float. */
struct kn_matmul {
    const struct kn_weight *w;
    const struct kn_act *x;
    int n_tok;
    int row0, row1;
    float *y;
    size_t y_stride;
};

/* Attention of n_tok consecutive tokens over the units of one KV head, for its n_group query heads
 * (grouped-query attention), fused: units are dequantized and keys rotated by their slot in
 * registers or in a tile on the stack; no dequantized data is written to memory. Units of 4 and 5
 * bits may be computed in 16-bit fixed point, see cpu/v16_attend_fixed.h.
 *
 * slot0 is a multiple of KN_TILE; head_dim is even and at most KN_HEAD_DIM_MAX. Token t is in slot
 * pos0 + t and attends to slots [slot0, min(slot1, pos0 + t + 1)), with a window only to the newest
 * `window` slots up to its own. Queries arrive unrotated and are rotated here by their slot. With a
 * window slot1 is a multiple of KN_TILE or beyond the last token, and bits stay the same if all
 * slots are moved by a multiple of KN_TILE.
 *
 * The result is a partial softmax over the slots of this call (struct kn_partial):
 *   m   = max of the scaled, capped logits   [n_tok][n_group]   (-inf if no slot is visible)
 *   l   = sum of exp(logit - m)              [n_tok][n_group]
 *   acc = sum of exp(logit - m) * value      [n_tok][n_group][head_dim] */
struct kn_attend {
    enum kn_kv k_type, v_type;
    int head_dim, n_group;
    const void *k; /* [slot][kn_kv_bytes(k_type)], before RoPE; rows are 4-byte aligned */
    const void *v; /* [slot][kn_kv_bytes(v_type)] */
    int slot0, slot1;
    int n_tok, pos0;
    const float *q; /* token t, group g: q + t * q_stride + g * head_dim */
    size_t q_stride;
    const struct kn_rope *rope;
    float scale;   /* usually 1 / sqrt(head_dim) */
    float softcap; /* above 0: logits become softcap * tanh(logit / softcap) */
    int window;    /* 0 = none */
    float *m, *l, *acc;
    const struct kn_centre *centre; /* of keys of S4 and S5 */
    bool first;                     /* slot 0 has the key of position 0 */
};

/* Retaining head (Locret, arXiv 2410.01805, eq. 3): out[t][h] = sum_j w2[h][j] * silu(W1[j] .
 * x[t]), x = [q, k, v] of the token before RoPE. The hidden layer is never written to memory. */
struct kn_score {
    const struct kn_weight *w1; /* [n_hidden][n_in] */
    const float *w2;            /* [n_head][n_hidden] */
    const struct kn_act *x;
    int n_tok; /* tokens [0, n_tok) of x */
    int n_head;
    float *out; /* [n_tok][n_head] */
};

/* ---- recurrent layers ------------------------------------------------------------------------ */

#define KN_TAPS_MAX    8
#define KN_KEY_DIM_MAX 256

/* Convolution of every channel over time, in place, for channels [c0, c1):
 *   y[t][c] = f(bias[c] + sum_j taps[j][c] x[t - n_taps + 1 + j][c]), f = silu or nothing.
 * Inputs before token 0 are the rows of `state`, which becomes the newest n_taps - 1 inputs. */
struct kn_convolve {
    int n_channel, n_taps, n_tok;
    int c0, c1;
    int silu;
    const float *taps; /* [n_taps][n_channel] */
    const float *bias; /* [n_channel], or NULL */
    float *state;      /* [n_taps - 1][n_channel], oldest first */
    float *x;          /* [n_tok][n_channel] */
};

/* The tokens of one head through its state S [key_dim][value_dim]. For each token, in order:
 *   S  = decay S
 *   S += k (rate v)^T, or, with the delta rule (arXiv 2412.06464), k (rate (v - S^T k))^T
 *   y  = S^T q + skip v
 * Columns of S are independent: a call computes [c0, c1), c0 a multiple of 16. */
struct kn_recur {
    int key_dim, value_dim, n_tok;
    int c0, c1;
    int delta;
    float skip;
    const float *q, *k, *v; /* token t at q + t * stride */
    size_t stride;
    const float *decay, *rate; /* token t at decay + t * rate_stride */
    size_t rate_stride;
    float *state; /* [key_dim][value_dim] */
    float *y;     /* token t at y + t * y_stride */
    size_t y_stride;
};

/* ---- the table ------------------------------------------------------------------------------ */

struct kernels {
    const char *isa; /* its name in kn_isa_list */

    void (*matmul[KN_TYPES])(const struct kn_matmul *job);
    void (*score)(const struct kn_score *job); /* w1 is KN_Q8 or KN_F32 */

    /* Computes q, d, sum of one token's n numbers (n % 32 == 0). d = max|x| / 127, rounded to
     * nearest even; a group of zeros has d = 0. */
    void (*quantize)(int8_t *q, float *d, int32_t *sum, const float *x, int n);

    /* y = x / sqrt(mean(x^2) + eps) * w; y may be x. */
    void (*rmsnorm)(float *y, const float *x, const float *w, int n, float eps);
    /* y = silu(gate) * up; y may be gate or up. */
    void (*silu_mul)(float *y, const float *gate, const float *up, int n);
    /* y = g sigmoid(1.702 g) (u + 1), g = min(gate, 7), u = up in -7..7 (gpt-oss); y may
     * be gate. */
    void (*silu_clamped_mul)(float *y, const float *gate, const float *up, int n);
    /* y = gelu(gate) * up, gelu(x) = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))); y may be
     * gate. */
    void (*gelu_mul)(float *y, const float *gate, const float *up, int n);
    /* y = x / (1 + e^-gate); y may be x. */
    void (*sigmoid_mul)(float *y, const float *gate, const float *x, int n);
    /* y = kept * y + share * x. */
    void (*mix)(float *y, const float *x, int n, float kept, float share);

    /* Packs one key or value of head_dim numbers. Q4: m is the least number or 0, d = (max - m) /
     * 15 with the largest number or 0; z = round(-8 m / d) clamped to 0..127, and of the halves
     * that end in z the one nearest to d is stored; q = round((x + z / 8 d) / d) clamped to 0..15.
     * Q5: with x the number farthest from 0, the positive one of two, d is -x / 16. */
    void (*kv_pack[KN_KV_TYPES])(void *dst, const float *x, int head_dim);
    /* Packs transformed values as Q4, of other d and m: KN_FITS times those with the least squared
     * error for the codes of the last ones. Sums add halves: x[i] + x[i + 16], of these x[i] + x[i
     * + 8], and so on. */
#define KN_FITS 3
    void (*pack_values)(void *dst, const float *x, int head_dim);
    /* A key to the numbers that are packed: less the mean, or less c->first if it is the key of
     * position 0 (first), over the scale, and within -KN_CENTRE_FAR..KN_CENTRE_FAR. */
#define KN_CENTRE_FAR 28.0f
    void (*key_centre)(float *k, const struct kn_centre *c, bool first, int head_dim);
    /* The Hadamard transform of each 32 of n numbers, which is its own inverse: values that are
     * kept beside such keys are packed so, and it is undone in the results of their attention. */
    void (*hadamard)(float *x, int n);
    void (*kv_unpack[KN_KV_TYPES])(float *dst, const void *src, int head_dim);

    void (*attend)(const struct kn_attend *job);

    void (*convolve)(const struct kn_convolve *job);
    void (*recur)(const struct kn_recur *job);
};

/* Partial softmaxes of rows, as attention computes them. A row is a token's query in one head.
 *   m, l: [rows]   acc: [rows][head_dim] */
struct kn_partial {
    float *m, *l, *acc;
};
/* Those from row `row` on. */
static inline struct kn_partial kn_partial_at(struct kn_partial p, int row, int head_dim)
{
    return (struct kn_partial){p.m + row, p.l + row, p.acc + (size_t)(row * head_dim)};
}
/* Adds those of later slots. */
void kn_attend_add(const struct kernels *k, struct kn_partial to, struct kn_partial part, int rows,
                   int head_dim);
/* out[row] = acc / l. With `sinks`, a logit per row without a value, e^(sink - m) is added to l.
 * Zeros where no slot was visible.   sinks: [rows], or NULL   out: [rows][head_dim] */
void kn_attend_finish(float *out, struct kn_partial p, const float *sinks, int rows, int head_dim);

/* Cosines, then sines, of the slots of a tile as columns of words over 32767, for fixed point:
 * [2][head_dim / 4][KN_TILE]. Dword r of a slot holds numbers i and i + 2 of a table's row, i = 16
 * (r / 8) + 4 (r % 8 / 2) + r % 2, the first in the low word. Slots from n_pos on are zero;
 * head_dim is a multiple of 32. */
#define KN_PLACES(head_dim) ((size_t)(head_dim) / 2 * KN_TILE)
void kn_rope_places(uint32_t *out, const struct kn_rope *rope);

/* Signs of differences between a key's numbers: similar keys have many of these bits in common
 * (SimHash, Charikar 2002; differences of two numbers make it independent of the key's length). Of
 * a key's last 2 h numbers x, the ones that RoPE rotates least, h = min(16, head_dim / 2):
 *   bit i = x[i % h] >= x[h + i % h],    i = 0..15
 * k: n keys as in kn_attend; out: [n]. */
void kn_key_signs(uint16_t *out, const void *k, enum kn_kv type, int head_dim, int n);

/* Packs row r of a quantized matrix into its panels (zeroed before the first row) from blocks of
 * its columns, one per group or super-group: GGUF's Q4_0 (18 bytes) for Q4, IQ4_NL (18) for IQ4,
 * Q8_0 (34) for Q8, Q4_1 (20) for Q4A, Q5_1 (24) for Q5A, MXFP4 (17) for MX4, and for the other
 * types these; nibbles as in GGUF's Q4_0: low ones first. Lossless. */
struct kn_q6_block {
    uint16_t d[2];       /* half scales of the first and the last 16 */
    uint8_t q[KN_GROUP]; /* 0..63, offset 32 */
};
struct kn_nv4_block {
    uint8_t d[2];
    uint8_t qs[16];
};
struct kn_iq4s_block {
    uint16_t d;
    int8_t scale[8];
    uint8_t qs[8][16];
};
struct kn_q4s_block {
    uint16_t d, m;
    uint8_t scale[8], min[8];
    uint8_t qs[8][16];
};
struct kn_q3s_block {
    uint16_t d;
    int8_t scale[16];
    uint8_t q[KN_SUPER]; /* 0..7 */
};
struct kn_q2s_block {
    uint16_t d, m;
    uint8_t scale[16];
    uint8_t q[KN_SUPER]; /* 0..3 */
};
void kn_pack(enum kn_type type, void *panels, int r, int n_in, const void *blocks);

/* Conversions, rounded to nearest even. */
uint16_t kn_half_from_float(float x);
float kn_float_from_half(uint16_t h);
union kn_bits {
    float x;
    uint32_t u;
};
static inline uint32_t kn_bits_from_float(float x)
{
    return (union kn_bits){.x = x}.u;
}
static inline float kn_float_from_bits(uint32_t u)
{
    return (union kn_bits){.u = u}.x;
}
static inline float kn_float_from_bf16(uint16_t b)
{
    return kn_float_from_bits((uint32_t)b << 16);
}

/* Names of the instruction sets that are both built in and supported by this CPU, best first, "ref"
 * last; NULL-terminated. */
const char *const *kn_isa_list(void);

/* The table for `isa` ("auto" or NULL = the best). NULL when this CPU does not support it. */
const struct kernels *kn_table(const char *isa);

#endif
