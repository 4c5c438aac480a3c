/* recurrent: reads the shape of a model's recurrent parts and binds their tensors by the names that
 * GGUF gives them. struct model_recurrent has their formulas. */
#ifndef RETAIN_RUNTIME_MODEL_RECURRENT_H
#define RETAIN_RUNTIME_MODEL_RECURRENT_H

#include "runtime/model/model.h"

/* Sets m->recurrent of a model whose parts are DELTA or SCAN from its metadata ARCH.ssm.*. */
int recurrent_shape(struct model *m, enum model_recurrence kind, struct err *e);

/* Makes the layers recurrent that have no KV heads in the metadata's list of them; the others have
 * attention. ERR_FORMAT when there is no such list. */
int recurrent_layers(struct model *m, struct err *e);

/* Binds the recurrent part of one layer. */
int recurrent_bind(struct model *m, int layer, struct err *e);

/* Numbers of the convolution's state and of S in one layer. */
static inline int recurrent_n_window(const struct model_recurrent_shape *s)
{
    return s->kind ? (s->n_taps - 1) * s->n_channel : 0;
}
static inline int recurrent_n_matrix(const struct model_recurrent_shape *s)
{
    return s->n_head * s->key_dim * s->head_dim;
}

/* Numbers of y, the input of `out`. */
static inline int recurrent_n_out(const struct model_recurrent_shape *s)
{
    return s->kind == MODEL_CONVOLUTION ? s->n_channel : s->n_head * s->head_dim;
}

#endif
