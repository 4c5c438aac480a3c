#include "runtime/session/proposer.h"

#include <math.h>
#include <string.h>

#include "base/system.h"
#include "runtime/forward/context.h"

#define STEP (1.0 / 16)
/* After so many answers' tokens without a proposal it rests, each time twice as long. */
#define TRIES    8
#define REST_MAX 1024
/* An MTP layer learned to propose one token; it is asked for more as long as they save time. */
#define MTP_STEPS 3

void proposer_init(struct proposer *d, struct context *answers)
{
    *d = (struct proposer){.cache = &answers->cache, .guess = -1};
    if (mtp_is_open(&answers->mtp)) d->mtp = &answers->mtp;
    for (int i = 0; i < FORWARD_TRY_MAX; i++) d->trust[i] = 1;
}

/* Proposal i was right, or not. The first ones since a rest count most. */
static void learn_trust(struct proposer *d, int i, bool right)
{
    const double step = fmax(STEP, 1.0 / (++d->n_learned[i] + 1));
    const double ratio = fmin(right / d->p[i], 2);
    d->trust[i] = fmax(d->trust[i] + (ratio - d->trust[i]) * step, 0.05);
}

void proposer_add(struct proposer *d, int32_t id)
{
    d->newest = id;
    if (d->guess >= 0) learn_trust(d, 0, id == d->guess);
    d->guess = -1;
}

/* Guesses the token after the newest one, or after one more, a proposal. */
static int read_next(struct proposer *d, const int32_t *proposal, struct mtp_guess *out,
                     struct err *e)
{
    const int64_t t0 = system_clock_ns();
    int rc = proposal ? mtp_read_proposal(d->mtp, *proposal, out, e)
                      : mtp_read(d->mtp, d->cache, d->newest, out, e);
    const bool few = proposal || d->mtp->n_newest <= FORWARD_TRY_MAX;
    if (few) proposer_learn_time(&d->ns, system_clock_ns() - t0);
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
static double rate_of(const struct proposer *d, const struct proposer_wish *w, struct outlook o)
{
    return o.expected / (proposer_time(w->ns, o.n + 1) + o.n * d->ns);
}

/* Whether up to `max` proposals, all others as likely to be right as the last one, have a better
 * rate: two tokens may cost much more than one, and four no more than two. */
static bool may_pay(const struct proposer *d, const struct proposer_wish *w, struct outlook o,
                    double right, int max, double best)
{
    while (o.n < max) {
        add_proposal(&o, right);
        if (rate_of(d, w, o) > best) return true;
    }
    return false;
}

/* Proposes all tokens that are wanted, or as many as promise the most tokens in a second. */
static int propose(struct proposer *d, const struct proposer_wish *w, int32_t *out, struct err *e)
{
    const int max = !w->all && w->max > MTP_STEPS ? MTP_STEPS : w->max;
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

static void rest_or_not(struct proposer *d, int n)
{
    if (n) d->n_vain = d->resting = 0;
    if (n || ++d->n_vain < TRIES) return;
    d->n_vain = 0;
    d->resting = d->resting ? 2 * d->resting : TRIES;
    if (d->resting > REST_MAX) d->resting = REST_MAX;
    d->n_rest = d->resting;
    memset(d->n_learned, 0, sizeof d->n_learned); /* the text may be another then */
}

int proposer_propose(struct proposer *d, const struct proposer_wish *w, int32_t *out)
{
    struct err e;
    if (!d->mtp || d->failed || (d->n_rest > 0 && d->n_rest--)) return 0;
    int n = propose(d, w, out, &e);
    d->failed = n < 0;
    if (d->failed) return 0;
    rest_or_not(d, n);
    return n;
}

void proposer_learn(struct proposer *d, int n_right, int n_proposed)
{
    for (int i = 0; i < n_proposed && i <= n_right; i++) learn_trust(d, i, i < n_right);
}
