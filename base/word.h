/* word: the words of a text, as recall, other conversations and search compare them: runs of
 * letters and digits in small letters, whatever tokens they are made of. A character of a script
 * without spaces between words is a word, or joins those before it in the same piece. After an
 * apostrophe 'm, 're, 've and 'll are am, are, have and will ("I'm Ann." answers "Who am I?"), and
 * 's, 't and 'd are none. A final s of a word of four letters or more does not count, unless it
 * follows s, i or u ("The shop closes at 7." answers "When does the shop close?"). */
#ifndef RETAIN_BASE_WORD_H
#define RETAIN_BASE_WORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialise. */
struct word_reader {
    uint64_t hash; /* of the word so far */
    uint64_t stem; /* the same without an English ending */
    uint32_t last; /* its last letter */
    int n_letters;
    bool open;       /* the next letter belongs to it */
    bool quoted;     /* it follows an apostrophe */
    bool quote;      /* the last character was an apostrophe after a letter */
    char partial[4]; /* [n_partial] bytes of an incomplete character */
    int n_partial;
};

struct word_piece {
    uint32_t word; /* a hash of the last word in the piece so far, 0 = none */
    bool joins;    /* the last word of the piece before is a part of this one's first */
};

/* Reads the next bytes of a text, for example a token's. */
struct word_piece word_read(struct word_reader *r, const char *bytes, size_t n);

/* The next word of a text that is read from *at: bytes [*from, *at), and its hash. False: there is
 * none. */
bool word_next(struct word_reader *r, const char *text, size_t n, size_t *at, size_t *from,
               uint32_t *word);

#endif
