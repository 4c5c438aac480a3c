/* tensor_report: how a model's matrices change between the file and the kernels: layout, bytes and
 * error, by tensor type. For reports; reads a sample of the file, never the weights in memory. */
#ifndef RETAIN_RUNTIME_MODEL_TENSOR_REPORT_H
#define RETAIN_RUNTIME_MODEL_TENSOR_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "runtime/model/model.h"

#define TENSOR_REPORTS_MAX 16 /* at least the number of readable tensor types */

struct tensor_report {
    uint32_t tensor_type;
    const char *type;   /* "Q4_K" */
    const char *layout; /* "int4 + min" */
    int n_tensors;
    int64_t n_weights;
    size_t file_bytes, bytes;
    double error; /* root of mean squared difference over root of mean square; 0: exact */
};

/* Fills out, the most bytes first; returns the number of rows, or a negative code. */
int tensor_report_list(struct tensor_report out[TENSOR_REPORTS_MAX], const struct model *m,
                       struct err *e);

#endif
