/* Lists, searches and the commands on saved conversations, on the screen's thread. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/save/conversations.h"
#include "tui/chat/app.h"

enum { HITS_MAX = 200 };

static int add_entry(void *ctx, const struct conversations_entry *c)
{
    struct list_state *l = ctx;
    l->rows = memory_more(l->rows, (size_t)l->n, &l->cap, sizeof *l->rows);
    l->rows[l->n++] = *c;
    return 0;
}

static void show_error(struct app *a, const struct err *e)
{
    snprintf(a->list.error, sizeof a->list.error, "%.200s", e->text);
    if (a->view == VIEW_CHAT) app_flash(a, "%.150s", e->text);
}

void list_fill(struct app *a, struct conversations *l)
{
    struct err e = {0};
    a->list.n = 0;
    if (l && conversations_list(l, NULL, add_entry, &a->list, &e)) show_error(a, &e);
    a->list.n_shown = -1; /* to be filtered again */
}

/* Newest message of each conversation that was found. */
static void add_hit(struct list_state *l, const struct store_hit *h)
{
    for (int i = 0; i < l->n_hits; i++)
        if (strcmp(l->hits[i].name, h->conversation->name) == 0) return;
    if (l->n_hits == HITS_MAX) return;
    struct list_hit *hit = &l->hits[l->n_hits++];
    snprintf(hit->name, sizeof hit->name, "%s", h->conversation->name);
    size_t n = 0;
    for (const char *c = h->snippet; *c && n + 1 < sizeof hit->snippet; c++)
        if (*c != '\2' && *c != '\3') hit->snippet[n++] = *c == '\n' || *c == '\t' ? ' ' : *c;
    hit->snippet[n] = 0;
}

static void on_done(struct list_state *l, const struct event *ev)
{
    snprintf(l->said, sizeof l->said, "%.*s", (int)ev->n_text, ev->text);
    if (ev->done.command == SLASH_DELETE)
        snprintf(l->deleted, sizeof l->deleted, "%s", ev->done.name);
    if (ev->done.command != SLASH_RESTORE) return;
    snprintf(l->chosen, sizeof l->chosen, "%s", ev->done.name); /* the cursor goes there */
    l->deleted[0] = 0;
}

static void on_event(void *ctx, const struct event *ev)
{
    struct app *a = ctx;
    struct err e;
    if (ev->kind == EVENT_FOUND) add_hit(&a->list, ev->hit);
    if (ev->kind == EVENT_DONE) on_done(&a->list, ev);
    if (ev->kind != EVENT_FAILED) return;
    err_set(&e, ev->code, "%s", ev->text);
    show_error(a, &e);
}

/* Uses the screen's own handle of the conversations, so that a running answer does not delay it. */
static void run(struct app *a, struct conversations *l, const struct request *r)
{
    struct control c = {.parts = {.library = l}};
    struct events events = {.ctx = a, .event = on_event};
    if (l) control_run(&c, r, &events);
}

static void search(struct app *a, struct conversations *l, const struct str *text)
{
    struct list_state *list = &a->list;
    struct request find = {.command = SLASH_FIND, .text = *text};
    if (!list->hits) list->hits = memory_new(HITS_MAX, sizeof *list->hits);
    list->n_hits = 0;
    list->n_shown = -1;
    if (text->n) run(a, l, &find);
}

static bool is_for_list(const struct app *a, const struct act_row *row)
{
    const struct request *r = &row->request;
    if (row->act != ACT_RUN || slash_row_of(r->command)->place != SLASH_AT_SAVED) return false;
    return r->command != SLASH_RENAME || strcmp(r->name, a->name) != 0; /* the session's own name */
}

bool list_act(struct app *a, struct conversations *l, const struct act_row *row)
{
    if (row->act == ACT_SEARCH) {
        search(a, l, &row->text);
        return true;
    }
    if (row->act != ACT_LIST && !is_for_list(a, row)) return false;
    if (row->act == ACT_RUN) {
        a->list.said[0] = 0;
        run(a, l, &row->request);
        if (a->view == VIEW_CHAT && a->list.said[0]) app_flash(a, "%.150s", a->list.said);
    }
    list_fill(a, l);
    return true;
}
