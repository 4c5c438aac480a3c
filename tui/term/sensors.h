/* sensors: what the machine says of itself, sampled twice a second by threads of their own: one for
 * the processor, one for the GPU. What is not there, needs root, or hangs is NAN and shown as n/a,
 * never as 0.
 *
 *   processor  /proc and /sys
 *   desktop    libnvidia-ml.so.1, loaded if it is there (NVML)
 *   Jetson     /sys: GPU load, thermal zones, INA3221 power rails; no root, no service
 */
#ifndef RETAIN_TUI_TERM_SENSORS_H
#define RETAIN_TUI_TERM_SENSORS_H

#include <stdbool.h>

struct sensors;

struct sensor_part {
    double load;    /* percent */
    double celsius; /* of the hottest part */
    double watt, watt_max;
    double memory_bytes, memory_max_bytes; /* of the device's own; NAN = the machine's is its */
    char throttle[24];                     /* "none", a reason, or "" = not known */
};

struct sensor_reading {
    struct sensor_part cpu, gpu;
    bool has_gpu;
    double swap_bytes;
};

/* A reading in which nothing is known. */
struct sensor_reading sensor_nothing(void);

/* root: "" for the machine, else a folder with proc/ and sys/ in it; nvml: the library's file name.
 * NULL when there are no threads to be had: then nothing is known. */
struct sensors *sensors_open(const char *root, const char *nvml);
void sensors_close(struct sensors *s); /* does not wait for a sensor that hangs */

int sensors_fd(
    const struct sensors *s); /* an eventfd: readable when a value changed; -1 for NULL */
/* The newest values; those that are older than a few seconds are not known. */
void sensors_read(struct sensors *s, struct sensor_reading *out);

#endif
