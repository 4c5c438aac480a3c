#include "tui/chat/list_actions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/session/conversations.h"

enum { HITS_MAX = 200 };

static int add_entry(void *ctx, const struct conversations_entry *c)
{
    struct list_state *l = ctx;
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 64;
        l->rows = realloc(l->rows, sizeof *l->rows * (size_t)l->cap);
        if (!l->rows) abort();
    }
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
    if (l && conversations_list(l, add_entry, &a->list, &e)) show_error(a, &e);
    a->list.n_shown = -1; /* to be filtered anew */
}

/* Newest message of each conversation that was found. */
static int add_hit(void *ctx, const struct conversations_hit *h)
{
    struct list_state *l = ctx;
    for (int i = 0; i < l->n_hits; i++)
        if (strcmp(l->hits[i].name, h->name) == 0) return 0;
    if (l->n_hits == HITS_MAX) return 1;
    struct list_hit *hit = &l->hits[l->n_hits++];
    snprintf(hit->name, sizeof hit->name, "%s", h->name);
    size_t n = 0;
    for (const char *c = h->snippet; *c && n + 1 < sizeof hit->snippet; c++)
        if (*c != '\2' && *c != '\3') hit->snippet[n++] = *c == '\n' || *c == '\t' ? ' ' : *c;
    hit->snippet[n] = 0;
    return 0;
}

static void search(struct app *a, struct conversations *l, const char *text)
{
    struct err e = {0};
    struct list_state *list = &a->list;
    if (!list->hits) list->hits = calloc(HITS_MAX, sizeof *list->hits);
    if (!list->hits) abort();
    list->n_hits = 0;
    list->n_shown = -1;
    if (l && text[0] && conversations_search(l, text, add_hit, list, &e) < 0) show_error(a, &e);
}

/* text: a name, newline, what becomes of it */
static int change_entry(struct conversations *l, enum act act, const char *text, struct err *e)
{
    char name[128];
    const char *end = strchr(text, '\n');
    if (!end) return 0;
    snprintf(name, sizeof name, "%.*s", (int)(end - text), text);
    return (act == ACT_TAG ? conversations_retag : conversations_rename)(l, name, end + 1, e);
}

static int change(struct app *a, struct conversations *l, enum act act, const char *text,
                  struct err *e)
{
    struct list_state *list = &a->list;
    int rc;
    switch (act) {
    case ACT_DELETE:
        rc = conversations_delete(l, text, e);
        if (rc) return rc;
        snprintf(list->deleted, sizeof list->deleted, "%s", text);
        snprintf(list->said, sizeof list->said, "%.120s was deleted; u or /restore brings it back",
                 text);
        return 0;
    case ACT_RESTORE:
        rc = conversations_restore(l, text, NULL, e);
        if (rc) return rc;
        snprintf(list->said, sizeof list->said, "%.120s is back", text);
        snprintf(list->chosen, sizeof list->chosen, "%s", text); /* the cursor goes there */
        list->deleted[0] = 0;
        return 0;
    case ACT_DROP:
        rc = conversations_drop_cache(l, text, e);
        if (!rc)
            snprintf(list->said, sizeof list->said, "the cache of %.120s is gone, its text stays",
                     text);
        return rc;
    case ACT_TAG:
        rc = change_entry(l, act, text, e);
        if (!rc) snprintf(list->said, sizeof list->said, "tags changed");
        return rc;
    default: return change_entry(l, act, text, e);
    }
}

bool list_act(struct app *a, struct conversations *l, const struct act_row *row)
{
    const char *text = str_get(&row->text);
    struct err e = {0};
    switch (row->act) {
    case ACT_LIST: break;
    case ACT_SEARCH: search(a, l, text); return true;
    case ACT_DELETE:
    case ACT_RESTORE:
    case ACT_DROP:
    case ACT_RENAME:
    case ACT_TAG:
        a->list.said[0] = 0;
        if (l && change(a, l, row->act, text, &e))
            show_error(a, &e);
        else if (a->view == VIEW_CHAT && a->list.said[0])
            app_flash(a, "%.150s", a->list.said);
        break;
    default: return false;
    }
    list_fill(a, l);
    return true;
}
