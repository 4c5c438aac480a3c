/* convert_parts: shared by the files convert*.c; internal to them.
 *
 *   convert.c            config.json and tensors of a folder, as a source
 *   convert_rows.c       tables of families and tensors
 *   convert_windows.c    the keys of layers with windows
 *   convert_recurrent.c  the numbers, keys, factors and order of heads of recurrent layers
 *   convert_gemma4.c     what differs by layer in Gemma 4
 *   convert_experts.c    the numbers and keys of layers with experts, and their stacks
 *   convert_latent.c     the numbers, keys and heads of latent attention */
#ifndef RETAIN_QUANT_CONVERT_CONVERT_PARTS_H
#define RETAIN_QUANT_CONVERT_CONVERT_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quant/convert/json.h"
#include "quant/convert/source.h"

#define LAYERS_MAX 256 /* the runtime's limit */

enum {
    LLAMA = 1 << 0, /* and others that differ in settings only */
    QWEN2 = 1 << 1,
    QWEN3 = 1 << 2,
    PHI3 = 1 << 3,
    OLMO2 = 1 << 4,
    SMOLLM3 = 1 << 5,
    ERNIE4_5 = 1 << 6,
    SEED_OSS = 1 << 7,
    GLM4 = 1 << 8,
    ALL = (1 << 9) - 1,
    /* with latent attention */
    DEEPSEEK2 = 1 << 9,  /* and experts that a softmax chooses */
    DEEPSEEK3 = 1 << 10, /* and experts that sigmoids and a bias choose */
    MINICPM3 = 1 << 11,
    DEEPSEEKS = DEEPSEEK2 | DEEPSEEK3,
    LATENT = DEEPSEEKS | MINICPM3,
    /* with recurrent layers */
    QWEN35 = 1 << 12,
    LFM2 = 1 << 13,
    GRANITE_H = 1 << 14,
    FALCON_H1 = 1 << 23,
    NEMOTRON_H = 1 << 24,
    SCANS = GRANITE_H | FALCON_H1 | NEMOTRON_H, /* Mamba-2 */
    /* with windows; also OLMO2, if it is an OLMo 3 */
    GEMMA2 = 1 << 15,
    GEMMA3 = 1 << 16,
    EXAONE4 = 1 << 17,
    COHERE2 = 1 << 22,
    GPT_OSS = 1 << 25, /* and experts */
    GEMMA4 = 1 << 26,  /* some with experts */
    GEMMA = GEMMA2 | GEMMA3,
    WINDOWED = GEMMA | EXAONE4 | COHERE2 | GPT_OSS | GEMMA4,
    QWEN3NEXT = 1 << 27, /* and experts; QWEN35 and LFM2: some */
    DELTA = QWEN35 | QWEN3NEXT,
    HYBRID = DELTA | LFM2 | SCANS,
    /* with experts */
    MIXTRAL = 1 << 18,
    QWEN2MOE = 1 << 19,
    QWEN3MOE = 1 << 20,
    OLMOE = 1 << 21,
    GRANITEMOE = 1 << 28,
    GLM4MOE = 1 << 29,
    DOTS1 = 1 << 30,
    DENSE_FIRST = GLM4MOE | DOTS1 | DEEPSEEKS,
    EXPERTS = MIXTRAL | QWEN2MOE | QWEN3MOE | OLMOE | GRANITEMOE | DENSE_FIRST,
    NEXTN = GLM4MOE | DEEPSEEKS, /* with MTP layers after the others; DELTA: apart */
    EVERY = ALL | HYBRID | WINDOWED | EXPERTS | LATENT,
    KV_HEADS_BY_LAYER = LFM2 | GRANITE_H | NEMOTRON_H | GEMMA4,
    ALIKE = EVERY & ~(LFM2 | NEMOTRON_H), /* names of tensors as in most families */
    NORMS_BEFORE = (ALL & ~OLMO2) | EXPERTS | LATENT,
    /* biases of all matrices, if the config sets them */
    BIASES = LLAMA | SMOLLM3 | ERNIE4_5 | SEED_OSS,
    QKV_BIASES = BIASES | OLMO2 | QWEN2 | QWEN3 | GLM4 | QWEN2MOE | GPT_OSS | GLM4MOE,
    GATE_AND_UP = ALL & ~PHI3 & ~GLM4, /* two tensors */
    NORMS_PLUS_ONE = DELTA | GEMMA,    /* the folder has the weights of norms less one */
};

struct convert_family {
    const char *name; /* config.json's "architectures" */
    const char *arch; /* general.architecture */
    unsigned id;
    bool pairs;   /* GGUF has rows of Q and K in neighbouring-pair order, the folder does not */
    bool experts; /* always; Gemma 4 and Granite 4 H have them if the settings say so */
    /* The language model is one part of several: its settings are in text_config, and its tensors
     * have this before "language_model." in their names, NULL: it is the whole. */
    const char *part;
};

extern const struct convert_family convert_families[];
extern const size_t convert_n_families;

/* Sizes of a shape, by name. */
enum dim {
    ONE,
    VOCAB,
    EMBD,
    Q,
    Q2,
    KV,
    QKV,
    FF,
    FF2,
    HEAD,
    Q_HEADS,
    EMBD2,
    /* of latent attention: the rows' numbers before they rotate, those between input and queries,
     * the queries of all heads, the keys and values of all heads */
    RANK,
    Q_RANK,
    QUERIES,
    KEYS_VALUES,
    /* of Gemma 4's inputs per layer: one, those of all layers */
    INPUT,
    INPUTS,
    /* of recurrent layers: the convolution's, all heads, their number, one, a projection to all */
    TAPS,
    CHANNELS,
    VALUES,
    HEADS,
    VALUE,
    IN,
    EMBD3,
    MIXED,  /* queries, keys, values and gates of all heads */
    HEADS2, /* two numbers for each head */
    /* of layers with experts: their number, the width of one, of the shared ones */
    N_EXPERTS,
    EXPERT_FF,
    EXPERT_FF2,
    SHARED_FF,
    SHARED_FF2,
    DIMS
};

/* The layers that have a tensor: DENSE, SPARSE: those without and with experts, of families that
 * have no other feed-forward in the latter; MTP: those after the last, which propose tokens. */
enum layers { NO_LAYER, LAYERS, ATTENTION, RECURRENT, FEED_FORWARD, DENSE, SPARSE, MTP };
/* The part of a tensor that is meant; of MIXED rows the heads' queries, keys and values, or
 * gates. */
enum half { WHOLE, FIRST, SECOND, QUERIES_KEYS_VALUES, GATES };
/* One tensor with a matrix or vector for each expert. Its rows may be the first or second half of
 * the folder's, or its columns, and of these every second, from the first or the second on. */
enum stacked {
    NOT_STACKED,
    STACKED,
    STACKED_FIRST,
    STACKED_SECOND,
    STACKED_COLUMNS,
    STACKED_EVEN,
    STACKED_ODD
};
/* Heads of a tensor that GGUF has in tiles (convert_tiles): all, those after the keys, the columns.
 */
enum tiled { NOT_TILED, TILED, TILED_VALUES, TILED_COLUMNS };

/* Tensor names: those of a layer follow "model.layers.N." and "blk.N.". A row with n_in = ONE is a
 * vector; a model with a size of 0 does not have the tensor. A * stands for the number of an
 * expert: GGUF has a stack of all. */
struct convert_row {
    const char *hf, *gguf;
    enum dim n_out, n_in;
    enum layers layers;
    unsigned needed, optional; /* bits of families that have it, that may have it */
    enum source_change change;
    enum tiled tiled;
    enum half half;
    enum stacked stacked;
    bool column; /* a vector that GGUF has as a matrix with one column */
};

extern const struct convert_row convert_rows[];
extern const size_t convert_n_rows;

struct converter {
    struct source *s;
    cJSON *root;                /* config.json */
    const cJSON *config;        /* the language model's settings in it */
    const cJSON *rope;          /* rope_parameters or rope_scaling, or NULL */
    const cJSON *rope_windowed; /* that of layers with windows, or NULL: as rope */
    char config_path[1024];
    const struct convert_family *family;
    int n_layer, n_head, n_kv_head, head_dim, n_ctx;
    int n_mtp;                /* layers of the folder after the last */
    struct latent_config {    /* of latent attention, where head_dim numbers rotate */
        int n_plain, n_value; /* of a head: the other numbers of a key, those of a value */
    } latent;
    struct windowed_config {
        bool layers[LAYERS_MAX];   /* which have windows */
        int n_kv_head, head_dim;   /* of these layers; from here on only of Gemma 4 */
        int n_shared;              /* the last layers, which have no keys and values */
        bool doubles_feed_forward; /* in those */
    } windowed;
    struct recurrent_config {          /* of a hybrid family */
        enum layers kinds[LAYERS_MAX]; /* the part that each layer has; LAYERS: every one */
        int n_taps, n_key, n_value, key_dim, value_dim;
    } recurrent;
    struct experts_config {
        int n_used;
        int n_dense;     /* the first layers, without experts; all layers in a model without */
        bool normalized; /* their weights are divided by their sum */
        bool stacked;    /* the folder has one tensor of all */
    } experts;
    int64_t dims[DIMS];
    bool tied;
};

/* A number from 1 to max of the model's settings; _or: the value, or `otherwise` when it is absent
 * or null. */
int convert_int(const struct converter *c, const char *name, int max, int *out, struct err *e);
int convert_int_or(const struct converter *c, const char *name, int max, int otherwise, int *out,
                   struct err *e);

/* Adds the key ARCH.suffix. */
void convert_u32(struct converter *c, const char *suffix, int64_t v);
void convert_f32(struct converter *c, const char *suffix, double v);
void convert_bool(struct converter *c, const char *suffix, bool v);
void convert_bools(struct converter *c, const char *suffix, const bool *v, int n);
void convert_i32s(struct converter *c, const char *suffix, const int32_t *v, int n);

/* For families with recurrent layers: which layers and how large, after the other sizes are known;
 * the keys. */
int convert_recurrent(struct converter *c, struct err *e);
void convert_recurrent_keys(struct converter *c);

/* For families with latent attention: the sizes, after the others; the keys; the part of each
 * head's rows that makes its keys, transposed, or its values. */
int convert_latent(struct converter *c, struct err *e);
void convert_latent_keys(struct converter *c);
void convert_latent_heads(const struct converter *c, enum half half, struct source_tensor *t);

/* For families with windows: the layers that have one, if config.json lists them (a list that GGUF
 * cannot express is refused); the keys. */
int convert_windows(struct converter *c, struct err *e);
void convert_windows_keys(struct converter *c);

/* Of Gemma 4: what differs by layer; the keys; the shapes of a layer's tensors. */
int convert_gemma4(struct converter *c, struct err *e);
void convert_gemma4_keys(struct converter *c);
void convert_gemma4_layer(struct converter *c, int layer);

/* A stack of experts: the folder's one tensor, or MXFP4 as two. */
int convert_stack(struct converter *c, const struct convert_row *r, const char *own,
                  const char *gguf, struct err *e);

/* For families with experts: their numbers; the keys. */
bool convert_has_experts(const struct converter *c);
int convert_experts(struct converter *c, struct err *e);
void convert_experts_keys(struct converter *c);

/* Whether a tensor of a layer has the row's name. */
bool convert_is_named(const struct converter *c, const struct convert_row *r, const char *name);

/* What the rows of a tensor are multiplied by: members of the settings. */
int convert_factors(struct converter *c, struct source_tensor *t, struct err *e);

/* The order of a tensor's heads. */
void convert_tiles(struct converter *c, const struct convert_row *r, struct source_tensor *t);

/* Takes one part of MIXED rows. */
void convert_mixed(struct converter *c, const struct convert_row *r, struct source_tensor *t);

#endif
