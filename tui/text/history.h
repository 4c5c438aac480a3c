/* history: sent messages, across runs: one entry per line of a file that only its owner can read.
 * Newlines inside an entry are written as \n, backslashes as \\. */
#ifndef RETAIN_TUI_TEXT_HISTORY_H
#define RETAIN_TUI_TEXT_HISTORY_H

#include "base/str.h"

#define HISTORY_MAX         2000
#define HISTORY_SAVED_BYTES (64 << 10) /* a longer text is kept only until the program ends */

struct history {
    char *path;       /* NULL: private, nothing is saved */
    struct str *rows; /* oldest first */
    int n;
    int at;           /* n = not browsing */
    struct str draft; /* the draft before browsing began */
};

/* path NULL: in memory only. A file that cannot be read is an empty history. */
void history_init(struct history *h, const char *path);
void history_release(struct history *h);

/* Ends browsing; repeats and empty texts are not added. */
void history_add(struct history *h, const char *text, size_t n);

/* The entry before (or after) the shown one; `text` is the editor's text. NULL at the end. */
const struct str *history_older(struct history *h, const struct str *text);
const struct str *history_newer(struct history *h);

/* The newest entry from row `at` back that contains `text`; -1 = none. */
int history_find(const struct history *h, const struct str *text, int at);

#endif
