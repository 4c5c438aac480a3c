/* view_list: the saved conversations. */
#include <stdio.h>
#include <string.h>

#include "runtime/options.h"
#include "tui/app.h"
#include "tui/bars.h"
#include "tui/num.h"
#include "tui/utf8.h"

static void open_view(struct app *a)
{
    a->list.asking = false;
    a->list.error[0] = 0;
    app_act(a, ACT_LIST, "", 0);
}

static void put_field(struct app *a, struct pane p, int x, int y, int w, enum attr attr,
                      const char *text)
{
    struct str safe = {0};
    sanitize(text, strlen(text), a->ascii, true, &safe);
    pane_puts(pane_sub(p, x, y, w, 1), 0, 0, attr, str_get(&safe));
    str_release(&safe);
}

static void draw_row(struct app *a, struct pane p, int y, int index)
{
    const struct library_entry *c = &a->list.rows[index];
    bool selected = index == a->list.selected;
    char age[NUM_MAX], tokens[NUM_MAX], cache[NUM_MAX];
    int name_w = p.w >= 80 ? 22 : p.w / 2 - 6 > 8 ? p.w / 2 - 6 : p.w;
    if (selected) pane_fill(p, 0, y, p.w, ATTR_SELECT, ' ');
    enum attr attr = selected ? ATTR_SELECT : ATTR_TEXT;
    pane_puts(p, 0, y, attr, strcmp(c->name, a->name) == 0 ? "*" : " ");
    put_field(a, p, 2, y, name_w, selected ? ATTR_SELECT : ATTR_BOLD, c->name);
    int x = 3 + name_w;
    pane_printf(p, x, y, attr, "%5s", num_age(a->wall_ms - c->updated_ms, age));
    if (p.w < 60) return;
    pane_printf(p, x + 6, y, attr, "%5lld %8s %9s", (long long)c->n_turns,
                num_count(c->n_tokens, tokens),
                c->cache_bytes > 0 ? num_bytes(c->cache_bytes, cache) : "-");
    put_field(a, p, x + 32, y, p.w - x - 33, attr, c->title);
}

static void draw_question(struct app *a, struct pane p, int y)
{
    const struct library_entry *c = &a->list.rows[a->list.selected];
    pane_fill(p, 0, y, p.w, ATTR_ERROR, ' ');
    struct str question = {0};
    str_printf(&question,
               " delete %s, its text and its cache, for good?  y = yes, any other key = no",
               c->name);
    put_field(a, p, 0, y, p.w, ATTR_ERROR, str_get(&question));
    str_release(&question);
}

static void draw(struct app *a, struct pane p)
{
    struct list_state *l = &a->list;
    int page = p.h - 4;
    if (page < 1) page = 1;
    l->page = page;
    if (l->top > l->n - page) l->top = l->n > page ? l->n - page : 0;
    if (l->selected < l->top) l->top = l->selected;
    if (l->selected >= l->top + page) l->top = l->selected - page + 1;
    bar_title(a, p, 0);
    int name_w = p.w >= 80 ? 22 : 0;
    if (name_w)
        pane_printf(p, 2, 1, ATTR_DIM, "%-22s %5s %5s %8s %9s  %s", "name", "age", "turns",
                    "tokens", "cache", "title");
    int first = p.h >= 5 ? 2 : 1;
    for (int i = 0; i < page && l->top + i < l->n; i++) draw_row(a, p, first + i, l->top + i);
    if (l->n == 0)
        pane_puts(p, 2, first, ATTR_DIM,
                  a->o->private_mode ? "private: nothing is saved" : "no saved conversations");
    if (p.h < 4) return;
    if (l->asking && l->n > 0)
        draw_question(a, p, p.h - 2);
    else if (l->error[0])
        put_field(a, p, 1, p.h - 2, p.w - 2, ATTR_ERROR, l->error);
    else if (l->top + page < l->n)
        pane_printf(p, 1, p.h - 2, ATTR_DIM, "%d more", l->n - l->top - page);
    bar_hints(a, p, p.h - 1);
}

void list_draw_pane(struct app *a, struct pane p)
{
    char age[NUM_MAX], tokens[NUM_MAX];
    pane_puts(p, 1, 0, ATTR_BOLD, "CONVERSATIONS");
    for (int i = 0; i < a->list.n && 3 * i + 3 < p.h; i++) {
        const struct library_entry *c = &a->list.rows[i];
        bool open = strcmp(c->name, a->name) == 0;
        int y = 2 + 3 * i;
        pane_puts(p, 0, y, ATTR_KEY, open ? ">" : " ");
        put_field(a, p, 2, y, p.w - 8, open ? ATTR_BOLD : ATTR_TEXT, c->name);
        pane_printf(p, p.w - 5, y, ATTR_DIM, "%4s", num_age(a->wall_ms - c->updated_ms, age));
        pane_printf(p, 4, y + 1, ATTR_DIM, "%lld turn%s  %s", (long long)c->n_turns,
                    c->n_turns == 1 ? "" : "s", num_count(c->n_tokens, tokens));
    }
}

/* ---- keys ----------------------------------------------------------------------------------- */

static void move(struct app *a, int by)
{
    struct list_state *l = &a->list;
    l->selected += by;
    if (l->selected >= l->n) l->selected = l->n - 1;
    if (l->selected < 0) l->selected = 0;
}

static void open_selected(struct app *a)
{
    struct list_state *l = &a->list;
    if (l->n == 0) return;
    const char *name = l->rows[l->selected].name;
    if (strcmp(name, a->name) == 0) {
        app_show(a, VIEW_CHAT);
    } else if (a->phase != PHASE_READY) {
        snprintf(l->error, sizeof l->error, "not while it %s; Ctrl-C in the chat stops it",
                 app_busy(a) ? "answers" : "loads");
    } else {
        app_act(a, ACT_OPEN, name, strlen(name));
        app_show(a, VIEW_CHAT);
    }
}

static void ask_delete(struct app *a)
{
    struct list_state *l = &a->list;
    if (l->n == 0) return;
    if (strcmp(l->rows[l->selected].name, a->name) == 0)
        snprintf(l->error, sizeof l->error, "this conversation is open; open another one first");
    else
        l->asking = true;
}

static bool request(struct app *a, enum request r)
{
    struct list_state *l = &a->list;
    if (l->asking) {
        l->asking = false;
        if (r == REQ_YES && l->n > 0)
            app_act(a, ACT_DELETE, l->rows[l->selected].name, strlen(l->rows[l->selected].name));
        return r != REQ_QUIT;
    }
    l->error[0] = 0;
    switch (r) {
    case REQ_UP: move(a, -1); break;
    case REQ_DOWN: move(a, 1); break;
    case REQ_PAGE_UP: move(a, -l->page); break;
    case REQ_PAGE_DOWN: move(a, l->page); break;
    case REQ_FIRST: move(a, -l->n); break;
    case REQ_LAST: move(a, l->n); break;
    case REQ_OPEN: open_selected(a); break;
    case REQ_NEW:
        if (a->phase == PHASE_READY) {
            app_act(a, ACT_OPEN, "", 0);
            app_show(a, VIEW_CHAT);
        }
        break;
    case REQ_REMOVE: ask_delete(a); break;
    case REQ_YES: break;
    default: return false;
    }
    return true;
}

static void key(struct app *a, const struct key_event *ev)
{
    (void)ev;
    a->list.asking = false;
}

const struct view_ops view_list = {
    .name = "conversations",
    .open = open_view,
    .draw = draw,
    .request = request,
    .key = key,
};
