/* Invariants of a session. */
#include <assert.h>

#include "runtime/session/session_parts.h"

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
