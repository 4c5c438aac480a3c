/* args: the arguments of each device kernel, for the kernels and for the code that launches them. C
 * and CUDA.
 *
 * One struct per op family, passed by value. All pointers are device memory, 16-byte aligned unless
 * said otherwise. Numbers that change from token to token (lengths of heads, positions) are read
 * from device memory, so that a captured graph stays valid.
 *
 * Formats: cache units as in kernels.h (keys before RoPE); weights and activations as below, in the
 * order in which matrix fragments are read. */
#ifndef RETAIN_KERNELS_CUDA_ARGS_H
#define RETAIN_KERNELS_CUDA_ARGS_H

#include <stdint.h>

/* ---- the cache's memory ---------------------------------------------------------------------- */

/* Format of units: bytes as in kernels.h, KN_KV_Q4 and so on. If keys are S4 or S5, values are
 * transformed (hadamard in kernels.h) and then packed; merging attention's pieces undoes this. */
enum cuda_kv { CUDA_KV_Q4, CUDA_KV_Q8, CUDA_KV_F16, CUDA_KV_Q5, CUDA_KV_S4, CUDA_KV_S5 };
#define CUDA_KV_CENTRED(type) ((type) >= CUDA_KV_S4)

#define CUDA_FITS 3 /* KN_FITS of kernels.h */

/* Heads, of a layer or of all layers in sequence. All take pages of one pool, so that they can
 * share a budget without moving units for another head: slot s of head h is unit pages[h * n_pages
 * + s / 64] * 64 + s % 64 of the pool. */
#define CUDA_TILE 64 /* slots of a page, and of one attention tile */
struct cuda_cache {
    uint8_t *k, *v; /* [pages * 64][k_bytes], [v_bytes] */
    uint32_t *pos;  /* [pages * 64] */
    float *score;
    const int32_t *pages; /* [n_head][n_pages] */
    int n_pages;
    int32_t *len; /* [n_head] units, without those being added */
    int n_head, head_dim;
    int k_bytes, v_bytes; /* of a unit; v_bytes 0: the values are the rotated keys */
    enum cuda_kv k_type, v_type;
    const float *centres; /* of keys of S4, S5: [n_head][3][head_dim], the first three numbers of
                             struct kn_centre */
};

/* Shared memory that a block may have on sm_86, 89 and 120; others have more. Beyond 48 KB the host
 * asks for it, kernel by kernel. */
#define CUDA_SHARED_MAX (99 * 1024)

/* ---- activations ----------------------------------------------------------------------------- */

/* int8 in groups of 32 with one scale each, as struct kn_act; blocks hold two groups, with bytes in
 * the order of mma m16n8k32's B fragments, so that a lane reads 16 bytes for both groups:
 *   byte (t, group, half, i) = 16t + 8 group + 4 half + i  is column  32 group + 16 half + 4t + i.
 * An odd last group is followed by a group of zeros. */
#define CUDA_BLOCK 64 /* columns of a block: two groups */

struct cuda_scale {
    float d;   /* x ~ d * q */
    float sum; /* of the group's 32 d * q */
};

struct cuda_act {
    int8_t *q;                /* [n_tok][n_block][64] */
    struct cuda_scale *scale; /* [n_tok][n_block][2] */
};

/* x = rmsnorm(x) * w (w NULL: x unchanged), quantized; also as floats when y is not NULL.
 * grid: n_tok. */
#define CUDA_NORM_THREADS 256
struct cuda_norm {
    const float *x; /* token t at x + t * x_stride */
    int64_t x_stride;
    const float *w; /* [n] or NULL */
    int n;          /* a multiple of 32 */
    float eps;
    struct cuda_act act;
    float *y;           /* [n_tok][n] or NULL */
    const int32_t *row; /* where in act the first token's row is, or NULL: row 0 */
};

/* y = scale * rmsnorm(x) * w, or added to y when `add`; y may be x. grid: n_tok; threads as
 * cuda_norm, shared 32 bytes. */
struct cuda_norm_rows {
    const float *x; /* token t at x + t * x_stride */
    int64_t x_stride;
    const float *w; /* [n] */
    int n;
    float eps, scale;
    int add;
    float *y;
    int64_t y_stride;
};

/* Operations of some families on q, k and v before RoPE, in place: RMSNorm of every head, without
 * weights of values, and (q only) the unrotated pairs, from n_pairs on, times `still`, and the
 * query at slot p times 1 + growth ln(1 + p / n_ctx_orig). grid: n_tok, n_head + n_kv_head, or
 * n_head + 2 n_kv_head if values are normed; 32 threads. */
struct cuda_heads {
    float *qkv; /* token t at qkv + t * stride: n_head queries, n_kv_head keys, values */
    int64_t stride;
    int n_head, n_kv_head, head_dim;
    const float *q_norm, *k_norm; /* [head_dim] or NULL */
    float eps;
    int n_pairs; /* head_dim / 2 when all pairs are rotated */
    float still;
    float growth; /* 0 = none; the others are then not read */
    int n_ctx_orig, n_group;
    const int32_t *len; /* [n_kv_head] slot of the first token */
};

/* The function between gate, up and down, in the order of enum model_activation. A squared ReLU is
 * CUDA_RELU with up = gate. */
enum cuda_activation { CUDA_SILU, CUDA_SILU_CLAMPED, CUDA_GELU, CUDA_RELU };

/* act = quantized f(gate) * up. grid: n_tok, ceil(n / 1024). Threads as in cuda_norm. */
struct cuda_gate {
    const float *gate, *up; /* [n_tok][n] */
    int n;
    struct cuda_act act;
    enum cuda_activation f;
};

/* y = f(gate) * up, of floats: y may be gate. grid: n_row; threads as in cuda_norm. */
struct cuda_gate_rows {
    const float *gate, *up; /* row i at + i * stride */
    int64_t gate_stride, up_stride;
    int n;
    enum cuda_activation f;
    float *y; /* as gate */
};

/* ---- weights --------------------------------------------------------------------------------- */

/* [ceil(n_out / 16)] panels of [n_block] tiles of 16 rows x 64 columns, each tile the A fragments
 * of mma m16n8k32: 16 bytes (Q8: 32) for each of 32 lanes, lane = 4g + t. With rows g and g + 8 and
 * the two groups of 32 columns:
 *   Q4: word 2 group + (row >= 8): low nibble of byte i is column 4t + i of the group, high nibble
 *       column 16 + 4t + i, two's complement
 *   Q8: word 4 group + 2 half + (row >= 8): byte i is column 16 half + 4t + i; groups are 16 bytes,
 *       [group][lane][4 words], so that loads of 16 bytes stay next to each other
 *   Q4A, Q5A, Q6: low nibbles as in Q4, without offset (Q6: 32), then the words with the high bits:
 *   Q5A: [g][group][row >= 8]: bits t and t + 4 of byte i are bit 4 of columns 4t + i, 16 + 4t + i
 *   MX4: as Q4, the codes of 4-bit floats
 *   Q6:  [g][group][row >= 8][half]: bits 2t, 2t + 1 of byte i are bits 4, 5 of 16 half + 4t + i
 * Scales: [panel][block][g][group][row >= 8], a half; Q4A and Q5A {d, m} (w = d q + m), Q6 one for
 * each half of the group, MX4 the upper half of a float. Entries beyond n_out or n_in are zero.
 * Same size as the CPU's panels (kernels.h), from which pack.h makes them. */
struct cuda_weight {
    const void *q;
    const uint16_t *d;
    int n_out, n_in;
};

enum cuda_format { CUDA_Q4, CUDA_Q8, CUDA_MX4, CUDA_Q4A, CUDA_Q5A, CUDA_Q6 };

/* Bytes of a tile's quants and of its scales. */
#define CUDA_TILE_BYTES(format) \
    ((format) == CUDA_Q8 ? 1024 : (format) == CUDA_Q5A ? 640 : (format) == CUDA_Q6 ? 768 : 512)
#define CUDA_TILE_SCALE_BYTES(format) ((format) <= CUDA_MX4 ? 64 : 128)

/* One token's input, computed by its readers: every block norms and quantizes x for itself, which
 * saves a launch. Gives the same int8 as norm_quantize. */
struct cuda_input {
    const float *x; /* [n_in], or NULL: the input is ready */
    const float *w; /* weights of the norm, or NULL: x unchanged */
    float eps;
};

/* y = scale * (W x + bias), added to y when `add`. 1 to 8 tokens.
 * grid: ceil(n_out / 16). shared: CUDA_MATVEC_SHARED, or _MADE(n_in) if the input is to be
 * computed; of more than one token CUDA_MATVEC_SUMS. */
#define CUDA_MATVEC_THREADS 256
#define CUDA_MATVEC_TOKENS  8
#define CUDA_MATVEC_SUMS    4096
#define CUDA_MATVEC_RING    (8 * 9216) /* weights that are being read, of one token */
#define CUDA_MATVEC_SHARED  (CUDA_MATVEC_SUMS + CUDA_MATVEC_RING)
#define CUDA_MATVEC_SHARED_MADE(n_in) \
    (CUDA_MATVEC_SHARED + (size_t)(((n_in) + CUDA_BLOCK - 1) / CUDA_BLOCK) * (CUDA_BLOCK + 16))
struct cuda_matvec {
    struct cuda_weight w;
    struct cuda_act x;
    int n_tok;
    const float *bias; /* [n_out] or NULL */
    float scale;
    int add;
    float *y; /* token t at y + t * y_stride */
    int64_t y_stride;
    struct cuda_input made;
};

/* act = quantized f(G x + gate_bias) * (U x + up_bias): both matrices, the gate and the
 * quantization of the next matrix's input in one launch. n_out is a multiple of 32.
 * grid: n_out / 32. shared as in cuda_matvec. */
struct cuda_matvec_gate {
    struct cuda_weight gate, up;
    struct cuda_act x;
    int n_tok;
    const float *gate_bias, *up_bias; /* or NULL */
    struct cuda_act act;              /* of n_out columns */
    struct cuda_input made;
    enum cuda_activation f;
};

/* Up to CUDA_CHAIN_MAX of both, one after the other, in one launch with the same bits. All blocks
 * must run at one time (a cooperative launch): at most CUDA_CHAIN_BLOCKS per processor, as many as
 * a step has at most. shared: the most that a step takes. */
#define CUDA_CHAIN_MAX    8
#define CUDA_CHAIN_BLOCKS 2
struct cuda_chain_step {
    enum cuda_format format;
    int gates; /* gate, or product */
    int waits; /* for the end of the step before; not in the first */
    union {
        struct cuda_matvec product;
        struct cuda_matvec_gate gate;
    };
};
struct cuda_chain {
    struct cuda_chain_step steps[CUDA_CHAIN_MAX];
    int n;
    uint32_t *ended; /* 0: how often a block has ended a step */
};

/* Same sum as cuda_matvec for any number of tokens.
 * grid: ceil(n_out / CUDA_MATMUL_ROWS), ceil(n_tok / CUDA_MATMUL_TOKENS). */
#define CUDA_MATMUL_THREADS 128
#define CUDA_MATMUL_ROWS    128
#define CUDA_MATMUL_TOKENS  64
#define CUDA_MATMUL_STAGES  4
#define CUDA_MATMUL_SHARED  (CUDA_MATMUL_STAGES * CUDA_MATMUL_TOKENS * (CUDA_BLOCK + 16))

/* Retaining head: part[b][t][h] = sum over the 128 hidden rows j of block b of w2[h][j] *
 * silu(W1[j] . x[t]); then score_sum adds the parts in order.
 * score: grid as in matmul with n_out = n_hidden; shared CUDA_SCORE_SHARED. */
#define CUDA_SCORE_SHARED ((CUDA_MATMUL_TOKENS + 1) * CUDA_MATMUL_ROWS * 4)
struct cuda_score {
    struct cuda_weight w1; /* [n_hidden][n_in], Q8 */
    const float *w2;       /* [n_head][n_hidden] */
    struct cuda_act x;
    int n_tok, n_head;
    float *part; /* [ceil(n_hidden / 128)][n_tok][n_head] */
};

/* Adds the parts and stores the scores in slots from len + first on: those that kv_append is about
 * to fill or has filled (0), or the newest (-n_tok). grid: ceil(n_tok * n_head / 128), 128
 * threads. */
struct cuda_score_sum {
    const float *part;
    int n_part, n_tok, first;
    struct cuda_cache cache;
    float *copy; /* [n_head][n_tok], for the host, or NULL */
};

/* x[t] = scale * row ids[t] of the matrix. grid: n_tok, 128 threads. */
struct cuda_embed {
    struct cuda_weight w;
    const int32_t *ids; /* [n_tok] */
    float scale;
    float *x; /* [n_tok][n_in] */
};

/* ---- float weights --------------------------------------------------------------------------- */

/* y = scale * (W x + bias), added to y when `add`; W row-major f32, f16 or bf16, x floats, sums in
 * float. n_in is a multiple of 8.
 * matvec: 1 to 8 tokens, grid: ceil(n_out / 8). matmul: grid: ceil(n_out / 128), ceil(n_tok / 128);
 * shared CUDA_FLOATS_SHARED. */
#define CUDA_FLOATS_THREADS 256
#define CUDA_FLOATS_TILE    128 /* rows, and tokens, of a block of matmul */
#define CUDA_FLOATS_DEPTH   32  /* columns of a step of it */
#define CUDA_FLOATS_STAGES  3   /* of weights of 16 bits; of 32, two */
#define CUDA_FLOATS_SHARED \
    (CUDA_FLOATS_STAGES * CUDA_FLOATS_TILE * (CUDA_FLOATS_DEPTH + 8) * (size_t)6)
struct cuda_floats {
    const void *w;
    int n_out, n_in;
    const float *x; /* token t at x + t * x_stride */
    int64_t x_stride;
    int n_tok;
    const float *bias;
    float scale;
    int add;
    float *y;
    int64_t y_stride;
};

/* ---- experts --------------------------------------------------------------------------------- */

/* The router's choice for each token, as struct model_experts says. grid: n_tok; 32 threads; shared
 * CUDA_CHOOSE_SHARED. */
#define CUDA_CHOOSE_SHARED(n) (3 * (size_t)(n) * sizeof(float))
struct cuda_choose {
    const float *logits; /* [n_tok][n] */
    int n, n_used, n_groups, n_groups_used;
    int sigmoid, normalized;
    float scale;
    const float *choice_bias;  /* [n] or NULL */
    const float *weight_scale; /* [n] or NULL */
    const float *x;           /* [n_tok][n_embd] the router's input, for the shared experts' gate */
    const float *shared_gate; /* [n_embd] or NULL */
    int n_embd;
    int32_t *chosen; /* [n_tok][n_used], by falling weight */
    float *weight;   /* as chosen */
    float *shared;   /* [n_tok] factors of the shared experts' output */
};

/* A few rows of one expert. */
struct cuda_expert_rows {
    int32_t expert, first, n;
};

/* Sorts the choices by expert: choice i is row place[i], row r reads token from[r]. The rows of an
 * expert are cut into tiles; at most min(n_choice, n_choice / tile + n). grid: 1; 256 threads;
 * shared CUDA_SORT_SHARED. */
#define CUDA_SORT_SHARED(n) (((size_t)(n) + 1) * sizeof(int32_t))
struct cuda_sort {
    const int32_t *chosen; /* [n_choice] */
    int n_choice, n_used, n, tile;
    int32_t *place, *from;
    struct cuda_expert_rows *tiles;
    int32_t *n_tiles;
};

/* y[r] = W_e x[r] + bias of the tiles' rows r and their experts e. `w` is a stack of matrices.
 * few: tiles of up to 8 rows, grid: ceil(n_out / 16), tiles; 128 threads; shared CUDA_FEW_SHARED.
 * many: up to 64, grid: ceil(n_out / 64), tiles; 128 threads. Weights of floats: any rows, grid:
 * ceil(n_out / 4), tiles; 128 threads.
 * Without tiles, the matrices are those of n_head heads, and n_tok tokens have a row of each: row
 * t * n_head + h. few then has n_head * ceil(n_tok / 8) tiles, many and floats have n_head *
 * ceil(n_tok / 64). */
#define CUDA_EXPERT_THREADS 128
#define CUDA_EXPERT_FEW     8
#define CUDA_EXPERT_MANY    64
#define CUDA_FEW_SHARED     (4 * 16 * CUDA_EXPERT_FEW * sizeof(float))
struct cuda_expert {
    struct cuda_weight w;
    int n_out;           /* of one expert */
    const float *bias;   /* [n][n_out] or NULL */
    struct cuda_act act; /* of quantized weights */
    const float *x;      /* of float weights, [.][n_in] */
    const int32_t *from; /* which of these row r reads; NULL: row r */
    const struct cuda_expert_rows *tiles;
    const int32_t *n_tiles;
    float *y; /* [n_choice][n_out] */
    int n_head, n_tok;
};

/* y[t] = scale * (shared[t] * base[t] + sum of weight[t][k] * row place[t][k], in order), added to
 * y when `add`; y may be base. grid: n_tok; 256 threads. */
struct cuda_combine {
    const float *rows;    /* [n_choice][n] */
    const int32_t *place; /* [n_tok][n_used] */
    const float *weight;
    const float *base, *shared; /* base [n_tok][n]: the shared experts' output, or NULL */
    int n, n_used, add;
    float scale;
    float *y; /* [n_tok][n] */
};

/* ---- recurrent layers ------------------------------------------------------------------------ */

/* The recurrent part of a layer, struct model_recurrent, after its matrices. One struct for the
 * kernels, in their order:
 *   recur_prepare   rates, or CONVOLUTION's product with the input's gate. grid: n_tok; 256 threads
 *   recur_convolve  in place, and the window of past inputs. grid: ceil(n_channel / 128); 128
 *   recur_unit      DELTA: queries and keys of length 1. grid: n_tok, 2 n_key_head; 32
 *   recur_heads     S and y. grid: n_head, ceil(head_dim / 32); 128; shared CUDA_RECUR_SHARED
 *   recur_finish    norm and gate of y. grid: n_tok; 256 */
enum cuda_recurrence { CUDA_DELTA = 1, CUDA_SCAN, CUDA_CONVOLUTION };

#define CUDA_RECUR_COLUMNS         32
#define CUDA_RECUR_TAPS_MAX        8
#define CUDA_RECUR_SHARED(key_dim) ((size_t)(key_dim) * (CUDA_RECUR_COLUMNS + 3) * sizeof(float))
struct cuda_recur {
    enum cuda_recurrence kind;
    int n_tok, n_channel, n_taps, n_key_head, n_head, key_dim, head_dim, tiled;
    float *in;                         /* [n_tok][n_channel] */
    const float *gate;                 /* [n_tok][n_out] */
    float *y;                          /* as gate; CONVOLUTION: first the input's gate */
    float *rate, *decay;               /* [n_tok][n_head] */
    const float *taps, *taps_bias;     /* [n_taps][n_channel], [n_channel] or NULL */
    const float *a, *step_bias, *skip; /* [n_head] */
    const float *norm;                 /* [head_dim], SCAN: [n_out] or NULL */
    float eps;
    float *window;   /* [n_taps - 1][n_channel] */
    float *matrices; /* [n_head][key_dim][head_dim] */
};

/* ---- rows ------------------------------------------------------------------------------------ */

/* x = scale * x, and, with softcap c, c tanh(x / c). grid: ceil(n / 1024); 256 threads. */
struct cuda_scale_rows {
    float *x;
    int64_t n;
    const float *by; /* [1] a further factor, or NULL */
    float scale, softcap;
};

/* Subtracts each row's mean. grid: rows; 256 threads; shared 32 bytes. */
struct cuda_centre_rows {
    float *x; /* [rows][n] */
    int n;
};

/* Inputs of all layers of a token: x = (norm(x) * w, of n numbers at a time, + scale * own) /
 * sqrt(2). grid: n_tok, n_layer; 32 threads. */
struct cuda_layer_inputs {
    float *x; /* [n_tok][n_layer * n] */
    const float *own;
    const float *w; /* [n] */
    int n, n_layer;
    float eps, scale;
};

/* Latent attention, struct model_latent: a row of a head has rank + n_rot numbers, half of the
 * rotated ones, half of the latent ones, the other halves. latent_join: a token's queries, key, and
 * the key again, from products, in which all rotated numbers are last, in pairs or in halves.
 * grid: n_tok, n_head + 1; 256 threads; shared 32 bytes. */
struct cuda_latent_join {
    const float *up; /* [n_tok][n_head][rank] */
    const float *q;  /* [n_tok][n_head][n_plain + n_rot], of which the last n_rot are read */
    const float *kv; /* [n_tok][rank + n_rot], the latent ones before their norm */
    const float *w;  /* [rank] */
    int n_head, rank, n_plain, n_rot, pairs;
    float eps;
    float *qkv; /* [n_tok][n_head + 2][rank + n_rot] */
};

/* latent_part: scale * the latent numbers of attention's rows. grid: rows; 256 threads. */
struct cuda_latent_part {
    const float *att; /* [rows][rank + n_rot] */
    int rank, n_rot;
    float scale;
    float *c; /* [rows][rank] */
};

/* ---- the cache ------------------------------------------------------------------------------- */

/* Packs keys and values of n_tok tokens after each head's units. Same bytes as kv_pack.
 * grid: n_tok, n_head; 128 threads. */
struct cuda_append {
    struct cuda_cache cache;
    const float *k, *v; /* token t, head h: + t * stride + h * head_dim */
    int64_t stride;
    const uint32_t *pos; /* position of the first token */
    const float *score;  /* [n_head][n_tok] scores that need no model, or NULL */
    int n_tok;
};

/* Copies slots [len - back, len - back + n) of every head to or from a staging buffer of the host;
 * slots below 0 are skipped. For head h, one after the other: n keys and n values (with `units`), n
 * positions and n scores (with `words`), at stage + h * n * (their bytes). grid: n_head; 256
 * threads. */
struct cuda_copy {
    struct cuda_cache cache;
    int back, n;
    int units, words, in;
    uint8_t *stage;
};

/* ---- attention ------------------------------------------------------------------------------- */

#define CUDA_ATTEND_COLS    8   /* query columns (token, group) of the decode kernel */
#define CUDA_ATTEND_ROWS    128 /* query rows (token, group) of a chunk kernel */
#define CUDA_ATTEND_THREADS 128
/* Blocks of attend_decode and attend_one that a processor runs at one time. */
#define CUDA_ATTEND_BLOCKS(dim) ((dim) > 64 ? 3 : 4)
#define CUDA_CHUNK_THREADS      256

/* Units of some heads of a layer, from head0 on, as chunks read them, in scratch. */
struct cuda_expanded {
    void *k;        /* [heads][n_tile * 64][head_dim], rotated: halves or int8 */
    uint16_t *v;    /* the same, halves */
    float *k_scale; /* [heads][n_tile], of int8 */
    int n_tile, head0;
};

/* Fills it: expand_f16, or expand_mean and then expand_int8, which takes the mean off the keys.
 * grid: n_tile, heads (expand_mean: all heads of the layer); CUDA_ATTEND_THREADS; shared
 * CUDA_EXPAND_SHARED. */
#define CUDA_EXPAND_SHARED (CUDA_ATTEND_THREADS * 8 * 4)
struct cuda_expand {
    struct cuda_cache cache;
    const float *cos, *sin; /* [n_pos][head_dim / 2] */
    int n_tok;              /* units beyond len */
    struct cuda_expanded to;
    float *mean; /* [n_head][head_dim] */
};

/* Causal attention of the newest n_tok tokens (already appended: they are units len .. len + n_tok
 * of their head) for the n_group query heads of each KV head. Token t of head h is in slot len[h] +
 * t. Queries arrive unrotated. Partial softmax in base 2:
 *   m = max of logit * log2(e), l = sum 2^(logit * log2(e) - m), acc = sum 2^(...) v
 * rows: column = t * n_group + group.
 * decode: n_tok * n_group <= 8, keys of S5, values of Q4; grid: n_split, n_head. The blocks share
 * the tiles of all heads evenly: a head's results are in as many rows as it has pieces, after those
 * of the heads before it, not in n_split. chunk:  grid: ceil(n_tok * n_group / CUDA_ATTEND_ROWS),
 * heads, n_split; CUDA_CHUNK_THREADS; shared CUDA_CHUNK_SHARED; the units expanded before. */
struct cuda_attend {
    struct cuda_cache cache;
    const float *q; /* token t, KV head h, group g: + t * q_stride + (h * n_group + g) * head_dim */
    int64_t q_stride;
    const float *cos, *sin; /* [n_pos][head_dim / 2] */
    int n_tok, n_group, n_split;
    float scale;
    float *m, *l;               /* [n_head][n_split][n_tok * n_group] */
    float *acc;                 /* [n_head][n_split][n_tok * n_group][head_dim] */
    struct cuda_expanded units; /* for chunks */
};

/* The input of a retaining head, which is kept to be scored later. */
struct cuda_kept {
    const float *x; /* [n], or NULL: nothing is kept */
    int n;
    struct cuda_act act;
    const int32_t *row;
};

/* attend_one: kv_append, attend_decode and attend_merge for one token in one launch. The block of
 * the last tile packs the new unit first; the last block of a head merges its splits. Same bits as
 * the three kernels. at.n_tok is 1; grid: n_split, n_head. Its blocks also keep kept.x as row *row
 * of kept.act. */
struct cuda_attend_one {
    struct cuda_attend at;
    const float *k, *v; /* of head h at + h * head_dim */
    const uint32_t *pos;
    const float *score; /* [n_head] or NULL */
    uint32_t *ticket;   /* [n_head] zeros */
    struct cuda_act act;
    struct cuda_kept kept;
};

/* m, l and acc of a split's row. */
#define CUDA_PARTIAL_FLOATS(dim) ((dim) + 2)

/* of S5 and Q4 */
#define CUDA_KEY_BYTES(dim)   (((dim) / 32 * 22 + 3) & ~3)
#define CUDA_VALUE_BYTES(dim) (((dim) / 32 * 18 + 3) & ~3)
#define CUDA_DECODE_SHARED(dim)                                            \
    ((2 * CUDA_TILE + 1) * (CUDA_KEY_BYTES(dim) + CUDA_VALUE_BYTES(dim)) + \
     2 * CUDA_ATTEND_COLS * ((dim)*2 + 32) + (dim)*6 +                     \
     ((dim) + 63) / 64 * CUDA_ATTEND_THREADS * 16)
/* key_bytes: 2 for halves, 1 for int8 */
#define CUDA_CHUNK_SHARED(dim, key_bytes) \
    (CUDA_TILE * (2 * ((dim) * (key_bytes) + 16) + 3 * ((dim)*2 + 16)))

/* Merges the splits in order, normalises, quantizes for the next matrix.
 * grid: ceil(n_tok * n_group / 4), n_head; 128 threads. */
struct cuda_merge {
    const float *m, *l, *acc;
    int n_split, n_tok, n_group, n_head, head_dim;
    struct cuda_act act; /* of n_head * n_group * head_dim columns */
    float *out;          /* [n_tok][n_head * n_group * head_dim] or NULL */
    const int32_t *len;  /* after attend_decode: the cache's, by which heads have their pieces */
    int transformed;     /* values were, as keys of S4 require */
};

/* The same attention for all other layers: head sizes that are multiples of 16, windows, capped
 * logits, any units, any number of tokens. Rotations are by slots counted from `base`, the first
 * slot of the first tile that a block sees, so that a window has the same bits wherever its units
 * are. grid: ceil(n_tok * n_group / CUDA_ANY_ROWS(max)), n_head, n_split; shared CUDA_ANY_SHARED.
 * The kernel attend_any_MAX is for heads of at most MAX numbers; that of 576 needs v_bytes 0. */
#define CUDA_HEAD_MAX      512
#define CUDA_LATENT_MAX    576
#define CUDA_ANY_ROWS(max) ((max) > 256 ? 16 : 32)
#define CUDA_ANY_FIXED(max, dim)                                                    \
    (CUDA_ANY_ROWS(max) * ((dim)*2 + 16 + CUDA_TILE * 2 + 16 + 4 * sizeof(float)) + \
     CUDA_TILE * ((dim)*2 + 16))
/* Whether there is room for a tile's keys and values of unit_bytes together. */
#define CUDA_ANY_COPIES(max, dim, unit_bytes) \
    (CUDA_ANY_FIXED(max, dim) + CUDA_TILE * (size_t)(unit_bytes) <= CUDA_SHARED_MAX)
#define CUDA_ANY_SHARED(max, dim, unit_bytes) \
    (CUDA_ANY_FIXED(max, dim) +               \
     (CUDA_ANY_COPIES(max, dim, unit_bytes) ? CUDA_TILE * (size_t)(unit_bytes) : 0))
struct cuda_attend_any {
    struct cuda_attend at;
    int window;    /* units that a token sees; 0 = all */
    float softcap; /* 0 = none */
};

/* Merges the splits in order and normalises; with sinks, a logit per query head more is in the
 * denominator; with gates, the result is multiplied by their sigmoid. grid: n_tok * n_group,
 * n_head; 128 threads. */
struct cuda_merge_any {
    const float *m, *l, *acc;
    int n_split, n_tok, n_group, n_head, head_dim;
    const float *sinks; /* [n_head * n_group] or NULL */
    const float *gate;  /* as out, or NULL */
    float *out;         /* [n_tok][n_head * n_group * head_dim] */
    int transformed;    /* as in cuda_merge */
};

/* ---- eviction -------------------------------------------------------------------------------- */

/* Eviction in steps, with the same survivors as runtime/cache/evict.c. 256 threads each; grid:
 * n_head where it is not given.
 *
 * key_sums and key_values: KeyDiff's value of every unit (score.c), stored in place of its key; the
 * former adds the keys of pieces. Heads of at most CUDA_VALUES_DIM numbers. grid of each: pieces of
 * the longest head, n_head. Shared: CUDA_VALUES_SHARED. */
#define CUDA_EVICT_THREADS 256
#define CUDA_VALUES_DIM    128
#define CUDA_PIECE         1024 /* slots of a head */
#define CUDA_VALUES_SHARED ((3 + CUDA_EVICT_THREADS / 32) * CUDA_VALUES_DIM * sizeof(float))
struct cuda_values {
    struct cuda_cache cache;
    float *value; /* [pages * 64] */
    float *part;  /* of key_sums: [n_head][ceil(n_pages * 64 / CUDA_PIECE)][CUDA_VALUES_DIM] */
};

/* near_duplicates: the (negative) penalty for near-duplicate units (score.c), stored in the same
 * place. Arguments: struct cuda_values. Shared: CUDA_NEAR_SHARED. */
#define CUDA_NEAR_SHARED 2048

/* Positions [from, end) of a turn whose units stay. */
struct cuda_pin {
    uint32_t from, end;
};

/* cache_rank: values become unsigned numbers in the same order; protected units and each head's
 * `safe` best get the highest key, units beyond its `most` best the lowest.
 * Shared: CUDA_RANK_SHARED. */
#define CUDA_RANK_SHARED 1024
struct cuda_rank {
    struct cuda_cache cache;
    int sinks, stabilizers;
    /* which values to use: the scores, the contents of `key`, or their sum */
    int scored, valued;
    const float *std, *mean;     /* score of head h times std[h] plus mean[h]; NULL: unchanged */
    float recency;               /* N / budget of evict.h: the least score by age; 0 = none */
    uint32_t n_pos;              /* position of the next token */
    int safe, most;              /* 0 = none, no limit */
    uint32_t *key;               /* [pages * 64] */
    const struct cuda_pin *pins; /* [n_pins] */
    int n_pins;
    uint32_t *total; /* of struct cuda_digits: becomes zeros */
};

/* cache_digits: groups of n_group heads each keep their best units, on ties those of the lower
 * head, then the older. Four launches find the four digits of 8 bits of the last key that stays:
 * one counts the keys with the digits known before by the next digit. Shared: CUDA_RANK_SHARED. */
#define CUDA_KEEP_ALL 0x7fffffff
struct cuda_digits {
    struct cuda_cache cache;
    const uint32_t *key;
    const int32_t *keep; /* [n_head] how many units of the head's group stay */
    int n_group, n_known;
    uint32_t *total; /* [4][n_head][256] counts of a group, at its first head */
    uint32_t *last;  /* [n_head][256] counts of a head, of the last digit */
};

/* cache_choose, after them: finds the units that stay. Shared: CUDA_RANK_SHARED.
 * cache_evict: closes the gaps in place. Shared: CUDA_EVICT_SHARED(unit bytes of k and v). */
#define CUDA_EVICT_BATCH              32
#define CUDA_EVICT_STAGES             3
#define CUDA_EVICT_SHARED(unit_bytes) (CUDA_EVICT_STAGES * CUDA_EVICT_BATCH * ((unit_bytes) + 8))
struct cuda_evict {
    struct cuda_digits digits;
    uint32_t *stays; /* [n_head][2 n_pages] a bit per slot before, of heads that do not keep all */
};

/* ---- training retaining heads ---------------------------------------------------------------- */

/* Rows of n_group heads of a token, rotated by its position. grid: rows; 64 threads. */
struct cuda_train_rotate {
    const float *x; /* token t at x + t * stride: n_group heads of dim numbers */
    int64_t stride;
    const int32_t *token; /* of rows n_group * i and following; NULL: token i */
    int n_group, dim;
    const float *cos, *sin; /* [position][dim / 2] */
    float *to;              /* [row][dim] */
};

/* Logits become scaled and capped ones; base: the logarithm of their softmax's sum, with a sink's
 * if there are any. grid: rows; 256 threads, shared CUDA_TRAIN_SHARED. */
#define CUDA_TRAIN_SHARED 64
struct cuda_train_rows {
    float *logits; /* row r at + r * stride: of slots up to the row's token */
    int64_t stride;
    const int32_t *token; /* [rows / n_group] */
    int n_group;
    const float *sinks;   /* [n_group] or NULL */
    float scale, softcap; /* softcap 0 = none */
    float *base;          /* [rows] */
};

/* label = the largest logit - base that a row gives the slot. grid: ceil(n_context / 128); 128
 * threads. */
struct cuda_train_columns {
    const float *logits;
    int64_t stride;
    const int32_t *token;
    int n_group, n_row, n_context, n_head;
    const float *base;
    int first;    /* labels do not count yet */
    float *label; /* of slot s at + s * n_head */
};

/* y = silu(x). grid: ceil(n / 256); 256 threads. */
struct cuda_train_silu {
    const float *x;
    int64_t n;
    float *y;
};

/* Loss and slopes of scores, as heads_net.h: labels become log(e^label + noise), less mean. grid:
 * ceil(n * n_head / 256); 256 threads, shared CUDA_TRAIN_SHARED. */
struct cuda_train_loss {
    const float *score, *label; /* [n][n_head] */
    const float *mean;          /* [n_head] */
    int n, n_head;
    float noise;
    float weight; /* of a term of the loss */
    float *slope; /* [n][n_head] */
    float *loss;  /* of each block */
};

/* to[c][t] of rows t and columns c: the number, its silu, or the slope of the loss in it: that of
 * the scores times W2, times silu's slope. grid: ceil(n_col / 32), ceil(n_pad / 32); 256 threads,
 * shared CUDA_TRANSPOSE_SHARED. */
#define CUDA_TRANSPOSE_SHARED (32 * 33 * sizeof(float))
enum cuda_transpose { CUDA_TRANSPOSE_COPY, CUDA_TRANSPOSE_SILU, CUDA_TRANSPOSE_SLOPE };
struct cuda_train_transpose {
    const float *x; /* row t at x + t * stride */
    int64_t stride;
    int n, n_col;
    int n_pad; /* columns of `to`; from n on zeros */
    enum cuda_transpose what;
    const float *slope, *w2; /* SLOPE: [n][n_head], [n_head][n_col] */
    int n_head;
    float *to;
};

/* AdamW. grid: ceil(n / 256); 256 threads. */
struct cuda_train_step {
    float *weight, *gradient, *first, *second; /* [n] */
    const float *pace;                         /* [n_in] factor of the rate in each column */
    int64_t n, n_first; /* of W1: the first n_first numbers, in rows of n_in */
    int n_in;
    float rate, clip, unbias1, unbias2;
};

/* ---- the next token -------------------------------------------------------------------------- */

/* id[t] = first of the largest logits; NaN is never larger. grid: n_tok; 1024 threads. */
struct cuda_argmax {
    const float *logits; /* token t at + t * n */
    int n;
    int32_t *id;
};

/* The k largest of each `part` logits, largest first, on ties the lower id first: the start of the
 * chain in runtime/token/sampler.c, so that only they are copied back. Of a large vocabulary the
 * largest of each part are found first, and then, with their ids, the largest of these. NaN and
 * -inf are left out: n_out may be less than k, and the other logits are then -inf.
 * grid: ceil(n / part); 1024 threads; shared CUDA_TOP_SHARED. */
#define CUDA_TOP_MAX    256
#define CUDA_TOP_PART   4096
#define CUDA_TOP_SHARED (1024 + CUDA_TOP_MAX * 8 + 32 * 4 + 16)
struct cuda_top {
    const float *logits;
    int n, k;       /* k at most CUDA_TOP_MAX */
    int32_t *id;    /* [parts][k] */
    float *logit;   /* as id */
    int32_t *n_out; /* [parts] */
    int part;
    const int32_t *ids; /* of the logits; NULL: 0, 1, 2, … */
};

#endif
