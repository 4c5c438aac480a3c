/* chat: chooses between screen and plain lines. Plain lines when requested, when stdin or stdout is
 * not a terminal, and on terminals that cannot address their cursor. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands/commands.h"
#include "cli/plain/plain.h"
#include "cli/control/resume.h"
#include "cli/control/secret.h"
#include "cli/options/options.h"
#include "cli/print/report.h"
#include "tui/chat/script.h"
#include "tui/chat/ui_parts.h"

static int is_dumb(void)
{
    const char *term = getenv("TERM");
    return !term || !term[0] || strcmp(term, "dumb") == 0;
}

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
    resume_demo(&mine);
    /* while the terminal is still in its normal mode */
    if (secret_prepare(&mine, &e)) return report_error(&e);
    if (!ui_run(&mine, &(struct script){0}, &status)) status = plain_run(&mine);
    secret_wipe(&mine);
    return status;
}
