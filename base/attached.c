#include "base/attached.h"

#include <string.h>

#include "base/fence.h"

enum { FENCE_MIN = 3 };

static size_t ticks(const char *s, size_t n)
{
    size_t run = 0;
    while (run < n && s[run] == '`') run++;
    return run;
}

static bool is_name(const char *s, size_t n)
{
    return n > 0 && s[0] != ' ' && !memchr(s, '`', n) && (memchr(s, '.', n) || memchr(s, '/', n));
}

bool attached_at(const char *s, size_t n, struct attached *out)
{
    struct fence f;
    size_t fence = ticks(s, n);
    if (fence < FENCE_MIN || !fence_next(s, n, 0, &f) || f.at > 0 || !f.closed) return false;
    *out = (struct attached){.name = s + fence,
                             .text = s + f.from,
                             .n_name = f.name + f.n_name - fence,
                             .n_text = f.end - f.from,
                             .n = f.next};
    return is_name(out->name, out->n_name);
}

bool attached_next(const char *s, size_t n, size_t *at, struct attached *out)
{
    if (!attached_at(s + *at, n - *at, out)) return false;
    *at += out->n;
    while (*at < n && s[*at] == '\n') ++*at;
    return true;
}

size_t attached_skip(const char *s, size_t n)
{
    struct attached file;
    size_t at = 0;
    while (attached_next(s, n, &at, &file)) continue;
    return at;
}

void attached_put(struct str *out, const char *name, const char *text, size_t n)
{
    size_t fence = FENCE_MIN;
    for (size_t at = 0; at < n; at += 1 + ticks(text + at, n - at)) {
        size_t run = ticks(text + at, n - at);
        if (run >= fence) fence = run + 1;
    }
    for (size_t i = 0; i < fence; i++) str_puts(out, "`");
    str_printf(out, "%s%s\n", strpbrk(name, "./") ? "" : "./", name);
    str_append(out, text, n);
    if (n > 0 && text[n - 1] != '\n') str_puts(out, "\n");
    for (size_t i = 0; i < fence; i++) str_puts(out, "`");
    str_puts(out, "\n\n");
}
