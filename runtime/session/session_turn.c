/* The newest turn: its texts, its thought and its tokens. Once it is over, the tokens that its
 * model's template does not write in a history are evicted, the thought above all. */
#include "runtime/session/session_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/forward/engine.h"

/* The newest turn. Its ids and texts have room for an answer of SESSION_ANSWER_ROOM tokens. */
struct session_turn {
    bool begun; /* false: the conversation is empty, or begins with an answer */
    struct str user, answer, thought;
    struct tokens ids; /* of the message, then of the answer */
    size_t n_prompt;   /* of them, the message's */
    size_t n_opening;  /* before the answer's text; 0 = it has none yet */
    int64_t n_thought; /* tokens of the thought */
    int64_t position;  /* of the first id */
    int32_t last;      /* the token before it, -1 = none */
    struct thought_reader reader;
};

/* ---- following ------------------------------------------------------------------------------- */

static void push_ids(struct tokens *to, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) tokens_push(to, ids[i]);
}

void session_turn_open(struct session *s)
{
    struct session_turn *t = s->turn = memory_new(1, sizeof *t);
    str_reserve(&t->answer, (size_t)SESSION_ANSWER_ROOM * 8); /* bytes of long tokens */
    str_reserve(&t->thought, (size_t)SESSION_ANSWER_ROOM * 8);
    tokens_reserve(&t->ids, 2 * (size_t)SESSION_ANSWER_ROOM);
}

void session_turn_release(struct session *s)
{
    struct session_turn *t = s->turn;
    if (!t) return;
    str_release(&t->user);
    str_release(&t->answer);
    str_release(&t->thought);
    tokens_release(&t->ids);
    thought_release(&t->reader);
    free(t);
}

int64_t session_turn_thought(const struct session *s)
{
    return s->turn->n_thought;
}

const int32_t *session_turn_ids(const struct session *s, size_t *n)
{
    const struct session_turn *t = s->turn;
    *n = t->ids.n - t->n_prompt;
    return t->ids.ids + t->n_prompt;
}

bool session_turn_reader(const struct session *s, struct thought_reader *out)
{
    if (s->turn->begun) thought_copy(out, &s->turn->reader);
    return s->turn->begun;
}

void session_turn_end_thought(struct session *s)
{
    thought_end(&s->turn->reader, &s->heard[0], &s->heard[1]);
}

void session_turn_said(struct session *s)
{
    str_append(&s->turn->answer, str_get(&s->answer), s->answer.n);
    str_append(&s->turn->thought, str_get(&s->thought), s->thought.n);
}

void session_turn_forget(struct session *s)
{
    s->turn->begun = false;
}

/* A user's message, before it is run. */
static void begin(struct session *s, const struct store_message *m)
{
    struct session_turn *t = s->turn;
    bool last_known = t->ids.n && t->begun;
    t->last = m->position == 0 ? -1 : last_known ? t->ids.ids[t->ids.n - 1] : t->last;
    t->begun = true;
    t->position = m->position;
    t->ids.n = 0;
    t->n_opening = 0;
    t->n_thought = 0;
    str_clear(&t->user);
    str_clear(&t->answer);
    str_clear(&t->thought);
    str_append(&t->user, m->text, m->n_text);
    push_ids(&t->ids, m->tokens, m->n_tokens);
    t->n_prompt = t->ids.n;
    const struct thought_format *f = s->opts.raw ? NULL : s->engine->thoughts;
    thought_begin(&t->reader, f, s->engine->tokenizer, m->tokens, m->n_tokens);
}

void session_turn_token(struct session *s, int32_t id, const char *bytes, size_t n,
                        struct str *thought, struct str *answer)
{
    struct session_turn *t = s->turn;
    bool thinks = t->reader.state == THOUGHT_RUNS;
    size_t n_answer = answer->n;
    size_t n_heard = thought->n + answer->n, n_plain;
    thought_take(&t->reader, id, bytes, n, thought, answer);
    tokenizer_bytes(s->engine->tokenizer, id, false, &n_plain);
    session_recall_token(
        s, id, n_plain && (thought->n + answer->n > n_heard || t->reader.state == THOUGHT_ANSWER),
        thinks);
    if (answer->n > n_answer && !t->n_opening) t->n_opening = t->ids.n;
    t->n_thought += thinks;
    tokens_push(&t->ids, id);
}

void session_turn_answer(struct session *s, const struct store_message *m, struct str *thought,
                         struct str *answer)
{
    struct session_turn *t = s->turn;
    for (size_t i = 0; i < m->n_tokens; i++) {
        size_t n;
        const char *bytes = tokenizer_bytes(s->engine->tokenizer, m->tokens[i], false, &n);
        session_turn_token(s, m->tokens[i], bytes, n, thought, answer);
    }
    str_append(&t->answer, m->text, m->n_text);
    str_append(&t->thought, m->thought.text ? m->thought.text : "", m->thought.n);
}

/* Marks the tokens among the first n that stand for this text of the turn before. */
static bool find_past(const struct session *s, const struct store_message *m, size_t n,
                      enum chat_role role, const struct str *text, bool *past)
{
    const struct store_message was = {.role = role,
                                      .text = str_get(text),
                                      .n_text = text->n,
                                      .tokens = m->tokens,
                                      .n_tokens = n,
                                      .position = s->turn->position,
                                      .thought.n = s->turn->thought.n};
    uint16_t *n_bytes = session_align(s, &was);
    bool found = false;
    for (size_t i = 0; i < n; i++) found |= past[i] |= n_bytes[i] > 0;
    free(n_bytes);
    return found;
}

/* A message's tokens may begin with a part of the turn before, its answer at least. */
static void find_turn(const struct session *s, const struct store_message *m,
                      const uint16_t *n_bytes, bool *past)
{
    const struct session_turn *t = s->turn;
    size_t n = 0;
    while (n < m->n_tokens && !n_bytes[n]) n++;
    if (m->role == CHAT_USER && t->begun && n < m->n_tokens &&
        find_past(s, m, n, CHAT_ASSISTANT, &t->answer, past))
        find_past(s, m, n, CHAT_USER, &t->user, past);
}

void session_describe(struct session *s, const struct store_message *m,
                      const struct session_sink *k)
{
    uint16_t *n_bytes = session_align(s, m);
    bool *past = memory_grow(NULL, m->n_tokens + 1, sizeof *past);
    memset(past, 0, m->n_tokens * sizeof *past);
    if (k->tokens && m->n_tokens) k->tokens(k->ctx, m->position, (int)m->n_tokens, n_bytes);
    find_turn(s, m, n_bytes, past);
    session_recall_message(s, m, n_bytes, past);
    free(n_bytes);
    free(past);
}

void session_follow(struct session *s, const struct store_message *m, const struct session_sink *k)
{
    session_describe(s, m, k);
    if (m->role == CHAT_USER) begin(s, m);
    if (m->role == CHAT_ASSISTANT) session_turn_answer(s, m, &s->heard[0], &s->heard[1]);
    str_clear(&s->heard[0]);
    str_clear(&s->heard[1]);
}

/* Whether the newest tokens of the answer are the text that ends a turn. */
static bool text_ended(const struct session *s)
{
    const struct session_turn *t = s->turn;
    char text[128];
    size_t n_text = 0, from = t->ids.n > t->n_prompt + 8 ? t->ids.n - 8 : t->n_prompt;
    bool ended = false;
    if (s->opts.raw || !t->begun || !chat_ends_with_text(s->engine->template)) return false;
    for (size_t i = from; i < t->ids.n; i++) {
        size_t n;
        const char *bytes = tokenizer_bytes(s->engine->tokenizer, t->ids.ids[i], false, &n);
        if (n_text + n > sizeof text) n_text = 0; /* a long word is no role */
        if (n > sizeof text) continue;
        memcpy(text + n_text, bytes, n);
        n_text += n;
    }
    chat_stop(text, n_text, &ended);
    return ended;
}

bool session_turn_is_over(const struct session *s, int32_t id)
{
    if (text_ended(s)) return true;
    const struct engine *g = s->engine;
    const struct thought_reader *r = &s->turn->reader;
    if (!chat_ends(g->template, g->tokenizer, id)) return false;
    return !(s->turn->begun && thought_closed_by(r, id));
}

/* ---- the template's present text ------------------------------------------------------------ */

/* A message's ids may begin with some of the turn before that were run again: those that its text
 * does not need. */
static size_t ids_before_message(const struct session *s)
{
    const struct session_turn *t = s->turn;
    struct tokens own = {0};
    size_t n = 0;
    int rc = session_encode(s, CHAT_USER, str_get(&t->user), t->user.n, t->last, &own, NULL);
    if (!rc && own.n < t->n_prompt &&
        !memcmp(t->ids.ids + t->n_prompt - own.n, own.ids, own.n * sizeof *own.ids))
        n = t->n_prompt - own.n;
    tokens_release(&own);
    return n;
}

/* next: a message follows; otherwise nothing is run again. */
static int find_change(const struct session *s, size_t skip, struct chat_change *out, struct err *e)
{
    const struct session_turn *t = s->turn;
    const struct engine *g = s->engine;
    struct chat_past past = {.turn = {.role = CHAT_USER,
                                      .text = str_get(&t->user),
                                      .n = t->user.n,
                                      .system = s->state.system,
                                      .first = t->position + (int64_t)skip == 0,
                                      .last = skip ? t->ids.ids[skip - 1] : t->last,
                                      .think = s->opts.think},
                             .answer = str_get(&t->answer),
                             .n_answer = t->answer.n,
                             .thought = str_get(&t->thought),
                             .n_thought = t->thought.n,
                             .ids = t->ids.ids + skip,
                             .n_ids = t->ids.n - skip};
    return chat_rewrite(g->template, g->tokenizer, &past, out, e);
}

int session_turn_change(const struct session *s, struct session_change *out, struct err *e)
{
    const struct session_turn *t = s->turn;
    struct chat_change c = {0};
    if (!t->begun) return 0;
    *out = (struct session_change){.last = -1};
    if (t->ids.n) out->last = t->ids.ids[t->ids.n - 1];
    if (s->opts.raw || !t->n_opening || t->answer.n == 0) return 0;
    if (s->opts.keep_thoughts && t->thought.n) return 0;
    size_t skip = ids_before_message(s);
    int rc = find_change(s, skip, &c, e);
    if (rc) {
        tokens_release(&c.again);
        return rc;
    }
    int64_t first = t->position + (int64_t)skip;
    out->from = first + (int64_t)c.from;
    out->end = out->from + (int64_t)c.n;
    out->drops_last = c.end;
    out->again = c.again;
    if (c.again.n)
        out->last = c.again.ids[c.again.n - 1];
    else if (c.end)
        out->last = t->ids.ids[t->ids.n - 2];
    return 0;
}

/* ---- evicting -------------------------------------------------------------------------------- */

int session_drop(struct session *s, int64_t from, int64_t end, const struct session_sink *k,
                 struct err *e)
{
    struct archive *x = session_recall_archive(s);
    int64_t n = 0;
    int rc = from < end ? context_drop(&s->ctx, from, end, &n, e) : 0;
    if (!rc && x && from < end) rc = archive_forget(x, from, end, e);
    if (!rc && n && k->evicted) k->evicted(k->ctx, n, s->n_tokens);
    return rc;
}

/* The thought is evicted first: at once where the template leaves it out, else when the cache is
 * over its budget. Tokens to be run again stay until then, without the thought. */
int session_turn_evict(struct session *s, const struct session_sink *k, struct err *e)
{
    const struct session_turn *t = s->turn;
    struct session_change c = {0};
    int64_t n_run = s->ctx.cache.n_pos, opening = t->position + (int64_t)t->n_opening;
    int rc = session_turn_change(s, &c, e);
    int64_t prompt = t->position + (int64_t)t->n_prompt;
    int64_t from = c.again.n && prompt > c.from ? prompt : c.from;
    int64_t end = c.again.n ? opening : c.end;
    bool keeps = from >= end && t->thought.n && t->n_opening && !s->opts.keep_thoughts;
    tokens_release(&c.again);
    if (!rc && keeps && context_over_budget(&s->ctx)) {
        from = prompt;
        end = opening;
    }
    if (end > n_run) end = n_run;
    return rc ? rc : session_drop(s, from, end, k, e);
}

/* As session_drop, between turns: the units must be saved first. */
static int drop_between(struct session *s, int64_t from, int64_t end, const struct session_sink *k,
                        struct err *e)
{
    int rc = 0;
    if (from >= end || !cache_holds(&s->ctx.cache, from, end)) return 0;
    if (s->save) rc = session_save_now(s, NULL, e);
    if (!s->save) context_score(&s->ctx);
    if (!s->save) rc = session_recall_keep(s, e);
    return rc ? rc : session_drop(s, from, end, k, e);
}

/* Runs the pending tokens before position `end`. */
static int run_until(struct session *s, int64_t end, const struct session_sink *k,
                     enum session_end *how, struct err *e)
{
    struct tokens rest = {0};
    int64_t n = end - s->ctx.cache.n_pos;
    *how = SESSION_TURN_END;
    if (n <= 0) return 0;
    push_ids(&rest, s->pending.ids + n, s->pending.n - (size_t)n);
    s->pending.n = (size_t)n;
    int rc = session_read_pending(s, false, k, how, e);
    push_ids(&s->pending, rest.ids, rest.n);
    tokens_release(&rest);
    return rc;
}

int session_turn_apply(struct session *s, const struct session_change *c,
                       const struct session_sink *k, struct err *e)
{
    int64_t turn_end = s->turn->position + (int64_t)s->turn->ids.n;
    enum session_end how = SESSION_TURN_END;
    int rc = 0;
    if (c->drops_last || c->from < c->end) /* it is too late to stop */
        rc = run_until(s, c->drops_last ? turn_end : c->end, &session_silent, &how, e);
    if (!rc) rc = session_all_read(s, how, e);
    if (!rc) rc = drop_between(s, c->from, c->end, k, e);
    if (!rc && c->drops_last) rc = drop_between(s, turn_end - 1, turn_end, k, e);
    return rc;
}

/* ---- stored turns ---------------------------------------------------------------------------- */

/* Positions to evict when those before `at` were run. */
struct gap {
    int64_t at, from, end;
};

/* A walk over the stored messages. */
struct walk {
    struct session *s;
    size_t n_left;
    bool collects; /* the gaps that each message made */
    struct gap *gaps;
    size_t n_gaps, gaps_max;
    int rc;
    struct err *e;
};

static void add_gap(struct walk *w, int64_t at, int64_t from, int64_t end)
{
    if (from >= end || at < w->s->ctx.cache.n_pos) return;
    w->gaps = memory_more(w->gaps, w->n_gaps, &w->gaps_max, sizeof *w->gaps);
    w->gaps[w->n_gaps++] = (struct gap){at, from, end};
}

/* The change that this message made when it was said: its ids begin with those that were run
 * again. */
static void collect(struct walk *w, const struct store_message *m)
{
    struct session_change c = {0};
    w->rc = session_turn_change(w->s, &c, w->e);
    size_t n = c.again.n;
    bool same =
        n == 0 || (n < m->n_tokens && !memcmp(m->tokens, c.again.ids, n * sizeof *m->tokens));
    if (!w->rc && same) {
        add_gap(w, m->position, c.from, c.end);
        if (c.drops_last) add_gap(w, m->position, m->position - 1, m->position);
    }
    tokens_release(&c.again);
}

static void walk_message(void *ctx, const struct store_message *m)
{
    struct walk *w = ctx;
    if (w->n_left == 0 || w->rc) return;
    if (w->collects && m->role == CHAT_USER && m->n_tokens) collect(w, m);
    session_follow(w->s, m, &session_silent);
    w->n_left--;
}

static int walk_stored(struct walk *w)
{
    struct tokens ids = {0};
    session_turn_forget(w->s);
    int rc = save_transcript(w->s->save, &ids, walk_message, w, w->e);
    tokens_release(&ids);
    return rc ? rc : w->rc;
}

int session_follow_stored(struct session *s, size_t n_messages, struct err *e)
{
    struct walk w = {.s = s, .n_left = n_messages, .e = e};
    return walk_stored(&w);
}

int session_run_stored(struct session *s, const struct session_sink *k, enum session_end *how,
                       struct err *e)
{
    struct walk w = {.s = s, .n_left = s->n_messages, .collects = true, .e = e};
    int rc = walk_stored(&w);
    *how = SESSION_TURN_END;
    for (size_t i = 0; !rc && *how == SESSION_TURN_END && i < w.n_gaps; i++) {
        rc = run_until(s, w.gaps[i].at, k, how, e);
        if (!rc && *how == SESSION_TURN_END)
            rc = drop_between(s, w.gaps[i].from, w.gaps[i].end, k, e);
    }
    free(w.gaps);
    if (!rc && *how == SESSION_TURN_END) rc = run_until(s, s->n_tokens - 1, k, how, e);
    if (!rc) rc = session_save_now(s, NULL, e);
    int64_t before = s->ctx.cache.n_evictions;
    bool over = session_turn_is_over(s, s->recent[s->n_recent - 1]);
    if (!rc && over && *how == SESSION_TURN_END) rc = session_turn_evict(s, k, e);
    return rc || before == s->ctx.cache.n_evictions ? rc : session_save_now(s, NULL, e);
}
