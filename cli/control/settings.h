/* settings: the options of a chat that /set changes.
 *
 * Sampling settings apply from the next token on. Settings of the memory need the conversation to
 * be reopened; if that fails, settings_failed restores the previous options. */
#ifndef RETAIN_CLI_CONTROL_SETTINGS_H
#define RETAIN_CLI_CONTROL_SETTINGS_H

#include <stdbool.h>

#include "cli/options/options.h"

struct session_stats;

struct settings {
    struct options options, before;
    bool reopening; /* `before` is restored if the conversation cannot be opened */
};

void settings_init(struct settings *s, const struct options *o);

/* The action of "/set ARGUMENT". */
enum settings_ask {
    SETTINGS_SHOW,   /* show all, or one when *out is not NULL */
    SETTINGS_NOW,    /* change from the next token on */
    SETTINGS_REOPEN, /* change by reopening the conversation */
};

/* Returns enum settings_ask or ERR_USAGE; *value points into `argument`. */
int settings_parse(const struct settings *s, const char *argument, const struct option **out,
                   const char **value, struct err *e);

/* Changes a setting in `options`. */
int settings_change(struct settings *s, const struct option *f, const char *value, struct err *e);

/* The value of a setting that the session uses, or will use for the next token. st NULL: no session
 * is open. */
void settings_value(const struct settings *s, const struct session_stats *st,
                    const struct option *f, struct str *out);

void settings_opened(struct settings *s);
void settings_failed(struct settings *s);

#endif
