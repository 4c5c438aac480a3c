#include "tui/chat/app.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/control/external.h"
#include "cli/control/ramp.h"

enum { FLASH_MS = 4000, EVENTS_BYTES = 65536, FLASH_BYTES = 72 };

const struct view_ops *const view_table[VIEWS] = {
    [VIEW_CHAT] = &view_chat, [VIEW_MAP] = &view_map,   [VIEW_TINT] = &view_tint,
    [VIEW_LIST] = &view_list, [VIEW_HELP] = &view_help, [VIEW_LOG] = &view_log,
    [VIEW_DASH] = &view_dash, [VIEW_READ] = &view_read, [VIEW_PALETTE] = &view_palette,
};

void app_init(struct app *a, const struct options *o, bool ascii, const char *history_path)
{
    memset(a, 0, sizeof *a);
    settings_init(&a->settings, o);
    a->o = &a->settings.options;
    a->talk.raw = o->chat.no_markdown;
    a->ascii = a->talk.ascii = ascii;
    a->sensors = sensor_nothing();
    edit_init(&a->edit);
    edit_init(&a->list.filter);
    edit_init(&a->palette.filter);
    edit_init(&a->read.query);
    a->mouse = o->chat.mouse;
    edit_init(&a->list.field);
    history_init(&a->history, history_path);
}

void app_release(struct app *a)
{
    transcript_clear(&a->talk);
    edit_release(&a->edit);
    history_release(&a->history);
    for (int i = 0; i < a->n_queue; i++) str_release(&a->queue[i]);
    for (int i = 0; i < a->n_acts; i++) act_release(&a->acts[i]);
    free(a->list.rows);
    free(a->list.shown);
    free(a->list.hits);
    edit_release(&a->list.filter);
    edit_release(&a->list.field);
    palette_release(&a->palette);
    edit_release(&a->read.query);
    str_release(&a->model);
    str_release(&a->asked);
    str_release(&a->offered);
    model_list_release(&a->models);
    edit_release(&a->search.query);
    str_release(&a->search.draft);
    str_release(&a->completion.line);
    retention_free(a->mapped.frozen);
    str_release(&a->log);
    str_release(&a->events);
    waterfall_clear(&a->past);
    free(a->held.heads);
    free(a->fade.before.heads);
    memset(a, 0, sizeof *a);
}

/* ---- small things --------------------------------------------------------------------------- */

void act_release(struct act_row *row)
{
    request_release(&row->request);
    str_release(&row->text);
}

void app_act(struct app *a, enum act act, const char *text, size_t n)
{
    if (a->n_acts == ACTS_MAX) return;
    struct act_row *row = &a->acts[a->n_acts++];
    *row = (struct act_row){.act = act};
    str_append(&row->text, text, n);
}

void app_run(struct app *a, struct request *r)
{
    if (a->n_acts < ACTS_MAX)
        a->acts[a->n_acts++] = (struct act_row){.act = ACT_RUN, .request = *r};
    else
        request_release(r);
    *r = (struct request){0};
}

void app_run_on(struct app *a, enum slash command, const char *name, const char *text)
{
    struct request r = {.command = command};
    snprintf(r.name, sizeof r.name, "%s", name);
    str_puts(&r.text, text);
    app_run(a, &r);
}

void app_flash(struct app *a, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(a->flash, sizeof a->flash, fmt, args);
    va_end(args);
    if (strlen(a->flash) > FLASH_BYTES) app_note(a, a->flash, strlen(a->flash));
    a->flash_until_ms = a->now_ms + FLASH_MS;
}

void app_event(struct app *a, const char *fmt, ...)
{
    struct tm tm;
    time_t s = (time_t)(a->wall_ms / 1000);
    va_list args;
    localtime_r(&s, &tm);
    size_t n = strftime(a->event, sizeof a->event, "%H:%M:%S  ", &tm);
    va_start(args, fmt);
    vsnprintf(a->event + n, sizeof a->event - n, fmt, args);
    va_end(args);
    if (a->events.n > EVENTS_BYTES) { /* forget the older half */
        const char *half = strchr(a->events.data + EVENTS_BYTES / 2, '\n') + 1;
        a->events.n -= (size_t)(half - a->events.data);
        memmove(a->events.data, half, a->events.n + 1);
    }
    str_printf(&a->events, "%s\n", a->event);
}

void app_show(struct app *a, enum view view)
{
    if (view == VIEW_HELP && a->view != VIEW_HELP) a->help_of = a->view;
    a->view = view;
    if (view_table[view]->open) view_table[view]->open(a);
}

bool app_busy(const struct app *a)
{
    return a->phase == PHASE_READING || a->phase == PHASE_ANSWERING;
}

bool app_ready(struct app *a)
{
    if (a->phase == PHASE_READY) return true;
    app_flash(a, app_busy(a) ? "not while it answers; Ctrl-C stops it" : "not before it is loaded");
    return false;
}

void app_note(struct app *a, const char *text, size_t n)
{
    transcript_close(transcript_add(&a->talk, TRANSCRIPT_NOTE, text, n));
}

int64_t app_turn_of(const struct app *a, int index)
{
    int64_t turn = 0;
    for (int i = 0; i <= index && i < a->talk.n; i++) turn += a->talk.messages[i].role == CHAT_USER;
    return turn;
}

int64_t app_turns(const struct app *a)
{
    return app_turn_of(a, a->talk.n - 1);
}

struct message *app_turn(struct app *a, int64_t turn)
{
    for (int i = 0; i < a->talk.n; i++)
        if (a->talk.messages[i].role == CHAT_USER && --turn == 0) return &a->talk.messages[i];
    return NULL;
}

/* ---- sending -------------------------------------------------------------------------------- */

void app_wait(struct app *a, enum phase phase)
{
    a->phase = phase;
    a->done = a->total = 0;
    a->since_ms = a->now_ms;
    a->flash[0] = 0;
    a->can_continue = false;
    a->chat.held = false;
}

static void say(struct app *a, const char *text, size_t n)
{
    struct request r = {.command = SLASH_SAY};
    a->returned.n = 0;
    str_append(&r.text, text, n);
    transcript_close(transcript_add(&a->talk, CHAT_USER, text, n));
    app_run(a, &r);
    app_wait(a, PHASE_READING);
}

static void enqueue(struct app *a, const char *text, size_t n)
{
    struct str row = {0};
    str_append(&row, text, n);
    a->queue[a->n_queue++] = row;
}

void app_send_next(struct app *a)
{
    if (a->phase != PHASE_READY || a->n_queue == 0 || a->queue_held) return;
    struct str next = a->queue[0];
    memmove(a->queue, a->queue + 1, sizeof next * (size_t)--a->n_queue);
    say(a, next.data, next.n);
    str_release(&next);
}

bool app_post(struct app *a, const char *text, size_t n)
{
    if (a->n_queue == QUEUE_MAX)
        app_flash(a, "the queue is full; your text is kept here");
    else
        enqueue(a, text, n);
    return !a->flash[0];
}

/* The same, with the files that its words name. */
static bool post_message(struct app *a, const char *text, size_t n)
{
    struct str whole = {0};
    struct err e;
    bool sent = false;
    if (external_message(text, n, &whole, &e))
        app_flash(a, "%s", e.text);
    else
        sent = app_post(a, str_get(&whole), whole.n);
    str_release(&whole);
    return sent;
}

/* The line stays for correction: a space continues it, other text replaces it. */
static void refuse(struct app *a, const struct str *line)
{
    edit_set(&a->edit, line->data, line->n);
    a->refused = true;
}

/* The line leaves the editor first, because a command may put another text into it. */
static void run_line(struct app *a, enum slash command, const struct str *line,
                     const char *argument, size_t n)
{
    edit_set(&a->edit, "", 0);
    a->chat.held = false; /* its output comes at the end */
    if (command_run(a, command, argument, n))
        history_add(&a->history, line->data, line->n);
    else
        refuse(a, line);
}

void app_send(struct app *a)
{
    struct str text = {0};
    const char *rest;
    size_t n_rest;
    a->queue_held = false;
    a->flash[0] = 0; /* it is about the previous input */
    edit_full(&a->edit, &text);
    enum slash command = slash_parse(str_get(&text), text.n, &rest, &n_rest);
    if (strspn(str_get(&text), " \t\n") == text.n) {
        app_send_next(a);
    } else if (command == SLASH_UNKNOWN) {
        app_flash(a, "%s", slash_advice(text.data, text.n, (char[SLASH_ADVICE_MAX]){0}));
        refuse(a, &text);
    } else if (command != SLASH_SAY) {
        run_line(a, command, &text, rest, n_rest);
    } else if (post_message(a, rest, n_rest)) {
        history_add(&a->history, text.data, text.n);
        edit_set(&a->edit, "", 0);
        app_send_next(a);
    }
    str_release(&text);
}

void app_run_line(struct app *a, const char *line, size_t n)
{
    const char *rest;
    size_t n_rest;
    a->flash[0] = 0;
    enum slash command = slash_parse(line, n, &rest, &n_rest);
    a->chat.held = false;
    if (command != SLASH_UNKNOWN && command != SLASH_SAY) command_run(a, command, rest, n_rest);
}

void app_scroll_to(struct app *a, int message, size_t byte)
{
    struct chat_state *c = &a->chat;
    if (message < 0 || message >= a->talk.n) return;
    c->held = true;
    c->top_message = message;
    c->top_byte = byte;
    int index, line, above = c->page / 3;
    if (c->rows == 0 || a->talk.messages[message].n_lines == 0) return; /* not laid out yet */
    int row = transcript_row(&a->talk, message, byte) - above;
    transcript_at_row(&a->talk, row > 0 ? row : 0, &index, &line);
    c->top_message = index;
    c->top_byte = line > 0 ? a->talk.messages[index].lines[line].from : 0;
}

bool app_is_at(const struct app *a, enum place_kind place, const struct key_event *ev)
{
    const struct pane *p = &a->places[place];
    return ev->x >= p->x && ev->x < p->x + p->w && ev->y >= p->y && ev->y < p->y + p->h;
}

/* A click on the ribbon opens the map there. */
static void click(struct app *a, const struct key_event *ev)
{
    const struct pane *ribbon = &a->places[PLACE_RIBBON];
    if (app_is_at(a, PLACE_RIBBON, ev) && a->map && a->map->n_cols > 0) {
        int col, end;
        ramp_columns(a->map, ribbon->w, ev->x - ribbon->x, &col, &end);
        app_show(a, VIEW_MAP);
        a->mapped.position = ramp_position(a->map, col);
        return;
    }
    if (view_table[a->view]->key) view_table[a->view]->key(a, ev);
}

bool app_is_model(const struct app *a, const char *path)
{
    return str_same(a->o->engine.model, path);
}

const char *app_draft_owner(const struct app *a)
{
    const char *given = a->o->session.conversation;
    if (!a->name[0]) return given ? given : "";
    return app_turns(a) > 0 || (given && strcmp(a->name, given) == 0) ? a->name : "";
}

bool app_clear_draft(struct app *a)
{
    bool any = a->n_queue > 0 || a->edit.text.n > 0;
    for (int i = 0; i < a->n_queue; i++) str_release(&a->queue[i]);
    a->n_queue = 0;
    a->queue_held = false;
    edit_set(&a->edit, "", 0);
    return any;
}

uint64_t app_draft_version(const struct app *a)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a; a label represents its fold, which never changes */
    const char *s = str_get(&a->edit.text);
    for (size_t i = 0; i < a->edit.text.n; i++) h = (h ^ (unsigned char)s[i]) * 0x100000001b3u;
    for (int i = 0; i < a->n_queue; i++) h = (h ^ a->queue[i].n) * 0x100000001b3u;
    return (h ^ (uint64_t)a->n_queue << 32 ^ (uint64_t)a->edit.n_folds) * 0x100000001b3u;
}

void app_bring_back(struct app *a, const char *text, size_t n, bool queued)
{
    if (queued && a->n_queue < QUEUE_MAX) {
        enqueue(a, text, n);
        a->queue_held = true;
    } else if (a->edit.text.n == 0) {
        edit_set(&a->edit, text, n);
    } else {
        history_add(&a->history, text, n);
    }
    app_flash(a, a->queue_held ? "restored your unsent messages; Enter sends them"
                               : "restored your draft");
}

/* Queued messages are not sent after a stop: they return to the editor. */
void app_unqueue(struct app *a)
{
    struct str joined = {0};
    for (int i = 0; i < a->n_queue; i++) {
        str_append(&joined, str_get(&a->queue[i]), a->queue[i].n);
        str_puts(&joined, "\n");
        str_release(&a->queue[i]);
    }
    a->n_queue = 0;
    edit_full(&a->edit, &joined);
    if (a->edit.text.n == 0 && joined.n) joined.n--;
    edit_set(&a->edit, str_get(&joined), joined.n);
    str_release(&joined);
}

void app_put_draft_away(struct app *a)
{
    struct str text = {0};
    edit_full(&a->edit, &text);
    history_add(&a->history, str_get(&text), text.n);
    edit_set(&a->edit, "", 0);
    str_release(&text);
}

void app_interrupt(struct app *a)
{
    bool twice = a->interrupt_ms && a->now_ms - a->interrupt_ms < FLASH_MS;
    if (app_busy(a)) {
        app_act(a, ACT_STOP, "", 0);
        a->stop = STOP_ASKED;
        if (a->n_queue) app_unqueue(a);
    } else if (a->edit.text.n) {
        app_put_draft_away(a);
        app_flash(a, "stashed; Up restores it");
    } else if (a->phase == PHASE_OPENING && a->have_stats) {
        app_act(a, ACT_STOP, "", 0); /* back to the previous conversation */
    } else if (twice) {
        app_act(a, ACT_QUIT, "", 0);
    } else {
        a->interrupt_ms = a->now_ms;
        app_flash(a, "Ctrl-C again, Ctrl-D or F10 quits");
    }
}

/* ---- keys ----------------------------------------------------------------------------------- */

static bool request_everywhere(struct app *a, int r)
{
    switch (r) {
    case REQ_PALETTE: palette_open(a, PALETTE_ALL); break;
    case REQ_BACK: app_show(a, VIEW_CHAT); break;
    case REQ_SUSPEND: app_act(a, ACT_SUSPEND, "", 0); break;
    case REQ_REDRAW: app_act(a, ACT_REDRAW, "", 0); break;
    default:
        if (r < REQ_COMMANDS) return false;
        command_run(a, (enum slash)(r - REQ_COMMANDS), "", 0);
    }
    return true;
}

/* Ctrl-X begins a key of two strokes. */
static bool is_prefix(struct app *a, const struct key_event *ev)
{
    if (a->view != VIEW_CHAT || a->prefix || ev->key != CTRL('x')) return false;
    return a->prefix = true;
}

void app_key(struct app *a, const struct key_event *ev)
{
    const struct view_ops *view = view_table[a->view];
    const bool refused = a->refused;
    a->refused = false;
    if (ev->key == K_CLICK) {
        click(a, ev);
        return;
    }
    if (view->capture && view->capture(a, ev)) return;
    if (is_prefix(a, ev)) return;
    int r = key_request_of(a->view, a->prefix ? ev->key | K_PREFIX : ev->key);
    bool two = a->prefix;
    if (r != REQ_INTERRUPT) a->interrupt_ms = 0; /* the next Ctrl-C is a first one */
    a->prefix = false;
    if (two && r == REQ_NONE) return;
    if (r != REQ_NONE && app_request(a, r)) return;
    if (refused && a->view == VIEW_CHAT && ev->key != ' ') app_put_draft_away(a);
    if (view->key) view->key(a, ev);
}

bool app_field_key(struct edit *field, const struct key_event *ev)
{
    char bytes[4];
    switch (ev->key) {
    case 127:
    case CTRL('h'): edit_erase(field, EDIT_LEFT); return true;
    case K_DELETE: edit_erase(field, EDIT_RIGHT); return true;
    case CTRL('u'): edit_kill(field, EDIT_LINE_START); return true;
    case CTRL('w'): edit_kill(field, EDIT_WORD_LEFT); return true;
    case K_LEFT: edit_move(field, EDIT_LEFT); return true;
    case K_RIGHT: edit_move(field, EDIT_RIGHT); return true;
    case K_PASTE: edit_insert(field, ev->text, strcspn(ev->text, "\r\n")); return true;
    default: break;
    }
    if (ev->key < 0x20 || ev->key >= KEY_BASE) return false;
    edit_insert(field, bytes, (size_t)utf8_encode(ev->key, bytes));
    return true;
}

bool app_request(struct app *a, int r)
{
    const struct view_ops *view = view_table[a->view];
    return (view->request && view->request(a, r)) || request_everywhere(a, r);
}

/* ---- drawing -------------------------------------------------------------------------------- */

void app_draw(struct app *a, struct grid *g, int w, int h)
{
    grid_fit(g, w, h, a->ascii);
    g->fine = a->fine;
    if (a->view != VIEW_CHAT) memset(a->places, 0, sizeof a->places);
    if (a->view != VIEW_CHAT) {
        grid_init(g, w, h, a->ascii);
        a->around.grid = NULL;
    }
    view_table[a->view]->draw(a, grid_pane(g));
}

int app_timeout(const struct app *a)
{
    int64_t next = -1;
    if (a->flash[0] && a->flash_until_ms > a->now_ms) next = a->flash_until_ms - a->now_ms;
    if (a->lost_until_ms > a->now_ms && (next < 0 || a->lost_until_ms - a->now_ms < next))
        next = a->lost_until_ms - a->now_ms;
    int64_t step = FADE_MS / FADE_STEPS, fading = a->now_ms - a->fade.since_ms;
    if (a->fade.before.n > 0 && fading < FADE_MS && (next < 0 || step - fading % step < next))
        next = step - fading % step;
    int played = map_timeout(a);
    if (played >= 0 && (next < 0 || played < next)) next = played;
    return (int)next;
}
