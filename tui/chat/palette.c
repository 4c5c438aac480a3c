#include "tui/chat/palette.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/control/slash.h"
#include "cli/print/num.h"
#include "tui/chat/app.h"

void palette_release(struct palette *p)
{
    edit_release(&p->filter);
    free(p->items);
    free(p->shown);
}

/* Cut to its field. */
static void put(char *out, size_t n, const char *text)
{
    snprintf(out, n, "%.*s", (int)n - 1, text);
}

static struct palette_item *add(struct palette *p, int does, const char *name, const char *key,
                                const char *text)
{
    p->items = memory_more(p->items, (size_t)p->n, &p->cap, sizeof *p->items);
    struct palette_item *item = &p->items[p->n++];
    *item = (struct palette_item){.does = does};
    put(item->name, sizeof item->name, name);
    put(item->key, sizeof item->key, key);
    put(item->text, sizeof item->text, text);
    return item;
}

/* ---- items ----------------------------------------------------------------------------------- */

/* The view's row of the key table that says "also /name"; NULL = none. */
static const struct binding *key_of(enum view view, const char *name)
{
    char also[40];
    int n = snprintf(also, sizeof also, "/%s", name);
    for (const struct binding *b = key_table; b->views; b++) {
        bool here = b->views & IN(view) && b->label && b->help;
        const char *at = here ? strstr(b->help, also) : NULL;
        if (at && (at[n] == 0 || strchr(" ,;", at[n]))) return b;
    }
    return NULL;
}

static void add_keys(struct palette *p)
{
    for (const struct binding *b = key_table; b->views; b++) {
        bool moves = b->request >= REQ_UP && b->request <= REQ_LAST;
        bool edits = b->request >= REQ_SEND && b->request <= REQ_COMPLETE;
        bool here = b->views & IN(p->of) && b->label && b->help && !strstr(b->help, "/");
        if (!here || moves || edits || b->request == REQ_PALETTE) continue;
        add(p, PALETTE_REQUEST, b->hint ? b->hint : "", b->label, b->help)->request = b->request;
    }
}

static void add_commands(struct palette *p)
{
    for (const struct slash_row *row = slash_table; row->name; row++) {
        char name[64];
        const struct binding *b = key_of(p->of, row->name);
        bool plain = row->argument == SLASH_NONE || row->usage[0] == '[';
        snprintf(name, sizeof name, "/%s %s", row->name, row->usage);
        struct palette_item *item =
            add(p, plain ? PALETTE_RUN : PALETTE_DRAFT, name, b ? b->label : "", row->help);
        snprintf(item->line, sizeof item->line, plain ? "/%s" : "/%s ", row->name);
    }
}

static void put_value(const struct app *a, const struct option *f, char *out, size_t n)
{
    struct str value = {0};
    settings_value(&a->settings, a->have_stats ? &a->stats : NULL, f, &value);
    put(out, n, str_get(&value));
    str_release(&value);
}

static void put_range(const struct option *f, char *out, size_t n)
{
    if (f->choices)
        snprintf(out, n, "%s", f->choices);
    else if (f->max > 0 && f->max < 1e7)
        snprintf(out, n, "%.4g to %.7g", f->min, f->max);
    else
        snprintf(out, n, "%s", f->value ? f->value : "on or off");
}

static void add_settings(const struct app *a, struct palette *p)
{
    const struct option *f;
    for (int i = 0; (f = options_setting(SLASH_SETTINGS, i)); i++) {
        char name[64], value[40], range[64], text[200];
        snprintf(name, sizeof name, "set %s", f->name);
        put_value(a, f, value, sizeof value);
        put_range(f, range, sizeof range);
        snprintf(text, sizeof text, "%s: %.*s", range, (int)strcspn(f->help, ";"), f->help);
        snprintf(add(p, PALETTE_DRAFT, name, value, text)->line, 160, "/set %s ", f->name);
    }
}

static void add_conversations(const struct app *a, struct palette *p)
{
    char age[NUM_MAX], name[64];
    for (int i = 0; i < a->list.n; i++) {
        const struct conversations_entry *c = &a->list.rows[i];
        if (strcmp(c->name, a->name) == 0) continue;
        snprintf(name, sizeof name, "open %.50s", c->name);
        struct palette_item *item =
            add(p, PALETTE_RUN, name, num_age(a->wall_ms, c->updated_ms, age), c->title);
        snprintf(item->line, sizeof item->line, "/open %s", c->name);
    }
}

static void put_model(const struct model_row *m, char *out, size_t n)
{
    char units[NUM_MAX], size[NUM_MAX];
    if (m->problem[0])
        put(out, n, m->problem);
    else
        snprintf(out, n, "%s, %s, up to %s units per head", m->type, num_bytes(m->size, size),
                 num_exact(m->budget, units));
}

static void add_models(const struct app *a, struct palette *p)
{
    for (int i = 0; i < a->models.n; i++) {
        const struct model_row *m = &a->models.rows[i];
        char name[64], text[200];
        snprintf(name, sizeof name, "model %.50s", m->name);
        put_model(m, text, sizeof text);
        struct palette_item *item =
            add(p, PALETTE_RUN, name, app_is_model(a, m->path) ? "now" : "", text);
        snprintf(item->line, sizeof item->line, "/model %.150s", m->name);
    }
}

/* "turn 3, pinned", its first words, and how much of it is kept. */
static void add_turns(const struct app *a, struct palette *p)
{
    int turn = 0;
    for (int i = 0; i < a->talk.n; i++) {
        const struct message *m = &a->talk.messages[i];
        char name[32], kept[32] = "", text[200];
        if (m->role != CHAT_USER) continue;
        int64_t end = m->position + m->n_tokens;
        for (int k = i + 1; k < a->talk.n && a->talk.messages[k].role != CHAT_USER; k++)
            if (a->talk.messages[k].n_tokens > 0)
                end = a->talk.messages[k].position + a->talk.messages[k].n_tokens;
        int share = m->position >= 0 ? app_percent_kept(a, m->position, end) : -1;
        turn++;
        const char *mark = save_turns_hold(&a->stats.forgotten, turn) ? ", forgotten"
                           : save_turns_hold(&a->stats.pinned, turn)  ? ", pinned"
                                                                      : "";
        if (share >= 0) snprintf(kept, sizeof kept, "%3d %% kept", share);
        snprintf(name, sizeof name, "turn %d%s", turn, mark);
        put(text, sizeof text, message_words(m));
        for (char *c = text; *c; c++)
            if (*c == '\n' || *c == '\t') *c = ' ';
        add(p, PALETTE_TURN, name, kept, text)->message = i;
    }
}

static void fill(struct app *a, struct palette *p)
{
    p->n = 0;
    switch (p->kind) {
    case PALETTE_SETTINGS: add_settings(a, p); break;
    case PALETTE_MODELS: add_models(a, p); break;
    case PALETTE_TURNS: add_turns(a, p); break;
    case PALETTE_ALL:
        add_commands(p);
        add_settings(a, p);
        add_conversations(a, p);
        add_models(a, p);
        add_keys(p);
        break;
    }
}

/* ---- filter ---------------------------------------------------------------------------------- */

/* Whether each word of the filter occurs in the item. */
static bool passes(const struct palette_item *item, const char *filter)
{
    char word[64];
    for (filter += strspn(filter, " "); *filter; filter += strspn(filter, " ")) {
        size_t n = strcspn(filter, " ");
        snprintf(word, sizeof word, "%.*s", (int)(n < 63 ? n : 63), filter);
        if (!strcasestr(item->name, word) && !strcasestr(item->key, word) &&
            !strcasestr(item->text, word))
            return false;
        filter += n;
    }
    return true;
}

/* Items whose name has the text come first. */
void palette_filter(struct palette *p)
{
    const char *filter = str_get(&p->filter.text);
    p->shown = memory_grow(p->shown, (size_t)p->n + 1, sizeof *p->shown);
    p->n_shown = p->selected = p->top = 0;
    for (int named = 1; named >= 0; named--)
        for (int i = 0; i < p->n; i++) {
            bool in_name = !filter[0] || strcasestr(p->items[i].name, filter) != NULL;
            if (passes(&p->items[i], filter) && in_name == named) p->shown[p->n_shown++] = i;
        }
}

void palette_open(struct app *a, enum palette_kind kind)
{
    struct palette *p = &a->palette;
    if (a->view != VIEW_PALETTE) p->of = a->view;
    p->kind = kind;
    if (!a->models.n) app_act(a, ACT_MODELS, "", 0);
    app_act(a, ACT_LIST, "", 0);
    edit_set(&p->filter, "", 0);
    p->n = p->n_shown = 0;
    a->view = VIEW_PALETTE;
    p->fresh = true;
}

void palette_fill(struct app *a)
{
    a->palette.fresh = false;
    fill(a, &a->palette);
    palette_filter(&a->palette);
}

void palette_choose(struct app *a)
{
    struct palette *p = &a->palette;
    if (p->n_shown == 0) return;
    struct palette_item item = p->items[p->shown[p->selected]];
    if (item.does != PALETTE_REQUEST) p->of = VIEW_CHAT;
    a->view = p->of;
    switch (item.does) {
    case PALETTE_REQUEST: app_request(a, item.request); break;
    case PALETTE_DRAFT:
        app_put_draft_away(a);
        edit_set(&a->edit, item.line, strlen(item.line));
        break;
    case PALETTE_RUN: app_run_line(a, item.line, strlen(item.line)); break;
    case PALETTE_TURN: app_scroll_to(a, item.message, 0); break;
    }
}

/* ---- while a command is typed ---------------------------------------------------------------- */

const char *palette_name(void *ctx, enum slash_argument kind, int i, char text[200])
{
    const struct app *a = ctx;
    const struct option *f = options_setting(SLASH_SETTINGS, i);
    char value[40], range[64];
    if (kind == SLASH_SETTING) {
        if (!f) return NULL;
        if (!text) return f->name;
        put_value(a, f, value, sizeof value);
        put_range(f, range, sizeof range);
        snprintf(text, 200, "%s now; %s: %s", value, range, f->help);
        return f->name;
    }
    if (kind == SLASH_MODEL_NAME) {
        if (text && i < a->models.n) put_model(&a->models.rows[i], text, 200);
        return i < a->models.n ? a->models.rows[i].name : NULL;
    }
    if (text && i < a->list.n) put(text, 200, a->list.rows[i].title);
    return i < a->list.n ? a->list.rows[i].name : NULL;
}
