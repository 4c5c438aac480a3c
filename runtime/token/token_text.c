#include "runtime/token/token_text.h"

#include <ctype.h>
#include <string.h>

#include "base/str.h"
#include "base/utf8.h"

static size_t trimmed(const char *s, size_t n)
{
    while (n > 0 && isspace((unsigned char)s[n - 1])) n--;
    return n;
}

/* Offset of the text in the spelled ids; -1 = not found. The same words may also occur in a system
 * text or a turn before it, so it is the last place that follows `before`; white space there
 * differs by vocabulary. */
static long find(const struct str *spelled, const char *before, const char *text, size_t n)
{
    const char *s = str_get(spelled), *at = s;
    size_t n_before = trimmed(before, strlen(before));
    long any = -1, found = -1;
    for (; (at = memmem(at, (size_t)(s + spelled->n - at), text, n)); at++) {
        any = at - s;
        const size_t end = trimmed(s, (size_t)any);
        if (end >= n_before && !memcmp(s + end - n_before, before, n_before)) found = any;
    }
    return found < 0 ? any : found;
}

/* For an answer, whose bytes need not be valid UTF-8: joins them as when it was generated. */
static bool align_joined(const struct tokenizer *t, const int32_t *ids, size_t n_ids,
                         const char *text, size_t n_text, uint16_t *n_bytes)
{
    struct utf8_join join = {0};
    struct str joined = {0};
    size_t n_told = 0, n;
    for (size_t i = 0; i <= n_ids; i++) {
        char out[3 * (UINT8_MAX + 4)];
        const char *bytes = i < n_ids ? tokenizer_bytes(t, ids[i], false, &n) : "";
        if (i == n_ids) n = 0;
        bool lead = joined.n == 0 && n > 0 && bytes[0] == ' ' && n_text > 0 && text[0] != ' ';
        if (n > UINT8_MAX) break;
        size_t n_out = utf8_join(&join, bytes + lead, n - lead, i == n_ids, out);
        str_append(&joined, out, n_out);
        if (i == n_ids) break;
        n_bytes[i] = (uint16_t)(join.n == 0 ? joined.n - n_told : n - lead);
        n_told += n_bytes[i];
    }
    bool same = joined.n == n_text && memcmp(str_get(&joined), text, n_text) == 0;
    if (!same) memset(n_bytes, 0, n_ids * sizeof *n_bytes);
    str_release(&joined);
    return same;
}

bool token_text_align(const struct tokenizer *t, const int32_t *ids, size_t n_ids,
                      const char *before, const char *text, size_t n_text, uint16_t *n_bytes)
{
    struct str spelled = {0};
    size_t lead = 0, n;
    while (lead < n_text && isspace((unsigned char)text[lead])) lead++;
    size_t n_body = trimmed(text + lead, n_text - lead);
    memset(n_bytes, 0, n_ids * sizeof *n_bytes);
    for (size_t i = 0; i < n_ids; i++) {
        const char *bytes = tokenizer_bytes(t, ids[i], true, &n);
        str_append(&spelled, bytes, n);
    }
    long found = n_body ? find(&spelled, before, text + lead, n_body) : -1;
    size_t from = (size_t)found, at = 0;
    while (found >= 0 && lead > 0 && from > 0 && spelled.data[from - 1] == text[lead - 1]) {
        from--; /* leading white space that the tokens spell */
        lead--;
        n_body++;
    }
    while (found >= 0 && lead + n_body < n_text && from + n_body < spelled.n &&
           spelled.data[from + n_body] == text[lead + n_body])
        n_body++; /* trailing white space that the template kept */
    for (size_t i = 0; found >= 0 && i < n_ids; i++) {
        tokenizer_bytes(t, ids[i], true, &n);
        size_t a = at > from ? at : from, end = at + n;
        if (end > from + n_body) end = from + n_body;
        size_t count = end > a ? end - a : 0;
        if (count && a == from) count += lead;
        n_bytes[i] = (uint16_t)(count < UINT16_MAX ? count : UINT16_MAX);
        at += n;
    }
    str_release(&spelled);
    return found >= 0 || (n_body && align_joined(t, ids, n_ids, text, n_text, n_bytes));
}
