/* talk: what the commands without a screen share: library, engine and session opened in order, and
 * Ctrl-C turned into a flag that stops the answer. */
#ifndef RETAIN_CLI_CLI_SESSION_H
#define RETAIN_CLI_CLI_SESSION_H

#include <stdbool.h>

#include "base/str.h"
#include "runtime/session/session.h"

struct cli_session {
    struct conversations *library;
    struct engine *engine;
    struct session *session;
};

/* saved false: nothing is read from or written to the database. */
int cli_session_open(struct cli_session *t, const struct options *o, bool saved,
                     const struct session_sink *sink, struct err *e);
void cli_session_close(struct cli_session *t);

/* SIGINT sets a flag instead of ending the process, SIGPIPE does nothing. */
void interrupt_init(void);
bool interrupt_pending(void);
void interrupt_clear(void);
bool interrupt_stop(void *ctx); /* a session_sink.stop */

/* "retain: what went wrong" on stderr, sanitised for terminals; returns the exit status. */
int talk_fail(const struct err *e);

/* "retain: " and a notice on stderr. */
void talk_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A retention snapshot as lines of text: strip and numbers, for /map without a screen. */
void talk_print_map(const struct session *s);
/* Every line that was said, with the share of its units that is left. */
int talk_print_tint(const struct cli_session *t, struct err *e);
void talk_print_stats(const struct session *s);

/* The last fenced code block of an answer; false: it has none. */
bool talk_code(const struct str *text, size_t *from, size_t *n);

#endif
