/* transcript: the conversation as text, cut into screen lines.
 *
 * Text is kept sanitised; lines are cut once per width, and while an answer streams only its last
 * line is cut again. A place in it is (message, byte), not a row, so that it survives any resize.
 */
#ifndef RETAIN_TUI_TRANSCRIPT_H
#define RETAIN_TUI_TRANSCRIPT_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/str.h"
#include "runtime/chat.h"
#include "tui/sanitize.h"

enum { TRANSCRIPT_NOTE = CHAT_ROLES }; /* a role of our own: what the program has to say */

struct line {
    uint32_t from, n; /* bytes of the message's text that are drawn */
};

struct message {
    int role; /* enum chat_role or TRANSCRIPT_NOTE */
    struct str text;
    struct sanitizer gate;
    int64_t position, n_tokens; /* in the conversation; n_tokens 0 = not known yet */
    bool partial;
    struct line *lines;
    int n_lines, cap_lines;
    int width;    /* the lines are cut for; 0 = not cut */
    size_t cut_n; /* bytes of text when they were cut */
};

struct transcript {
    struct message *messages;
    int n, cap;
    bool ascii;
};

void transcript_clear(struct transcript *t); /* frees all */
struct message *transcript_add(struct transcript *t, int role, const char *text, size_t n);
void transcript_append(struct message *m, const char *text, size_t n); /* a piece of a stream */
void transcript_close(struct message *m);                              /* the stream has ended */

/* Cuts what is not cut for `width` yet; returns the number of rows of all messages. A message that
 * begins a turn has an empty row before it. */
int transcript_layout(struct transcript *t, int width);
int message_rows(const struct transcript *t, int index);
int message_lead(const struct transcript *t, int index); /* empty rows before it: 0 or 1 */

/* Row of the line that holds a message's byte, and back. */
int transcript_row(const struct transcript *t, int index, size_t byte);
void transcript_at_row(const struct transcript *t, int row, int *index, int *line);

/* The message that holds a position of the conversation, and the byte in it (by proportion: only
 * whole messages have exact positions); -1 when there is none. */
int transcript_find(const struct transcript *t, int64_t position, size_t *byte);
/* Positions a line stands for. */
void message_positions(const struct message *m, const struct line *l, int64_t *from, int64_t *end);

#endif
