/* Turns that the user marked: pinned turns stay in the cache, forgotten ones are evicted from it
 * and from the archive. Marks are numbers of turns, because positions change when a text is encoded
 * again; they are saved with the conversation's state. */
#include "runtime/session/session_parts.h"

#include <stdlib.h>

_Static_assert(SAVE_TURNS_MAX <= EVICT_PINS_MAX, "each pinned turn is a range of evict.h");

/* ---- lists of turns -------------------------------------------------------------------------- */

static void add(struct save_turns *t, int64_t turn)
{
    int at = t->n++;
    for (; at > 0 && t->turn[at - 1] > turn; at--) t->turn[at] = t->turn[at - 1];
    t->turn[at] = (int32_t)turn;
}

static void take_out(struct save_turns *t, int64_t turn)
{
    int n = 0;
    for (int i = 0; i < t->n; i++)
        if (t->turn[i] != turn) t->turn[n++] = t->turn[i];
    t->n = n;
}

static void cut(struct save_turns *t, int64_t n_turns)
{
    while (t->n && t->turn[t->n - 1] > n_turns) t->n--;
}

void session_marks_cut(struct session *s, int64_t n_turns)
{
    cut(&s->state.pinned, n_turns);
    cut(&s->state.forgotten, n_turns);
    cut(&s->forgetting, n_turns);
}

bool session_is_pinned(const struct session *s, int64_t turn)
{
    return save_turns_hold(&s->state.pinned, turn);
}

bool session_is_forgotten(const struct session *s, int64_t turn)
{
    return save_turns_hold(&s->state.forgotten, turn);
}

/* ---- pinned turns ---------------------------------------------------------------------------- */

static struct evict_pin range_of(const struct session *s, int64_t turn)
{
    return (struct evict_pin){(uint32_t)session_turn_end(s, turn - 1),
                              (uint32_t)session_turn_end(s, turn)};
}

static int64_t n_pinned_tokens(const struct session *s)
{
    int64_t n = 0;
    for (int i = 0; i < s->state.pinned.n; i++) {
        struct evict_pin r = range_of(s, s->state.pinned.turn[i]);
        n += r.end - r.from;
    }
    return n;
}

/* The oldest turns that fit: the budget may be smaller than when they were pinned. */
void session_marks_pin(struct session *s)
{
    int64_t room = context_pins_max(&s->ctx);
    int n = 0;
    for (int i = 0; i < s->state.pinned.n; i++) {
        struct evict_pin r = range_of(s, s->state.pinned.turn[i]);
        if (r.end - r.from > room) continue;
        room -= r.end - r.from;
        s->pins[n++] = r;
    }
    s->ctx.pins = s->pins;
    s->ctx.n_pins = n;
}

/* Returns the evicted units of a range, as far as there are idle slots. */
static int bring_back(struct session *s, struct evict_pin r, struct err *e)
{
    struct archive *x = session_recall_archive(s);
    struct recall_window windows[RECALL_MAX];
    int rc = 0, n = 1, max = s->opts.recall.n_windows;
    while (!rc && x && n) {
        int room = cache_room(&s->ctx.cache) / 2 / RECALL_SPAN;
        n = recall_range(x, &s->ctx.cache, r.from, r.end, room < max ? room : max, windows);
        if (n) rc = session_recall_return(s, windows, n, false, e);
        if (n) r.from = windows[n - 1].pos + (uint32_t)windows[n - 1].n;
    }
    return rc;
}

/* ---- forgotten turns ------------------------------------------------------------------------- */

/* The first token of the conversation's text: begin marks and instructions stay. */
struct opening {
    const struct session *s;
    int64_t first;
    bool found;
};

static void first_message(void *ctx, const struct store_message *m)
{
    struct opening *o = ctx;
    if (o->found) return;
    uint16_t *n_bytes = session_align(o->s, m);
    while (o->first + 1 < (int64_t)m->n_tokens && !n_bytes[o->first]) o->first++;
    o->found = true;
    free(n_bytes);
}

static int text_of(const struct session *s, int64_t turn, struct evict_pin *out, struct err *e)
{
    struct opening o = {s, 0, false};
    struct tokens ids = {0};
    *out = range_of(s, turn);
    if (turn > 1) return 0;
    int rc = save_transcript(s->save, &ids, first_message, &o, e);
    out->from = (uint32_t)o.first;
    tokens_release(&ids);
    return rc;
}

/* Whether the cache or the archive holds any of it. */
static bool is_here(const struct session *s, struct evict_pin r)
{
    const struct archive *x = session_recall_archive(s);
    return cache_holds(&s->ctx.cache, r.from, r.end) || (x && archive_holds(x, r.from, r.end));
}

int session_marks_forget(struct session *s, const struct session_sink *k, struct err *e)
{
    int rc = 0, n = 0;
    s->forgetting.n = 0;
    for (int i = 0; !rc && i < s->state.forgotten.n; i++) {
        struct evict_pin r;
        take_out(&s->state.pinned, s->state.forgotten.turn[i]);
        session_marks_pin(s);
        rc = text_of(s, s->state.forgotten.turn[i], &r, e);
        if (rc || !is_here(s, r)) continue;
        if (r.end > s->ctx.cache.n_pos) r.end = (uint32_t)s->ctx.cache.n_pos;
        rc = session_save_now(s, NULL, e); /* its units must be in the log */
        if (!rc) rc = session_drop(s, r.from, r.end, k, e);
        n++;
    }
    return rc || !n ? rc : session_save_now(s, NULL, e);
}

/* ---- marking --------------------------------------------------------------------------------- */

static int check(struct session *s, int64_t turn, const struct session_sink *sink, struct err *e)
{
    int rc = session_check_turn(s, turn, 1, e);
    return rc ? rc : session_finish_answer(s, sink ? sink : &session_silent, e);
}

/* Whether one more turn can be marked. */
static int check_room(const struct save_turns *t, struct err *e)
{
    if (t->n < SAVE_TURNS_MAX) return 0;
    return err_set(e, ERR_USAGE, "%d turns are marked already, the most there can be", t->n);
}

/* A failed change is taken back: the saved state is as before. */
static int settle(struct session *s, const struct save_state *before, int rc, struct err *e)
{
    if (!rc) rc = session_save_now(s, NULL, e);
    rc = store_release(save_store(s->save), rc, e);
    if (rc) s->state = *before;
    session_marks_pin(s);
    return rc;
}

static int check_pin(const struct session *s, int64_t turn, struct err *e)
{
    struct evict_pin r = range_of(s, turn);
    long long n = r.end - r.from, pinned = n_pinned_tokens(s), max = context_pins_max(&s->ctx);
    if (session_is_forgotten(s, turn))
        return err_set(e, ERR_USAGE, "turn %lld was forgotten", (long long)turn);
    if (!session_keeps_all(s) && pinned + n > max)
        return err_set(e, ERR_FIT,
                       "turn %lld has %lld tokens, %lld are pinned already; with a budget of %d "
                       "units at most %lld can be: /unpin another turn or /set budget",
                       (long long)turn, n, pinned, s->ctx.plan.budget, max);
    return check_room(&s->state.pinned, e);
}

int session_pin(struct session *s, int64_t turn, const struct session_sink *sink, struct err *e)
{
    const struct save_state before = s->state;
    int rc = check(s, turn, sink, e);
    if (rc || (session_is_pinned(s, turn) && !session_is_forgotten(s, turn))) return rc;
    rc = check_pin(s, turn, e);
    if (!rc) rc = store_hold(save_store(s->save), e);
    if (rc) return rc;
    add(&s->state.pinned, turn);
    rc = session_save_now(s, NULL, e);
    if (!rc) rc = bring_back(s, range_of(s, turn), e);
    return settle(s, &before, rc, e);
}

int session_unpin(struct session *s, int64_t turn, const struct session_sink *sink, struct err *e)
{
    const struct save_state before = s->state;
    int rc = check(s, turn, sink, e);
    if (!rc && !session_is_pinned(s, turn))
        rc = err_set(e, ERR_USAGE, "turn %lld is not pinned", (long long)turn);
    if (!rc) rc = store_hold(save_store(s->save), e);
    if (rc) return rc;
    take_out(&s->state.pinned, turn);
    return settle(s, &before, 0, e);
}

int session_forget(struct session *s, int64_t turn, const struct session_sink *sink, struct err *e)
{
    const struct save_state before = s->state;
    int rc = check(s, turn, sink, e);
    if (rc || session_is_forgotten(s, turn)) return rc;
    if (s->ctx.cache.recurrent.shape.n_layer)
        rc = err_set(e, ERR_USAGE,
                     "the recurrent layers of this model cannot forget a turn: /rewind goes back");
    if (!rc) rc = check_room(&s->state.forgotten, e);
    if (!rc) rc = store_hold(save_store(s->save), e);
    if (rc) return rc;
    add(&s->state.forgotten, turn);
    rc = settle(s, &before, 0, e);
    if (!rc) add(&s->forgetting, turn);
    return rc;
}

int session_unforget(struct session *s, const struct session_sink *sink, struct err *e)
{
    const struct save_state before = s->state;
    int rc = s->forgetting.n
                 ? check(s, s->forgetting.turn[0], sink, e)
                 : err_set(e, ERR_USAGE, "no turn was forgotten since the last message");
    if (!rc) rc = store_hold(save_store(s->save), e);
    if (rc) return rc;
    for (int i = 0; i < s->forgetting.n; i++) take_out(&s->state.forgotten, s->forgetting.turn[i]);
    rc = settle(s, &before, 0, e);
    if (!rc) s->forgetting.n = 0;
    return rc;
}

int session_marks_settle(struct session *s, const struct session_sink *k, struct err *e)
{
    return s->forgetting.n ? session_marks_forget(s, k, e) : 0;
}
