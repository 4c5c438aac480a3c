#include "cli/control/settings.h"

#include <stdio.h>
#include <string.h>

#include "cli/control/slash.h"

void settings_init(struct settings *s, const struct options *o)
{
    *s = (struct settings){.options = *o};
}

int settings_parse(const struct settings *s, const char *argument, struct option_fact *fact,
                   const char **value, struct err *e)
{
    char name[64];
    size_t n = strcspn(argument, " =");
    *fact = (struct option_fact){0};
    *value = argument + n + strspn(argument + n, " =");
    if (n == 0) return SETTINGS_SHOW;
    snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), argument);
    if (!slash_setting(name, fact, e)) return ERR_USAGE;
    if (!(*value)[0]) return SETTINGS_SHOW;
    if (fact->groups & SLASH_SET_NOW) return SETTINGS_NOW;
    if (!s->options.session.private_mode) return SETTINGS_REOPEN;
    return err_set(e, ERR_USAGE, "%s is set when a conversation is opened; this one is private",
                   fact->name);
}

int settings_change(struct settings *s, const struct option_fact *f, const char *value,
                    struct err *e)
{
    struct options changed = s->options;
    int rc = options_set(&changed, f->groups, f->name, value, e);
    if (rc) return rc;
    s->before = s->options;
    s->options = changed;
    s->reopening = !(f->groups & SLASH_SET_NOW);
    return 0;
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
