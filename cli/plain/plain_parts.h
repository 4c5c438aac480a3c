/* plain_parts: the state of a chat without a screen, for plain*.c only. */
#ifndef RETAIN_CLI_CONTROL_PLAIN_PARTS_H
#define RETAIN_CLI_CONTROL_PLAIN_PARTS_H

#include "cli/control/control.h"
#include "cli/plain/line_reader.h"
#include "cli/control/settings.h"
#include "cli/print/answer.h"

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
    struct event question;
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

#endif
