/* Applies the session's events to the app's state: transcript, phase, numbers, messages. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "cli/print/num.h"
#include "cli/control/ramp.h"
#include "runtime/save/passages.h"
#include "tui/chat/app.h"
#include "tui/text/transcript.h"

enum { LOST_MS = 1000 };
enum { ASK_S = 2 }; /* a request that takes longer needs a question */

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

static void on_progress(struct app *a, const struct event *ev)
{
    if (a->since_ms == 0 || ev->progress.done < a->done) a->since_ms = a->now_ms;
    a->done = ev->progress.done;
    a->total = ev->progress.total;
    if (ev->kind == EVENT_READING && a->phase == PHASE_LOADING) set_phase(a, PHASE_OPENING);
    if (ev->kind == EVENT_LOADING && a->phase == PHASE_OPENING) set_phase(a, PHASE_LOADING);
}

/* The first tokens of a turn belong to the message. */
static void on_tokens(struct app *a, const struct event *ev)
{
    int64_t position = ev->tokens.position;
    struct message *user = last_of(a, CHAT_USER);
    if (a->phase == PHASE_READING && user && user->n_tokens == 0) {
        user->position = position;
        user->n_tokens = ev->tokens.n;
    }
    for (int i = 0; i < ev->tokens.n; i++) {
        uint16_t n_bytes;
        memcpy(&n_bytes, ev->text + sizeof n_bytes * (size_t)i, sizeof n_bytes);
        transcript_piece(&a->talk, position + i, n_bytes);
    }
}

/* A turn that was read before the user's message, whose place it takes. */
static void on_passage(struct app *a, const struct event *ev)
{
    struct message *m = last_of(a, CHAT_USER);
    struct str said = {0};
    if (!m) return;
    int64_t position = m->position, n_tokens = m->n_tokens;
    str_append(&said, m->raw.data, m->raw.n);
    transcript_cut(&a->talk, (int)(m - a->talk.messages));
    m = transcript_add(&a->talk, CHAT_USER, ev->text, ev->n_text);
    transcript_close(m);
    m->position = position;
    m->n_tokens = n_tokens;
    m = transcript_add(&a->talk, CHAT_ASSISTANT, PASSAGES_ANSWER, strlen(PASSAGES_ANSWER));
    transcript_close(m);
    m->position = position + n_tokens;
    m->n_tokens = ev->position - m->position;
    transcript_close(transcript_add(&a->talk, CHAT_USER, str_get(&said), said.n));
    str_release(&said);
}

static void on_answer(struct app *a, int64_t position)
{
    struct message *user = last_of(a, CHAT_USER);
    struct message *m = last_of(a, CHAT_ASSISTANT);
    if (a->phase != PHASE_ANSWERING || !m || m->ended == SESSION_TURN_END) {
        m = transcript_add(&a->talk, CHAT_ASSISTANT, "", 0);
        m->position = user && user->n_tokens > 0 ? user->position + user->n_tokens : position;
    }
    m->ended = SESSION_TURN_END;
    set_phase(a, PHASE_ANSWERING);
}

/* The thought before an answer that has no text yet; NULL = none. */
static struct message *running_thought(struct app *a)
{
    struct message *m = a->talk.n > 0 ? &a->talk.messages[a->talk.n - 1] : NULL;
    return m && m->role == TRANSCRIPT_THOUGHT ? m : NULL;
}

static void on_thought(struct app *a, const struct event *ev)
{
    struct message *m = running_thought(a), *user = last_of(a, CHAT_USER);
    if (!m) {
        m = transcript_add(&a->talk, TRANSCRIPT_THOUGHT, "", 0);
        m->thought.since_ms = a->now_ms;
        m->thought.first = user && user->n_tokens > 0 ? user->position + user->n_tokens : -1;
    }
    set_phase(a, PHASE_ANSWERING);
    m->thought.over = false;
    transcript_append(m, ev->text, ev->n_text);
    if (ev->thought.n_tokens == 0) return;
    m->thought.over = true;
    m->thought.n_tokens = ev->thought.n_tokens;
    m->thought.ms = ev->thought.ms;
    transcript_close(m);
}

static void on_end(struct app *a, const struct event *ev)
{
    struct message *m = running_thought(a) ? NULL : last_of(a, CHAT_ASSISTANT);
    const char *how = ev->end.can_continue ? "; /continue continues it" : "";
    a->can_continue = ev->end.can_continue;
    if (a->phase == PHASE_ANSWERING && m) {
        transcript_close(m);
        if (m->position >= 0) m->n_tokens = ev->end.n_tokens - m->position;
        m->ended = ev->end.how;
    }
    set_phase(a, PHASE_READY);
    if (ev->end.how == SESSION_STOPPED && a->stop != STOP_TO_SEND)
        app_flash(a, "stopped and kept%s", how);
    a->stop = STOP_NOT;
    if (ev->end.how == SESSION_LENGTH) app_flash(a, "length limit%s", how);
    if (ev->end.how == SESSION_REPETITION) app_flash(a, "looped: it repeated itself%s", how);
    if (ev->end.how == SESSION_FULL)
        app_event(a, "the cache is full and policy %s evicts nothing", a->stats.policy);
    app_send_next(a);
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

/* Whether the user must agree: messages would be lost, or it takes long. */
static bool must_ask(const struct app *a, const struct question *q)
{
    double rate = a->stats.prefill_tok_s;
    bool loses = q->what == SLASH_EDIT || (q->what == SLASH_REWIND && app_turns(a) > q->turn);
    return loses || q->what == SLASH_SYSTEM || q->what == SLASH_FORGET ||
           (q->cost > 0 && !(rate > 0 && (double)q->cost <= ASK_S * rate));
}

static void on_question(struct app *a, const struct event *ev)
{
    struct question *q = &a->question;
    if (a->phase != PHASE_READY) return;
    q->cost = ev->cost.tokens;
    snprintf(q->text, sizeof q->text, "%.*s", (int)ev->n_text, ev->text);
    q->may_branch = (q->what == SLASH_EDIT || q->what == SLASH_REWIND) && app_turns(a) > 0;
    q->open = ev->cost.ask && must_ask(a, q);
    if (!q->open) app_take_turn_back(a);
}

void app_amend(struct app *a, const char *text, size_t n)
{
    const struct message *user = app_turn(a, app_turns(a));
    int64_t position = user && user->n_tokens > 0 ? user->position + user->n_tokens : -1;
    cut_after(a, app_turns(a), true);
    struct message *m = transcript_add(&a->talk, CHAT_ASSISTANT, text, n);
    transcript_close(m);
    m->position = position;
    app_run_on(a, SLASH_ANSWER, "", str_get(&m->raw));
    app_wait(a, PHASE_ANSWERING);
}

bool app_name_is_number(const char *name)
{
    int n = 0;
    sscanf(name, "chat-%*d%n", &n);
    return n > 0 && !name[n];
}

/* The request opens the conversation again. */
static bool reopens(enum slash what)
{
    return what == SLASH_MODEL || what == SLASH_SYSTEM;
}

void app_take_turn_back(struct app *a)
{
    const struct question *q = &a->question;
    struct request r = {.command = q->what, .turn = q->turn, .agreed = true};
    a->question.open = false;
    if (q->what == SLASH_DELETE) {
        app_run_on(a, SLASH_DELETE, q->name, "");
        return;
    }
    if (reopens(q->what)) str_append(&r.text, str_get(&a->asked), a->asked.n);
    if (q->what == SLASH_FORGET) {
        app_run(a, &r);
        return;
    }
    if (r.command == SLASH_REGENERATE) cut_after(a, app_turns(a), true);
    app_run(a, &r);
    app_wait(a, reopens(r.command) ? PHASE_OPENING : PHASE_READING);
}

static void on_failed(struct app *a, const char *text, size_t n)
{
    settings_failed(&a->settings);
    a->changed[0] = 0;
    app_note(a, text, n);
    app_event(a, "%.*s", (int)(n < 200 ? n : 200), text);
    if (app_busy(a)) set_phase(a, PHASE_READY);
    a->stop = STOP_NOT;
    app_unqueue(a);
}

/* An empty conversation shows the welcome, so one line of the notice is on the event line. */
static void on_notice(struct app *a, const struct event *ev)
{
    const char *end = memchr(ev->text, '\n', ev->n_text);
    if (a->talk.n == 0)
        app_event(a, "%.*s", (int)(end ? end - ev->text : (ptrdiff_t)ev->n_text), ev->text);
    else
        app_note(a, ev->text, ev->n_text);
}

static void on_opened(struct app *a, const struct event *ev)
{
    snprintf(a->name, sizeof a->name, "%.*s", (int)ev->n_text, ev->text);
    a->can_continue = ev->end.can_continue;
    struct message *m = a->talk.n > 0 ? &a->talk.messages[a->talk.n - 1] : NULL;
    if (m && m->role == CHAT_ASSISTANT) m->ended = ev->end.how;
    settings_opened(&a->settings);
    a->reopened = true;
    set_phase(a, PHASE_READY);
    app_send_next(a);
}

/* The settings name the model that is open, so that they can open it again. */
static void on_model(struct app *a, const struct event *ev)
{
    str_clear(&a->model);
    str_append(&a->model, ev->text, ev->n_text);
    a->settings.options.engine.model = a->model.n ? a->model.data : NULL;
    waterfall_clear(&a->past);
    trace_clear(&a->trace);
    a->held.known = false;
    app_act(a, ACT_MODELS, "", 0);
}

static void on_opening(struct app *a)
{
    set_phase(a, PHASE_OPENING);
    a->done = a->total = 0;
}

void app_take(struct app *a, const struct event *ev)
{
    struct message *m;
    switch (ev->kind) {
    case EVENT_LOADING:
    case EVENT_READING: on_progress(a, ev); break;
    case EVENT_LOADED: on_opening(a); break;
    case EVENT_OPENING:
        a->flash[0] = 0;
        if (strlen(a->name) != ev->n_text || memcmp(a->name, ev->text, ev->n_text) != 0)
            a->event[0] = 0; /* it is about another conversation */
        on_opening(a);
        break;
    case EVENT_MODEL: on_model(a, ev); break;
    case EVENT_OPENED: on_opened(a, ev); break;
    case EVENT_NOTE:
    case EVENT_NOTICE: on_notice(a, ev); break;
    case EVENT_BEGIN:
        m = last_of(a, CHAT_USER);
        if (m && a->phase == PHASE_READING) m->position = ev->position;
        break;
    case EVENT_ANSWER: on_answer(a, ev->position); break;
    case EVENT_TEXT:
        m = last_of(a, CHAT_ASSISTANT);
        if (m) transcript_append(m, ev->text, ev->n_text);
        break;
    case EVENT_THOUGHT: on_thought(a, ev); break;
    case EVENT_TOKENS: on_tokens(a, ev); break;
    case EVENT_PASSAGE: on_passage(a, ev); break;
    case EVENT_RECALLED:
        a->returned = ev->recalled;
        app_event(a, "%.*s", (int)ev->n_text, ev->text);
        break;
    case EVENT_END: on_end(a, ev); break;
    case EVENT_QUESTION: on_question(a, ev); break;
    case EVENT_TAKEN:
        app_put_draft_away(a);
        edit_set(&a->edit, ev->text, ev->n_text);
        break;
    case EVENT_CUT: cut_after(a, ev->turn, false); break;
    case EVENT_BRANCHED:
        app_flash(a, "branch %.*s was made; /open opens it", (int)ev->n_text, ev->text);
        break;
    case EVENT_RENAMED: snprintf(a->name, sizeof a->name, "%.*s", (int)ev->n_text, ev->text); break;
    case EVENT_FAILED: on_failed(a, ev->text, ev->n_text); break;
    case EVENT_EVICTED: break; /* the next snapshot shows it */
    case EVENT_DONE:
    case EVENT_FOUND: break; /* list_actions.c shows them */
    case EVENT_FATAL:
    case EVENT_CLOSED: break; /* ui.c ends the screen */
    }
}

/* Reported with the snapshot that shows it, because thousands of evictions a second cannot be
 * read. */
static void tell_eviction(struct app *a, const struct retention *map, int64_t n_evicted)
{
    struct str text = {0};
    char n[NUM_MAX];
    memset(a->col_lost, 0, sizeof a->col_lost);
    if (forgot_sentence(&a->talk, map, a->held.heads, a->held.n, a->col_lost, &text))
        app_event(a, "%s", str_get(&text));
    else
        app_event(a, "evicted %s unit%s; no word lost its last unit", num_exact(n_evicted, n),
                  n_evicted == 1 ? "" : "s");
    if (!a->o->chat.reduced_motion) a->lost_until_ms = a->now_ms + LOST_MS;
    str_release(&text);
}

static void hold(struct held *h, const uint16_t *heads, int64_t n)
{
    if (n > h->cap) {
        h->cap = n > 2 * h->cap ? n : 2 * h->cap;
        h->heads = memory_grow(h->heads, (size_t)h->cap, sizeof *h->heads);
    }
    if (n > 0) memcpy(h->heads, heads, (size_t)n * sizeof *heads);
    h->n = n;
    h->known = true;
}

static struct ramp_old old_of(const struct app *a)
{
    const struct retention *r = a->map;
    const int64_t n_heads = (int64_t)r->n_layer * r->n_head;
    struct ramp_old old = {.lead = r->lead, .tail = r->tail};
    if (old.tail <= old.lead) return old;
    old.seen = (old.tail - old.lead) * n_heads;
    old.kept = old.seen - r->n_pos * n_heads;
    for (int c = 0; c < r->n_cols; c++) old.kept += a->col_kept[c];
    return old;
}

/* n_evicted: units since the last snapshot. */
static void compare(struct app *a, const struct retention *map, int64_t n_evicted)
{
    struct fade *f = &a->fade;
    bool evicted = a->held.known && n_evicted > 0 && map->n_evictions != a->n_evictions;
    if (evicted) tell_eviction(a, map, n_evicted);
    if (evicted && !a->o->chat.reduced_motion && a->now_ms - f->since_ms >= FADE_MS) {
        hold(&f->before, a->held.heads, a->held.n);
        f->since_ms = a->now_ms;
    }
    hold(&a->held, map->heads, map->n_pos);
    ramp_sums(map, a->col_kept);
    a->old = old_of(a);
    a->n_evictions = map->n_evictions;
}

void app_tell_changed(struct app *a)
{
    struct str value = {0};
    char *asked = strchr(a->changed, ' ');
    const bool reopened = a->reopened;
    a->reopened = false; /* also after an opening that no setting asked for */
    if (!asked || !reopened) return;
    *asked++ = 0;
    const struct option *f = options_named(SLASH_SETTINGS, a->changed, NULL);
    if (f) {
        settings_value(&a->settings, &a->stats, f, &value);
        if (strcmp(str_get(&value), asked) == 0)
            app_event(a, "%s %s: the conversation was reopened with it", f->name, asked);
        else
            app_event(a, "%s is %s now; %s was asked for", f->name, str_get(&value), asked);
    }
    a->changed[0] = 0;
    str_release(&value);
}

void app_snapshot(struct app *a, const struct session_stats *st, const struct retention *map)
{
    int64_t n_evicted = st->units_evicted - a->stats.units_evicted;
    a->stats = *st;
    a->have_stats = true;
    a->map = map;
    const struct sensor_part *part = a->sensors.has_gpu ? &a->sensors.gpu : &a->sensors.cpu;
    if (a->trace.n == 0) trace_past(&a->trace, &a->past, st);
    trace_add(&a->trace, st, part->celsius, part->watt);
    struct message *m = last_of(a, CHAT_ASSISTANT), *thought = running_thought(a);
    if (thought && thought->thought.first >= 0 && !thought->thought.over)
        thought->thought.n_tokens = st->n_tokens - thought->thought.first;
    if (m && !thought && a->phase == PHASE_ANSWERING && m->position >= 0)
        m->n_tokens = st->n_tokens - m->position;
    if (map) compare(a, map, n_evicted);
    if (map) waterfall_add(&a->past, map);
}

void app_past(struct app *a, struct waterfall *past)
{
    if (past->n == 0) return;
    waterfall_clear(&a->past);
    a->past = *past;
    *past = (struct waterfall){0};
    trace_clear(&a->trace); /* the next snapshot begins it with this */
}

/* Of all heads at positions [pos, end), which are kept. */
static int level_of(const struct app *a, int64_t pos, int64_t end, int64_t kept)
{
    const int64_t seen = (end - pos) * a->map->n_layer * a->map->n_head;
    return ramp_level_at(kept, seen, pos, end, &a->old);
}

int app_level(const struct app *a, int col, int col_end)
{
    const struct retention *r = a->map;
    int64_t kept = 0, from = ramp_position(r, col), end = ramp_position(r, col_end);
    for (int c = col; c < col_end; c++) kept += a->col_kept[c];
    if (end > r->n_pos) end = r->n_pos;
    return level_of(a, from, end, kept);
}

/* Units of all heads at positions [pos, end). */
static int64_t count_kept(const struct retention *r, int64_t pos, int64_t end)
{
    int64_t kept = 0;
    for (; pos < end; pos++) kept += r->heads[pos];
    return kept;
}

int app_level_at(const struct app *a, int64_t pos, int64_t end)
{
    const struct retention *r = a->map;
    if (end > r->n_pos) end = r->n_pos;
    return level_of(a, pos, end, count_kept(r, pos, end));
}

int app_percent_kept(const struct app *a, int64_t pos, int64_t end)
{
    const struct retention *r = a->map;
    if (!r || pos < 0 || pos >= r->n_pos || end <= pos) return -1;
    if (end > r->n_pos) end = r->n_pos;
    return (int)(100 * count_kept(r, pos, end) / ((end - pos) * r->n_layer * r->n_head));
}

static void load_thought(struct app *a, const struct store_message *lm)
{
    struct message *m = running_thought(a); /* it was stopped and continued */
    if (!m) m = transcript_add(&a->talk, TRANSCRIPT_THOUGHT, "", 0);
    transcript_append(m, lm->thought.text, lm->thought.n);
    transcript_close(m);
    m->thought.over = true;
    m->thought.n_tokens += lm->thought.n_tokens;
    m->thought.ms += (double)lm->thought.ms;
}

static int load_message(void *ctx, const struct store_message *lm)
{
    struct app *a = ctx;
    if (lm->thought.text) load_thought(a, lm);
    if (lm->thought.text && lm->n_text == 0) return 0; /* stopped while it thought */
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
    m->n_tokens = lm->position + (int64_t)lm->n_tokens - m->position;
    m->ended = lm->seq < 0 ? SESSION_STOPPED : SESSION_TURN_END;
    return 0;
}

int app_load(struct app *a, struct conversations *l, const char *name, struct err *e)
{
    transcript_clear(&a->talk);
    waterfall_clear(&a->past);
    trace_clear(&a->trace);
    a->held.known = a->have_stats = false; /* until it is open: n/a, not the last one's numbers */
    a->map = NULL;
    a->fade.before.n = 0;
    a->returned.n = 0;
    memset(&a->chat, 0, sizeof a->chat);
    memset(&a->tint, 0, sizeof a->tint);
    snprintf(a->name, sizeof a->name, "%s", name);
    return name[0] ? conversations_messages(l, name, load_message, a, e) : 0;
}
