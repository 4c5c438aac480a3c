/* heads_learn: one text of a training of retaining heads: it runs the text through the
 * model (heads_watch) and, layer by layer while it runs, measures the labels, adds to the
 * gradients, or compares scores with labels. Nothing of a layer is kept once the next one runs.
 * If the engine has a GPU, the nets are in its memory and everything but statistics is computed
 * there (heads_device).
 *
 * This is the one place where labels, loss and steps meet; heads_train decides which rows are read
 * when.
 *
 * Shares of a name or number count as one (heads_sample_join). Labels are standardised per layer
 * and KV head with mean and deviation over the first rows: the ranking of a head's units is
 * unchanged, and recall of the demo model at 128 units rose from .71 to .90. */
#ifndef RETAIN_QUANT_HEADS_HEADS_LEARN_H
#define RETAIN_QUANT_HEADS_HEADS_LEARN_H

#include <stdio.h>

#include "quant/heads/heads_device.h"
#include "quant/heads/heads_net.h"
#include "quant/heads/heads_watch.h"

struct heads_sample;

struct heads_learn {
    struct engine *engine;
    struct heads_watch watch;   /* on the CPU */
    struct heads_device device; /* on a GPU */
    enum heads_label kind;
    struct heads_net *nets; /* [n_layer]; on a GPU one, with the weights of `layer` */
    int layer;
    struct heads_work work; /* on the CPU */
    float *mean, *std;      /* [n_layer * n_kv_head] mean and deviation of the labels */
    double *sums;           /* [n_layer * n_kv_head][2] sums of the labels and of their squares */
    int64_t n_sums;         /* of so many tokens */
    void *ranks;            /* scratch of heads_learn_found */
    struct arena arena;
    /* of the text that runs */
    struct heads_terms terms;
    const struct heads_sample *sample;
    double loss, found;
};

struct heads_learn_opts {
    enum heads_label kind;
    int hidden, length; /* of the nets; tokens of a text at most */
};

/* Bytes of memory that heads_learn_open takes, besides the model and the context of heads_watch;
 * and of the GPU's memory, if the engine has one. */
size_t heads_learn_bytes(const struct engine *g, const struct heads_learn_opts *o);
size_t heads_learn_device_bytes(const struct engine *g, const struct heads_learn_opts *o);

/* The first weights follow from the seed. */
int heads_learn_open(struct heads_learn *l, struct engine *g, const struct heads_learn_opts *o,
                     uint64_t seed, struct err *e);
void heads_learn_close(struct heads_learn *l);

/* The errors of the following are the GPU's. */

/* Mean and deviation of the labels: adds a text; then computes them. */
int heads_learn_measure(struct heads_learn *l, const struct heads_sample *s, struct err *e);
int heads_learn_scale(struct heads_learn *l, struct err *e);

/* One step: adds the gradients of each text of a batch, and its part of the loss to *loss; then
 * changes the weights. n_rows: tokens with labels in the batch; n_texts: its texts; step: from 1.
 */
int heads_learn_add(struct heads_learn *l, const struct heads_sample *s, int n_rows, int n_texts,
                    double *loss, struct err *e);
int heads_learn_step(struct heads_learn *l, float rate, int step, struct err *e);

/* The share of a text's units with the best tenth of labels that also have the best tenth of
 * scores, averaged over heads and layers. */
int heads_learn_found(struct heads_learn *l, const struct heads_sample *s, double *share,
                      struct err *e);

/* W1 and W2 of a layer (struct heads_net), valid until the next call of any function. */
int heads_learn_weights(struct heads_learn *l, int layer, const float **out, struct err *e);

/* Writes all state that a step changes to the file, or reads it. ERR_FORMAT: the file failed. */
int heads_learn_transfer(struct heads_learn *l, FILE *f, bool write, struct err *e);

#endif
