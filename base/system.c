#include "base/system.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

int64_t system_number(const char *path, const char *key)
{
    FILE *f = fopen(path, "re");
    if (!f) return -1;
    char line[256];
    long long kb = -1;
    size_t n = strlen(key);
    while (kb < 0 && fgets(line, sizeof line, f))
        if (!strncmp(line, key, n) && sscanf(line + n, " %lld", &kb) != 1) kb = -1;
    fclose(f);
    return kb;
}

/* The bytes after a key in a file of /proc with lines "key:   123 kB"; -1 = it is not there. */
static int64_t proc_kb(const char *path, const char *key)
{
    int64_t kb = system_number(path, key);
    return kb < 0 ? -1 : kb * 1024;
}

static int64_t smaller_known(int64_t a, int64_t b)
{
    if (a < 0) return b;
    return b < 0 || a < b ? a : b;
}

/* ---- control groups -------------------------------------------------------------------------- */

/* Files of a group: version 2, version 1. */
static const struct {
    const char *root, *limit, *used, *stat, *active, *inactive;
} versions[] = {
    {"", "memory.max", "memory.current", "memory.stat", "active_file ", "inactive_file "},
    {"/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat",
     "total_active_file ", "total_inactive_file "},
};

/* Lowers the limits in *to to the limits of one group. Cached pages of files count as free. */
static void narrow(struct system_group *to, const char *root, const char *group, int v)
{
    enum { UNLIMITED_BITS = 60 }; /* version 1 has a number just below 2^63 for no limit */
    char path[4400];
    snprintf(path, sizeof path, "%s%s%s/%s", root, versions[v].root, group, versions[v].limit);
    const int64_t limit = system_number(path, ""); /* "max" when the cgroup has no limit */
    if (limit < 0 || limit >> UNLIMITED_BITS) return;
    snprintf(path, sizeof path, "%s%s%s/%s", root, versions[v].root, group, versions[v].used);
    int64_t used = system_number(path, "");
    snprintf(path, sizeof path, "%s%s%s/%s", root, versions[v].root, group, versions[v].stat);
    const int64_t active = system_number(path, versions[v].active),
                  inactive = system_number(path, versions[v].inactive);
    used -= (active > 0 ? active : 0) + (inactive > 0 ? inactive : 0);
    to->limit_bytes = smaller_known(to->limit_bytes, limit);
    if (used < 0) used = 0;
    to->left_bytes = smaller_known(to->left_bytes, used < limit ? limit - used : 0);
}

/* Lowers to->n_cpus to the group's limit: a quota of processor time in each period, rounded up to
 * whole cores. Version 2 has both in one file, "QUOTA PERIOD" or "max PERIOD". */
static void narrow_cpus(struct system_group *to, const char *root, const char *group, bool second)
{
    char path[4400];
    long long quota = -1, period = -1;
    snprintf(path, sizeof path, "%s%s%s/%s", root, second ? "" : "/cpu", group,
             second ? "cpu.max" : "cpu.cfs_quota_us");
    FILE *f = fopen(path, "re");
    if (f && fscanf(f, "%lld %lld", &quota, &period) < 1) quota = -1;
    if (f) fclose(f);
    snprintf(path, sizeof path, "%s/cpu%s/cpu.cfs_period_us", root, group);
    if (!second) period = system_number(path, "");
    if (quota <= 0 || period <= 0) return;
    to->n_cpus = smaller_known(to->n_cpus, quota / period + (quota % period != 0));
}

struct system_group system_group_read(const char *groups, const char *root)
{
    struct system_group out = {-1, -1, -1};
    char line[4200];
    FILE *f = fopen(groups, "re");
    while (f && fgets(line, sizeof line, f)) { /* "0::/path" or "4:cpu,cpuacct:/path" */
        char *of = strchr(line, ':'), *group = of ? strchr(++of, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        const bool second = !*of, memory = second || !strcmp(of, "memory");
        const bool cpu = second || !strcmp(of, "cpu") || !strcmp(of, "cpu,cpuacct");
        /* the group and its ancestors; a path of the host that is not mounted here has no files */
        for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
            *end = 0;
            if (memory) narrow(&out, root, group, !second);
            if (cpu) narrow_cpus(&out, root, group, second);
        }
    }
    if (f) fclose(f);
    return out;
}

static struct system_group own_group(void)
{
    return system_group_read("/proc/self/cgroup", "/sys/fs/cgroup");
}

int64_t system_memory_bytes(void)
{
    return smaller_known(proc_kb("/proc/meminfo", "MemTotal:"), own_group().limit_bytes);
}

int64_t system_available_bytes(void)
{
    return smaller_known(proc_kb("/proc/meminfo", "MemAvailable:"), own_group().left_bytes);
}

int64_t system_group_cpus(void)
{
    return own_group().n_cpus;
}

int64_t system_n_running(void)
{
    FILE *f = fopen("/proc/loadavg", "re"); /* "0.20 0.18 0.12 1/80 11206" */
    int n = -1;
    if (f && fscanf(f, "%*s %*s %*s %d", &n) != 1) n = -1;
    if (f) fclose(f);
    return n;
}

int64_t system_process_bytes(void)
{
    return proc_kb("/proc/self/status", "VmRSS:");
}

int64_t system_process_peak_bytes(void)
{
    return proc_kb("/proc/self/status", "VmHWM:");
}

int64_t system_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int64_t system_unix_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}
