/* heads_file: writes retaining heads as runtime/model/retaining.h reads them: W1 as Q8_0 (F32 if
 * its rows are not a multiple of 32), W2 as F32. */
#ifndef RETAIN_QUANT_HEADS_HEADS_FILE_H
#define RETAIN_QUANT_HEADS_HEADS_FILE_H

#include <stdbool.h>

#include "base/err.h"

struct heads_file {
    const char *name;
    const char *base_digest; /* hex digest of the model that they belong to */
    int n_layer, n_in, n_hidden, n_head;
    const char *label;       /* "logit" or "share"; NULL = not known */
    const float *mean, *std; /* [n_layer][n_head]; NULL = not known */
    /* Reads row r of W1 (which = 0) or W2 (1) of a layer. */
    int (*row)(void *ctx, int layer, int which, int r, float *out, struct err *e);
    void *ctx;
};

/* hex: the digest of the written file. */
int heads_file_write(const struct heads_file *h, const char *path, bool force, char hex[65],
                     struct err *e);

#endif
