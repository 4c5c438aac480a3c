/* transcript: the conversation as text, broken into screen lines.
 *
 * Text is kept sanitised; lines are broken once per width, and while an answer streams only its
 * last line is broken again. A place in it is (message, byte), not a row, so that it survives any
 * resize. */
#ifndef RETAIN_TUI_TEXT_TRANSCRIPT_H
#define RETAIN_TUI_TEXT_TRANSCRIPT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "cli/print/sanitize.h"
#include "runtime/cache/retention.h"
#include "runtime/token/chat_template.h"
#include "tui/text/markdown.h"

enum {
    TRANSCRIPT_NOTE = CHAT_ROLES, /* a role for messages of the program itself */
    TRANSCRIPT_THOUGHT,           /* the thought before the answer that follows */
    TRANSCRIPT_ROLES
};

struct line {
    uint32_t from, n;  /* bytes of the message's text that are drawn */
    int span, n_spans; /* its spans if it is Markdown; 0 = raw */
    bool file;         /* it stands for a file in the message */
};

/* Sanitised text may differ in length from the original: from byte `raw` of the original on, the
 * byte of the text is `raw` + `delta`. */
struct shift {
    uint32_t raw;
    int32_t delta;
};

struct message {
    int role;        /* enum chat_role or TRANSCRIPT_NOTE */
    struct str raw;  /* the original: for copies, files and the editor */
    struct str text; /* as it is drawn */
    struct sanitizer gate;
    struct shift *shifts;
    int n_shifts;
    size_t cap_shifts;
    uint32_t *ends; /* ends of its tokens in the text, as far as known */
    int n_ends;
    size_t cap_ends;
    size_t raw_end;             /* end of the last of them, in the original; 0: unknown */
    int64_t position, n_tokens; /* in the conversation; n_tokens 0 = not known yet */
    int ended;                  /* an answer, enum session_end: SESSION_TURN_END = it is complete */
    struct {
        bool over;
        int64_t n_tokens;
        int64_t first; /* position of its first token, while it runs */
        int64_t since_ms;
        double ms;
    } thought; /* of TRANSCRIPT_THOUGHT */
    struct line *lines;
    int n_lines;
    size_t cap_lines;
    struct span *spans;
    int n_spans;
    size_t cap_spans;
    /* Markdown that will not change before byte `at` */
    struct {
        size_t at;
        int n_lines, n_spans;
    } settled;
    int n_hidden;  /* lines of a long message that its last line stands for */
    bool unfolded; /* it was broken with all its lines */
    bool closed;   /* the stream has ended */
    bool changed;  /* lines must be broken again */
    bool drawn;    /* they are Markdown; of a thought: its text is shown */
    int width;     /* width that the lines are broken for; 0 = not broken */
    size_t cut_n;  /* bytes of text at that time */
};

struct transcript {
    struct message *messages;
    int n;
    size_t cap;
    bool ascii;
    /* bytes of its message for the token of each position (session_sink.tokens) */
    uint16_t *pieces;
    int64_t n_pieces;
    size_t cap_pieces;
    bool raw;      /* show Markdown as it was written */
    bool unfolded; /* show thoughts and long messages whole, not only their first lines */
};

void transcript_clear(struct transcript *t);      /* removes all messages */
void transcript_cut(struct transcript *t, int n); /* keeps the first n messages */
struct message *transcript_add(struct transcript *t, int role, const char *text, size_t n);
void transcript_append(struct message *m, const char *text, size_t n); /* a piece of a stream */
void transcript_close(struct message *m);                              /* the stream has ended */

/* A user's message of more lines than this is shown by its first lines, until it is unfolded. */
enum { TRANSCRIPT_LONG = 16, TRANSCRIPT_HEAD = 8 };

/* Breaks lines that are not broken for `width` yet; returns the number of rows of all messages. A
 * message that begins a turn has an empty row before it. */
int transcript_layout(struct transcript *t, int width);
/* Its text after the files that it begins with; of a message without words, all of it. */
const char *message_words(const struct message *m);
int message_lead(const struct transcript *t, int index); /* empty rows before it: 0 or 1 */

/* Row of the line that contains a message's byte, and the reverse. */
int transcript_row(const struct transcript *t, int index, size_t byte);
void transcript_at_row(const struct transcript *t, int row, int *index, int *line);

/* Sets the number of bytes for the token of a position; a position that is set again is a new
 * token. */
void transcript_piece(struct transcript *t, int64_t position, uint16_t n_bytes);

/* The message that contains a position of the conversation, and the bytes [*byte, *end) of its
 * token: none for tokens of the template. Estimated by proportion where pieces are unknown. -1 when
 * there is no such message. */
int transcript_find(struct transcript *t, int64_t position, size_t *byte, size_t *end);
/* The position of the token that a byte of a message belongs to. */
int64_t transcript_position(struct transcript *t, int index, size_t byte);
/* The byte of message `index` at which the token at `position` ends; positions of the message's
 * tokens only. After the last known token: the end of its text. */
size_t transcript_token_end(struct transcript *t, int index, int64_t position);
/* Positions [*from, *end) of the bytes [byte, byte + n). */
void transcript_positions(struct transcript *t, int index, size_t byte, size_t n, int64_t *from,
                          int64_t *end);

/* Appends: forgot 9 words of turn 3: "…found a noisy cellar…". A word is forgotten when no head
 * holds any of its tokens now, and one did before: before[n_before] heads for each position, later
 * ones were in the cache. `lost` gets the columns of `now` with such words. Returns the number of
 * words; with 0 nothing is appended. */
int forgot_sentence(struct transcript *t, const struct retention *now, const uint16_t *before,
                    int64_t n_before, bool lost[RETENTION_COLS], struct str *out);

#endif
