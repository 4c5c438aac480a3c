/* heads_train: `retain heads train`: trains retaining heads for a model as it runs here, quantized.
 *
 * Rows of text (heads_sample) are run through the model one after another, and train one small
 * network per layer (heads_learn). The schedule is Locret's: the rate rises over two thirds of the
 * steps, then falls to zero. Training makes several passes, each in a random order; some rows are
 * held back for validation. Memory is planned, and refused, before weights are read.
 *
 * OUT.part holds the state between steps; a run that finds one continues from it and produces the
 * same file. */
#ifndef RETAIN_QUANT_HEADS_HEADS_TRAIN_H
#define RETAIN_QUANT_HEADS_HEADS_TRAIN_H

struct options;

/* Returns an exit status, like all commands. */
int heads_train(const struct options *o);

#endif
