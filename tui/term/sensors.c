#include "tui/term/sensors.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/system.h"
#include "tui/term/sensors_linux.h"

enum { EVERY_MS = 500, STALE_MS = 3000 };

enum { CPU, GPU, N_THREADS };

struct sensors { /* freed by the last user: a hanging thread keeps it */
    atomic_int users;
    atomic_bool quit;
    char root[256], nvml[256];
    int fd;
    pthread_mutex_t lock; /* guards the following members */
    pthread_cond_t wake;
    char bus[16];
    struct sensor_reading reading;
    int64_t at_ms[N_THREADS]; /* time of the last sample; 0 = none */
};

struct sensor_reading sensor_nothing(void)
{
    static const struct sensor_part nothing = {NAN, NAN, NAN, NAN, NAN, ""};
    return (struct sensor_reading){nothing, nothing, false, NAN};
}

static void leave(struct sensors *s)
{
    if (atomic_fetch_sub(&s->users, 1) > 1) return;
    close(s->fd);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* Waits half a second; false when the thread must end. */
static bool next_sample(struct sensors *s)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += EVERY_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&s->lock);
    while (!atomic_load(&s->quit) &&
           pthread_cond_clockwait(&s->wake, &s->lock, CLOCK_MONOTONIC, &until) == 0)
        continue;
    pthread_mutex_unlock(&s->lock);
    return !atomic_load(&s->quit);
}

/* Compares the displayed values, so that an invisible change wakes no thread. */
static bool differs(double a, double b)
{
    return isnan(a) != isnan(b) || (!isnan(a) && lround(a) != lround(b));
}

static bool part_differs(const struct sensor_part *a, const struct sensor_part *b)
{
    return differs(a->load, b->load) || differs(a->celsius, b->celsius) ||
           differs(a->watt, b->watt) || differs(a->watt_max, b->watt_max) ||
           differs(a->memory_bytes / 1e7, b->memory_bytes / 1e7) ||
           strcmp(a->throttle, b->throttle) != 0;
}

static void publish(struct sensors *s, int thread, const struct sensor_part *part, bool there,
                    double swap_bytes)
{
    uint64_t one = 1;
    pthread_mutex_lock(&s->lock);
    struct sensor_reading *r = &s->reading;
    struct sensor_part *old = thread == CPU ? &r->cpu : &r->gpu;
    bool changed = part_differs(old, part) || s->at_ms[thread] == 0;
    *old = *part;
    if (thread == GPU) r->has_gpu = there;
    if (thread == CPU) r->swap_bytes = swap_bytes;
    s->at_ms[thread] = system_clock_ns() / 1000000;
    pthread_mutex_unlock(&s->lock);
    if (!changed) return;
    ssize_t n = write(s->fd, &one, sizeof one);
    (void)n; /* a full eventfd is readable anyway */
}

static void *run_cpu(void *ctx)
{
    struct sensors *s = ctx;
    struct sensors_cpu probe;
    sensors_cpu_open(&probe, s->root);
    do {
        struct sensor_reading r = sensor_nothing();
        sensors_cpu_read(&probe, &r.cpu, &r.swap_bytes);
        publish(s, CPU, &r.cpu, true, r.swap_bytes);
    } while (next_sample(s));
    leave(s);
    return NULL;
}

/* The chosen GPU, on the thread that reads it. */
static void follow_choice(struct sensors *s, struct sensors_nvml *nvml)
{
    char bus[sizeof s->bus];
    pthread_mutex_lock(&s->lock);
    memcpy(bus, s->bus, sizeof bus);
    pthread_mutex_unlock(&s->lock);
    sensors_nvml_choose(nvml, bus);
}

static void *run_gpu(void *ctx)
{
    struct sensors *s = ctx;
    struct sensors_nvml nvml;
    struct sensors_jetson jetson;
    bool desktop = sensors_nvml_open(&nvml, s->nvml);
    bool board = sensors_jetson_open(&jetson, s->root);
    do {
        struct sensor_reading r = sensor_nothing();
        if (desktop) follow_choice(s, &nvml);
        if (desktop) sensors_nvml_read(&nvml, &r.gpu);
        if (board) sensors_jetson_read(&jetson, &r.gpu);
        publish(s, GPU, &r.gpu, desktop || board, NAN);
    } while ((desktop || board) && next_sample(s));
    if (desktop) sensors_nvml_close(&nvml);
    leave(s);
    return NULL;
}

static void start(struct sensors *s, void *(*run)(void *))
{
    pthread_t thread;
    atomic_fetch_add(&s->users, 1);
    if (pthread_create(&thread, NULL, run, s) == 0)
        pthread_detach(thread);
    else
        atomic_fetch_sub(&s->users, 1);
}

void sensors_choose(struct sensors *s, const char *bus)
{
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    snprintf(s->bus, sizeof s->bus, "%s", bus);
    pthread_mutex_unlock(&s->lock);
}

struct sensors *sensors_open(const char *root, const char *nvml)
{
    sigset_t all, before;
    struct sensors *s = memory_new(1, sizeof *s);
    s->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->fd < 0) {
        free(s);
        return NULL;
    }
    snprintf(s->root, sizeof s->root, "%s", root);
    snprintf(s->nvml, sizeof s->nvml, "%s", nvml);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->wake, NULL);
    s->reading = sensor_nothing();
    atomic_init(&s->users, 1);
    sigfillset(&all); /* the screen handles signals */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    start(s, run_cpu);
    start(s, run_gpu);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return s;
}

void sensors_close(struct sensors *s)
{
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->quit, true);
    pthread_cond_broadcast(&s->wake);
    pthread_mutex_unlock(&s->lock);
    leave(s);
}

int sensors_fd(const struct sensors *s)
{
    return s ? s->fd : -1;
}

void sensors_read(struct sensors *s, struct sensor_reading *out)
{
    uint64_t count;
    *out = sensor_nothing();
    if (!s) return;
    ssize_t n = read(s->fd, &count, sizeof count);
    (void)n;
    int64_t now_ms = system_clock_ns() / 1000000;
    pthread_mutex_lock(&s->lock);
    bool cpu = s->at_ms[CPU] && now_ms - s->at_ms[CPU] < STALE_MS;
    bool gpu = s->at_ms[GPU] && now_ms - s->at_ms[GPU] < STALE_MS;
    if (cpu) out->cpu = s->reading.cpu;
    if (cpu) out->swap_bytes = s->reading.swap_bytes;
    if (gpu) out->gpu = s->reading.gpu;
    out->has_gpu = s->reading.has_gpu;
    pthread_mutex_unlock(&s->lock);
}
