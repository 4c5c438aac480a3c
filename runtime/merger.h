/* merger: repeatedly joins the two neighbours that belong together most, until none do.
 *
 * What both kinds of tokenizer have in common. A heap holds the pairs that could be joined, best
 * first, leftmost among equals: n symbols cost n log n, however long a word is. */
#ifndef RETAIN_RUNTIME_MERGER_H
#define RETAIN_RUNTIME_MERGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct merger_symbol {
    int32_t prev, next; /* neighbours, -1 at the ends */
    uint32_t at, n;     /* bytes of the text; n = 0: it went into its left neighbour */
    int32_t id;
};

struct merger_pair {
    double priority; /* larger is joined earlier */
    int32_t left, right;
    uint32_t n; /* bytes of both when the pair was seen */
    int32_t id; /* what the pair becomes */
};

struct merger {
    struct merger_symbol *symbols;
    size_t n, cap;
    struct merger_pair *heap;
    size_t n_heap, cap_heap;
    /* Whether neighbours a and b may be joined; then *id and *priority. */
    bool (*join)(const void *ctx, const struct merger_symbol *a, const struct merger_symbol *b,
                 int32_t *id, double *priority);
    const void *ctx;
};

void merger_release(struct merger *m);
void merger_clear(struct merger *m);

/* Appends a symbol. Out of memory ends in abort(), as in str. */
void merger_push(struct merger *m, size_t at, size_t n, int32_t id);

/* Joins all that can be. The result is read from symbols[0] (if n > 0) along `next`. */
void merger_run(struct merger *m);

#endif
