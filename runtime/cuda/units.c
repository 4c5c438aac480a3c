#include "runtime/cuda/parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/pool.h"

/* The host's window on the units releases its pages above this size. */
#define WINDOW_BYTES ((size_t)64 << 20)

_Static_assert(CUDA_FITS == KN_FITS, "the device packs units as the CPU does");

/* ---- memory ---------------------------------------------------------------------------------- */

static int pages_of(int n)
{
    return cuda_parts_of(n, CUDA_TILE);
}

/* Enough for any lengths of heads that fit the host's cache. */
static int n_pages(const struct cache_shape *s, int n_layer)
{
    const size_t heads = (size_t)(n_layer * s->n_head), longest = (size_t)cache_head_max(s);
    size_t slots = heads * (size_t)s->capacity;
    if (s->shared && n_layer < s->n_layer) /* other layers' heads may have fewer */
        slots = cache_slots(s) < heads * longest ? cache_slots(s) : heads * longest;
    return (int)(slots / CUDA_TILE) + (int)heads;
}

static enum cuda_kv kv_of(enum kn_kv type)
{
    return type == KN_KV_Q4   ? CUDA_KV_Q4
           : type == KN_KV_S4 ? CUDA_KV_S4
           : type == KN_KV_Q5 ? CUDA_KV_Q5
           : type == KN_KV_S5 ? CUDA_KV_S5
           : type == KN_KV_Q8 ? CUDA_KV_Q8
                              : CUDA_KV_F16;
}

/* Of all heads, see struct cuda_cache. */
static size_t centre_bytes(const struct cuda_units *u)
{
    return (size_t)u->n_heads * 3 * (size_t)u->all.head_dim * sizeof(float);
}

static void plan_units(struct cuda_units *u, const struct cache_shape *s, struct arena *cache)
{
    const size_t slots = (size_t)n_pages(s, u->n_layer) * CUDA_TILE;
    const int per_head = pages_of(cache_head_max(s));
    u->all = (struct cuda_cache){
        .n_pages = per_head,
        .n_head = u->n_heads,
        .head_dim = s->head_dim,
        .k_bytes = (int)kn_kv_bytes(s->k_type, s->head_dim),
        .v_bytes = (int)kn_kv_bytes(s->v_type, s->head_dim),
        .k_type = kv_of(s->k_type),
        .v_type = kv_of(s->v_type),
    };
    u->all.k = arena_take(cache, slots, (size_t)u->all.k_bytes);
    u->all.v = arena_take(cache, slots, (size_t)u->all.v_bytes);
    u->all.pos = arena_take(cache, slots, sizeof *u->all.pos);
    u->all.score = arena_take(cache, slots, sizeof *u->all.score);
    u->all.pages = arena_take(cache, (size_t)u->n_heads * (size_t)per_head, sizeof *u->all.pages);
    /* keys of Q4 and Q5 become keys of S4 and S5 once the centres are measured */
    if (kn_kv_centred(s->k_type) || s->k_type == KN_KV_Q4 || s->k_type == KN_KV_Q5)
        u->all.centres = arena_take(cache, centre_bytes(u), 1);
}

static size_t stays_bytes(const struct cuda_context *x)
{
    return (size_t)x->n_heads * 2 * (size_t)x->kv.all.n_pages * sizeof *x->evict.stays;
}

void cuda_cache_plan(struct cuda_context *x, const struct cache_shape *s, struct arena *cache,
                     struct arena *scratch)
{
    const size_t slots = (size_t)n_pages(s, x->kv.n_layer) * CUDA_TILE;
    const size_t heads = (size_t)x->n_heads;
    const struct cache_shape windows = cache_windows_shape(s);
    plan_units(&x->kv, s, cache);
    if (x->windows.n_layer) plan_units(&x->windows, &windows, cache);
    x->evict.total = arena_take(scratch, 4 * heads * 256, sizeof *x->evict.total);
    x->evict.last = arena_take(scratch, heads * 256, sizeof *x->evict.last);
    x->evict.stays = arena_take(scratch, 1, stays_bytes(x));
    x->evict.keep = arena_take(scratch, heads, sizeof *x->evict.keep);
    x->evict.pins = arena_take(scratch, EVICT_PINS_MAX, sizeof *x->evict.pins);
    x->evict.std = arena_take(scratch, heads, sizeof *x->evict.std);
    x->evict.mean = arena_take(scratch, heads, sizeof *x->evict.mean);
    if (x->policy->scorer == POLICY_KEYS)
        x->evict.part = arena_take(
            scratch, heads * (size_t)cuda_parts_of(x->kv.all.n_pages * CUDA_TILE, CUDA_PIECE),
            CUDA_VALUES_DIM * sizeof *x->evict.part);
    if (x->policy->scorer != POLICY_KEEP_ALL)
        x->evict.key = arena_take(scratch, slots, sizeof *x->evict.key);
}

/* One token of all layers, or a chunk of one layer, with positions and scores. */
static size_t stage_of(const struct cuda_units *u, int chunk)
{
    const size_t unit = (size_t)(u->all.k_bytes + u->all.v_bytes) + 8;
    const size_t layers = (size_t)(u->n_layer > chunk ? u->n_layer : chunk);
    return u->n_layer ? layers * (size_t)(u->n_heads / u->n_layer) * unit : 0;
}

/* Size of the stage: units, or all heads' survivors. */
size_t cuda_stage_bytes(const struct cuda_context *x)
{
    return cuda_larger(stays_bytes(x),
                       cuda_larger(stage_of(&x->kv, x->chunk), stage_of(&x->windows, x->chunk)));
}

static int open_units(struct cuda_context *x, struct cuda_units *u, const struct cache_shape *s,
                      int first_len, struct err *e)
{
    struct cuda_pages *p = &u->pages;
    const int n_head = s->n_head;
    p->per_head = u->all.n_pages;
    p->table = calloc((size_t)u->n_heads * (size_t)p->per_head, sizeof *p->table);
    p->n = calloc((size_t)u->n_heads, sizeof *p->n);
    p->spare = malloc((size_t)n_pages(s, u->n_layer) * sizeof *p->spare);
    u->layers = malloc((size_t)s->n_layer * sizeof *u->layers);
    if (!p->table || !p->n || !p->spare || !u->layers)
        return err_set(e, ERR_FAIL, "out of memory for a conversation");
    for (int i = n_pages(s, u->n_layer); i-- > 0;) p->spare[p->n_spare++] = i;
    u->all.len = x->step->len + first_len;
    for (int i = 0; i < s->n_layer; i++) {
        u->layers[i] = u->all;
        u->layers[i].n_head = n_head;
        u->layers[i].len += i * n_head;
        u->layers[i].pages += (int64_t)i * n_head * u->all.n_pages;
        if (u->all.centres) u->layers[i].centres += (size_t)(i * n_head) * 3 * (size_t)s->head_dim;
    }
    return 0;
}

/* The device's heads are the model's first, whose numbers are adjacent. */
static int put_centres(struct cuda_context *x, const struct cuda_units *u,
                       const struct kn_centre *centres, struct err *e)
{
    if (!CUDA_KV_CENTRED(u->all.k_type) || u->n_heads == 0) return 0;
    int rc = cuda_put(x->g, u->all.centres, centres->mean, centre_bytes(u), e);
    return rc ? rc : cuda_wait(x->g, e);
}

int cuda_cache_open(struct cuda_context *x, const struct cache_shape *s, struct err *e)
{
    const size_t n = (size_t)x->n_heads * sizeof(float);
    const struct cache_shape windows = cache_windows_shape(s);
    int rc = open_units(x, &x->kv, s, 0, e);
    if (!rc && x->windows.n_layer) rc = open_units(x, &x->windows, &windows, x->n_heads, e);
    if (!rc) rc = put_centres(x, &x->kv, x->m->centres, e);
    if (!rc) rc = put_centres(x, &x->windows, x->m->windowed.centres, e);
    if (rc || !x->retaining || !retaining_comparable(x->retaining)) return rc;
    rc = cuda_put(x->g, x->evict.std, x->retaining->label_std, n, e);
    if (!rc) rc = cuda_put(x->g, x->evict.mean, x->retaining->label_mean, n, e);
    return rc ? rc : cuda_wait(x->g, e);
}

static void close_units(struct cuda_units *u)
{
    free(u->pages.table);
    free(u->pages.n);
    free(u->pages.spare);
    free(u->layers);
}

void cuda_cache_close(struct cuda_context *x)
{
    close_units(&x->kv);
    close_units(&x->windows);
}

/* ---- pages ----------------------------------------------------------------------------------- */

int64_t cuda_slots_in_use(const struct cuda_context *x)
{
    int64_t n = 0;
    for (int i = 0; i < x->n_heads; i++) n += pages_of(x->cache->kv_heads[i].len);
    return n * CUDA_TILE;
}

static int send_pages(struct cuda_context *x, const struct cuda_units *u)
{
    const struct cuda_pages *p = &u->pages;
    const size_t bytes = (size_t)u->n_heads * (size_t)p->per_head * sizeof *p->table;
    if (!x->rc) x->rc = cuda_put(x->g, u->all.pages, p->table, bytes, x->e);
    if (!x->rc) x->rc = cuda_wait(x->g, x->e);
    return x->rc;
}

/* A head's pages follow its capacity. Surplus pages are taken from its end, after its units. */
static int deal(struct cuda_context *x, struct cuda_units *u)
{
    struct cuda_pages *p = &u->pages;
    const struct cache *c = u->host;
    for (int i = 0; i < u->n_heads; i++)
        while (p->n[i] > pages_of(c->kv_heads[i].capacity))
            p->spare[p->n_spare++] = p->table[i * p->per_head + --p->n[i]];
    for (int i = 0; i < u->n_heads; i++)
        while (p->n[i] < pages_of(c->kv_heads[i].capacity)) {
            assert(p->n_spare > 0);
            p->table[i * p->per_head + p->n[i]++] = p->spare[--p->n_spare];
        }
    return send_pages(x, u);
}

static int make_room(struct cuda_context *x, struct cuda_units *u, int n)
{
    for (int i = 0; i < u->n_heads; i++)
        if (u->pages.n[i] < pages_of(u->host->kv_heads[i].len + n)) return deal(x, u);
    return x->rc;
}

/* The units that no window reaches are whole pages at the beginning: these become the last. */
static int drop_pages(struct cuda_context *x, int n_units)
{
    struct cuda_pages *p = &x->windows.pages;
    const int n = n_units / CUDA_TILE;
    assert(n_units % CUDA_TILE == 0);
    for (int i = 0; n && i < x->windows.n_heads; i++)
        for (int k = 0; k < n; k++) {
            int32_t *table = p->table + (ptrdiff_t)i * p->per_head, first = table[0];
            memmove(table, table + 1, (size_t)(p->n[i] - 1) * sizeof *table);
            table[p->n[i] - 1] = first;
        }
    return n ? send_pages(x, &x->windows) : x->rc;
}

int cuda_cache_room(struct cuda_context *x, int n)
{
    const struct cache *w = x->windows.host;
    if (w) {
        cache_windows_make_room(x->cache, n);
        const int64_t oldest = w->n_pos - w->kv_heads[0].len, before = x->windows.oldest;
        const bool dropped =
            oldest > before && oldest - before < cache_windows_capacity(&x->cache->shape.windows);
        x->windows.oldest = oldest; /* if the whole window changed, the units are sent again */
        if (make_room(x, &x->windows, n) || drop_pages(x, dropped ? (int)(oldest - before) : 0))
            return x->rc;
    }
    return make_room(x, &x->kv, n);
}

/* ---- between host and device ----------------------------------------------------------------- */

enum { UNITS = 1, WORDS = 2 }; /* keys and values; positions and scores */

static uint8_t *copy_array(bool in, uint8_t *stage, void *host, size_t bytes, int skip, int n)
{
    uint8_t *from = stage + (size_t)skip * bytes;
    const size_t size = (size_t)(n - skip) * bytes;
    if (in)
        memcpy(from, host, size);
    else
        memcpy(host, from, size);
    return stage + (size_t)n * bytes;
}

/* Copies a head's part of the stage, laid out as in struct cuda_copy, to or from the host's
 * cache. */
static uint8_t *copy_head(const struct cache *c, const struct cuda_copy *job, int index,
                          uint8_t *stage)
{
    const struct cache_head *h = &c->kv_heads[index];
    const int missing = job->back > h->len ? job->back - h->len : 0;
    const int skip = missing < job->n ? missing : job->n;
    const size_t slot = (size_t)(h->len - job->back + skip);
    if (job->units) {
        stage = copy_array(job->in, stage, h->k + slot * c->k_bytes, c->k_bytes, skip, job->n);
        stage = copy_array(job->in, stage, h->v + slot * c->v_bytes, c->v_bytes, skip, job->n);
    }
    if (job->words) {
        stage = copy_array(job->in, stage, h->pos + slot, sizeof *h->pos, skip, job->n);
        stage = copy_array(job->in, stage, h->score + slot, sizeof *h->score, skip, job->n);
    }
    return stage;
}

/* Copies as many layers at a time as the stage holds. */
static void copy_part(struct cuda_context *x, const struct cuda_units *u, struct cuda_copy job,
                      size_t unit)
{
    const struct cache_shape *s = &u->host->shape;
    const size_t layer_bytes = (size_t)s->n_head * (size_t)job.n * unit;
    const int at_once = (int)(x->stage_bytes / layer_bytes);
    for (int first = 0; !x->rc && first < u->n_layer; first += at_once) {
        const int end = first + at_once < u->n_layer ? first + at_once : u->n_layer;
        const int heads = (end - first) * s->n_head;
        const size_t bytes = (size_t)(end - first) * layer_bytes;
        uint8_t *p = x->stage_host;
        job.cache = u->layers[first];
        if (job.in) {
            for (int i = 0; i < heads; i++) p = copy_head(u->host, &job, first * s->n_head + i, p);
            x->rc = cuda_put(x->g, x->stage, x->stage_host, bytes, x->e);
            LAUNCH(x, cache_copy, heads, 1, 1, 256, 0, &job);
            if (!x->rc) x->rc = cuda_wait(x->g, x->e);
        } else {
            LAUNCH(x, cache_copy, heads, 1, 1, 256, 0, &job);
            if (cuda_get_now(x, x->stage_host, x->stage, bytes)) return;
            for (int i = 0; i < heads; i++) p = copy_head(u->host, &job, first * s->n_head + i, p);
        }
    }
}

/* Copies the newest n slots of every head. Both sides know the lengths. */
static int copy_newest(struct cuda_context *x, const struct cuda_units *u, int what, bool in, int n)
{
    const struct cache *c = u->host;
    const size_t unit = (what & UNITS ? c->k_bytes + c->v_bytes : 0) + (what & WORDS ? 8 : 0);
    const int most = (int)(x->stage_bytes / ((size_t)c->shape.n_head * unit));
    for (int back = u->n_layer ? n : 0; !x->rc && back > 0; back -= most) {
        const struct cuda_copy job = {
            .back = back,
            .n = back < most ? back : most,
            .units = what & UNITS,
            .words = what & WORDS,
            .in = in,
            .stage = x->stage,
        };
        copy_part(x, u, job, unit);
    }
    return x->rc;
}

/* Releases the whole pages inside [p, p + n). */
static void let_go(void *p, size_t n)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)p + page - 1) & ~(page - 1),
              end = ((uintptr_t)p + n) & ~(page - 1);
    if (first < end) madvise((void *)first, end - first, MADV_DONTNEED);
}

static void empty_window(struct cuda_context *x)
{
    for (const struct cache *c = x->cache; c; c = c->windows) {
        for (int i = 0; i < c->n_away; i++) { /* what is set aside stays */
            const struct cache_head *h = &c->kv_heads[i];
            let_go(h->k, (size_t)h->capacity * c->k_bytes);
            let_go(h->v, (size_t)h->capacity * c->v_bytes);
        }
    }
    x->window = 0;
}

static void fetch_units(struct cuda_context *x, const struct cuda_units *u, int n)
{
    const size_t unit = u->host->k_bytes + u->host->v_bytes;
    const int longest = cache_len_max(u->host);
    copy_newest(x, u, UNITS, false, n < longest ? n : longest);
    /* each run of units touches one page more than it fills */
    x->window += (size_t)u->n_heads * ((size_t)n * unit + 2 * 4096);
}

int cuda_fetch(void *ctx, int n, struct err *e)
{
    struct cuda_context *x = ctx;
    if (cuda_begin(x, e)) return x->rc;
    if (x->window > WINDOW_BYTES) empty_window(x);
    cuda_put_lengths(x);
    /* windows may be longer than heads that were evicted: all units are theirs, too */
    const bool all = n >= cache_len_max(x->cache);
    fetch_units(x, &x->kv, n);
    if (x->windows.host) fetch_units(x, &x->windows, all ? cache_len_max(x->windows.host) : n);
    if (n == 1) cuda_get_steps(x);
    return x->rc;
}

/* The state besides units: that of recurrent layers. */
int cuda_fetch_state(void *ctx, struct err *e)
{
    struct cuda_context *x = ctx;
    if (cuda_begin(x, e)) return x->rc;
    return cuda_get_state(x);
}

int cuda_upload(struct cuda_context *x, struct err *e)
{
    struct cache *w = x->windows.host;
    if (cuda_begin(x, e) || cuda_cache_room(x, 0) || cuda_put_lengths(x)) return x->rc;
    copy_newest(x, &x->kv, UNITS | WORDS, true, cache_len_max(x->cache));
    if (w) copy_newest(x, &x->windows, UNITS | WORDS, true, cache_len_max(w));
    empty_window(x);
    return x->rc;
}

/* ---- eviction -------------------------------------------------------------------------------- */

/* Converts scores to keys. */
static void rank(struct cuda_context *x, const struct evict_rule *rule)
{
    const struct cuda_values values = {x->kv.all, (float *)(void *)x->evict.key, x->evict.part};
    const int pieces = cuda_parts_of(cache_len_max(x->cache), CUDA_PIECE);
    const bool comparable =
        x->cache->shape.shared && x->retaining && retaining_comparable(x->retaining);
    const bool near = comparable && x->policy->near_duplicates;
    struct cuda_rank job = {
        .cache = x->kv.all,
        .sinks = rule->sinks,
        .stabilizers = evict_newest(rule),
        .pins = x->evict.pins,
        .n_pins = rule->n_pins,
        .scored = x->policy->scorer != POLICY_KEYS,
        .valued = x->policy->scorer == POLICY_KEYS || near,
        .total = x->evict.total,
        .key = x->evict.key,
    };
    if (rule->n_pins && !x->rc)
        x->rc = cuda_put(x->g, x->evict.pins, rule->pins, (size_t)rule->n_pins * sizeof *rule->pins,
                         x->e);
    if (!job.scored) {
        LAUNCH(x, key_sums, pieces, x->n_heads, 1, CUDA_EVICT_THREADS, CUDA_VALUES_SHARED, &values);
        LAUNCH(x, key_values, pieces, x->n_heads, 1, CUDA_EVICT_THREADS, CUDA_VALUES_SHARED,
               &values);
    } else if (near)
        LAUNCH(x, near_duplicates, x->n_heads, 1, 1, CUDA_EVICT_THREADS, CUDA_NEAR_SHARED, &values);
    if (x->cache->shape.shared) {
        job.safe = evict_safe(rule);
        job.most = rule->head_budget_max;
        job.recency = (float)rule->recency / (float)rule->budget;
        job.n_pos = (uint32_t)x->cache->n_pos;
        if (comparable) job.std = x->evict.std, job.mean = x->evict.mean;
    }
    LAUNCH(x, cache_rank, x->n_heads, 1, 1, CUDA_EVICT_THREADS, CUDA_RANK_SHARED, &job);
}

/* How many units of each head stay, or of all that share. `keep` is page-locked and must stay valid
 * until the device has read it. */
static void put_keep(struct cuda_context *x, const struct evict_rule *rule, int32_t *keep)
{
    const struct evict_share all = evict_share(x->cache, rule);
    for (int i = 0; i < x->n_heads; i++) {
        struct evict_share s = {.units = x->cache->kv_heads[i].len, .keep = rule->budget};
        if (x->cache->shape.shared) s = all;
        keep[i] = s.units > s.keep ? (int32_t)s.keep : CUDA_KEEP_ALL;
    }
    if (!x->rc)
        x->rc = cuda_put(x->g, x->evict.keep, keep, (size_t)x->n_heads * sizeof *keep, x->e);
}

/* Finds the units that stay. */
static struct cuda_evict choose(struct cuda_context *x)
{
    struct cuda_digits job = {.cache = x->kv.all,
                              .key = x->evict.key,
                              .keep = x->evict.keep,
                              .n_group = x->cache->shape.shared ? x->n_heads : 1,
                              .total = x->evict.total,
                              .last = x->evict.last};
    for (; job.n_known < 4; job.n_known++)
        LAUNCH(x, cache_digits, x->n_heads, 1, 1, CUDA_EVICT_THREADS, CUDA_RANK_SHARED, &job);
    const struct cuda_evict chosen = {job, x->evict.stays};
    LAUNCH(x, cache_choose, x->n_heads, 1, 1, CUDA_EVICT_THREADS, CUDA_RANK_SHARED, &chosen);
    return chosen;
}

struct survivors {
    struct cache *c;
    const int32_t *keep; /* as in struct cuda_digits */
    const uint32_t *stays;
    int n_words; /* of a head */
};

/* Closes the gaps in the host's part of a head. */
static void take_head(void *ctx, int index, int thread)
{
    const struct survivors *j = ctx;
    const uint32_t *stays = j->stays + (size_t)index * (size_t)j->n_words;
    struct cache_head *h = &j->c->kv_heads[index];
    int n = 0;
    (void)thread;
    if (j->keep[index] == CUDA_KEEP_ALL) return;
    for (int s = 0; s < h->len; s++) {
        h->pos[n] = h->pos[s];
        h->score[n] = h->score[s];
        n += stays[s / 32] >> s % 32 & 1;
    }
    h->len = n;
    cache_recount(j->c, index);
}

/* Both sides take the survivors, a bit for each unit; the host does not wait for the device. */
static void take_survivors(struct cuda_context *x, const struct cuda_evict *chosen,
                           struct pool *pool)
{
    struct cache *c = x->cache;
    struct survivors job = {c, x->keep_host, (const uint32_t *)(const void *)x->stage_host,
                            2 * x->kv.all.n_pages};
    if (cuda_get_now(x, x->stage_host, x->evict.stays, stays_bytes(x))) return;
    LAUNCH(x, cache_evict, x->n_heads, 1, 1, CUDA_EVICT_THREADS,
           CUDA_EVICT_SHARED((size_t)(x->kv.all.k_bytes + x->kv.all.v_bytes)), chosen);
    pool_run(pool, x->n_heads, take_head, &job);
    cache_layout(c, false, pool);
}

int cuda_evict(struct cuda_context *x, const struct evict_rule *rule, struct pool *pool,
               int64_t *n_evicted, struct err *e)
{
    struct cache *c = x->cache;
    const int64_t before = cache_units(c);
    *n_evicted = 0;
    if (cuda_begin(x, e) || cuda_put_lengths(x)) return x->rc;
    put_keep(x, rule, x->keep_host);
    rank(x, rule);
    const struct cuda_evict chosen = choose(x);
    take_survivors(x, &chosen, pool);
    if (x->rc) return cuda_break(x, e);
    *n_evicted = before - cache_units(c);
    c->n_evicted += *n_evicted;
    c->n_evictions += *n_evicted > 0;
    return 0;
}
