#include "base/decimal.h"

#include <ctype.h>
#include <stdio.h>

/* Not strtod, which expects a comma instead of the point after the screens set the user's
 * locale. */
bool decimal_read(const char *text, const char **end, double *out)
{
    double n = 0, scale = 1;
    int n_digits = 0, n_points = 0;
    bool any = false;
    for (; isdigit((unsigned char)*text) || (*text == '.' && n_points == 0); text++) {
        if (*text == '.') {
            n_points++;
            continue;
        }
        any = true;
        n = n * 10 + (*text - '0');
        if (n_points) scale *= 10;
        if (n > 0 && ++n_digits > 15) return false;
    }
    *end = text;
    *out = n / scale;
    return any;
}

void decimal_print(struct str *out, float x)
{
    char text[64];
    for (int n = 0; n <= 54; n++) { /* the least float has its first digit at the 45th place */
        const char *end;
        double again;
        snprintf(text, sizeof text, "%.*f", n, (double)x);
        if (!decimal_read(text, &end, &again) || (float)again == x) break;
    }
    str_puts(out, text);
}
