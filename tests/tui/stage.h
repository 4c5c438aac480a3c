/* stage: an app driven by a session on one thread, so that every picture is the same on every run.
 * The session's callbacks report what the worker's thread would report. */
#ifndef RETAIN_TESTS_TUI_STAGE_H
#define RETAIN_TESTS_TUI_STAGE_H

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/utf8_width.h"
#include "cli/options.h"
#include "tui/chat/app.h"
#include "tui/chat/list_actions.h"

struct stage {
    struct options o;
    struct app app;
    struct grid grid;
    struct conversations *library;
    struct engine *engine;
    struct session *session;
    struct retention *map;
    bool answering, quit;
    struct str copied; /* to the clipboard */
    char asked[256];   /* the last act's text */
    int64_t n_read;
    int stop_after; /* pieces of text; 0 = never */
    int n_pieces;
    void (*on_evicted)(void); /* after each eviction; may be NULL */
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
    s->o.private_mode = library == NULL;
    struct err e;
    if (conversations_open(&s->library, library, &e)) abort();
    app_init(&s->app, &s->o, ascii, NULL);
    s->app.now_ms = 100000;
    s->app.wall_ms = INT64_C(1767362533000);
}

static inline void stage_close_session(struct stage *s)
{
    session_close(s->session);
    retention_free(s->map);
    s->session = NULL;
    s->map = NULL;
    s->app.map = NULL;
}

static inline void stage_release(struct stage *s)
{
    stage_close_session(s);
    engine_close(s->engine);
    conversations_close(s->library);
    grid_release(&s->grid);
    str_release(&s->copied);
    app_release(&s->app);
}

static inline void stage_news(struct stage *s, enum news_kind kind, int64_t a, int64_t b,
                              const char *text)
{
    struct news n = {.kind = kind, .a = a, .b = b, .n_text = strlen(text)};
    app_news(&s->app, &n, text);
}

static inline void stage_snapshot(struct stage *s)
{
    struct session_stats st;
    session_stats(s->session, &st);
    session_retention(s->session, s->map);
    app_snapshot(&s->app, &st, s->map);
}

static inline void stage_progress(void *ctx, int64_t done, int64_t total)
{
    struct stage *s = ctx;
    s->n_read = total;
    stage_news(s, NEWS_READING, done, total, "");
}

static inline void stage_text(void *ctx, const char *utf8, size_t n)
{
    struct stage *s = ctx;
    struct news piece = {.kind = NEWS_TEXT, .n_text = n};
    struct session_stats st;
    session_stats(s->session, &st);
    if (!s->answering) stage_news(s, NEWS_ANSWER, st.n_tokens, s->n_read, "");
    s->answering = true;
    s->n_pieces++;
    app_news(&s->app, &piece, utf8);
}

static inline void stage_tokens(void *ctx, int64_t position, int n, const uint16_t *n_bytes)
{
    struct news tokens = {
        .kind = NEWS_TOKENS, .a = position, .b = n, .n_text = sizeof *n_bytes * (size_t)n};
    app_news(&((struct stage *)ctx)->app, &tokens, (const char *)n_bytes);
}

static inline void stage_evicted(void *ctx, int64_t n, int64_t n_tokens)
{
    struct stage *s = ctx;
    stage_news(s, NEWS_EVICTED, n, n_tokens, "");
    if (s->session) stage_snapshot(s);
    if (s->session && s->on_evicted) s->on_evicted();
}

static inline bool stage_stop(void *ctx)
{
    struct stage *s = ctx;
    return (s->stop_after && s->n_pieces >= s->stop_after) ||
           (s->freeze_after && s->n_pieces >= s->freeze_after);
}

static inline struct session_sink stage_sink(struct stage *s)
{
    return (struct session_sink){.ctx = s,
                                 .progress = stage_progress,
                                 .text = stage_text,
                                 .tokens = stage_tokens,
                                 .evicted = stage_evicted,
                                 .stop = stage_stop};
}

/* The model is loaded and a conversation opened: `name`, or a new one for NULL. */
static inline void stage_open(struct stage *s, const char *name)
{
    struct err e = {0};
    struct session_sink sink = stage_sink(s);
    if (!s->engine && engine_open(&s->engine, &s->o, s->library, NULL, NULL, &e)) abort();
    stage_news(s, NEWS_LOADED, 0, 0, "");
    stage_close_session(s);
    s->o.conversation = name && name[0] ? name : NULL;
    if (app_load(&s->app, s->library, name ? name : "", &e)) abort();
    if (session_open(&s->session, s->engine, s->library, &s->o, &sink, &e)) abort();
    s->map = retention_new(s->session);
    stage_snapshot(s);
    stage_news(s, NEWS_OPENED, session_can_continue(s->session), 0, session_name(s->session));
    if (session_notice(s->session)[0]) stage_news(s, NEWS_NOTICE, 0, 0, session_notice(s->session));
}

static inline void stage_turn(struct stage *s, enum slash how, const char *text, size_t n)
{
    struct err e = {0};
    struct session_sink sink = stage_sink(s);
    enum session_end end = SESSION_TURN_END;
    struct session_stats st;
    session_stats(s->session, &st);
    if (how != SLASH_REGENERATE) stage_news(s, NEWS_BEGIN, st.n_tokens, 0, "");
    s->answering = false;
    s->n_read = s->n_pieces = 0;
    int rc = how == SLASH_CONTINUE     ? session_continue(s->session, &sink, &end, &e)
             : how == SLASH_REGENERATE ? session_regenerate(s->session, &sink, &end, &e)
                                       : session_say(s->session, text, n, &sink, &end, &e);
    stage_snapshot(s);
    if (s->freeze_after) return;
    session_stats(s->session, &st);
    if (rc)
        stage_news(s, NEWS_FAILED, e.code, 0, e.text);
    else
        stage_news(s, NEWS_END, end, st.n_tokens,
                   session_can_continue(s->session) ? "partial" : "");
}

static inline void stage_list(struct stage *s)
{
    list_fill(&s->app, s->library);
}

static inline void stage_branch(struct stage *s, const char *text)
{
    struct err e = {0};
    char *name, made[128];
    int64_t turn = strtoll(text, &name, 10);
    if (session_branch(s->session, turn, name + strspn(name, " "), made, &e))
        stage_news(s, NEWS_FAILED, e.code, 0, e.text);
    else
        stage_news(s, NEWS_BRANCHED, turn, 0, made);
}

static inline void stage_amend(struct stage *s, const struct str *text)
{
    struct err e = {0};
    struct session_stats st;
    struct session_sink sink = stage_sink(s);
    int rc = session_amend(s->session, str_get(text), text->n, &sink, &e);
    session_stats(s->session, &st);
    stage_snapshot(s);
    if (rc)
        stage_news(s, NEWS_FAILED, e.code, 0, e.text);
    else
        stage_news(s, NEWS_END, SESSION_TURN_END, st.n_tokens, "partial");
}

static inline void stage_rewind(struct stage *s, int64_t turn)
{
    struct err e = {0};
    struct session_stats st;
    if (session_rewind(s->session, turn, NULL, &e)) {
        stage_news(s, NEWS_FAILED, e.code, 0, e.text);
        return;
    }
    session_stats(s->session, &st);
    stage_news(s, NEWS_CUT, turn, 0, "");
    stage_snapshot(s);
    stage_news(s, NEWS_END, SESSION_TURN_END, st.n_tokens, "");
}

static inline void stage_act(struct stage *s, const struct act_row *row)
{
    const struct str *text = &row->text;
    struct err e = {0};
    snprintf(s->asked, sizeof s->asked, "%s", str_get(text));
    if (list_act(&s->app, s->library, row)) return;
    switch (row->act) {
    case ACT_SAY: stage_turn(s, SLASH_SAY, str_get(text), text->n); break;
    case ACT_CONTINUE: stage_turn(s, SLASH_CONTINUE, "", 0); break;
    case ACT_REGENERATE: stage_turn(s, SLASH_REGENERATE, "", 0); break;
    case ACT_OPEN: stage_open(s, str_get(text)); break;
    case ACT_AMEND: stage_amend(s, text); break;
    case ACT_REWIND: stage_rewind(s, atoll(str_get(text))); break;
    case ACT_BRANCH: stage_branch(s, str_get(text)); break;
    case ACT_COST:
        stage_news(s, NEWS_COST, 0,
                   text->n ? session_rewind_cost(s->session, atoll(str_get(text)))
                           : session_regenerate_cost(s->session),
                   "");
        break;
    case ACT_SET:
        if (s->session) session_set(s->session, &s->app.options);
        break;
    case ACT_RENAME_OPEN:
        if (conversations_rename(s->library, session_name(s->session), str_get(text), &e))
            stage_news(s, NEWS_FAILED, e.code, 0, e.text);
        else
            stage_news(s, NEWS_RENAMED, 0, 0, str_get(text));
        stage_list(s);
        break;
    case ACT_COPY:
        str_clear(&s->copied);
        str_append(&s->copied, str_get(text), text->n);
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
        str_release(&row.text);
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

/* Answers the view's question as the worker would. */
static inline void stage_see(struct stage *s)
{
    struct sight *g = &s->app.sight;
    g->focus = app_focus(&s->app);
    if (!s->session || g->focus.position < 0) return;
    g->n_heads = s->app.stats.n_layer * s->app.stats.n_kv_head;
    g->scores = realloc(g->scores, sizeof *g->scores * (size_t)g->n_heads);
    session_scores(s->session, g->focus.position, g->scores);
    session_kept(s->session, g->focus.from, g->focus.n, g->kept);
}

static inline const char *stage_draw(struct stage *s, int w, int h, struct str *out)
{
    str_clear(out);
    app_draw(&s->app, &s->grid, w, h);
    stage_see(s);
    app_draw(&s->app, &s->grid, w, h);
    grid_dump(&s->grid, out);
    return str_get(out);
}

#endif
