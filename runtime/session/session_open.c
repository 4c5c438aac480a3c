#include "runtime/session/session_parts.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/system.h"
#include "runtime/forward/engine.h"
#include "runtime/save/conversations.h"
#include "runtime/save/readings.h"

struct session_opts session_opts_default(void)
{
    return (struct session_opts){
        .plan = plan_opts_default(),
        .sampling = sampling_unset(),
        .recall = {.chooser = RECALL_WORDS, .n_windows = RECALL_WINDOWS_DEFAULT},
        .rewind = SESSION_REWIND_DEFAULT,
    };
}

/* ---- notices --------------------------------------------------------------------------------- */

static void notice(struct session *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void notice(struct session *s, const char *fmt, ...)
{
    size_t n = strlen(s->notice);
    va_list args;
    if (n && n + 1 < sizeof s->notice) s->notice[n++] = '\n';
    va_start(args, fmt);
    vsnprintf(s->notice + n, sizeof s->notice - n, fmt, args);
    va_end(args);
}

static void notice_if(struct session *s, const char *text)
{
    if (*text) notice(s, "%s", text);
}

static void notice_all(struct session *s)
{
    const struct chat_template *c = s->engine->template;
    if (!s->opts.raw && !chat_knows(c, s->opts.think))
        notice_if(s, chat_unknown_think(c, s->opts.think));
    if (!s->opts.raw) notice_if(s, s->engine->notice);
    notice_if(s, s->engine->device_notice);
    notice_if(s, s->ctx.plan.notice);
}

/* ---- finding --------------------------------------------------------------------------------- */

static int find_conversation(struct session *s, struct store *store, bool *created, struct err *e)
{
    struct store_conversation c;
    const struct session_opts *o = &s->opts;
    int found = 0;
    *created = false;
    if (o->conversation && !o->new_conversation)
        found = store_conversation_find(store, o->conversation, &c, e);
    else if (o->continue_latest)
        found = store_conversation_latest(store, &c, e);
    if (found < 0) return found;
    if (!found && o->continue_latest && !o->conversation)
        return err_set(e, ERR_FAIL, "there is no conversation to continue yet");
    int rc = found ? 0 : store_conversation_create(store, o->conversation, &c, e);
    if (rc == ERR_USAGE && o->conversation &&
        !o->new_conversation) { /* another retain was faster */
        found = store_conversation_find(store, o->conversation, &c, e);
        rc = found > 0 ? 0 : rc;
    }
    if (rc) return rc;
    *created = !found;
    s->begun = !found && !o->conversation;
    s->id = c.id;
    snprintf(s->name, sizeof s->name, "%s", c.name);
    return save_open(&s->save, store, c.id, o->rewind, e);
}

/* The policy of a resumed conversation, NULL = the default: if nobody chose it, heads that the
 * model has got since then replace it (context_can_adopt). */
static const struct policy *adopt_policy(const struct engine *g, const char *saved)
{
    return retaining_can_adopt(g->retaining, g->gpu) && !strcmp(saved, policy_default(false, false))
               ? NULL
               : policy_named(saved);
}

/* Settings that a resumed conversation keeps unless the user chooses others. */
static int adopt_settings(struct session *s, struct err *e)
{
    struct plan_opts *p = &s->opts.plan;
    struct save_state saved;
    bool found;
    int rc = save_state_of(save_store(s->save), s->id, &saved, &found, e);
    if (rc || !found) return rc;
    if (saved.n_lost) {
        notice(s,
               "the last %lld messages of this conversation are missing: another program removed "
               "them from the database",
               (long long)saved.n_lost);
        rc = store_cache_drop(save_store(s->save), s->id, e); /* it is ahead of the text */
        if (rc) return rc;
    }
    /* of another model, they would be its own */
    bool same = !strcmp(saved.model, s->engine->model_digest);
    s->other_model = !same;
    if (same && !p->policy.row) p->policy.row = adopt_policy(s->engine, saved.policy);
    if (same && *saved.policy && !policy_named(saved.policy))
        notice(s,
               "this conversation's policy %.40s is no longer part of retain; it continues with "
               "the default policy",
               saved.policy);
    if (same && !p->budget && !p->memory && saved.budget >= PLAN_BUDGET_MIN)
        p->budget = saved.budget;
    if (!s->opts.sampling.seed) s->opts.sampling.seed = saved.seed;
    s->state = saved;
    s->state.n_run = s->state.heads_from = 0; /* until the cache is loaded */
    return 0;
}

static void describe(struct session *s)
{
    struct save_state *st = &s->state;
    snprintf(st->model, sizeof st->model, "%s", s->engine->model_digest);
    snprintf(st->model_name, sizeof st->model_name, "%s", s->engine->model->name);
    const bool scored = s->ctx.plan.policy->scorer == POLICY_CIS;
    snprintf(st->heads, sizeof st->heads, "%s", scored ? s->engine->heads_digest : "");
    st->can_adopt = context_can_adopt(&s->ctx);
    plan_kv_text(&s->ctx.plan, st->kv);
    if (kn_kv_centred(s->ctx.plan.k_type)) /* "q5:q4/1a2b3c4d" */
        snprintf(strchr(st->kv, '\0'), 10, "/%s", s->engine->centres.digest);
    snprintf(st->policy, sizeof st->policy, "%s", s->ctx.plan.policy->name);
    snprintf(st->template_name, sizeof st->template_name, "%s",
             chat_template_name(s->engine->template));
    st->budget = s->ctx.plan.budget;
    st->seed = s->opts.sampling.seed;
}

/* ---- loading --------------------------------------------------------------------------------- */

struct count {
    struct session *s;
    const struct session_sink *sink;
};

void session_join_characters(const struct str *bytes, struct str *out)
{
    struct utf8_join join = {0};
    str_clear(out);
    str_reserve(out, 3 * (bytes->n + 4));
    out->n = utf8_join(&join, str_get(bytes), bytes->n, true, out->data);
    out->data[out->n] = 0;
}

/* The space that begins an answer is not part of its text (choose_token). */
static void drop_space(const struct session *s, struct str *answer)
{
    if (s->opts.raw || !session_last_is(s, CHAT_USER) || !answer->n || answer->data[0] != ' ')
        return;
    memmove(answer->data, answer->data + 1, answer->n); /* with its NUL */
    answer->n--;
}

/* The text of an answer interrupted by a crash is what its tokens say. */
static void follow(struct count *c, const struct store_message *m)
{
    struct session *s = c->s;
    struct store_message rest = *m;
    if (m->seq >= 0) {
        session_follow(s, m, c->sink);
        return;
    }
    session_describe(s, m, c->sink);
    rest.text = "";
    rest.n_text = 0;
    s->n_killed = (int64_t)m->n_tokens;
    session_turn_answer(s, &rest, &s->heard[0], &s->heard[1]);
    session_turn_end_thought(s);
    drop_space(s, &s->heard[1]);
    session_join_characters(&s->heard[0], &s->thought);
    session_join_characters(&s->heard[1], &s->answer);
    session_turn_said(s);
    str_clear(&s->heard[0]);
    str_clear(&s->heard[1]);
}

static void count_message(void *ctx, const struct store_message *m)
{
    struct count *c = ctx;
    follow(c, m);
    session_add_message(c->s, m->role, m->position + (int64_t)m->n_tokens, m->created_ms);
}

/* Replays the pending transcript, except its last token, which stays pending as after an answer. */
static int replay(struct session *s, const struct session_sink *k, struct err *e)
{
    enum session_end end;
    if (s->pending.n < 2) return 0;
    s->n_reread += (int64_t)s->pending.n - 1;
    int rc = session_run_stored(s, k, &end, e);
    return rc ? rc : session_all_read(s, end, e);
}

/* As save_load; then sends the loaded units to the device, if there is one. */
static int load_cache(struct session *s, struct save_loaded *out, struct err *e)
{
    int rc = save_load(s->save, &s->ctx.cache, &s->state, out, e);
    s->state.heads_from = rc ? 0 : out->heads_from;
    context_adopt(&s->ctx, s->state.heads_from);
    return !rc && out->usable ? context_loaded(&s->ctx, e) : rc;
}

/* Loads transcript and cache; tokens that are not in the cache become pending. */
static int load(struct session *s, const struct session_sink *k, struct save_loaded *out,
                struct err *e)
{
    struct tokens ids = {0};
    struct count count = {s, k};
    *out = (struct save_loaded){.usable = true};
    session_turn_forget(s);
    int rc = save_transcript(s->save, &ids, count_message, &count, e);
    if (!rc && ids.n) rc = load_cache(s, out, e);
    if (!rc && out->n_run > (int64_t)ids.n)
        rc = err_set(e, ERR_FORMAT, "the saved cache of %s is ahead of its text; drop it", s->name);
    if (!rc && out->n_run) rc = session_recall_loaded(s, out->n_run, e);
    for (size_t i = 0; !rc && i < ids.n; i++) {
        if ((int64_t)i >= out->n_run) tokens_push(&s->pending, ids.ids[i]);
        session_remember(s, ids.ids[i]);
        if (ids.ids[i] < 0 || ids.ids[i] >= s->engine->model->n_vocab)
            rc = err_set(e, ERR_FORMAT,
                         "%s holds tokens that %s does not know; open it with the model it was "
                         "made with",
                         s->name, s->engine->model->name);
    }
    session_marks_cut(s, s->n_turns);
    session_marks_pin(s);
    if (!rc && out->n_run && s->n_killed && s->state.aside.n) {
        context_set_aside(&s->ctx, &s->state.aside);
        rc = context_loaded(&s->ctx, e);
    }
    tokens_release(&ids);
    return rc;
}

/* The text of a message is what the user reads; ids that say something else are replaced. */
static int respell(struct session *s, struct store *store, struct err *e)
{
    const bool all = s->opts.replace_system;
    size_t n;
    if (all) session_system_take(s);
    int rc = session_respell(s, store, all, &n, e);
    if (rc || n == 0 || s->other_model || all) return rc;
    notice(s,
           "the token ids of a message of %s did not spell its text; the text counts: %zu "
           "message%s encoded again",
           s->name, n, n == 1 ? " was" : "s were");
    return 0;
}

/* Another policy was asked for, so a cache that it did not choose is no fault. */
static void tell_replay(struct session *s, const struct save_loaded *l)
{
    if (l->other_policy)
        notice(s, "%s continues with policy %s: replaying %lld tokens", s->name,
               s->ctx.plan.policy->name, (long long)s->n_tokens);
    else
        notice(s, "the saved cache of %s could not be used: %s; replaying %lld tokens", s->name,
               str_get(&l->why), (long long)s->n_tokens);
}

/* Resumes a saved conversation. */
static int resume(struct session *s, struct store *store, const struct session_sink *k,
                  struct err *e)
{
    struct save_loaded loaded = {0};
    int rc = s->other_model ? readings_switch(s->save, s->engine->model_digest, &s->state, e) : 0;
    if (!rc) rc = respell(s, store, e);
    if (!rc) rc = load(s, k, &loaded, e);
    if (!rc && !loaded.usable) rc = store_cache_drop(save_store(s->save), s->id, e);
    if (!rc)
        rc = save_recover(s->save, &s->ctx.cache, session_state_now(s), &s->answer, &s->thought, e);
    if (!rc && loaded.adopted) rc = session_save_now(s, NULL, e);
    if (!rc && !loaded.usable) {
        if (!s->other_model && !s->opts.replace_system) tell_replay(s, &loaded);
        rc = replay(s, k, e);
    }
    /* a branch begins with an older state of the cache */
    if (!rc) rc = session_marks_forget(s, k, e);
    str_release(&loaded.why);
    return rc;
}

int session_reload(struct session *s, const struct session_sink *k, struct err *e)
{
    struct save_loaded loaded;
    s->n_killed = 0;
    int rc = load_cache(s, &loaded, e);
    if (!rc && loaded.n_run) rc = session_recall_loaded(s, loaded.n_run, e);
    session_drop_pending(s, (size_t)loaded.n_run);
    if (!rc && !loaded.usable) rc = store_cache_drop(save_store(s->save), s->id, e);
    if (!rc) rc = replay(s, k, e);
    if (!rc) rc = session_marks_forget(s, k, e);
    str_release(&loaded.why);
    return rc;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Allocates everything that a turn needs besides the context. */
static void take_room(struct session *s)
{
    s->candidates = memory_new((size_t)s->engine->model->n_vocab, sizeof *s->candidates);
    tokens_reserve(&s->pending, SESSION_ANSWER_ROOM);
    tokens_reserve(&s->answer_ids, SESSION_ANSWER_ROOM);
    const size_t n = (size_t)SESSION_ANSWER_ROOM * 8; /* bytes of long tokens */
    str_reserve(&s->answer, n);
    str_reserve(&s->thought, n);
    session_turn_open(s);
}

/* Finds or creates the conversation, and allocates the memory. */
static int begin(struct session *s, struct store *store, bool *created, struct err *e)
{
    struct sampling *p = &s->opts.sampling;
    *created = true;
    int rc = store ? find_conversation(s, store, created, e) : 0;
    if (!rc && !*created) rc = adopt_settings(s, e);
    if (rc) return rc;
    session_keep(s, s->opts.kept);
    if (*created && !s->opts.plan.budget) s->opts.plan.budget = s->opts.first_budget;
    sampling_complete(p, &s->engine->sampling);
    if (!p->seed) p->seed = (uint64_t)system_clock_ns() | 1;
    rc = context_open(&s->ctx, s->engine, &s->opts.plan, p->seed, 1, e);
    if (!rc) rc = session_recall_open(s, e);
    const struct speculate_opts o = {&s->ctx, s->opts.plan.speculate.n, session_ends_turn, s};
    if (!rc && !s->opts.plan.speculate.off) rc = speculate_open(&s->speculate, &o, e);
    if (!rc) take_room(s);
    return rc;
}

int session_open(struct session **out, struct engine *g, struct conversations *l,
                 const struct session_opts *o, const struct session_sink *sink, struct err *e)
{
    struct session *s = memory_new(1, sizeof *s);
    struct store *store = l && !o->private_mode ? conversations_store(l) : NULL;
    bool created;
    *out = NULL;
    if (!sink) sink = &session_silent;
    s->engine = g;
    s->opts = *o;
    snprintf(s->name, sizeof s->name, "private");
    int rc = begin(s, store, &created, e);
    if (rc) goto fail;
    notice_all(s);
    describe(s);
    session_use_attempt(s, s->state.attempt);
    if (!created) rc = resume(s, store, sink, e);
    if (!rc && s->n_tokens == 0 && (o->system || o->replace_system)) session_system_take(s);
    if (!rc && store && o->cache_quota) rc = store_cache_trim(store, o->cache_quota, s->id, e);
    if (rc) goto fail;
    s->opts.conversation = s->opts.system = s->opts.kept = NULL; /* owned by the caller */
    *out = s;
    return 0;
fail:
    session_close(s);
    return rc;
}

void session_close(struct session *s)
{
    if (!s) return;
    /* on failure it stays in the list, empty */
    if (s->begun && s->save && s->n_turns == 0)
        store_conversation_remove(save_store(s->save), s->id, s->name, NULL);
    save_close(s->save);
    context_release(&s->ctx);
    session_recall_close(s);
    speculate_close(s->speculate);
    free(s->candidates);
    save_state_release(&s->state);
    free(s->messages);
    tokens_release(&s->pending);
    tokens_release(&s->answer_ids);
    str_release(&s->answer);
    str_release(&s->thought);
    str_release(&s->held);
    str_release(&s->heard[0]);
    str_release(&s->heard[1]);
    session_turn_release(s);
    free(s);
}

const char *session_name(const struct session *s)
{
    return s->name;
}

const char *session_notice(const struct session *s)
{
    return s->notice;
}

/* ---- invariants ------------------------------------------------------------------------------ */

static void check_turns(const struct save_turns *t, int64_t n_turns)
{
    assert(t->n >= 0 && t->n <= SAVE_TURNS_MAX);
    for (int i = 0; i < t->n; i++) assert(t->turn[i] >= 1 && t->turn[i] <= n_turns);
}

/* Each token is run or pending; messages end one after another; no unit is pinned twice. */
void session_check(const struct session *s)
{
    const int64_t n_run = s->ctx.cache.n_pos;
    assert(n_run >= 0 && s->n_tokens == n_run + (int64_t)s->pending.n);
    assert(s->n_recent >= 0 && s->n_recent <= SAMPLER_HISTORY);
    for (size_t i = 0; i < s->n_messages; i++) {
        assert(s->messages[i].end <= s->n_tokens);
        assert(i == 0 || s->messages[i - 1].end <= s->messages[i].end);
    }
    check_turns(&s->state.pinned, s->n_turns);
    check_turns(&s->state.forgotten, s->n_turns);
    for (int i = 0; i < s->ctx.n_pins; i++) assert(s->pins[i].from <= s->pins[i].end);
    if (s->save) save_check(s->save, &s->ctx.cache);
}
