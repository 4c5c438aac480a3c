/* cli_session: opens conversations, engine and session, in this order, for a command without a
 * screen. */
#ifndef RETAIN_CLI_CONTROL_CLI_SESSION_H
#define RETAIN_CLI_CONTROL_CLI_SESSION_H

#include <stdbool.h>

#include "runtime/forward/engine.h"
#include "runtime/session/session.h"

struct options;

struct cli_session {
    struct conversations *library;
    struct engine *engine;
    struct session *session;
};

/* Only conversations and engine. saved false: the database is neither read nor written. */
int cli_session_load(struct cli_session *t, const struct options *o, bool saved,
                     engine_progress *progress, void *ctx, struct err *e);

/* An engine_progress: announces a long compilation; Ctrl-C cancels. */
int cli_session_progress(void *ctx, int64_t done, int64_t total);

void cli_session_close(struct cli_session *t);

#endif
