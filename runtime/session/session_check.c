/* Invariants of a session and of what is saved of it. */
#include <assert.h>

#include "runtime/session/save_parts.h"
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

/* The log is not ahead of the cache, checkpoints follow one another, and the units that it knows
 * are in position order. */
void save_check(const struct save *s, const struct cache *c)
{
    if (s->broken) return;
    assert(s->saved_pos >= 0 && s->saved_pos <= c->n_pos);
    for (size_t i = 1; i < s->n_points; i++) {
        assert(s->points[i - 1].seq <= s->points[i].seq);
        assert(s->points[i - 1].n_run <= s->points[i].n_run);
    }
    const int n_heads = c->shape.n_layer * c->shape.n_head, max = cache_head_max(&c->shape);
    for (int i = 0; s->known && i < n_heads; i++) {
        const uint32_t *known = s->known + (size_t)i * (size_t)max;
        assert(s->n_known[i] >= 0 && s->n_known[i] <= max);
        for (int k = 1; k < s->n_known[i]; k++) assert(known[k - 1] < known[k]);
        assert(!s->n_known[i] || known[s->n_known[i] - 1] < s->saved_pos);
    }
}
