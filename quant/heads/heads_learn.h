/* heads_learn: one text of a training of retaining heads: it runs the text through the
 * model (heads_watch) and, layer by layer while it runs, adds to the gradients. If the engine
 * has a GPU, the nets are in its memory and everything is computed there (runtime/cuda/trainer.h).
 *
 * This is the one place where labels, loss and steps meet; heads_train decides which rows are read
 * when.
 *
 * A net begins as heads in closed form (heads_linear): its first rows are theirs, the other rows
 * have weights of 0 in W2. A score + the closed form's mean is the label. Steps in a column of W1
 * are in proportion to the size of its 32 inputs, which W1's blocks of Q8_0 hold. */
#ifndef RETAIN_QUANT_HEADS_HEADS_LEARN_H
#define RETAIN_QUANT_HEADS_HEADS_LEARN_H

#include <stdio.h>

#include "quant/heads/heads_linear.h"
#include "quant/heads/heads_net.h"
#include "quant/heads/heads_watch.h"
#include "runtime/cuda/trainer.h"

struct heads_sample;

struct heads_learn {
    struct engine *engine;
    struct heads_watch watch; /* on the CPU; on a GPU the next three */
    struct context context;
    struct cuda_trainer *trainer;
    int32_t *asked; /* [length] the tokens that ask */
    struct heads_linear start;
    struct heads_net *nets; /* [n_layer]; on a GPU one, with the weights of `layer` */
    int layer;
    struct heads_work work;  /* on the CPU */
    float *pace;             /* [n_layer][n_in] as in struct heads_net */
    void (*tick)(void *ctx); /* told after each layer of each text */
    void *tick_ctx;
    struct arena arena;
    /* of the text that runs */
    float weight; /* of a term of the loss */
    double loss;
};

struct heads_learn_opts {
    int hidden, length; /* of the nets; tokens of a text at most */
};

/* Bytes of memory that heads_learn_open takes, besides the model and the context of heads_watch;
 * and of the GPU's memory, if the engine has one. */
size_t heads_learn_bytes(const struct engine *g, const struct heads_learn_opts *o);
size_t heads_learn_device_bytes(const struct engine *g, const struct heads_learn_opts *o);

int heads_learn_open(struct heads_learn *l, struct engine *g, const struct heads_learn_opts *o,
                     struct err *e);
/* The first weights: those of the closed form, and others by the seed. */
int heads_learn_start(struct heads_learn *l, const struct heads_linear *from, uint64_t seed,
                      struct err *e);
void heads_learn_close(struct heads_learn *l);

/* The errors of the following are the GPU's. */

/* One step: adds the gradients of each text of a batch, and its part of the loss to *loss; then
 * changes the weights. n_rows: tokens with labels in the batch; step: from 1. */
int heads_learn_add(struct heads_learn *l, const struct heads_sample *s, int n_rows, double *loss,
                    struct err *e);
int heads_learn_step(struct heads_learn *l, float rate, int step, struct err *e);

/* W1 and W2 of a layer (struct heads_net), valid until the next call of any function. */
int heads_learn_weights(struct heads_learn *l, int layer, const float **out, struct err *e);

/* Writes all state that a step changes to the file, or reads it. ERR_FORMAT: the file failed. */
int heads_learn_transfer(struct heads_learn *l, FILE *f, bool write, struct err *e);

#endif
