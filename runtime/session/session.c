#include "runtime/session/session_parts.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "runtime/forward/engine.h"
#include "runtime/session/conversations.h"
#include "runtime/session/repetition.h"
#include "runtime/token/token_text.h"

/* Tokens of a prompt that are run after the last eviction (Locret's n_loc): the question itself
 * must not be evicted before it is answered. */
#define LOCAL_TOKENS 100

/* ---- small things ---------------------------------------------------------------------------- */

static void remember(struct session *s, int32_t id)
{
    if (s->n_recent == SAMPLER_HISTORY) {
        memmove(s->recent, s->recent + 1, (SAMPLER_HISTORY - 1) * sizeof *s->recent);
        s->n_recent--;
    }
    s->recent[s->n_recent++] = id;
    s->n_tokens++;
}

void session_push(struct session *s, int32_t id)
{
    tokens_push(&s->pending, id);
    remember(s, id);
}

static void drop_pending(struct session *s, size_t n)
{
    memmove(s->pending.ids, s->pending.ids + n, (s->pending.n - n) * sizeof *s->pending.ids);
    s->pending.n -= n;
}

/* A private conversation can't go back: its last message is enough, and it never grows. */
static int add_message(struct session *s, enum chat_role role, int64_t end, struct err *e)
{
    if (!s->save) s->n_messages = 0;
    if (s->n_messages == s->messages_max) {
        size_t max = s->messages_max ? 2 * s->messages_max : 64;
        struct session_message *p = realloc(s->messages, max * sizeof *p);
        if (!p) return err_set(e, ERR_FAIL, "out of memory for the conversation");
        s->messages = p;
        s->messages_max = max;
    }
    s->messages[s->n_messages++] = (struct session_message){role, end};
    s->n_turns += role == CHAT_USER;
    return 0;
}

void session_use_attempt(struct session *s, uint64_t attempt)
{
    s->state.attempt = attempt;
    s->options.sampling.seed = s->state.seed + attempt * 0x9e3779b97f4a7c15u;
}

static bool stopped(const struct session_sink *k)
{
    return k->stop && k->stop(k->ctx);
}

static const struct save_state *state_now(struct session *s)
{
    s->state.n_run = s->ctx.cache.n_pos;
    return &s->state;
}

static int save_now(struct session *s, const struct save_token *first, struct err *e)
{
    context_score(&s->ctx);
    int rc = save_units(s->save, &s->ctx.cache, state_now(s), first, e);
    if (!rc && !first) save_compact(s->save, &s->ctx.cache); /* a turn may be very long */
    return rc;
}

/* Tells which bytes of a message each of its tokens stands for. `first`: of the conversation. */
static void report_tokens(const struct session *s, const struct save_message *m, int64_t position,
                          bool first, const struct session_sink *k)
{
    const struct engine *g = s->engine;
    if (!k->tokens || m->n_ids == 0) return;
    uint16_t *n_bytes = malloc(m->n_ids * sizeof *n_bytes);
    if (!n_bytes) return;
    const char *before =
        s->options.raw ? "" : chat_before(g->template, m->role, first && s->system);
    token_text_align(g->tokenizer, m->ids, m->n_ids, before, m->text, m->n_text, n_bytes);
    k->tokens(k->ctx, position, (int)m->n_ids, n_bytes);
    free(n_bytes);
}

static bool keeps_all(const struct session *s)
{
    return s->ctx.plan.policy->scorer == POLICY_KEEP_ALL;
}

/* ---- eviction -------------------------------------------------------------------------------- */

static int evict_now(struct session *s, const struct session_sink *k, struct err *e)
{
    int64_t n_evicted;
    int rc = context_evict(&s->ctx, &n_evicted, e);
    if (!rc && n_evicted && k->evicted) k->evicted(k->ctx, n_evicted, s->n_tokens);
    return rc;
}

/* Room for one generated token. Evicting inside an answer makes it run on, so it waits until the
 * reserve is used up; what was generated is saved first, because segments are whole. */
static int make_room_to_answer(struct session *s, const struct session_sink *k, bool *ok,
                               struct err *e)
{
    *ok = cache_room(&s->ctx.cache) > 0;
    if (*ok || keeps_all(s)) return 0;
    int rc = s->save ? save_now(s, NULL, e) : 0;
    if (!rc) rc = evict_now(s, k, e);
    if (rc) return rc;
    *ok = true;
    return s->save ? save_now(s, NULL, e) : 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* How many pending tokens to run next: a chunk, but so that the last chunk is not just a crumb. */
static int next_chunk(const struct session *s)
{
    int chunk = s->ctx.plan.chunk, left = (int)s->pending.n;
    int local = LOCAL_TOKENS < chunk / 2 ? LOCAL_TOKENS : chunk / 2;
    if (left <= chunk) return left;
    return left - chunk < local ? left - local : chunk;
}

/* Runs everything that is pending. The last chunk is not saved here: its units go to disk together
 * with the answer's first token. SESSION_TURN_END = all was read. */
static int read_pending(struct session *s, const struct session_sink *k, enum session_end *end,
                        struct err *e)
{
    int64_t total = (int64_t)s->pending.n, done = 0;
    while (s->pending.n) {
        int n = next_chunk(s), rc = 0;
        bool stop = stopped(k);
        if (!stop) rc = evict_now(s, k, e); /* whatever is over the budget goes */
        if (rc) return rc;
        if (stop || cache_room(&s->ctx.cache) < n) {
            *end = stop ? SESSION_STOPPED : SESSION_FULL;
            return 0;
        }
        bool last = n == (int)s->pending.n;
        int64_t t0 = system_clock_ns();
        rc = context_run(&s->ctx, s->pending.ids, n, last, e);
        if (rc) return rc;
        s->read_ns += system_clock_ns() - t0;
        s->n_read += n;
        drop_pending(s, (size_t)n);
        done += n;
        if (k->progress) k->progress(k->ctx, done, total);
        if (!last && s->save) rc = save_now(s, NULL, e);
        if (rc) return rc;
    }
    *end = SESSION_TURN_END;
    return 0;
}

/* ---- answering ------------------------------------------------------------------------------- */

static void emit(struct session *s, const char *bytes, size_t n, bool flush,
                 const struct session_sink *k)
{
    char out[512];
    while (n || flush) {
        size_t part = n < 128 ? n : 128;
        size_t m = utf8_join(&s->join, bytes, part, flush && part == n, out);
        str_append(&s->answer, out, m);
        if (m && k->text) k->text(k->ctx, out, m);
        bytes += part;
        n -= part;
        if (!n) break;
    }
}

/* *n_told: bytes of the answer that tokens stand for so far. What came out of invalid bytes is
 * another number of them, which shows when no character is pending. */
static void report_token(const struct session *s, const struct save_token *t, size_t *n_told,
                         const struct session_sink *k)
{
    size_t n = s->join.n == 0 ? s->answer.n - *n_told : t->n;
    uint16_t n_bytes = (uint16_t)(n < UINT16_MAX ? n : UINT16_MAX);
    *n_told += n;
    if (k->tokens) k->tokens(k->ctx, t->position, 1, &n_bytes);
}

/* Chooses the next token and writes it down before it is run. Vocabularies whose words begin with
 * their space begin an answer with one; it is not part of the text. */
static int choose_token(struct session *s, bool first, struct save_token *t, struct err *e)
{
    const struct engine *g = s->engine;
    t->position = s->n_tokens;
    int rc = context_draw(&s->ctx, &s->options.sampling, s->recent, s->n_recent,
                          (uint64_t)s->n_tokens, s->candidates, &t->id, e);
    if (rc) return rc;
    t->bytes = tokenizer_bytes(g->tokenizer, t->id, false, &t->n);
    bool begins = first && !s->options.raw && session_last_is(s, CHAT_USER);
    if (begins && t->n && t->bytes[0] == ' ') {
        t->bytes++;
        t->n--;
    }
    session_push(s, t->id);
    tokens_push(&s->answer_ids, t->id);
    s->answering = true;
    if (!s->save) return 0;
    if (first) return save_now(s, t, e);
    return save_answer_token(s->save, &s->ctx.cache, t, e);
}

struct finish {
    struct session *s;
    const struct session_sink *sink;
    struct err *e;
    int rc;
};

static void finish_evict(void *ctx)
{
    struct finish *f = ctx;
    f->rc = evict_now(f->s, f->sink, f->e);
}

/* With what it was drawn with at its end: that again draws it again. */
static int save_with_settings(struct session *s, struct finish *f, struct err *e)
{
    struct str settings = {0};
    options_spell(&s->options, OPTIONS_SAMPLING, &settings);
    str_printf(&settings, " --policy %s --budget %d", s->state.policy, s->state.budget);
    s->state.settings = settings.data;
    int rc = save_answer(s->save, &s->ctx.cache, state_now(s), str_get(&s->answer), s->answer.n,
                         s->answer_ids.ids, s->answer_ids.n, finish_evict, f, e);
    s->state.settings = NULL;
    str_release(&settings);
    return rc;
}

int session_finish_answer(struct session *s, const struct session_sink *k, struct err *e)
{
    struct err why = {0};
    struct finish f = {s, k, &why, 0};
    int rc = 0;
    if (!s->answering) return 0;
    context_score(&s->ctx);
    if (s->save)
        rc = save_with_settings(s, &f, e);
    else
        finish_evict(&f);
    if (rc) return rc;
    s->answering = false;
    rc = add_message(s, CHAT_ASSISTANT, s->n_tokens, e);
    return rc || !f.rc ? rc : err_set(e, f.rc, "%s", why.text);
}

static bool ends_turn(const struct session *s, int32_t id)
{
    return !s->options.ignore_end && tokenizer_is_end(s->engine->tokenizer, id);
}

static bool repeats(const struct session *s)
{
    const struct tokens *t = &s->answer_ids;
    return !s->options.ignore_end && t->n % 64 == 0 && repetition_found(t->ids, t->n);
}

static int generate(struct session *s, const struct session_sink *k, enum session_end *end,
                    struct err *e)
{
    size_t n_told = 0;
    for (int n = 0;; n++) {
        struct save_token t;
        bool room;
        int rc = choose_token(s, n == 0, &t, e);
        if (n == 0) s->first_token_ms = (double)(system_clock_ns() - s->turn_ns) / 1e6;
        if (rc) return rc;
        *end = SESSION_TURN_END;
        bool over = ends_turn(s, t.id);
        if (!over) emit(s, t.bytes, t.n, false, k);
        report_token(s, &t, &n_told, k);
        if (over) return 0;
        *end = SESSION_LENGTH;
        if (s->options.n_predict && n + 1 >= s->options.n_predict) return 0;
        *end = SESSION_REPETITION;
        if (repeats(s)) return 0;
        *end = SESSION_STOPPED;
        if (stopped(k)) return 0;
        rc = make_room_to_answer(s, k, &room, e);
        *end = SESSION_FULL;
        if (rc || !room) return rc;
        int64_t t0 = system_clock_ns();
        rc = context_run(&s->ctx, &t.id, 1, 1, e);
        if (rc) return rc;
        drop_pending(s, 1);
        s->decode_ns += system_clock_ns() - t0;
        s->n_decoded++;
    }
}

int session_run_turn(struct session *s, const struct session_sink *k, enum session_end *end,
                     struct err *e)
{
    s->turn_ns = system_clock_ns();
    s->read_ns = s->decode_ns = 0;
    s->n_read = s->n_decoded = 0;
    s->first_token_ms = 0;
    s->answer_ids.n = 0;
    str_clear(&s->answer);
    s->join = (struct utf8_join){0};
    int rc;
    *end = SESSION_TURN_END;
    /* Back at the end of a prompt all is in the cache, but the logits are gone. */
    if (s->pending.n == 0)
        rc = context_run_again(&s->ctx, s->recent[s->n_recent - 1], e);
    else
        rc = read_pending(s, k, end, e);
    if (rc || *end != SESSION_TURN_END) return rc;
    rc = generate(s, k, end, e);
    emit(s, "", 0, true, k);
    struct err ignored;
    int rc2 = session_finish_answer(s, k, rc ? &ignored : e);
    if (!rc && !rc2 && s->save) save_compact(s->save, &s->ctx.cache);
    return rc ? rc : rc2;
}

/* ---- saying ---------------------------------------------------------------------------------- */

int session_take_message(struct session *s, enum chat_role role, const char *text, size_t n,
                         const struct session_sink *k, struct err *e)
{
    const struct engine *g = s->engine;
    struct tokens ids = {0};
    bool first = s->n_tokens == 0;
    int32_t last = s->n_recent ? s->recent[s->n_recent - 1] : -1;
    int rc = 0;
    if (s->options.raw) {
        struct tokenizer_span span = {text, n, true};
        if (first && tokenizer_add_bos(g->tokenizer))
            tokens_push(&ids, tokenizer_bos(g->tokenizer));
        rc = tokenizer_encode(g->tokenizer, &span, 1, first, &ids, e);
    } else {
        if (role == CHAT_USER && !first) rc = chat_close(g->template, g->tokenizer, last, &ids, e);
        if (!rc)
            rc = chat_encode(g->template, g->tokenizer, role, text, n, first ? s->system : NULL,
                             first, &ids, e);
    }
    if (!rc && ids.n == 0)
        rc = err_set(e, ERR_USAGE, "there is nothing to say in an empty message");
    if (!rc && s->save) rc = save_message(s->save, role, text, n, ids.ids, ids.n, e);
    if (!rc)
        report_tokens(s, &(struct save_message){role, text, n, ids.ids, ids.n}, s->n_tokens, first,
                      k);
    for (size_t i = 0; !rc && i < ids.n; i++) session_push(s, ids.ids[i]);
    tokens_release(&ids);
    return rc ? rc : add_message(s, role, s->n_tokens, e);
}

int session_check_writable(const struct session *s, struct err *e)
{
    if (!s->options.read_only) return 0;
    return err_set(e, ERR_USAGE, "%s is open for reading only; a branch of it can go on", s->name);
}

int session_say(struct session *s, const char *text, size_t n, const struct session_sink *sink,
                enum session_end *end, struct err *e)
{
    int rc = session_check_writable(s, e);
    if (!rc) rc = session_finish_answer(s, sink, e);
    if (!rc) rc = session_take_message(s, CHAT_USER, text, n, sink, e);
    if (!rc) rc = session_run_turn(s, sink, end, e);
    return rc;
}

void session_set(struct session *s, const struct options *o)
{
    s->options.sampling = o->sampling;
    if (o->sampling.temperature < 0) s->options.sampling.temperature = s->engine->temperature;
    if (o->sampling.seed) s->state.seed = o->sampling.seed;
    s->options.n_predict = o->n_predict;
    s->options.ignore_end = o->ignore_end;
    session_use_attempt(s, s->state.attempt);
}

bool session_can_continue(const struct session *s)
{
    if (s->n_tokens == 0) return false;
    return session_last_is(s, CHAT_USER) || !ends_turn(s, s->recent[s->n_recent - 1]);
}

int session_continue(struct session *s, const struct session_sink *sink, enum session_end *end,
                     struct err *e)
{
    int rc = session_check_writable(s, e);
    if (!rc && !session_can_continue(s))
        rc = err_set(e, ERR_USAGE, "there is no interrupted answer to continue");
    if (!rc) rc = session_finish_answer(s, sink, e);
    return rc ? rc : session_run_turn(s, sink, end, e);
}

int session_read_taken(struct session *s, const struct session_sink *sink, struct err *e)
{
    enum session_end end;
    struct tokens last = {0};
    tokens_push(&last, s->pending.ids[s->pending.n - 1]);
    s->pending.n--;
    int rc = read_pending(s, sink, &end, e);
    tokens_push(&s->pending, last.ids[0]);
    tokens_release(&last);
    if (!rc && s->save) rc = save_now(s, NULL, e);
    if (!rc) rc = evict_now(s, sink, e);
    if (!rc && s->save) rc = save_now(s, NULL, e);
    if (!rc && end == SESSION_FULL)
        rc = err_set(e, ERR_FIT, "the context of %d units is full; choose another --policy",
                     s->ctx.plan.capacity);
    if (!rc && end == SESSION_STOPPED) rc = err_set(e, ERR_STOP, "interrupted");
    return rc;
}

int session_feed(struct session *s, const struct chat_message *messages, size_t n,
                 const struct session_sink *sink, struct err *e)
{
    int rc = session_check_writable(s, e);
    for (size_t i = 0; !rc && i < n; i++) {
        const struct chat_message *m = &messages[i];
        rc = session_take_message(s, m->role, m->text, strlen(m->text), sink, e);
    }
    return rc ? rc : session_read_taken(s, sink, e);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void notice(struct session *s, const char *text)
{
    size_t n = strlen(s->notice);
    if (*text) snprintf(s->notice + n, sizeof s->notice - n, "%s%s", n ? "\n" : "", text);
}

/* Nobody chose a policy, and there are no heads: what that means, and what would be better. */
static void advise_heads(struct session *s)
{
    char text[512];
    if (s->options.policy || s->options.heads || s->options.raw || s->engine->heads) return;
    snprintf(text, sizeof text,
             "there are no retaining heads for %s, so the policy %s chooses what is remembered; "
             "heads remember more: \"retain heads train\" makes them, \"retain heads import\" "
             "reads released ones, and --heads FILE uses them",
             s->engine->model->name, s->ctx.plan.policy->name);
    notice(s, text);
}

static void describe(struct session *s)
{
    struct save_state *st = &s->state;
    snprintf(st->model, sizeof st->model, "%s", s->engine->model_digest);
    snprintf(st->heads, sizeof st->heads, "%s", s->engine->heads_digest);
    plan_kv_text(&s->ctx.plan, st->kv);
    snprintf(st->policy, sizeof st->policy, "%s", s->ctx.plan.policy->name);
    snprintf(st->template_name, sizeof st->template_name, "%s",
             chat_template_name(s->engine->template));
    st->budget = s->ctx.plan.budget;
    st->seed = s->options.sampling.seed;
}

static int find_conversation(struct session *s, struct store *store, bool *created, struct err *e)
{
    struct store_conversation c;
    const struct options *o = &s->options;
    int found = 0;
    *created = false;
    if (o->conversation && !o->new_conversation)
        found = store_conversation_find(store, o->conversation, &c, e);
    else if (o->continue_latest)
        found = store_conversation_latest(store, &c, e);
    if (found < 0) return found;
    if (!found && o->continue_latest && !o->conversation)
        return err_set(e, ERR_FAIL, "there is no conversation to continue yet");
    if (!found && o->read_only)
        return err_set(e, ERR_USAGE,
                       "--read-only needs a saved conversation: -c NAME or --continue");
    int rc = found ? 0 : store_conversation_create(store, o->conversation, &c, e);
    if (rc) return rc;
    *created = !found;
    s->begun = !found && !o->conversation;
    s->id = c.id;
    snprintf(s->name, sizeof s->name, "%s", c.name);
    return o->read_only ? save_view(&s->save, store, c.id, e)
                        : save_open(&s->save, store, c.id, o->rewind, e);
}

struct count {
    struct session *s;
    const struct session_sink *sink;
    int64_t n_tokens;
    int rc;
    struct err *e;
};

static void count_message(void *ctx, const struct save_message *m)
{
    struct count *c = ctx;
    report_tokens(c->s, m, c->n_tokens, c->n_tokens == 0, c->sink);
    c->n_tokens += (int64_t)m->n_ids;
    if (!c->rc) c->rc = add_message(c->s, m->role, c->n_tokens, c->e);
}

/* Runs the transcript again, all but its last token, which stays pending as after an answer. */
static int replay(struct session *s, const struct session_sink *k, struct err *e)
{
    enum session_end end;
    if (s->pending.n < 2) return 0;
    int32_t last = s->pending.ids[--s->pending.n];
    s->n_reread += (int64_t)s->pending.n;
    int rc = read_pending(s, k, &end, e);
    tokens_push(&s->pending, last);
    if (!rc) rc = save_now(s, NULL, e);
    if (!rc && end == SESSION_STOPPED) rc = err_set(e, ERR_STOP, "reading again was interrupted");
    if (!rc && end == SESSION_FULL)
        rc = err_set(e, ERR_FIT,
                     "%s has %lld tokens, more than the context of %d units; choose "
                     "another --policy",
                     s->name, (long long)s->n_tokens, s->ctx.plan.capacity);
    return rc;
}

/* As save_load; what was loaded then goes to where it is computed with. */
static int load_cache(struct session *s, int64_t *n_run, struct str *why, struct err *e)
{
    int rc = save_load(s->save, &s->ctx.cache, s->engine->pool, &s->state, n_run, why, e);
    int sent = rc == 1 ? context_loaded(&s->ctx, e) : 0;
    return sent ? sent : rc;
}

/* Transcript, cache, what was not run yet. 1 = the cache could be used; 0 = *why not. */
static int load(struct session *s, const struct session_sink *k, struct str *why, struct err *e)
{
    struct tokens ids = {0};
    int64_t n_run = 0;
    struct count count = {s, k, 0, 0, e};
    int rc = save_transcript(s->save, &ids, count_message, &count, e);
    if (!rc) rc = count.rc;
    if (!rc) rc = ids.n ? load_cache(s, &n_run, why, e) : 1;
    if (rc >= 0 && n_run > (int64_t)ids.n)
        rc = err_set(e, ERR_FORMAT, "the saved cache of %s is ahead of its text; drop it", s->name);
    for (size_t i = 0; rc >= 0 && i < ids.n; i++) {
        if ((int64_t)i >= n_run) tokens_push(&s->pending, ids.ids[i]);
        if (ids.ids[i] < 0 || ids.ids[i] >= s->engine->model->n_vocab)
            rc = err_set(e, ERR_FORMAT,
                         "%s holds tokens that %s does not know; open it with the "
                         "model it was made with",
                         s->name, s->engine->model->name);
        remember(s, ids.ids[i]);
    }
    tokens_release(&ids);
    return rc;
}

/* Brings a saved conversation back. */
static int resume(struct session *s, const struct session_sink *k, struct err *e)
{
    struct str why = {0};
    int rc = load(s, k, &why, e);
    bool loaded = rc == 1;
    if (rc == 0) rc = save_drop(s->save, e);
    if (rc >= 0) rc = save_recover(s->save, &s->ctx.cache, state_now(s), e);
    if (rc >= 0 && !loaded) {
        char text[512];
        snprintf(text, sizeof text,
                 "the saved cache of %s could not be used: %s; reading %lld tokens again", s->name,
                 str_get(&why), (long long)s->n_tokens);
        notice(s, text);
        rc = replay(s, k, e);
    }
    str_release(&why);
    return rc < 0 ? rc : 0;
}

int session_reload(struct session *s, const struct session_sink *k, struct err *e)
{
    struct str why = {0};
    int64_t n_run = 0;
    int rc = load_cache(s, &n_run, &why, e);
    drop_pending(s, (size_t)n_run);
    if (rc == 0) rc = save_drop(s->save, e);
    if (rc >= 0) rc = replay(s, k, e);
    str_release(&why);
    return rc;
}

/* The same for looking, as it is at this moment: another retain may be writing it. */
static int view(struct session *s, struct store *store, const struct session_sink *k, struct err *e)
{
    struct str why = {0};
    int rc = store_begin_reading(store, e);
    if (rc) return rc;
    rc = load(s, k, &why, e);
    store_end_reading(store);
    notice(s, "open for reading only: nothing can be said here; a branch of it can go on");
    if (rc == 0) {
        char text[512];
        snprintf(text, sizeof text, "what is remembered can't be shown: %s", str_get(&why));
        notice(s, text);
    }
    str_release(&why);
    return rc < 0 ? rc : 0;
}

/* Settings that a resumed conversation keeps unless the person says otherwise. */
static int adopt_settings(struct session *s, char policy[32], char budget[16], struct err *e)
{
    struct save_state saved;
    bool found;
    int rc = save_state(s->save, &saved, &found, e);
    if (rc || !found) return rc;
    if (!s->options.policy && policy_named(saved.policy)) {
        snprintf(policy, 32, "%s", saved.policy);
        s->options.policy = policy;
    }
    if (!s->options.budget && saved.budget >= 16) {
        snprintf(budget, 16, "%d", saved.budget);
        s->options.budget = budget;
    }
    if (!s->options.sampling.seed) s->options.sampling.seed = saved.seed;
    s->state.attempt = saved.attempt;
    s->system = saved.system;
    return 0;
}

int session_open(struct session **out, struct engine *g, struct conversations *l,
                 const struct options *o, const struct session_sink *sink, struct err *e)
{
    struct session *s = calloc(1, sizeof *s);
    struct store *store = l && !o->private_mode ? conversations_store(l) : NULL;
    const struct session_sink silent = {0};
    char policy[32], budget[16];
    bool created = true;
    *out = NULL;
    if (!s) return err_set(e, ERR_FAIL, "out of memory for a conversation");
    s->engine = g;
    s->options = *o;
    snprintf(s->name, sizeof s->name, "private");
    int rc = store ? find_conversation(s, store, &created, e) : 0;
    if (!rc && !created) rc = adopt_settings(s, policy, budget, e);
    if (s->options.sampling.temperature < 0) s->options.sampling.temperature = g->temperature;
    if (!s->options.sampling.seed) s->options.sampling.seed = (uint64_t)system_clock_ns() | 1;
    if (!rc) rc = context_open(&s->ctx, g, &s->options, 1, e);
    if (rc) goto fail;
    s->candidates = malloc((size_t)g->model->n_vocab * sizeof *s->candidates);
    if (!s->candidates) rc = err_set(e, ERR_FAIL, "out of memory for the sampler");
    if (rc) goto fail;
    if (!o->raw) notice(s, g->notice);
    notice(s, g->device_notice);
    notice(s, s->ctx.plan.notice);
    advise_heads(s);
    describe(s);
    session_use_attempt(s, s->state.attempt);
    if (!created)
        rc = o->read_only ? view(s, store, sink ? sink : &silent, e)
                          : resume(s, sink ? sink : &silent, e);
    if (rc) goto fail;
    if (o->system && s->n_tokens == 0) {
        free(s->system);
        s->system = strdup(o->system);
        if (!s->system) rc = err_set(e, ERR_FAIL, "out of memory for a conversation");
    }
    if (rc) goto fail;
    s->state.system = s->system;
    if (store && o->disk && !o->read_only) rc = store_cache_trim(store, o->disk, s->id, e);
    if (rc) goto fail;
    s->options.policy = s->options.budget = NULL; /* they pointed to this stack frame */
    *out = s;
    return 0;
fail:
    session_close(s);
    return rc;
}

void session_close(struct session *s)
{
    if (!s) return;
    if (s->begun && s->save && s->n_turns == 0) save_forget_empty(s->save, s->name);
    save_close(s->save);
    context_release(&s->ctx);
    free(s->candidates);
    free(s->system);
    free(s->messages);
    tokens_release(&s->pending);
    tokens_release(&s->answer_ids);
    str_release(&s->answer);
    free(s);
}

/* ---- names ----------------------------------------------------------------------------------- */

const char *session_name(const struct session *s)
{
    return s->name;
}

const char *session_notice(const struct session *s)
{
    return s->notice;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static double per_second(int64_t n, int64_t ns)
{
    return ns > 0 ? (double)n * 1e9 / (double)ns : 0.0;
}

int session_count_tokens(const struct session *s, const char *text, size_t n, int64_t *out,
                         struct err *e)
{
    struct tokens ids = {0};
    struct tokenizer_span span = {text, n, false};
    int rc = tokenizer_encode(s->engine->tokenizer, &span, 1, false, &ids, e);
    *out = (int64_t)ids.n;
    tokens_release(&ids);
    return rc;
}

void session_stats(const struct session *s, struct session_stats *out)
{
    const struct model *m = s->engine->model;
    const struct cache *c = &s->ctx.cache;
    *out = (struct session_stats){
        .n_layer = m->n_layer,
        .n_kv_head = m->n_kv_head,
        .budget = s->ctx.plan.budget,
        .n_tokens = s->n_tokens,
        .n_turns = s->n_turns,
        .n_reread = s->n_reread,
        .units_kept = cache_units(c),
        .units_seen = c->n_pos * m->n_layer * m->n_kv_head,
        .units_evicted = c->n_evicted,
        .unit_bytes = (int64_t)s->ctx.plan.unit_bytes,
        .weights_bytes = (int64_t)(s->ctx.plan.weights_bytes + s->ctx.plan.heads_bytes),
        .cache_bytes = (int64_t)s->ctx.plan.cache_bytes,
        .scratch_bytes = (int64_t)s->ctx.plan.scratch_bytes,
        .process_bytes = system_process_bytes(),
        .process_peak_bytes = system_process_peak_bytes(),
        .machine_bytes = system_memory_bytes(),
        .prefill_tok_s = per_second(s->n_read, s->read_ns),
        .decode_tok_s = per_second(s->n_decoded, s->decode_ns),
        .first_token_ms = s->first_token_ms,
        .bytes_per_token = context_bytes_per_token(&s->ctx),
    };
    out->cache_used_bytes = out->units_kept * out->unit_bytes;
    snprintf(out->model, sizeof out->model, "%s", m->name);
    snprintf(out->weights, sizeof out->weights, "%s", m->type);
    plan_kv_text(&s->ctx.plan, out->kv);
    snprintf(out->policy, sizeof out->policy, "%s", s->ctx.plan.policy->name);
    engine_device_name(s->engine, out->device, sizeof out->device);
}

struct retention *retention_new(const struct session *s)
{
    const struct cache_shape *shape = &s->ctx.cache.shape;
    size_t n = (size_t)(shape->n_layer * shape->n_head) * RETENTION_COLS;
    struct retention *r = calloc(1, sizeof *r);
    if (r) r->kept = calloc(n, sizeof *r->kept);
    if (r && r->kept) return r;
    free(r);
    return NULL;
}

void retention_free(struct retention *r)
{
    if (r) free(r->kept);
    free(r);
}

void session_retention(const struct session *s, struct retention *out)
{
    const struct cache *c = &s->ctx.cache;
    const struct cache_shape *shape = &c->shape;
    out->n_layer = shape->n_layer;
    out->n_head = shape->n_head;
    out->n_pos = c->n_pos;
    out->col_width = c->col_width;
    out->n_cols = (int)((c->n_pos + c->col_width - 1) / c->col_width);
    out->n_evictions = c->n_evictions;
    out->n_sink = s->ctx.plan.sinks;
    out->n_stabilizer = s->ctx.plan.stabilizers;
    memcpy(out->kept, c->kept,
           (size_t)(shape->n_layer * shape->n_head) * RETENTION_COLS * sizeof *out->kept);
}

void session_kept(const struct session *s, int64_t pos, int n, uint16_t *out)
{
    const struct cache *c = &s->ctx.cache;
    memset(out, 0, (size_t)n * sizeof *out);
    for (int i = 0; i < c->shape.n_layer * c->shape.n_head; i++)
        cache_count(&c->kv_heads[i], pos, n, out);
}

void session_scores(const struct session *s, int64_t pos, float *out)
{
    const struct cache *c = &s->ctx.cache;
    for (int i = 0; i < c->shape.n_layer * c->shape.n_head; i++) {
        int slot = cache_find(&c->kv_heads[i], pos);
        out[i] = slot < 0 ? NAN : c->kv_heads[i].score[slot];
    }
}

const struct cache *session_cache(const struct session *s)
{
    return &s->ctx.cache;
}

const float *session_logits(const struct session *s, int *n_vocab)
{
    *n_vocab = s->engine->model->n_vocab;
    return s->ctx.forward.logits;
}
