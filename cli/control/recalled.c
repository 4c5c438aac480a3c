#include "cli/control/control_parts.h"

#include <string.h>
#include <time.h>

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

/* "turn 3", and on which day if not today. */
static void put_turn(const struct session_window *w, struct str *out)
{
    const time_t now = time(NULL), said = (time_t)(w->said_ms / 1000);
    struct tm today, day;
    char text[32];
    str_printf(out, "turn %lld", (long long)w->turn);
    localtime_r(&now, &today);
    localtime_r(&said, &day);
    if (!said || (day.tm_year == today.tm_year && day.tm_yday == today.tm_yday)) return;
    strftime(text, sizeof text, day.tm_year == today.tm_year ? "%b" : "%b %Y", &day);
    str_printf(out, " (%d %s)", day.tm_mday, text);
}

void recalled_sentence(const struct session_recalled *r, struct str *out)
{
    const struct session_window *best = &r->windows[r->best];
    str_puts(out, best->turn ? "remembered " : "remembered");
    if (best->turn) put_turn(best, out);
    str_puts(out, ": ");
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
        if (w->turn) put_turn(w, out);
        if (w->turn) str_puts(out, "  ");
        put_passage(w->text, 200, out);
    }
}
