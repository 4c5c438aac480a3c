#include "tui/chat/worker.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "cli/options.h"
#include "cli/paths.h"
#include "cli/secret.h"
#include "runtime/session/conversations.h"

enum { SNAPSHOT_MS = 250, ORDERS_MAX = 16 };

struct order_row {
    enum order order;
    struct str text;
};

struct worker {
    struct options options;
    pthread_t thread;
    int fd;
    atomic_bool stop, quit;
    atomic_bool woken; /* the screen was told and has not looked yet */

    pthread_mutex_t lock; /* what follows */
    pthread_cond_t wake;
    struct order_row orders[ORDERS_MAX];
    int n_orders;
    struct news_box box;
    struct focus focus;
    bool focus_changed;
    struct sight sight;
    bool sight_fresh;
    struct options settings; /* of worker_set */
    atomic_bool have_settings;

    /* the thread's own */
    struct conversations *library;
    struct engine *engine;
    struct session *session;
    struct retention *map; /* filled without the lock, then copied */
    int64_t snapshot_ms;
    int64_t n_read;
    bool answering, regenerating;
    char name[128];        /* of the open conversation */
    struct options opened; /* it was opened with these */
};

static int64_t clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- news ----------------------------------------------------------------------------------- */

void news_box_release(struct news_box *b)
{
    free(b->rows);
    str_release(&b->text);
    retention_free(b->map);
    memset(b, 0, sizeof *b);
}

static void wake_screen(struct worker *w)
{
    uint64_t one = 1;
    if (atomic_exchange(&w->woken, true)) return;
    ssize_t n = write(w->fd, &one, sizeof one);
    (void)n; /* full: it is readable anyway */
}

/* Only the latest of a run of progress reports counts, and pieces of text join. */
static bool merges(const struct news *last, enum news_kind kind)
{
    return last && last->kind == kind &&
           (kind == NEWS_TEXT || kind == NEWS_LOADING || kind == NEWS_READING);
}

static void report(struct worker *w, enum news_kind kind, int64_t a, int64_t b, const char *text,
                   size_t n)
{
    pthread_mutex_lock(&w->lock);
    struct news_box *box = &w->box;
    struct news *last = box->n ? &box->rows[box->n - 1] : NULL;
    if (!merges(last, kind)) {
        if (box->n == box->cap) {
            box->cap = box->cap ? 2 * box->cap : 64;
            box->rows = realloc(box->rows, sizeof *box->rows * (size_t)box->cap);
            if (!box->rows) abort();
        }
        last = &box->rows[box->n++];
        *last = (struct news){.kind = kind, .text = box->text.n};
    }
    last->a = a;
    last->b = b;
    last->n_text += n;
    str_append(&box->text, text, n);
    pthread_mutex_unlock(&w->lock);
    wake_screen(w);
}

static void report_text(struct worker *w, enum news_kind kind, int64_t a, const char *text)
{
    report(w, kind, a, 0, text, strlen(text));
}

void worker_take(struct worker *w, struct news_box *box)
{
    uint64_t count;
    ssize_t n = read(w->fd, &count, sizeof count);
    (void)n;
    atomic_store(&w->woken, false);
    pthread_mutex_lock(&w->lock);
    struct news_box taken = w->box;
    w->box = *box;      /* its memory is used again */
    if (!taken.fresh) { /* the screen keeps the snapshot it has */
        struct retention *unused = taken.map;
        taken.stats = box->stats;
        taken.map = box->map;
        w->box.map = unused;
    }
    w->box.n = 0;
    w->box.fresh = false;
    str_clear(&w->box.text);
    pthread_mutex_unlock(&w->lock);
    *box = taken;
}

/* ---- snapshots ------------------------------------------------------------------------------ */

static bool same_shape(const struct retention *a, const struct retention *b)
{
    return a && b && a->n_layer == b->n_layer && a->n_head == b->n_head;
}

static void copy_map(struct retention *to, const struct retention *from)
{
    uint32_t *kept = to->kept;
    memcpy(kept, from->kept,
           sizeof *kept * (size_t)from->n_layer * (size_t)from->n_head * RETENTION_COLS);
    *to = *from;
    to->kept = kept;
}

/* What single tokens became. Under the lock; no work unless a view asked for it. */
static void see(struct worker *w, const struct session *s, int n_heads)
{
    struct sight *g = &w->sight;
    w->focus_changed = false;
    if (w->focus.position < 0 && w->focus.n == 0) return;
    if (g->n_heads != n_heads) {
        free(g->scores);
        g->scores = malloc(sizeof *g->scores * (size_t)n_heads);
        if (!g->scores) abort();
        g->n_heads = n_heads;
    }
    g->focus = w->focus;
    session_scores(s, w->focus.position, g->scores);
    session_kept(s, w->focus.from, w->focus.n, g->kept);
    w->sight_fresh = true;
}

/* At most once in `every` milliseconds, so that the picture costs nothing. */
static void snapshot(struct worker *w, struct session *s, int every)
{
    int64_t ms = clock_ms();
    if (!s || ms - w->snapshot_ms < every) return;
    w->snapshot_ms = ms;
    struct session_stats stats;
    session_stats(s, &stats);
    if (w->map) session_retention(s, w->map);
    pthread_mutex_lock(&w->lock);
    w->box.stats = stats;
    w->box.fresh = true;
    see(w, s, stats.n_layer * stats.n_kv_head);
    if (w->map && !same_shape(w->box.map, w->map)) {
        retention_free(w->box.map);
        w->box.map = retention_new(s);
    }
    if (w->map && w->box.map) copy_map(w->box.map, w->map);
    pthread_mutex_unlock(&w->lock);
    wake_screen(w);
}

/* ---- callbacks of the engine ---------------------------------------------------------------- */

static int on_load(void *ctx, int64_t done, int64_t total)
{
    struct worker *w = ctx;
    if (!total) report_text(w, NEWS_NOTICE, 0, ENGINE_COMPILING);
    report(w, NEWS_LOADING, done, total, "", 0);
    return atomic_load(&w->quit);
}

static void on_progress(void *ctx, int64_t done, int64_t total)
{
    struct worker *w = ctx;
    w->n_read = total;
    report(w, NEWS_READING, done, total, "", 0);
    snapshot(w, w->session, SNAPSHOT_MS);
}

static void on_text(void *ctx, const char *utf8, size_t n)
{
    struct worker *w = ctx;
    if (!w->answering) {
        struct session_stats st;
        session_stats(w->session, &st);
        report(w, NEWS_ANSWER, st.n_tokens, w->regenerating ? 0 : w->n_read, "", 0);
        w->answering = true;
    }
    report(w, NEWS_TEXT, 0, 0, utf8, n);
    snapshot(w, w->session, SNAPSHOT_MS);
}

static void on_tokens(void *ctx, int64_t position, int n, const uint16_t *n_bytes)
{
    report(ctx, NEWS_TOKENS, position, n, (const char *)n_bytes, sizeof *n_bytes * (size_t)n);
}

static void on_evicted(void *ctx, int64_t n, int64_t n_tokens)
{
    struct worker *w = ctx;
    report(w, NEWS_EVICTED, n, n_tokens, "", 0);
    snapshot(w, w->session, SNAPSHOT_MS);
}

static void take_settings(struct worker *w)
{
    if (!atomic_exchange(&w->have_settings, false)) return;
    pthread_mutex_lock(&w->lock);
    w->options = w->settings;
    pthread_mutex_unlock(&w->lock);
    if (w->session) session_set(w->session, &w->options);
}

static bool on_stop(void *ctx)
{
    struct worker *w = ctx;
    take_settings(w);
    return atomic_load(&w->stop) || atomic_load(&w->quit);
}

static struct session_sink sink_of(struct worker *w)
{
    return (struct session_sink){.ctx = w,
                                 .progress = on_progress,
                                 .text = on_text,
                                 .tokens = on_tokens,
                                 .evicted = on_evicted,
                                 .stop = on_stop};
}

/* ---- orders --------------------------------------------------------------------------------- */

static int open_session(struct worker *w, const struct options *o, struct err *e)
{
    struct session_sink sink = sink_of(w);
    int rc = session_open(&w->session, w->engine, w->library, o, &sink, e);
    if (rc) return rc;
    w->opened = w->options;
    retention_free(w->map);
    w->map = retention_new(w->session);
    strncpy(w->name, session_name(w->session), sizeof w->name - 1);
    snapshot(w, w->session, 0);
    report_text(w, NEWS_OPENED, session_can_continue(w->session), w->name);
    const char *notice = session_notice(w->session);
    if (notice[0]) report_text(w, NEWS_NOTICE, 0, notice);
    return 0;
}

/* Another conversation; when that fails, the one before is opened again. */
static void switch_session(struct worker *w, const char *name)
{
    struct err e = {0};
    struct options o = w->options;
    char before[sizeof w->name];
    struct options options_before = w->opened;
    memcpy(before, w->name, sizeof before);
    o.continue_latest = false;
    o.new_conversation = name[0] == 0;
    o.conversation = name[0] ? name : NULL;
    report_text(w, NEWS_OPENING, 0, name);
    session_close(w->session);
    w->session = NULL;
    if (open_session(w, &o, &e) == 0) return;
    if (atomic_load(&w->quit)) return;
    atomic_store(&w->stop, false);
    options_before.sampling = o.sampling;
    options_before.n_predict = o.n_predict;
    options_before.ignore_end = o.ignore_end;
    w->options = o = options_before;
    o.continue_latest = false;
    o.new_conversation = before[0] == 0 || w->options.private_mode;
    o.conversation = o.new_conversation ? NULL : before;
    report_text(w, NEWS_OPENING, 0, before);
    report_text(w, NEWS_FAILED, e.code, e.text);
    e = (struct err){0};
    if (open_session(w, &o, &e)) report_text(w, NEWS_FATAL, e.code, e.text);
}

static void run_turn(struct worker *w, const struct order_row *row)
{
    struct err e = {0};
    struct session_stats st;
    struct session_sink sink = sink_of(w);
    enum session_end end = SESSION_TURN_END;
    if (!w->session) return;
    session_stats(w->session, &st);
    w->regenerating = row->order == ORDER_REGENERATE;
    if (!w->regenerating) report(w, NEWS_BEGIN, st.n_tokens, 0, "", 0);
    w->n_read = 0;
    w->answering = false;
    int rc = row->order == ORDER_CONTINUE ? session_continue(w->session, &sink, &end, &e)
             : row->order == ORDER_REGENERATE
                 ? session_regenerate(w->session, &sink, &end, &e)
                 : session_say(w->session, str_get(&row->text), row->text.n, &sink, &end, &e);
    session_stats(w->session, &st);
    snapshot(w, w->session, 0);
    if (rc)
        report_text(w, NEWS_FAILED, e.code, e.text);
    else
        report(w, NEWS_END, end, st.n_tokens, "partial",
               session_can_continue(w->session) ? strlen("partial") : 0);
}

/* Ends like a turn: what is queued goes on, or the person is told. */
static void rewind_to(struct worker *w, int64_t turn)
{
    struct err e = {0};
    struct session_stats st;
    struct session_sink sink = sink_of(w);
    int rc = session_rewind(w->session, turn, &sink, &e);
    session_stats(w->session, &st);
    if (!rc || e.code == ERR_STOP) report(w, NEWS_CUT, turn, 0, "", 0);
    snapshot(w, w->session, true);
    if (rc)
        report_text(w, NEWS_FAILED, e.code, e.text);
    else
        report(w, NEWS_END, SESSION_TURN_END, st.n_tokens, "", 0);
}

static void amend(struct worker *w, const struct str *text)
{
    struct err e = {0};
    struct session_stats st;
    struct session_sink sink = sink_of(w);
    int rc = session_amend(w->session, str_get(text), text->n, &sink, &e);
    session_stats(w->session, &st);
    snapshot(w, w->session, true);
    if (rc)
        report_text(w, NEWS_FAILED, e.code, e.text);
    else
        report(w, NEWS_END, SESSION_TURN_END, st.n_tokens, "partial",
               session_can_continue(w->session) ? strlen("partial") : 0);
}

static void make_branch(struct worker *w, const char *text)
{
    struct err e = {0};
    char *name, made[128];
    int64_t turn = strtoll(text, &name, 10);
    if (session_branch(w->session, turn, name + strspn(name, " "), made, &e))
        report_text(w, NEWS_FAILED, e.code, e.text);
    else
        report_text(w, NEWS_BRANCHED, turn, made);
}

static void rename_open(struct worker *w, const char *name)
{
    struct err e = {0};
    if (!w->library || w->options.private_mode)
        report_text(w, NEWS_FAILED, ERR_USAGE, "a private conversation has no name");
    else if (conversations_rename(w->library, w->name, name, &e))
        report_text(w, NEWS_FAILED, e.code, e.text);
    else {
        snprintf(w->name, sizeof w->name, "%s", name);
        report_text(w, NEWS_RENAMED, 0, w->name);
    }
}

static void report_cost(struct worker *w, const struct str *turn)
{
    int64_t cost = turn->n ? session_rewind_cost(w->session, atoll(turn->data))
                           : session_regenerate_cost(w->session);
    report(w, NEWS_COST, 0, cost, "", 0);
}

static struct order_row next_order(struct worker *w)
{
    pthread_mutex_lock(&w->lock);
    while (w->n_orders == 0 && !atomic_load(&w->quit)) {
        if (w->focus_changed && w->session) {
            pthread_mutex_unlock(&w->lock);
            snapshot(w, w->session, 0);
            pthread_mutex_lock(&w->lock);
        } else {
            pthread_cond_wait(&w->wake, &w->lock);
        }
    }
    struct order_row row = {.order = ORDER_QUIT};
    if (w->n_orders > 0) {
        row = w->orders[0];
        memmove(w->orders, w->orders + 1, sizeof row * (size_t)--w->n_orders);
    }
    pthread_mutex_unlock(&w->lock);
    return row;
}

static int open_all(struct worker *w, struct err *e)
{
    struct str path = {0};
    bool saved = !w->options.private_mode;
    int rc = saved ? path_database(&w->options, &path, e) : 0;
    if (!rc) rc = secret_open_library(&w->library, &w->options, saved ? path.data : NULL, e);
    str_release(&path);
    if (!rc) rc = engine_open(&w->engine, &w->options, w->library, on_load, w, e);
    if (!rc) report(w, NEWS_LOADED, 0, 0, "", 0);
    if (!rc) rc = open_session(w, &w->options, e);
    return rc;
}

static void *run(void *ctx)
{
    struct worker *w = ctx;
    struct err e = {0};
    if (open_all(w, &e)) report_text(w, NEWS_FATAL, e.code, e.text);
    for (bool more = w->session != NULL; more;) {
        struct order_row row = next_order(w);
        if (atomic_load(&w->quit)) row.order = ORDER_QUIT;
        take_settings(w);
        switch (row.order) {
        case ORDER_OPEN: switch_session(w, str_get(&row.text)); break;
        case ORDER_SAY:
        case ORDER_CONTINUE:
        case ORDER_REGENERATE: run_turn(w, &row); break;
        case ORDER_AMEND: amend(w, &row.text); break;
        case ORDER_REWIND: rewind_to(w, atoll(str_get(&row.text))); break;
        case ORDER_BRANCH: make_branch(w, str_get(&row.text)); break;
        case ORDER_COST: report_cost(w, &row.text); break;
        case ORDER_RENAME: rename_open(w, str_get(&row.text)); break;
        case ORDER_QUIT: more = false; break;
        }
        str_release(&row.text);
        more = more && w->session != NULL;
    }
    session_close(w->session);
    engine_close(w->engine);
    conversations_close(w->library);
    retention_free(w->map);
    report(w, NEWS_GONE, 0, 0, "", 0);
    return NULL;
}

/* ---- the screen's side ---------------------------------------------------------------------- */

int worker_open(struct worker **out, const struct options *o, struct err *e)
{
    sigset_t all, before;
    *out = NULL;
    struct worker *w = calloc(1, sizeof *w);
    if (!w) return err_set(e, ERR_FAIL, "out of memory");
    w->options = *o;
    w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    /* signals are the screen's: this thread and those it makes (drivers' too) get none */
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

void worker_focus(struct worker *w, const struct focus *focus)
{
    pthread_mutex_lock(&w->lock);
    w->focus_changed = w->focus.position != focus->position || w->focus.from != focus->from ||
                       w->focus.n != focus->n || w->focus_changed;
    w->focus = *focus;
    if (w->focus_changed) pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

void worker_sight(struct worker *w, struct sight *out)
{
    pthread_mutex_lock(&w->lock);
    if (w->sight_fresh) {
        float *scores = out->scores;
        if (out->n_heads != w->sight.n_heads || !scores) {
            free(scores);
            scores = malloc(sizeof *scores * (size_t)w->sight.n_heads);
            if (!scores) abort();
        }
        memcpy(scores, w->sight.scores, sizeof *scores * (size_t)w->sight.n_heads);
        *out = w->sight;
        out->scores = scores;
    }
    w->sight_fresh = false;
    pthread_mutex_unlock(&w->lock);
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
    for (int i = 0; i < w->n_orders; i++) str_release(&w->orders[i].text);
    news_box_release(&w->box);
    free(w->sight.scores);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    close(w->fd);
    free(w);
}

int worker_fd(const struct worker *w)
{
    return w->fd;
}

void worker_order(struct worker *w, enum order order, const char *text, size_t n)
{
    pthread_mutex_lock(&w->lock);
    if (w->n_orders < ORDERS_MAX) {
        struct order_row *row = &w->orders[w->n_orders++];
        *row = (struct order_row){.order = order};
        str_append(&row->text, text, n);
        atomic_store(&w->stop, false);
    }
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
