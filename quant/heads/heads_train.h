/* heads_train: `retain heads train`: retaining heads for a model as it runs here, quantized.
 *
 * Rows of text (heads_sample) go through the model's forward pass (heads_watch), whose q, k, v and
 * labels teach one small network per layer (heads_net). Labels are standardised per layer and KV
 * head by mean and deviation over the first rows: the ranking of a head's units is unchanged, and
 * recall of the demo model at 128 units went from .71 to .90. The schedule is Locret's: the rate
 * rises over two thirds of the steps, then falls to zero; one pass in a random order after the
 * other, some rows held back for validation.
 *
 * OUT.part is the state between steps; a run that finds one goes on from there, to the same file.
 */
#ifndef RETAIN_QUANT_HEADS_HEADS_TRAIN_H
#define RETAIN_QUANT_HEADS_HEADS_TRAIN_H

struct options;

/* An exit status, as all commands. */
int heads_train(const struct options *o);

#endif
