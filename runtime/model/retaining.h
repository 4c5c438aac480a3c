/* retaining: trained retaining heads. Per layer a small network that reads a token and predicts for
 * each KV head how much attention later tokens will give the unit: its causal importance score
 * (CIS; Locret, arXiv 2410.01805). A network has one of these forms, named in the file:
 *
 *   silu    W2 silu(W1 x), x = [q, k, v] before RoPE, in rotate-half order (Locret, and ours)
 *   gelu    W2 gelu(W1 x + b1) + b2, x = the normed input of attention (KVzap, arXiv 2601.07891)
 *   linear  W1 x + b1, the same x
 *   gate    log mean_g 1 / (1 + sum_s e^(base_s . q_g / sqrt(R) - k . q_g / sqrt(R) - b_g)),
 *           q_g and k = RMSNorms (epsilon 1e-6) of R rows each of W1 x + b1, the same x: the
 *           logarithm of the gate of Fast KVzip (arXiv 2601.17668), a logarithm like other labels
 *
 * The networks are in a GGUF file of their own, which names its model. Keys, "?" = optional:
 *
 *   general.type               "retaining-heads"
 *   general.author ?           who trained them
 *   retain.heads.base_digest   hex BLAKE2b-256 of the model file, and
 *   retain.heads.model_key     retaining_key of the model: one of the two is enough
 *   retain.heads.block_count, .input_length, .hidden_length (rows of W1), .head_count_kv
 *   retain.heads.activation    the form
 *   retain.heads.rank, .base_count   of a gate: R, and the number of base_s
 *   retain.heads.label ?       what the heads were trained to predict. "share": the logarithm of
 *                              the largest softmax weight that a query will give the unit (plus
 *                              a small constant); "logit": the largest logit
 *   retain.heads.label_mean, .label_std ?   [layer][kv]: label = score * std + mean
 *   retain.heads.budget, .stabilizers, .sinks, .chunk ?   recommended settings
 *   retain.heads.unit_length ? 2 * head size: each head is linear in its unit's own key and value,
 *                              with the numbers that W1's row 2 * head has for them
 *
 * Tensors: blk.N.retain_1.weight [hidden][input], Q8_0 or float, where N counts layers with
 * attention; blk.N.retain_2.weight [kv][hidden], and retain_1.bias, retain_2.bias,
 * retain_norm.weight, retain_base.weight if the form has them (retaining_part_shape): float. */
#ifndef RETAIN_RUNTIME_MODEL_RETAINING_H
#define RETAIN_RUNTIME_MODEL_RETAINING_H

#include "runtime/model/model.h"

enum retaining_form { RETAINING_SILU, RETAINING_GELU, RETAINING_LINEAR, RETAINING_GATE };
#define RETAINING_FORMS 4

enum retaining_part {
    RETAINING_W1,
    RETAINING_W2,
    RETAINING_BIAS1,
    RETAINING_BIAS2,
    RETAINING_NORMS,
    RETAINING_BASE,
    RETAINING_PARTS
};

struct retaining_shape {
    enum retaining_form form;
    int n_layer, n_in, n_hidden, n_head; /* n_hidden: rows of W1; n_head: KV heads */
    int n_rank, n_base;                  /* of a gate */
};

/* What those who trained the heads recommend; -1 = nothing. */
struct retaining_settings {
    int budget, stabilizers, sinks, chunk;
};
/* The i-th of them and its name; NULL past the last. */
int *retaining_setting(struct retaining_settings *s, int i, const char **name);

struct retaining_layer {
    struct kn_weight w1; /* [n_hidden][n_in]; silu: KN_Q8 or KN_F32 */
    /* [RETAINING_PARTS] as retaining_part_shape says; NULL = the form has none; W1 is in w1 */
    const float *part[RETAINING_PARTS];
};

struct retaining {
    struct gguf *file;
    struct retaining_shape shape;
    struct retaining_settings settings;
    char author[96];      /* "" = not known */
    char base_digest[65]; /* hex, as the next; "" = not in the file */
    char model_key[65];
    bool label_is_share;
    float *label_mean, *label_std; /* [n_layer * n_head]; NULL = not in the file */
    int n_unit;  /* 2 * head size: a score is `unit` . [key, value]; 0 = it needs more than these */
    float *unit; /* [n_layer * n_head][n_unit], after retaining_load */
    struct retaining_layer *layers;
    const struct gguf_tensor *(*tensors)[RETAINING_PARTS]; /* [n_layer]; NULL as in a layer */
};

const char *retaining_form_name(enum retaining_form form);
/* Whether the form reads the normed input of attention; otherwise it reads q, k, v. */
bool retaining_reads_hidden(enum retaining_form form);
int retaining_n_in(enum retaining_form form, const struct model *m);
/* Query heads per KV head, as a gate's matrix has them. */
int retaining_group(const struct retaining_shape *s);

/* Rows and columns of a part; false: the form has no such part. */
bool retaining_part_shape(const struct retaining_shape *s, enum retaining_part part, int *n_rows,
                          int *n_columns);
/* "blk.N.retain_1.weight" */
void retaining_part_name(char out[64], int layer, enum retaining_part part);

/* Takes ownership of `file`. ERR_FORMAT when it holds no heads. */
int retaining_open(struct retaining **out, struct gguf *file, struct err *e);
void retaining_close(struct retaining *h);

/* Names a model, whatever the types of its matrices: BLAKE2b-256, in hex, of its architecture, its
 * shapes and the weights of its norms, which every quantization leaves as they are. */
void retaining_key(const struct model *m, char out[65]);

/* ERR_FORMAT unless the heads were made for this model: its shapes, and its key, or else its file's
 * digest in hex (NULL = not known). */
int retaining_check(const struct retaining *h, const struct model *m, const char *digest,
                    struct err *e);

/* Whether scores are comparable across heads and layers, so that all heads may share one budget. */
static inline bool retaining_comparable(const struct retaining *h)
{
    return h->label_is_share && h->label_mean && h->label_std;
}

/* Whether they can score units that were read without heads (context_can_adopt). */
static inline bool retaining_can_adopt(const struct retaining *h, bool on_gpu)
{
    return h && h->n_unit && retaining_comparable(h) && !on_gpu;
}

void retaining_plan(struct retaining *h, struct arena *a); /* as model_plan */
void retaining_load(struct retaining *h); /* after retaining_plan on a backed arena */

#endif
