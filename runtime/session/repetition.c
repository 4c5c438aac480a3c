#include "runtime/session/repetition.h"

static bool has_piece(const int32_t *last, size_t piece)
{
    int others = 0;
    for (size_t i = 0; i < REPETITION_TOKENS && others <= REPETITION_OTHERS; i++)
        others += last[i] != (last - piece)[i];
    return others <= REPETITION_OTHERS;
}

bool repetition_found(const int32_t *ids, size_t n)
{
    if (n < REPETITION_TOKENS) return false;
    size_t before = n - REPETITION_TOKENS;
    for (size_t piece = 1; piece <= REPETITION_PIECE && piece <= before; piece++)
        if (has_piece(ids + before, piece)) return true;
    return false;
}
