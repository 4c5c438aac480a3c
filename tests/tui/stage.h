/* stage: an app driven by a control on one thread, so that every run has the same pictures. */
#ifndef RETAIN_TESTS_TUI_STAGE_H
#define RETAIN_TESTS_TUI_STAGE_H

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/utf8_width.h"
#include "cli/options/options.h"
#include "tests/tui/grid_dump.h"
#include "tui/chat/app.h"

struct stage {
    struct options o;
    struct app app;
    struct grid grid;
    struct control control;
    struct retention *map;
    bool quit;
    struct str copied; /* to the clipboard */
    struct str drawn;  /* the last picture */
    char asked[256];   /* the last request: name, newline, text */
    int stop_after;    /* pieces of text; 0 = never */
    int n_pieces;
    void (*on_evicted)(void); /* after each eviction; may be NULL */
    bool steady;              /* figures of time and memory are the same on every machine */
    /* leaves the turn unfinished at this point, as drawn then; 0 = never */
    int freeze_after;
};

/* An app at 2026-01-02 14:02:13 UTC whose model is still loading. library: a file of conversations,
 * NULL = private. */
static inline void stage_begin(struct stage *s, bool ascii, const char *library)
{
    memset(s, 0, sizeof *s);
    setlocale(LC_ALL, "C.UTF-8");
    setenv("TZ", "UTC", 1);
    tzset();
    options_init(&s->o);
    s->o.engine.model = "some.gguf"; /* not the demo, which has its own empty screen */
    s->o.session.private_mode = library == NULL;
    struct err e;
    if (conversations_open(&s->control.parts.library, library, NULL, &e)) abort();
    app_init(&s->app, &s->o, ascii, NULL);
    s->app.now_ms = 100000;
    s->app.wall_ms = INT64_C(1767362533000);
}

static inline void stage_release(struct stage *s)
{
    control_close(&s->control);
    retention_free(s->map);
    grid_release(&s->grid);
    str_release(&s->copied);
    str_release(&s->drawn);
    app_release(&s->app);
}

/* Released at the end of its block. */
#define AUTO_STAGE __attribute__((cleanup(stage_release))) struct stage

static inline void stage_steady(struct session_stats *st)
{
    st->weights_bytes = INT64_C(2373000000);
    st->bytes_per_token = 2373000000;
    st->cache_bytes = INT64_C(171800000);
    st->scratch_bytes = INT64_C(461700000);
    st->process_bytes = INT64_C(3100000000);
    st->process_peak_bytes = INT64_C(3150000000);
    st->machine_bytes = INT64_C(25769803776);
    if (st->decode_tok_s > 0) st->decode_tok_s = 312.4;
    if (st->prefill_tok_s > 0) st->prefill_tok_s = 5310;
    if (st->first_token_ms > 0) st->first_token_ms = 31;
    snprintf(st->device, sizeof st->device, "cpu");
}

static inline void stage_snapshot(struct stage *s)
{
    struct session_stats st;
    const struct session *session = s->control.parts.session;
    if (!session) return;
    session_stats(session, &st);
    if (s->steady) stage_steady(&st);
    session_retention(session, s->map);
    app_snapshot(&s->app, &st, s->map);
    s->app.fade.before.n = 0; /* pictures are taken after the fading */
}

static inline void stage_load(struct stage *s, const char *name, size_t n)
{
    char copied[STORE_NAME_MAX];
    struct err e = {0};
    snprintf(copied, sizeof copied, "%.*s", (int)n, name);
    if (app_load(&s->app, s->control.parts.library, copied, &e)) abort();
}

static inline void stage_add_past(void *ctx, const struct retention *r)
{
    waterfall_add(ctx, r);
}

/* What the worker and ui.c do with an event. */
static inline void stage_event(void *ctx, const struct event *ev)
{
    struct stage *s = ctx;
    bool settles = ev->kind == EVENT_OPENED || ev->kind == EVENT_END || ev->kind == EVENT_FAILED ||
                   ev->kind == EVENT_NOTE;
    if (ev->kind == EVENT_OPENED) {
        retention_free(s->map);
        s->map = retention_new(s->control.parts.session);
        struct waterfall past = {0};
        struct err e = {0};
        if (session_past(s->control.parts.session, stage_add_past, &past, &e)) abort();
        app_past(&s->app, &past);
    }
    if (settles) stage_snapshot(s);
    if (s->freeze_after && ev->kind == EVENT_END) return;
    app_take(&s->app, ev);
    app_tell_changed(&s->app);
    if (ev->kind == EVENT_OPENING) stage_load(s, ev->text, ev->n_text);
    if (ev->kind == EVENT_TEXT) s->n_pieces++;
    if (ev->kind == EVENT_RENAMED) list_fill(&s->app, s->control.parts.library);
    if (ev->kind != EVENT_EVICTED) return;
    stage_snapshot(s);
    if (s->control.parts.session && s->on_evicted) s->on_evicted();
}

static inline bool stage_stop(void *ctx)
{
    struct stage *s = ctx;
    return (s->stop_after && s->n_pieces >= s->stop_after) ||
           (s->freeze_after && s->n_pieces >= s->freeze_after);
}

static inline void stage_ask(struct stage *s, const struct request *r)
{
    struct events events = {s, stage_event, stage_stop};
    s->n_pieces = 0;
    control_run(&s->control, r, &events);
}

/* The model is loaded and a conversation opened: `name`, or a new one for NULL. */
static inline void stage_open(struct stage *s, const char *name)
{
    struct err e = {0};
    struct control *c = &s->control;
    struct events events = {s, stage_event, stage_stop};
    if (c->parts.session) abort();
    struct engine_opts demo = s->o.engine;
    demo.model = NULL;
    if (engine_open(&c->parts.engine, &demo, &s->o.session.plan, 1, NULL, NULL, &e)) abort();
    c->options = s->o;
    c->options.session.conversation = name;
    stage_load(s, name ? name : "", name ? strlen(name) : 0);
    if (control_begin(c, &events, &e)) abort();
}

static inline void stage_list(struct stage *s)
{
    list_fill(&s->app, s->control.parts.library);
}

static inline void stage_branch(struct stage *s, int64_t turn, const char *name)
{
    struct request r = {.command = SLASH_BRANCH, .turn = turn};
    str_puts(&r.text, name);
    stage_ask(s, &r);
    request_release(&r);
}

/* Events that no session makes. */
static inline void stage_progress(struct stage *s, enum event_kind kind, int64_t done,
                                  int64_t total)
{
    struct event ev = {.kind = kind, .progress = {done, total}};
    app_take(&s->app, &ev);
}

static inline void stage_text(struct stage *s, enum event_kind kind, const char *text)
{
    struct event ev = {.kind = kind, .text = text, .n_text = strlen(text)};
    app_take(&s->app, &ev);
}

static inline void stage_end(struct stage *s, enum session_end how)
{
    struct event ev = {.kind = EVENT_END, .end = {how, 20, true}};
    app_take(&s->app, &ev);
}

static inline void stage_act(struct stage *s, const struct act_row *row)
{
    const struct request *r = &row->request;
    if (row->act == ACT_RUN)
        snprintf(s->asked, sizeof s->asked, "%.120s\n%.120s", r->name, str_get(&r->text));
    if (list_act(&s->app, s->control.parts.library, row)) return;
    switch (row->act) {
    case ACT_RUN: stage_ask(s, r); break;
    case ACT_SET: control_set(&s->control, s->app.o); break;
    case ACT_MODELS: model_list_read(&s->app.models, s->app.o, NULL, &(struct err){0}); break;
    case ACT_COPY:
        str_clear(&s->copied);
        str_append(&s->copied, str_get(&row->text), row->text.n);
        break;
    case ACT_QUIT: s->quit = true; break;
    default: break;
    }
}

/* Carries out the app's requests until there are none. */
static inline void stage_run(struct stage *s)
{
    while (s->app.n_acts > 0) {
        struct act_row row = s->app.acts[0];
        memmove(s->app.acts, s->app.acts + 1, sizeof row * (size_t)--s->app.n_acts);
        stage_act(s, &row);
        act_release(&row);
    }
}

static inline void stage_key(struct stage *s, uint32_t key)
{
    struct key_event ev = {.key = key};
    app_key(&s->app, &ev);
    stage_run(s);
}

static inline void stage_type(struct stage *s, const char *text)
{
    uint32_t cp;
    for (size_t n = strlen(text); n > 0;) {
        int length = utf8_next(text, n, &cp);
        if (length <= 0) abort();
        stage_key(s, cp);
        text += length;
        n -= (size_t)length;
    }
}

static inline const char *stage_draw(struct stage *s, int w, int h)
{
    str_clear(&s->drawn);
    app_draw(&s->app, &s->grid, w, h);
    grid_dump(&s->grid, &s->drawn);
    return str_get(&s->drawn);
}

/* The screen has this text, has it not; the last picture, which is not drawn again. */
#define shows(s, text)     assert_non_null(strstr(stage_draw(s, 80, 24), text))
#define hides(s, text)     assert_null(strstr(stage_draw(s, 80, 24), text))
#define shows_too(s, text) assert_non_null(strstr(str_get(&(s)->drawn), text))
#define hides_too(s, text) assert_null(strstr(str_get(&(s)->drawn), text))

#endif
