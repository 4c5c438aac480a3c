/* slash: commands typed into the chat, for the screen and for --plain, from one table.
 *
 * A line that begins with '/' never reaches the model unless it begins with "//", which sends the
 * rest with one slash. */
#ifndef RETAIN_CLI_SLASH_H
#define RETAIN_CLI_SLASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/options.h"

/* Settings that /set changes: the first count from the next token, the others open the
 * conversation again. */
#define SLASH_SET_NOW  OPTIONS_SAMPLING
#define SLASH_SET_OPEN OPTIONS_MEMORY

enum slash {
    SLASH_SAY,     /* not a command: send *rest */
    SLASH_UNKNOWN, /* looks like one: see slash_nearest */
    SLASH_HELP,
    SLASH_QUIT,
    SLASH_CONTINUE,
    SLASH_REGENERATE,
    SLASH_EDIT,
    SLASH_ANSWER,
    SLASH_REWIND,
    SLASH_BRANCH,
    SLASH_SET,
    SLASH_NOW,
    SLASH_EDITOR,
    SLASH_LIST,
    SLASH_FIND,
    SLASH_OPEN,
    SLASH_NEW,
    SLASH_RENAME,
    SLASH_TAG,
    SLASH_DELETE,
    SLASH_RESTORE,
    SLASH_DROP,
    SLASH_COPY,
    SLASH_SAVE,
    SLASH_RAW,
    SLASH_MAP,
    SLASH_TINT,
    SLASH_TOKENS,
    SLASH_STATS,
    SLASH_LOG,
};

/* What completes a command's argument. */
enum slash_argument { SLASH_NONE, SLASH_TEXT, SLASH_TURN, SLASH_NAME, SLASH_SETTING, SLASH_WHAT };

/* Who carries a command out. */
enum slash_place {
    SLASH_AT_FRONT,   /* the front end, each in its own way */
    SLASH_AT_SCREEN,  /* the screen; plain lines have nothing like it */
    SLASH_AT_SESSION, /* control_run, on the open conversation */
    SLASH_AT_SAVED,   /* control_run, on saved conversations; an answer may run meanwhile */
};

struct slash_row {
    const char *name; /* without the slash */
    enum slash id;
    enum slash_argument argument;
    const char *usage; /* of the argument, as the help shows it */
    const char *help;
    enum slash_place place;
};
extern const struct slash_row slash_table[]; /* ends with name NULL */

enum slash_place slash_place(enum slash id);

/* What line[0, n) is; *rest and *n_rest: the text to send, or the command's argument. */
enum slash slash_parse(const char *line, size_t n, const char **rest, size_t *n_rest);

/* A setting of /set by its name. false: there is none, and `e` names the nearest. */
bool slash_setting(const char *name, struct option_fact *out, struct err *e);

/* The command that comes nearest to the line's first word, without the slash; NULL when none is
 * near.
 */
const char *slash_nearest(const char *line, size_t n);
/* What to say of a line that is SLASH_UNKNOWN. */
enum { SLASH_ADVICE_MAX = 80 };
const char *slash_advice(const char *line, size_t n, char out[SLASH_ADVICE_MAX]);

/* A turn from a command's argument: "" and "last" are n_turns, "-1" the one before; *rest = what
 * follows it. false: there is no such turn, or it is no number. */
bool slash_turn(const char *text, int64_t n_turns, int64_t *turn, const char **rest);

/* What could stand in the place of the word that ends at line[n): its i-th completion in `out`.
 * *from: the byte the word begins at. `names`: saved conversations, one per i, NULL past the end.
 * false: there is no i-th. */
typedef const char *slash_names(void *ctx, int i);
bool slash_complete(const char *line, size_t n, slash_names *names, void *ctx, int i, size_t *from,
                    char out[128]);

#endif
