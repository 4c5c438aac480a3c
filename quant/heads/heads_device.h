/* heads_device: heads_watch and heads_net on a GPU: one text of a training, layer by layer
 * (runtime/cuda/trainer.h). heads_learn decides which of the two is used. */
#ifndef RETAIN_QUANT_HEADS_HEADS_DEVICE_H
#define RETAIN_QUANT_HEADS_HEADS_DEVICE_H

#include "quant/heads/heads_watch.h"
#include "runtime/cuda/trainer.h"

struct heads_device {
    struct context context;
    struct cuda_trainer *trainer;
    int32_t *asked; /* [n_text] */
};

/* Bytes besides the model and the context of heads_watch_plan. */
struct cuda_trainer_bytes heads_device_plan(const struct engine *g, int hidden, int n_text);

/* For texts of at most n_text tokens; the engine has a GPU. */
int heads_device_open(struct heads_device *d, struct engine *g, int hidden, int n_text,
                      struct err *e);
void heads_device_close(struct heads_device *d);

/* Runs a text and adds the gradients and its part of the loss. */
int heads_device_add(struct heads_device *d, const struct heads_sample *s, float weight,
                     double *loss, struct err *e);

#endif
