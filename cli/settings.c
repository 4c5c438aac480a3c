#include "cli/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/slash.h"

void settings_init(struct settings *s, const struct options *o)
{
    *s = (struct settings){.options = *o};
}

void settings_release(struct settings *s)
{
    for (int i = 0; i < s->n_texts; i++) str_release(&s->texts[i]);
    free(s->texts);
    *s = (struct settings){0};
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
    if (!s->options.private_mode) return SETTINGS_REOPEN;
    return err_set(e, ERR_USAGE, "%s is set when a conversation is opened; this one is private",
                   fact->name);
}

/* Options point to their texts: they live as long as the settings. */
static const char *keep(struct settings *s, const char *text)
{
    s->texts = realloc(s->texts, sizeof *s->texts * (size_t)(s->n_texts + 1));
    if (!s->texts) abort();
    struct str *kept = &s->texts[s->n_texts++];
    *kept = (struct str){0};
    str_puts(kept, text);
    return str_get(kept);
}

int settings_change(struct settings *s, const struct option_fact *f, const char *value,
                    struct err *e)
{
    struct options changed = s->options;
    int rc = options_set(&changed, f->groups, f->name, keep(s, value), e);
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
