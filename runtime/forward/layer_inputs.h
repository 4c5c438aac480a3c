/* layer_inputs: the separate inputs of each layer, struct model_layer_inputs. */
#ifndef RETAIN_RUNTIME_FORWARD_LAYER_INPUTS_H
#define RETAIN_RUNTIME_FORWARD_LAYER_INPUTS_H

#include <stdint.h>

struct arena;
struct forward;
struct layer_step;

void layer_inputs_plan(struct forward *f, struct arena *a);

/* Computes the inputs of all layers for n tokens whose embeddings are in f->x. */
void layer_inputs_run(struct forward *f, const int32_t *ids, int n);

/* f->gate [n][layer_inputs.n] = gelu(input_gate x) * input, the input of the matrix input_out. */
void layer_inputs_join(struct layer_step *s);

#endif
