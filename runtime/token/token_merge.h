/* merger: repeatedly joins the two neighbours that belong together most, until none do.
 *
 * What both kinds of tokenizer have in common. A heap holds the pairs that could be joined, best
 * first, leftmost among equals: n symbols cost n log n, however long a word is. */
#ifndef RETAIN_RUNTIME_TOKEN_TOKEN_MERGE_H
#define RETAIN_RUNTIME_TOKEN_TOKEN_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct token_merge_symbol {
    int32_t prev, next; /* neighbours, -1 at the ends */
    uint32_t at, n;     /* bytes of the text; n = 0: it went into its left neighbour */
    int32_t id;
};

struct token_merge_pair {
    double priority; /* larger is joined earlier */
    int32_t left, right;
    uint32_t n; /* bytes of both when the pair was seen */
    int32_t id; /* what the pair becomes */
};

struct token_merge {
    struct token_merge_symbol *symbols;
    size_t n, cap;
    struct token_merge_pair *heap;
    size_t n_heap, cap_heap;
    /* Whether neighbours a and b may be joined; then *id and *priority. */
    bool (*join)(const void *ctx, const struct token_merge_symbol *a,
                 const struct token_merge_symbol *b, int32_t *id, double *priority);
    const void *ctx;
};

void token_merge_release(struct token_merge *m);
void token_merge_clear(struct token_merge *m);

/* Appends a symbol. Out of memory ends in abort(), as in str. */
void token_merge_push(struct token_merge *m, size_t at, size_t n, int32_t id);

/* Joins all that can be. The result is read from symbols[0] (if n > 0) along `next`. */
void token_merge_run(struct token_merge *m);

#endif
