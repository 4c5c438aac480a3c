#include "runtime/session/draft.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/system.h"
#include "runtime/forward/context.h"
#include "runtime/forward/engine.h"

#define BEHIND_MAX 4096 /* the newest tokens that it reads */
#define STEP       (1.0 / 16)
/* After so many answers' tokens without a proposal it rests, each time twice as long. */
#define TRIES    8
#define REST_MAX 1024
/* An MTP layer learned to propose one token; it is asked for more as long as they save time. */
#define MTP_STEPS 3

struct draft_model {
    struct mtp *mtp;             /* of the context that answers; NULL = ctx is used */
    const struct cache *answers; /* of that context */
    int32_t newest;              /* token of the conversation */
    struct context ctx;
    int n_vocab;                    /* of the model that answers */
    struct tokens behind;           /* of the conversation, that it has not read */
    int32_t ran[FORWARD_TRY_MAX];   /* [n_ran] its proposals that it has read, */
    int n_ran, n_same;              /* of which so many became part of the conversation */
    struct arena arena;             /* of a model with recurrent layers: */
    float *held;                    /* their state before `ran` */
    uint8_t *steps;                 /* [n_ran] the inputs of their steps since */
    double p[FORWARD_TRY_MAX];      /* of the last proposals */
    double trust[FORWARD_TRY_MAX];  /* of each: how often it was right, for each that p promises */
    int n_learned[FORWARD_TRY_MAX]; /* since the last rest */
    int32_t guess;                  /* the proposal that did not pay, to learn from; -1 = none */
    double ns;                      /* time for one proposal */
    int n_vain, resting, n_rest;
    bool failed; /* the answer does not need it */
};

static void plan_state(struct draft_model *d, struct arena *a)
{
    const struct recurrent_state *r = &d->ctx.cache.recurrent;
    d->held = arena_take(a, recurrent_state_layer_bytes(r), 1);
    d->steps = arena_take(a, FORWARD_TRY_MAX, recurrent_state_step_bytes(r));
}

int draft_model_open(struct draft_model **out, struct context *answers, struct err *e)
{
    struct engine *g = answers->engine->draft;
    *out = NULL;
    if (!g && !mtp_is_open(&answers->mtp)) return 0;
    struct draft_model *d = memory_new(1, sizeof *d);
    struct plan_opts o = engine_draft_plan();
    d->n_vocab = answers->engine->model->n_vocab;
    d->answers = &answers->cache;
    for (int i = 0; i < FORWARD_TRY_MAX; i++) d->trust[i] = 1;
    if (!g) d->mtp = &answers->mtp;
    d->guess = -1;
    int rc = g ? context_open(&d->ctx, g, &o, 1, 1, e) : 0;
    if (rc) {
        free(d);
        return rc;
    }
    *out = d;
    if (!g) return 0;
    tokens_reserve(&d->behind, 2 * BEHIND_MAX);
    while (d->ctx.cache.recurrent.layers && arena_make(&d->arena, "draft", &rc, e))
        plan_state(d, &d->arena);
    return rc;
}

void draft_model_close(struct draft_model *d)
{
    if (!d) return;
    context_release(&d->ctx);
    arena_release(&d->arena);
    tokens_release(&d->behind);
    free(d);
}

int64_t draft_model_bytes(const struct draft_model *d)
{
    return (int64_t)plan_total_bytes(&d->ctx.plan);
}

void draft_model_forget(struct draft_model *d)
{
    d->guess = -1;
    if (d->mtp) return; /* it notices */
    cache_clear(&d->ctx.cache);
    d->behind.n = 0;
    d->n_ran = d->n_same = 0;
}

/* Takes back the proposals that did not become part of the conversation. A recurrent state can't do
 * that: it goes back to the one in front of all, and repeats the steps of the others. */
static void take_back(struct draft_model *d)
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

/* Proposal i was right, or not. The first ones since a rest count most. */
static void learn_trust(struct draft_model *d, int i, bool right)
{
    const double step = fmax(STEP, 1.0 / (++d->n_learned[i] + 1));
    const double ratio = fmin(right / d->p[i], 2);
    d->trust[i] = fmax(d->trust[i] + (ratio - d->trust[i]) * step, 0.05);
}

void draft_model_add(struct draft_model *d, int32_t id)
{
    struct tokens *b = &d->behind;
    d->newest = id;
    if (d->guess >= 0) learn_trust(d, 0, id == d->guess);
    d->guess = -1;
    if (d->mtp) return;
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

static int run(struct draft_model *d, const int32_t *ids, int n, struct err *e)
{
    int64_t n_evicted;
    int rc = cache_room(&d->ctx.cache) < n ? context_evict(&d->ctx, &n_evicted, e) : 0;
    return rc ? rc : context_run(&d->ctx, ids, n, 1, e);
}

/* Reads the conversation's tokens up to the newest one. */
static int catch_up(struct draft_model *d, struct err *e)
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
static int run_proposal(struct draft_model *d, int32_t id, struct err *e)
{
    const struct recurrent_state *r = &d->ctx.cache.recurrent;
    const size_t bytes = recurrent_state_step_bytes(r);
    if (d->held && d->n_ran == 0) memcpy(d->held, r->layers, recurrent_state_layer_bytes(r));
    int rc = run(d, &id, 1, e);
    if (rc) return rc;
    if (d->held) memcpy(d->steps + (size_t)d->n_ran * bytes, r->step, bytes);
    d->ran[d->n_ran++] = id;
    return 0;
}

/* Guesses the token after the newest one, or after one more, a proposal. */
static int read_next(struct draft_model *d, const int32_t *proposal, struct mtp_guess *out,
                     struct err *e)
{
    const int64_t t0 = system_clock_ns();
    float *logits;
    int rc;
    if (d->mtp) {
        rc = proposal ? mtp_read_proposal(d->mtp, *proposal, out, e)
                      : mtp_read(d->mtp, d->answers, d->newest, out, e);
    } else {
        const int own = d->ctx.engine->model->n_vocab;
        rc = proposal ? run_proposal(d, *proposal, e) : catch_up(d, e);
        if (!rc) rc = context_logits(&d->ctx, &logits, e);
        if (!rc) out->id = sampler_likeliest(logits, own < d->n_vocab ? own : d->n_vocab, &out->p);
    }
    const bool few = proposal || (d->mtp && d->mtp->n_newest <= FORWARD_TRY_MAX);
    if (few) draft_learn_time(&d->ns, system_clock_ns() - t0);
    return rc;
}

/* n proposals, of which `expected` - 1 will be right, and the last one by `chance`. */
struct outlook {
    double expected, chance;
    int n;
};

static void add_proposal(struct outlook *o, double right)
{
    o->chance *= right;
    o->expected += o->chance;
    o->n++;
}

/* Tokens in a nanosecond. */
static double rate_of(const struct draft_model *d, const struct draft_wish *w, struct outlook o)
{
    return o.expected / (draft_time(w->ns, o.n + 1) + o.n * d->ns);
}

/* Whether up to `max` proposals, all others as likely to be right as the last one, have a better
 * rate: two tokens may cost much more than one, and four no more than two. */
static bool may_pay(const struct draft_model *d, const struct draft_wish *w, struct outlook o,
                    double right, int max, double best)
{
    while (o.n < max) {
        add_proposal(&o, right);
        if (rate_of(d, w, o) > best) return true;
    }
    return false;
}

/* Proposes all tokens that are wanted, or as many as promise the most tokens in a second. */
static int propose(struct draft_model *d, const struct draft_wish *w, int32_t *out, struct err *e)
{
    const int max = d->mtp && !w->all && w->max > MTP_STEPS ? MTP_STEPS : w->max;
    struct outlook o = {1, 1, 0};
    double best = rate_of(d, w, o), right = 1;
    int n = 0;
    while (o.n < max && (w->all || may_pay(d, w, o, right, max, best))) {
        struct mtp_guess next;
        int rc = read_next(d, o.n ? &out[o.n - 1] : NULL, &next, e);
        if (rc) return rc;
        if (next.id < 0) break;
        out[o.n] = next.id;
        d->p[o.n] = next.p;
        right = fmin(d->p[o.n] * d->trust[o.n], 1);
        add_proposal(&o, right);
        if (!w->all && rate_of(d, w, o) <= best) continue;
        best = rate_of(d, w, o);
        n = o.n;
    }
    if (o.n > 0 && n == 0) d->guess = out[0];
    return n;
}

static void rest_or_not(struct draft_model *d, int n)
{
    if (n) d->n_vain = d->resting = 0;
    if (n || ++d->n_vain < TRIES) return;
    d->n_vain = 0;
    d->resting = d->resting ? 2 * d->resting : TRIES;
    if (d->resting > REST_MAX) d->resting = REST_MAX;
    d->n_rest = d->resting;
    memset(d->n_learned, 0, sizeof d->n_learned); /* the text may be another then */
}

int draft_model_propose(struct draft_model *d, const struct draft_wish *w, int32_t *out)
{
    struct err e;
    if (d->failed || (d->n_rest > 0 && d->n_rest--)) return 0;
    int n = propose(d, w, out, &e);
    if (n < 0) draft_model_forget(d);
    if (n < 0) d->failed = true;
    if (n < 0) return 0;
    rest_or_not(d, n);
    return n;
}

void draft_model_learn(struct draft_model *d, int n_right, int n_proposed)
{
    for (int i = 0; i < n_proposed && i <= n_right; i++) learn_trust(d, i, i < n_right);
}
