/* nearest: the known name that a misspelt word may mean, for "did you mean …?". */
#ifndef RETAIN_BASE_NEAREST_H
#define RETAIN_BASE_NEAREST_H

#include <stddef.h>

struct nearest {
    const char *word; /* [n], as it was typed */
    size_t n;
    const char *name;  /* the most similar one so far; NULL = none is similar */
    const char *other; /* another one as similar; NULL = none */
    int edits;         /* letters that are wrong, missing, too many, or swapped */
};

struct nearest nearest_to(const char *word, size_t n);

/* Offers a name, which must stay valid. Similar: at most two edits, one in a word of fewer than
 * four letters, and a letter in common; or one begins with all of the other, three letters at
 * least. */
void nearest_offer(struct nearest *to, const char *name);

#endif
