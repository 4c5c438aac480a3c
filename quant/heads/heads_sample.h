/* heads_sample: one row of training data (heads_data) as tokens.
 *
 * A row is rendered in the model's chat format; plain text gets questions first (heads_text).
 *
 *   ids      the conversation
 *   context  the tokens before the first answer, which get labels
 *   asks     the tokens whose queries define the labels: those of the answers, and each token that
 *            an answer follows */
#ifndef RETAIN_QUANT_HEADS_HEADS_SAMPLE_H
#define RETAIN_QUANT_HEADS_HEADS_SAMPLE_H

#include <stdbool.h>

#include "quant/heads/heads_data.h"
#include "runtime/token/chat_template.h"

struct engine;

#define HEADS_SAMPLE_MIN 16 /* tokens; rows with a shorter context are skipped */

struct heads_sample {
    struct tokens ids;
    uint8_t *asks; /* [ids.n] */
    size_t asks_max;
    int n_context;
    struct heads_data woven; /* a row of plain text with its questions */
};
void heads_sample_release(struct heads_sample *s);

/* Reads row i with at most n_max tokens: a longer context loses its end, and answers that no longer
 * fit are left out. held_back, seed: of the facts that plain text gets. ids.n is 0 for a row that
 * is too short. ERR_FORMAT names the row. */
int heads_sample_read(struct heads_sample *s, const struct heads_data *d, int i, bool held_back,
                      uint64_t seed, const struct engine *g, int n_max, struct err *e);

#endif
