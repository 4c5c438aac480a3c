/* target: whether this processor runs what the program was compiled for. A build for one board
 * (CROSS=) uses instructions that others lack; elsewhere it would end as an illegal instruction.
 * Compiled for the baseline, as main.c is, so that it can say so. */
#ifndef RETAIN_CLI_TARGET_H
#define RETAIN_CLI_TARGET_H

#include <stdbool.h>

/* Names on stderr what is missing. */
bool target_runs_here(void);

#endif
