/* settings: what /set changes: the options of a chat.
 *
 * Sampling counts from the next token on. Settings of memory need the conversation opened again; if
 * that fails, settings_failed brings the options before back. */
#ifndef RETAIN_CLI_SETTINGS_H
#define RETAIN_CLI_SETTINGS_H

#include <stdbool.h>

#include "cli/options.h"

struct settings {
    struct options options, before;
    bool reopening; /* `before` counts again if the conversation cannot be opened */
};

void settings_init(struct settings *s, const struct options *o);

/* What "/set ARGUMENT" asks for. */
enum settings_ask {
    SETTINGS_SHOW,   /* all, or one when `fact` has a name */
    SETTINGS_NOW,    /* a change from the next token on */
    SETTINGS_REOPEN, /* a change by opening the conversation again */
};

/* Returns enum settings_ask or ERR_USAGE; *value points into `argument`. */
int settings_parse(const struct settings *s, const char *argument, struct option_fact *fact,
                   const char **value, struct err *e);

/* Carries a change out in `options`. */
int settings_change(struct settings *s, const struct option_fact *f, const char *value,
                    struct err *e);

void settings_opened(struct settings *s);
void settings_failed(struct settings *s);

#endif
