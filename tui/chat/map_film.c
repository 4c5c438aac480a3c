#include "tui/chat/map_film.h"

#include <string.h>

#include "base/memory.h"
#include "base/utf8_width.h"
#include "cli/control/cli_session.h"
#include "cli/control/secret.h"
#include "cli/options/options.h"
#include "tui/chat/app.h"
#include "tui/term/record.h"

enum { FIRST_MS = 500, LAST_MS = 3000 };

struct film {
    struct cli_session t;
    struct app app;
    struct grid grid;
    struct record *record;
    int w, h;
};

static void add_row(void *ctx, const struct retention *r)
{
    waterfall_add(ctx, r);
}

/* The tokens that the view shows, as the worker gives them to the screen. */
static void see(struct film *f)
{
    struct sight *g = &f->app.sight;
    const struct retention *map = f->app.map;
    g->focus = app_focus(&f->app);
    g->n_heads = map->n_layer * map->n_head;
    if (!g->scores) g->scores = memory_new((size_t)g->n_heads, sizeof *g->scores);
    session_scores(f->t.session, g->focus.position, g->scores);
    session_kept(f->t.session, g->focus.from, g->focus.n, g->kept);
}

static void draw(struct film *f)
{
    app_draw(&f->app, &f->grid, f->w, f->h);
    see(f);
    app_draw(&f->app, &f->grid, f->w, f->h);
    record_frame_at(f->record, &f->grid, f->app.now_ms);
}

/* Until the present is reached. */
static void play(struct film *f)
{
    draw(f);
    f->app.now_ms += FIRST_MS;
    app_request(&f->app, REQ_PLAY);
    for (int ms; (ms = app_timeout(&f->app)) > 0 && f->app.mapped.play_ms; f->app.now_ms += ms)
        draw(f);
    draw(f);
    f->app.now_ms += LAST_MS;
}

static int open(struct film *f, const struct options *o, const char *name, struct err *e)
{
    struct session_stats stats;
    int rc = cli_session_load(&f->t, o, true, cli_session_progress, NULL, e);
    if (!rc) rc = app_load(&f->app, f->t.library, name, e);
    if (!rc) rc = session_open(&f->t.session, f->t.engine, f->t.library, &o->session, NULL, e);
    if (rc) return rc;
    struct retention *map = retention_new(f->t.session);
    if (!map) return err_set(e, ERR_FAIL, "out of memory for the map");
    session_retention(f->t.session, map);
    session_stats(f->t.session, &stats);
    if (map->n_pos == 0)
        rc = err_set(e, ERR_FAIL, "conversation '%s' has no map: %s", name,
                     session_notice(f->t.session));
    if (!rc) rc = session_past(f->t.session, add_row, &f->app.past, e);
    f->app.now_ms = 1;
    app_snapshot(&f->app, &stats, map);
    return rc;
}

int map_film(const struct options *o, const char *name, int w, int h, struct record *r,
             struct err *e)
{
    static struct film f; /* large; one runs */
    struct options mine = *o;
    struct keymap keys;
    mine.session.conversation = name;
    mine.session.read_only = true;
    mine.session.recall.chooser = RECALL_OFF;
    int rc = keymap_open(&keys, o->chat.keys, e);
    if (rc) return rc;
    f = (struct film){.record = r, .w = w, .h = h};
    app_init(&f.app, &mine, keys, o->chat.ascii || !utf8_locale(), NULL);
    f.app.halves = f.app.fine = !f.app.ascii;
    rc = secret_prepare(&mine, e);
    if (!rc) rc = open(&f, &mine, name, e);
    if (!rc) {
        app_show(&f.app, VIEW_MAP);
        play(&f);
        app_request(&f.app, REQ_HISTORY);
        play(&f);
        draw(&f);
    }
    struct retention *map = (struct retention *)f.app.map;
    app_release(&f.app);
    retention_free(map);
    grid_release(&f.grid);
    cli_session_close(&f.t);
    secret_wipe(&mine);
    return rc;
}
