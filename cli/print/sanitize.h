/* sanitize: makes untrusted bytes safe for a terminal.
 *
 * All text from a model, a file, a title or a clipboard is sanitised before it is drawn or printed
 * on a terminal. The result is valid UTF-8 (or pure ASCII) whose only control characters are \n and
 * \t. Everything else that could move, colour, hide or re-order text becomes a visible mark: C0 and
 * DEL as control pictures (^X in ASCII), C1, bidi controls, line separators and invisible tag
 * characters as <U+XXXX>, invalid UTF-8 as U+FFFD. CR before LF is dropped. */
#ifndef RETAIN_CLI_PRINT_SANITIZE_H
#define RETAIN_CLI_PRINT_SANITIZE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "base/utf8.h"

/* Zero-initialise; holds the incomplete character at the end of a piece of a stream. */
struct sanitizer {
    bool ascii;    /* the terminal does not support UTF-8: letters beyond ASCII become '?' */
    bool one_line; /* \n and \t are marked, too */
    bool cr;
    struct utf8_join join;
};

void sanitize_feed(struct sanitizer *z, const char *bytes, size_t n, struct str *out);
void sanitize_end(struct sanitizer *z, struct str *out); /* at the end of the stream */

/* Sanitises a whole text; with one_line, \n and \t are marked too. */
void sanitize(const char *bytes, size_t n, bool ascii, bool one_line, struct str *out);

/* $TERM names a terminal that answers or ignores xterm's queries, and ignores unknown sequences. */
bool terminal_is_polite(void);

#endif
