#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands/commands.h"
#include "cli/control/conversation_table.h"
#include "cli/control/secret.h"
#include "cli/options/options.h"
#include "cli/options/paths.h"
#include "cli/print/num.h"
#include "cli/print/report.h"
#include "runtime/save/conversations.h"

static int print_json_row(void *ctx, const struct conversations_entry *c)
{
    (void)ctx;
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "name", c->name);
    cJSON_AddStringToObject(j, "title", c->title);
    cJSON_AddStringToObject(j, "model", c->model);
    cJSON_AddNumberToObject(j, "updated_ms", (double)c->updated_ms);
    cJSON_AddNumberToObject(j, "n_turns", (double)c->n_turns);
    cJSON_AddNumberToObject(j, "n_tokens", (double)c->n_tokens);
    cJSON_AddNumberToObject(j, "cache_bytes", (double)c->cache_bytes);
    cJSON *tags = cJSON_AddArrayToObject(j, "tags");
    for (const char *p = c->tags; *p; p += strspn(p, " ")) {
        char tag[sizeof c->tags];
        size_t n = strcspn(++p, " "); /* the text after its # */
        snprintf(tag, sizeof tag, "%.*s", (int)n, p);
        cJSON_AddItemToArray(tags, cJSON_CreateString(tag));
        p += n;
    }
    report_json(j);
    return 0;
}

static int print_json_message(void *ctx, const struct store_message *m)
{
    (void)ctx;
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "role", chat_role_word(m->role));
    cJSON_AddStringToObject(j, "text", m->text);
    cJSON_AddNumberToObject(j, "position", (double)m->position);
    cJSON_AddNumberToObject(j, "n_tokens", (double)m->n_tokens);
    cJSON_AddBoolToObject(j, "partial", m->seq < 0);
    if (m->settings) cJSON_AddStringToObject(j, "settings", m->settings);
    report_json(j);
    return 0;
}

enum { MANY = 1000 };

/* A command on the open conversations. */
typedef int saved_command(struct conversations *l, const struct options *o, struct err *e);

/* When the database is missing: create one, treat it as empty, or fail. MISSING_ERROR_FULL fails
 * too, and on a full disk it first releases the space that is kept for deleting. */
enum missing { MISSING_MADE, MISSING_EMPTY, MISSING_ERROR, MISSING_ERROR_FULL };

static int open_library(struct conversations **out, const struct options *o, const char *path,
                        enum missing missing, struct err *e)
{
    if (missing == MISSING_MADE) return secret_open_library(out, o, path, e);
    if (missing == MISSING_ERROR_FULL) store_free_reserve(path);
    if (missing != MISSING_EMPTY && conversations_is_missing(path))
        return err_set(e, ERR_FAIL, "no saved conversations: there is no %s", path);
    return secret_open_reading(out, o, path, e);
}

static int list_command(struct conversations *l, const struct options *o, struct err *e)
{
    struct conversation_table p = conversation_table_begin(false);
    int rc = conversations_list(l, o->store.tag, o->json ? print_json_row : conversation_table_row,
                                &p, e);
    if (!rc && p.n == 0 && !o->json)
        report_note(o->store.tag ? "no conversation has this tag" : "no saved conversations");
    return rc;
}

static int show_command(struct conversations *l, const struct options *o, struct err *e)
{
    struct str text = {0};
    if (o->json) return conversations_messages(l, o->args[0], print_json_message, NULL, e);
    int rc = conversation_text(l, o->args[0], &text, e);
    report_text(str_get(&text), text.n);
    str_release(&text);
    return rc;
}

static int rename_command(struct conversations *l, const struct options *o, struct err *e)
{
    return conversations_rename(l, o->args[0], o->args[1], e);
}

static int tag_command(struct conversations *l, const struct options *o, struct err *e)
{
    return conversations_tag(l, o->args[0], o->args + 1, o->n_args - 1, o->store.remove, e);
}

static int delete_command(struct conversations *l, const struct options *o, struct err *e)
{
    int rc = 0;
    for (int i = 0; i < o->n_args && !rc; i++) {
        if (o->store.cache_only)
            rc = conversations_drop_cache(l, o->args[i], e);
        else
            rc = conversations_delete(l, o->args[i], e);
        if (!rc && !o->store.cache_only)
            report_note("deleted '%s'; `retain restore` restores it within %d days", o->args[i],
                        CONVERSATIONS_UNDO_DAYS);
    }
    return rc;
}

static int restore_command(struct conversations *l, const struct options *o, struct err *e)
{
    return conversations_restore(l, o->args[0], o->n_args > 1 ? o->args[1] : NULL, e);
}

/* ---- search ---------------------------------------------------------------------------------- */

struct search_printer {
    struct conversation_table p;
    bool json;
    int limit;
};

#define ENOUGH 1 /* ends a walk; not an error */

static void print_hit(struct conversation_table *p, const struct store_hit *h)
{
    char age[NUM_MAX];
    struct str line = {0};
    report_cell(&line, h->conversation->name, 24);
    str_printf(&line, " %5s %-9s  %s", num_age(p->now_ms, h->created_ms, age),
               h->seq < 0 ? "name" : chat_role_word(h->role), h->snippet);
    report_marked(line.data);
    str_release(&line);
}

static void print_json_hit(const struct store_hit *h)
{
    struct str plain = {0};
    cJSON *j = cJSON_CreateObject();
    for (const char *s = h->snippet; *s; s++)
        if (*s != '\2' && *s != '\3') str_append(&plain, s, 1);
    cJSON_AddStringToObject(j, "name", h->conversation->name);
    cJSON_AddStringToObject(j, "title", h->conversation->title);
    cJSON_AddNumberToObject(j, "message", (double)h->seq);
    cJSON_AddStringToObject(j, "role", h->seq < 0 ? "name" : chat_role_word(h->role));
    cJSON_AddNumberToObject(j, "created_ms", (double)h->created_ms);
    cJSON_AddStringToObject(j, "snippet", str_get(&plain));
    report_json(j);
    str_release(&plain);
}

static int print_found(void *ctx, const struct store_hit *h)
{
    struct search_printer *s = ctx;
    if (s->json)
        print_json_hit(h);
    else
        print_hit(&s->p, h);
    return ++s->p.n == s->limit ? ENOUGH : 0;
}

static int search_command(struct conversations *l, const struct options *o, struct err *e)
{
    struct search_printer s = {conversation_table_begin(false), o->json, o->store.limit};
    struct str text = {0};
    for (int i = 0; i < o->n_args; i++) str_printf(&text, "%s%s", i ? " " : "", o->args[i]);
    int rc = conversations_search(l, text.data, print_found, &s, e);
    if (!rc && s.p.n == 0) rc = err_set(e, ERR_FAIL, "nothing found"); /* as grep does */
    str_release(&text);
    return rc == ENOUGH ? 0 : rc;
}

/* ---- files ----------------------------------------------------------------------------------- */

static int export_command(struct conversations *l, const struct options *o, struct err *e)
{
    int rc = 0;
    int64_t n_damaged = 0;
    if (o->store.with_cache && o->n_args > 1)
        return err_set(e, ERR_USAGE, "--with-cache makes a file of one conversation");
    if (o->store.with_cache)
        return conversations_export_cache(l, o->args[0], o->store.with_cache, e);
    for (int i = 0; i < o->n_args && !rc; i++) {
        struct str text = {0};
        rc = conversations_export(l, o->args[i], &text, &n_damaged, e);
        if (!rc) report_text(str_get(&text), text.n);
        str_release(&text);
    }
    if (rc || !n_damaged) return rc;
    return err_set(e, ERR_FORMAT,
                   "exported the intact part: %lld damaged part%s, damaged messages are marked; "
                   "`retain import` makes a conversation of it that can be continued",
                   (long long)n_damaged, n_damaged == 1 ? "" : "s");
}

static void tell_imported(void *ctx, const char *name)
{
    (void)ctx;
    report_note("imported '%s'", name);
}

static int import_command(struct conversations *l, const struct options *o, struct err *e)
{
    struct report_bar bar = report_bar("importing");
    report_catch_interrupt();
    conversations_watch(l, report_bar_show, &bar);
    int rc = conversations_import(l, o->args[0], o->n_args > 1 ? o->args[1] : NULL, tell_imported,
                                  NULL, e);
    report_bar_end(&bar);
    return rc;
}

/* ---- care ------------------------------------------------------------------------------------ */

static int check_command(struct conversations *l, const struct options *o, struct err *e)
{
    struct report_bar bar = report_bar("checking");
    (void)o;
    report_catch_interrupt();
    conversations_watch(l, report_bar_show, &bar);
    int rc = conversations_check(l, e);
    report_bar_end(&bar);
    if (!rc) report_note("every checksum is right");
    return rc;
}

static int compact_command(struct conversations *l, const struct options *o, struct err *e)
{
    struct conversations_size size;
    char before[NUM_MAX], after[NUM_MAX];
    (void)o;
    int rc = conversations_compact(l, &size, e);
    if (!rc)
        report_note("%s before, %s now; %lld deleted conversations were purged",
                    num_bytes(size.bytes_before, before), num_bytes(size.bytes_after, after),
                    (long long)size.n_purged);
    return rc;
}

static const struct saved_row {
    const char *name, *args; /* the arguments, for a usage error */
    int n_min, n_max;        /* of them */
    enum missing missing;
    saved_command *run;
} rows[] = {
    {"list", "[--json]", 0, 0, MISSING_EMPTY, list_command},
    {"show", "NAME [--json]", 1, 1, MISSING_ERROR, show_command},
    {"tag", "NAME TAG... [--remove]", 2, MANY, MISSING_ERROR, tag_command},
    {"rename", "NAME NEW-NAME", 2, 2, MISSING_ERROR, rename_command},
    {"delete", "[--cache-only] NAME…", 1, MANY, MISSING_ERROR_FULL, delete_command},
    {"restore", "NAME [NEW-NAME]", 1, 2, MISSING_ERROR, restore_command},
    {"search", "TEXT… [--json]", 1, MANY, MISSING_EMPTY, search_command},
    {"export", "NAME… [--json|--with-cache FILE]", 1, MANY, MISSING_ERROR, export_command},
    {"import", "FILE [NEW-NAME]", 1, 2, MISSING_MADE, import_command},
    {"check", "", 0, 0, MISSING_ERROR, check_command},
    {"compact", "", 0, 0, MISSING_ERROR_FULL, compact_command},
};

int cmd_saved(const struct options *o)
{
    struct str path = {0};
    struct conversations *l = NULL;
    struct err e = {0};
    int rc = 0;
    const struct saved_row *row = rows;
    while (strcmp(row->name, o->command) != 0) row++;
    if (o->n_args < row->n_min || o->n_args > row->n_max)
        rc = err_set(&e, ERR_USAGE, "usage: retain %s%s%s", row->name, *row->args ? " " : "",
                     row->args);
    if (!rc) rc = path_database(o, &path, &e);
    if (!rc) rc = open_library(&l, o, path.data, row->missing, &e);
    if (!rc) rc = row->run(l, o, &e);
    conversations_close(l);
    str_release(&path);
    return rc ? report_error(&e) : 0;
}
