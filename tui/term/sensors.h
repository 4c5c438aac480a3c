/* sensors: the machine's sensors, sampled twice a second by two threads: one for the processor, one
 * for the GPU. A sensor that is missing, needs root, or hangs is NAN and shown as n/a, never as 0.
 *
 *   processor  /proc and /sys
 *   desktop    libnvidia-ml.so.1, loaded if present (NVML)
 *   Jetson     /sys: GPU load, thermal zones, INA3221 power rails; no root, no service */
#ifndef RETAIN_TUI_TERM_SENSORS_H
#define RETAIN_TUI_TERM_SENSORS_H

#include <stdbool.h>

struct sensors;

struct sensor_part {
    double load;    /* percent */
    double celsius; /* of the hottest part */
    double watt, watt_max;
    /* the device's own memory; NAN = it shares the machine's */
    double memory_bytes;
    char throttle[24]; /* "none", a reason, or "" = not known */
};

struct sensor_reading {
    struct sensor_part cpu, gpu;
    bool has_gpu;
    double swap_bytes;
};

/* A reading without any known value. */
struct sensor_reading sensor_nothing(void);

/* root: "" for the machine, else a folder with proc/ and sys/ in it; nvml: the library's file name.
 * NULL when no thread can be started: then nothing is known. */
struct sensors *sensors_open(const char *root, const char *nvml);
/* Which GPU to read, by its place on the PCI bus; before, and with "", the first. */
void sensors_choose(struct sensors *s, const char *bus);
void sensors_close(struct sensors *s); /* does not wait for a sensor that hangs */

int sensors_fd(
    const struct sensors *s); /* an eventfd: readable when a value changed; -1 for NULL */
/* The newest values; values older than a few seconds are unknown. */
void sensors_read(struct sensors *s, struct sensor_reading *out);

#endif
