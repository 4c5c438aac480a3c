/* wide: a text as code points and words, for metrics that are defined by Python programs.
 *
 * Lower case, white space, letters and \w are those of Python's str and re, so that a metric gives
 * the number that its benchmark's own program gives, in any script. */
#ifndef RETAIN_QUANT_FILES_WIDE_H
#define RETAIN_QUANT_FILES_WIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wide { /* zero-initialise */
    uint32_t *c;
    size_t n;
};

/* Replaces the text; each byte that is not UTF-8 becomes U+FFFD. */
void wide_read(struct wide *w, const char *utf8);
void wide_release(struct wide *w);

bool wide_is_space(uint32_t c);       /* str.isspace */
bool wide_is_word(uint32_t c);        /* \w */
bool wide_is_digit(uint32_t c);       /* \d */
bool wide_is_punctuation(uint32_t c); /* string.punctuation: of ASCII */

void wide_lower(struct wide *w);
void wide_upper(struct wide *w);
void wide_strip(struct wide *w);
void wide_remove(struct wide *w, bool (*is)(uint32_t c));
/* Replaces each of these ASCII characters. */
void wide_replace(struct wide *w, const char *characters, uint32_t by);
/* Replaces the whole words (between \b) of a list that ends with NULL by a space each. */
void wide_blank_words(struct wide *w, const char *const *words);
void wide_cut(struct wide *w, size_t from, size_t end); /* keeps [from, end) */

/* The place of an ASCII text at or after `from`; w->n = none. */
size_t wide_find(const struct wide *w, size_t from, const char *ascii);
bool wide_contains(const struct wide *w, const struct wide *part);
bool wide_starts(const struct wide *w, size_t from, const struct wide *start);
bool wide_equal(const struct wide *a, const struct wide *b);

/* ---- words ----------------------------------------------------------------------------------- */

struct words { /* zero-initialise */
    const struct wide *text;
    struct word {
        size_t at, n;
        uint32_t id; /* equal for equal words, once they are numbered */
    } * item;
    size_t n, max;
};

/* The functions that add words keep those that are in the list. */
void words_add(struct words *w, const struct wide *text, size_t at, size_t n);
void words_split(struct words *w, const struct wide *text); /* str.split() */
void words_characters(struct words *w, const struct wide *text);
void words_release(struct words *w);
bool words_is(const struct words *w, size_t i, const struct wide *word);

/* Gives equal words of both lists the same id, below a->n + b->n. */
void words_number(struct words *a, struct words *b);

/* The number of words that both have, counted as often as in the one with fewer. */
size_t words_common(const struct words *a, const struct words *b);
/* 2pr / (p + r) of it, 0 without a common word. */
double words_f1(const struct words *prediction, const struct words *answer);

#endif
