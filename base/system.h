/* system: what the machine says about memory and time. -1 = not known, never a made-up 0. */
#ifndef RETAIN_BASE_SYSTEM_H
#define RETAIN_BASE_SYSTEM_H

#include <stdint.h>

int64_t system_memory_bytes(void);    /* of the machine, or of the cgroup when that is less */
int64_t system_available_bytes(void); /* could be taken without swapping */
int64_t system_process_bytes(void);   /* resident now */
int64_t system_process_peak_bytes(void);
void system_process_peak_reset(void); /* the peak begins again at what is resident now */

int64_t system_clock_ns(void); /* monotonic */
int64_t system_unix_ms(void);

#endif
