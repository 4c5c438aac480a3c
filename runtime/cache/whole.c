#include "runtime/cache/evict.h"

#include <math.h>
#include <string.h>

#include "base/pool.h"

enum { PART = 64 }; /* candidates that a thread looks up at once */

struct job {
    const struct cache *c;
    const float *std, *mean;
};

/* Finds the largest score of each candidate of a part; NAN where a head lacks its unit. */
static void look_up(void *ctx, int part, int thread)
{
    const struct job *j = ctx;
    const struct cache_whole *w = &j->c->whole;
    const int from = part * PART, end = from + PART < w->n ? from + PART : w->n;
    (void)thread;
    for (int i = from; i < end; i++) w->worth[i] = -INFINITY;
    for (int index = 0; index < cache_n_heads(j->c); index++) {
        const struct cache_head *h = &j->c->kv_heads[index];
        int s = cache_slot(h, w->pos[from]);
        for (int i = from; i < end; i++) {
            while (s < h->len && h->pos[s] < w->pos[i]) s++;
            bool holds = s < h->len && h->pos[s] == w->pos[i];
            float x = holds ? h->score[s] * j->std[index] + j->mean[index] : NAN;
            if (!(x <= w->worth[i])) w->worth[i] = isnan(w->worth[i]) ? NAN : x;
        }
    }
}

/* The tokens of the shortest head that nothing else protects. */
static void list_candidates(struct cache *c, const struct evict_rule *r)
{
    const struct cache_head *h = &c->kv_heads[0];
    for (int i = 1; i < cache_n_heads(c); i++)
        if (c->kv_heads[i].len < h->len) h = &c->kv_heads[i];
    c->whole.n = 0;
    for (int s = 0; s < h->len - evict_newest(r); s++)
        if (!evict_protects(r, h->pos[s])) c->whole.pos[c->whole.n++] = h->pos[s];
}

/* Keeps the candidates that all heads hold; their worth becomes a share. */
static void drop_partial(struct cache_whole *w)
{
    int n = 0;
    for (int i = 0; i < w->n; i++) {
        if (isnan(w->worth[i])) continue;
        w->pos[n] = w->pos[i];
        w->worth[n++] = expf(w->worth[i]);
    }
    w->n = n;
}

/* The mean worth of the tokens around candidate i that follow each other. */
static float mean_worth(const struct cache_whole *w, int i)
{
    float sum = 0;
    int n = 0;
    for (int k = i - WHOLE_SPAN / 2; k <= i + WHOLE_SPAN / 2; k++) {
        if (k < 0 || k >= w->n || w->pos[k] - w->pos[i] != (uint32_t)(k - i)) continue;
        sum += w->worth[k];
        n++;
    }
    return sum / (float)n;
}

/* The bits of floats that are not negative are in the floats' order. */
static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static int count_from(const struct cache_whole *w, uint32_t least)
{
    int n = 0;
    for (int i = 0; i < w->n; i++) n += bits_of(w->passage[i]) >= least;
    return n;
}

/* Keeps the n best candidates. */
static void keep_best(struct cache_whole *w, int n)
{
    uint32_t line = 0; /* the bits of the n-th best, from the highest one down */
    if (n >= w->n) return;
    for (uint32_t bit = 1u << 30; n && bit; bit >>= 1)
        if (count_from(w, line | bit) >= n) line |= bit;
    int equal = n - count_from(w, line + 1), kept = 0;
    for (int i = 0; i < w->n && kept < n; i++) {
        uint32_t bits = bits_of(w->passage[i]);
        if (bits > line || (bits == line && equal-- > 0)) w->pos[kept++] = w->pos[i];
    }
    w->n = kept;
}

void whole_choose(struct cache *c, const struct evict_rule *rule, const float *std,
                  const float *mean, struct pool *p)
{
    struct cache_whole *w = &c->whole;
    const struct job j = {c, std, mean};
    int n = rule->whole - rule->sinks - evict_newest(rule);
    for (int i = 0; i < rule->n_pins; i++) n -= (int)(rule->pins[i].end - rule->pins[i].from);
    list_candidates(c, rule);
    pool_run(p, (w->n + PART - 1) / PART, look_up, (void *)&j);
    drop_partial(w);
    for (int i = 0; i < w->n; i++) w->passage[i] = mean_worth(w, i);
    keep_best(w, n > 0 ? n : 0);
}
