/* sanitize: the one gate between foreign bytes and a terminal.
 *
 * Whatever a model, a file, a title or a clipboard holds goes through here before it is drawn or
 * printed on a terminal. What comes out is valid UTF-8 (or pure ASCII) in which the only control
 * characters are \n and \t. Everything else that could move, colour, hide or re-order text becomes
 * a visible mark: C0 and DEL as control pictures (^X in ASCII), C1, bidi controls, line separators
 * and invisible tag characters as <U+XXXX>, bytes that are no UTF-8 as U+FFFD. CR before LF
 * vanishes. */
#ifndef RETAIN_CLI_SANITIZE_H
#define RETAIN_CLI_SANITIZE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* Zero-initialise; holds what a piece of a stream ended in the middle of. */
struct sanitizer {
    bool ascii; /* the terminal takes no UTF-8: letters beyond ASCII become '?' */
    bool cr;
    char pending[4];
    int n_pending;
};

void sanitize_feed(struct sanitizer *z, const char *bytes, size_t n, struct str *out);
void sanitize_end(struct sanitizer *z, struct str *out); /* the stream is over */

/* All at once; with one_line, \n and \t are marked too. */
void sanitize(const char *bytes, size_t n, bool ascii, bool one_line, struct str *out);

#endif
