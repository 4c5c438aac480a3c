#include "base/fence.h"

#include <string.h>

enum { MARKS_MIN = 3 };

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
    if (run - at < MARKS_MIN || (s[at] == '`' && memchr(s + run, '`', end - run))) return 0;
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
