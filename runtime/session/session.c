#include "runtime/session/session_parts.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/decimal.h"
#include "base/memory.h"
#include "base/system.h"
#include "runtime/forward/engine.h"
#include "runtime/session/repetition.h"
#include "runtime/token/token_text.h"

/* Tokens of a prompt that are run after the last eviction (Locret's n_loc): the question itself
 * must not be evicted before it is answered. */
#define LOCAL_TOKENS 100

const struct session_sink session_silent;

/* ---- small things ---------------------------------------------------------------------------- */

void session_remember(struct session *s, int32_t id)
{
    if (s->n_recent == SAMPLER_HISTORY) {
        memmove(s->recent, s->recent + 1, (SAMPLER_HISTORY - 1) * sizeof *s->recent);
        s->n_recent--;
    }
    s->recent[s->n_recent++] = id;
    s->n_tokens++;
    speculate_add(s->speculate, id);
}

void session_push(struct session *s, int32_t id)
{
    tokens_push(&s->pending, id);
    session_remember(s, id);
}

void session_drop_pending(struct session *s, size_t n)
{
    memmove(s->pending.ids, s->pending.ids + n, (s->pending.n - n) * sizeof *s->pending.ids);
    s->pending.n -= n;
}

/* A private conversation cannot be rewound: only its last message is kept, so memory does not
 * grow. */
void session_add_message(struct session *s, enum chat_role role, int64_t end, int64_t created_ms)
{
    if (!s->save) s->n_messages = 0;
    s->messages = memory_more(s->messages, s->n_messages, &s->messages_max, sizeof *s->messages);
    if (!created_ms) created_ms = (int64_t)time(NULL) * 1000;
    s->messages[s->n_messages++] = (struct session_message){role, end, created_ms};
    s->n_turns += role == CHAT_USER;
}

void session_use_attempt(struct session *s, uint64_t attempt)
{
    s->state.attempt = attempt;
    s->opts.sampling.seed = s->state.seed + attempt * 0x9e3779b97f4a7c15u;
}

static bool stopped(const struct session_sink *k)
{
    return k->stop && k->stop(k->ctx);
}

const struct save_state *session_state_now(struct session *s)
{
    s->state.n_run = s->ctx.cache.n_pos;
    if (!recall_is_aside(&s->ctx.cache)) s->state.aside.n = 0;
    return &s->state;
}

static int save_read_chunk(struct session *s, struct err *e)
{
    context_score(&s->ctx);
    int rc = save_chunk(s->save, &s->ctx.cache, session_state_now(s), e);
    if (!rc) save_compact(s->save, &s->ctx.cache); /* a turn may be very long */
    return rc;
}

int session_save_now(struct session *s, const struct save_token *first, struct err *e)
{
    context_score(&s->ctx);
    int rc = save_units(s->save, &s->ctx.cache, session_state_now(s), first, e);
    if (!rc && !first) save_compact(s->save, &s->ctx.cache); /* a turn may be very long */
    return rc;
}

const char *session_before(const struct session *s, const struct store_message *m)
{
    const struct engine *g = s->engine;
    if (s->opts.raw) return "";
    if (m->thought.n && g->thoughts) return thought_before_answer(g->thoughts);
    return chat_before(g->template, m->role, m->position == 0 && s->state.system);
}

uint16_t *session_align(const struct session *s, const struct store_message *m)
{
    uint16_t *n_bytes = memory_grow(NULL, m->n_tokens + 1, sizeof *n_bytes);
    token_text_align(s->engine->tokenizer, m->tokens, m->n_tokens, session_before(s, m), m->text,
                     m->n_text, n_bytes);
    return n_bytes;
}

bool session_keeps_all(const struct session *s)
{
    return s->ctx.plan.policy->scorer == POLICY_KEEP_ALL;
}

/* ---- eviction -------------------------------------------------------------------------------- */

/* What returns for an answer is back before the eviction is told: it was not lost. */
static int evict_now(struct session *s, bool answers, const struct session_sink *k, struct err *e)
{
    int64_t n_evicted = 0;
    int rc = 0;
    if (!s->save) {
        context_score(&s->ctx);
        rc = session_recall_keep(s, e);
    }
    if (!rc) rc = context_evict(&s->ctx, &n_evicted, e);
    if (!rc && answers) rc = session_recall_again(s, e);
    if (!rc && n_evicted && k->evicted) k->evicted(k->ctx, n_evicted, s->n_tokens);
    return rc;
}

/* Evicts units that may not be saved yet: they are saved first, because segments are complete.
 * What returns for an answer is saved with it, so that a kill leaves both or neither. */
static int evict_saved(struct session *s, const struct session_sink *k, struct err *e)
{
    int rc = s->save ? session_save_now(s, NULL, e) : 0;
    if (!rc) rc = evict_now(s, true, k, e);
    return rc || !s->save ? rc : session_save_now(s, NULL, e);
}

/* Makes room for one generated token. Evicting inside an answer makes it run on, so eviction waits
 * until the reserve is used up. */
static int make_room_to_answer(struct session *s, const struct session_sink *k, bool *ok,
                               struct err *e)
{
    *ok = cache_room(&s->ctx.cache) > 0;
    if (*ok || session_keeps_all(s)) return 0;
    *ok = true;
    return evict_saved(s, k, e);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Whether only tokens of an answer that a kill interrupted are pending. */
static bool continues_answer(const struct session *s)
{
    return s->n_killed && (int64_t)s->pending.n <= s->n_killed;
}

/* Size of the next chunk; the final chunk keeps at least LOCAL_TOKENS tokens. The tokens of an
 * answer that a kill interrupted use up the room first, as they did before. */
static int next_chunk(const struct session *s)
{
    int chunk = s->ctx.plan.chunk, left = (int)s->pending.n, room = cache_room(&s->ctx.cache);
    int local = LOCAL_TOKENS < chunk / 2 ? LOCAL_TOKENS : chunk / 2;
    if (s->n_killed && room > 0 && room < left && room <= chunk) return room;
    if (left <= chunk) return left;
    return left - chunk < local ? left - local : chunk;
}

/* Evicts before the next n pending tokens are run: as inside the answer if they continue one that a
 * kill interrupted, and if that was not done and saved before the kill. */
static int make_room_to_read(struct session *s, int n, const struct session_sink *k, struct err *e)
{
    const bool room = cache_room(&s->ctx.cache) >= n;
    if (!continues_answer(s)) return room && s->n_killed ? 0 : evict_now(s, false, k, e);
    return room || session_keeps_all(s) ? 0 : evict_saved(s, k, e);
}

int session_read_pending(struct session *s, bool answers, const struct session_sink *k,
                         enum session_end *end, struct err *e)
{
    int64_t total = (int64_t)s->pending.n, done = 0;
    while (s->pending.n) {
        int n = next_chunk(s), rc = 0;
        bool stop = stopped(k);
        if (!stop) rc = make_room_to_read(s, n, k, e);
        if (rc) return rc;
        if (stop || cache_room(&s->ctx.cache) < n) {
            *end = stop ? SESSION_STOPPED : SESSION_FULL;
            return 0;
        }
        bool last = n == (int)s->pending.n;
        if (last && answers) rc = session_recall_bring(s, n, k, e);
        if (rc) return rc;
        int64_t t0 = system_clock_ns();
        rc = context_run(&s->ctx, s->pending.ids, n, last, e);
        if (rc) return rc;
        s->read_ns += system_clock_ns() - t0;
        s->n_read += n;
        session_recall_ran(s, n);
        session_drop_pending(s, (size_t)n);
        done += n;
        if (k->progress) k->progress(k->ctx, done, total);
        if (!last && s->save) rc = save_read_chunk(s, e);
        if (rc) return rc;
    }
    *end = SESSION_TURN_END;
    return 0;
}

/* ---- answering ------------------------------------------------------------------------------- */

/* Adds bytes to the answer or to its thought, as whole characters. */
static void emit(struct session *s, const char *bytes, size_t n, bool flush, bool thought,
                 const struct session_sink *k)
{
    char out[512];
    while (n || flush) {
        size_t part = n < 128 ? n : 128;
        struct utf8_join *join = thought ? &s->thought_join : &s->join;
        size_t m = utf8_join(join, bytes, part, flush && part == n, out);
        str_append(thought ? &s->thought : &s->answer, out, m);
        if (m && thought && k->thought) k->thought(k->ctx, out, m, 0, 0);
        if (m && !thought && k->text) k->text(k->ctx, out, m);
        bytes += part;
        n -= part;
        if (!n) break;
    }
}

/* Leaves in *answer what certainly belongs to the answer, of the bytes held before and these. */
static void hold_back(struct session *s, struct str *answer, bool flush)
{
    struct str *held = &s->held;
    str_append(held, str_get(answer), answer->n);
    size_t n = 0;
    if (!s->text_ended) n = chat_stop(str_get(held), held->n, &s->text_ended);
    if (flush && !s->text_ended) n = held->n;
    str_clear(answer);
    str_append(answer, str_get(held), n);
    if (n) memmove(held->data, held->data + n, held->n - n);
    held->n -= n;
}

/* Emits the bytes heard last. Where the answer begins, the thought is complete. */
static void emit_heard(struct session *s, bool flush, const struct session_sink *k)
{
    struct str *thought = &s->heard[0], *answer = &s->heard[1];
    const int64_t n_thought = session_turn_thought(s) - s->n_unthought;
    bool begins = n_thought > 0 && s->thought_ms == 0 && answer->n;
    emit(s, str_get(thought), thought->n, flush || begins, true, k);
    if (begins || (flush && s->thought.n && s->thought_ms == 0)) {
        s->thought_ms = (double)(system_clock_ns() - s->thought_ns) / 1e6;
        if (s->thought.n && k->thought) k->thought(k->ctx, "", 0, n_thought, s->thought_ms);
    }
    if (!s->opts.raw && chat_ends_with_text(s->engine->template)) hold_back(s, answer, flush);
    emit(s, str_get(answer), answer->n, flush, false, k);
    str_clear(thought);
    str_clear(answer);
}

static void hear(struct session *s, const struct save_token *t, const struct session_sink *k)
{
    session_turn_token(s, t->id, t->bytes, t->n, &s->heard[0], &s->heard[1]);
    emit_heard(s, false, k);
}

/* *n_told: bytes of the answer reported for tokens so far. Replaced invalid bytes change their
 * number, which is corrected when no character is incomplete. */
static void report_token(const struct session *s, const struct save_token *t, size_t *n_told,
                         const struct session_sink *k)
{
    size_t n = s->join.n == 0 ? s->answer.n - *n_told : t->n;
    uint16_t n_bytes = (uint16_t)(n < UINT16_MAX ? n : UINT16_MAX);
    *n_told += n;
    if (k->tokens) k->tokens(k->ctx, t->position, 1, &n_bytes);
}

/* The first token ends the transaction that replaces an answer, too. If that fails, the old answer
 * is still there and the new one does not begin. */
static int save_token(struct session *s, bool first, const struct save_token *t, struct err *e)
{
    if (!s->save) return 0;
    if (!first) return save_answer_token(s->save, &s->ctx.cache, t, e);
    int rc = session_save_now(s, t, e);
    if (!s->holds) return rc;
    rc = store_release(save_store(s->save), rc, e);
    s->holds = false;
    s->must_reopen = rc != 0;
    s->answering = rc == 0;
    return rc;
}

/* Chooses the next token. The penalty looks at the answer alone: what the question repeats is
 * often what must be said. Vocabularies whose words begin with a space begin an answer with one; it
 * is not part of the text. */
static int choose_token(struct session *s, bool first, struct save_token *t, struct err *e)
{
    const struct engine *g = s->engine;
    struct sampling how = s->opts.sampling;
    int64_t n_answer = s->n_killed + (int64_t)s->answer_ids.n;
    if (how.repeat_last > n_answer) how.repeat_last = (int)n_answer;
    t->position = s->n_tokens;
    int rc = context_draw(&s->ctx, &how, s->recent, s->n_recent, (uint64_t)s->n_tokens,
                          s->candidates, &t->id, e);
    if (rc) return rc;
    t->bytes = tokenizer_bytes(g->tokenizer, t->id, false, &t->n);
    bool begins = first && !s->opts.raw && session_last_is(s, CHAT_USER);
    if (begins && t->n && t->bytes[0] == ' ') {
        t->bytes++;
        t->n--;
    }
    session_push(s, t->id);
    tokens_push(&s->answer_ids, t->id);
    s->answering = true;
    return 0;
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
    if (!f->s->save) f->rc = session_recall_keep(f->s, f->e);
    bool over = session_turn_is_over(f->s, f->s->recent[f->s->n_recent - 1]);
    if (!f->rc && over) f->rc = session_turn_evict(f->s, f->sink, f->e);
    if (!f->rc) f->rc = evict_now(f->s, false, f->sink, f->e);
}

/* The answer's settings as command-line options that generate it again. */
static void spell_settings(const struct session *s, struct str *out)
{
    const struct sampling *p = &s->opts.sampling;
    str_puts(out, "--temp ");
    decimal_print(out, p->temperature);
    str_printf(out, " --top-k %d --top-p ", p->top_k);
    decimal_print(out, p->top_p);
    str_puts(out, " --min-p ");
    decimal_print(out, p->min_p);
    str_puts(out, " --repeat-penalty ");
    decimal_print(out, p->repeat_penalty);
    str_printf(out, " --repeat-last %d --seed %llu --max-tokens %d", p->repeat_last,
               (unsigned long long)p->seed, s->opts.max_tokens);
    if (s->opts.ignore_end) str_puts(out, " --ignore-end");
    str_printf(out, " --policy %s --budget %d", s->state.policy, s->state.budget);
}

/* Saves the answer with its settings. */
static int save_with_settings(struct session *s, struct finish *f, struct err *e)
{
    struct str settings = {0};
    spell_settings(s, &settings);
    struct store_message m = {.role = CHAT_ASSISTANT,
                              .text = str_get(&s->answer),
                              .n_text = s->answer.n,
                              .tokens = s->answer_ids.ids,
                              .n_tokens = s->answer_ids.n,
                              .settings = settings.data};
    if (s->thought.n)
        m.thought = (struct store_thought){.text = s->thought.data,
                                           .n = s->thought.n,
                                           .n_tokens = session_turn_thought(s) - s->n_unthought,
                                           .ms = (int64_t)s->thought_ms};
    int rc = save_answer(s->save, &s->ctx.cache, session_state_now(s), &m, finish_evict, f, e);
    str_release(&settings);
    return rc;
}

int session_finish_answer(struct session *s, const struct session_sink *k, struct err *e)
{
    struct err why = {0};
    struct finish f = {s, k, &why, 0};
    if (!s->answering) return 0;
    context_score(&s->ctx);
    int rc = context_put_back(&s->ctx, e);
    if (rc) return rc;
    if (s->save)
        rc = save_with_settings(s, &f, e);
    else
        finish_evict(&f);
    if (rc) return rc;
    s->answering = false;
    session_add_message(s, CHAT_ASSISTANT, s->n_tokens, 0);
    return f.rc ? err_set(e, f.rc, "%s", why.text) : 0;
}

bool session_ends_turn(const void *session, int32_t id)
{
    const struct session *s = session;
    return !s->opts.ignore_end && session_turn_is_over(s, id);
}

static bool repeats(const struct session *s)
{
    const struct tokens *t = &s->answer_ids;
    return !s->opts.ignore_end && t->n % 16 == 0 && repetition_found(t->ids, t->n);
}

/* 0 = none */
static int64_t answer_limit(const struct session *s)
{
    if (s->opts.max_tokens || s->opts.ignore_end) return s->opts.max_tokens;
    return SESSION_ANSWER_MAX;
}

static int generate(struct session *s, const struct session_sink *k, enum session_end *end,
                    struct err *e)
{
    size_t n_told = 0;
    int64_t left = answer_limit(s) - s->n_killed; /* 0 = no limit */
    if (left <= 0) left = answer_limit(s);
    for (int n = 0;; n++) {
        struct save_token t;
        bool room;
        int rc = choose_token(s, n == 0, &t, e);
        if (n == 0) s->thought_ns = system_clock_ns();
        if (n == 0) s->first_token_ms = (double)(s->thought_ns - s->turn_ns) / 1e6;
        if (rc) return rc;
        rc = save_token(s, n == 0, &t, e); /* before it is run */
        if (rc && !s->answering) return rc;
        *end = SESSION_TURN_END;
        bool over = session_ends_turn(s, t.id);
        if (over) t.n = 0;
        hear(s, &t, k); /* the answer has it even if this save failed */
        report_token(s, &t, &n_told, k);
        if (rc || over || s->text_ended) return rc;
        *end = SESSION_LENGTH;
        if (left && n + 1 >= left) return 0;
        *end = SESSION_REPETITION;
        if (repeats(s)) return 0;
        *end = SESSION_STOPPED;
        if (stopped(k)) return 0;
        rc = make_room_to_answer(s, k, &room, e);
        *end = SESSION_FULL;
        if (rc || !room) return rc;
        int64_t t0 = system_clock_ns();
        rc = s->speculate ? speculate_run(s->speculate, t.id, &s->proposals, e)
                          : context_run(&s->ctx, &t.id, 1, 1, e);
        if (rc) return rc;
        session_recall_ran(s, 1);
        session_drop_pending(s, 1);
        s->decode_ns += system_clock_ns() - t0;
        s->n_decoded++;
    }
}

/* Reads and saves what is pending; its last token is run with the next message. */
static int read_all_but_last(struct session *s, const struct session_sink *k, enum session_end *end,
                             struct err *e)
{
    int32_t last = s->pending.ids[--s->pending.n];
    int rc = session_read_pending(s, false, k, end, e);
    tokens_push(&s->pending, last);
    return !rc && s->save ? session_save_now(s, NULL, e) : rc;
}

int session_run_turn(struct session *s, const struct session_sink *k, enum session_end *end,
                     struct err *e)
{
    s->turn_ns = system_clock_ns();
    s->read_ns = s->decode_ns = 0;
    s->n_read = s->n_decoded = 0;
    s->proposals = (struct speculate_counts){0};
    s->first_token_ms = 0;
    s->answer_ids.n = 0;
    str_clear(&s->answer);
    str_clear(&s->thought);
    s->join = s->thought_join = (struct utf8_join){0};
    str_clear(&s->held);
    s->text_ended = false;
    s->n_unthought = session_turn_thought(s);
    s->thought_ms = 0;
    int rc = 0;
    /* A kill between the last token that the limit allows and the end of the answer. */
    const bool whole = s->n_killed && s->n_killed == s->opts.max_tokens && s->pending.n > 0;
    *end = SESSION_TURN_END;
    /* After rewinding to the end of a prompt the cache is complete, but there are no logits. */
    if (whole)
        rc = read_all_but_last(s, k, end, e);
    else if (s->pending.n == 0)
        rc = context_run_again(&s->ctx, s->recent[s->n_recent - 1], e);
    else
        rc = session_read_pending(s, s->opts.begin || session_last_is(s, CHAT_USER), k, end, e);
    if (rc || *end != SESSION_TURN_END) return rc;
    if (whole)
        *end = SESSION_LENGTH;
    else
        rc = generate(s, k, end, e);
    s->n_killed = 0;
    session_turn_end_thought(s);
    emit_heard(s, true, k);
    session_turn_said(s);
    struct err ignored;
    int rc2 = session_finish_answer(s, k, rc ? &ignored : e);
    if (!rc && !rc2 && s->save) save_compact(s->save, &s->ctx.cache);
    CHECK(session_check(s));
    return rc ? rc : rc2;
}

/* ---- saying ---------------------------------------------------------------------------------- */

int session_encode(const struct session *s, enum chat_role role, const char *text, size_t n,
                   int32_t last, struct tokens *ids, struct err *e)
{
    const struct engine *g = s->engine;
    bool first = last < 0;
    int rc;
    if (s->opts.raw) {
        struct tokenizer_span span = {text, n, true};
        if (first && tokenizer_add_bos(g->tokenizer)) tokens_push(ids, tokenizer_bos(g->tokenizer));
        rc = tokenizer_encode(g->tokenizer, &span, 1, first, ids, e);
    } else {
        struct chat_turn turn = {.role = role,
                                 .text = text,
                                 .n = n,
                                 .system = s->state.system,
                                 .first = first,
                                 .last = last,
                                 .think = s->opts.think};
        rc = chat_encode(g->template, g->tokenizer, &turn, ids, e);
    }
    return rc || ids->n ? rc : err_set(e, ERR_USAGE, "the message is empty");
}

void session_push_message(struct session *s, const struct store_message *m,
                          const struct session_sink *k)
{
    struct store_message placed = *m;
    placed.position = s->n_tokens;
    session_follow(s, &placed, k);
    for (size_t i = 0; i < m->n_tokens; i++) session_push(s, m->tokens[i]);
    session_add_message(s, m->role, s->n_tokens, m->created_ms);
}

/* What the message makes of the turn before it goes first, so that a crash in between repeats
 * it. */
int session_take_message(struct session *s, enum chat_role role, const char *text, size_t n,
                         const struct session_sink *k, struct err *e)
{
    struct tokens ids = {0};
    s->n_killed = 0;
    struct session_change change = {.last = s->n_tokens ? s->recent[s->n_recent - 1] : -1};
    int rc = role == CHAT_USER ? session_turn_change(s, &change, e) : 0;
    for (size_t i = 0; i < change.again.n; i++) tokens_push(&ids, change.again.ids[i]);
    if (!rc) rc = session_encode(s, role, text, n, change.last, &ids, e);
    if (!rc) rc = session_turn_apply(s, &change, k, e);
    struct store_message m = {
        .role = role, .text = text, .n_text = n, .tokens = ids.ids, .n_tokens = ids.n};
    if (!rc && s->save) rc = save_message(s->save, &m, e);
    if (!rc) session_push_message(s, &m, k);
    tokens_release(&ids);
    tokens_release(&change.again);
    return rc;
}

int session_check_turn(const struct session *s, int64_t turn, int64_t least, struct err *e)
{
    if (!s->save) return err_set(e, ERR_USAGE, "a private conversation does not keep its turns");
    if (turn >= least && turn <= s->n_turns) return 0;
    return err_set(e, ERR_USAGE, "there is no turn %lld; the last one is %lld", (long long)turn,
                   (long long)s->n_turns);
}

int session_say(struct session *s, const char *text, size_t n, const struct session_sink *sink,
                enum session_end *end, struct err *e)
{
    int rc = session_finish_answer(s, sink, e);
    if (!rc) rc = session_marks_settle(s, sink, e);
    if (!rc) rc = session_take_message(s, CHAT_USER, text, n, sink, e);
    const char *begin = s->opts.begin;
    if (!rc && begin) rc = session_take_message(s, CHAT_ASSISTANT, begin, strlen(begin), sink, e);
    if (!rc) rc = session_run_turn(s, sink, end, e);
    return rc;
}

void session_keep(struct session *s, const char *settings)
{
    char *copy = settings ? strdup(settings) : NULL;
    if (!copy) return;
    free(s->state.kept);
    s->state.kept = copy;
}

void session_set(struct session *s, const struct session_opts *o)
{
    s->opts.sampling = o->sampling;
    sampling_complete(&s->opts.sampling, &s->engine->sampling);
    if (o->sampling.seed) s->state.seed = o->sampling.seed;
    s->opts.max_tokens = o->max_tokens;
    s->opts.ignore_end = o->ignore_end;
    s->opts.think = o->think;
    s->opts.keep_thoughts = o->keep_thoughts;
    session_keep(s, o->kept);
    session_use_attempt(s, s->state.attempt);
}

bool session_can_continue(const struct session *s)
{
    if (s->n_tokens == 0) return false;
    return session_last_is(s, CHAT_USER) || !session_ends_turn(s, s->recent[s->n_recent - 1]);
}

/* As its tokens tell: the reason is not saved. */
enum session_end session_ended(const struct session *s)
{
    const int64_t limit = answer_limit(s);
    if (!session_can_continue(s)) return SESSION_TURN_END;
    const struct session_message *m = s->messages + s->n_messages;
    size_t n = s->answer_ids.n, n_turn;
    const int32_t *ids = session_turn_ids(s, &n_turn);
    if (!n && s->n_messages > 1) n = (size_t)(m[-1].end - m[-2].end);
    if (n && (int64_t)n == limit) return SESSION_LENGTH;
    bool looped = n <= n_turn && repetition_found(ids + n_turn - n, n);
    return looped ? SESSION_REPETITION : SESSION_STOPPED;
}

int session_continue(struct session *s, const struct session_sink *sink, enum session_end *end,
                     struct err *e)
{
    if (!session_can_continue(s))
        return err_set(e, ERR_USAGE, "there is no interrupted answer to continue");
    int rc = session_finish_answer(s, sink, e);
    if (!rc) rc = session_marks_settle(s, sink, e);
    return rc ? rc : session_run_turn(s, sink, end, e);
}

int session_all_read(const struct session *s, enum session_end how, struct err *e)
{
    if (how == SESSION_STOPPED) return err_set(e, ERR_STOP, "reading %s was interrupted", s->name);
    if (how != SESSION_FULL) return 0;
    return err_set(e, ERR_FIT,
                   "%s has %lld tokens, more than the context of %d units; choose another --policy",
                   s->name, (long long)s->n_tokens, s->ctx.plan.capacity);
}

int session_read_taken(struct session *s, const struct session_sink *sink, struct err *e)
{
    enum session_end end;
    int rc = read_all_but_last(s, sink, &end, e);
    if (!rc) rc = evict_now(s, false, sink, e);
    if (!rc && s->save) rc = session_save_now(s, NULL, e);
    return rc ? rc : session_all_read(s, end, e);
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

int session_feed(struct session *s, const struct chat_message *messages, size_t n,
                 const struct session_sink *sink, struct err *e)
{
    int rc = session_marks_settle(s, sink, e);
    for (size_t i = 0; !rc && i < n; i++) {
        const struct chat_message *m = &messages[i];
        rc = session_take_message(s, m->role, m->text, strlen(m->text), sink, e);
    }
    return rc ? rc : session_read_taken(s, sink, e);
}
