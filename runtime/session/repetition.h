/* repetition: detects an answer that repeats itself and would never end, as small models produce
 * when they continue words that they were not trained on. */
#ifndef RETAIN_RUNTIME_SESSION_REPETITION_H
#define RETAIN_RUNTIME_SESSION_REPETITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    REPETITION_TOKENS = 512, /* this many tokens must repeat … */
    REPETITION_PIECE = 128,  /* … with a period of at most this many … */
    REPETITION_OTHERS = 16,  /* … and at most this many differences */
};

/* True when the last REPETITION_TOKENS of ids[n] repeat with a short period. Costs at most 64 Ki
 * comparisons, so call it only now and then. */
bool repetition_found(const int32_t *ids, size_t n);

#endif
