/* transcript: the conversation as text, cut into screen lines.
 *
 * Text is kept sanitised; lines are cut once per width, and while an answer streams only its last
 * line is cut again. A place in it is (message, byte), not a row, so that it survives any resize.
 */
#ifndef RETAIN_TUI_CHAT_TRANSCRIPT_H
#define RETAIN_TUI_CHAT_TRANSCRIPT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "cli/sanitize.h"
#include "runtime/token/chat_template.h"
#include "tui/chat/markdown.h"

enum { TRANSCRIPT_NOTE = CHAT_ROLES }; /* a role of our own: what the program has to say */

struct line {
    uint32_t from, n;  /* bytes of the message's text that are drawn */
    int span, n_spans; /* how, when it is Markdown; 0 = as they are */
};

/* Text is not always as long as what it was made of: from byte `raw` of that on, the byte of the
 * text is `raw` + `delta`. */
struct shift {
    uint32_t raw;
    int32_t delta;
};

struct message {
    int role;        /* enum chat_role or TRANSCRIPT_NOTE */
    struct str raw;  /* as it was said: for copies, files and the editor */
    struct str text; /* as it is drawn */
    struct sanitizer gate;
    struct shift *shifts;
    int n_shifts, cap_shifts;
    uint32_t *ends; /* of its tokens in the text, as far as known */
    int n_ends, cap_ends;
    size_t raw_end; /* of the last of them, in what came; 0: they say nothing about the text */
    int64_t position, n_tokens; /* in the conversation; n_tokens 0 = not known yet */
    bool partial;
    struct line *lines;
    int n_lines, cap_lines;
    struct span *spans;
    int n_spans, cap_spans;
    struct {
        size_t at;
        int n_lines, n_spans;
    } settled;              /* Markdown that will not change before byte `at` */
    bool closed;            /* the stream has ended */
    bool changed, markdown; /* lines must be cut again; they are cut as Markdown */
    int width;              /* the lines are cut for; 0 = not cut */
    size_t cut_n;           /* bytes of text when they were cut */
};

struct transcript {
    struct message *messages;
    int n, cap;
    bool ascii;
    /* bytes of its message that the token of each position stands for (session_sink.tokens) */
    uint16_t *pieces;
    int64_t n_pieces, cap_pieces;
    bool raw; /* Markdown is shown as it was written */
};

void transcript_clear(struct transcript *t);      /* frees all */
void transcript_cut(struct transcript *t, int n); /* keeps the first n messages */
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

/* The token of a position stands for so many bytes; a position that is told again is another token
 * now. */
void transcript_piece(struct transcript *t, int64_t position, uint16_t n_bytes);

/* The message that holds a position of the conversation, and the bytes [*byte, *end) that its token
 * stands for: none for the template's own. By proportion where pieces are not known. -1 when there
 * is no such message. */
int transcript_find(struct transcript *t, int64_t position, size_t *byte, size_t *end);
/* The position of the token that a byte of a message belongs to. */
int64_t transcript_position(struct transcript *t, int index, size_t byte);
/* Positions [*from, *end) that the bytes [byte, byte + n) stand for. */
void transcript_positions(struct transcript *t, int index, size_t byte, size_t n, int64_t *from,
                          int64_t *end);

#endif
