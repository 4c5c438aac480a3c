/* slash: commands typed into the chat, for the screen and for --plain, from one table.
 *
 * A line that begins with '/' never reaches the model unless it begins with "//", which sends the
 * rest with one slash. */
#ifndef RETAIN_CLI_CONTROL_SLASH_H
#define RETAIN_CLI_CONTROL_SLASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/options/options.h"

/* Settings that /set changes: those NOW apply from the next token, the others reopen the
 * conversation. */
#define SLASH_SET_NOW  OPTIONS_SAMPLING
#define SLASH_SETTINGS (OPTIONS_SAMPLING | OPTIONS_MEMORY)

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
    SLASH_MODEL,
    SLASH_SYSTEM,
    SLASH_RENAME,
    SLASH_TAG,
    SLASH_DELETE,
    SLASH_RESTORE,
    SLASH_DROP,
    SLASH_COPY,
    SLASH_FILE,
    SLASH_SAVE,
    SLASH_RAW,
    SLASH_THOUGHT,
    SLASH_MAP,
    SLASH_TINT,
    SLASH_TOKENS,
    SLASH_RECALL,
    SLASH_RECALLED,
    SLASH_WHY,
    SLASH_PIN,
    SLASH_UNPIN,
    SLASH_FORGET,
    SLASH_STATS,
    SLASH_TURNS,
    SLASH_MESSAGES,
    SLASH_MOUSE,
    SLASH_LOG,
};

/* What completes a command's argument. */
enum slash_argument {
    SLASH_NONE,
    SLASH_TEXT,
    SLASH_TURN,
    SLASH_NAME,
    SLASH_MODEL_NAME,
    SLASH_SETTING,
    SLASH_WHAT,
    SLASH_PATH
};

/* Which part of the program runs a command. */
enum slash_place {
    SLASH_AT_FRONT,   /* the front end, in its own way */
    SLASH_AT_SCREEN,  /* the screen only */
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
    bool only_reads; /* the conversation stays as it is: an /edit that is being written waits */
};
extern const struct slash_row slash_table[]; /* ends with name NULL */

/* The row of a command; of SLASH_SAY and SLASH_UNKNOWN the last one. */
const struct slash_row *slash_row_of(enum slash id);

/* Classifies line[0, n); *rest and *n_rest: the text to send, or the command's argument. */
enum slash slash_parse(const char *line, size_t n, const char **rest, size_t *n_rest);

/* The command most similar to the line's first word, without the slash; NULL when none is
 * similar. */
const char *slash_nearest(const char *line, size_t n);
/* Message for a line that is SLASH_UNKNOWN. */
enum { SLASH_ADVICE_MAX = 80 };
const char *slash_advice(const char *line, size_t n, char out[SLASH_ADVICE_MAX]);

/* A turn from a command's argument: "" and "last" are n_turns, "-1" the one before; *rest = the
 * text after it. false: no such turn, or not a number. */
bool slash_turn(const char *text, int64_t n_turns, int64_t *turn, const char **rest);

/* The name of the i-th saved conversation, model or setting; NULL past the end. text
 * gets a description of it; may be NULL. */
typedef const char *slash_names(void *ctx, enum slash_argument kind, int i, char text[200]);

/* A completion of the word that ends the line. */
struct slash_offer {
    size_t from; /* byte of the line where the word begins */
    char word[128], text[200];
};
/* The i-th; false: there is none. */
bool slash_complete(const char *line, size_t n, slash_names *names, void *ctx, int i,
                    struct slash_offer *out);

#endif
