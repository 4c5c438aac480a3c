/* why: what was decided for the user when the model and the conversation were opened, and why. */
#ifndef RETAIN_CLI_CONTROL_WHY_H
#define RETAIN_CLI_CONTROL_WHY_H

#include "base/str.h"
#include "cli/control/cli_session.h"
#include "cli/options/options.h"

/* One decision a line, each with the option or the command that decides otherwise. */
void why_lines(const struct options *o, const struct cli_session *parts, struct str *out);

#endif
