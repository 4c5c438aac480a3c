#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/system.h"
#include "base/utf8_width.h"
#include "cli/control/model_list.h"
#include "cli/control/secret.h"
#include "cli/options/options.h"
#include "cli/options/paths.h"
#include "cli/print/report.h"
#include "tui/chat/ui_parts.h"
#include "tui/term/record.h"
#include "tui/term/term.h"

enum {
    FRAME_MS = 33, /* 30 frames a second: at reading speed each token has its own */
    SLOW_FRAME_MS =
        200,          /* when the answer's text is not visible, only snapshots change the picture */
    KEY_FRAME_MS = 8, /* but a key's echo waits no longer than this */
    LINK_MS = 20,     /* interval of checking whether a slow terminal has caught up */
    ESCAPE_MS = 25,   /* ESC alone is a key when nothing follows within this time */
    TYPED_MS = 5,     /* typed keys are further apart than this */
    PASTE_MS = 10000, /* a paste without an end */
    DRAFT_MS = 500,   /* a draft is on the disk after this */
};

static void set_clock(struct ui *u)
{
    u->app.now_ms = system_clock_ns() / 1000000;
    u->app.wall_ms = system_unix_ms();
}

/* ---- library -------------------------------------------------------------------------------- */

static void load_transcript(struct ui *u, const char *name)
{
    struct err e = {0};
    if (u->library && app_load(&u->app, u->library, name, &e)) app_event(&u->app, "%s", e.text);
}

/* Opens the saved conversations, to show them before the model is loaded; the worker will report
 * any failure. */
static void open_library(struct ui *u)
{
    struct str path = {0};
    struct err e = {0};
    if (!u->o->session.private_mode && path_database(u->o, &path, &e) == 0)
        secret_open_library(&u->library, u->o, path.data, &e);
    str_release(&path);
    list_fill(&u->app, u->library);
    const struct list_state *l = &u->app.list;
    if (u->o->session.new_conversation || !u->library) return;
    const char *name = u->o->session.conversation;
    if (!name && u->o->session.continue_latest && l->n > 0) name = l->rows[0].name;
    for (int i = 0; name && i < l->n; i++) /* -c with a new name begins a conversation */
        if (strcmp(l->rows[i].name, name) == 0) load_transcript(u, name);
}

/* ---- events --------------------------------------------------------------------------------- */

static void take_event(struct ui *u, const struct event *ev)
{
    char name[STORE_NAME_MAX];
    app_take(&u->app, ev);
    switch (ev->kind) {
    case EVENT_OPENING:
        snprintf(name, sizeof name, "%.*s", (int)ev->n_text, ev->text);
        if (strcmp(name, u->app.name) != 0) ui_close_draft(u);
        load_transcript(u, name);
        break;
    case EVENT_OPENED:
    case EVENT_END:
    case EVENT_BRANCHED:
    case EVENT_RENAMED:
        list_fill(&u->app, u->library);
        if (ev->kind == EVENT_OPENED) ui_open_draft(u);
        break;
    case EVENT_FATAL:
        if (u->app.leaving) break;
        err_set(&u->error, ev->code, "%.*s", (int)ev->n_text, ev->text);
        ui_leave(u, err_exit_status(ev->code));
        break;
    case EVENT_CLOSED: u->gone = true; break;
    default: break;
    }
}

static void take_events(struct ui *u)
{
    worker_take(u->worker, &u->box);
    for (int i = 0; i < u->box.events.n; i++) {
        struct event ev = event_box_at(&u->box.events, i);
        take_event(u, &ev);
    }
    if (u->box.past) app_past(&u->app, u->box.past);
    if (u->box.fresh) app_snapshot(&u->app, &u->box.stats, u->box.map);
    app_tell_changed(&u->app);
    event_box_clear(&u->box.events);
    u->box.fresh = false;
    u->dirty = u->draft_dirty = true; /* a queued message may have been sent */
}

/* For a terminal that does not mark pastes: an Enter directly followed by bytes ends a pasted line,
 * because users do not type that fast. */
static bool is_pasted(struct ui *u, const struct key_event *ev)
{
    struct pollfd fd = {.fd = term_in(), .events = POLLIN};
    if (ev->key != '\r' || u->screen.polite) return false;
    return input_waiting(&u->screen.input) || poll(&fd, 1, TYPED_MS) > 0;
}

static void take_keys(struct ui *u, bool late)
{
    struct key_event ev;
    u->draft_dirty = true;
    while (input_next(&u->screen.input, late, &ev)) {
        if (desktop_key(&u->desktop, &ev)) continue;
        if (screen_reply(&u->screen, &ev)) {
            u->dirty = u->dirty || u->screen.repaint;
            continue; /* otherwise a frame would ask, and the answer would cause a frame */
        }
        u->dirty = u->key_dirty = true;
        if (u->script.steps) app_flash(&u->app, "the chat is yours");
        script_stop(&u->script);
        if (is_pasted(u, &ev)) ev.key = '\n';
        app_key(&u->app, &ev);
        ui_act_all(u);
    }
}

/* The keys that type themselves. */
static void play(struct ui *u)
{
    int at = u->script.at;
    size_t typed = u->script.typed;
    enum script_state state = script_run(&u->script, &u->app);
    if (state == SCRIPT_KILLS) raise(SIGKILL);
    if (state == SCRIPT_OVER || (at == u->script.at && typed == u->script.typed)) return;
    u->dirty = u->key_dirty = true;
    ui_act_all(u);
}

static void take_signals(struct ui *u)
{
    struct signalfd_siginfo info;
    while (read(term_signal_fd(), &info, sizeof info) == sizeof info) {
        int sig = (int)info.ssi_signo;
        u->dirty = u->key_dirty = true;
        if (sig == SIGWINCH)
            screen_fit(&u->screen);
        else if (sig == SIGTSTP)
            ui_suspend(u);
        else if (sig == SIGINT)
            app_interrupt(&u->app);
        else
            ui_leave(u, 128 + sig);
    }
    ui_act_all(u);
}

static void update_desktop(struct ui *u)
{
    struct str bytes = {0};
    desktop_update(&u->desktop, &u->app, &bytes);
    if (bytes.n) term_write(bytes.data, bytes.n);
    str_release(&bytes);
}

static void frame(struct ui *u)
{
    u->app.halves = !u->app.ascii && u->screen.look.colors >= 256;
    u->app.fine = u->app.halves && u->screen.look.colors == COLOR_TRUE;
    if (!u->hung_up) {
        app_draw(&u->app, &u->grid, u->screen.w, u->screen.h);
        screen_paint(&u->screen, &u->grid);
        update_desktop(u);
        /* each snapshot stretches the map, and renews its numbers */
        worker_calm(u->worker, u->app.view == VIEW_MAP);
    }
    u->frame_ms = u->app.now_ms;
    u->dirty = u->key_dirty = false;
}

/* Milliseconds between frames. */
static int frame_gap(const struct ui *u)
{
    if (u->key_dirty) return KEY_FRAME_MS;
    return u->app.view == VIEW_CHAT ? FRAME_MS : SLOW_FRAME_MS;
}

/* Events wait for the next frame: thousands of tokens a second wake it 20 times. */
static int64_t event_wait(const struct ui *u)
{
    return frame_gap(u) - (u->app.now_ms - u->frame_ms);
}

/* ms < 0: no limit yet. */
static int64_t sooner(int64_t ms, int64_t wait)
{
    wait = wait < 0 ? 0 : wait;
    return ms < 0 || wait < ms ? wait : ms;
}

/* Maximum milliseconds to sleep; -1 = until something happens. */
static int patience(const struct ui *u)
{
    int64_t ms = app_timeout(&u->app);
    int64_t wait = event_wait(u);
    if (!u->dirty && wait > 0) ms = sooner(ms, wait);
    if (u->dirty) {
        bool ready = screen_ready(&u->screen, u->app.now_ms, u->key_dirty);
        if (!ready && wait < LINK_MS) wait = LINK_MS;
        ms = sooner(ms, wait);
    }
    if (u->draft_dirty) ms = sooner(ms, DRAFT_MS - (u->app.now_ms - u->draft_ms));
    int script_ms = script_wait(&u->script, &u->app);
    if (script_ms >= 0) ms = sooner(ms, script_ms);
    if (input_waiting(&u->screen.input)) {
        int limit = u->screen.input.in_paste ? PASTE_MS : ESCAPE_MS;
        ms = sooner(ms, limit - (u->app.now_ms - u->input_ms));
    }
    return (int)ms;
}

/* Of the GPU in use. */
static void read_sensors(struct ui *u)
{
    sensors_choose(u->sensors, u->app.stats.gpu_bus);
    sensors_read(u->sensors, &u->app.sensors);
}

static void wait_for_events(struct ui *u)
{
    struct pollfd fds[] = {
        {.fd = u->dirty || event_wait(u) > 0 ? -1 : worker_fd(u->worker), .events = POLLIN},
        {.fd = term_signal_fd(), .events = POLLIN},
        {.fd = u->hung_up ? -1 : term_in(), .events = POLLIN},
        {.fd = u->dirty ? -1 : sensors_fd(u->sensors), .events = POLLIN},
    };
    int timed = app_timeout(&u->app);
    int64_t timed_ms = u->app.now_ms;
    int n = poll(fds, 4, patience(u));
    set_clock(u);
    if (n < 0) return;
    if (timed >= 0 && u->app.now_ms >= timed_ms + timed) u->dirty = true;
    if (fds[1].revents) take_signals(u);
    if (fds[2].revents) {
        u->input_ms = u->app.now_ms;
        if (screen_read(&u->screen) < 0) {
            u->hung_up = true;
            ui_leave(u, 128 + SIGHUP);
        }
        take_keys(u, false);
    } else if (input_waiting(&u->screen.input)) {
        int64_t quiet = u->app.now_ms - u->input_ms;
        if (u->screen.input.in_paste && quiet >= PASTE_MS) input_end_paste(&u->screen.input);
        if (quiet >= ESCAPE_MS) take_keys(u, true);
    }
    if (fds[0].revents) {
        take_events(u);
        ui_act_all(u);
    }
    if (fds[3].revents) {
        read_sensors(u);
        u->dirty = true;
    }
}

static void loop(struct ui *u)
{
    while (!u->gone) {
        set_clock(u);
        play(u);
        int64_t since = u->app.now_ms - u->frame_ms;
        if (u->dirty && since >= frame_gap(u) &&
            screen_ready(&u->screen, u->app.now_ms, u->key_dirty)) {
            take_events(u);
            ui_act_all(u);
            read_sensors(u);
            frame(u);
        }
        if (u->draft_dirty && u->app.now_ms - u->draft_ms >= DRAFT_MS) ui_save_draft(u);
        wait_for_events(u);
    }
}

/* Prints output of drivers that the screen hid. */
static void print_log(const struct str *log)
{
    if (log->n) report_aside("%s%s", str_get(log), log->data[log->n - 1] == '\n' ? "" : "\n");
}

bool ui_run(const struct options *o, const struct script *script, int *status)
{
    struct ui u = {.o = o, .dirty = true, .script = *script};
    struct str path = {0};
    struct err e = {0};
    struct record *record = NULL;
    bool without = false; /* this terminal cannot show a screen */
    int rc = o->chat.record ? record_open(&record, o->chat.record, &e) : 0;
    if (!rc) {
        rc = screen_open(&u.screen, o, &e);
        without = rc && rc != ERR_USAGE;
    }
    if (rc) {
        record_close(record, NULL);
        if (without) report_note("%s; continuing without a screen", e.text);
        if (!without) *status = report_error(&e);
        return !without;
    }
    u.screen.record = record;
    record_look(record, &u.screen.look);
    desktop_init(&u.desktop, o, terminal_is_polite());
    term_add_modes(u.desktop.on, u.desktop.off);
    /* No history in clear text next to an encrypted conversation. */
    bool remember = !script->steps && !o->session.private_mode && !o->store.passphrase &&
                    path_make(PATH_STATE, "history", &path, &e) == 0;
    app_init(&u.app, o, o->chat.ascii || !utf8_locale(), remember ? path.data : NULL);
    set_clock(&u);
    if (u.app.mouse) term_mouse(true);
    u.sensors = sensors_open("", "libnvidia-ml.so.1");
    if (remember) str_append(&u.draft_folder, path.data, path.n - strlen("/history"));
    str_release(&path);
    open_library(&u);
    if (!o->engine.model && !script->steps) model_newest(o, &u.app.offered);
    ui_open_draft(&u);
    if (worker_open(&u.worker, o, &u.error) == 0)
        loop(&u);
    else
        u.status = 1;
    ui_show_log(&u);
    screen_close(&u.screen);
    desktop_release(&u.desktop);
    if (record_close(record, &e)) {
        report_note("%s", e.text);
        u.status = 1;
    }
    worker_close(u.worker);
    sensors_close(u.sensors);
    worker_box_release(&u.box);
    conversations_close(u.library);
    grid_release(&u.grid);
    ui_close_draft(&u);
    str_release(&u.draft_folder);
    print_log(&u.app.log);
    app_release(&u.app);
    *status = u.error.code ? report_error(&u.error) : u.status;
    return true;
}
