/* Units that are set aside are moved before a head's others, and the head begins after them. So no
 * unit leaves the pool, and the newest ones do not move. */
#include "runtime/cache/recall.h"

#include "base/check.h"
#include "base/pool.h"
#include "runtime/cache/evict.h"

struct job {
    struct cache *c;
    const struct evict_rule *rule;
    const struct recall_aside *aside;
};

static void exchange_bytes(void *one, void *other, size_t n)
{
    for (uint8_t *a = one, *b = other; n-- > 0; a++, b++) {
        const uint8_t byte = *a;
        *a = *b;
        *b = byte;
    }
}

/* Reverses the order of the units in slots [from, end). */
static void reverse(const struct cache *c, const struct cache_head *h, int from, int end)
{
    for (size_t a = (size_t)from, b = (size_t)end; a + 1 < b--; a++) {
        exchange_bytes(h->k + a * c->k_bytes, h->k + b * c->k_bytes, c->k_bytes);
        exchange_bytes(h->v + a * c->v_bytes, h->v + b * c->v_bytes, c->v_bytes);
        exchange_bytes(h->score + a, h->score + b, sizeof *h->score);
        exchange_bytes(h->pos + a, h->pos + b, sizeof *h->pos);
    }
}

/* The units [from, middle) and [middle, end) change places. */
static void exchange(const struct cache *c, const struct cache_head *h, int from, int middle,
                     int end)
{
    reverse(c, h, from, middle);
    reverse(c, h, middle, end);
    reverse(c, h, from, end);
}

/* The head begins n slots later; earlier if n is negative. */
static void begin_later(const struct cache *c, struct cache_head *h, int n)
{
    h->slot0 += (size_t)n;
    h->k = c->k + h->slot0 * c->k_bytes;
    h->v = c->v + h->slot0 * c->v_bytes;
    h->score = c->score + h->slot0;
    h->pos = c->pos + h->slot0;
    h->len -= n;
    h->capacity -= n;
    h->aside += n;
}

static bool stays(const struct job *j, uint32_t pos)
{
    for (int i = 0; i < j->aside->n; i++)
        if (pos - j->aside->windows[i].pos < (uint32_t)j->aside->windows[i].n) return true;
    return evict_protects(j->rule, pos);
}

/* From the newest of the old units to the oldest, each run that stays is moved behind those after
 * it that do not. */
static void set_aside(void *ctx, int index, int thread)
{
    const struct job *j = ctx;
    struct cache_head *h = &j->c->kv_heads[index];
    int end = cache_slot(h, j->aside->from);
    (void)thread;
    for (int s = end; s > 0;) {
        while (s > 0 && !stays(j, h->pos[s - 1])) s--;
        const int middle = s;
        while (s > 0 && stays(j, h->pos[s - 1])) s--;
        exchange(j->c, h, s, middle, end);
        end -= middle - s;
    }
    begin_later(j->c, h, end);
}

void recall_set_aside(struct cache *c, const struct evict_rule *rule,
                      const struct recall_aside *aside, struct pool *p)
{
    struct job j = {c, rule, aside};
    pool_run(p, cache_n_heads(c), set_aside, &j);
    CHECK(cache_check(c));
}

/* Merges the units before `middle` and those after it, both in position order. */
static void put_back(void *ctx, int index, int thread)
{
    struct cache *c = ctx;
    struct cache_head *h = &c->kv_heads[index];
    int middle = h->aside;
    (void)thread;
    begin_later(c, h, -middle);
    for (int s = 0; s < middle; s++) {
        const int n = h->len - middle;
        const int before = (int)cache_first_from(h->pos + middle, (size_t)n, h->pos[s]);
        if (before) exchange(c, h, s, middle, middle + before);
        middle += before;
        s += before;
    }
}

bool recall_is_aside(const struct cache *c)
{
    for (int i = 0; i < cache_n_heads(c); i++)
        if (c->kv_heads[i].aside) return true;
    return false;
}

void recall_put_back(struct cache *c, struct pool *p)
{
    pool_run(p, cache_n_heads(c), put_back, c);
    CHECK(cache_check(c));
}
