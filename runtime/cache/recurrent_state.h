/* recurrent_state: the memory that a model's recurrent layers have of the whole conversation. Its
 * size does not depend on the conversation's length, nothing of it is ever evicted, and it cannot
 * be taken back by a token: to return to an earlier position, it must have been saved there.
 *
 *   layer   window [n_taps - 1][n_channel]  the newest inputs of the convolution, oldest first
 *           matrices [n_head][key_dim][head_dim]
 *   hidden  [n_embd] the newest token's row of the residual stream after all layers: its logits
 *           follow from it, so that they need no second run of the token
 *   step    [n_layer][n_step] the inputs of the newest token's step, if it was run alone. They are
 *           saved with each token of an answer, so that the steps can be repeated after a crash.
 *
 * repeat, set by who computes: makes the state the one after `step`.
 *
 * struct model_recurrent has the formulas. */
#ifndef RETAIN_RUNTIME_CACHE_RECURRENT_STATE_H
#define RETAIN_RUNTIME_CACHE_RECURRENT_STATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/str.h"

struct recurrent_state_shape { /* numbers are floats */
    int n_layer;               /* 0 = the model has no recurrent layers */
    int n_window, n_matrices;  /* per layer */
    int n_hidden;
    int n_step; /* per layer */
};

struct recurrent_state {
    struct recurrent_state_shape shape;
    float *layers; /* [n_layer][n_window + n_matrices] */
    float *hidden;
    float *step;
    bool changed; /* cleared or loaded: newer than a copy in device memory */
    void (*repeat)(void *ctx);
    void *repeat_ctx;
};

/* Takes the memory from `a`, backed or only planned. */
void recurrent_state_plan(struct recurrent_state *s, const struct recurrent_state_shape *shape,
                          struct arena *a);
void recurrent_state_clear(struct recurrent_state *s);

float *recurrent_state_window(const struct recurrent_state *s, int layer);
float *recurrent_state_matrices(const struct recurrent_state *s, int layer);
float *recurrent_state_step(const struct recurrent_state *s, int layer);

/* Bytes of all layers; with the hidden row; of the steps of one token in all layers. */
size_t recurrent_state_layer_bytes(const struct recurrent_state *s);
size_t recurrent_state_bytes(const struct recurrent_state *s);
size_t recurrent_state_step_bytes(const struct recurrent_state *s);

#endif
