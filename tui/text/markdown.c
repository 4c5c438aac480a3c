#include "tui/text/markdown.h"

#include <md4c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attached.h"
#include "base/memory.h"
#include "base/str.h"
#include "tui/term/grid.h"
#include "base/utf8_width.h"

enum {
    BLOCK_MAX = 64 << 10, /* a longer paragraph is drawn raw: md4c would parse it for every frame */
    DEPTH_MAX = 12,       /* indented levels of nested lists and quotes */
    COLUMNS_MAX = 16,     /* of a table */
    SPANS_MAX = 256,      /* of a line */
    MARKS_MAX = 64,       /* nested open emphasis */
    COPY_COLUMNS = 14,    /* "/copy code 999" */
};

/* A run of visible text: from byte `at` on it is text[from, …). */
struct seg {
    size_t at, from, n;
    uint8_t attr;
};

/* The visible text of a paragraph or a cell, before it is broken into lines. */
struct leaf {
    struct str seen;
    struct seg *segs;
    int n_segs;
    size_t cap_segs;
};

struct container {
    uint16_t x, w;          /* marks at the first line, and the indentation of the others */
    struct span mark, task; /* n 0 = none */
    bool quote, shown;
};

struct table_cell {
    struct leaf leaf;
    int row, column, align;
};

struct md {
    const char *source;       /* the block without its indentation, with open marks closed */
    size_t n_source, n_ours;  /* n_ours: without the bytes appended to close it */
    size_t *starts, *origins; /* of each of its lines: in source and in the text */
    int n_lines;
    int width, indent;
    size_t at; /* source already visible */
    bool after_mark;
    int bold, em, code, strike;
    bool heading;
    struct container stack[DEPTH_MAX];
    int depth, ignored;
    struct leaf leaf;
    struct table_cell *cells; /* of the current table; NULL = none */
    int n_cells, row, column;
    size_t cap_cells;
    size_t table_at;
    markdown_line *line;
    void *ctx;
};

/* ---- bytes ---------------------------------------------------------------------------------- */

/* The byte of the text for a byte of the source. */
static size_t origin(const struct md *m, size_t at)
{
    const int line = utf8_line_at(m->starts, m->n_lines, at);
    return m->origins[line] + (at - m->starts[line]);
}

static void leaf_clear(struct leaf *l)
{
    str_clear(&l->seen);
    l->n_segs = 0;
}

static void leaf_release(struct leaf *l)
{
    str_release(&l->seen);
    free(l->segs);
    memset(l, 0, sizeof *l);
}

/* Makes source bytes visible; a piece never crosses a line, so its origin is contiguous. */
static void see(struct md *m, size_t at, size_t n, enum attr attr)
{
    struct leaf *l = &m->leaf;
    if (at + n > m->n_ours) n = m->n_ours > at ? m->n_ours - at : 0;
    if (n == 0) return;
    l->segs = memory_more(l->segs, (size_t)l->n_segs, &l->cap_segs, sizeof *l->segs);
    l->segs[l->n_segs++] = (struct seg){l->seen.n, origin(m, at), n, (uint8_t)attr};
    str_append(&l->seen, m->source + at, n);
}

/* ---- lines ---------------------------------------------------------------------------------- */

struct row {
    struct span spans[SPANS_MAX];
    int n;
    size_t from, end; /* text that is covered; from > end: none yet */
};

static void row_put(struct row *r, struct span s)
{
    if (r->n == SPANS_MAX || s.n == 0) return;
    r->spans[r->n++] = s;
    if (s.from > SPAN_GLYPH(SPAN_GLYPHS)) return;
    if (r->from > r->end || s.from < r->from) r->from = s.from;
    if (s.from + s.n > r->end || r->end == SIZE_MAX) r->end = s.from + s.n;
}

static void row_emit(struct md *m, struct row *r)
{
    if (r->n == 0 || r->from > r->end) r->from = r->end = origin(m, m->at);
    m->line(m->ctx, r->from, r->end - r->from, r->spans, r->n);
}

/* Adds seen[a, a + n) of a leaf, from column x. */
static void row_leaf(struct row *r, const struct leaf *l, size_t a, size_t n, int x)
{
    for (int i = 0; i < l->n_segs; i++) {
        const struct seg *s = &l->segs[i];
        size_t from = s->at > a ? s->at : a, end = s->at + s->n < a + n ? s->at + s->n : a + n;
        if (from >= end) continue;
        row_put(r, (struct span){(uint32_t)(s->from + (from - s->at)), (uint32_t)(end - from),
                                 (uint16_t)(x + utf8_columns(str_get(&l->seen) + a, from - a)),
                                 s->attr});
    }
}

/* Adds bars of quotes, and the marks of items on their first line. Returns the column of the
 * text. */
static int row_begin(struct md *m, struct row *r)
{
    int x = m->indent;
    *r = (struct row){.from = 1, .end = 0};
    for (int i = 0; i < m->depth; i++) {
        struct container *c = &m->stack[i];
        if (c->quote || !c->shown) row_put(r, c->mark);
        if (!c->shown) row_put(r, c->task);
        c->shown = true;
        x = c->x + c->w;
    }
    return x;
}

static void flush(struct md *m)
{
    struct leaf *l = &m->leaf;
    const char *s = str_get(&l->seen);
    size_t n = l->seen.n;
    if (m->cells || n == 0) return;
    for (size_t at = 0; at < n;) {
        struct row r;
        size_t shown;
        int x = row_begin(m, &r), width = m->width - x;
        size_t taken = utf8_line(s + at, n - at, width > 8 ? width : 8, &shown);
        row_leaf(&r, l, at, shown, x);
        row_emit(m, &r);
        at += taken;
    }
    leaf_clear(l);
}

/* ---- tables --------------------------------------------------------------------------------- */

static void add_cell(struct md *m, int align)
{
    m->cells = memory_more(m->cells, (size_t)m->n_cells, &m->cap_cells, sizeof *m->cells);
    m->cells[m->n_cells++] = (struct table_cell){m->leaf, m->row, m->column++, align};
    memset(&m->leaf, 0, sizeof m->leaf);
}

static int cell_columns(const struct table_cell *c)
{
    return utf8_columns(str_get(&c->leaf.seen), c->leaf.seen.n);
}

/* Returns the byte of the text that it ends at. */
static size_t table_row(struct md *m, const int *widths, int first, int end)
{
    struct row r;
    int x = row_begin(m, &r), column = 0;
    for (int i = first; i < end; i++) {
        const struct table_cell *c = &m->cells[i];
        int blank = widths[c->column] - cell_columns(c);
        int shift = c->align == MD_ALIGN_RIGHT    ? blank
                    : c->align == MD_ALIGN_CENTER ? blank / 2
                                                  : 0;
        for (; column < c->column; column++) x += widths[column] + 3;
        if (c->column > 0)
            row_put(&r, (struct span){SPAN_GLYPH(SPAN_BAR), 1, (uint16_t)(x - 2), ATTR_DIM});
        row_leaf(&r, &c->leaf, 0, c->leaf.seen.n, x + shift);
    }
    row_emit(m, &r);
    return r.end;
}

/* Draws a table that does not fit as it was written. */
static void raw_lines(struct md *m, size_t from, size_t end)
{
    while (from < end) {
        const char *newline = memchr(m->source + from, '\n', end - from);
        size_t n = newline ? (size_t)(newline - m->source) - from : end - from;
        see(m, from, n, ATTR_TEXT);
        flush(m);
        from += n + 1;
    }
}

static void end_table(struct md *m)
{
    struct table_cell *cells = m->cells;
    int n = m->n_cells, widths[COLUMNS_MAX] = {0}, total = m->indent, columns = 0;
    for (int i = 0; i < n; i++) {
        int w = cell_columns(&cells[i]), c = cells[i].column;
        if (c >= columns) columns = c + 1;
        if (c < COLUMNS_MAX && w > widths[c]) widths[c] = w;
    }
    for (int c = 0; c < columns && c < COLUMNS_MAX; c++) total += widths[c] + (c ? 3 : 0);
    if (m->depth > 0) total += m->stack[m->depth - 1].x + m->stack[m->depth - 1].w;
    bool fits = columns <= COLUMNS_MAX && total <= m->width;
    for (int i = 0, next; fits && i < n; i = next) {
        for (next = i; next < n && cells[next].row == cells[i].row;) next++;
        size_t row_end = table_row(m, widths, i, next);
        if (i > 0) continue;
        struct row r;
        int x = row_begin(m, &r);
        row_put(&r, (struct span){SPAN_GLYPH(SPAN_RULE), (uint32_t)(total - x > 1 ? total - x : 1),
                                  (uint16_t)x, ATTR_DIM});
        r.from = r.end = row_end;
        row_emit(m, &r);
    }
    for (int i = 0; i < n; i++) leaf_release(&cells[i].leaf);
    free(cells);
    m->cells = NULL;
    m->n_cells = 0;
    m->cap_cells = 0;
    size_t end = m->at; /* the end of the last cell; its line continues */
    while (end < m->n_source && m->source[end] != '\n') end++;
    if (!fits) raw_lines(m, m->table_at, end);
}

/* ---- containers ----------------------------------------------------------------------------- */

static void push(struct md *m, struct container c)
{
    int x = m->indent;
    if (m->depth > 0) x = m->stack[m->depth - 1].x + m->stack[m->depth - 1].w;
    if (m->depth == DEPTH_MAX || x > m->width / 2) {
        m->ignored++;
        return;
    }
    c.x = (uint16_t)x;
    c.mark.x = (uint16_t)x;
    c.task.x = (uint16_t)(x + 2);
    m->stack[m->depth++] = c;
}

static void pop(struct md *m)
{
    if (m->ignored > 0)
        m->ignored--;
    else if (m->depth > 0)
        m->depth--;
}

/* An item's own mark, between the text seen so far and its first text. */
static void enter_item(struct md *m, const MD_BLOCK_LI_DETAIL *d)
{
    const char *s = m->source;
    size_t at = m->at, n = m->n_source;
    if (at > 0 && s[at - 1] != '\n' && !m->after_mark)
        while (at < n && s[at++] != '\n') continue;
    while (at < n && (s[at] == ' ' || s[at] == '\n' || s[at] == '>' || s[at] == '\t')) at++;
    struct container c = {.w = 2};
    size_t end = at;
    while (end < n && s[end] >= '0' && s[end] <= '9') end++;
    if (end < n) end++;
    if (end > at) {
        bool bullet = end == at + 1;
        c.mark = (struct span){bullet ? SPAN_GLYPH(SPAN_BULLET) : (uint32_t)origin(m, at),
                               (uint32_t)(end - at), 0, ATTR_KEY};
        c.w = (uint16_t)(end - at + 1);
        m->at = end;
        m->after_mark = true;
    }
    if (d->is_task && d->task_mark_offset > 0 && d->task_mark_offset + 2 <= n) {
        c.task = (struct span){(uint32_t)origin(m, d->task_mark_offset - 1), 3, 0, ATTR_KEY};
        c.w = (uint16_t)(c.w + 4);
    }
    push(m, c);
}

static int enter_block(MD_BLOCKTYPE type, void *detail, void *ctx)
{
    struct md *m = ctx;
    flush(m);
    switch (type) {
    case MD_BLOCK_QUOTE:
        push(m, (struct container){
                    .w = 2, .mark = {SPAN_GLYPH(SPAN_BAR), 1, 0, ATTR_DIM}, .quote = true});
        break;
    case MD_BLOCK_LI: enter_item(m, detail); break;
    case MD_BLOCK_H: {
        /* "Title" and "===" below it: the title is already on the screen, and stays unchanged */
        size_t line = m->at;
        while (line < m->n_source && strchr(" \n>-*+", m->source[line])) line++;
        m->heading = line < m->n_source && m->source[line] == '#';
        break;
    }
    case MD_BLOCK_TABLE:
        m->table_at = m->at;
        if (m->at > 0 && m->source[m->at - 1] != '\n' && !m->after_mark)
            while (m->table_at < m->n_source && m->source[m->table_at++] != '\n') continue;
        m->row = 0;
        m->cells = memory_more(NULL, 0, &m->cap_cells, sizeof *m->cells);
        break;
    case MD_BLOCK_TR: m->column = 0; break;
    default: break;
    }
    return 0;
}

static void rule(struct md *m)
{
    struct row r;
    int x = row_begin(m, &r), w = m->width - x < 40 ? m->width - x : 40;
    row_put(&r,
            (struct span){SPAN_GLYPH(SPAN_RULE), (uint32_t)(w > 1 ? w : 1), (uint16_t)x, ATTR_DIM});
    row_emit(m, &r);
}

static int leave_block(MD_BLOCKTYPE type, void *detail, void *ctx)
{
    struct md *m = ctx;
    switch (type) {
    case MD_BLOCK_TH:
    case MD_BLOCK_TD: add_cell(m, (int)((MD_BLOCK_TD_DETAIL *)detail)->align); return 0;
    case MD_BLOCK_TR: m->row++; return 0;
    case MD_BLOCK_TABLE: end_table(m); return 0;
    default: break;
    }
    flush(m);
    if (type == MD_BLOCK_H) m->heading = false;
    if (type == MD_BLOCK_HR) rule(m);
    if (type == MD_BLOCK_LI && m->ignored == 0 && m->depth > 0 && !m->stack[m->depth - 1].shown) {
        struct row r; /* an empty item */
        row_begin(m, &r);
        row_emit(m, &r);
    }
    if (type == MD_BLOCK_QUOTE || type == MD_BLOCK_LI) pop(m);
    return 0;
}

/* ---- text ----------------------------------------------------------------------------------- */

static enum attr attr_of(const struct md *m)
{
    if (m->code) return ATTR_CODE;
    if (m->bold || m->heading || (m->cells && m->row == 0)) return ATTR_BOLD;
    if (m->em) return ATTR_EMPHASIS;
    return m->strike ? ATTR_DIM : ATTR_TEXT;
}

/* "[", or "](address)" after a link's text: addresses must be visible. */
static void see_bracket(struct md *m, bool opening)
{
    const char *s = m->source;
    size_t at = m->at, n = m->n_source, end;
    if (opening) {
        while (at < n && s[at] != '[' && s[at] != '<' && s[at] != '\n') at++;
        if (at == n || s[at] != '[') return;
        if (at > m->at && s[at - 1] == '!') see(m, at - 1, 1, ATTR_DIM);
        see(m, at, 1, ATTR_DIM);
        m->at = at + 1;
        return;
    }
    while (at < n && (s[at] == '*' || s[at] == '_' || s[at] == '`' || s[at] == '~')) at++;
    if (at >= n || s[at] != ']') return;
    end = at + 1;
    if (end < n && (s[end] == '(' || s[end] == '[')) {
        char closing = s[end] == '(' ? ')' : ']';
        int depth = 0;
        for (; end < n && s[end] != '\n'; end++) {
            if (s[end] == '(' && closing == ')') depth++;
            if (s[end] == closing && --depth <= 0) break;
        }
        if (end < n && s[end] == closing) end++;
    }
    see(m, at, end - at, ATTR_DIM);
    m->at = end;
}

static int span_change(MD_SPANTYPE type, struct md *m, int by)
{
    switch (type) {
    case MD_SPAN_STRONG: m->bold += by; break;
    case MD_SPAN_EM:
    case MD_SPAN_U: m->em += by; break;
    case MD_SPAN_CODE: m->code += by; break;
    case MD_SPAN_DEL: m->strike += by; break;
    case MD_SPAN_A:
    case MD_SPAN_IMG: see_bracket(m, by > 0); break;
    default: break;
    }
    return 0;
}

static int enter_span(MD_SPANTYPE type, void *detail, void *ctx)
{
    (void)detail;
    return span_change(type, ctx, 1);
}

static int leave_span(MD_SPANTYPE type, void *detail, void *ctx)
{
    (void)detail;
    return span_change(type, ctx, -1);
}

/* Keeps blanks at the beginning of source lines: a poem stays a poem. */
static void see_indent(struct md *m, size_t at)
{
    size_t from = at;
    while (from > 0 && (m->source[from - 1] == ' ')) from--;
    bool begins = m->leaf.seen.n > 0 && m->leaf.seen.data[m->leaf.seen.n - 1] == '\n';
    if (begins && m->depth == 0 && (from == 0 || m->source[from - 1] == '\n'))
        see(m, from, at - from, ATTR_TEXT);
}

static int text(MD_TEXTTYPE type, const MD_CHAR *s, MD_SIZE n, void *ctx)
{
    struct md *m = ctx;
    bool ours = s >= m->source && s + n <= m->source + m->n_source;
    if (type == MD_TEXT_BR || type == MD_TEXT_SOFTBR || (!ours && n == 1 && *s == '\n')) {
        str_puts(&m->leaf.seen, m->cells ? " " : "\n");
    } else if (!ours) {
        str_append(&m->leaf.seen, "        ", n < 8 ? n : 8); /* blanks inserted by md4c */
    } else {
        size_t at = (size_t)(s - m->source);
        see_indent(m, at);
        while (n > 0) { /* a code block's piece may end in its newline */
            const char *newline = memchr(m->source + at, '\n', n);
            size_t part = newline ? (size_t)(newline - m->source) - at : n;
            see(m, at, part, attr_of(m));
            if (newline) str_puts(&m->leaf.seen, "\n");
            part += newline != NULL;
            at += part;
            n -= (MD_SIZE)part;
        }
        m->at = at;
        m->after_mark = false;
    }
    return 0;
}

/* ---- blocks --------------------------------------------------------------------------------- */

static size_t blanks(const char *s, size_t at, size_t end)
{
    size_t from = at;
    while (at < end && (s[at] == ' ' || s[at] == '\t')) at++;
    return at - from;
}

/* "---" or "===": a rule, never an underline that makes the line before a heading. */
static bool is_rule(const char *s, size_t at, size_t end)
{
    at += blanks(s, at, end);
    while (end > at && s[end - 1] == ' ') end--;
    if (end - at < 3 || (s[at] != '-' && s[at] != '=')) return false;
    for (size_t i = at; i < end; i++)
        if (s[i] != s[at]) return false;
    return true;
}

/* A line of a code block, whose runs become spans of each screen line that has a part of them. */
enum { RUNS_MAX = 128 };
struct code_runs {
    int n;
    struct span runs[RUNS_MAX]; /* x is not used */
};

static void take_run(void *ctx, size_t from, size_t n, uint8_t attr)
{
    struct code_runs *r = ctx;
    if (r->n < RUNS_MAX) r->runs[r->n++] = (struct span){(uint32_t)from, (uint32_t)n, 0, attr};
}

/* The part of the runs, in bytes after `base`, that a screen line shows. */
static void put_runs(const char *s, size_t base, const struct code_runs *r, size_t from, size_t n,
                     markdown_line *line, void *ctx)
{
    struct span spans[RUNS_MAX];
    int n_spans = 0;
    for (int i = 0; i < r->n; i++) {
        size_t begin = base + r->runs[i].from, end = begin + r->runs[i].n;
        if (begin < from) begin = from;
        if (end > from + n) end = from + n;
        if (begin >= end) continue;
        int x = utf8_columns(s + from, begin - from);
        spans[n_spans++] =
            (struct span){(uint32_t)begin, (uint32_t)(end - begin), (uint16_t)x, r->runs[i].attr};
    }
    line(ctx, from, n, spans, n_spans);
}

/* Lines of code; of a language that is not known, each is one run. */
static void put_code(const char *s, const struct fence *f, int width, markdown_line *line,
                     void *ctx)
{
    const struct language *l = code_language(s + f->name, f->n_name);
    code_state state = NULL;
    for (size_t at = f->from; at < f->end;) {
        size_t end = fence_line_end(s, f->end, at), from = at;
        struct code_runs runs = {0};
        if (l)
            code_line(l, s + at, end - at, &state, take_run, &runs);
        else
            take_run(&runs, 0, end - at, ATTR_CODE);
        if (runs.n == RUNS_MAX) { /* too many: the last one has the rest */
            struct span *last = &runs.runs[RUNS_MAX - 1];
            last->n = (uint32_t)(end - at) - last->from;
        }
        do {
            size_t shown, taken = utf8_line(s + from, end - from, width, &shown);
            put_runs(s, at, &runs, from, shown, line, ctx);
            from += taken;
        } while (from < end);
        at = end < f->end ? end + 1 : f->end;
    }
}

/* "── python  /copy code 2", where the marks are. */
static void put_fence(const char *s, const struct fence *f, uint32_t number, int width,
                      markdown_line *line, void *ctx)
{
    struct span spans[3] = {{SPAN_GLYPH(SPAN_RULE), 2, 0, ATTR_DIM}};
    size_t end = fence_line_end(s, f->next, f->at), shown = 0;
    int n = 1, x = 3;
    if (f->n_name && width > x) utf8_line(s + f->name, f->n_name, width - x, &shown);
    if (shown) {
        spans[n++] = (struct span){(uint32_t)f->name, (uint32_t)shown, (uint16_t)x, ATTR_DIM};
        x += utf8_columns(s + f->name, shown) + 2;
    }
    if (x + COPY_COLUMNS <= width)
        spans[n++] = (struct span){SPAN_GLYPH(SPAN_COPY), number, (uint16_t)x, ATTR_DIM};
    line(ctx, f->at, end - f->at, spans, n);
}

static uint32_t number_of(const char *s, size_t n, size_t at)
{
    struct fence f = {0};
    uint32_t number = 0;
    do number += fence_next(s, n, f.next, &f);
    while (f.at < at && f.next < n);
    return number;
}

/* A code block; returns its end. */
static size_t fenced(const char *s, size_t n, size_t at, int width, markdown_line *line, void *ctx)
{
    static const struct span rule = {SPAN_GLYPH(SPAN_RULE), 2, 0, ATTR_DIM};
    struct fence f;
    fence_next(s, n, at, &f);
    put_fence(s, &f, number_of(s, n, at), width, line, ctx);
    put_code(s, &f, width, line, ctx);
    if (f.closed) line(ctx, f.end, fence_line_end(s, f.next, f.end) - f.end, &rule, 1);
    return f.next;
}

/* The end of the lines from `at` on that form one block: up to a blank line, a fence or a rule. */
static size_t prose_end(const char *s, size_t n, size_t at)
{
    bool rule_first = is_rule(s, at, fence_line_end(s, n, at));
    for (size_t next = at; next < n;) {
        size_t end = fence_line_end(s, n, next);
        bool blank = end < n && blanks(s, next, end) == end - next;
        if (next > at &&
            (blank || rule_first || fence_opens(s + next, end - next) || is_rule(s, next, end)))
            return next;
        next = end < n ? end + 1 : n;
    }
    return n;
}

/* ---- unclosed marks -------------------------------------------------------------------------- */

static bool word_byte(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (unsigned char)c >= 0x80;
}

struct marks {
    char c[MARKS_MAX];
    uint8_t n[MARKS_MAX];
    int depth;
};

static void take_mark(struct marks *k, const char *s, size_t n, size_t at, size_t run)
{
    char before = at > 0 ? s[at - 1] : ' ', after = at + run < n ? s[at + run] : ' ';
    bool opens = after != ' ' && after != '\n' && !(s[at] == '_' && word_byte(before));
    bool closes = before != ' ' && before != '\n' && !(s[at] == '_' && word_byte(after));
    int top = k->depth - 1;
    if (run > 3) return;
    if (closes && top >= 0 && k->c[top] == s[at] && k->n[top] == run)
        k->depth--;
    else if (opens && k->depth < MARKS_MAX) {
        k->c[k->depth] = s[at];
        k->n[k->depth++] = (uint8_t)run;
    }
}

static size_t mark_run(const char *s, size_t n, size_t at)
{
    size_t run = 1;
    while (at + run < n && s[at + run] == s[at]) run++;
    return run;
}

/* The marks that s[0, n) leaves open; returns the length of an open code span's marks. */
static size_t open_marks(struct marks *k, const char *s, size_t n)
{
    size_t code = 0, run;
    for (size_t at = 0; at < n; at += run) {
        run = s[at] == '\\' ? 2 : 1;
        if (s[at] == '`' || s[at] == '*' || s[at] == '_') run = mark_run(s, n, at);
        if (s[at] == '`')
            code = code == run ? 0 : code ? code : run;
        else if (!code && (s[at] == '*' || s[at] == '_'))
            take_mark(k, s, n, at, run);
    }
    return code;
}

/* Removes trailing marks that may be half of a closing mark, and appends closing marks for emphasis
 * and code that the streaming text has begun: these are drawn styled before their end arrives, and
 * nothing moves when it does. Returns the bytes that belong to the text. */
static size_t close_marks(struct str *source)
{
    struct marks k = {.depth = 0};
    const char *s = source->data;
    size_t n = source->n;
    while (n > 0 && (s[n - 1] == ' ' || s[n - 1] == '\n')) n--;
    size_t core = n;
    while (core > 0 && n > 0 && s[core - 1] == s[n - 1] && strchr("*_`", s[n - 1])) core--;
    size_t run = n - core, code = open_marks(&k, s, core);
    bool tick = run > 0 && s[core] == '`';
    size_t need = 0;
    int depth = k.depth;
    while (!code && !tick && depth > 0 && need < run && k.c[depth - 1] == s[core])
        need += k.n[--depth];
    if (tick ? run == code : code > 0 || need == run) {
        core = n; /* a closing mark, or inside code */
        k.depth = depth;
        if (tick) code = 0;
    }
    source->n = core;
    source->data[core] = 0;
    for (size_t i = 0; i < code; i++) str_puts(source, "`");
    for (; k.depth > 0; k.depth--)
        for (int i = 0; i < k.n[k.depth - 1]; i++) str_append(source, &k.c[k.depth - 1], 1);
    return core;
}

/* Copies the lines of a block without the indentation of the first. */
static void copy_block(struct md *m, const char *s, size_t at, size_t end, struct str *source)
{
    size_t indent = 0, cap = 0;
    while (at + indent < end && s[at + indent] == ' ') indent++;
    m->indent = (int)(indent < (size_t)m->width / 2 ? indent : (size_t)m->width / 2);
    while (at < end) {
        size_t skip = 0, next = fence_line_end(s, end, at);
        while (skip < indent && at + skip < next && s[at + skip] == ' ') skip++;
        size_t same = cap;
        m->starts = memory_more(m->starts, (size_t)m->n_lines, &same, sizeof *m->starts);
        m->origins = memory_more(m->origins, (size_t)m->n_lines, &cap, sizeof *m->origins);
        m->starts[m->n_lines] = source->n;
        m->origins[m->n_lines++] = at + skip;
        next += next < end;
        str_append(source, s + at + skip, next - at - skip);
        at = next;
    }
}

static void prose(const char *s, size_t at, size_t end, bool open, int width, markdown_line *line,
                  void *ctx)
{
    static const MD_PARSER parser = {
        .flags = MD_FLAG_TABLES | MD_FLAG_STRIKETHROUGH | MD_FLAG_TASKLISTS | MD_FLAG_NOHTML |
                 MD_FLAG_NOINDENTEDCODEBLOCKS,
        .enter_block = enter_block,
        .leave_block = leave_block,
        .enter_span = enter_span,
        .leave_span = leave_span,
        .text = text,
    };
    struct md m = {.width = width, .line = line, .ctx = ctx};
    struct str source = {0};
    copy_block(&m, s, at, end, &source);
    m.n_ours = open ? close_marks(&source) : source.n;
    m.source = str_get(&source);
    m.n_source = source.n;
    if (end - at > BLOCK_MAX || md_parse(m.source, (MD_SIZE)m.n_source, &parser, &m) != 0) {
        leaf_clear(&m.leaf);
        m.depth = 0;
        raw_lines(&m, 0, m.n_ours);
    }
    for (int i = 0; i < m.n_cells; i++) leaf_release(&m.cells[i].leaf);
    free(m.cells);
    leaf_release(&m.leaf);
    free(m.starts);
    free(m.origins);
    str_release(&source);
}

size_t markdown_block(const char *s, size_t n, size_t at, bool ends, int width, markdown_line *line,
                      void *ctx)
{
    size_t end = fence_line_end(s, n, at);
    if (fence_opens(s + at, end - at)) return fenced(s, n, at, width, line, ctx);
    if (blanks(s, at, end) == end - at) {
        if (end < n || ends) line(ctx, at, 0, NULL, 0);
        return end < n ? end + 1 : n;
    }
    end = prose_end(s, n, at);
    prose(s, at, end, end == n && !ends, width, line, ctx);
    return end;
}

const char *span_text(const struct span *s, const char *text, bool ascii, char glyph[1024],
                      size_t *n)
{
    static const char *const glyphs[][2] = {
        [SPAN_BULLET] = {"*", "•"}, [SPAN_BAR] = {"|", "│"}, [SPAN_RULE] = {"-", "─"}};
    *n = s->n;
    if (s->from <= SPAN_GLYPH(SPAN_GLYPHS)) return text + s->from;
    if (s->from == SPAN_GLYPH(SPAN_COPY)) {
        *n = (size_t)snprintf(glyph, 1024, "/copy code %u", s->n);
        return glyph;
    }
    const char *one = glyphs[UINT32_MAX - s->from][!ascii];
    size_t n_one = strlen(one);
    *n = 0;
    for (uint32_t i = 0; i < s->n && *n + n_one < 1024; i++) {
        memcpy(glyph + *n, one, n_one);
        *n += n_one;
    }
    return glyph;
}
