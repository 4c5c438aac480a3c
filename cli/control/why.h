/* why: the choices that retain made when it opened the model and the conversation, and their
 * reasons. */
#ifndef RETAIN_CLI_CONTROL_WHY_H
#define RETAIN_CLI_CONTROL_WHY_H

#include "base/str.h"
#include "cli/control/cli_session.h"
#include "cli/options/options.h"

/* A choice per line, with the option or the command that changes it. */
void why_lines(const struct options *o, const struct cli_session *parts, struct str *out);

#endif
