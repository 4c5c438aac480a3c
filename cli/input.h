/* input: what several commands read the same way: a text, a list of numbers. */
#ifndef RETAIN_CLI_INPUT_H
#define RETAIN_CLI_INPUT_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct options;

/* The text of -p or -f; ERR_USAGE when neither was given. */
int input_text(const struct options *o, struct str *out, struct err *e);

/* Item i of a list of whole numbers from `min` on: 0, 1 past the end, or ERR_USAGE naming the
 * option. */
int input_number(const char *list, int i, const char *option, int64_t min, int64_t *out,
                 struct err *e);

#endif
