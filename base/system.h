/* system: memory and time as the operating system reports them. -1 = not known, never a made-up
 * 0. */
#ifndef RETAIN_BASE_SYSTEM_H
#define RETAIN_BASE_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int64_t system_memory_bytes(void);    /* of the machine, or of the cgroup when that has less */
int64_t system_available_bytes(void); /* could be allocated without swapping */

/* The tightest limits of the process's control group and of those around it, version 1 or 2, and
 * how much memory is free; cached files count as free. `groups` is /proc/self/cgroup, `root`
 * /sys/fs/cgroup, or stand-ins of both. */
struct system_group {
    int64_t limit_bytes, left_bytes; /* -1 = no limit */
    int64_t n_cpus;                  /* cores; -1 = no limit */
};
struct system_group system_group_read(const char *groups, const char *root);
int64_t system_group_cpus(void); /* n_cpus of this process */
int64_t system_n_running(void);  /* threads of all programs that run or wait for a processor */

int64_t system_process_bytes(void); /* resident now */
int64_t system_process_peak_bytes(void);

/* The number after `key` in a file of lines "key   123", or at the beginning of one. */
int64_t system_number(const char *path, const char *key);

int64_t system_clock_ns(void); /* monotonic */
int64_t system_unix_ms(void);

/* The power mode and the GPU's clock of a Jetson: "mode MAXN, GPU at 306 of 1300 MHz", or the part
 * of it that is known; false where neither is. Between its 15 W mode and MAXN the same program is
 * half as fast. Sources: nvpmodel's files and the kernel's devfreq (Jetson Linux Developer Guide).
 * root:
 * "" or, for tests, a folder in the place of /. */
bool board_describe(const char *root, char *out, size_t bytes);

#endif
