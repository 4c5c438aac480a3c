/* family: what the transformers of most families share, bound by the names that GGUF gives tensors.
 * A family's own file (family_*.c) says how it differs; nothing else in the program does.
 *
 * Optional parts are bound when the file has them: biases, an output matrix of its own. Q, K and V,
 * and gate and up, may be one fused tensor each: ranges of its rows are bound. */
#ifndef RETAIN_RUNTIME_MODEL_FAMILY_H
#define RETAIN_RUNTIME_MODEL_FAMILY_H

#include "runtime/model/model.h"

/* Everything of a plain transformer: embedding, layers, output. */
int family_bind(struct model *m, struct err *e);

/* A vector of n numbers named blk.LAYER.SUFFIX that this family cannot be without. rotated as in
 * struct model_source. */
int family_bind_layer_vector(struct model *m, const float **v, int layer, const char *suffix, int n,
                             bool rotated, struct err *e);

/* ARCH.SUFFIX, a number above 0, or what `out` holds already when the file says nothing. */
int family_get_scale(const struct model *m, const char *suffix, float *out, struct err *e);

#endif
