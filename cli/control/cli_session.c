#include "cli/control/cli_session.h"

#include <string.h>

#include "cli/control/secret.h"
#include "cli/options/options.h"
#include "cli/options/paths.h"
#include "cli/print/report.h"
#include "runtime/save/conversations.h"

int cli_session_progress(void *ctx, int64_t done, int64_t total)
{
    (void)ctx;
    (void)done;
    if (!total) report_note(ENGINE_COMPILING);
    return report_interrupted();
}

int cli_session_load(struct cli_session *t, const struct options *o, bool saved,
                     engine_progress *progress, void *ctx, struct err *e)
{
    struct str path = {0};
    memset(t, 0, sizeof *t);
    saved = saved && !o->session.private_mode;
    int rc = saved ? path_database(o, &path, e) : 0;
    if (!rc) rc = secret_open_library(&t->library, o, saved ? path.data : NULL, e);
    str_release(&path);
    struct engine_opts engine = o->engine;
    engine.registry = conversations_registry(t->library);
    engine.leaves_no_copy = o->session.private_mode;
    if (!rc) rc = engine_open(&t->engine, &engine, &o->session.plan, 1, progress, ctx, e);
    if (rc) cli_session_close(t);
    return rc;
}

void cli_session_close(struct cli_session *t)
{
    session_close(t->session);
    engine_close(t->engine);
    conversations_close(t->library);
    memset(t, 0, sizeof *t);
}
