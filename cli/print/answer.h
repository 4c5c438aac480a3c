/* answer: prints a model's answer when there is no screen: to stdout, unchanged for files and
 * pipes, sanitised for terminals, unbuffered. */
#ifndef RETAIN_CLI_PRINT_ANSWER_H
#define RETAIN_CLI_PRINT_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "cli/print/sanitize.h"

struct answer {
    int fd;
    bool tty;
    struct sanitizer gate;
    struct str safe;
    int error; /* errno of the first failed write; nothing is written after it */
};

void answer_init(struct answer *a, int fd);
void answer_release(struct answer *a);
void answer_write(struct answer *a, const char *bytes, size_t n);
void answer_end(struct answer *a); /* the newline after it */

/* 0, or ERR_FAIL when writing failed. A reader that closed the pipe (EPIPE) is not a failure. */
int answer_check(const struct answer *a, struct err *e);

#endif
