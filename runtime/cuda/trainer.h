/* trainer: trains retaining heads on the device: while a text runs through the model, q, k and v of
 * each layer give the labels, and these the gradient of the layer's net (quant/heads has the
 * formulas, and the same on the CPU). Nothing of a layer is kept once the next one runs, and only
 * the loss and a layer's weights come to the host.
 *
 * Products are those of float matrices (floats.cu); every sum has a fixed order. */
#ifndef RETAIN_RUNTIME_CUDA_TRAINER_H
#define RETAIN_RUNTIME_CUDA_TRAINER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct cuda_context;
struct cuda_trainer;
struct model;

struct cuda_trainer_opts {
    const struct model *model;
    int n_text;   /* tokens of a text at most */
    int n_hidden; /* of a net: W1 [n_hidden][n_in], W2 [n_head][n_hidden]; a multiple of 8 */
    float noise;  /* labels are logarithms of (softmax weight + noise) */
};

/* Bytes besides the model and its context: of the device, and of the host. */
struct cuda_trainer_bytes {
    size_t device, host;
};
struct cuda_trainer_bytes cuda_trainer_plan(const struct cuda_trainer_opts *o);

/* x: a context whose chunk is a text of n_text tokens; it must outlive the trainer. Weights are
 * zero. */
int cuda_trainer_open(struct cuda_trainer **out, struct cuda_context *x,
                      const struct cuda_trainer_opts *o, struct err *e);
void cuda_trainer_close(struct cuda_trainer *t);

/* Sends or fetches W1 and W2 of a layer, or AdamW's running means of their gradients: n_hidden *
 * (n_in + n_head) numbers. */
enum cuda_trainer_part { CUDA_TRAINER_WEIGHTS, CUDA_TRAINER_FIRST, CUDA_TRAINER_SECOND };
int cuda_trainer_put(struct cuda_trainer *t, int layer, enum cuda_trainer_part part,
                     const float *from, struct err *e);
int cuda_trainer_get(struct cuda_trainer *t, int layer, enum cuda_trainer_part part, float *to,
                     struct err *e);

/* The labels' means, [n_layer * n_kv_head], which scores are added to; and the factor of the rate
 * in each column of W1, [n_layer][n_in]. */
int cuda_trainer_scale(struct cuda_trainer *t, const float *mean, const float *pace, struct err *e);

struct cuda_trainer_text {
    const int32_t *ids;   /* [n] */
    int n, n_context;     /* the first n_context tokens get labels */
    const int32_t *asked; /* [n_asked] the tokens that ask, ascending */
    int n_asked;
};

/* Runs a text and adds the gradients of its loss, of which *loss is the sum
 * (heads_net_gradient). */
int cuda_trainer_add(struct cuda_trainer *t, const struct cuda_trainer_text *text, float weight,
                     double *loss, struct err *e);

/* One step of AdamW for all nets (heads_net_step). */
int cuda_trainer_step(struct cuda_trainer *t, float rate, float clip, int step, struct err *e);

#endif
