#include "cli/control/conversation_table.h"

#include <stdio.h>
#include <string.h>

#include "base/system.h"
#include "base/utf8_width.h"
#include "cli/print/num.h"
#include "cli/print/report.h"

struct conversation_table conversation_table_begin(bool aside)
{
    return (struct conversation_table){.now_ms = system_unix_ms(), .aside = aside};
}

static void put_line(const struct conversation_table *p, const char *line)
{
    if (p->aside)
        report_aside("%s\n", line);
    else
        report_line("%s", line);
}

/* A name longer than the column keeps its beginning. */
static void put_cut(struct str *line, const char *name, int columns)
{
    char cut[128];
    size_t n = strlen(name), kept = utf8_fit(name, n, columns);
    if (kept < n) kept = utf8_fit(name, n, columns - 1);
    snprintf(cut, sizeof cut, "%.*s%s", (int)kept, name, kept < n ? "…" : "");
    report_cell(line, cut, columns);
}

int conversation_table_row(void *ctx, const struct conversations_entry *c)
{
    struct conversation_table *p = ctx;
    struct str line = {0};
    char age[NUM_MAX], tokens[NUM_MAX], cache[NUM_MAX];
    if (p->n++ == 0)
        put_line(
            p,
            "NAME                       AGE  TURNS   TOKENS      CACHE  MODEL             TITLE");
    report_cell(&line, c->name, 24);
    str_printf(&line, " %5s %6lld %8s %10s  ", num_age(p->now_ms, c->updated_ms, age),
               (long long)c->n_turns, num_count(c->n_tokens, tokens),
               c->cache_bytes > 0 ? num_bytes(c->cache_bytes, cache) : "-");
    put_cut(&line, c->model, 16);
    str_puts(&line, "  ");
    report_cell(&line, c->tags, 0);
    if (c->tags[0]) str_puts(&line, "  ");
    report_cell(&line, c->title, 0);
    put_line(p, line.data);
    str_release(&line);
    return 0;
}

int conversation_table_print(struct conversations *l, struct err *e)
{
    struct conversation_table p = conversation_table_begin(true);
    int rc = conversations_list(l, NULL, conversation_table_row, &p, e);
    if (!rc && p.n == 0) put_line(&p, "no saved conversations");
    return rc;
}

void conversation_heading(struct str *out, enum chat_role role, const char *mark)
{
    if (out->n) str_puts(out, out->data[out->n - 1] == '\n' ? "\n" : "\n\n");
    str_printf(out, "## %s%s\n\n", chat_role_word(role), mark);
}

struct text_writer {
    struct str *out;
    int role; /* of the previous message; -1 = none */
};

static int put_message(void *ctx, const struct store_message *m)
{
    struct text_writer *w = ctx;
    const char *mark = m->seq < 0 ? " (stopped)" : "";
    bool goes_on = m->role == CHAT_ASSISTANT && w->role == CHAT_ASSISTANT;
    if (!goes_on) conversation_heading(w->out, m->role, mark);
    str_append(w->out, m->text, m->n_text);
    if (goes_on) str_puts(w->out, mark);
    w->role = m->role;
    return 0;
}

int conversation_text(struct conversations *l, const char *name, struct str *out, struct err *e)
{
    struct text_writer w = {out, -1};
    int rc = conversations_messages(l, name, put_message, &w, e);
    if (out->n && out->data[out->n - 1] != '\n') str_puts(out, "\n");
    return rc;
}
