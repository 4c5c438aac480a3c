/* The newest turn: its texts, its thought and its tokens. Once it is over, the tokens that its
 * model's template does not write in a history are evicted, the thought above all. */
#include "runtime/session/session_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/forward/engine.h"

/* ---- following ------------------------------------------------------------------------------- */

static void push_ids(struct tokens *to, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) tokens_push(to, ids[i]);
}

void session_turn_release(struct session_turn *t)
{
    str_release(&t->user);
    str_release(&t->answer);
    str_release(&t->thought);
    tokens_release(&t->ids);
    thought_release(&t->reader);
}

void session_turn_forget(struct session *s)
{
    s->turn.begun = false;
}

void session_turn_begin(struct session *s, const struct save_message *m, int64_t position)
{
    struct session_turn *t = &s->turn;
    bool last_known = t->ids.n && t->begun;
    t->last = position == 0 ? -1 : last_known ? t->ids.ids[t->ids.n - 1] : t->last;
    t->begun = true;
    t->position = position;
    t->ids.n = 0;
    t->n_opening = 0;
    t->n_thought = 0;
    str_clear(&t->user);
    str_clear(&t->answer);
    str_clear(&t->thought);
    str_append(&t->user, m->text, m->n_text);
    push_ids(&t->ids, m->ids, m->n_ids);
    t->n_prompt = t->ids.n;
    const struct thought_format *f = s->opts.raw ? NULL : s->engine->thoughts;
    thought_begin(&t->reader, f, s->engine->tokenizer, m->ids, m->n_ids);
}

void session_turn_token(struct session *s, int32_t id, const char *bytes, size_t n,
                        struct str *thought, struct str *answer)
{
    struct session_turn *t = &s->turn;
    bool thinks = t->reader.state == THOUGHT_RUNS;
    size_t n_answer = answer->n;
    size_t n_heard = thought->n + answer->n, n_plain;
    thought_take(&t->reader, id, bytes, n, thought, answer);
    tokenizer_bytes(s->engine->tokenizer, id, false, &n_plain);
    session_recall_token(
        s, id, n_plain && (thought->n + answer->n > n_heard || t->reader.state == THOUGHT_ANSWER));
    if (answer->n > n_answer && !t->n_opening) t->n_opening = t->ids.n;
    t->n_thought += thinks;
    tokens_push(&t->ids, id);
}

void session_turn_answer(struct session *s, const struct save_message *m, struct str *thought,
                         struct str *answer)
{
    struct session_turn *t = &s->turn;
    for (size_t i = 0; i < m->n_ids; i++) {
        size_t n;
        const char *bytes = tokenizer_bytes(s->engine->tokenizer, m->ids[i], false, &n);
        session_turn_token(s, m->ids[i], bytes, n, thought, answer);
    }
    str_append(&t->answer, m->text, m->n_text);
    str_append(&t->thought, m->thought.text ? m->thought.text : "", m->thought.n);
}

/* Whether the newest tokens of the answer are the text that ends a turn. */
static bool text_ended(const struct session *s)
{
    const struct session_turn *t = &s->turn;
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
    const struct thought_reader *r = &s->turn.reader;
    if (!chat_ends(g->template, g->tokenizer, id)) return false;
    return !(s->turn.begun && thought_closed_by(r, id));
}

/* ---- the template's present text ------------------------------------------------------------ */

/* A message's ids may begin with some of the turn before that were run again: those that its text
 * does not need. */
static size_t ids_before_message(const struct session *s)
{
    const struct session_turn *t = &s->turn;
    struct tokens own = {0};
    struct err ignored;
    size_t n = 0;
    int rc = session_encode(s, CHAT_USER, str_get(&t->user), t->user.n, t->last, &own, &ignored);
    if (!rc && own.n < t->n_prompt &&
        !memcmp(t->ids.ids + t->n_prompt - own.n, own.ids, own.n * sizeof *own.ids))
        n = t->n_prompt - own.n;
    tokens_release(&own);
    return n;
}

/* next: a message follows; otherwise nothing is run again. */
static int find_change(const struct session *s, size_t skip, struct chat_change *out, struct err *e)
{
    const struct session_turn *t = &s->turn;
    const struct engine *g = s->engine;
    struct chat_past past = {.turn = {.role = CHAT_USER,
                                      .text = str_get(&t->user),
                                      .n = t->user.n,
                                      .system = s->system,
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
    const struct session_turn *t = &s->turn;
    struct chat_change c = {0};
    *out = (struct session_change){.last = -1};
    if (t->ids.n) out->last = t->ids.ids[t->ids.n - 1];
    if (!t->begun || s->opts.raw || !t->n_opening || t->answer.n == 0) return 0;
    if (s->opts.keep_thoughts && t->thought.n) return 0;
    size_t skip = ids_before_message(s);
    int rc = find_change(s, skip, &c, e);
    if (rc) {
        chat_change_release(&c);
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

void session_change_release(struct session_change *c)
{
    tokens_release(&c->again);
}

/* ---- evicting -------------------------------------------------------------------------------- */

static int drop(struct session *s, int64_t from, int64_t end, const struct session_sink *k,
                struct err *e)
{
    struct archive *x = session_recall_archive(s);
    int64_t n = 0;
    int rc = from < end ? context_drop(&s->ctx, from, end, &n, e) : 0;
    if (!rc && n && x) rc = archive_forget(x, from, end, e);
    if (!rc && n && k->evicted) k->evicted(k->ctx, n, s->n_tokens);
    return rc;
}

/* The thought is evicted first: at once where the template leaves it out, else when the cache is
 * over its budget. Tokens to be run again stay until then, without the thought. */
int session_turn_evict(struct session *s, const struct session_sink *k, struct err *e)
{
    const struct session_turn *t = &s->turn;
    struct session_change c;
    int64_t n_run = s->ctx.cache.n_pos, opening = t->position + (int64_t)t->n_opening;
    int rc = session_turn_change(s, &c, e);
    int64_t prompt = t->position + (int64_t)t->n_prompt;
    int64_t from = c.again.n && prompt > c.from ? prompt : c.from;
    int64_t end = c.again.n ? opening : c.end;
    bool keeps = from >= end && t->thought.n && t->n_opening && !s->opts.keep_thoughts;
    session_change_release(&c);
    if (!rc && keeps && context_over_budget(&s->ctx)) {
        from = prompt;
        end = opening;
    }
    if (end > n_run) end = n_run;
    return rc ? rc : drop(s, from, end, k, e);
}

/* As drop, between turns: the units must be saved first. */
static int drop_between(struct session *s, int64_t from, int64_t end, const struct session_sink *k,
                        struct err *e)
{
    int rc = 0;
    if (from >= end || !cache_holds(&s->ctx.cache, from, end)) return 0;
    if (s->save) rc = session_save_now(s, NULL, e);
    if (!s->save) context_score(&s->ctx);
    if (!s->save) rc = session_recall_keep(s, e);
    return rc ? rc : drop(s, from, end, k, e);
}

int session_run_until(struct session *s, int64_t end, const struct session_sink *k,
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
    const struct session_sink silent = {0}; /* it is too late to stop */
    int64_t turn_end = s->turn.position + (int64_t)s->turn.ids.n;
    enum session_end how = SESSION_TURN_END;
    int rc = 0;
    if (c->drops_last || c->from < c->end)
        rc = session_run_until(s, c->drops_last ? turn_end : c->end, &silent, &how, e);
    if (!rc && how == SESSION_FULL)
        rc = err_set(e, ERR_FIT, "the context of %d units is full; choose another --policy",
                     s->ctx.plan.capacity);
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
    int64_t position;
    bool collects; /* the gaps that each message made */
    struct gap *gaps;
    size_t n_gaps, gaps_max;
    int rc;
    struct err *e;
};

static void add_gap(struct walk *w, int64_t from, int64_t end)
{
    if (from >= end || w->position < w->s->ctx.cache.n_pos) return;
    if (w->n_gaps == w->gaps_max) {
        w->gaps_max = w->gaps_max ? 2 * w->gaps_max : 64;
        w->gaps = memory_grow(w->gaps, w->gaps_max, sizeof *w->gaps);
    }
    w->gaps[w->n_gaps++] = (struct gap){w->position, from, end};
}

/* The change that this message made when it was said: its ids begin with those that were run
 * again. */
static void collect(struct walk *w, const struct save_message *m)
{
    struct session_change c = {0};
    w->rc = session_turn_change(w->s, &c, w->e);
    size_t n = c.again.n;
    bool same = n == 0 || (n < m->n_ids && !memcmp(m->ids, c.again.ids, n * sizeof *m->ids));
    if (!w->rc && same) {
        add_gap(w, c.from, c.end);
        if (c.drops_last) add_gap(w, w->position - 1, w->position);
    }
    session_change_release(&c);
}

static void walk_message(void *ctx, const struct save_message *m)
{
    static const struct session_sink silent;
    struct walk *w = ctx;
    if (w->n_left == 0 || w->rc) return;
    if (w->collects && m->role == CHAT_USER && w->s->turn.begun && m->n_ids) collect(w, m);
    session_follow(w->s, m, w->position, &silent);
    w->position += (int64_t)m->n_ids;
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
        rc = session_run_until(s, w.gaps[i].at, k, how, e);
        if (!rc && *how == SESSION_TURN_END)
            rc = drop_between(s, w.gaps[i].from, w.gaps[i].end, k, e);
    }
    free(w.gaps);
    if (!rc && *how == SESSION_TURN_END) rc = session_run_until(s, s->n_tokens - 1, k, how, e);
    if (!rc) rc = session_save_now(s, NULL, e);
    int64_t before = s->ctx.cache.n_evictions;
    bool over = session_turn_is_over(s, s->recent[s->n_recent - 1]);
    if (!rc && over && *how == SESSION_TURN_END) rc = session_turn_evict(s, k, e);
    return rc || before == s->ctx.cache.n_evictions ? rc : session_save_now(s, NULL, e);
}
