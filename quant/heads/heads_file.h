/* heads_file: writes retaining heads as runtime/model/retaining.h reads them. W1 of silu heads is
 * Q8_0 (F32 if its rows are not a multiple of 32), which the kernels score fastest and the GPU
 * needs; W1 of the other forms is F16, everything else F32. */
#ifndef RETAIN_QUANT_HEADS_HEADS_FILE_H
#define RETAIN_QUANT_HEADS_HEADS_FILE_H

#include <stdbool.h>

#include "base/err.h"
#include "runtime/model/retaining.h"

struct heads_file {
    const struct model *model; /* that they belong to */
    const char *base_digest;   /* hex digest of its file; NULL = they belong to any file of it */
    const char *author;        /* NULL = trained by retain */
    struct retaining_shape shape;
    struct retaining_settings settings;
    int n_unit;              /* as in struct retaining */
    const char *label;       /* "logit" or "share"; NULL = not known */
    const float *mean, *std; /* [n_layer][n_head]; NULL = not known */
    /* Reads row r of a part. */
    int (*row)(void *ctx, int layer, enum retaining_part part, int r, float *out, struct err *e);
    void *ctx;
};

/* hex: the digest of the written file. */
int heads_file_write(const struct heads_file *h, const char *path, bool force, char hex[65],
                     struct err *e);

#endif
