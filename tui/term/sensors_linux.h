/* sensors_linux: the files in which Linux reports load, temperature and power, each read once per
 * call. A value that cannot be read leaves its field unchanged. A root other than "" is a recorded
 * tree. */
#ifndef RETAIN_TUI_TERM_SENSORS_LINUX_H
#define RETAIN_TUI_TERM_SENSORS_LINUX_H

#include <stdbool.h>
#include <stdint.h>

#include "tui/term/sensors.h"

enum { SENSORS_PATH = 512, SENSORS_RAILS = 32 };

struct sensors_cpu {
    const char *root;
    int64_t busy, total; /* of /proc/stat, at the last read */
    int64_t throttled;   /* count at the last read; -1 = not known */
    char energy[SENSORS_PATH];
    int64_t energy_uj, energy_ns;
};
void sensors_cpu_open(struct sensors_cpu *p, const char *root);
/* Load and power are means since the previous call: unknown at the first call. */
void sensors_cpu_read(struct sensors_cpu *p, struct sensor_part *out, double *swap_bytes);

/* Jetson Orin and Thor without root. false: the machine is not one. */
struct sensors_jetson {
    const char *root;
    char load[SENSORS_PATH];
    char rails[SENSORS_RAILS][SENSORS_PATH]; /* ".../hwmonN/" followed by a channel's number */
    int n_rails;
    int64_t over_current; /* events at the last read; -1 = not known */
};
bool sensors_jetson_open(struct sensors_jetson *p, const char *root);
void sensors_jetson_read(struct sensors_jetson *p, struct sensor_part *out);

/* The NVML functions in use; any of these may be missing. */
struct sensors_nvml {
    void *library, *device;
    int (*by_bus)(const char *bus, void **device);
    int (*shutdown)(void);
    int (*utilization)(void *device, void *out);
    int (*memory)(void *device, void *out);
    int (*temperature)(void *device, int sensor, unsigned *out);
    int (*power)(void *device, unsigned *milliwatt);
    int (*power_limit)(void *device, unsigned *milliwatt);
    int (*throttle)(void *device, unsigned long long *reasons);
};
bool sensors_nvml_open(struct sensors_nvml *p, const char *library);
/* Reads the device with this place on the PCI bus from now on; an unknown one changes nothing. */
void sensors_nvml_choose(struct sensors_nvml *p, const char *bus);
void sensors_nvml_read(struct sensors_nvml *p, struct sensor_part *out);
void sensors_nvml_close(struct sensors_nvml *p);

#endif
