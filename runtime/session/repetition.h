/* circle: an answer that says the same again and again and would never end by itself, as small
 * models do with words they were not trained on. */
#ifndef RETAIN_RUNTIME_SESSION_REPETITION_H
#define RETAIN_RUNTIME_SESSION_REPETITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    REPETITION_TOKENS = 512, /* so many have to say the same again … */
    REPETITION_PIECE = 128,  /* … as those at most so many before them, … */
    REPETITION_OTHERS = 16,  /* … but for so many */
};

/* True when the last REPETITION_TOKENS of ids[n] go in a circle. Costs at most 64 Ki comparisons,
 * so not for every token. */
bool repetition_found(const int32_t *ids, size_t n);

#endif
