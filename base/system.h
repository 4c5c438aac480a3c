/* system: memory and time as the operating system reports them. -1 = not known, never a made-up
 * 0. */
#ifndef RETAIN_BASE_SYSTEM_H
#define RETAIN_BASE_SYSTEM_H

#include <stdint.h>

int64_t system_memory_bytes(void);    /* of the machine, or of the cgroup when that has less */
int64_t system_available_bytes(void); /* could be allocated without swapping */
int64_t system_process_bytes(void);   /* resident now */
int64_t system_process_peak_bytes(void);
void system_process_peak_reset(void); /* resets the peak to the memory that is resident now */

int64_t system_clock_ns(void); /* monotonic */
int64_t system_unix_ms(void);

#endif
