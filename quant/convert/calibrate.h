/* calibrate: measures the importance of a matrix's columns: the mean square of the activations that
 * each column is multiplied with, when the model runs over a text with the product's own forward
 * pass. */
#ifndef RETAIN_QUANT_CONVERT_CALIBRATE_H
#define RETAIN_QUANT_CONVERT_CALIBRATE_H

#include <stdint.h>

#include "base/err.h"

struct calibration;
struct options;

/* Runs the model in GGUF file `model` over the text file, in windows of 512 tokens. Of the options,
 * only threads and isa are used. progress may be NULL; a non-zero result stops (ERR_STOP). */
int calibrate(struct calibration **out, const char *model, const char *text,
              const struct options *o, int (*progress)(void *, int64_t, int64_t), void *ctx,
              struct err *e);
void calibration_close(struct calibration *c);

/* [n_in] importances of the columns of tensor `name`, with mean 1; NULL when it had no activations
 * (the embedding) or has another width. Accepts NULL. */
const float *calibration_find(const struct calibration *c, const char *name, int64_t n_in);

int64_t calibration_n_tokens(const struct calibration *c);

#endif
