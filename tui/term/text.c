#include "tui/term/text.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/utf8_width.h"

static size_t step(const char *s, size_t n, int column, int *width)
{
    uint32_t cp;
    int length = utf8_next(s, n, &cp);
    if (length <= 0) {
        *width = 1;
        return 1;
    }
    *width = cp == '\t' ? 4 - column % 4 : utf8_width(cp);
    return (size_t)length;
}

size_t text_line(const char *s, size_t n, int width, size_t *n_shown)
{
    size_t at = 0, cut = 0, shown = 0; /* the last place to break: bytes taken, bytes drawn */
    int column = 0;
    bool word = false, wide = false; /* a word has begun; the character before was wide */
    if (width < 1) width = 1;
    for (; at < n && s[at] != '\n';) {
        int w;
        size_t length = step(s + at, n - at, column, &w);
        bool space = s[at] == ' ';
        if (at > 0 && w > 0 && !space && s[at - 1] != ' ' && (w == 2 || wide)) cut = shown = at;
        if (column + w > width && !space && at > 0) break;
        if (space && word) {
            /* spaces at the right edge are not drawn */
            if (s[at - 1] != ' ') shown = at;
            cut = at + 1;
        }
        word = word || !space;
        if (w > 0) wide = w == 2;
        column += w;
        at += length;
    }
    bool whole = at == n || s[at] == '\n';
    if (whole || cut == 0) cut = at;
    *n_shown = whole ? (column > width && shown > 0 && s[at - 1] == ' ' ? shown : at)
                     : (cut == at && shown == 0 ? at : shown);
    return cut + (at < n && s[at] == '\n');
}

int text_columns(const char *s, size_t n)
{
    int column = 0, w;
    for (size_t at = 0; at < n; column += w) at += step(s + at, n - at, column, &w);
    return column;
}

size_t text_at_column(const char *s, size_t n, int column)
{
    int x = 0, w;
    size_t at = 0;
    while (at < n) {
        size_t length = step(s + at, n - at, x, &w);
        if (x + w > column) break;
        x += w;
        at += length;
    }
    return at;
}
