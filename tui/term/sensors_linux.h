/* probe: the places where a machine writes down its load, temperature and power, each read once per
 * call. What cannot be read leaves its field as it is. A root other than "" is a recorded tree. */
#ifndef RETAIN_TUI_TERM_SENSORS_LINUX_H
#define RETAIN_TUI_TERM_SENSORS_LINUX_H

#include <stdbool.h>
#include <stdint.h>

#include "tui/term/sensors.h"

enum { SENSORS_PATH = 512, SENSORS_RAILS = 32 };

struct sensors_cpu {
    const char *root;
    int64_t busy, total; /* of /proc/stat, at the last read */
    int64_t throttled;   /* times, at the last read; -1 = not known */
    char energy[SENSORS_PATH];
    int64_t energy_uj, energy_ns;
};
void sensors_cpu_open(struct sensors_cpu *p, const char *root);
/* Load and power are means since the call before: not known at the first. */
void sensors_cpu_read(struct sensors_cpu *p, struct sensor_part *out, double *swap_bytes);

/* Jetson Orin and Thor without root. false: this is none. */
struct sensors_jetson {
    const char *root;
    char load[SENSORS_PATH];
    char rails[SENSORS_RAILS][SENSORS_PATH]; /* ".../hwmonN/" and a channel's number behind it */
    int n_rails;
    int64_t over_current; /* events, at the last read; -1 = not known */
};
bool sensors_jetson_open(struct sensors_jetson *p, const char *root);
void sensors_jetson_read(struct sensors_jetson *p, struct sensor_part *out);

/* NVML's functions that are called; any but `init` and `device` may be missing. */
struct sensors_nvml {
    void *library, *device;
    int (*shutdown)(void);
    int (*utilization)(void *device, void *out);
    int (*memory)(void *device, void *out);
    int (*temperature)(void *device, int sensor, unsigned *out);
    int (*power)(void *device, unsigned *milliwatt);
    int (*power_limit)(void *device, unsigned *milliwatt);
    int (*throttle)(void *device, unsigned long long *reasons);
};
bool sensors_nvml_open(struct sensors_nvml *p, const char *library);
void sensors_nvml_read(struct sensors_nvml *p, struct sensor_part *out);
void sensors_nvml_close(struct sensors_nvml *p);

#endif
