/* terminal: what the environment says about the terminal, without asking it. */
#ifndef RETAIN_CLI_TERMINAL_H
#define RETAIN_CLI_TERMINAL_H

#include <stdbool.h>

/* $TERM names a terminal that answers xterm's queries or ignores them, and ignores sequences it
 * does not know. */
bool terminal_is_polite(void);

#endif
