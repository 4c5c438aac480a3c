/* terminal: facts about the terminal from the environment, without querying it. */
#ifndef RETAIN_CLI_PRINT_TERMINAL_H
#define RETAIN_CLI_PRINT_TERMINAL_H

#include <stdbool.h>

/* $TERM names a terminal that answers or ignores xterm's queries, and ignores unknown sequences. */
bool terminal_is_polite(void);

#endif
