#include "runtime/session/repetition.h"

/* The last n tokens of ids[0, end) differ from those one piece before them in at most `others`
 * places. */
static bool repeats(const int32_t *end, size_t n, size_t piece, int others)
{
    const int32_t *last = end - n;
    for (size_t i = 0; i < n && others >= 0; i++) others -= last[i] != (last - piece)[i];
    return others >= 0;
}

bool repetition_found(const int32_t *ids, size_t n)
{
    for (size_t piece = 1; piece <= REPETITION_SHORT; piece++) {
        size_t tokens = REPETITION_BASE + 15 * piece; /* and the first period before them */
        if (n >= tokens + piece && repeats(ids + n, tokens, piece, 0)) return true;
    }
    for (size_t piece = 1; piece <= REPETITION_PIECE && piece + REPETITION_TOKENS <= n; piece++)
        if (repeats(ids + n, REPETITION_TOKENS, piece, REPETITION_OTHERS)) return true;
    return false;
}
