/* decimal: numbers with a decimal point, independent of the locale. */
#ifndef RETAIN_BASE_DECIMAL_H
#define RETAIN_BASE_DECIMAL_H

#include <stdbool.h>

#include "base/str.h"

/* Digits with at most one point, up to 15 from the first that is not zero: exact in a double. *end:
 * the text after them. False: no digits. */
bool decimal_read(const char *text, const char **end, double *out);

/* As few digits as decimal_read needs to give the same float. */
void decimal_print(struct str *out, float x);

#endif
