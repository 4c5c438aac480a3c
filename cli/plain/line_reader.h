/* line_reader: messages from standard input, line by line, interrupted by Ctrl-C. */
#ifndef RETAIN_CLI_CONTROL_LINE_READER_H
#define RETAIN_CLI_CONTROL_LINE_READER_H

#include <stdbool.h>

#include "base/str.h"

/* Zero-initialise. */
struct line_reader {
    struct str input; /* read and not yet used */
    bool interactive; /* a user types, not a pipe */
    bool ended;       /* the end came right after a line, which is used first */
    int error;        /* errno of a read that failed */
};

enum line_end { LINE_READ, LINE_EOF, LINE_FAILED, LINE_INTERRUPTED };

/* The next line without its end. */
enum line_end line_reader_line(struct line_reader *r, struct str *line);

/* The next line, and the lines that follow it at once: they are too fast to be typed, so they are
 * a paste, which is one message. Lines that waited before the prompt were typed ahead, one message
 * each. */
enum line_end line_reader_message(struct line_reader *r, struct str *text);

#endif
