/* target: checks that this processor has the instructions that the build uses. A build for one
 * board (CROSS=) would otherwise end with an illegal instruction on another processor. Compiled for
 * every processor of the architecture, as main.c is. */
#ifndef RETAIN_CLI_PRINT_TARGET_H
#define RETAIN_CLI_PRINT_TARGET_H

#include <stdbool.h>

/* If not: prints on stderr the missing feature. */
bool target_runs_here(void);

#endif
