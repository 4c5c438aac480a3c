/* A draft model (engine.draft): a small model with the same vocabulary proposes the next tokens,
 * its most likely ones. Its cache has a separate budget and lags behind the conversation until an
 * answer needs proposals. It changes no token of the answer (speculate.c), so it may forget: of a
 * long conversation it reads the newest tokens only. */
#include "runtime/session/session_parts.h"

#include <math.h>
#include <string.h>

#include "base/system.h"
#include "runtime/forward/engine.h"

#define BEHIND_MAX 4096 /* the newest tokens that it reads */
#define STEP       (1.0 / 16)
/* After so many answers' tokens without a proposal it rests, each time twice as long. */
#define TRIES    16
#define REST_MAX 1024

static void plan_state(struct session_draft *d, struct arena *a)
{
    const struct recurrent_state *r = &d->ctx.cache.recurrent;
    d->held = arena_take(a, recurrent_state_layer_bytes(r), 1);
    d->steps = arena_take(a, FORWARD_TRY_MAX, recurrent_state_step_bytes(r));
}

static int open_state(struct session_draft *d, struct err *e)
{
    struct arena a;
    if (!d->ctx.cache.recurrent.layers) return 0;
    arena_init_plan(&a, "draft");
    plan_state(d, &a);
    int rc = arena_init(&d->arena, "draft", a.used, e);
    if (!rc) plan_state(d, &d->arena);
    return rc;
}

int session_draft_open(struct session *s, struct err *e)
{
    struct session_draft *d = &s->draft;
    struct engine *g = s->engine->draft;
    if (!g || !s->speculate.on) return 0;
    struct plan_opts o = engine_draft_plan();
    int rc = context_open(&d->ctx, g, &o, 1, 1, e);
    if (rc) return rc;
    rc = open_state(d, e);
    if (rc) {
        context_release(&d->ctx);
        return rc;
    }
    tokens_reserve(&d->behind, 2 * BEHIND_MAX);
    d->trust = 1;
    d->on = true;
    return 0;
}

void session_draft_close(struct session *s)
{
    if (s->draft.on) context_release(&s->draft.ctx);
    arena_release(&s->draft.arena);
    tokens_release(&s->draft.behind);
}

void session_draft_forget(struct session *s)
{
    struct session_draft *d = &s->draft;
    if (!d->on) return;
    cache_clear(&d->ctx.cache);
    d->behind.n = 0;
    d->n_ran = d->n_same = 0;
}

/* Takes back the proposals that did not become part of the conversation. A recurrent state can't do
 * that: it goes back to the one in front of all, and repeats the steps of the others. */
static void take_back(struct session_draft *d)
{
    struct recurrent_state *r = &d->ctx.cache.recurrent;
    const size_t bytes = recurrent_state_step_bytes(r);
    if (d->held && d->n_ran > d->n_same) {
        memcpy(r->layers, d->held, recurrent_state_layer_bytes(r));
        for (int i = 0; i < d->n_same; i++) {
            memcpy(r->step, d->steps + (size_t)i * bytes, bytes);
            r->repeat(r->repeat_ctx);
        }
    }
    for (; d->n_ran > d->n_same; d->n_ran--) cache_remove_newest(&d->ctx.cache);
    d->n_ran = d->n_same = 0;
}

void session_draft_add(struct session *s, int32_t id)
{
    struct session_draft *d = &s->draft;
    struct tokens *b = &d->behind;
    if (!d->on) return;
    if (d->n_same < d->n_ran && d->ran[d->n_same] == id) {
        d->n_same++;
        return;
    }
    take_back(d);
    if (b->n == 2 * BEHIND_MAX) {
        memmove(b->ids, b->ids + BEHIND_MAX, BEHIND_MAX * sizeof *b->ids);
        b->n = BEHIND_MAX;
    }
    tokens_push(b, id);
}

/* ---- proposing ------------------------------------------------------------------------------- */

static int run(struct session_draft *d, const int32_t *ids, int n, struct err *e)
{
    int64_t n_evicted;
    int rc = cache_room(&d->ctx.cache) < n ? context_evict(&d->ctx, &n_evicted, e) : 0;
    return rc ? rc : context_run(&d->ctx, ids, n, 1, e);
}

/* Reads the conversation's tokens up to the newest one. */
static int catch_up(struct session_draft *d, struct err *e)
{
    struct tokens *b = &d->behind;
    size_t at = b->n > BEHIND_MAX ? b->n - BEHIND_MAX : 0;
    int rc = 0;
    while (!rc && at < b->n) {
        size_t left = b->n - at,
               n = left < (size_t)d->ctx.plan.chunk ? left : (size_t)d->ctx.plan.chunk;
        rc = run(d, b->ids + at, (int)n, e);
        at += n;
    }
    b->n = 0;
    d->n_ran = d->n_same = 0;
    return rc;
}

/* Reads a proposal, which may be taken back. */
static int run_proposal(struct session_draft *d, int32_t id, struct err *e)
{
    const struct recurrent_state *r = &d->ctx.cache.recurrent;
    const size_t bytes = recurrent_state_step_bytes(r);
    int64_t t0 = system_clock_ns();
    if (d->held && d->n_ran == 0) memcpy(d->held, r->layers, recurrent_state_layer_bytes(r));
    int rc = run(d, &id, 1, e);
    if (rc) return rc;
    if (d->held) memcpy(d->steps + (size_t)d->n_ran * bytes, r->step, bytes);
    double ns = (double)(system_clock_ns() - t0);
    d->ns = d->ns > 0 ? d->ns + (ns - d->ns) * STEP : ns;
    d->ran[d->n_ran++] = id;
    return 0;
}

/* The most likely next token of the first n_vocab, and its probability. */
static int32_t likeliest(const float *logits, int n_vocab, double *p)
{
    int32_t best = 0;
    double sum = 0;
    for (int i = 1; i < n_vocab; i++)
        if (logits[i] > logits[best]) best = i;
    for (int i = 0; i < n_vocab; i++) sum += exp((double)(logits[i] - logits[best]));
    *p = 1 / sum;
    return best;
}

/* Proposes as long as each more token is worth its time. */
static int propose(struct session *s, int32_t *out, int max, struct err *e)
{
    struct session_draft *d = &s->draft;
    const bool fixed = s->opts.plan.speculate.n > 0;
    const int n_vocab = s->engine->model->n_vocab, own = d->ctx.engine->model->n_vocab;
    double expected = 1, chance = 1, best = 1 / speculate_time(&s->speculate, 1), p;
    int n = 0;
    while (n < max) {
        float *logits;
        int rc = context_logits(&d->ctx, &logits, e);
        if (rc) return rc;
        int32_t id = likeliest(logits, own < n_vocab ? own : n_vocab, &p);
        chance *= fmin(p * d->trust, 1);
        expected += chance;
        double rate = expected / (speculate_time(&s->speculate, n + 2) + (n + 1) * d->ns);
        if (!fixed && rate <= best) break;
        best = rate;
        d->p[n] = p;
        out[n++] = id;
        if (n == max) break;
        rc = run_proposal(d, id, e);
        if (rc) return rc;
    }
    return n;
}

static void rest_or_not(struct session_draft *d, int n)
{
    if (n) d->n_vain = d->resting = 0;
    if (n || ++d->n_vain < TRIES) return;
    d->n_vain = 0;
    d->resting = d->resting ? 2 * d->resting : TRIES;
    if (d->resting > REST_MAX) d->resting = REST_MAX;
    d->n_rest = d->resting;
}

int session_draft_propose(struct session *s, int32_t *out, int max)
{
    struct session_draft *d = &s->draft;
    struct err e;
    if (!d->on || (d->n_rest > 0 && d->n_rest--)) return 0;
    int rc = catch_up(d, &e);
    int n = rc ? rc : propose(s, out, max < FORWARD_TRY_MAX ? max : FORWARD_TRY_MAX, &e);
    if (n < 0) { /* the answer does not need it */
        session_draft_forget(s);
        d->on = false;
        context_release(&d->ctx);
        return 0;
    }
    rest_or_not(d, n);
    return n;
}

void session_draft_learn(struct session *s, int n_right, int n_proposed)
{
    struct session_draft *d = &s->draft;
    for (int i = 0; i < n_proposed && i <= n_right; i++) {
        double ratio = (i < n_right) / d->p[i];
        d->trust += (fmin(ratio, 2) - d->trust) * STEP;
    }
    if (d->trust < 0.05) d->trust = 0.05;
}
