#include "base/attached.h"

#include <string.h>

enum { FENCE_MIN = 3 };

size_t fence_line_end(const char *s, size_t n, size_t at)
{
    const char *newline = memchr(s + at, '\n', n - at);
    return newline ? (size_t)(newline - s) : n;
}

/* Length of the marks that the line s[at, end) begins with, 0 = none; *first: the first of them. */
static size_t marks_of(const char *s, size_t at, size_t end, size_t *first)
{
    while (at < end && (s[at] == ' ' || s[at] == '\t')) at++;
    size_t run = at;
    if (at == end || (s[at] != '`' && s[at] != '~')) return 0;
    while (run < end && s[run] == s[at]) run++;
    *first = at;
    if (run - at < FENCE_MIN || (s[at] == '`' && memchr(s + run, '`', end - run))) return 0;
    return run - at;
}

bool fence_opens(const char *s, size_t n)
{
    size_t first;
    return marks_of(s, 0, n, &first) > 0;
}

static void find_end(const char *s, size_t n, char mark, size_t length, struct fence *out)
{
    for (size_t at = out->from, first = 0; at < n;) {
        size_t end = fence_line_end(s, n, at), next = end < n ? end + 1 : n;
        size_t run = marks_of(s, at, end, &first);
        if (run >= length && s[first] == mark && s[end - 1] == mark) {
            out->end = at;
            out->next = next;
            out->closed = true;
            return;
        }
        at = next;
    }
    out->end = out->next = n;
}

bool fence_next(const char *s, size_t n, size_t at, struct fence *out)
{
    while (at < n) {
        size_t first, end = fence_line_end(s, n, at), next = end < n ? end + 1 : n;
        size_t length = marks_of(s, at, end, &first);
        if (length) {
            size_t name = first + length;
            while (name < end && s[name] == ' ') name++;
            *out = (struct fence){.at = at, .name = name, .n_name = end - name, .from = next};
            find_end(s, n, s[first], length, out);
            return true;
        }
        at = next;
    }
    return false;
}

/* ---- files ----------------------------------------------------------------------------------- */

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
