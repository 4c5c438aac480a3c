/* token_merge: repeatedly joins the best pair of neighbouring symbols, until no pair can be joined.
 *
 * Used by both kinds of tokenizer. A heap holds the pairs that could be joined, best first,
 * leftmost on ties: n symbols cost n log n, however long a word is. */
#ifndef RETAIN_RUNTIME_TOKEN_TOKEN_MERGE_H
#define RETAIN_RUNTIME_TOKEN_TOKEN_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct token_merge_symbol {
    int32_t prev, next; /* neighbours, -1 at the ends */
    uint32_t at, n;     /* bytes of the text; n = 0: it was merged into its left neighbour */
    int32_t id;
};

struct token_merge_pair {
    double priority; /* larger is joined earlier */
    int32_t left, right;
    uint32_t n; /* bytes of both symbols when the pair was pushed */
    int32_t id; /* the id of the joined symbol */
};

struct token_merge {
    struct token_merge_symbol *symbols;
    size_t n, cap;
    struct token_merge_pair *heap;
    size_t n_heap, cap_heap;
    /* Whether neighbours a and b may be joined; sets *id and *priority if so. */
    bool (*join)(const void *ctx, const struct token_merge_symbol *a,
                 const struct token_merge_symbol *b, int32_t *id, double *priority);
    const void *ctx;
};

void token_merge_release(struct token_merge *m);
void token_merge_clear(struct token_merge *m);

/* Appends a symbol. Running out of memory calls abort(), as in str. */
void token_merge_push(struct token_merge *m, size_t at, size_t n, int32_t id);

/* Performs all possible joins. Read the result from symbols[0] (if n > 0) along `next`. */
void token_merge_run(struct token_merge *m);

#endif
