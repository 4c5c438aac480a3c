/* text: strings of a template; each byte is marked as the template's own or as from a message.
 *
 * A text never changes. Every operation keeps the mark of each byte, so that the finished prompt
 * tells which bytes a user or the model wrote, through all operations of the template: only in the
 * template's own bytes may the tokenizer recognise special tokens.
 *
 * Semantics are those of Python's str: positions and lengths count code points, blanks and letter
 * case follow Unicode. A byte that is not UTF-8 counts as one character. */
#ifndef RETAIN_RUNTIME_TEMPLATE_TEXT_H
#define RETAIN_RUNTIME_TEMPLATE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/template/heap.h"

#define TEXT_NONE SIZE_MAX /* not found */

struct text {
    const char *data;
    const uint8_t *marks; /* [n], not 0 = from a message; NULL = all are the template's own */
    size_t n;             /* bytes */
};

/* A text of the template's own bytes, which are not copied. */
struct text text_of(const char *literal);
struct text text_bytes(const char *data, size_t n);

struct text text_slice(struct text t, size_t from, size_t n); /* bytes */
bool text_equal(struct text a, struct text b);
bool text_is(struct text t, const char *literal);
int text_compare(struct text a, struct text b); /* < 0, 0, > 0, by code points */

/* The character at byte `at` < n: its length in bytes, its code point in *c. */
size_t text_char(struct text t, size_t at, uint32_t *c);
size_t text_length(struct text t);               /* in code points */
size_t text_offset(struct text t, size_t index); /* byte offset of that code point, at most n */

/* Offset of the first `what` at or after `from`; TEXT_NONE. */
size_t text_find(struct text t, struct text what, size_t from);

/* Removes blanks, or the characters in *chars, at the beginning and the end. */
struct text text_strip(struct heap *h, struct text t, const struct text *chars, bool left,
                       bool right);

enum text_case { TEXT_UPPER, TEXT_LOWER, TEXT_CAPITALIZE, TEXT_TITLE };
struct text text_to_case(struct heap *h, struct text t, enum text_case to);

/* Replaces all occurrences of `from`. */
struct text text_replace(struct heap *h, struct text t, struct text from, struct text to);
struct text text_repeat(struct heap *h, struct text t, int64_t n);
struct text text_join2(struct heap *h, struct text a, struct text b);

/* A growing text. Initialise with its heap; the result of builder_end is valid as long as the
 * heap. */
struct builder {
    struct heap *heap;
    char *data;
    uint8_t *marks;
    size_t n, cap, cap_marks;
};
void builder_put(struct builder *b, struct text t);
void builder_puts(struct builder *b, const char *literal);
void builder_printf(struct builder *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Adds a character that replaces one with this mark. */
void builder_char(struct builder *b, uint32_t c, uint8_t mark);
struct text builder_end(const struct builder *b);

#endif
