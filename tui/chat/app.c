#include "tui/chat/app.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/num.h"
#include "cli/options.h"
#include "cli/ramp.h"
#include "tui/chat/command.h"

enum { FLASH_MS = 4000, LOST_MS = 1000, TWICE_MS = 2000, RATE_MS = 2000 };

const struct view_ops *const view_table[VIEWS] = {
    [VIEW_CHAT] = &view_chat, [VIEW_MAP] = &view_map,   [VIEW_TINT] = &view_tint,
    [VIEW_LIST] = &view_list, [VIEW_HELP] = &view_help, [VIEW_LOG] = &view_log,
};

void app_init(struct app *a, const struct options *o, bool ascii, const char *history_path)
{
    memset(a, 0, sizeof *a);
    a->options = *o;
    a->o = &a->options;
    a->talk.raw = o->no_markdown;
    a->ascii = a->talk.ascii = ascii;
    a->sensors = sensor_nothing();
    a->evict_rate = NAN;
    edit_init(&a->edit);
    edit_init(&a->list.filter);
    edit_init(&a->list.field);
    history_init(&a->history, history_path);
}

void app_release(struct app *a)
{
    transcript_clear(&a->talk);
    edit_release(&a->edit);
    history_release(&a->history);
    for (int i = 0; i < a->n_queue; i++) str_release(&a->queue[i]);
    for (int i = 0; i < a->n_acts; i++) str_release(&a->acts[i].text);
    free(a->list.rows);
    free(a->list.shown);
    free(a->list.hits);
    edit_release(&a->list.filter);
    edit_release(&a->list.field);
    str_release(&a->search.query);
    str_release(&a->search.draft);
    str_release(&a->completion.line);
    for (int i = 0; i < a->n_settings; i++) str_release(&a->settings[i]);
    free(a->settings);
    if (a->mapped.frozen) free(a->mapped.frozen->kept);
    free(a->mapped.frozen);
    str_release(&a->log);
    waterfall_clear(&a->past);
    free(a->sight.scores);
    memset(a, 0, sizeof *a);
}

/* ---- small things --------------------------------------------------------------------------- */

void app_act(struct app *a, enum act act, const char *text, size_t n)
{
    if (a->n_acts == ACTS_MAX) return;
    struct act_row *row = &a->acts[a->n_acts++];
    *row = (struct act_row){.act = act};
    str_append(&row->text, text, n);
}

void app_flash(struct app *a, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(a->flash, sizeof a->flash, fmt, args);
    va_end(args);
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
}

void app_show(struct app *a, enum view view)
{
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

int64_t app_turns(const struct app *a)
{
    int64_t n = 0;
    for (int i = 0; i < a->talk.n; i++) n += a->talk.messages[i].role == CHAT_USER;
    return n;
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
    a->can_continue = false;
    a->chat.held = false;
}

static void say(struct app *a, const char *text, size_t n)
{
    transcript_close(transcript_add(&a->talk, CHAT_USER, text, n));
    app_act(a, ACT_SAY, text, n);
    app_wait(a, PHASE_READING);
}

static void enqueue(struct app *a, const char *text, size_t n)
{
    struct str row = {0};
    str_append(&row, text, n);
    a->queue[a->n_queue++] = row;
}

static void send_next(struct app *a)
{
    if (a->phase != PHASE_READY || a->n_queue == 0 || a->queue_held) return;
    struct str next = a->queue[0];
    memmove(a->queue, a->queue + 1, sizeof next * (size_t)--a->n_queue);
    say(a, next.data, next.n);
    str_release(&next);
}

/* A command may put another text into the editor, so the line leaves it first. */
static void run_line(struct app *a, enum slash command, const struct str *line,
                     const char *argument, size_t n)
{
    edit_set(&a->edit, "", 0);
    a->chat.held = false; /* what it says comes at the end */
    if (command_run(a, command, argument, n))
        history_add(&a->history, line->data, line->n);
    else
        edit_set(&a->edit, line->data, line->n); /* to be corrected */
}

void app_send(struct app *a)
{
    struct str text = {0};
    const char *rest;
    size_t n_rest;
    a->queue_held = false;
    app_draft(a, &text);
    enum slash command = slash_parse(str_get(&text), text.n, &rest, &n_rest);
    if (strspn(str_get(&text), " \t\n") == text.n) {
        send_next(a);
    } else if (command == SLASH_UNKNOWN) {
        app_flash(a, "%s", slash_advice(text.data, text.n, (char[SLASH_ADVICE_MAX]){0}));
    } else if (command != SLASH_SAY) {
        run_line(a, command, &text, rest, n_rest);
    } else if (a->o->read_only) {
        app_flash(a, "open for reading only; /branch makes one that can go on");
    } else if (a->n_queue == QUEUE_MAX) {
        app_flash(a, "the queue is full; your text stays here");
    } else {
        enqueue(a, rest, n_rest);
        history_add(&a->history, text.data, text.n);
        edit_set(&a->edit, "", 0);
        send_next(a);
    }
    str_release(&text);
}

void app_draft(const struct app *a, struct str *out)
{
    edit_full(&a->edit, out);
}

void app_set_draft(struct app *a, const char *text, size_t n)
{
    edit_set(&a->edit, text, n);
}

uint64_t app_draft_version(const struct app *a)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a; a label stands for its fold, which never changes */
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
    app_flash(a, a->queue_held ? "brought back what was not sent; Enter sends it"
                               : "brought back what you were writing");
}

/* What waits is not sent after a stop: it goes back to where it can be changed. */
static void unqueue(struct app *a)
{
    struct str joined = {0};
    for (int i = 0; i < a->n_queue; i++) {
        str_append(&joined, str_get(&a->queue[i]), a->queue[i].n);
        str_puts(&joined, "\n");
        str_release(&a->queue[i]);
    }
    a->n_queue = 0;
    app_draft(a, &joined);
    if (a->edit.text.n == 0 && joined.n) joined.n--;
    edit_set(&a->edit, str_get(&joined), joined.n);
    str_release(&joined);
}

/* The draft goes to the history. */
static void put_away(struct app *a)
{
    struct str text = {0};
    app_draft(a, &text);
    history_add(&a->history, str_get(&text), text.n);
    edit_set(&a->edit, "", 0);
    str_release(&text);
}

void app_interrupt(struct app *a)
{
    bool twice = a->interrupt_ms && a->now_ms - a->interrupt_ms < TWICE_MS;
    if (app_busy(a)) {
        app_act(a, ACT_STOP, "", 0);
        a->stopping = true;
        a->send_now = false;
        if (a->n_queue) unqueue(a);
    } else if (a->edit.text.n) {
        put_away(a);
        app_flash(a, "put away; Up brings it back");
    } else if (a->phase == PHASE_OPENING && a->have_stats) {
        app_act(a, ACT_STOP, "", 0); /* back to the conversation before */
    } else if (twice) {
        app_act(a, ACT_QUIT, "", 0);
    } else {
        a->interrupt_ms = a->now_ms;
        app_flash(a, "Ctrl-C again, Ctrl-D or F10 leaves");
    }
}

/* ---- keys ----------------------------------------------------------------------------------- */

static bool request_everywhere(struct app *a, enum request r)
{
    switch (r) {
    case REQ_HELP: app_show(a, a->view == VIEW_HELP ? VIEW_CHAT : VIEW_HELP); break;
    case REQ_LIST: app_show(a, a->view == VIEW_LIST ? VIEW_CHAT : VIEW_LIST); break;
    case REQ_MAP: app_show(a, a->view == VIEW_MAP ? VIEW_CHAT : VIEW_MAP); break;
    case REQ_TINT: app_show(a, a->view == VIEW_TINT ? VIEW_CHAT : VIEW_TINT); break;
    case REQ_LOG: app_show(a, VIEW_LOG); break;
    case REQ_BACK: app_show(a, VIEW_CHAT); break;
    case REQ_QUIT: app_act(a, ACT_QUIT, "", 0); break;
    case REQ_SUSPEND: app_act(a, ACT_SUSPEND, "", 0); break;
    case REQ_REDRAW: app_act(a, ACT_REDRAW, "", 0); break;
    default: return false;
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
    if (view->capture && view->capture(a, ev)) return;
    if (is_prefix(a, ev)) return;
    enum request r = key_request(a->view, a->prefix ? ev->key | K_PREFIX : ev->key);
    bool two = a->prefix;
    a->prefix = false;
    if (two && r == REQ_NONE) return;
    if (r != REQ_NONE && view->request(a, r)) return;
    if (r != REQ_NONE && request_everywhere(a, r)) return;
    if (view->key) view->key(a, ev);
}

/* ---- news ----------------------------------------------------------------------------------- */

/* The message that an answer streams into. */
static struct message *last_of(struct app *a, int role)
{
    for (int i = a->talk.n - 1; i >= 0; i--)
        if (a->talk.messages[i].role == role) return &a->talk.messages[i];
    return NULL;
}

static void set_phase(struct app *a, enum phase phase)
{
    if (a->phase != phase) a->since_ms = a->now_ms;
    a->phase = phase;
}

static void on_progress(struct app *a, const struct news *n)
{
    if (a->since_ms == 0 || n->a < a->done) a->since_ms = a->now_ms;
    a->done = n->a;
    a->total = n->b;
    if (n->kind == NEWS_READING && a->phase == PHASE_LOADING) set_phase(a, PHASE_OPENING);
}

/* The first tokens of a turn are those of the message. */
static void on_tokens(struct app *a, const struct news *n, const char *text)
{
    struct message *user = last_of(a, CHAT_USER);
    if (a->phase == PHASE_READING && user && user->n_tokens == 0) {
        user->position = n->a;
        user->n_tokens = n->b;
    }
    for (int64_t i = 0; i < n->b; i++) {
        uint16_t n_bytes;
        memcpy(&n_bytes, text + sizeof n_bytes * (size_t)i, sizeof n_bytes);
        transcript_piece(&a->talk, n->a + i, n_bytes);
    }
}

static void on_answer(struct app *a, const struct news *n)
{
    struct message *user = last_of(a, CHAT_USER);
    struct message *m = last_of(a, CHAT_ASSISTANT);
    if (a->phase != PHASE_ANSWERING || !m || !m->partial) {
        m = transcript_add(&a->talk, CHAT_ASSISTANT, "", 0);
        m->position = user && user->n_tokens > 0 ? user->position + user->n_tokens : n->a;
    }
    m->partial = false;
    set_phase(a, PHASE_ANSWERING);
}

static void on_end(struct app *a, const struct news *n)
{
    struct message *m = last_of(a, CHAT_ASSISTANT);
    const char *how = n->n_text > 0 ? "; /continue goes on" : "";
    a->can_continue = n->n_text > 0;
    if (a->phase == PHASE_ANSWERING && m) {
        transcript_close(m);
        if (m->position >= 0) m->n_tokens = n->b - m->position;
        m->partial = a->can_continue;
    }
    set_phase(a, PHASE_READY);
    a->stopping = false;
    if (n->a == SESSION_STOPPED && !a->send_now) app_flash(a, "stopped and kept%s", how);
    a->send_now = false;
    if (n->a == SESSION_LENGTH) app_flash(a, "cut at the token limit%s", how);
    if (n->a == SESSION_REPETITION) {
        static const char why[] = "the answer went in a circle and was stopped; /continue goes on";
        app_note(a, why, sizeof why - 1);
    }
    if (n->a == SESSION_FULL)
        app_event(a, "the cache is full and policy %s evicts nothing", a->stats.policy);
    send_next(a);
}

static void cut_after(struct app *a, int64_t turn, bool answer_only)
{
    int keep = a->talk.n;
    if (!answer_only) turn++;
    for (int i = 0; i < a->talk.n && keep == a->talk.n; i++)
        if (a->talk.messages[i].role == CHAT_USER && --turn == 0) keep = i + (answer_only ? 1 : 0);
    transcript_cut(&a->talk, keep);
    a->can_continue = false;
    memset(&a->chat, 0, sizeof a->chat);
}

/* The answer to ACT_COST: what is free and loses only an answer needs no question. */
static void on_cost(struct app *a, int64_t cost)
{
    struct question *q = &a->question;
    if (a->phase != PHASE_READY) return;
    q->cost = cost;
    q->may_branch = q->what != SLASH_REGENERATE && app_turns(a) > 0;
    bool loses = q->what == SLASH_REWIND ? app_turns(a) > q->turn : q->what == SLASH_EDIT;
    if (cost == 0 && !loses)
        app_take_turn_back(a);
    else
        q->open = true;
}

void app_amend(struct app *a, const char *text, size_t n)
{
    const struct message *user = app_turn(a, app_turns(a));
    int64_t position = user && user->n_tokens > 0 ? user->position + user->n_tokens : -1;
    cut_after(a, app_turns(a), true);
    struct message *m = transcript_add(&a->talk, CHAT_ASSISTANT, text, n);
    transcript_close(m);
    m->position = position;
    app_act(a, ACT_AMEND, text, n);
    app_wait(a, PHASE_ANSWERING);
}

void app_take_turn_back(struct app *a)
{
    struct question q = a->question;
    char turn[32];
    a->question.open = false;
    if (q.what == SLASH_REGENERATE) {
        cut_after(a, app_turns(a), true);
        app_act(a, ACT_REGENERATE, "", 0);
        app_wait(a, PHASE_READING);
        return;
    }
    const struct message *m = q.what == SLASH_EDIT ? app_turn(a, q.turn) : NULL;
    if (m) {
        put_away(a);
        edit_set(&a->edit, str_get(&m->raw), m->raw.n);
    }
    int n = snprintf(turn, sizeof turn, "%lld", (long long)(m ? q.turn - 1 : q.turn));
    app_act(a, ACT_REWIND, turn, (size_t)n);
    app_wait(a, PHASE_READING);
}

static void on_failed(struct app *a, const char *text, size_t n)
{
    if (a->reopening) a->options = a->options_before;
    a->reopening = false;
    app_note(a, text, n);
    app_event(a, "%.*s", (int)(n < 200 ? n : 200), text);
    if (app_busy(a)) set_phase(a, PHASE_READY);
    a->stopping = false;
    unqueue(a);
}

void app_news(struct app *a, const struct news *n, const char *text)
{
    struct message *m;
    switch (n->kind) {
    case NEWS_LOADING:
    case NEWS_READING: on_progress(a, n); break;
    case NEWS_LOADED:
        set_phase(a, PHASE_OPENING);
        a->done = a->total = 0;
        break;
    case NEWS_OPENING:
        a->flash[0] = 0;
        set_phase(a, PHASE_OPENING);
        a->done = a->total = 0;
        break;
    case NEWS_OPENED:
        snprintf(a->name, sizeof a->name, "%.*s", (int)n->n_text, text);
        a->can_continue = n->a != 0;
        a->reopening = false;
        set_phase(a, PHASE_READY);
        send_next(a);
        break;
    case NEWS_NOTICE: app_note(a, text, n->n_text); break;
    case NEWS_BEGIN:
        m = last_of(a, CHAT_USER);
        if (m && a->phase == PHASE_READING) m->position = n->a;
        break;
    case NEWS_ANSWER: on_answer(a, n); break;
    case NEWS_TEXT:
        m = last_of(a, CHAT_ASSISTANT);
        if (m) transcript_append(m, text, n->n_text);
        break;
    case NEWS_TOKENS: on_tokens(a, n, text); break;
    case NEWS_EVICTED:
        a->evicted += n->a;
        a->evicted_at = n->b;
        break;
    case NEWS_END: on_end(a, n); break;
    case NEWS_COST: on_cost(a, n->b); break;
    case NEWS_CUT: cut_after(a, n->a, false); break;
    case NEWS_BRANCHED:
        app_event(a, "branch %.*s was made; /open goes there", (int)n->n_text, text);
        break;
    case NEWS_RENAMED: snprintf(a->name, sizeof a->name, "%.*s", (int)n->n_text, text); break;
    case NEWS_FAILED: on_failed(a, text, n->n_text); break;
    case NEWS_FATAL:
    case NEWS_GONE: break; /* ui.c ends the screen */
    }
}

/* A mean over some seconds of a turn; nothing is evicted between turns. */
static void measure_evictions(struct app *a)
{
    const struct session_stats *st = &a->stats;
    int64_t heads = (int64_t)st->n_layer * st->n_kv_head, ms = a->now_ms - a->rate_ms;
    if (!app_busy(a)) {
        a->evict_rate = 0;
    } else if (a->rate_ms && ms < RATE_MS) {
        return;
    } else if (a->rate_ms && heads > 0 && st->units_evicted >= a->rate_evicted) {
        double n = (double)(st->units_evicted - a->rate_evicted) / (double)heads;
        a->evict_rate = 1e3 * n / (double)ms;
    }
    a->rate_ms = app_busy(a) ? a->now_ms : 0;
    a->rate_evicted = st->units_evicted;
}

/* With the snapshot that shows it, as thousands of evictions a second are not for reading. */
static void tell_evictions(struct app *a)
{
    char b[2][NUM_MAX];
    if (a->evicted == 0) return;
    app_event(a, "evicted %s units at %s tok, kv bytes unchanged  F3: where",
              num_exact(a->evicted, b[0]), num_exact(a->evicted_at, b[1]));
    a->evicted = 0;
}

void app_snapshot(struct app *a, const struct session_stats *st, const struct retention *map)
{
    a->stats = *st;
    a->have_stats = true;
    a->map = map;
    measure_evictions(a);
    tell_evictions(a);
    struct message *m = last_of(a, CHAT_ASSISTANT);
    if (m && a->phase == PHASE_ANSWERING && m->position >= 0)
        m->n_tokens = st->n_tokens - m->position;
    if (!map) return;
    bool compare = map->n_evictions != a->n_evictions && map->col_width == a->col_width;
    int64_t kept[RETENTION_COLS];
    ramp_sums(map, kept);
    for (int c = 0; c < RETENTION_COLS && compare; c++) a->col_lost[c] = kept[c] < a->col_kept[c];
    memcpy(a->col_kept, kept, sizeof kept);
    if (compare && !a->o->reduced_motion) a->lost_until_ms = a->now_ms + LOST_MS;
    if (map->col_width != a->col_width) memset(a->col_lost, 0, sizeof a->col_lost);
    a->col_width = map->col_width;
    a->n_evictions = map->n_evictions;
    waterfall_add(&a->past, map);
}

int app_class(const struct app *a, int col, int col_end)
{
    const struct retention *r = a->map;
    int64_t kept = 0, from = ramp_position(r, col), end = ramp_position(r, col_end);
    for (int c = col; c < col_end; c++) kept += a->col_kept[c];
    if (end > r->n_pos) end = r->n_pos;
    return ramp_class(kept, (end - from) * r->n_layer * r->n_head);
}

int app_class_at(const struct app *a, int64_t pos, int64_t pos_end)
{
    const struct retention *r = a->map;
    if (r->col_width <= 0 || pos >= r->n_pos) return 0;
    int64_t col = pos / r->col_width;
    int64_t end = pos_end > pos ? (pos_end - 1) / r->col_width + 1 : col + 1;
    return app_class(a, (int)col, (int)(end < r->n_cols ? end : r->n_cols));
}

struct focus app_focus(const struct app *a)
{
    struct focus l = {.position = -1};
    if (a->view == VIEW_MAP) l.position = a->mapped.position;
    if (a->view != VIEW_TINT) return l;
    l.position = a->tint.position;
    l.from = a->tint.first;
    if (a->tint.first >= 0 && a->tint.end > a->tint.first) l.n = (int)(a->tint.end - a->tint.first);
    if (l.n > SIGHT_MAX) l.n = SIGHT_MAX;
    return l;
}

static int load_message(void *ctx, const struct conversations_message *lm)
{
    struct app *a = ctx;
    struct message *last = a->talk.n > 0 ? &a->talk.messages[a->talk.n - 1] : NULL;
    bool goes_on = last && lm->role == CHAT_ASSISTANT && last->role == CHAT_ASSISTANT;
    struct message *m = last;
    if (goes_on) { /* it was stopped and continued: one answer */
        transcript_append(m, lm->text, lm->n_text);
    } else {
        m = transcript_add(&a->talk, lm->role, lm->text, lm->n_text);
        m->position = lm->position;
    }
    transcript_close(m);
    m->n_tokens = lm->position + lm->n_tokens - m->position;
    m->partial = lm->partial != 0;
    return 0;
}

int app_load(struct app *a, struct conversations *l, const char *name, struct err *e)
{
    transcript_clear(&a->talk);
    waterfall_clear(&a->past);
    memset(&a->chat, 0, sizeof a->chat);
    memset(&a->tint, 0, sizeof a->tint);
    snprintf(a->name, sizeof a->name, "%s", name);
    return name[0] ? conversations_messages(l, name, load_message, a, e) : 0;
}

/* ---- drawing -------------------------------------------------------------------------------- */

void app_draw(struct app *a, struct grid *g, int w, int h)
{
    grid_fit(g, w, h, a->ascii);
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
    return (int)next;
}
