/* chat: chooses between screen and plain lines. Plain lines when requested, when stdin or stdout is
 * not a terminal, and on terminals that cannot address their cursor. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands/commands.h"
#include "cli/plain/plain.h"
#include "cli/control/secret.h"
#include "cli/options/options.h"
#include "cli/print/report.h"
#include "tui/chat/ui.h"

static int is_dumb(void)
{
    const char *term = getenv("TERM");
    return !term || !term[0] || strcmp(term, "dumb") == 0;
}

/* A new conversation with the demo model gets a budget that is full after a few turns, so that one
 * sees the program's purpose: text that is evicted, and text that comes back. */
enum { DEMO_BUDGET = 96 };
#define DEMO_TEMPERATURE .3f /* 0.8, the default, is too much for a model that small */

int cmd_chat(const struct options *o)
{
    struct options mine = *o;
    struct err e = {0};
    int status;
    bool screen = !o->chat.plain && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !is_dumb();
    if (!screen && o->chat.record) {
        err_set(&e, ERR_USAGE, "--record records the screen, but there is none here");
        return report_error(&e);
    }
    if (!screen) return plain_run(o);
    if (!o->engine.model && !o->session.plan.memory) mine.session.first_budget = DEMO_BUDGET;
    if (!o->engine.model && o->session.sampling.temperature < 0)
        mine.session.sampling.temperature = DEMO_TEMPERATURE;
    /* while the terminal is still in its normal mode */
    if (secret_prepare(&mine, &e)) return report_error(&e);
    if (!ui_run(&mine, &status)) status = plain_run(&mine);
    secret_wipe(&mine);
    return status;
}
