/* slash: commands typed into the chat, for the screen and for --plain, from one table.
 *
 * A line that begins with '/' never reaches the model unless it begins with "//", which sends the
 * rest with one slash. */
#ifndef RETAIN_TUI_SLASH_H
#define RETAIN_TUI_SLASH_H

#include <stddef.h>

enum slash {
    SLASH_SAY,     /* not a command: send *rest */
    SLASH_UNKNOWN, /* looks like one: see slash_nearest */
    SLASH_HELP,
    SLASH_QUIT,
    SLASH_CONTINUE,
    SLASH_LIST,
    SLASH_MAP,
    SLASH_TINT,
    SLASH_STATS,
    SLASH_LOG,
};

struct slash_row {
    const char *name; /* without the slash */
    enum slash id;
    const char *help;
    int screen_only;
};
extern const struct slash_row slash_table[]; /* ends with name NULL */

/* What line[0, n) is; *rest and *n_rest: the text to send, or the command's argument. */
enum slash slash_parse(const char *line, size_t n, const char **rest, size_t *n_rest);

/* The command that comes nearest to the line's first word, without the slash. */
const char *slash_nearest(const char *line, size_t n);

#endif
