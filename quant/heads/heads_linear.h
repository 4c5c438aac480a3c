/* heads_linear: retaining heads that are linear in their unit's own key and value, as heads_fit
 * finds them in closed form, and as heads_train begins with them.
 *
 * In a file they have the form silu with two rows of W1 for each KV head, w and -w, and W2 = 1, -1:
 * silu(z) - silu(-z) = z. So every kernel and GPU that runs trained heads runs these. */
#ifndef RETAIN_QUANT_HEADS_HEADS_LINEAR_H
#define RETAIN_QUANT_HEADS_HEADS_LINEAR_H

#include <stdbool.h>

#include "base/arena.h"
#include "runtime/model/retaining.h"

#define HEADS_LINEAR_SIDES 2 /* rows of W1 for each KV head */

struct heads_linear {
    const struct model *model;
    int n_unit;    /* numbers of a unit: its key and its value */
    float *weight; /* [n_layer * n_kv_head][n_unit] */
    float *mean;   /* [n_layer * n_kv_head] weight . unit + mean is the label's best guess, */
    float *std;    /* and 1 the factor of weight . unit */
    float *size;   /* [n_layer][n_qkv] the root mean square of q, k and v */
};

/* Takes the memory from an arena, backed or only planned. */
void heads_linear_plan(struct heads_linear *l, const struct model *m, struct arena *a);
void heads_linear_copy(struct heads_linear *to, const struct heads_linear *from);

/* Row r of W1 or W2: of the first HEADS_LINEAR_SIDES * n_kv_head rows and columns. */
void heads_linear_row(const struct heads_linear *l, int layer, enum retaining_part part, int r,
                      float *out);

/* hex: the digest of the written file. */
int heads_linear_write(const struct heads_linear *l, const char *path, bool force, char hex[65],
                       struct err *e);

#endif
