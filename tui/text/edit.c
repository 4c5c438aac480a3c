#include "tui/text/edit.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8_width.h"
#include "cli/print/num.h"

enum {
    FOLD_BYTES = 2000, /* a paste of at least this size is folded */
    FOLD_LINES = 16,
    SET_FOLD_BYTES = 256 << 10, /* so is other text of at least this size */
};

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
    c->rows = memory_more(c->rows, (size_t)c->n, &c->cap, sizeof *c->rows);
    c->rows[c->n++] = change;
}

static char *copy_bytes(const char *bytes, size_t n)
{
    char *copy = memory_grow(NULL, n + 1, 1);
    if (n) memcpy(copy, bytes, n);
    copy[n] = 0;
    return copy;
}

/* Replaces text[at, at + n_old) by other bytes. */
static void splice(struct str *text, size_t at, size_t n_old, const char *bytes, size_t n)
{
    const size_t tail = text->n - at - n_old;
    text->n = at + n + tail;
    str_reserve(text, text->n);
    memmove(text->data + at + n, text->data + at + n_old, tail);
    if (n) memcpy(text->data + at, bytes, n);
    text->data[text->n] = 0;
}

/* ---- screen lines --------------------------------------------------------------------------- */

static void push_start(struct edit_wrap *w, size_t at)
{
    w->starts = memory_more(w->starts, (size_t)w->n, &w->cap, sizeof *w->starts);
    w->starts[w->n++] = at;
}

/* Breaks lines from byte `at` to the end, or until one begins at old->starts[j] + grown: the rest
 * is then unchanged. Only starts beyond `changed`, the end of the change, are compared. */
static void cut_lines_like(struct edit *e, size_t at, size_t changed, const struct edit_wrap *old,
                           int j, size_t grown)
{
    const char *s = str_get(&e->text);
    struct edit_wrap *w = &e->wrap;
    for (bool more = true; more;) {
        size_t shown;
        push_start(w, at);
        size_t taken = utf8_line(s + at, e->text.n - at, w->width, &shown);
        more = taken > 0 && (s[at + taken - 1] == '\n' || at + taken < e->text.n);
        at += taken;
        while (old && j < old->n && old->starts[j] + grown < at) j++;
        if (!old || !more || j == old->n || at <= changed || old->starts[j] + grown != at) continue;
        for (; j < old->n; j++) push_start(w, old->starts[j] + grown);
        return;
    }
}

static void cut_lines(struct edit *e, size_t at, size_t n_old, size_t n)
{
    struct edit_wrap *w = &e->wrap;
    if (w->width == 0) return;
    if (w->n == 0) {
        cut_lines_like(e, 0, 0, NULL, 0, 0);
        return;
    }
    struct edit_wrap old = *w;
    int line = utf8_line_at(w->starts, w->n, at), j = line;
    /* a shortened word may now end the line before */
    line = line > 2 ? line - 2 : 0;
    while (j < old.n && old.starts[j] <= at + n_old) j++;
    size_t from = old.starts[line];
    w->starts = memory_grow(NULL, w->cap, sizeof *w->starts);
    memcpy(w->starts, old.starts, sizeof *w->starts * (size_t)line);
    w->n = line;
    cut_lines_like(e, from, at + n, &old, j, n - n_old); /* modulo 2^64: it may shrink */
    free(old.starts);
}

/* *inverse: the change that undoes this one. */
static void apply(struct edit *e, size_t at, size_t n_old, const char *bytes, size_t n,
                  struct edit_change *inverse)
{
    *inverse = (struct edit_change){.at = at, .n_new = n, .n_old = n_old, .cursor = e->cursor};
    inverse->old = copy_bytes(str_get(&e->text) + at, n_old);
    splice(&e->text, at, n_old, bytes, n);
    cut_lines(e, at, n_old, n);
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

/* ---- folds ---------------------------------------------------------------------------------- */

static void clear_folds(struct edit *e)
{
    for (int i = 0; i < e->n_folds; i++) {
        str_release(&e->folds[i].label);
        str_release(&e->folds[i].text);
    }
    e->n_folds = 0;
}

static int64_t count_lines(const char *text, size_t n)
{
    int64_t lines = 1;
    for (const char *c = text; (c = memchr(c, '\n', (size_t)(text + n - c))); c++)
        lines += c + 1 < text + n;
    return lines;
}

static const struct str *add_fold(struct edit *e, const char *text, size_t n)
{
    char lines[NUM_MAX], bytes[NUM_MAX];
    e->folds = memory_grow(e->folds, (size_t)(e->n_folds + 1), sizeof *e->folds);
    struct edit_fold *f = &e->folds[e->n_folds++];
    *f = (struct edit_fold){{0}, {0}};
    str_append(&f->text, text, n);
    const int64_t n_lines = count_lines(text, n);
    str_printf(&f->label, "[paste %d: %s line%s, %s]", e->n_folds, num_exact(n_lines, lines),
               n_lines == 1 ? "" : "s", num_bytes((int64_t)n, bytes));
    return &f->label;
}

/* The fold whose label begins at s[0, n), or NULL. */
static const struct edit_fold *fold_at(const struct edit *e, const char *s, size_t n)
{
    for (int i = 0; n > 0 && s[0] == '[' && i < e->n_folds; i++) {
        const struct str *label = &e->folds[i].label;
        if (n >= label->n && memcmp(s, label->data, label->n) == 0) return &e->folds[i];
    }
    return NULL;
}

void edit_full(const struct edit *e, struct str *out)
{
    const char *s = str_get(&e->text);
    size_t n = e->text.n, from = 0;
    for (size_t at = 0; e->n_folds > 0 && at < n;) {
        const char *bracket = memchr(s + at, '[', n - at);
        if (!bracket) break;
        at = (size_t)(bracket - s);
        const struct edit_fold *f = fold_at(e, s + at, n - at);
        if (f) {
            str_append(out, s + from, at - from);
            str_append(out, str_get(&f->text), f->text.n);
            from = at + f->label.n;
        }
        at = f ? from : at + 1;
    }
    str_append(out, s + from, n - from);
}

/* The first byte of the label that the cursor touches, or of the last one before it. */
static const struct edit_fold *find_fold(const struct edit *e, size_t *at)
{
    const char *s = str_get(&e->text);
    for (size_t i = e->cursor < e->text.n ? e->cursor + 1 : e->text.n; i-- > 0;) {
        const struct edit_fold *f = fold_at(e, s + i, e->text.n - i);
        if (!f) continue;
        *at = i;
        return f;
    }
    return NULL;
}

bool edit_unfold(struct edit *e)
{
    size_t at;
    const struct edit_fold *f = find_fold(e, &at);
    if (f) replace(e, at, f->label.n, str_get(&f->text), f->text.n);
    return f != NULL;
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
    clear_folds(e);
    free(e->folds);
    free(e->wrap.starts);
    str_release(&e->text);
    str_release(&e->killed);
    changes_release(&e->undo);
    changes_release(&e->redo);
}

void edit_set(struct edit *e, const char *text, size_t n)
{
    str_clear(&e->text);
    clear_folds(e);
    if (n < SET_FOLD_BYTES)
        str_append(&e->text, text, n);
    else
        str_puts(&e->text, str_get(add_fold(e, text, n)));
    e->wrap.n = 0;
    e->cursor = e->text.n;
    e->goal_column = -1;
    changes_clear(&e->undo);
    changes_clear(&e->redo);
}

/* A copy with LF line ends; *n its length. */
static char *copy_lines(const char *bytes, size_t *n)
{
    char *copy = copy_bytes(bytes, *n);
    size_t m = 0;
    for (size_t i = 0; i < *n; i++) {
        bool crlf = copy[i] == '\r' && i + 1 < *n && copy[i + 1] == '\n';
        if (!crlf && copy[i]) copy[m++] = copy[i] == '\r' ? '\n' : copy[i];
    }
    *n = m;
    return copy;
}

static void insert(struct edit *e, const char *bytes, size_t n, bool pasted)
{
    if (n == 0) return;
    char *copy = copy_lines(bytes, &n);
    if (pasted && (n >= FOLD_BYTES || count_lines(copy, n) >= FOLD_LINES)) {
        const struct str *label = add_fold(e, copy, n);
        replace(e, e->cursor, 0, label->data, label->n);
    } else {
        replace(e, e->cursor, 0, copy, n);
    }
    free(copy);
}

void edit_insert(struct edit *e, const char *bytes, size_t n)
{
    insert(e, bytes, n, false);
}

void edit_paste(struct edit *e, const char *bytes, size_t n)
{
    insert(e, bytes, n, true);
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

static void need_wrap(struct edit *e, int width)
{
    struct edit_wrap *w = &e->wrap;
    if (w->width == width && w->n > 0) return;
    w->width = width;
    w->n = 0;
    cut_lines(e, 0, 0, 0);
}

int edit_lines(struct edit *e, int width, int *cursor_line, int *cursor_column)
{
    need_wrap(e, width);
    *cursor_line = utf8_line_at(e->wrap.starts, e->wrap.n, e->cursor);
    size_t from = e->wrap.starts[*cursor_line];
    *cursor_column = utf8_columns(str_get(&e->text) + from, e->cursor - from);
    return e->wrap.n;
}

size_t edit_line_start(const struct edit *e, int line)
{
    return line < e->wrap.n ? e->wrap.starts[line] : e->text.n;
}

static bool move_line(struct edit *e, bool down, int *goal, size_t *to)
{
    const char *s = str_get(&e->text);
    need_wrap(e, e->width);
    int line = utf8_line_at(e->wrap.starts, e->wrap.n, e->cursor);
    size_t from = e->wrap.starts[line], shown;
    if (*goal < 0) *goal = utf8_columns(s + from, e->cursor - from);
    line += down ? 1 : -1;
    if (line < 0 || line >= e->wrap.n) return false;
    from = e->wrap.starts[line];
    utf8_line(s + from, e->text.n - from, e->width, &shown);
    *to = from + utf8_fit(s + from, shown, *goal);
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

/* One character, or a whole label next to the cursor. */
static size_t erase_target(const struct edit *e, enum edit_move to)
{
    const char *s = str_get(&e->text);
    const struct edit_fold *f;
    for (int i = 0; to == EDIT_LEFT && i < e->n_folds; i++) {
        size_t n = e->folds[i].label.n;
        if (n <= e->cursor && fold_at(e, s + e->cursor - n, n) == &e->folds[i])
            return e->cursor - n;
    }
    if (to == EDIT_RIGHT && (f = fold_at(e, s + e->cursor, e->text.n - e->cursor)))
        return e->cursor + f->label.n;
    return target(e, to);
}

/* Removes what is between the cursor and `at`; kept: for edit_yank. */
static void erase(struct edit *e, enum edit_move to, size_t at, bool kept)
{
    if (at == e->cursor && to == EDIT_LINE_END && at < e->text.n) at++; /* joins the next line */
    size_t from = at < e->cursor ? at : e->cursor;
    size_t n = at < e->cursor ? e->cursor - at : at - e->cursor;
    if (kept && n) {
        str_clear(&e->killed);
        str_append(&e->killed, str_get(&e->text) + from, n);
    }
    replace(e, from, n, "", 0);
}

void edit_erase(struct edit *e, enum edit_move to)
{
    erase(e, to, erase_target(e, to), false);
}

void edit_kill(struct edit *e, enum edit_move to)
{
    erase(e, to, target(e, to), true);
}

void edit_yank(struct edit *e)
{
    if (e->killed.n) edit_insert(e, e->killed.data, e->killed.n);
}
