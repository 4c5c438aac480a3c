#include "tui/term/sensors_linux.h"

#include <dirent.h>
#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"

/* ---- small files ----------------------------------------------------------------------------- */

/* The first line of a file, without its end; false when it cannot be read. */
static bool read_line(char *out, size_t n, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static bool read_line(char *out, size_t n, const char *fmt, ...)
{
    char path[SENSORS_PATH + 128];
    va_list args;
    va_start(args, fmt);
    int length = vsnprintf(path, sizeof path, fmt, args);
    va_end(args);
    FILE *f = length > 0 && length < (int)sizeof path ? fopen(path, "re") : NULL;
    if (!f) return false;
    bool ok = fgets(out, (int)n, f) != NULL;
    fclose(f);
    if (ok) out[strcspn(out, "\n")] = 0;
    return ok;
}

static bool read_number(int64_t *out, const char *path)
{
    char line[64], *end;
    if (!read_line(line, sizeof line, "%s", path)) return false;
    long long value = strtoll(line, &end, 10);
    *out = value;
    return end > line;
}

/* Calls back with each entry of a folder below /sys/class whose name begins with `begin`. */
static void each_entry(const char *root, const char *below, const char *begin,
                       void (*each)(void *ctx, const char *path), void *ctx)
{
    char folder[SENSORS_PATH];
    snprintf(folder, sizeof folder, "%s/sys/class/%s", root, below);
    DIR *d = opendir(folder);
    struct dirent *entry;
    while (d && (entry = readdir(d))) {
        char path[SENSORS_PATH];
        if (strncmp(entry->d_name, begin, strlen(begin)) != 0) continue;
        int n = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (n > 0 && n < (int)sizeof path) each(ctx, path);
    }
    if (d) closedir(d);
}

/* ---- temperatures ---------------------------------------------------------------------------- */

struct hottest {
    const char *const *types; /* the relevant thermal zones, NULL-terminated */
    double celsius;
};

static void take_zone(void *ctx, const char *path)
{
    struct hottest *h = ctx;
    char type[64], file[SENSORS_PATH + 8];
    int64_t milli;
    if (!read_line(type, sizeof type, "%s/type", path)) return;
    for (int i = 0; h->types[i]; i++) {
        if (strncmp(type, h->types[i], strlen(h->types[i])) != 0) continue;
        snprintf(file, sizeof file, "%s/temp", path);
        /* a disabled zone reports an absurd value or fails */
        if (!read_number(&milli, file) || milli < -40000 || milli > 150000) continue;
        double celsius = (double)milli / 1000;
        if (isnan(h->celsius) || celsius > h->celsius) h->celsius = celsius;
    }
}

static double hottest_zone(const char *root, const char *const *types)
{
    struct hottest h = {types, NAN};
    each_entry(root, "thermal", "thermal_zone", take_zone, &h);
    return h.celsius;
}

/* hwmon chips with the processor's own sensors, used when no thermal zone has them. */
static void take_chip(void *ctx, const char *path)
{
    double *celsius = ctx;
    char name[64], file[SENSORS_PATH + 16];
    int64_t milli;
    if (!read_line(name, sizeof name, "%s/name", path)) return;
    if (strcmp(name, "coretemp") != 0 && strcmp(name, "k10temp") != 0) return;
    snprintf(file, sizeof file, "%s/temp1_input", path);
    if (read_number(&milli, file)) *celsius = (double)milli / 1000;
}

/* ---- processor ------------------------------------------------------------------------------- */

static void take_energy(void *ctx, const char *path)
{
    struct sensors_cpu *p = ctx;
    if (strchr(strrchr(path, '/'), ':') == strrchr(path, ':')) /* a package, not one of its parts */
        snprintf(p->energy, sizeof p->energy, "%.*s/energy_uj", (int)sizeof p->energy - 16, path);
}

void sensors_cpu_open(struct sensors_cpu *p, const char *root)
{
    *p = (struct sensors_cpu){.root = root, .throttled = -1};
    each_entry(root, "powercap", "intel-rapl:", take_energy, p);
}

static void read_load(struct sensors_cpu *p, struct sensor_part *out)
{
    char line[256];
    long long t[8] = {0}, total = 0;
    if (!read_line(line, sizeof line, "%s/proc/stat", p->root)) return;
    int n = sscanf(line, "cpu %lld %lld %lld %lld %lld %lld %lld %lld", &t[0], &t[1], &t[2], &t[3],
                   &t[4], &t[5], &t[6], &t[7]);
    if (n < 4) return;
    for (int i = 0; i < n; i++) total += t[i];
    long long busy = total - t[3] - t[4]; /* idle, iowait */
    if (p->total > 0 && total > p->total)
        out->load = 100.0 * (double)(busy - p->busy) / (double)(total - p->total);
    p->busy = busy;
    p->total = total;
}

static void read_energy(struct sensors_cpu *p, struct sensor_part *out)
{
    int64_t uj, now_ns = system_clock_ns();
    if (!p->energy[0] || !read_number(&uj, p->energy)) return;
    if (p->energy_ns > 0 && uj > p->energy_uj && now_ns > p->energy_ns)
        out->watt = (double)(uj - p->energy_uj) * 1e3 / (double)(now_ns - p->energy_ns);
    p->energy_uj = uj;
    p->energy_ns = now_ns;
}

static void read_throttle(struct sensors_cpu *p, struct sensor_part *out)
{
    char path[SENSORS_PATH];
    int64_t n;
    snprintf(path, sizeof path,
             "%s/sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", p->root);
    if (!read_number(&n, path)) return;
    if (p->throttled >= 0)
        snprintf(out->throttle, sizeof out->throttle, "%s", n > p->throttled ? "thermal" : "none");
    p->throttled = n;
}

static void read_swap(const struct sensors_cpu *p, double *swap_bytes)
{
    char path[SENSORS_PATH];
    snprintf(path, sizeof path, "%s/proc/meminfo", p->root);
    const int64_t total = system_number(path, "SwapTotal:");
    const int64_t free_kb = system_number(path, "SwapFree:");
    if (total >= 0 && free_kb >= 0) *swap_bytes = 1024.0 * (double)(total - free_kb);
}

void sensors_cpu_read(struct sensors_cpu *p, struct sensor_part *out, double *swap_bytes)
{
    static const char *const types[] = {"x86_pkg_temp", "cpu-thermal", "cpu_thermal",
                                        "CPU-therm",    "soc_thermal", NULL};
    double celsius = hottest_zone(p->root, types);
    if (isnan(celsius)) each_entry(p->root, "hwmon", "hwmon", take_chip, &celsius);
    out->celsius = celsius;
    read_load(p, out);
    read_energy(p, out);
    read_throttle(p, out);
    read_swap(p, swap_bytes);
}

/* ---- Jetson ---------------------------------------------------------------------------------- */

static void find_load(struct sensors_jetson *p)
{
    static const char *const places[] = {
        "sys/devices/platform/gpu.0/load",
        "sys/devices/platform/bus@0/17000000.gpu/load",
        "sys/devices/platform/17000000.gpu/load",
        "sys/devices/platform/17000000.ga10b/load",
    };
    int64_t permille;
    for (size_t i = 0; i < sizeof places / sizeof *places && !p->load[0]; i++) {
        snprintf(p->load, sizeof p->load, "%s/%s", p->root, places[i]);
        if (!read_number(&permille, p->load)) p->load[0] = 0;
    }
}

static void add_rail(struct sensors_jetson *p, const char *path, int channel)
{
    if (p->n_rails < SENSORS_RAILS)
        snprintf(p->rails[p->n_rails++], SENSORS_PATH, "%.*s/%d", SENSORS_PATH - 8, path, channel);
}

/* A power monitor: channels 1 to 3 and their names. VDD_IN is the power of the whole board; if
 * present, only it is used. */
static void take_monitor(void *ctx, const char *path)
{
    struct sensors_jetson *p = ctx;
    char name[64], label[64];
    if (!read_line(name, sizeof name, "%s/name", path) || strcmp(name, "ina3221") != 0) return;
    for (int channel = 1; channel <= 3; channel++) {
        if (!read_line(label, sizeof label, "%s/in%d_label", path, channel)) continue;
        if (strcmp(label, "VDD_IN") == 0) {
            p->n_rails = 0;
            add_rail(p, path, channel);
            return;
        }
        add_rail(p, path, channel);
    }
}

bool sensors_jetson_open(struct sensors_jetson *p, const char *root)
{
    *p = (struct sensors_jetson){.root = root, .over_current = -1};
    find_load(p);
    each_entry(root, "hwmon", "hwmon", take_monitor, p);
    return p->load[0] != 0 || p->n_rails > 0;
}

/* millivolts x milliamperes of one channel, in watts. */
static bool read_rail(const char *rail, double *watt)
{
    char file[SENSORS_PATH + 16];
    int64_t mv, ma;
    const char *slash = strrchr(rail, '/');
    int n = (int)(slash - rail);
    snprintf(file, sizeof file, "%.*s/in%s_input", n, rail, slash + 1);
    if (!read_number(&mv, file)) return false;
    snprintf(file, sizeof file, "%.*s/curr%s_input", n, rail, slash + 1);
    if (!read_number(&ma, file)) return false;
    *watt = (double)mv * (double)ma / 1e6;
    return true;
}

static void take_over_current(void *ctx, const char *path)
{
    int64_t *n_events = ctx;
    char name[64], file[SENSORS_PATH + 24];
    if (!read_line(name, sizeof name, "%s/name", path) || strcmp(name, "soctherm_oc") != 0) return;
    for (int i = 1; i <= 3; i++) {
        int64_t n;
        snprintf(file, sizeof file, "%s/oc%d_event_cnt", path, i);
        if (read_number(&n, file)) *n_events = *n_events < 0 ? n : *n_events + n;
    }
}

void sensors_jetson_read(struct sensors_jetson *p, struct sensor_part *out)
{
    static const char *const types[] = {"gpu-thermal", "tj-thermal", "GPU-therm", NULL};
    int64_t permille;
    double sum = 0, watt;
    int n = 0;
    int64_t over = -1;
    if (p->load[0] && read_number(&permille, p->load)) out->load = (double)permille / 10;
    double celsius = hottest_zone(p->root, types);
    if (!isnan(celsius)) out->celsius = celsius;
    for (int i = 0; i < p->n_rails; i++)
        if (read_rail(p->rails[i], &watt)) {
            sum += watt;
            n++;
        }
    if (n > 0) out->watt = sum;
    each_entry(p->root, "hwmon", "hwmon", take_over_current, &over);
    if (over >= 0 && p->over_current >= 0)
        snprintf(out->throttle, sizeof out->throttle, "%s",
                 over > p->over_current ? "over-current" : "none");
    if (over >= 0) p->over_current = over;
}

/* ---- NVML ------------------------------------------------------------------------------------ */

/* As in nvml.h, which need not be installed. */
struct nvml_utilization {
    unsigned gpu, memory; /* percent */
};
struct nvml_memory {
    unsigned long long total, free, used;
};

bool sensors_nvml_open(struct sensors_nvml *p, const char *library)
{
    int (*init)(void);
    int (*device)(unsigned index, void **out);
    *p = (struct sensors_nvml){.library = dlopen(library, RTLD_NOW | RTLD_LOCAL)};
    if (!p->library) return false;
    *(void **)&init = dlsym(p->library, "nvmlInit_v2");
    *(void **)&device = dlsym(p->library, "nvmlDeviceGetHandleByIndex_v2");
    *(void **)&p->by_bus = dlsym(p->library, "nvmlDeviceGetHandleByPciBusId_v2");
    *(void **)&p->shutdown = dlsym(p->library, "nvmlShutdown");
    *(void **)&p->utilization = dlsym(p->library, "nvmlDeviceGetUtilizationRates");
    *(void **)&p->memory = dlsym(p->library, "nvmlDeviceGetMemoryInfo");
    *(void **)&p->temperature = dlsym(p->library, "nvmlDeviceGetTemperature");
    *(void **)&p->power = dlsym(p->library, "nvmlDeviceGetPowerUsage");
    *(void **)&p->power_limit = dlsym(p->library, "nvmlDeviceGetEnforcedPowerLimit");
    *(void **)&p->throttle = dlsym(p->library, "nvmlDeviceGetCurrentClocksEventReasons");
    if (!p->throttle) /* of an older library */
        *(void **)&p->throttle = dlsym(p->library, "nvmlDeviceGetCurrentClocksThrottleReasons");
    if (init && device && init() == 0) {
        if (device(0, &p->device) == 0) return true;
        if (p->shutdown) p->shutdown();
    }
    dlclose(p->library);
    return false;
}

void sensors_nvml_choose(struct sensors_nvml *p, const char *bus)
{
    void *device;
    if (*bus && p->by_bus && p->by_bus(bus, &device) == 0) p->device = device;
}

void sensors_nvml_close(struct sensors_nvml *p)
{
    if (p->shutdown) p->shutdown();
    dlclose(p->library);
}

static const char *reason_of(unsigned long long reasons)
{
    static const struct {
        unsigned long long bit;
        const char *name;
    } rows[] = {
        {0x40, "thermal"},  {0x20, "thermal"}, {0x80, "power brake"},
        {0x08, "hardware"}, {0x04, "power"},   {0x02, "clocks set"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (reasons & rows[i].bit) return rows[i].name;
    return "none"; /* 1 is idle: not a reason */
}

void sensors_nvml_read(struct sensors_nvml *p, struct sensor_part *out)
{
    struct nvml_utilization use;
    struct nvml_memory memory;
    unsigned celsius, milliwatt;
    unsigned long long reasons;
    if (p->utilization && p->utilization(p->device, &use) == 0) out->load = use.gpu;
    if (p->memory && p->memory(p->device, &memory) == 0) out->memory_bytes = (double)memory.used;
    if (p->temperature && p->temperature(p->device, 0, &celsius) == 0) out->celsius = celsius;
    if (p->power && p->power(p->device, &milliwatt) == 0) out->watt = milliwatt / 1e3;
    if (p->power_limit && p->power_limit(p->device, &milliwatt) == 0)
        out->watt_max = milliwatt / 1e3;
    if (p->throttle && p->throttle(p->device, &reasons) == 0)
        snprintf(out->throttle, sizeof out->throttle, "%s", reason_of(reasons));
}
