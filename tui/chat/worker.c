#include "tui/chat/worker.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/system.h"

enum { IDLE_MS = 300, SNAPSHOT_MS = 250, CALM_MS = 1500 };

struct worker {
    pthread_t thread;
    int fd;
    atomic_bool stop, quit;
    atomic_bool calm;  /* as in worker_calm */
    atomic_bool woken; /* the screen was woken and has not taken events yet */

    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t wake;
    struct request *requests; /* [n_requests] waiting */
    int n_requests;
    struct worker_box box;
    struct options settings; /* of worker_open, then of worker_set */
    atomic_bool have_settings;

    /* owned by the thread */
    struct control control;
    struct retention *map;        /* filled without the lock, then copied */
    int64_t snapshot_ms, cost_ns; /* of the last one */
    struct pace pace;
    int pace_rate;
};

/* ---- waiting events -------------------------------------------------------------------------- */

struct boxed_event {
    struct event event;
    size_t text; /* offset in event_box.text */
};

/* Copies the event. Of consecutive progress events only the latest is kept. */
static void event_box_add(struct event_box *b, const struct event *ev)
{
    struct boxed_event *last = b->n ? &b->rows[b->n - 1] : NULL;
    const bool progress = ev->kind == EVENT_LOADING || ev->kind == EVENT_READING;
    if (!progress || !last || last->event.kind != ev->kind) {
        b->rows = memory_more(b->rows, (size_t)b->n, &b->cap, sizeof *b->rows);
        last = &b->rows[b->n++];
        last->text = b->text.n;
    }
    last->event = *ev;
    str_append(&b->text, ev->text, ev->n_text);
}

struct event event_box_at(const struct event_box *b, int i)
{
    struct event ev = b->rows[i].event;
    ev.text = str_get(&b->text) + b->rows[i].text;
    return ev;
}

void event_box_clear(struct event_box *b)
{
    b->n = 0;
    str_clear(&b->text);
}

/* ---- the pace of the demo -------------------------------------------------------------------- */

enum { POLL_NS = 20000000 };

int pace_rate(const struct options *o)
{
    if (o->chat.pace >= 0) return o->chat.pace;
    return o->engine.model ? 0 : PACE_DEMO;
}

void pace_wait(struct pace *p, int rate, bool (*stop)(void *ctx), void *ctx)
{
    int64_t now = system_clock_ns();
    if (rate <= 0) return;
    if (p->due_ns < now) p->due_ns = now;
    p->due_ns += 1000000000 / rate;
    for (; now < p->due_ns && !stop(ctx); now = system_clock_ns()) {
        int64_t ns = p->due_ns - now < POLL_NS ? p->due_ns - now : POLL_NS;
        nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
    }
}

/* ---- events --------------------------------------------------------------------------------- */

void worker_box_release(struct worker_box *b)
{
    free(b->events.rows);
    str_release(&b->events.text);
    retention_free(b->map);
    waterfall_free(b->past);
    memset(b, 0, sizeof *b);
}

static void wake_screen(struct worker *w)
{
    uint64_t one = 1;
    if (atomic_exchange(&w->woken, true)) return;
    ssize_t n = write(w->fd, &one, sizeof one);
    (void)n; /* a full eventfd is readable anyway */
}

static void deliver(struct worker *w, const struct event *ev)
{
    pthread_mutex_lock(&w->lock);
    event_box_add(&w->box.events, ev);
    pthread_mutex_unlock(&w->lock);
    wake_screen(w);
}

void worker_take(struct worker *w, struct worker_box *box)
{
    uint64_t count;
    ssize_t n = read(w->fd, &count, sizeof count);
    (void)n;
    atomic_store(&w->woken, false);
    pthread_mutex_lock(&w->lock);
    struct worker_box taken = w->box;
    waterfall_free(box->past);
    w->box = *box; /* reuses its memory */
    w->box.past = NULL;
    if (!taken.fresh) { /* the screen keeps its old snapshot */
        struct retention *unused = taken.map;
        taken.stats = box->stats;
        taken.map = box->map;
        w->box.map = unused;
    }
    w->box.fresh = false;
    event_box_clear(&w->box.events);
    pthread_mutex_unlock(&w->lock);
    *box = taken;
}

/* ---- snapshots ------------------------------------------------------------------------------ */

static bool same_shape(const struct retention *a, const struct retention *b)
{
    return a && b && a->n_layer == b->n_layer && a->n_head == b->n_head;
}

static int64_t spent_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* At most once in `every` milliseconds, and in a hundred times what the last one took, so that
 * snapshots of any cache cost at most a hundredth of the thread's time; 0: now. */
static void snapshot(struct worker *w, int every)
{
    struct session *s = w->control.parts.session;
    int64_t ms = system_clock_ns() / 1000000, since = ms - w->snapshot_ms, before = spent_ns();
    if (!s || since < every || (every && since < w->cost_ns / 10000)) return;
    w->snapshot_ms = ms;
    struct session_stats stats;
    session_stats(s, &stats);
    if (w->map) session_retention(s, w->map);
    pthread_mutex_lock(&w->lock);
    w->box.stats = stats;
    w->box.fresh = true;
    if (w->map && !same_shape(w->box.map, w->map)) {
        retention_free(w->box.map);
        w->box.map = retention_new(s);
    }
    if (w->map) retention_copy(w->box.map, w->map);
    pthread_mutex_unlock(&w->lock);
    w->cost_ns = spent_ns() - before;
    wake_screen(w);
}

static void add_past(void *ctx, const struct retention *r)
{
    waterfall_add(ctx, r);
}

/* A failure is no error of the conversation: it has no history then. */
static void publish_past(struct worker *w)
{
    struct waterfall *past = memory_grow(NULL, 1, sizeof *past);
    *past = (struct waterfall){0};
    if (session_past(w->control.parts.session, add_past, past, NULL)) waterfall_clear(past);
    pthread_mutex_lock(&w->lock);
    waterfall_free(w->box.past);
    w->box.past = past;
    pthread_mutex_unlock(&w->lock);
}

/* ---- the thread ----------------------------------------------------------------------------- */

static void take_settings(struct worker *w)
{
    struct options settings;
    if (!atomic_exchange(&w->have_settings, false)) return;
    pthread_mutex_lock(&w->lock);
    settings = w->settings;
    pthread_mutex_unlock(&w->lock);
    control_set(&w->control, &settings);
    w->pace_rate = pace_rate(&settings);
}

static bool on_stop(void *ctx)
{
    struct worker *w = ctx;
    take_settings(w);
    return atomic_load(&w->stop) || atomic_load(&w->quit);
}

/* A snapshot of a state is published before its event; while text flows, snapshots are rare. */
static void on_event(void *ctx, const struct event *ev)
{
    struct worker *w = ctx;
    bool generates = ev->kind == EVENT_TEXT || ev->kind == EVENT_THOUGHT;
    bool flows = generates || ev->kind == EVENT_READING || ev->kind == EVENT_EVICTED;
    bool settles = ev->kind == EVENT_OPENED || ev->kind == EVENT_END || ev->kind == EVENT_FAILED ||
                   ev->kind == EVENT_NOTICE || /* heads may have been taken, */
                   ev->kind == EVENT_NOTE;     /* turns marked */
    if (ev->kind == EVENT_OPENING) atomic_store(&w->stop, false);
    if (ev->kind == EVENT_OPENED) {
        retention_free(w->map);
        w->map = retention_new(w->control.parts.session);
        publish_past(w);
    }
    if (settles) snapshot(w, 0);
    deliver(w, ev);
    bool changes = ev->kind == EVENT_EVICTED; /* more than the length of the picture */
    if (flows) snapshot(w, !changes && atomic_load(&w->calm) ? CALM_MS : SNAPSHOT_MS);
    if (generates) pace_wait(&w->pace, w->pace_rate, on_stop, w);
}

/* Waits for the screen, but not long while heads are being fitted; call with the lock. */
static void wait_for_screen(struct worker *w)
{
    struct timespec until;
    if (w->n_requests || atomic_load(&w->quit)) return;
    if (!control_waits(&w->control)) {
        pthread_cond_wait(&w->wake, &w->lock);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += IDLE_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&w->wake, &w->lock, &until);
}

/* The next request; false when the thread must end. */
static bool next_request(struct worker *w, const struct events *events, struct request *out)
{
    pthread_mutex_lock(&w->lock);
    while (w->n_requests == 0 && !atomic_load(&w->quit)) {
        pthread_mutex_unlock(&w->lock);
        if (control_idle(&w->control, events)) return false;
        pthread_mutex_lock(&w->lock);
        wait_for_screen(w);
    }
    bool more = !atomic_load(&w->quit);
    if (more) {
        *out = w->requests[0];
        memmove(w->requests, w->requests + 1, sizeof *out * (size_t)--w->n_requests);
    }
    pthread_mutex_unlock(&w->lock);
    return more;
}

static void *run(void *ctx)
{
    struct worker *w = ctx;
    struct events events = {w, on_event, on_stop};
    struct event closed = {.kind = EVENT_CLOSED};
    struct request r;
    struct err e = {0};
    pthread_mutex_lock(&w->lock);
    struct options o = w->settings;
    pthread_mutex_unlock(&w->lock);
    w->pace_rate = pace_rate(&o);
    w->control.interactive = true;
    int rc = control_open(&w->control, &o, &events, &e);
    while (!rc && next_request(w, &events, &r)) {
        take_settings(w);
        rc = control_run(&w->control, &r, &events);
        request_release(&r);
    }
    control_close(&w->control);
    retention_free(w->map);
    deliver(w, &closed);
    return NULL;
}

/* ---- the screen's side ---------------------------------------------------------------------- */

int worker_open(struct worker **out, const struct options *o, struct err *e)
{
    sigset_t all, before;
    *out = NULL;
    struct worker *w = memory_new(1, sizeof *w);
    w->settings = *o;
    w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    /* the screen handles signals: this thread and those it creates (drivers' too) block them */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = w->fd < 0 ? errno : pthread_create(&w->thread, NULL, run, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        if (w->fd >= 0) close(w->fd);
        free(w);
        return err_set(e, ERR_FAIL, "cannot start a thread: %s", strerror(failed));
    }
    *out = w;
    return 0;
}

void worker_calm(struct worker *w, bool calm)
{
    atomic_store(&w->calm, calm);
}

void worker_leave(struct worker *w)
{
    pthread_mutex_lock(&w->lock);
    atomic_store(&w->quit, true);
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

void worker_close(struct worker *w)
{
    if (!w) return;
    worker_leave(w);
    pthread_join(w->thread, NULL);
    for (int i = 0; i < w->n_requests; i++) request_release(&w->requests[i]);
    free(w->requests);
    worker_box_release(&w->box);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    close(w->fd);
    free(w);
}

int worker_fd(const struct worker *w)
{
    return w->fd;
}

void worker_run(struct worker *w, struct request *r)
{
    pthread_mutex_lock(&w->lock);
    w->requests = memory_grow(w->requests, (size_t)w->n_requests + 1, sizeof *w->requests);
    w->requests[w->n_requests++] = *r;
    *r = (struct request){0};
    atomic_store(&w->stop, false);
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

void worker_set(struct worker *w, const struct options *o)
{
    pthread_mutex_lock(&w->lock);
    w->settings = *o;
    pthread_mutex_unlock(&w->lock);
    atomic_store(&w->have_settings, true);
}

void worker_stop(struct worker *w)
{
    atomic_store(&w->stop, true);
}
