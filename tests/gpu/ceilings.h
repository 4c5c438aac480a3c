/* ceilings: what a device can do at most, measured without other work, and the least time of a
 * kernel that follows from them: the time model of docs/gpu.md. */
#ifndef RETAIN_TESTS_GPU_CEILINGS_H
#define RETAIN_TESTS_GPU_CEILINGS_H

#include "runtime/cuda/parts.h"

struct ceilings {          /* 0 = not measured */
    double copy, read, l2; /* bytes per second: read and written; read; read from the L2 cache */
    double f16, s8;        /* multiply-adds per second of matrix instructions */
    double slots;          /* instructions of warps that can be issued per second */
    double launch;         /* seconds of a launch that does nothing */
};

/* Measures all of them, and prints each when it is there. folder: of rate.ptx. quick: with little
 * work, for a dry run. */
int ceilings_measure(struct ceilings *out, struct cuda *g, const char *folder, bool quick,
                     struct err *e);

/* Work of one launch. */
struct work {
    double bytes;   /* read and written */
    double f16, s8; /* multiply-adds of matrix instructions with halves, and with int8 */
    double slots;   /* instructions of warps; 0 = unknown */
};

/* The least time: all bytes at the rate of reads, or 90 % of the rate of matrix instructions, or 75
 * % of all issue slots, whichever is the longest. */
struct bound {
    double seconds;
    const char *by; /* "memory", "matrix", "issue" */
};
struct bound ceilings_bound(const struct ceilings *c, const struct work *w);

/* Instructions per matrix instruction in a kernel's hot loop on sm_`arch`, from the file report.txt
 * in `folder` (make cuda-report); 0 = not in it. */
double ceilings_slots_of(const char *folder, const char *kernel, int arch);

#endif
