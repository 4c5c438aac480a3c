/* cli_session: what a command without a screen opens: conversations, engine and session, in this
 * order. */
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

/* The last fenced code block of an answer; false: it has none. */
bool talk_code(const struct str *text, size_t *from, size_t *n);

#endif
