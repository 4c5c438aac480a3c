/* probe: the places where a machine writes down its load, temperature and power, each read once per
 * call. What cannot be read leaves its field as it is. A root other than "" is a recorded tree. */
#ifndef RETAIN_TUI_PROBE_H
#define RETAIN_TUI_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "tui/sensors.h"

enum { PROBE_PATH = 512, PROBE_RAILS = 32 };

struct probe_cpu {
    const char *root;
    int64_t busy, total; /* of /proc/stat, at the last read */
    int64_t throttled;   /* times, at the last read; -1 = not known */
    char energy[PROBE_PATH];
    int64_t energy_uj, energy_ns;
};
void probe_cpu_open(struct probe_cpu *p, const char *root);
/* Load and power are means since the call before: not known at the first. */
void probe_cpu_read(struct probe_cpu *p, struct sensor_part *out, double *swap_bytes);

/* Jetson Orin and Thor without root. false: this is none. */
struct probe_jetson {
    const char *root;
    char load[PROBE_PATH];
    char rails[PROBE_RAILS][PROBE_PATH]; /* ".../hwmonN/" and a channel's number behind it */
    int n_rails;
    int64_t over_current; /* events, at the last read; -1 = not known */
};
bool probe_jetson_open(struct probe_jetson *p, const char *root);
void probe_jetson_read(struct probe_jetson *p, struct sensor_part *out);

/* NVML's functions that are called; any but `init` and `device` may be missing. */
struct probe_nvml {
    void *library, *device;
    int (*shutdown)(void);
    int (*utilization)(void *device, void *out);
    int (*memory)(void *device, void *out);
    int (*temperature)(void *device, int sensor, unsigned *out);
    int (*power)(void *device, unsigned *milliwatt);
    int (*power_limit)(void *device, unsigned *milliwatt);
    int (*throttle)(void *device, unsigned long long *reasons);
};
bool probe_nvml_open(struct probe_nvml *p, const char *library);
void probe_nvml_read(struct probe_nvml *p, struct sensor_part *out);
void probe_nvml_close(struct probe_nvml *p);

#endif
