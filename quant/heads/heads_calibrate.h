/* heads_calibrate: `retain heads calibrate --heads H --text FILE --out H2`: measures what the
 * scores of retaining heads mean, so that they compare across heads and layers and `--policy
 * keeper` runs. For heads from other programs, whose files hold no statistics.
 *
 * Rows of text are run through the model as in training, with a repetition, and for each layer and
 * KV head least squares give the line
 *
 *   label = score * std + mean        label: the logarithm of the share of attention (heads_watch)
 *
 * which is the best guess of the label for a score, whatever the scores' own scale. A head whose
 * scores say little gets a flat line, and one that ranks units the wrong way a nearly flat one: the
 * order within a head never changes. H2 has the networks of H and these numbers. */
#ifndef RETAIN_QUANT_HEADS_HEADS_CALIBRATE_H
#define RETAIN_QUANT_HEADS_HEADS_CALIBRATE_H

struct options;

/* Returns an exit status, like all commands. */
int heads_calibrate(const struct options *o);

#endif
