/* view_chat: the conversation, the message being written, and the status lines. */
#include <stdio.h>
#include <string.h>

#include "base/utf8_width.h"
#include "cli/control/external.h"
#include "cli/print/num.h"
#include "cli/control/ramp.h"
#include "tui/chat/app.h"
#include "tui/view/bars.h"
#include "tui/view/words.h"

/* ---- transcript ----------------------------------------------------------------------------- */

/* Columns: retention gutter, blank, role, text. */

/* While an answer streams. */
enum { STILL_MS = 500, AROUND_MS = 500 };

static const char *const end_words[] = {[SESSION_STOPPED] = "stopped",
                                        [SESSION_LENGTH] = "length limit",
                                        [SESSION_FULL] = "cache full",
                                        [SESSION_REPETITION] = "looped"};

static enum attr role_attr(int role)
{
    return role == CHAT_USER ? ATTR_YOU : role == CHAT_ASSISTANT ? ATTR_LLM : ATTR_DIM;
}

/* Marks the places of a line where the text that is searched for stands. */
static void mark_found(struct app *a, struct pane p, int x, int y, int index, size_t from, size_t n)
{
    const char *s = str_get(&a->talk.messages[index].text);
    size_t length = a->read.query.text.n, at = from > length ? from - length : 0;
    for (; (at = read_match(a, index, at)) != READ_NONE && at < from + n; at++) {
        size_t start = at > from ? at : from, end = at + length < from + n ? at + length : from + n;
        if (end <= start) continue;
        int before = utf8_columns(s + from, start - from);
        pane_attr(p, x + before, y, utf8_columns(s + from, end - from) - before, ATTR_FOUND);
    }
}

/* Bytes [from, from + n) of a message, shaded by how much of them is kept. */
static int put_words(struct app *a, struct pane p, int x, int y, enum attr attr, int index,
                     size_t from, size_t n)
{
    struct words_look look = {attr, attr};
    int end = a->chat.flat
                  ? pane_put(p, x, y, attr, str_get(&a->talk.messages[index].text) + from, n)
                  : words_put(a, p, x, y, look, index, from, n);
    if (a->view == VIEW_READ && a->read.query.text.n > 0) mark_found(a, p, x, y, index, from, n);
    return end;
}

static int put_file(struct app *a, struct pane p, int x, int y, int index, const struct line *l)
{
    const struct message *m = &a->talk.messages[index];
    struct attached file;
    struct str label = {0};
    int64_t from = 0, end = 0;
    if (!attached_at(str_get(&m->text) + l->from, l->n, &file)) return x;
    if (words_have_place(m)) transcript_positions(&a->talk, index, l->from, l->n, &from, &end);
    external_label(&file, end - from, p.g->ascii, &label);
    x = pane_puts(p, x, y, ATTR_BOLD, str_get(&label));
    str_release(&label);
    x = pane_puts(p, x + 2, y, ATTR_KEY, "Alt-o");
    return pane_puts(p, x, y, ATTR_DIM, " unfolds it");
}

/* Returns the column after it. */
static int put_text(struct app *a, struct pane p, int x, int y, enum attr attr, int index,
                    const struct line *l)
{
    const struct message *m = &a->talk.messages[index];
    int end = x;
    char glyph[1024];
    if (m->n_hidden > 0 && l == &m->lines[m->n_lines - 1])
        return pane_printf(p, x, y, ATTR_DIM, "%s %d more lines; Alt-o unfolds",
                           p.g->ascii ? "..." : "…", m->n_hidden);
    if (l->file) return put_file(a, p, x, y, index, l);
    if (l->n_spans == 0) return put_words(a, p, x, y, attr, index, l->from, l->n);
    for (int i = 0; i < l->n_spans; i++) {
        const struct span *s = &m->spans[l->span + i];
        size_t n;
        const char *text = span_text(s, str_get(&m->text), p.g->ascii, glyph, &n);
        if (text == glyph)
            end = pane_put(p, x + s->x, y, (enum attr)s->attr, text, n);
        else
            end = put_words(a, p, x + s->x, y, (enum attr)s->attr, index, s->from, n);
    }
    return end;
}

/* The first line of a thought tells its length; its text follows if it is unfolded. */
static void draw_thought(struct app *a, struct pane p, int x, int y, const struct message *m,
                         int line)
{
    char length[NUM_MAX];
    const struct line *l = &m->lines[line];
    if (line > 0) {
        pane_put(p, x, y, ATTR_DIM, str_get(&m->text) + l->from, l->n);
        return;
    }
    double ms = m->thought.over ? m->thought.ms : (double)(a->now_ms - m->thought.since_ms);
    num_thought(m->thought.n_tokens, ms, length);
    const char *word = !m->thought.over ? "thinking" : *length ? "thought for" : "thought";
    x = pane_printf(p, x, y, ATTR_DIM, "%s %s  ", word, length);
    x = pane_puts(p, x, y, ATTR_KEY, "Alt-e");
    pane_puts(p, x, y, ATTR_DIM, a->talk.unfolded ? " folds it" : " unfolds it");
}

static void draw_line(struct app *a, struct pane p, int y, int index, int line)
{
    const struct message *m = &a->talk.messages[index];
    const struct line *l = &m->lines[line];
    bool narrow = words_narrow(p);
    int x = words_column(p);
    enum attr attr = m->role == CHAT_USER         ? ATTR_BOLD
                     : m->role == TRANSCRIPT_NOTE ? ATTR_DIM
                                                  : ATTR_TEXT;
    if (words_have_place(m) && a->map) {
        int64_t from, end;
        transcript_positions(&a->talk, index, l->from, l->n, &from, &end);
        if (from < a->map->n_pos) pane_ramp(p, 0, y, app_level_at(a, from, end));
    }
    bool cursor = a->view == VIEW_READ && index == a->read.message;
    if (cursor) pane_puts(p, 1, y, ATTR_KEY, p.g->ascii ? ">" : "▌");
    if (line == 0 && !narrow)
        pane_puts(p, 2, y, cursor ? ATTR_SELECT : role_attr(m->role), words_role[m->role]);
    if (m->role == TRANSCRIPT_THOUGHT) {
        draw_thought(a, p, x, y, m, line);
        return;
    }
    if (line == 0 && narrow && m->role != CHAT_ASSISTANT)
        pane_puts(p, 1, y, role_attr(m->role), m->role == CHAT_USER ? ">" : "*");
    x = put_text(a, p, x, y, attr, index, l);
    if (m->ended == SESSION_TURN_END || line != m->n_lines - 1) return;
    char mark[32];
    const char *why = end_words[m->ended];
    snprintf(mark, sizeof mark, p.g->ascii ? " [%s]" : " ■ %s", why);
    bool fits = x + (int)strlen(why) + 3 <= p.w; /* the short side always keeps one column */
    pane_puts(p, x, y, ATTR_DIM, fits ? mark : p.g->ascii ? "~" : "■");
}

/* First row to show in a view that follows the text. If text fills a row in less than STILL_MS, the
 * view scrolls by as many rows as the text fills in that time: unmoving text can be read, and only
 * the new words are sent to the terminal. */
static int follow(struct app *a, int rows, int page, int last)
{
    struct chat_state *c = &a->chat;
    int64_t ms = a->now_ms - c->scrolled_ms;
    if (c->top_row >= last && c->top_row <= last + c->lead) return c->top_row;
    bool streams = a->phase == PHASE_ANSWERING && page == c->page && ms > 0;
    c->lead = streams ? (int)((rows - c->rows_before) * STILL_MS / ms) : 0;
    if (c->lead > page / 2) c->lead = page / 2;
    if (c->lead < 0) c->lead = 0;
    c->rows_before = rows;
    c->scrolled_ms = a->now_ms;
    return last + c->lead;
}

/* First row to show, kept inside the conversation; at the end the view follows the text again. */
static int settle(struct app *a, int rows, int page)
{
    struct chat_state *c = &a->chat;
    int last = rows > page ? rows - page : 0, top = last;
    if (c->held) {
        top = transcript_row(&a->talk, c->top_message, c->top_byte);
        if (top >= last) c->held = false;
        if (top > last) top = last;
    }
    if (!c->held && last > 0) top = follow(a, rows, page, last);
    c->rows = rows;
    c->page = page;
    c->top_row = top;
    return top;
}

static int draw_transcript(struct app *a, struct pane p)
{
    const int text_x = words_column(p);
    int rows = transcript_layout(&a->talk, p.w - text_x - 1);
    int top = settle(a, rows, p.h), index, line;
    if (a->talk.n == 0) welcome_draw(a, p, words_narrow(p) ? 1 : text_x);
    transcript_at_row(&a->talk, top, &index, &line);
    for (int y = 0; y < p.h && index < a->talk.n; y++) {
        const struct message *m = &a->talk.messages[index];
        if (line >= 0) draw_line(a, p, y, index, line);
        if (++line < m->n_lines) continue;
        index++;
        line = index < a->talk.n ? -message_lead(&a->talk, index) : 0;
    }
    int below = rows - top - p.h;
    return below > 0 ? below : 0;
}

static void scroll(struct app *a, int by)
{
    struct chat_state *c = &a->chat;
    int index, line, last = c->rows > c->page ? c->rows - c->page : 0;
    int top = (c->top_row < last ? c->top_row : last) + by;
    if (top < 0) top = 0;
    c->held = top < last;
    if (!c->held) return;
    transcript_at_row(&a->talk, top, &index, &line);
    if (index >= a->talk.n) return;
    c->top_message = index;
    c->top_byte = line > 0 ? a->talk.messages[index].lines[line].from : 0;
    c->top_row = top;
}

/* ---- input ---------------------------------------------------------------------------------- */

/* Draws the lines of the draft around its cursor; the terminal's cursor follows it, because input
 * methods rely on it. */
static void draw_input(struct app *a, struct pane p, const char *prompt)
{
    struct str safe = {0};
    int prompt_width = (int)strlen(prompt);
    int width = p.w - prompt_width - 1, cursor_line, cursor_column;
    if (width < 1) width = 1;
    a->edit.width = width;
    edit_lines(&a->edit, width, &cursor_line, &cursor_column);
    int top = cursor_line >= p.h ? cursor_line - p.h + 1 : 0;
    const char *s = str_get(&a->edit.text);
    size_t n = a->edit.text.n, at = edit_line_start(&a->edit, top), shown = 0;
    pane_puts(p, 0, 0, ATTR_KEY, prompt);
    for (int line = top; line < top + p.h && at < n; line++) {
        size_t taken = utf8_line(s + at, n - at, width, &shown);
        str_clear(&safe);
        sanitize(s + at, shown, a->ascii, false, &safe);
        pane_put(p, prompt_width, line - top, ATTR_TEXT, str_get(&safe), safe.n);
        at += taken;
    }
    int x = prompt_width + cursor_column;
    pane_cursor(p, x < p.w ? x : p.w - 1, cursor_line - top);
    str_release(&safe);
}

static void draw_queue(struct app *a, struct pane p)
{
    for (int i = 0; i < p.h; i++) {
        if (i == p.h - 1 && a->n_queue > p.h) {
            pane_printf(p, 0, i, ATTR_DIM, "and %d more queued", a->n_queue - i);
            return;
        }
        const char *text = str_get(&a->queue[i]);
        size_t skip = attached_skip(text, a->queue[i].n);
        int x = pane_printf(p, 0, i, ATTR_DIM, "queued %d  ", i + 1);
        pane_clean(a, p, x, i, ATTR_TEXT, text + (text[skip] ? skip : 0));
    }
}

/* Takes the place of the message, so that a long question cannot hide the choices. */
static void draw_choices(const struct app *a, struct pane p)
{
    static const struct {
        const char *key, *meaning;
    } choices[] = {{"y", "yes"}, {"n", "no"}, {"b", "yes, and keep a branch"}};
    int x = 2;
    for (int i = 0; i < (a->question.may_branch ? 3 : 2); i++) {
        x = pane_puts(p, x, 0, ATTR_KEY, choices[i].key);
        x = pane_printf(p, x, 0, ATTR_TEXT, " %s  ", choices[i].meaning);
    }
}

/* Draws the line above the message: its label, or a question. */
static void draw_rule(struct app *a, struct pane p, int y)
{
    struct str s = {0}, safe = {0};
    if (a->question.open)
        str_puts(&s, a->question.text);
    else if (a->view == VIEW_READ)
        read_label(a, &s);
    else if (a->search.open)
        str_printf(&s, "%s: %s", a->search.failed ? "no earlier message with" : "earlier message",
                   str_get(&a->search.query.text));
    else if (a->prefix)
        str_puts(&s, "^X");
    else if (a->queue_held)
        str_puts(&s, "queued messages are held: Enter sends them, Up changes them");
    else
        str_puts(&s, a->phase == PHASE_READY ? "message" : "message, sent when it can be");
    sanitize(str_get(&s), s.n, a->ascii, true, &safe);
    bar_rule(p, y, str_get(&safe));
    if (a->question.open) pane_attr(p, 0, y, p.w, ATTR_ERROR);
    str_release(&s);
    str_release(&safe);
}

/* ---- completions ---------------------------------------------------------------------------- */

enum { LISTED_MAX = 10, LISTED_NAME = 24, COUNTED_MAX = 60 };

/* The line that completions are for: the one that was typed, while one of them is shown. */
static const struct str *typed_line(const struct app *a)
{
    return a->completion.open ? &a->completion.line : &a->edit.text;
}

static bool completes(const struct app *a, int i, struct slash_offer *out)
{
    const struct str *line = typed_line(a);
    return slash_complete(str_get(line), line->n, palette_name, (void *)(uintptr_t)a, i, out);
}

/* Completions of the line; 0: none, or the list is not shown. */
static int n_completions(const struct app *a)
{
    struct slash_offer o;
    int n = 0;
    const struct str *line = typed_line(a);
    if (line->n == 0 || a->edit.n_folds || a->completion.dismissed || a->question.open ||
        a->search.open)
        return 0;
    while (n < COUNTED_MAX && completes(a, n, &o)) n++;
    bool whole = n == 1 && completes(a, 0, &o) && o.from + strlen(o.word) == line->n;
    return whole ? 0 : n;
}

/* What the typed command may become, above the message; the one that Tab chose is marked. */
static void draw_completions(struct app *a, struct pane p, int bottom)
{
    struct slash_offer o;
    int n = n_completions(a), lines = n < LISTED_MAX ? n : LISTED_MAX;
    int selected = a->completion.open ? a->completion.next - 1 : -1;
    if (lines > bottom) lines = bottom;
    if (lines <= 0) return;
    int top = selected >= lines ? selected - lines + 1 : 0;
    struct pane box = pane_sub(p, 0, bottom - lines, p.w, lines);
    pane_clear(box);
    for (int y = 0; y < lines && completes(a, top + y, &o); y++) {
        bool is = top + y == selected;
        if (is) pane_fill(box, 0, y, box.w, ATTR_SELECT, ' ');
        struct pane name = pane_sub(box, 2, y, LISTED_NAME, 1);
        pane_clean(a, name, 0, 0, is ? ATTR_SELECT : ATTR_KEY, o.word);
        struct pane rest = pane_sub(box, 3 + LISTED_NAME, y, box.w - 4 - LISTED_NAME, 1);
        pane_clean(a, rest, 0, 0, is ? ATTR_SELECT : ATTR_TEXT, o.text);
    }
    if (top + lines < n)
        pane_printf(box, box.w - 9, lines - 1, ATTR_DIM, " %d more", n - top - lines);
    a->around.grid = NULL; /* it covers the lines around the text */
}

/* ---- layout --------------------------------------------------------------------------------- */

/* Rows of each part for a screen of w x h; a part with 0 rows is left out. */
struct layout {
    int title, talk, queue, status, ribbon, memory, sensors, event, rule, input, hints;
    int below;          /* first row under the status */
    int list_w, side_w; /* panes left and right of the transcript */
};

static struct layout layout_of(struct app *a, int w, int h)
{
    struct layout l = {.title = h >= 10,
                       .status = h >= 2,
                       .ribbon = h >= 24 && w >= 60 ? 2 : h >= 6,
                       .memory = h >= 16,
                       .sensors = h >= 30,
                       .event = h >= 20,
                       .rule = h >= 16,
                       .hints = h >= 10 && w >= 40};
    int cursor_line, cursor_column;
    int lines = edit_lines(&a->edit, w > 4 ? w - 3 : 1, &cursor_line, &cursor_column);
    int least = h >= 24 ? 2 : 1, most = h >= 20 ? h / 3 : h >= 10 ? 3 : 1;
    l.input = lines < least ? least : lines > most ? most : lines;
    l.queue = h < 16 ? 0 : a->n_queue < 3 ? a->n_queue : 3;
    l.talk = h - l.title - l.queue - l.status - l.ribbon - l.memory - l.sensors - l.event - l.rule -
             l.input - l.hints;
    l.below = l.title + l.talk + l.queue + l.status;
    if (w >= 120 && l.talk >= 12) l.side_w = w >= 160 ? 58 : 48;
    if (w >= 160 && h >= 40) l.list_w = 26;
    return l;
}

/* Too small for more than the input line and one word. */
static void draw_tiny(struct app *a, struct pane p)
{
    static const char *const words[] = {"load", "open", "ready", "read", "busy"};
    draw_input(a, pane_sub(p, 0, p.h - 1, p.w, 1), p.w > 4 ? "> " : "");
    if (p.h > 1) pane_puts(p, 0, 0, ATTR_DIM, words[a->phase]);
}

static void draw_panes(struct app *a, struct pane body, const struct layout *l)
{
    int right = body.w - l->side_w;
    if (l->list_w > 0) {
        list_draw_pane(a, pane_sub(body, 0, 0, l->list_w - 1, body.h));
        pane_separator(body, l->list_w - 1, 0, body.h);
    }
    if (l->side_w == 0) return;
    struct pane side = pane_sub(body, right + 2, 0, l->side_w - 2, body.h);
    pane_separator(body, right, 0, body.h);
    if (!a->have_stats) return;
    bool memory = body.h >= 24;
    if (memory) monitor_draw_pane(a, side);
    map_draw_pane(a, pane_sub(side, 0, memory ? 9 : 0, side.w, side.h));
}

static void draw_around(struct app *a, struct pane p, const struct layout *l)
{
    int y = l->below;
    if (l->title) bar_title(a, p, 0);
    draw_panes(a, pane_sub(p, 0, l->title, p.w, l->talk), l);
    if (l->ribbon) bar_ribbon(a, p, y, l->ribbon);
    y += l->ribbon;
    if (l->memory) bar_memory(a, p, y++);
    if (l->sensors) bar_sensors(a, p, y++);
    if (l->event) bar_event(a, p, y++);
    if (l->hints) bar_hints(a, p, p.h - 1);
}

/* Drawing the surroundings costs more than drawing the text: while an answer streams, they are
 * drawn twice a second only. */
static void put_around(struct app *a, struct pane p, const struct layout *l)
{
    struct around *r = &a->around;
    bool stands = r->grid == p.g && r->w == p.w && r->h == p.h && r->talk == l->talk &&
                  r->below == l->below && r->n_queue == a->n_queue && l->rule;
    if (!stands || a->phase != PHASE_ANSWERING || a->now_ms - r->drawn_ms >= AROUND_MS) {
        pane_clear(p);
        draw_around(a, p, l);
        *r = (struct around){p.g, p.w, p.h, l->talk, l->below, a->n_queue, a->now_ms};
        return;
    }
    int after = l->title + l->talk, bars = l->ribbon + l->memory + l->sensors + l->event;
    pane_clear(pane_sub(p, l->list_w, l->title, p.w - l->list_w - l->side_w, l->talk));
    pane_clear(pane_sub(p, 0, after, p.w, l->below - after));
    pane_clear(pane_sub(p, 0, l->below + bars, p.w, l->rule + l->input));
}

static void draw(struct app *a, struct pane p)
{
    if (p.h < 5 || p.w < 20) {
        a->around.grid = NULL;
        pane_clear(p);
        draw_tiny(a, p);
        return;
    }
    struct layout l = layout_of(a, p.w, p.h);
    put_around(a, p, &l);
    int talk_w = p.w - l.list_w - l.side_w, y = l.title + l.talk;
    int below = draw_transcript(a, pane_sub(p, l.list_w, l.title, talk_w, l.talk));
    draw_queue(a, pane_sub(p, 0, y, p.w, l.queue));
    if (l.status) bar_status(a, p, l.below - 1, below);
    y = p.h - l.hints - l.input;
    if (l.rule || a->question.open || a->search.open) draw_rule(a, p, y - 1);
    if (a->question.open)
        draw_choices(a, pane_sub(p, 0, y, p.w, l.input));
    else
        draw_input(a, pane_sub(p, 0, y, p.w, l.input), "> ");
    draw_completions(a, p, y - (l.rule > 0));
}

/* ---- keys ----------------------------------------------------------------------------------- */

static void older(struct app *a)
{
    if (edit_move(&a->edit, EDIT_UP)) return;
    if (a->n_queue > 0 && a->edit.text.n == 0) { /* the last queued message, for editing */
        struct str *last = &a->queue[--a->n_queue];
        edit_set(&a->edit, str_get(last), last->n);
        str_release(last);
        return;
    }
    struct str draft = {0};
    edit_full(&a->edit, &draft);
    const struct str *text = history_older(&a->history, &draft);
    if (text) edit_set(&a->edit, str_get(text), text->n);
    str_release(&draft);
}

static void newer(struct app *a)
{
    if (edit_move(&a->edit, EDIT_DOWN)) return;
    const struct str *text = history_newer(&a->history);
    if (text) edit_set(&a->edit, str_get(text), text->n);
}

/* ---- Ctrl-R --------------------------------------------------------------------------------- */

static void search_begin(struct app *a)
{
    struct search *s = &a->search;
    s->open = true;
    s->failed = false;
    s->at = a->history.n;
    edit_set(&s->query, "", 0);
    str_clear(&s->draft);
    edit_full(&a->edit, &s->draft);
}

static void search_end(struct app *a, bool keep)
{
    struct search *s = &a->search;
    if (!keep) edit_set(&a->edit, str_get(&s->draft), s->draft.n);
    s->open = false;
}

/* The next message from `at` back that contains the typed text. */
static void search_from(struct app *a, int at)
{
    struct search *s = &a->search;
    int found = history_find(&a->history, &s->query.text, at);
    s->failed = found < 0;
    if (found < 0) return;
    s->at = found;
    const struct str *text = &a->history.rows[found];
    edit_set(&a->edit, str_get(text), text->n);
}

static bool search_key(struct app *a, const struct key_event *ev)
{
    struct search *s = &a->search;
    bool shorter = ev->key == 127 || ev->key == CTRL('h');
    switch (ev->key) {
    case CTRL('r'):
        if (s->query.text.n) search_from(a, s->at - 1);
        return true;
    case '\033':
    case CTRL('g'):
    case CTRL('c'): search_end(a, false); return true;
    case '\r': search_end(a, true); return true;
    default: break;
    }
    if (!shorter && (ev->key < 0x20 || ev->key >= KEY_BASE)) {
        search_end(a, true); /* any other key edits the result */
        return false;
    }
    app_field_key(&s->query, ev);
    search_from(a, shorter || a->history.n - 1 < s->at ? a->history.n - 1 : s->at);
    return true;
}

/* ---- Tab ------------------------------------------------------------------------------------ */

/* The next completion of the typed text, or the one before; past the ends, the typed text
 * itself. */
static void complete(struct app *a, int by)
{
    struct completion *c = &a->completion;
    struct slash_offer o;
    if (!c->open) {
        str_clear(&c->line);
        str_append(&c->line, str_get(&a->edit.text), a->edit.cursor);
        c->next = 0;
    }
    bool tail = a->edit.cursor < a->edit.text.n;
    const char *line = str_get(&c->line);
    const bool command = c->line.n && line[0] == '/' && !memchr(line, '\n', c->line.n);
    const bool path = c->line.n && line[0] != '/' && completes(a, 0, &o);
    if (tail || !(command || path || c->open)) {
        edit_insert(&a->edit, "\t", 1);
        return;
    }
    if (by < 0) c->next -= 2;
    c->open = c->next >= 0 && completes(a, c->next, &o);
    bool only = c->open && c->next == 0 && !completes(a, 1, &(struct slash_offer){0});
    edit_set(&a->edit, line, c->line.n);
    if (!c->open) {
        if (c->next == 0 && by > 0) app_flash(a, "nothing completes this");
        return;
    }
    edit_set(&a->edit, line, o.from);
    edit_insert(&a->edit, o.word, strlen(o.word));
    c->next++;
    /* a single completion is accepted, and the next Tab completes the text after it */
    c->open = !only;
}

/* ---- requests ------------------------------------------------------------------------------- */

static bool question_key(struct app *a, const struct key_event *ev)
{
    struct question *q = &a->question;
    bool branch = q->may_branch && ev->key == 'b';
    bool cancel = ev->key == 'n' || ev->key == '\r' || ev->key == '\033' || ev->key == CTRL('c');
    q->open = false;
    if (!branch && !cancel && ev->key != 'y')
        return false; /* it begins a message, or is a command */
    if (branch) {
        struct request r = {.command = SLASH_BRANCH, .turn = app_turns(a)};
        app_run(a, &r);
    }
    if (branch || ev->key == 'y') app_take_turn_back(a);
    return true;
}

/* While completions are listed: the arrows choose one, Esc hides the list. */
static bool list_key(struct app *a, const struct key_event *ev)
{
    struct completion *c = &a->completion;
    if (a->edit.text.n == 0) c->dismissed = false;
    bool moves = ev->key == K_DOWN || (ev->key == K_UP && c->open) || ev->key == K_BACK_TAB;
    if ((!moves && ev->key != '\033') || n_completions(a) == 0) return false;
    if (ev->key == '\033')
        c->dismissed = true;
    else
        complete(a, ev->key == K_DOWN ? 1 : -1);
    return true;
}

static bool capture(struct app *a, const struct key_event *ev)
{
    if (list_key(a, ev)) return true;
    if (ev->key != '\t') a->completion.open = false;
    if (a->question.open) return question_key(a, ev);
    if (a->search.open) return search_key(a, ev);
    if (ev->key != '?' || a->edit.text.n > 0) return false;
    app_request(a, REQ_RUN(SLASH_HELP)); /* no message begins so */
    return true;
}

static bool edit_request(struct edit *e, int r)
{
    switch (r) {
    case REQ_NEWLINE: edit_insert(e, "\n", 1); break;
    case REQ_CHAR_LEFT: edit_move(e, EDIT_LEFT); break;
    case REQ_CHAR_RIGHT: edit_move(e, EDIT_RIGHT); break;
    case REQ_WORD_LEFT: edit_move(e, EDIT_WORD_LEFT); break;
    case REQ_WORD_RIGHT: edit_move(e, EDIT_WORD_RIGHT); break;
    case REQ_LINE_START: edit_move(e, EDIT_LINE_START); break;
    case REQ_LINE_END: edit_move(e, EDIT_LINE_END); break;
    case REQ_TEXT_START: edit_move(e, EDIT_START); break;
    case REQ_TEXT_END: edit_move(e, EDIT_END); break;
    case REQ_RUBOUT: edit_erase(e, EDIT_LEFT); break;
    case REQ_DELETE: edit_erase(e, EDIT_RIGHT); break;
    case REQ_KILL_WORD_LEFT: edit_kill(e, EDIT_WORD_LEFT); break;
    case REQ_KILL_WORD_RIGHT: edit_kill(e, EDIT_WORD_RIGHT); break;
    case REQ_KILL_LINE_LEFT: edit_kill(e, EDIT_LINE_START); break;
    case REQ_KILL_LINE_RIGHT: edit_kill(e, EDIT_LINE_END); break;
    case REQ_YANK: edit_yank(e); break;
    case REQ_UNDO: edit_undo(e); break;
    case REQ_REDO: edit_redo(e); break;
    default: return false;
    }
    return true;
}

static bool request(struct app *a, int r)
{
    int page = a->chat.page > 2 ? a->chat.page - 1 : 1;
    switch (r) {
    case REQ_SEND: app_send(a); break;
    case REQ_UNFOLD:
        if (!edit_unfold(&a->edit)) a->talk.unfolded = !a->talk.unfolded;
        break;
    case REQ_INTERRUPT: app_interrupt(a); break;
    case REQ_EOF:
        if (a->edit.text.n == 0)
            app_act(a, ACT_QUIT, "", 0);
        else
            edit_erase(&a->edit, EDIT_RIGHT);
        break;
    case REQ_PAGE_UP: scroll(a, -page); break;
    case REQ_PAGE_DOWN: scroll(a, page); break;
    case REQ_UP: scroll(a, -1); break;
    case REQ_DOWN: scroll(a, 1); break;
    case REQ_LAST:
        if (a->chat.held)
            a->chat.held = false;
        else
            edit_move(&a->edit, EDIT_LINE_END);
        break;
    case REQ_HISTORY_OLDER: older(a); break;
    case REQ_HISTORY_NEWER: newer(a); break;
    case REQ_HISTORY_SEARCH: search_begin(a); break;
    case REQ_COMPLETE: complete(a, 1); break;
    case REQ_READ_FIND:
        app_show(a, VIEW_READ);
        a->read.typing = true;
        break;
    case REQ_FADING:
        a->chat.flat = !a->chat.flat;
        app_flash(a, a->chat.flat ? "plain text" : "text shaded by how much of it is kept");
        break;
    default: return edit_request(&a->edit, r);
    }
    return true;
}

static void key(struct app *a, const struct key_event *ev)
{
    char bytes[4];
    if (welcome_key(a, ev)) return;
    if (ev->key == K_PASTE)
        edit_paste(&a->edit, ev->text, ev->n);
    else if (ev->key >= 0x20 && ev->key < 0x110000 && ev->key != 127)
        edit_insert(&a->edit, bytes, (size_t)utf8_encode(ev->key, bytes));
}

const struct view_ops view_chat = {
    .name = "chat",
    .draw = draw,
    .request = request,
    .key = key,
    .capture = capture,
};
