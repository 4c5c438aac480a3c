#include "cli/control/recalled.h"

#include <string.h>

#include "base/utf8.h"

enum { PASSAGE_MAX = 60 }; /* bytes of a passage in a sentence */

/* The turn's part of a passage from its first whole sentence on; all of this part, if no sentence
 * begins in it. */
static const char *sentence_of(const struct session_window *w)
{
    const char *text = w->text + w->from, *end = w->text + w->end;
    for (const char *s = text; s + 12 < end; s++)
        if (strchr(".!?\n", *s) && (s[1] == ' ' || s[1] == '\n')) return s + 2;
    return text;
}

static void put_passage(const char *text, size_t max, struct str *out)
{
    size_t n = strlen(text), used = 0;
    while (n && (*text == ' ' || *text == '\n')) text++, n--;
    while (used < n && used < max) {
        int length = utf8_length(text + used, n - used);
        if (length <= 0) length = 1;
        if (text[used] == '\n')
            str_puts(out, " ");
        else
            str_append(out, text + used, (size_t)length);
        used += (size_t)length;
    }
    if (used < n) str_puts(out, "\xe2\x80\xa6");
}

void recalled_sentence(const struct session_recalled *r, struct str *out)
{
    const struct session_window *best = &r->windows[r->best];
    if (best->turn)
        str_printf(out, "remembered turn %lld: ", (long long)best->turn);
    else
        str_puts(out, "remembered: ");
    put_passage(sentence_of(best), PASSAGE_MAX, out);
    if (r->n > 1) str_printf(out, " and %d more passage%s", r->n - 1, r->n > 2 ? "s" : "");
    str_printf(out, ", %.1f ms", r->ms);
}

void recalled_lines(const struct session_recalled *r, const char *when, struct str *out)
{
    str_printf(out, r->n ? "this %s:" : "nothing %s", when);
    for (int i = 0; i < r->n; i++) {
        const struct session_window *w = &r->windows[i];
        str_puts(out, "\n  ");
        if (w->turn) str_printf(out, "turn %lld  ", (long long)w->turn);
        put_passage(w->text, 200, out);
    }
}
