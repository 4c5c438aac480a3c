/* heads_sample: the texts that retaining heads are trained on, from a file of JSON lines:
 *
 *   {"document": "…", "question": "…", "answer": "…"}
 *
 * document is the first user message, with the question below it, or an array of messages written
 * by user and assistant in turn, the user first; question and answer may be arrays of the same
 * length, asked one after the other. Rendered in the model's own chat format.
 *
 *   ids      the conversation
 *   context  the tokens before the first answer, which get labels
 *   asks     the tokens whose queries define the labels: those of the answers, and each token that
 *            an answer follows (answer), or of a repetition of the context appended to it (repeat;
 *            KVzip, arXiv 2505.23416) */
#ifndef RETAIN_QUANT_HEADS_HEADS_SAMPLE_H
#define RETAIN_QUANT_HEADS_HEADS_SAMPLE_H

#include <stdbool.h>

#include "base/str.h"
#include "runtime/token/chat_template.h"

struct engine;

struct heads_data {
    struct str text;
    size_t *lines; /* byte offsets of rows; [n] is the end */
    int n;
    const char *name;
};

int heads_data_open(struct heads_data *d, const char *path, struct err *e);
void heads_data_close(struct heads_data *d);

struct heads_sample {
    struct tokens ids;
    uint8_t *asks; /* [ids.n] */
    size_t asks_max;
    int n_context;
};
void heads_sample_release(struct heads_sample *s);

/* Reads row i with at most n_max tokens: a longer context loses its end, and answers that no longer
 * fit are left out. ERR_FORMAT names the line. */
int heads_sample_read(struct heads_sample *s, const struct heads_data *d, int i, bool repeat,
                      const struct engine *g, int n_max, struct err *e);

#endif
