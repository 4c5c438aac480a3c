/* Names and titles: which characters they may have, and how a title is shortened. */
#include "base/attached.h"
#include "store/db.h"

#include <string.h>
#include <utf8proc.h>

#include "base/utf8_width.h"

#define TITLE_COLUMNS 60

static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

bool db_name_valid(const char *name)
{
    size_t n = strnlen(name, STORE_NAME_MAX), i = 0;
    uint32_t c;
    if (n == 0 || n >= STORE_NAME_MAX) return false;
    while (i < n) {
        int len = utf8_next(name + i, n - i, &c);
        if (len <= 0 || is_control(c)) return false;
        i += (size_t)len;
    }
    return true;
}

/* Back from `n` to the last blank, unless that costs more than a third. */
static size_t whole_words(const char *out, size_t n)
{
    size_t k = n;
    while (k > 0 && out[k - 1] != ' ') k--;
    if (k > n - n / 3) n = k;
    while (n > 0 && out[n - 1] == ' ') n--;
    return n;
}

void db_title(char out[STORE_NAME_MAX], const char *text, size_t n)
{
    static const char more[] = "…";
    const size_t n_max = STORE_NAME_MAX - sizeof more; /* room for the dots and the NUL */
    size_t used = 0;
    int wide = 0;
    struct attached file;
    size_t skip = attached_skip(text, n);
    if (skip == n && attached_at(text, n, &file)) { /* no words: the file's name */
        text = file.name;
        n = file.n_name;
        skip = 0;
    }
    for (size_t i = skip; i < n;) {
        uint32_t c = 0;
        int width = utf8_next(text + i, n - i, &c);
        size_t len = width > 0 ? (size_t)width : 0;
        const char *from = text + i;
        i += len ? len : 1;
        if (c == '\n' && used > 0) break;
        if (c == '\t' || c == ' ') {
            if (used == 0 || out[used - 1] == ' ') continue;
            from = " ";
            c = ' ';
        }
        if (len == 0 || is_control(c)) continue;
        wide += utf8proc_charwidth((utf8proc_int32_t)c);
        if (used + len > n_max || wide > TITLE_COLUMNS) {
            used = whole_words(out, used);
            memcpy(out + used, more, sizeof more);
            return;
        }
        memcpy(out + used, from, len);
        used += len;
    }
    while (used > 0 && out[used - 1] == ' ') used--;
    out[used] = 0;
}
