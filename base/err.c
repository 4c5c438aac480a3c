#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *e, int code, const char *fmt, ...)
{
    if (e) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(e->text, sizeof e->text, fmt, ap);
        va_end(ap);
        e->code = code;
    }
    return code;
}

int err_prefix(struct err *e, const char *fmt, ...)
{
    char old[sizeof e->text];
    memcpy(old, e->text, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof e->text)
        snprintf(e->text + n, sizeof e->text - (size_t)n, ": %s", old);
    return e->code;
}

int err_exit_status(int code)
{
    switch (code) {
    case 0: return 0;
    case ERR_USAGE: return 2;
    case ERR_FORMAT: return 3;
    case ERR_FIT: return 4;
    case ERR_STOP: return 130;
    default: return 1;
    }
}
