#include "runtime/session/speculate.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/system.h"
#include "runtime/forward/context.h"
#include "runtime/session/proposer.h"
#include "runtime/token/ngram.h"

/* Matches of a proposal's n-gram are in classes by their length. */
#define CLASSES 3

/* Learning from the last 16 or so proposals. */
#define RATE_STEP (1.0 / 16)
/* Rates recover while nothing is proposed, so that proposals are tried again now and then. */
#define RECOVER (1.0 / 512)

/* Few proposals at first, more where many words are the same; twice as many after all were right,
 * hardly more than were right otherwise. */
static const int first_limits[CLASSES] = {2, 2, 8};
static const double first_rates[CLASSES] = {0.3, 0.6, 0.85};

struct speculate {
    struct speculate_opts o;
    struct proposer proposer;
    struct ngram ngram;
    struct arena arena;
    int32_t ids[FORWARD_TRY_MAX];   /* that were tried last */
    int n_proposed, n_right;        /* of them, so far */
    bool by_mtp;                    /* by the MTP layer */
    int class, limit[CLASSES];      /* the most that may be proposed */
    double rate[CLASSES];           /* measured chance that the next proposal is right */
    double ns[FORWARD_TRY_MAX + 1]; /* measured time to run n tokens at once; 0 = not yet */
};

int speculate_open(struct speculate **out, const struct speculate_opts *o, struct err *e)
{
    struct arena a;
    *out = NULL;
    if (!context_try_max(o->ctx)) return 0;
    struct speculate *p = *out = memory_new(1, sizeof *p);
    p->o = *o;
    arena_init_plan(&a, "speculation");
    ngram_plan(&p->ngram, &a);
    int rc = arena_init_sparse(&p->arena, "speculation", a.used, e);
    if (rc) return rc;
    ngram_plan(&p->ngram, &p->arena);
    memset(p->arena.base, 0, p->arena.used); /* now, not page by page in the first answers */
    for (int i = 0; i < CLASSES; i++) {
        p->rate[i] = first_rates[i];
        p->limit[i] = first_limits[i];
    }
    proposer_init(&p->proposer, o->ctx);
    return 0;
}

void speculate_close(struct speculate *p)
{
    if (!p) return;
    arena_release(&p->arena);
    free(p);
}

void speculate_add(struct speculate *p, int32_t id)
{
    if (!p) return;
    ngram_add(&p->ngram, id);
    proposer_add(&p->proposer, id);
}

/* ---- how many -------------------------------------------------------------------------------- */

static void learn(double *mean, double value, double step)
{
    *mean += (value - *mean) * step;
}

/* Counts what became of the last proposals. */
static void learn_rate(struct speculate *p)
{
    if (p->by_mtp) proposer_learn(&p->proposer, p->n_right, p->n_proposed);
    if (p->by_mtp) p->n_right = p->n_proposed = 0;
    double *rate = &p->rate[p->class];
    bool wrong = p->n_right < p->n_proposed;
    for (int i = 0; i < p->n_right; i++) learn(rate, 1, RATE_STEP);
    if (wrong) learn(rate, 0, RATE_STEP);
    if (p->n_proposed) p->limit[p->class] = wrong ? p->n_right + 1 : 2 * p->n_right;
    p->n_right = p->n_proposed = 0;
}

/* The number of proposals, up to `max`, that promises the most tokens in a second. */
static int best_number(const struct speculate *p, double rate, int max)
{
    double expected = 1, chance = 1, best = 1 / proposer_time(p->ns, 1);
    int n = 0;
    for (int i = 1; i <= max; i++) {
        chance *= rate;
        expected += chance;
        if (expected / proposer_time(p->ns, i + 1) <= best) continue;
        best = expected / proposer_time(p->ns, i + 1);
        n = i;
    }
    return n;
}

static int class_of(int n_match)
{
    return n_match < 6 ? 0 : n_match < 16 ? 1 : 2;
}

/* Of n tokens those before one that ends the turn: it is drawn, but not run. */
static int before_end(const struct speculate *p, const int32_t *ids, int n)
{
    for (int i = 0; i < n; i++)
        if (p->o.ends(p->o.ends_ctx, ids[i])) return i;
    return n;
}

/* Writes proposals for the tokens after the newest one to out. */
static int propose(struct speculate *p, int32_t *out)
{
    const struct context *x = p->o.ctx;
    int max = p->o.n ? p->o.n : PLAN_SPECULATE_MAX, n_match;
    int room = cache_room(&x->cache) - 1, rows = context_try_max(x) - 1;
    if (max > room) max = room;
    if (max > rows) max = rows;
    p->by_mtp = false;
    if (max < 1 || p->ns[1] == 0) return 0;
    int n = before_end(p, out, ngram_propose(&p->ngram, out, max, &n_match));
    p->class = n ? class_of(n_match) : 0;
    if (p->class == 0) { /* the MTP layer knows more than a few words in a row */
        const struct proposer_wish w = {max, p->o.n > 0, p->ns};
        int32_t ids[FORWARD_TRY_MAX];
        const int n_ids = proposer_propose(&p->proposer, &w, ids);
        p->by_mtp = n_ids > 0;
        if (p->by_mtp) memcpy(out, ids, (size_t)n_ids * sizeof *ids);
        if (p->by_mtp) return before_end(p, ids, n_ids);
    }
    if (n == 0) return 0;
    double *rate = &p->rate[p->class];
    if (!p->o.n) n = best_number(p, *rate, n < p->limit[p->class] ? n : p->limit[p->class]);
    if (n == 0) learn(rate, first_rates[p->class], RECOVER);
    return n;
}

/* ---- running --------------------------------------------------------------------------------- */

int speculate_run(struct speculate *p, int32_t id, struct speculate_counts *counts, struct err *e)
{
    struct context *x = p->o.ctx;
    if (x->cache.n_tried > 0 && p->ids[1 + p->n_right] == id) {
        p->n_right++;
        counts->n_accepted++;
        context_accept(x);
        return 0;
    }
    learn_rate(p);
    int rc, n = propose(p, p->ids + 1);
    int64_t began_ns = system_clock_ns();
    p->ids[0] = id;
    rc = n ? context_try(x, p->ids, 1 + n, e) : context_run(x, &id, 1, 1, e);
    p->n_proposed = n;
    counts->n_proposed += n;
    if (!rc) proposer_learn_time(&p->ns[1 + n], system_clock_ns() - began_ns);
    return rc;
}
