#include "cli/control/settings.h"

#include <stdio.h>
#include <string.h>

#include "cli/control/slash.h"
#include "cli/print/num.h"
#include "runtime/session/session.h"

void settings_init(struct settings *s, const struct options *o)
{
    *s = (struct settings){.options = *o};
}

int settings_parse(const struct settings *s, const char *argument, const struct option **out,
                   const char **value, struct err *e)
{
    char name[64];
    size_t n = strcspn(argument, " =");
    *out = NULL;
    *value = argument + n + strspn(argument + n, " =");
    if (n == 0) return SETTINGS_SHOW;
    snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), argument);
    *out = options_named(SLASH_SETTINGS, name, e);
    if (!*out) return ERR_USAGE;
    if (!(*value)[0]) return SETTINGS_SHOW;
    if ((*out)->groups & SLASH_SET_NOW) return SETTINGS_NOW;
    if (!s->options.session.private_mode) return SETTINGS_REOPEN;
    return err_set(e, ERR_USAGE, "%s is set when a conversation is opened; this one is private",
                   (*out)->name);
}

int settings_change(struct settings *s, const struct option *f, const char *value, struct err *e)
{
    struct options changed = s->options;
    int rc = options_set(&changed, f->groups, f->name, value, e);
    if (rc) return rc;
    s->before = s->options;
    s->options = changed;
    s->reopening = !(f->groups & SLASH_SET_NOW);
    return 0;
}

/* Settings that a plan may change, or that other settings decide. */
static bool put_planned(const struct session_stats *st, const char *name, struct str *out)
{
    char bytes[NUM_MAX];
    if (!strcmp(name, "budget"))
        str_printf(out, "%d", st->budget);
    else if (!strcmp(name, "chunk"))
        str_printf(out, "%d", st->now.plan.chunk);
    else if (!strcmp(name, "kv"))
        str_puts(out, st->kv);
    else if (!strcmp(name, "recall"))
        str_puts(out, st->archive_max_bytes ? recall_chooser_name(st->now.recall.chooser) : "off");
    else if (!strcmp(name, "archive"))
        str_puts(out, num_bytes(st->archive_max_bytes, bytes));
    else
        return false;
    return true;
}

void settings_value(const struct settings *s, const struct session_stats *st,
                    const struct option *f, struct str *out)
{
    struct options now = s->options;
    if (st && put_planned(st, f->name, out)) return;
    bool given = options_from(&now, f->name) == OPTIONS_GIVEN;
    if (st && !given && (f->groups & SLASH_SET_NOW)) {
        now.session.sampling = st->now.sampling;
        now.session.max_tokens = st->now.max_tokens;
        now.session.ignore_end = st->now.ignore_end;
        now.session.think = st->now.think;
        now.session.keep_thoughts = st->now.keep_thoughts;
    }
    options_get(&now, f->groups, f->name, out, NULL);
    size_t n = strcspn(str_get(out), ":"); /* keys follow the name */
    bool policy = st && !strcmp(f->name, "policy");
    if (policy && (n != strlen(st->policy) || strncmp(str_get(out), st->policy, n) != 0)) {
        str_clear(out);
        str_puts(out, st->policy);
    }
    if (!out->n) str_puts(out, !strcmp(f->name, "memory") ? "all that is free" : "default");
}

void settings_opened(struct settings *s)
{
    s->reopening = false;
}

void settings_failed(struct settings *s)
{
    if (s->reopening) s->options = s->before;
    s->reopening = false;
}
