#include "tui/text/transcript.h"

#include "base/utf8.h"
#include "base/utf8_width.h"

enum { QUOTE_BYTES = 36 };

/* Bytes [from, end) of a message. */
struct run {
    int index;
    size_t from, end;
};

struct forgot {
    struct transcript *t;
    const struct retention *now;
    const uint16_t *before;
    int64_t n_before;
    bool *lost;
    int words;
    int64_t turn, last_turn;  /* the first and the last one with such words */
    struct run last, longest; /* of neighbouring words */
};

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t';
}

static bool is_lost(const struct forgot *f, int64_t position)
{
    return f->now->heads[position] == 0 && (position >= f->n_before || f->before[position] > 0);
}

/* Positions [from, end): one of them was lost, and none is left. */
static bool is_forgotten(const struct forgot *f, int64_t from, int64_t end)
{
    bool lost = false;
    for (int64_t p = from; p < end; p++) {
        if (p >= f->now->n_pos || f->now->heads[p] > 0) return false;
        lost = lost || is_lost(f, p);
    }
    return lost;
}

static void add_word(struct forgot *f, struct run word, int64_t turn)
{
    const char *s = str_get(&f->t->messages[word.index].text);
    size_t between = f->last.end;
    while (between < word.from && is_space(s[between])) between++;
    if (f->words > 0 && f->last.index == word.index && between == word.from)
        f->last.end = word.end;
    else
        f->last = word;
    if (f->last.end - f->last.from > f->longest.end - f->longest.from) f->longest = f->last;
    if (f->words++ == 0) f->turn = turn;
    f->last_turn = turn;
}

/* The end of the word at a byte. Scripts of wide characters set no spaces: each is a word. */
static size_t word_end(const char *s, size_t n, size_t at)
{
    const size_t from = at;
    while (at < n && !is_space(s[at])) {
        size_t next = utf8_after(s, n, at);
        bool wide = utf8_columns(s + at, next - at) == 2;
        if (wide && at > from) break;
        at = next;
        if (wide) break;
    }
    return at;
}

/* The words that contain bytes of [at, end). */
static void add_words(struct forgot *f, int index, int64_t turn, size_t at, size_t end)
{
    const struct message *m = &f->t->messages[index];
    const char *s = str_get(&m->text);
    while (at > 0 && !is_space(s[at - 1])) at--;
    while (at < end) {
        int64_t first, last;
        size_t next = word_end(s, m->text.n, at);
        if (next == at) {
            at++;
            continue;
        }
        transcript_positions(f->t, index, at, next - at, &first, &last);
        if (is_forgotten(f, first, last)) {
            add_word(f, (struct run){index, at, next}, turn);
            for (int64_t p = first; p < last; p++) f->lost[p / f->now->col_width] = true;
        }
        at = next;
    }
}

static void add_message(struct forgot *f, int index, int64_t turn)
{
    const struct message *m = &f->t->messages[index];
    int64_t from = m->position, end = m->position + m->n_tokens;
    size_t byte, byte_end, unused;
    if (m->position < 0) return;
    if (end > f->now->n_pos) end = f->now->n_pos;
    while (from < end && !is_lost(f, from)) from++;
    while (from < end && !is_lost(f, end - 1)) end--;
    if (from >= end || transcript_find(f->t, from, &byte, &unused) != index) return;
    if (transcript_find(f->t, end - 1, &unused, &byte_end) != index) return;
    add_words(f, index, turn, byte, byte_end);
}

/* "…found a noisy cellar…" */
static void put_quote(const struct forgot *f, struct str *out)
{
    const struct str *text = &f->t->messages[f->longest.index].text;
    const char *s = str_get(text);
    size_t from = f->longest.from, end = f->longest.end;
    if (end - from > QUOTE_BYTES) {
        size_t cut = from + QUOTE_BYTES;
        while (cut > from && !is_space(s[cut])) cut--;
        end = cut > from ? cut : utf8_before(s, text->n, from + QUOTE_BYTES + 1);
    }
    while (end > from && is_space(s[end - 1])) end--;
    str_printf(out, ": \"%s", from > 0 ? "…" : "");
    for (size_t i = from; i < end; i++) str_append(out, is_space(s[i]) ? " " : s + i, 1);
    str_printf(out, "%s\"", end < text->n ? "…" : "");
}

int forgot_sentence(struct transcript *t, const struct retention *now, const uint16_t *before,
                    int64_t n_before, bool lost[RETENTION_COLS], struct str *out)
{
    struct forgot f = {.t = t, .now = now, .before = before, .n_before = n_before, .lost = lost};
    int64_t turn = 0;
    for (int i = 0; i < t->n; i++) {
        turn += t->messages[i].role == CHAT_USER;
        add_message(&f, i, turn);
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
