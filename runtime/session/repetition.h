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
    /* A period of up to REPETITION_SHORT tokens without any difference ends an answer sooner: after
     * REPETITION_BASE tokens and 16 periods. 48 times the same token, 32 zeros of a list. */
    REPETITION_SHORT = 8,
    REPETITION_BASE = 32,
    /* So many loops that `--repeat-limit` broke, within SAMPLER_HISTORY tokens, end an answer, too:
     * of 12,000 answers of the demo model 42 had four or more, and each of these was noise. */
    REPETITION_BROKEN = 4,
};

/* True when the end of ids[n] repeats with a short period. Costs at most 64 Ki comparisons, so call
 * it only now and then. */
bool repetition_found(const int32_t *ids, size_t n);

#endif
