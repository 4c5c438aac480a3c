/* centre: the centres of a model's keys, which keys of 4 and 5 bits are relative to (struct
 * kn_centre).
 *
 * Channels of a key have their own means and deviations, up to a hundred times apart, which a group
 * of 32 numbers with one step pays for. They are properties of a model, not of a text: a built-in
 * text of some hundred tokens, of several kinds, is run once. The result is kept in a small file
 * beside the packed weights, and its digest is part of the format of saved units. */
#ifndef RETAIN_RUNTIME_FORWARD_CENTRE_H
#define RETAIN_RUNTIME_FORWARD_CENTRE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

struct engine;

struct centres {
    struct arena arena;
    char digest[9]; /* the first digits; "" = the model has none */
};

/* Reads or measures the centres of g->model, whose weights are loaded; a file is written if `keep`.
 * dir: the folder of packed weights, or NULL. Head sizes that are no multiple of 32 have no such
 * units, so no centres. A GPU measures with units of halfs: without the file its last digits, and
 * so the digest, differ from the CPU's. progress: see engine_progress. */
int centre_open(struct engine *g, const char *dir, bool keep,
                int (*progress)(void *, int64_t, int64_t), void *ctx, struct err *e);
void centre_close(struct engine *g);

#endif
