#include "runtime/token/ngram.h"

static const int lengths[2] = {NGRAM_SHORT, NGRAM_LONG};

void ngram_plan(struct ngram *g, struct arena *a)
{
    *g = (struct ngram){.ids = arena_take(a, NGRAM_TOKENS, sizeof *g->ids)};
    for (int i = 0; i < 2; i++)
        g->ends[i] = arena_take(a, 2 * (size_t)NGRAM_TOKENS, sizeof *g->ends[i]);
}

static int32_t token(const struct ngram *g, int64_t i)
{
    return g->ids[i % NGRAM_TOKENS];
}

/* Where the newest `length` tokens are looked up. */
static uint32_t *place(const struct ngram *g, int i)
{
    uint64_t hash = 0;
    for (int64_t t = g->n - lengths[i]; t < g->n; t++)
        hash = (hash + (uint64_t)(uint32_t)token(g, t) + 1) * 0x9e3779b97f4a7c15u;
    return &g->ends[i][hash >> (64 - 17)];
}
_Static_assert(2 * NGRAM_TOKENS == 1 << 17, "the bits of a hash");

void ngram_add(struct ngram *g, int32_t id)
{
    /* the tokens before this one: a place before the newest tokens is never their own */
    for (int i = 0; i < 2; i++)
        if (g->n >= lengths[i]) *place(g, i) = (uint32_t)g->n;
    g->ids[g->n++ % NGRAM_TOKENS] = id;
}

/* The number of tokens before `end` that equal the newest ones. */
static int match(const struct ngram *g, int64_t end)
{
    int64_t oldest = g->n > NGRAM_TOKENS ? g->n - NGRAM_TOKENS : 0;
    int n = 0;
    while (n < NGRAM_MATCH_MAX && end - n > oldest &&
           token(g, end - 1 - n) == token(g, g->n - 1 - n))
        n++;
    return n;
}

int ngram_propose(const struct ngram *g, int32_t *out, int max, int *n_match)
{
    for (int i = 1; i >= 0; i--) {
        if (g->n <= lengths[i]) continue;
        int64_t back = (uint32_t)((uint32_t)g->n - *place(g, i)), end = g->n - back;
        if (back == 0 || back > NGRAM_TOKENS || end < lengths[i]) continue;
        *n_match = match(g, end);
        if (*n_match < lengths[i]) continue; /* other tokens with the same hash */
        int n = back < max ? (int)back : max;
        for (int t = 0; t < n; t++) out[t] = token(g, end + t);
        return n;
    }
    return 0;
}
