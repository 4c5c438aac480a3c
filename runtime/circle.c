#include "runtime/circle.h"

static bool has_piece(const int32_t *last, size_t piece)
{
    int others = 0;
    for (size_t i = 0; i < CIRCLE_TOKENS && others <= CIRCLE_OTHERS; i++)
        others += last[i] != (last - piece)[i];
    return others <= CIRCLE_OTHERS;
}

bool circle_found(const int32_t *ids, size_t n)
{
    if (n < CIRCLE_TOKENS) return false;
    size_t before = n - CIRCLE_TOKENS;
    for (size_t piece = 1; piece <= CIRCLE_PIECE && piece <= before; piece++)
        if (has_piece(ids + before, piece)) return true;
    return false;
}
