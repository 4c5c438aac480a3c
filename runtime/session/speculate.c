/* Speculation: the tokens that followed the same words earlier in the conversation are run together
 * with the token just drawn, because reading the weights once for several tokens takes little more
 * time than for one. Drawing is not changed: a proposal counts only when it is the token that is
 * drawn anyway. */
#include "runtime/session/session_parts.h"

#include <string.h>

#include "base/system.h"

/* Learning from the last 16 or so proposals, and from the last 8 or so runs. */
#define RATE_STEP (1.0 / 16)
#define TIME_STEP (1.0 / 8)
/* Rates recover while nothing is proposed, so that proposals are tried again now and then. */
#define RECOVER (1.0 / 512)

/* Few proposals at first, more where many words are the same; twice as many after all were right,
 * hardly more than were right otherwise. */
static const int first_limits[SPECULATE_CLASSES] = {2, 2, 8};
static const double first_rates[SPECULATE_CLASSES] = {0.3, 0.6, 0.85};

int session_speculate_open(struct session *s, struct err *e)
{
    struct session_speculate *p = &s->speculate;
    struct arena a;
    if (s->opts.plan.speculate.off || s->opts.read_only || !context_try_max(&s->ctx)) return 0;
    arena_init_plan(&a, "speculation");
    ngram_plan(&p->ngram, &a);
    int rc = arena_init_sparse(&p->arena, "speculation", a.used, e);
    if (rc) return rc;
    ngram_plan(&p->ngram, &p->arena);
    memset(p->arena.base, 0, p->arena.used); /* now, not page by page in the first answers */
    for (int i = 0; i < SPECULATE_CLASSES; i++) {
        p->rate[i] = first_rates[i];
        p->limit[i] = first_limits[i];
    }
    p->on = true;
    return 0;
}

void session_speculate_close(struct session *s)
{
    arena_release(&s->speculate.arena);
}

void session_speculate_add(struct session *s, int32_t id)
{
    if (s->speculate.on) ngram_add(&s->speculate.ngram, id);
    session_draft_add(s, id);
}

/* ---- how many -------------------------------------------------------------------------------- */

static void learn(double *mean, double value, double step)
{
    *mean += (value - *mean) * step;
}

/* Counts what became of the last proposals. */
static void learn_rate(struct session *s)
{
    struct session_speculate *p = &s->speculate;
    if (p->drafted) session_draft_learn(s, p->n_right, p->n_proposed);
    if (p->drafted) p->n_right = p->n_proposed = 0;
    double *rate = &p->rate[p->class];
    bool wrong = p->n_right < p->n_proposed;
    for (int i = 0; i < p->n_right; i++) learn(rate, 1, RATE_STEP);
    if (wrong) learn(rate, 0, RATE_STEP);
    if (p->n_proposed) p->limit[p->class] = wrong ? p->n_right + 1 : 2 * p->n_right;
    p->n_right = p->n_proposed = 0;
}

static void learn_time(struct session_speculate *p, int n, int64_t ns)
{
    double *mean = &p->ns[n];
    if (*mean == 0)
        *mean = (double)ns;
    else
        learn(mean, (double)ns, TIME_STEP);
}

double speculate_time(const struct session_speculate *p, int n)
{
    while (n > 1 && p->ns[n] == 0) n--;
    return p->ns[n];
}

/* The number of proposals, up to `max`, that promises the most tokens in a second. */
static int best_number(const struct session_speculate *p, double rate, int max)
{
    double expected = 1, chance = 1, best = 1 / speculate_time(p, 1);
    int n = 0;
    for (int i = 1; i <= max; i++) {
        chance *= rate;
        expected += chance;
        if (expected / speculate_time(p, i + 1) <= best) continue;
        best = expected / speculate_time(p, i + 1);
        n = i;
    }
    return n;
}

static int class_of(int n_match)
{
    return n_match < 6 ? 0 : n_match < 16 ? 1 : 2;
}

/* Of n tokens those before one that ends the turn: it is drawn, but not run. */
static int before_end(const struct session *s, const int32_t *ids, int n)
{
    for (int i = 0; i < n; i++)
        if (!s->opts.ignore_end && session_turn_is_over(s, ids[i])) return i;
    return n;
}

/* Writes proposals for the tokens after the newest one to out. */
static int propose(struct session *s, int32_t *out)
{
    struct session_speculate *p = &s->speculate;
    int max = s->opts.plan.speculate.n ? s->opts.plan.speculate.n : PLAN_SPECULATE_MAX, n_match;
    int room = cache_room(&s->ctx.cache) - 1, rows = context_try_max(&s->ctx) - 1;
    if (max > room) max = room;
    if (max > rows) max = rows;
    p->drafted = false;
    if (!p->on || max < 1 || p->ns[1] == 0) return 0;
    int n = ngram_propose(&p->ngram, out, max, &n_match);
    n = before_end(s, out, n);
    p->class = n ? class_of(n_match) : 0;
    if (p->class == 0 && s->draft.on) { /* it knows more than a few words in a row */
        p->drafted = true;
        return before_end(s, out, session_draft_propose(s, out, max));
    }
    if (n == 0) return 0;
    double *rate = &p->rate[p->class];
    if (!s->opts.plan.speculate.n)
        n = best_number(p, *rate, n < p->limit[p->class] ? n : p->limit[p->class]);
    if (n == 0) learn(rate, first_rates[p->class], RECOVER);
    return n;
}

/* ---- running --------------------------------------------------------------------------------- */

static bool was_tried(const struct session *s, int32_t id)
{
    const struct session_speculate *p = &s->speculate;
    return s->ctx.cache.n_tried > 0 && p->ids[1 + p->n_right] == id;
}

int session_run_drawn(struct session *s, int32_t id, struct err *e)
{
    struct session_speculate *p = &s->speculate;
    if (was_tried(s, id)) {
        p->n_right++;
        s->n_accepted++;
        context_accept(&s->ctx);
        return 0;
    }
    learn_rate(s);
    int rc, n = propose(s, p->ids + 1);
    int64_t began_ns = system_clock_ns();
    p->ids[0] = id;
    rc = n ? context_try(&s->ctx, p->ids, 1 + n, e) : context_run(&s->ctx, &id, 1, 1, e);
    p->n_proposed = n;
    s->n_proposed += n;
    if (!rc) learn_time(p, 1 + n, system_clock_ns() - began_ns);
    return rc;
}
