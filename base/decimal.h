/* decimal: numbers with a point, whatever the locale says. */
#ifndef RETAIN_BASE_DECIMAL_H
#define RETAIN_BASE_DECIMAL_H

#include <stdbool.h>

#include "base/str.h"

/* Digits with at most one point, up to 15 from the first that is not zero: exact in a double.
 * *end: the text behind them. False: there are none. */
bool decimal_read(const char *text, const char **end, double *out);

/* As few digits as decimal_read needs to give the same float. */
void decimal_print(struct str *out, float x);

#endif
