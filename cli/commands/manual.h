/* manual: the program's documentation of itself, from the tables that implement it: commands,
 * options, policies, keys. So every feature is documented. */
#ifndef RETAIN_CLI_COMMANDS_MANUAL_H
#define RETAIN_CLI_COMMANDS_MANUAL_H

#include <stdbool.h>

#include "base/str.h"

struct options;

/* main.c's table, which ends with name NULL. */
struct command {
    const char *name;
    int (*run)(const struct options *o);
    unsigned groups; /* options it takes */
    const char *args;
    const char *about;
};

/* NULL: there is none. */
const struct command *command_named(const struct command *commands, const char *name);

/* retain(1) in man(7) macros: docs/retain.1. */
void manual_print(const struct command *commands, struct str *out);

/* Prints completions for shells, one "word<TAB>description" per line: the possible completions of
 * words[n - 1] after the words before it, without the program's name. Returns false where a file is
 * expected. */
bool manual_complete(const struct command *commands, int n, char *const *words);

#endif
