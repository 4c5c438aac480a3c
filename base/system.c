#include "base/system.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* The number behind `key` in a "key:   123 kB" file of /proc, in bytes. */
static int64_t proc_kb(const char *path, const char *key)
{
    FILE *f = fopen(path, "re");
    if (!f) return -1;
    char line[256];
    long long kb = -1;
    size_t n = strlen(key);
    while (kb < 0 && fgets(line, sizeof line, f))
        if (!strncmp(line, key, n) && sscanf(line + n, " %lld", &kb) != 1) kb = -1;
    fclose(f);
    return kb < 0 ? -1 : kb * 1024;
}

static int64_t read_number(const char *path)
{
    FILE *f = fopen(path, "re");
    if (!f) return -1;
    long long v = -1;
    /* the file contains "max" when the cgroup has no limit */
    if (fscanf(f, "%lld", &v) != 1) v = -1;
    fclose(f);
    return v;
}

static int64_t smaller_known(int64_t a, int64_t b)
{
    if (a < 0) return b;
    return b < 0 || a < b ? a : b;
}

int64_t system_memory_bytes(void)
{
    return smaller_known(proc_kb("/proc/meminfo", "MemTotal:"),
                         read_number("/sys/fs/cgroup/memory.max"));
}

int64_t system_available_bytes(void)
{
    int64_t limit = read_number("/sys/fs/cgroup/memory.max");
    int64_t used = read_number("/sys/fs/cgroup/memory.current");
    int64_t left = limit < 0 || used < 0 ? -1 : limit - used;
    return smaller_known(proc_kb("/proc/meminfo", "MemAvailable:"), left);
}

int64_t system_process_bytes(void)
{
    return proc_kb("/proc/self/status", "VmRSS:");
}

int64_t system_process_peak_bytes(void)
{
    return proc_kb("/proc/self/status", "VmHWM:");
}

void system_process_peak_reset(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "we");
    if (!f) return;
    fputs("5", f);
    fclose(f);
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
