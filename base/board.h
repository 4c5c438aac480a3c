/* board: the power mode and the GPU's clock of a Jetson. Between its 15 W mode and MAXN the same
 * program is half as fast. Sources: nvpmodel's files (/etc/nvpmodel.conf, /var/lib/nvpmodel/status)
 * and the kernel's devfreq (Jetson Linux Developer Guide). */
#ifndef RETAIN_BASE_BOARD_H
#define RETAIN_BASE_BOARD_H

#include <stdbool.h>
#include <stddef.h>

/* "mode MAXN, GPU at 306 of 1300 MHz", or the part of it that is known; false where neither is.
 * root: "" or, for tests, a folder in the place of /. */
bool board_describe(const char *root, char *out, size_t bytes);

#endif
