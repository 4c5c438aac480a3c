/* gpu_check: compares a GPU's results with the CPU's. Run before --device auto uses a GPU: with an
 * untested driver, compiler or chip, the kernels may silently compute wrong results. */
#ifndef RETAIN_RUNTIME_FORWARD_GPU_CHECK_H
#define RETAIN_RUNTIME_FORWARD_GPU_CHECK_H

#include "base/err.h"

/* Runs a few tokens of the demo model on both, about 0.1 s. ERR_FAIL when the results differ. */
int gpu_check(int ordinal, struct err *e);

#endif
