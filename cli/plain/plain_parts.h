/* plain_parts: the state of a chat without a screen, for plain*.c only. */
#ifndef RETAIN_CLI_CONTROL_PLAIN_PARTS_H
#define RETAIN_CLI_CONTROL_PLAIN_PARTS_H

#include "cli/control/control.h"
#include "cli/control/settings.h"
#include "cli/print/answer.h"

/* ---- messages from standard input, line by line, interrupted by Ctrl-C (line_reader.c) ---- */

/* Zero-initialise. */
struct line_reader {
    struct str input; /* read and not yet used */
    bool interactive; /* a user types, not a pipe */
    bool ended;       /* the end came right after a line, which is used first */
    int error;        /* errno of a read that failed */
};

enum line_end { LINE_READ, LINE_EOF, LINE_FAILED, LINE_INTERRUPTED };

/* The next line without its end. */
enum line_end line_reader_line(struct line_reader *r, struct str *line);

/* The next line, and the lines that follow it at once: they are too fast to be typed, so they are
 * a paste, which is one message. Lines that waited before the prompt were typed ahead, one message
 * each. */
enum line_end line_reader_message(struct line_reader *r, struct str *text);

/* ---- the chat ---- */

struct plain {
    struct control control;
    struct settings settings;
    struct line_reader in;
    struct answer answer;
    struct str edited;            /* the message that /edit removed, for /editor */
    struct str last;              /* the last answer, for /copy */
    struct str thought;           /* the thought before it */
    char deleted[STORE_NAME_MAX]; /* name of the last conversation deleted with /delete */
    /* a user types, not a pipe: prints prompts and role words */
    bool interactive;
    bool warned;  /* Ctrl-C was pressed at this prompt: the next one quits */
    bool greeted; /* the first conversation was named */
    int failed;   /* error code of the first command from a pipe that failed; the chat continues */
    /* result of the running request */
    enum session_end end;
    struct str question; /* of the last request; empty = none */
    bool must_ask;
    struct err error; /* code 0: no failure */
};

/* Runs a request and prints its events as they arrive. */
int plain_run_request(struct plain *p, const struct request *q, struct err *e);

/* The same for a request that answers. An error ends the chat; a failed turn is an error only when
 * the messages come from a pipe. */
int plain_answer(struct plain *p, const struct request *q, struct err *e);

int plain_say(struct plain *p, const char *text, size_t n, struct err *e);

/* Runs a command; SLASH_SAY and commands of the screen are handled elsewhere. */
int plain_command(struct plain *p, enum slash command, const char *argument, struct err *e);

/* ---- /map, /tint, /turns and /stats as lines of text, to stderr (session_print.c) ---- */

/* The newest retention snapshot by tokens and layers, and the shares kept earlier, in words. */
void session_print_map(const struct session *s);

/* Every line of the conversation, with the share of its units that is still in the cache. */
int session_print_tint(struct conversations *l, const char *name, const struct session *s,
                       struct err *e);

/* A line for every turn: the share of its units that is still in the cache, and the first line of
 * its message. */
int session_print_turns(struct conversations *l, const char *name, const struct session *s,
                        struct err *e);

void session_print_stats(const struct session *s);

#endif
