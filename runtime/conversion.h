/* conversion: what becomes of a model's matrices between the file and the kernels: the layout, the
 * bytes and the error, by tensor type. For reports; reads a sample of the file, never the weights
 * in memory. */
#ifndef RETAIN_RUNTIME_CONVERSION_H
#define RETAIN_RUNTIME_CONVERSION_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/err.h"
#include "runtime/model.h"

#define CONVERSIONS_MAX 16 /* tensor types that can be read */

struct conversion {
    uint32_t tensor_type;
    const char *type;   /* "Q4_K" */
    const char *layout; /* "int4 + min" */
    int n_tensors;
    int64_t n_weights;
    size_t file_bytes, bytes;
    double error; /* root of mean squared difference over root of mean square; 0: exact */
};

/* Fills out, the most bytes first; returns how many, or a negative code. */
int conversion_list(struct conversion out[CONVERSIONS_MAX], const struct model *m, struct err *e);

#endif
