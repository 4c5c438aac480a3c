/* check: invariants of structures. `make debug`, SAN=1, SAN=thread and the fuzzers define
 * RETAIN_CHECKS: there each noun_check runs after every mutation of its noun, and asserts. In other
 * builds CHECK is nothing. */
#ifndef RETAIN_BASE_CHECK_H
#define RETAIN_BASE_CHECK_H

#ifdef RETAIN_CHECKS
#define CHECK(call) (call)
#else
#define CHECK(call) ((void)0)
#endif

#endif
