/* heads_fit: `retain heads fit`: retaining heads for a model in a minute, in closed form.
 *
 * Some texts with questions (heads_text) are run through the model (heads_watch), and for each
 * layer and KV head ridge regression finds the linear function of a unit's own key and value that
 * is nearest to the label: the logarithm of the largest share of attention that the answers give
 * the unit. The label means the same in every head, so the heads' scores do, too, and policy keeper
 * runs.
 *
 * The result is one linear function per KV head (heads_linear.h). */
#ifndef RETAIN_QUANT_HEADS_HEADS_FIT_H
#define RETAIN_QUANT_HEADS_HEADS_FIT_H

#include "quant/heads/heads_data.h"
#include "quant/heads/heads_linear.h"
#include "quant/heads/heads_watch.h"

struct engine;
struct options;

/* The heads that the command fits to at most n_rows rows when no text is given. The engine has no
 * GPU. */
int heads_fit_built_in(struct heads_linear *out, struct engine *g, int n_rows, heads_show *show,
                       void *ctx, struct err *e);

/* Returns an exit status, like all commands. */
int heads_fit(const struct options *o);

#endif
