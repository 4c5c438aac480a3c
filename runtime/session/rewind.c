/* Going back: to the end of a turn, to another answer, to a branch. The stored conversation is cut
 * first; then the session is set to the rest. */
#include "runtime/session/session_parts.h"

#include <stdio.h>

/* The transcript cut to end with `turn`. */
struct cut {
    size_t n_messages;
    int64_t n_tokens;
    bool has_point;
    struct save_point point;
};

static int64_t turns_in(const struct session *s, size_t n_messages)
{
    int64_t n = 0;
    for (size_t i = 0; i < n_messages; i++) n += s->messages[i].role == CHAT_USER;
    return n;
}

static struct cut cut_messages(const struct session *s, size_t n_messages)
{
    struct cut c = {.n_messages = n_messages};
    if (n_messages) c.n_tokens = s->messages[n_messages - 1].end;
    c.has_point = c.n_tokens > 0 && s->save && save_point(s->save, c.n_tokens, &c.point);
    return c;
}

static struct cut cut_turn(const struct session *s, int64_t turn)
{
    size_t i = 0;
    int64_t n_turns = 0;
    for (; i < s->n_messages; i++)
        if (s->messages[i].role == CHAT_USER && n_turns++ == turn) break;
    return cut_messages(s, i);
}

static int64_t cost_of(const struct cut *c)
{
    /* The last token stays pending: it is run with the next message. */
    int64_t n = c->n_tokens - 1 - (c->has_point ? c->point.n_run : 0);
    return n > 0 ? n : 0;
}

int64_t session_rewind_cost(const struct session *s, int64_t turn)
{
    struct cut c = cut_turn(s, turn);
    return cost_of(&c);
}

/* The transcript before the last answer. */
static struct cut cut_answer(const struct session *s)
{
    size_t n = s->n_messages;
    while (n > 0 && s->messages[n - 1].role != CHAT_USER) n--;
    return cut_messages(s, n);
}

int64_t session_regenerate_cost(const struct session *s)
{
    struct cut c = cut_answer(s);
    return cost_of(&c);
}

/* Whether the conversation can go back to `turn`, after the running answer. */
static int prepare(struct session *s, int64_t turn, const struct session_sink *k, struct err *e)
{
    int rc = session_check_turn(s, turn, 0, e);
    return rc ? rc : session_finish_answer(s, k, e);
}

static void ignore_message(void *ctx, const struct store_message *m)
{
    (void)ctx;
    (void)m;
}

/* Resets the session's own numbers after a cut; all tokens are pending until a cache is loaded. */
static void forget_after(struct session *s, const struct cut *c, const struct tokens *ids)
{
    s->n_messages = c->n_messages;
    s->n_turns = turns_in(s, s->n_messages);
    s->n_tokens = s->n_recent = 0;
    s->pending.n = 0;
    for (int64_t i = 0; i < c->n_tokens; i++) session_push(s, ids->ids[i]);
    session_recall_forget(s);
    cache_clear(&s->ctx.cache);
    session_marks_pin(s);
}

/* The ids of the stored conversation, at least those before the cut. */
static int read_ids(const struct session *s, const struct cut *c, struct tokens *ids, struct err *e)
{
    int rc = save_transcript(s->save, ids, ignore_message, NULL, e);
    if (!rc && (int64_t)ids->n < c->n_tokens)
        rc = err_set(e, ERR_FORMAT, "the transcript of %s is shorter than it was", s->name);
    return rc;
}

/* Cuts the stored conversation and adds `then`, if it is not NULL; then sets the session to the
 * result. The message is pending even if loading the cache failed, because it is stored. */
static int go_back(struct session *s, const struct cut *c, const struct tokens *ids,
                   const struct store_message *then, const struct session_sink *k, struct err *e)
{
    struct save_state before = s->state;
    session_marks_cut(s, turns_in(s, c->n_messages));
    int rc = save_rewind(s->save, &s->state, c->has_point ? &c->point : NULL,
                         (int64_t)c->n_messages, then, e);
    if (rc) s->state = before;
    if (rc) return rc;
    forget_after(s, c, ids);
    rc = session_follow_stored(s, c->n_messages, e);
    if (!rc) rc = session_reload(s, k, e);
    if (then) session_push_message(s, then, k);
    return rc;
}

static int cut_off(struct session *s, const struct cut *c, const struct session_sink *k,
                   struct err *e)
{
    struct tokens ids = {0};
    int rc = read_ids(s, c, &ids, e);
    if (!rc) rc = go_back(s, c, &ids, NULL, k, e);
    tokens_release(&ids);
    return rc;
}

/* Replaces everything after the cut with a message. */
static int replace(struct session *s, const struct cut *c, enum chat_role role, const char *text,
                   size_t n, const struct session_sink *k, struct err *e)
{
    struct tokens ids = {0}, new_ids = {0};
    int rc = read_ids(s, c, &ids, e);
    int32_t last = !rc && c->n_tokens ? ids.ids[c->n_tokens - 1] : -1;
    if (!rc) rc = session_encode(s, role, text, n, last, &new_ids, e);
    struct store_message then = {
        .role = role, .text = text, .n_text = n, .tokens = new_ids.ids, .n_tokens = new_ids.n};
    if (!rc) rc = go_back(s, c, &ids, &then, k, e);
    tokens_release(&ids);
    tokens_release(&new_ids);
    return rc;
}

int session_rewind(struct session *s, int64_t turn, const struct session_sink *sink, struct err *e)
{
    int rc = prepare(s, turn, sink ? sink : &session_silent, e);
    if (rc) return rc;
    struct cut c = cut_turn(s, turn);
    if (c.n_messages == s->n_messages) return 0;
    return cut_off(s, &c, sink ? sink : &session_silent, e);
}

int64_t session_turn_end(const struct session *s, int64_t turn)
{
    return cut_turn(s, turn).n_tokens;
}

bool session_must_reopen(const struct session *s)
{
    return s->must_reopen;
}

int session_replace(struct session *s, int64_t turn, const char *text, size_t n,
                    const struct session_sink *sink, enum session_end *end, struct err *e)
{
    struct tokens ids = {0};
    int rc = session_check_turn(s, turn, 0, e);
    if (!rc) rc = session_encode(s, CHAT_USER, text, n, -1, &ids, e); /* is it a message? */
    if (!rc) rc = session_finish_answer(s, sink, e);
    if (!rc) rc = store_hold(save_store(s->save), e);
    tokens_release(&ids);
    if (rc) return rc;
    rc = session_rewind(s, turn, sink, e);
    if (!rc) rc = session_take_message(s, CHAT_USER, text, n, sink, e);
    rc = store_release(save_store(s->save), rc, e);
    s->must_reopen = rc != 0;
    return rc ? rc : session_run_turn(s, sink, end, e);
}

/* Cuts the last answer off and generates another one. save_token releases what is held here. */
static int answer_again(struct session *s, const struct cut *c, const struct session_sink *sink,
                        enum session_end *end, struct err *e)
{
    int rc = store_hold(save_store(s->save), e);
    if (rc) return rc;
    s->holds = true;
    rc = cut_off(s, c, sink, e);
    session_use_attempt(s, s->state.attempt + 1);
    if (!rc) rc = session_run_turn(s, sink, end, e);
    if (!s->holds) return rc;
    if (!rc && *end == SESSION_FULL)
        rc = err_set(e, ERR_FIT, "there is no room for a new answer; the old one stays");
    if (!rc) rc = err_set(e, ERR_STOP, "interrupted; the old answer stays");
    s->holds = false;
    s->must_reopen = true;
    return store_release(save_store(s->save), rc, e);
}

int session_regenerate(struct session *s, const struct session_sink *sink, enum session_end *end,
                       struct err *e)
{
    int rc = prepare(s, 0, sink, e);
    if (!rc && s->n_turns == 0) rc = err_set(e, ERR_USAGE, "there is no answer yet to regenerate");
    if (!rc) rc = session_marks_settle(s, sink, e);
    if (rc) return rc;
    struct cut c = cut_answer(s);
    if (c.n_messages < s->n_messages) return answer_again(s, &c, sink, end, e);
    session_use_attempt(s, s->state.attempt + 1);
    return session_run_turn(s, sink, end, e);
}

int session_amend(struct session *s, const char *text, size_t n, const struct session_sink *sink,
                  struct err *e)
{
    int rc = prepare(s, 0, sink, e);
    if (!rc && (n == 0 || !session_last_is(s, CHAT_ASSISTANT)))
        rc = err_set(e, ERR_USAGE, n ? "there is no answer to change" : "an answer needs a text");
    if (!rc) rc = session_marks_settle(s, sink, e);
    if (rc) return rc;
    struct cut c = cut_answer(s);
    rc = replace(s, &c, CHAT_ASSISTANT, text, n, sink, e);
    return rc ? rc : session_read_taken(s, sink, e);
}

int session_branch(struct session *s, int64_t turn, const char *name, char out[STORE_NAME_MAX],
                   struct err *e)
{
    struct store_conversation made;
    int rc = session_check_turn(s, turn, 0, e);
    if (!rc) rc = session_finish_answer(s, &session_silent, e);
    if (rc) return rc;
    struct cut c = cut_turn(s, turn);
    rc = save_branch(s->save, name, c.has_point ? &c.point : NULL, (int64_t)c.n_messages, &made, e);
    if (!rc) snprintf(out, STORE_NAME_MAX, "%s", made.name);
    return rc;
}
