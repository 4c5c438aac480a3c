/* heads_study: rows of training data that a user's own material gives, as lines of JSON
 * (heads_data) in a file that can be looked at.
 *
 *   self-study     the model is shown passages of plain text, asks itself a question about each,
 * and answers it (after Cartridges, arXiv 2506.06266). A model file without a chat template
 * continues "Question:" and "Answer:" instead. A function of model, passages and seed; a file that
 * was begun is continued. conversations  the saved ones: the messages of the first half of each are
 * the document, those of the second half questions and answers. */
#ifndef RETAIN_QUANT_HEADS_HEADS_STUDY_H
#define RETAIN_QUANT_HEADS_HEADS_STUDY_H

#include <stdint.h>

#include "base/err.h"

struct engine;
struct heads_data;
struct options;

struct heads_study {
    struct engine *engine;             /* with its weights */
    const struct heads_data *passages; /* cut plain text */
    int n_rows;                        /* passages that are studied, at most */
    int length;                        /* tokens of a conversation about one, at most */
    uint64_t seed;
    const char *path; /* of the rows */
};

/* ERR_USAGE when the file has rows of another model or seed; ERR_STOP when interrupted: the same
 * call continues. Passages to which the model has no answer give no row. */
int heads_study_run(const struct heads_study *s, struct err *e);

/* Opens the rows of --text, --data or --from-conversations; of the latter, those of the user's
 * saved conversations with at least two turns are written to `path`, which is kept. */
int heads_study_open(struct heads_data *d, const struct options *o, const char *path,
                     struct err *e);

#endif
