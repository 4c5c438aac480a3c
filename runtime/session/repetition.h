/* repetition: detects an answer that repeats itself and would never end, as small models produce.
 * Lists that count, tables and code repeat too, but each of their lines says something new.
 *
 * Chosen on 120 answers of SmolLM2-135M to 30 messages (temperature 0.2 and 0.8) and 928 pieces of
 * 2,500 tokens of code, tables, JSON, HTML, SQL, manuals and novels: none of the answers that ended
 * by themselves is cut off, and 7 of the pieces, each of which is filled with the same lines. */
#ifndef RETAIN_RUNTIME_SESSION_REPETITION_H
#define RETAIN_RUNTIME_SESSION_REPETITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* Of the last REPETITION_TOKENS tokens all but REPETITION_NEW begin phrases of
     * REPETITION_PHRASE tokens that occurred REPETITION_TIMES times in the REPETITION_BEFORE tokens
     * before them. */
    REPETITION_TOKENS = 256,
    REPETITION_NEW = 25,
    REPETITION_PHRASE = 4,
    REPETITION_TIMES = 3,
    REPETITION_BEFORE = 512,
    /* A period of up to REPETITION_SHORT tokens without any difference ends an answer sooner: after
     * REPETITION_BASE tokens and 16 periods. 48 times the same token, 32 zeros of a list. */
    REPETITION_SHORT = 8,
    REPETITION_BASE = 32,
};

/* True when the end of ids[n] repeats itself. Costs at most 128 Ki comparisons, so call it only now
 * and then. */
bool repetition_found(const int32_t *ids, size_t n);

#endif
