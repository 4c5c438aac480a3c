#include "tui/text/forgot.h"

#include <string.h>

#include "base/utf8.h"
#include "base/utf8_width.h"

enum { QUOTE_BYTES = 36 };

struct forgot {
    struct transcript *t;
    int words;
    int64_t turn, last_turn; /* the first and the last one with such words */
    int quoted;              /* message of the longest run, [from, end) its bytes; -1 = none yet */
    size_t from, end;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t';
}

static int count_words(const char *s, size_t from, size_t end)
{
    int n = 0;
    for (size_t i = from; i < end; i++) n += !is_space(s[i]) && (i == 0 || is_space(s[i - 1]));
    return n;
}

/* Positions [from, end) of one message. */
static void add_run(struct forgot *f, int index, int64_t turn, int64_t from, int64_t end)
{
    size_t byte, byte_end, unused;
    const struct message *m = &f->t->messages[index];
    if (transcript_find(f->t, from, &byte, &unused) != index) return;
    if (transcript_find(f->t, end - 1, &unused, &byte_end) != index) return;
    int n = count_words(str_get(&m->text), byte, byte_end);
    if (n == 0) return;
    f->words += n;
    if (f->turn < 0) f->turn = turn;
    f->last_turn = turn;
    if (f->quoted >= 0 && byte_end - byte <= f->end - f->from) return;
    f->quoted = index;
    f->from = byte;
    f->end = byte_end;
}

static void add_positions(struct forgot *f, int64_t from, int64_t end)
{
    int64_t turn = 0;
    for (int i = 0; i < f->t->n; i++) {
        const struct message *m = &f->t->messages[i];
        turn += m->role == CHAT_USER;
        if (m->position < 0 || m->n_tokens <= 0) continue;
        int64_t a = from > m->position ? from : m->position;
        int64_t b = end < m->position + m->n_tokens ? end : m->position + m->n_tokens;
        if (a < b) add_run(f, i, turn, a, b);
    }
}

/* The range without the words that it cuts, unless it has only one: then with all of that. */
static void whole_words(const char *s, size_t n, size_t *from, size_t *end)
{
    size_t a = *from, b = *end;
    while (a > 0 && a < b && !is_space(s[a - 1])) a++;
    while (b < n && b > a && !is_space(s[b])) b--;
    if (count_words(s, a, b)) {
        *from = a;
        *end = b;
        return;
    }
    while (*from > 0 && !is_space(s[*from - 1])) --*from;
    while (*end < n && !is_space(s[*end])) ++*end;
}

/* "…found a noisy cellar…" */
static void put_quote(const struct forgot *f, struct str *out)
{
    const struct message *m = &f->t->messages[f->quoted];
    const char *s = str_get(&m->text);
    size_t from = f->from, end = f->end;
    whole_words(s, m->text.n, &from, &end);
    while (from < end && is_space(s[from])) from++;
    if (end - from > QUOTE_BYTES) {
        size_t cut = from + QUOTE_BYTES;
        while (cut > from && !is_space(s[cut])) cut--;
        end = cut > from ? cut : utf8_before(s, m->text.n, from + QUOTE_BYTES + 1);
    }
    while (end > from && is_space(s[end - 1])) end--;
    str_printf(out, ": \"%s", from > 0 ? "…" : "");
    for (size_t i = from; i < end; i++) str_append(out, is_space(s[i]) ? " " : s + i, 1);
    str_printf(out, "%s\"", end < m->text.n ? "…" : "");
}

int forgot_sentence(struct transcript *t, const struct retention *r,
                    const int64_t before[RETENTION_COLS], const int64_t now[RETENTION_COLS],
                    struct str *out)
{
    struct forgot f = {.t = t, .turn = -1, .quoted = -1};
    for (int c = 0, end; c < r->n_cols; c = end + 1) {
        for (end = c; end < r->n_cols && before[end] > 0 && now[end] == 0;) end++;
        if (end > c) add_positions(&f, c * r->col_width, end * r->col_width);
    }
    if (f.words == 0) return 0;
    str_printf(out, "forgot %d word%s of turn", f.words, f.words == 1 ? "" : "s");
    if (f.turn == f.last_turn)
        str_printf(out, " %lld", (long long)f.turn);
    else
        str_printf(out, "s %lld to %lld", (long long)f.turn, (long long)f.last_turn);
    put_quote(&f, out);
    return f.words;
}
