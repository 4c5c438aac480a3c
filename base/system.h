/* system: memory and time as the operating system reports them. -1 = not known, never a made-up
 * 0. */
#ifndef RETAIN_BASE_SYSTEM_H
#define RETAIN_BASE_SYSTEM_H

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

int64_t system_process_bytes(void); /* resident now */
int64_t system_process_peak_bytes(void);
void system_process_peak_reset(void); /* resets the peak to the memory that is resident now */

/* The number behind `key` in a file of lines "key   123", or at the beginning of one. */
int64_t system_number(const char *path, const char *key);

int64_t system_clock_ns(void); /* monotonic */
int64_t system_unix_ms(void);

#endif
