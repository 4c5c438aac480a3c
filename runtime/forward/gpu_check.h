/* gpu_check: does a GPU compute what the CPU computes? Asked before --device auto trusts one: a
 * driver, a compiler or a chip that these kernels have not met may be wrong without a word. */
#ifndef RETAIN_RUNTIME_FORWARD_GPU_CHECK_H
#define RETAIN_RUNTIME_FORWARD_GPU_CHECK_H

#include "base/err.h"

/* Runs a few tokens of the demo model on both, about 0.1 s. ERR_FAIL when they disagree. */
int gpu_check(int ordinal, struct err *e);

#endif
