/* view_list: the saved conversations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/options/options.h"
#include "cli/print/num.h"
#include "tui/chat/app.h"
#include "tui/view/bars.h"

/* ---- rows and hits -------------------------------------------------------------------------- */

static const struct list_hit *hit_of(const struct list_state *l, const char *name)
{
    for (int i = 0; i < l->n_hits; i++)
        if (strcmp(l->hits[i].name, name) == 0) return &l->hits[i];
    return NULL;
}

/* "#tri" matches tags only. */
static bool passes(const struct list_state *l, const struct conversations_entry *c)
{
    const char *text = str_get(&l->filter.text);
    if (text[0] == '#') return strcasestr(c->tags, text);
    return !text[0] || strcasestr(c->name, text) || strcasestr(c->title, text) ||
           hit_of(l, c->name);
}

/* Remembers the conversation under the cursor: a question about it stays valid when rows move. */
static void remember_chosen(struct list_state *l)
{
    if (l->mode != LIST_BROWSE && l->mode != LIST_FIND) return;
    const char *name = l->n_shown > 0 ? l->rows[l->shown[l->selected]].name : "";
    snprintf(l->chosen, sizeof l->chosen, "%s", name);
}

/* Filters the rows, after rows, hits or filter have changed. The cursor stays on its conversation,
 * wherever that moved. */
static void refilter(struct list_state *l)
{
    if (l->n_shown >= 0 && l->shown) return;
    if (l->cap_shown < l->n || !l->shown) {
        l->cap_shown = l->n + 1;
        free(l->shown);
        l->shown = memory_grow(NULL, (size_t)l->cap_shown, sizeof *l->shown);
    }
    l->n_shown = 0;
    for (int i = 0; i < l->n; i++) {
        if (!passes(l, &l->rows[i])) continue;
        if (strcmp(l->rows[i].name, l->chosen) == 0) l->selected = l->n_shown;
        l->shown[l->n_shown++] = i;
    }
    if (l->selected >= l->n_shown) l->selected = l->n_shown > 0 ? l->n_shown - 1 : 0;
    remember_chosen(l);
}

/* The row under the cursor; NULL when there is none. */
static const struct conversations_entry *chosen(struct list_state *l)
{
    refilter(l);
    return l->n_shown > 0 ? &l->rows[l->shown[l->selected]] : NULL;
}

/* Ends a question and returns its row; NULL, and prints an error, when the row was removed. */
static const struct conversations_entry *end_question(struct list_state *l)
{
    l->mode = LIST_BROWSE;
    l->n_shown = -1;
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->rows[i].name, l->chosen) == 0) return &l->rows[i];
    snprintf(l->error, sizeof l->error, "%s no longer exists", l->chosen);
    return NULL;
}

static void open_view(struct app *a)
{
    struct list_state *l = &a->list;
    l->mode = LIST_BROWSE;
    l->error[0] = l->said[0] = 0;
    edit_set(&l->filter, "", 0);
    l->n_hits = 0;
    app_act(a, ACT_LIST, "", 0);
}

/* Returns the columns it takes. */
static int put_field(struct app *a, struct pane p, int x, int y, int w, enum attr attr,
                     const char *text)
{
    return pane_words(a, pane_sub(p, x, y, w, 1), 0, 0, attr, text);
}

/* Columns that only a wide screen has. */
static bool has_cache(struct pane p)
{
    return p.w >= 100;
}

static int model_width(struct pane p)
{
    return has_cache(p) ? 20 : 12;
}

static void draw_row(struct app *a, struct pane p, int y, int index)
{
    const struct conversations_entry *c = &a->list.rows[a->list.shown[index]];
    const struct list_hit *hit = hit_of(&a->list, c->name);
    bool selected = index == a->list.selected;
    char age[NUM_MAX], tokens[NUM_MAX], cache[NUM_MAX];
    int name_w = p.w >= 80 ? 22 : p.w / 2 - 6 > 8 ? p.w / 2 - 6 : p.w;
    if (selected) pane_fill(p, 0, y, p.w, ATTR_SELECT, ' ');
    enum attr attr = selected ? ATTR_SELECT : ATTR_TEXT;
    pane_puts(p, 0, y, attr, strcmp(c->name, a->name) == 0 ? "*" : " ");
    put_field(a, p, 2, y, name_w, selected ? ATTR_SELECT : ATTR_BOLD, c->name);
    int x = 3 + name_w;
    pane_printf(p, x, y, attr, "%5s", num_age(a->wall_ms, c->updated_ms, age));
    if (p.w < 60) return;
    pane_printf(p, x + 6, y, attr, "%5lld %8s", (long long)c->n_turns,
                num_count(c->n_tokens, tokens));
    x += 21;
    if (has_cache(p))
        pane_printf(p, x, y, attr, "%9s",
                    c->cache_bytes > 0 ? num_bytes(c->cache_bytes, cache) : "-");
    x += has_cache(p) ? 11 : 1;
    put_field(a, p, x, y, model_width(p), attr, c->model);
    x += model_width(p) + 1;
    if (c->tags[0])
        x += put_field(a, p, x, y, p.w - x, selected ? ATTR_SELECT : ATTR_DIM, c->tags) + 1;
    put_field(a, p, x, y, p.w - x - 1, attr, hit ? hit->snippet : c->title);
}

/* Draws the line above the hints: a question, a field, an error, or the number of further rows. */
static void draw_bottom(struct app *a, struct pane p, int y)
{
    struct list_state *l = &a->list;
    struct str question = {0};
    if (l->mode == LIST_DELETE || l->mode == LIST_DROP) {
        pane_fill(p, 0, y, p.w, ATTR_ERROR, ' ');
        str_printf(&question,
                   l->mode == LIST_DELETE ? " delete %s? (u brings it back)"
                                          : " %s: drop its cache? (the text must then be replayed)",
                   l->chosen);
        str_puts(&question, "  y yes, any other key no");
        put_field(a, p, 0, y, p.w, ATTR_ERROR, str_get(&question));
    } else if (l->mode == LIST_RENAME) {
        bar_field(a, p, y, "new name: ", &l->field);
    } else if (l->mode == LIST_TAG) {
        bar_field(a, p, y, "tags: ", &l->field);
    } else if (l->mode == LIST_FIND || l->filter.text.n) {
        bar_field(a, p, y, "/", &l->filter);
        if (l->mode != LIST_FIND) pane_cursor(p, -1, -1);
    } else if (l->error[0]) {
        put_field(a, p, 1, y, p.w - 2, ATTR_ERROR, l->error);
    } else if (l->said[0]) {
        put_field(a, p, 1, y, p.w - 2, ATTR_TEXT, l->said);
    } else if (l->top + l->page < l->n_shown) {
        pane_printf(p, 1, y, ATTR_DIM, "%d more", l->n_shown - l->top - l->page);
    }
    str_release(&question);
}

static void draw(struct app *a, struct pane p)
{
    struct list_state *l = &a->list;
    int page = p.h - 4;
    if (page < 1) page = 1;
    l->page = page;
    refilter(l);
    if (l->top > l->n_shown - page) l->top = l->n_shown > page ? l->n_shown - page : 0;
    if (l->selected < l->top) l->top = l->selected;
    if (l->selected >= l->top + page) l->top = l->selected - page + 1;
    bar_title(a, p, 0);
    int name_w = p.w >= 80 ? 22 : 0;
    if (name_w)
        pane_printf(p, 2, 1, ATTR_DIM, "%-22s %5s %5s %8s%s  %-*s %s", "name", "age", "turns",
                    "tokens", has_cache(p) ? "     cache" : "", model_width(p), "model", "title");
    int first = p.h >= 5 ? 2 : 1;
    a->places[PLACE_LIST] = pane_sub(p, 0, first, p.w, page);
    for (int i = 0; i < page && l->top + i < l->n_shown; i++) draw_row(a, p, first + i, l->top + i);
    if (l->n_shown == 0)
        pane_puts(p, 2, first, ATTR_DIM,
                  a->o->session.private_mode ? "private: nothing is saved"
                  : l->n > 0                 ? "nothing was found"
                                             : "no saved conversations");
    if (p.h < 4) return;
    draw_bottom(a, p, p.h - 2);
    if (l->mode == LIST_FIND)
        pane_puts(p, 1, p.h - 1, ATTR_DIM, "#TAG tags  arrows move  Enter open, or keep  Esc all");
    else if (l->mode == LIST_RENAME || l->mode == LIST_TAG)
        pane_puts(p, 1, p.h - 1, ATTR_DIM, "Enter done  Esc cancel");
    else
        bar_hints(a, p, p.h - 1);
}

void list_draw_pane(struct app *a, struct pane p)
{
    char age[NUM_MAX], tokens[NUM_MAX];
    pane_puts(p, 1, 0, ATTR_BOLD, "CONVERSATIONS");
    for (int i = 0; i < a->list.n && 3 * i + 3 < p.h; i++) {
        const struct conversations_entry *c = &a->list.rows[i];
        bool open = strcmp(c->name, a->name) == 0;
        int y = 2 + 3 * i;
        pane_puts(p, 0, y, ATTR_KEY, open ? ">" : " ");
        const char *called = app_name_is_number(c->name) && c->title[0] ? c->title : c->name;
        put_field(a, p, 2, y, p.w - 8, open ? ATTR_BOLD : ATTR_TEXT, called);
        pane_printf(p, p.w - 5, y, ATTR_DIM, "%4s", num_age(a->wall_ms, c->updated_ms, age));
        int x = called == c->name ? 4 : put_field(a, p, 4, y + 1, p.w - 20, ATTR_DIM, c->name) + 6;
        pane_printf(p, x, y + 1, ATTR_DIM, "%lld turn%s  %s", (long long)c->n_turns,
                    c->n_turns == 1 ? "" : "s", num_count(c->n_tokens, tokens));
    }
}

/* ---- keys ----------------------------------------------------------------------------------- */

static void move(struct app *a, int by)
{
    struct list_state *l = &a->list;
    refilter(l);
    l->selected += by;
    if (l->selected >= l->n_shown) l->selected = l->n_shown - 1;
    if (l->selected < 0) l->selected = 0;
    remember_chosen(l);
}

static bool is_open(struct app *a, const struct conversations_entry *c)
{
    return strcmp(c->name, a->name) == 0;
}

static void open_selected(struct app *a)
{
    struct list_state *l = &a->list;
    const struct conversations_entry *c = chosen(l);
    if (!c) return;
    if (is_open(a, c)) {
        app_show(a, VIEW_CHAT);
    } else if (a->phase != PHASE_READY) {
        snprintf(l->error, sizeof l->error, "not while it %s; Ctrl-C in the chat stops it",
                 app_busy(a) ? "answers" : "loads");
    } else {
        app_run_on(a, SLASH_OPEN, c->name, "");
        app_show(a, VIEW_CHAT);
    }
}

/* Deleting and dropping are for conversations that are not in use. */
static bool may_change(struct app *a)
{
    struct list_state *l = &a->list;
    const struct conversations_entry *c = chosen(l);
    if (!c) return false;
    if (!is_open(a, c)) return true;
    snprintf(l->error, sizeof l->error, "this conversation is open; open another one first");
    return false;
}

static void begin_field(struct app *a, enum list_mode mode)
{
    struct list_state *l = &a->list;
    const struct conversations_entry *c = chosen(l);
    if (!c) return;
    const char *text = mode == LIST_TAG ? c->tags : c->name;
    edit_set(&l->field, text, strlen(text));
    l->mode = mode;
}

static void end_rename(struct app *a)
{
    struct list_state *l = &a->list;
    const struct conversations_entry *c = end_question(l);
    if (!c || l->field.text.n == 0 || strcmp(str_get(&l->field.text), c->name) == 0) return;
    app_run_on(a, SLASH_RENAME, c->name, l->field.text.data);
    snprintf(l->chosen, sizeof l->chosen, "%s", l->field.text.data); /* keeps the cursor on it */
}

static bool has_word(const char *words, const char *word, size_t n)
{
    for (words += strspn(words, " ,"); *words; words += strspn(words, " ,")) {
        size_t length = strcspn(words, " ,");
        const char *bare = words + (*words == '#');
        if (length - (size_t)(bare - words) == n && memcmp(bare, word, n) == 0) return true;
        words += length;
    }
    return false;
}

/* The words of `words` that are not in `others`. A minus before a new one adds nothing. */
static void put_difference(const char *words, const char *others, const char *sign, struct str *out)
{
    for (words += strspn(words, " ,"); *words; words += strspn(words, " ,")) {
        words += *words == '#';
        size_t n = strcspn(words, " ,");
        bool wanted = *sign || *words != '-';
        if (n > 0 && wanted && !has_word(others, words, n))
            str_printf(out, "%s%.*s ", sign, (int)n, words);
        words += n;
    }
}

static void end_tags(struct app *a)
{
    struct list_state *l = &a->list;
    const struct conversations_entry *c = end_question(l);
    struct str text = {0};
    if (!c) return;
    put_difference(c->tags, str_get(&l->field.text), "-", &text);
    put_difference(str_get(&l->field.text), c->tags, "", &text);
    app_run_on(a, SLASH_TAG, c->name, str_get(&text));
    str_release(&text);
}

static void show_found(struct app *a)
{
    struct list_state *l = &a->list;
    l->n_shown = -1;
    l->selected = l->top = 0;
    l->chosen[0] = 0;
    app_act(a, ACT_SEARCH, str_get(&l->filter.text), l->filter.text.n);
}

static bool request(struct app *a, int r)
{
    struct list_state *l = &a->list;
    l->error[0] = l->said[0] = 0;
    switch (r) {
    case REQ_UP: move(a, -1); break;
    case REQ_DOWN: move(a, 1); break;
    case REQ_PAGE_UP: move(a, -l->page); break;
    case REQ_PAGE_DOWN: move(a, l->page); break;
    case REQ_FIRST: move(a, -l->n); break;
    case REQ_LAST: move(a, l->n); break;
    case REQ_OPEN: open_selected(a); break;
    case REQ_RUN(SLASH_NEW):
        if (a->phase == PHASE_READY) {
            app_run_on(a, SLASH_NEW, "", "");
            app_show(a, VIEW_CHAT);
        }
        break;
    case REQ_RUN(SLASH_DELETE):
        if (may_change(a)) l->mode = LIST_DELETE;
        break;
    case REQ_RUN(SLASH_DROP):
        if (may_change(a)) l->mode = LIST_DROP;
        break;
    case REQ_RUN(SLASH_RESTORE):
        if (l->deleted[0])
            app_run_on(a, SLASH_RESTORE, l->deleted, "");
        else
            snprintf(l->said, sizeof l->said, "nothing was deleted in this run");
        break;
    case REQ_RUN(SLASH_RENAME): begin_field(a, LIST_RENAME); break;
    case REQ_RUN(SLASH_TAG): begin_field(a, LIST_TAG); break;
    case REQ_FIND: l->mode = LIST_FIND; break;
    default: return false;
    }
    return true;
}

static bool find_key(struct app *a, const struct key_event *ev)
{
    struct list_state *l = &a->list;
    if (ev->key == '\033' || ev->key == CTRL('c')) {
        edit_set(&l->filter, "", 0);
        l->mode = LIST_BROWSE;
        show_found(a);
    } else if (ev->key == '\r') {
        l->mode = LIST_BROWSE;
        refilter(l);
        if (l->n_shown == 1) open_selected(a);
    } else if (ev->key == K_UP || ev->key == K_DOWN) {
        move(a, ev->key == K_UP ? -1 : 1);
    } else if (app_field_key(&l->filter, ev)) {
        show_found(a);
    } else {
        return false;
    }
    return true;
}

static bool capture(struct app *a, const struct key_event *ev)
{
    struct list_state *l = &a->list;
    const struct conversations_entry *c;
    enum slash command;
    switch (l->mode) {
    case LIST_FIND: return find_key(a, ev);
    case LIST_RENAME:
    case LIST_TAG:
        if (ev->key == '\r')
            (l->mode == LIST_TAG ? end_tags : end_rename)(a);
        else if (ev->key == '\033' || ev->key == CTRL('c'))
            l->mode = LIST_BROWSE;
        else
            return app_field_key(&l->field, ev);
        return true;
    case LIST_DELETE:
    case LIST_DROP:
        command = l->mode == LIST_DELETE ? SLASH_DELETE : SLASH_DROP;
        c = end_question(l);
        if (c && ev->key == 'y') app_run_on(a, command, c->name, "");
        return ev->key < KEY_BASE;
    case LIST_BROWSE: break;
    }
    return false;
}

/* A click chooses a conversation; a click on the chosen one opens it. */
static void key(struct app *a, const struct key_event *ev)
{
    struct list_state *l = &a->list;
    int row = ev->y - a->places[PLACE_LIST].y + l->top;
    if (ev->key != K_CLICK || row >= l->n_shown || !app_is_at(a, PLACE_LIST, ev)) return;
    if (row == l->selected)
        open_selected(a);
    else
        move(a, row - l->selected);
}

const struct view_ops view_list = {
    .name = "conversations",
    .open = open_view,
    .draw = draw,
    .request = request,
    .key = key,
    .capture = capture,
};
