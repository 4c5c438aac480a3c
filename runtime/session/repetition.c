#include "runtime/session/repetition.h"

#include <string.h>

/* The last n tokens before `end` equal those one piece before them. */
static bool repeats(const int32_t *end, size_t n, size_t piece)
{
    return !memcmp(end - n, end - n - piece, n * sizeof *end);
}

/* Whether the phrase at ids[i] occurred REPETITION_TIMES times in the tokens before it. */
static bool is_known(const int32_t *ids, size_t i)
{
    size_t first = i > REPETITION_BEFORE ? i - REPETITION_BEFORE : 0;
    int times = 0;
    for (size_t k = first; k < i && times < REPETITION_TIMES; k++)
        times += ids[k] == ids[i] && repeats(ids + i + REPETITION_PHRASE, REPETITION_PHRASE, i - k);
    return times == REPETITION_TIMES;
}

static bool says_nothing_new(const int32_t *ids, size_t n)
{
    int n_new = 0;
    if (n < REPETITION_TOKENS) return false;
    for (size_t i = n - REPETITION_TOKENS; i + REPETITION_PHRASE <= n; i++) {
        n_new += !is_known(ids, i);
        if (n_new > REPETITION_NEW) return false;
    }
    return true;
}

bool repetition_found(const int32_t *ids, size_t n)
{
    for (size_t piece = 1; piece <= REPETITION_SHORT; piece++) {
        size_t tokens = REPETITION_BASE + 15 * piece; /* and the first period before them */
        if (n >= tokens + piece && repeats(ids + n, tokens, piece)) return true;
    }
    return says_nothing_new(ids, n);
}
