/* fence: the code blocks of a Markdown text, between lines of ``` or ~~~ (CommonMark 4.5, but with
 * any indentation, as models write them in lists). */
#ifndef RETAIN_BASE_FENCE_H
#define RETAIN_BASE_FENCE_H

#include <stdbool.h>
#include <stddef.h>

struct fence {
    size_t at;           /* byte where its first line begins */
    size_t name, n_name; /* the rest of the first line, after its marks */
    size_t from, end;    /* the lines of code */
    size_t next;         /* byte after the block */
    bool closed;         /* else it ends with the text */
};

/* The end of the line at `at`, without its newline. */
size_t fence_line_end(const char *s, size_t n, size_t at);
/* Whether s[0, n), a line, opens a block. */
bool fence_opens(const char *s, size_t n);
/* The first block of s [n] that begins at or after the line at `at`. */
bool fence_next(const char *s, size_t n, size_t at, struct fence *out);

#endif
