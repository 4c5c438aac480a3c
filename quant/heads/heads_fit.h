/* heads_fit: `retain heads fit`: retaining heads for a model in a minute, in closed form.
 *
 * Some texts are run through the model and repeated (heads_watch), and for each layer and KV head
 * ridge regression finds the linear function of a unit's own key and value that is nearest to the
 * label: the logarithm of the largest share of attention that the repetition gives the unit. The
 * label means the same in every head, so the heads' scores do, too, and policy keeper runs.
 *
 * The result is a file of the form silu with two rows of W1 for each KV head, w and -w, and W2 = 1,
 * -1: silu(z) - silu(-z) = z. So every kernel and GPU that runs trained heads runs these. */
#ifndef RETAIN_QUANT_HEADS_HEADS_FIT_H
#define RETAIN_QUANT_HEADS_HEADS_FIT_H

#include <stdbool.h>

struct options;

/* Returns an exit status, like all commands. */
int heads_fit(const struct options *o);

#endif
