#include "tui/edit.h"

#include <stdlib.h>
#include <string.h>

#include "tui/text.h"
#include "tui/utf8.h"

/* ---- changes -------------------------------------------------------------------------------- */

static void changes_clear(struct edit_changes *c)
{
    for (int i = 0; i < c->n; i++) free(c->rows[i].old);
    c->n = 0;
}

static void changes_release(struct edit_changes *c)
{
    changes_clear(c);
    free(c->rows);
    memset(c, 0, sizeof *c);
}

static void changes_push(struct edit_changes *c, struct edit_change change)
{
    if (c->n == c->cap) {
        c->cap = c->cap ? 2 * c->cap : 32;
        c->rows = realloc(c->rows, sizeof *c->rows * (size_t)c->cap);
        if (!c->rows) abort();
    }
    c->rows[c->n++] = change;
}

static char *copy_bytes(const char *bytes, size_t n)
{
    char *copy = malloc(n + 1);
    if (!copy) abort();
    if (n) memcpy(copy, bytes, n);
    copy[n] = 0;
    return copy;
}

/* Puts bytes in the place of text[at, at + n_old). */
static void splice(struct str *text, size_t at, size_t n_old, const char *bytes, size_t n)
{
    if (n > n_old)
        for (size_t grow = n - n_old; grow > 0;) { /* any bytes will do: they are moved over */
            size_t part = grow < n ? grow : n;
            str_append(text, bytes, part);
            grow -= part;
        }
    else
        text->n -= n_old - n;
    if (!text->data) return;
    size_t tail = text->n - at - n;
    memmove(text->data + at + n, text->data + at + n_old, tail);
    if (n) memcpy(text->data + at, bytes, n);
    text->data[text->n] = 0;
}

/* The change that undoes this one is left in *inverse. */
static void apply(struct edit *e, size_t at, size_t n_old, const char *bytes, size_t n,
                  struct edit_change *inverse)
{
    *inverse = (struct edit_change){.at = at, .n_new = n, .n_old = n_old, .cursor = e->cursor};
    inverse->old = copy_bytes(str_get(&e->text) + at, n_old);
    splice(&e->text, at, n_old, bytes, n);
    e->cursor = at + n;
    e->goal_column = -1;
}

static void replace(struct edit *e, size_t at, size_t n_old, const char *bytes, size_t n)
{
    struct edit_change change;
    if (n_old == 0 && n == 0) return;
    struct edit_change *last = e->undo.n ? &e->undo.rows[e->undo.n - 1] : NULL;
    bool typed = n_old == 0 && n <= 4 && bytes[0] != '\n';
    apply(e, at, n_old, bytes, n, &change);
    changes_clear(&e->redo);
    bool word_ends = bytes && n == 1 && bytes[0] == ' ';
    if (typed && !word_ends && last && last->typed && last->at + last->n_new == at) {
        last->n_new += n;
        free(change.old);
        return;
    }
    change.typed = typed;
    changes_push(&e->undo, change);
}

static bool revert(struct edit *e, struct edit_changes *from, struct edit_changes *to)
{
    struct edit_change inverse;
    if (from->n == 0) return false;
    struct edit_change change = from->rows[--from->n];
    apply(e, change.at, change.n_new, change.old, change.n_old, &inverse);
    if (from == &e->undo) e->cursor = change.cursor;
    free(change.old);
    changes_push(to, inverse);
    return true;
}

bool edit_undo(struct edit *e)
{
    return revert(e, &e->undo, &e->redo);
}

bool edit_redo(struct edit *e)
{
    return revert(e, &e->redo, &e->undo);
}

/* ---- life ----------------------------------------------------------------------------------- */

void edit_init(struct edit *e)
{
    memset(e, 0, sizeof *e);
    e->goal_column = -1;
    e->width = 80;
}

void edit_release(struct edit *e)
{
    str_release(&e->text);
    str_release(&e->killed);
    changes_release(&e->undo);
    changes_release(&e->redo);
}

void edit_set(struct edit *e, const char *text, size_t n)
{
    str_clear(&e->text);
    str_append(&e->text, text, n);
    e->cursor = n;
    e->goal_column = -1;
    changes_clear(&e->undo);
    changes_clear(&e->redo);
}

void edit_insert(struct edit *e, const char *bytes, size_t n)
{
    if (n == 0) return;
    char *copy = copy_bytes(bytes, n);
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        bool crlf = copy[i] == '\r' && i + 1 < n && copy[i + 1] == '\n';
        if (!crlf) copy[m++] = copy[i] == '\r' ? '\n' : copy[i];
    }
    replace(e, e->cursor, 0, copy, m);
    free(copy);
}

/* ---- moving --------------------------------------------------------------------------------- */

static bool word_byte(char c)
{
    unsigned char u = (unsigned char)c;
    return u >= 0x80 || (u >= '0' && u <= '9') || (u >= 'A' && u <= 'Z') ||
           (u >= 'a' && u <= 'z') || u == '_';
}

static size_t word_left(const char *s, size_t at)
{
    while (at > 0 && !word_byte(s[at - 1])) at--;
    while (at > 0 && word_byte(s[at - 1])) at--;
    return at;
}

static size_t word_right(const char *s, size_t n, size_t at)
{
    while (at < n && !word_byte(s[at])) at++;
    while (at < n && word_byte(s[at])) at++;
    return at;
}

/* The screen line that holds `at`: its first byte, shown bytes, and the first byte of the line
 * before it. */
struct place {
    size_t from, n_shown, before;
    int line;
};

static struct place place_of(const struct edit *e, int width, size_t at)
{
    const char *s = str_get(&e->text);
    struct place p = {0};
    for (;;) {
        size_t taken = text_line(s + p.from, e->text.n - p.from, width, &p.n_shown);
        bool newline = taken > 0 && s[p.from + taken - 1] == '\n';
        bool last = p.from + taken >= e->text.n && !newline;
        if (last || at < p.from + taken) return p;
        p.before = p.from;
        p.from += taken;
        p.line++;
    }
}

int edit_lines(const struct edit *e, int width, int *cursor_line, int *cursor_column)
{
    struct place cursor = place_of(e, width, e->cursor);
    *cursor_line = cursor.line;
    *cursor_column = text_columns(str_get(&e->text) + cursor.from, e->cursor - cursor.from);
    return place_of(e, width, e->text.n).line + 1;
}

static bool move_line(const struct edit *e, bool down, int *goal, size_t *to)
{
    const char *s = str_get(&e->text);
    struct place here = place_of(e, e->width, e->cursor);
    if (*goal < 0) *goal = text_columns(s + here.from, e->cursor - here.from);
    if (!down && here.line == 0) return false;
    size_t from = here.before, shown;
    if (down) {
        from = here.from + text_line(s + here.from, e->text.n - here.from, e->width, &shown);
        bool ends = from >= e->text.n && (from == here.from || s[from - 1] != '\n');
        if (ends) return false;
    }
    text_line(s + from, e->text.n - from, e->width, &shown);
    *to = from + text_at_column(s + from, shown, *goal);
    return true;
}

static size_t target(const struct edit *e, enum edit_move move)
{
    const char *s = str_get(&e->text);
    size_t n = e->text.n, at = e->cursor;
    switch (move) {
    case EDIT_LEFT: return utf8_before(s, n, at);
    case EDIT_RIGHT: return utf8_after(s, n, at);
    case EDIT_WORD_LEFT: return word_left(s, at);
    case EDIT_WORD_RIGHT: return word_right(s, n, at);
    case EDIT_LINE_START:
        while (at > 0 && s[at - 1] != '\n') at--;
        return at;
    case EDIT_LINE_END:
        while (at < n && s[at] != '\n') at++;
        return at;
    case EDIT_START: return 0;
    case EDIT_END: return n;
    case EDIT_UP:
    case EDIT_DOWN: break;
    }
    return at;
}

bool edit_move(struct edit *e, enum edit_move move)
{
    size_t to = e->cursor;
    int goal = e->goal_column;
    if (move == EDIT_UP || move == EDIT_DOWN) {
        if (!move_line(e, move == EDIT_DOWN, &goal, &to)) return false;
    } else {
        to = target(e, move);
        goal = -1;
        if (to == e->cursor) return false;
    }
    e->cursor = to;
    e->goal_column = goal;
    return true;
}

void edit_erase(struct edit *e, enum edit_move to)
{
    size_t at = target(e, to);
    if (at == e->cursor && to == EDIT_LINE_END && at < e->text.n) at++; /* join the next line */
    size_t from = at < e->cursor ? at : e->cursor;
    size_t end = at < e->cursor ? e->cursor : at;
    replace(e, from, end - from, "", 0);
}

void edit_kill(struct edit *e, enum edit_move to)
{
    size_t at = target(e, to);
    if (at == e->cursor && to == EDIT_LINE_END && at < e->text.n) at++;
    if (at == e->cursor) return;
    size_t from = at < e->cursor ? at : e->cursor;
    size_t n = at < e->cursor ? e->cursor - at : at - e->cursor;
    str_clear(&e->killed);
    str_append(&e->killed, str_get(&e->text) + from, n);
    replace(e, from, n, "", 0);
}

void edit_yank(struct edit *e)
{
    if (e->killed.n) edit_insert(e, e->killed.data, e->killed.n);
}

void edit_transpose(struct edit *e)
{
    const char *s = str_get(&e->text);
    size_t n = e->text.n;
    size_t right = e->cursor == n ? utf8_before(s, n, n) : e->cursor;
    size_t left = utf8_before(s, n, right), end = utf8_after(s, n, right);
    if (left == right || right == end || s[left] == '\n' || s[right] == '\n') return;
    char *swapped = copy_bytes(s + left, end - left);
    memcpy(swapped, s + right, end - right);
    memcpy(swapped + (end - right), s + left, right - left);
    replace(e, left, end - left, swapped, end - left);
    free(swapped);
}
