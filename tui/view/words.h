/* words: the text of the conversation, each token shaded by how much of it is still in the cache.
 * For the chat, the tint and the map's lens. */
#ifndef RETAIN_TUI_VIEW_WORDS_H
#define RETAIN_TUI_VIEW_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "tui/chat/app.h"
#include "tui/term/grid.h"

/* The attributes of text that is kept: by a quarter of the heads or more, and by most. */
struct words_look {
    enum attr kept, best;
};

/* Draws bytes [from, from + n) of a message at column x; returns the column after it. Text whose
 * loss is fresh fades. */
int words_put(struct app *a, struct pane p, int x, int y, struct words_look look, int index,
              size_t from, size_t n);

bool words_have_place(const struct message *m); /* the positions of its tokens are known */

/* ---- screen lines of plain text -------------------------------------------------------------- */

/* A screen line: bytes of a message. */
struct words_line {
    int index; /* of the message; -1 = none */
    size_t from, n;
};

/* The line of a message that contains a byte; *next = the beginning of the next one, 0 = it is the
 * last. */
struct words_line words_line_at(const struct app *a, int index, size_t byte, int width,
                                size_t *next);
/* The line of a position's token; index -1: it has no text. */
struct words_line words_line_of(struct app *a, int64_t position, int width);
/* The line before or after one; false at the ends of the conversation. */
bool words_neighbour(const struct app *a, const struct words_line *l, bool after, int width,
                     struct words_line *out);

/* Draws a line with its gutter and role word; highlights the tokens of positions [from, end), and
 * puts the terminal's cursor on the first of them. */
void words_draw(struct app *a, struct pane p, int y, const struct words_line *l, int64_t from,
                int64_t end);
int words_column(struct pane p);  /* the column where its text begins */
bool words_narrow(struct pane p); /* there is no room for role words */
extern const char *const words_role[TRANSCRIPT_ROLES];

#endif
