#include "cli/cli_session.h"

#include <string.h>

#include "cli/options.h"
#include "cli/paths.h"
#include "cli/report.h"
#include "cli/secret.h"
#include "runtime/session/conversations.h"

static int on_load(void *ctx, int64_t done, int64_t total)
{
    (void)ctx;
    (void)done;
    if (!total) report_note(ENGINE_COMPILING);
    return report_interrupted();
}

int cli_session_open(struct cli_session *t, const struct options *o, bool saved,
                     const struct session_sink *sink, struct err *e)
{
    memset(t, 0, sizeof *t);
    struct str path = {0};
    saved = saved && !o->private_mode;
    int rc = saved ? path_database(o, &path, e) : 0;
    if (!rc) rc = secret_open_library(&t->library, o, saved ? path.data : NULL, e);
    str_release(&path);
    if (!rc) rc = engine_open(&t->engine, o, t->library, on_load, NULL, e);
    if (!rc) rc = session_open(&t->session, t->engine, saved ? t->library : NULL, o, sink, e);
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

bool talk_code(const struct str *text, size_t *from, size_t *n)
{
    const char *s = str_get(text);
    bool inside = false, found = false;
    size_t start = 0;
    for (size_t at = 0; at < text->n;) {
        size_t line = strcspn(s + at, "\n");
        size_t blank = strspn(s + at, " ");
        bool fence =
            strncmp(s + at + blank, "```", 3) == 0 || strncmp(s + at + blank, "~~~", 3) == 0;
        if (fence && !inside) start = at + line + (at + line < text->n);
        if (fence && inside) {
            *from = start;
            *n = at - start;
            found = true;
        }
        if (fence) inside = !inside;
        at += line + 1;
    }
    if (inside) {
        *from = start;
        *n = text->n - start;
    }
    return found || inside;
}
