/* retaining: trained retaining heads (Locret, arXiv 2410.01805). Per layer a small network that
 * reads [q, k, v] of a token, before RoPE and in rotate-half order, and predicts for each KV head
 * how much attention later answers will give the unit: its causal importance score (CIS).
 *
 * Kept in a separate GGUF file, bound to one model by its digest:
 *   general.type = "retaining-heads"
 *   retain.heads.base_digest   hex BLAKE2b-256 of the model file
 *   retain.heads.{block_count, input_length, hidden_length, head_count_kv}, .activation = "silu"
 *   retain.heads.label = "share" or "logit": the training target, either the largest softmax weight
 *                        that a query will give the unit (and a little noise), as a logarithm, or
 *                        the largest logit; optional
 *   retain.heads.label_mean, .label_std [layer][kv]  label = score * std + mean; optional
 *   blk.N.retain_1.weight [hidden][input]  Q8_0 or float; N counts layers with attention
 *   blk.N.retain_2.weight [kv][hidden]     float */
#ifndef RETAIN_RUNTIME_MODEL_RETAINING_H
#define RETAIN_RUNTIME_MODEL_RETAINING_H

#include "runtime/model/model.h"

struct retaining_layer {
    struct kn_weight w1; /* [n_hidden][n_in], KN_Q8 or KN_F32 */
    const float *w2;     /* [n_kv_head][n_hidden] */
};

struct retaining {
    struct gguf *file;
    int n_layer, n_in, n_hidden, n_head;
    char base_digest[65]; /* hex */
    bool label_is_share;
    float *label_mean, *label_std; /* [n_layer * n_head]; NULL = not in the file */
    struct retaining_layer *layers;
    const struct gguf_tensor **tensors; /* [n_layer][2] */
};

/* Takes ownership of `file`. ERR_FORMAT when it holds no heads. */
int retaining_open(struct retaining **out, struct gguf *file, struct err *e);
void retaining_close(struct retaining *h);

/* ERR_FORMAT unless the heads were made for this model: its shapes, and its digest in hex (NULL =
 * not known). */
int retaining_check(const struct retaining *h, const struct model *m, const char *digest,
                    struct err *e);

/* Whether scores are comparable across heads and layers, so that all heads may share one budget. */
static inline bool retaining_comparable(const struct retaining *h)
{
    return h->label_is_share && h->label_mean && h->label_std;
}

void retaining_plan(struct retaining *h, struct arena *a); /* as model_plan */
void retaining_load(struct retaining *h); /* after retaining_plan on a backed arena */

#endif
