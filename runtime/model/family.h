/* family: binds the tensors of a transformer by the names that GGUF gives them. A family's own file
 * (families/) says which parts its layers have; no other part of the program knows families.
 *
 * Optional parts are bound when the file has them: biases, a separate output matrix. Q, K and V,
 * and gate and up, may be one fused tensor each: ranges of its rows are bound. */
#ifndef RETAIN_RUNTIME_MODEL_FAMILY_H
#define RETAIN_RUNTIME_MODEL_FAMILY_H

#include "runtime/model/model.h"

/* Sets all layers, and the MTP layer after them, as the family's row says; of a family with
 * experts, all layers but the leading dense ones get those that the file's metadata describe. The
 * row says what files leave out: sigmoid, normalized. */
int family_layers(struct model *m, struct err *e);

/* Binds embedding, layers and output, after family_layers and changes to single layers. */
int family_bind_layers(struct model *m, struct err *e);

/* Both, for families whose layers have the same parts. */
int family_bind(struct model *m, struct err *e);

/* Binds "blk.LAYER.TENSOR", a vector of n numbers. */
int family_bind_vector(struct model *m, int layer, const float **v, const char *tensor, int n,
                       struct err *e);

/* The same if the file has it. */
int family_bind_optional(struct model *m, int layer, const float **v, const char *tensor, int n,
                         struct err *e);

#endif
