#include "runtime/forward/centre.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/embed.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/pool.h"
#include "runtime/forward/context.h"
#include "runtime/forward/engine.h"

/* Prose, talk, lists, code, tables, prose about things, other languages. */
EMBED(centre_text, "runtime/forward/centre.txt");
extern const char centre_text[], centre_text_end[];

/* Tokens that are run, fewer if the model was trained on fewer; units of the first few positions
 * are unlike all others and no part of means. */
enum { TOKENS_MAX = 512, UNLIKE = 4 };

/* ---- memory ---------------------------------------------------------------------------------- */

/* The heads of layers with windows, or of the others. */
struct part {
    int n_head, dim; /* of all layers */
    float *numbers;  /* [n_head][3][dim]: means, deviations, the first key */
    uint32_t *words; /* [n_head][3][dim / 2] */
    struct kn_centre *centres;
};

static void plan_part(struct part *p, int n_head, int dim, struct arena *a)
{
    *p = (struct part){n_head, dim, NULL, NULL, NULL};
    p->centres = arena_take(a, (size_t)n_head, sizeof *p->centres);
    p->words = arena_take(a, (size_t)n_head * 3 * (size_t)dim / 2, sizeof *p->words);
}

static size_t n_numbers(const struct part *p)
{
    return (size_t)p->n_head * 3 * (size_t)p->dim;
}

/* Both parts; their numbers are adjacent. Returns the bytes of these. */
static size_t plan_parts(struct part parts[2], const struct model *m, struct arena *a)
{
    const struct model_windowed *w = &m->windowed;
    plan_part(&parts[0], m->n_kv_layer * m->n_kv_head, m->head_dim, a);
    plan_part(&parts[1], w->n_layer * w->n_kv_head, w->head_dim, a);
    const size_t n = n_numbers(&parts[0]) + n_numbers(&parts[1]);
    parts[0].numbers = arena_take(a, n, sizeof(float));
    parts[1].numbers = parts[0].numbers ? parts[0].numbers + n_numbers(&parts[0]) : NULL;
    return n * sizeof(float);
}

static void finish(struct part *p)
{
    for (int i = 0; i < p->n_head; i++) {
        float *x = p->numbers + (size_t)i * 3 * (size_t)p->dim;
        p->centres[i] = (struct kn_centre){.mean = x, .scale = x + p->dim, .first = x + 2 * p->dim};
        kn_centre_words(&p->centres[i], p->words + (size_t)i * 3 * (size_t)p->dim / 2, p->dim);
    }
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* Sums of keys and of their squares, over the positions that count. */
struct sums {
    struct part *part;
    double *sum, *square; /* [n_head][dim] */
    int n;
};

/* Adds the newest n units of each head of a cache. */
static void add_units(struct sums *s, const struct cache *c, int n)
{
    const struct part *p = s->part;
    const size_t dim = (size_t)p->dim;
    const struct kernels *ref = kn_table("ref");
    float k[KN_HEAD_DIM_MAX];
    for (size_t i = 0; i < (size_t)p->n_head; i++) {
        const struct cache_head *h = &c->kv_heads[i];
        for (int slot = h->len - n; slot < h->len; slot++) {
            ref->kv_unpack[c->shape.k_type](k, h->k + (size_t)slot * c->k_bytes, p->dim);
            if (h->pos[slot] == 0) memcpy(p->numbers + (3 * i + 2) * dim, k, dim * sizeof *k);
            for (size_t j = 0; h->pos[slot] >= UNLIKE && j < dim; j++) {
                s->sum[i * dim + j] += (double)k[j];
                s->square[i * dim + j] += (double)k[j] * (double)k[j];
            }
        }
    }
}

/* A channel that hardly changes would have a scale near 0: at least a thousandth of the largest. */
static void take_means(const struct sums *s)
{
    const size_t dim = (size_t)s->part->dim;
    for (size_t i = 0; i < (size_t)s->part->n_head; i++) {
        float *mean = s->part->numbers + 3 * i * dim, *scale = mean + dim, top = 1e-6f;
        for (size_t j = 0; j < dim; j++) {
            const double m = s->sum[i * dim + j] / s->n, x = s->square[i * dim + j] / s->n - m * m;
            mean[j] = (float)m;
            scale[j] = x > 0 ? (float)sqrt(x) : 0;
            if (scale[j] > top) top = scale[j];
        }
        for (size_t j = 0; j < dim; j++)
            if (scale[j] < top / 1024) scale[j] = top / 1024;
    }
}

static int run_text(struct context *x, const struct tokens *ids, struct sums s[2],
                    engine_progress *progress, void *ctx, struct err *e)
{
    for (int at = 0; at < (int)ids->n && at < x->plan.capacity;) {
        int n = x->plan.capacity - at;
        if (n > (int)ids->n - at) n = (int)ids->n - at;
        if (n > x->plan.chunk) n = x->plan.chunk;
        int rc = progress && progress(ctx, at, -(int64_t)ids->n) ? ERR_STOP : 0;
        if (rc) return err_set(e, rc, "stopped");
        rc = context_run(x, ids->ids + at, n, 1, e);
        if (!rc) rc = cache_fetch(&x->cache, n, e);
        if (rc) return rc;
        add_units(&s[0], &x->cache, n);
        if (x->cache.windows) add_units(&s[1], x->cache.windows, n);
        at += n;
        s[0].n = s[1].n = at - UNLIKE;
    }
    return 0;
}

static struct plan_opts plan_of(const struct engine *g)
{
    struct plan_opts o = plan_opts_default();
    o.policy = policy_choice("full");
    o.policy.context = g->model->n_ctx < TOKENS_MAX ? g->model->n_ctx : TOKENS_MAX;
    o.kv = (struct plan_kv){.given = true, .k = g->gpu ? KN_KV_F16 : KN_KV_F32};
    o.kv.v = o.kv.k;
    return o;
}

/* Whether the text fits on the GPU, if there is one. */
static bool fits(struct engine *g)
{
    const struct plan_opts o = plan_of(g);
    struct plan p;
    struct err e;
    const int n_threads = pool_n_threads(g->pool);
    if (!g->gpu || plan_make(&p, g->model, NULL, g->gpu, &o, 1, n_threads, &e) != ERR_FIT)
        return true;
    if (!*g->device_notice)
        snprintf(g->device_notice, sizeof g->device_notice,
                 "the GPU's memory is too small to measure the model's keys: 4-bit units are less "
                 "exact than usual");
    return false;
}

/* With the machine's best kernels, whatever --isa says: saved units depend on the result. */
static int measure(struct engine *g, struct part parts[2], engine_progress *progress, void *ctx,
                   struct err *e)
{
    const struct kernels *asked = g->kernels;
    const struct plan_opts o = plan_of(g);
    struct context x = {0};
    struct tokens ids = {0};
    struct sums s[2] = {0};
    for (int i = 0; i < 2; i++) {
        const size_t n = (size_t)parts[i].n_head * (size_t)parts[i].dim;
        double *sums = memory_new(2 * n + 1, sizeof *sums);
        s[i] = (struct sums){.part = &parts[i], .sum = sums, .square = sums + n};
    }
    g->kernels = kn_table(NULL);
    int rc = tokenizer_encode_text(g->tokenizer, centre_text,
                                   (size_t)(centre_text_end - centre_text), false, &ids, e);
    if (!rc) rc = context_open(&x, g, &o, 1, 1, e);
    if (!rc) rc = run_text(&x, &ids, s, progress, ctx, e);
    for (int i = 0; !rc && i < 2; i++) take_means(&s[i]);
    context_release(&x);
    g->kernels = asked;
    tokens_release(&ids);
    free(s[0].sum);
    free(s[1].sum);
    return rc;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* The model's digest (64 digits), the numbers (float32), the digest of all that. */
enum { HEAD = DIGEST_HEX - 1 };

static bool read_file(const char *path, const char *model, void *numbers, size_t bytes)
{
    struct str s = {0};
    uint8_t sum[DIGEST_BYTES];
    bool whole = !file_read(path, FILE_MODEL, &s, NULL) && s.n == HEAD + bytes + DIGEST_BYTES;
    if (whole) {
        const char *p = str_get(&s);
        digest_make(sum, p, HEAD + bytes);
        whole = !memcmp(p, model, HEAD) && !memcmp(p + HEAD + bytes, sum, DIGEST_BYTES);
        if (whole) memcpy(numbers, p + HEAD, bytes);
    }
    str_release(&s);
    return whole;
}

/* Without it, the next start measures again. */
static void write_file(const char *path, const char *model, const void *numbers, size_t bytes)
{
    char part[4200];
    file_make_folders(path, NULL);
    struct str s = {0};
    uint8_t sum[DIGEST_BYTES];
    str_append(&s, model, HEAD);
    str_append(&s, numbers, bytes);
    digest_make(sum, str_get(&s), s.n);
    str_append(&s, (const char *)sum, sizeof sum);
    snprintf(part, sizeof part, "%s.part", path);
    remove(part);
    if (!file_make(part, str_get(&s), s.n, NULL)) rename(part, path);
    str_release(&s);
}

int centre_open(struct engine *g, const char *dir, bool keep, engine_progress *progress, void *ctx,
                struct err *e)
{
    struct model *m = g->model;
    struct part parts[2];
    char path[4160];
    uint8_t sum[DIGEST_BYTES];
    char hex[DIGEST_HEX];
    if (m->n_kv_layer == 0 || m->head_dim % KN_GROUP) return 0;
    if (m->n_ctx <= 4 * UNLIKE || m->latent.rank) return 0; /* values have none */
    if (m->windowed.n_layer && m->windowed.head_dim % KN_GROUP) return 0;
    size_t bytes = 0;
    int rc = 0;
    while (arena_make(&g->centres.arena, "centres", &rc, e))
        bytes = plan_parts(parts, m, &g->centres.arena);
    if (rc) return rc;
    snprintf(path, sizeof path, "%s/%.32s.centres", dir ? dir : "", g->model_digest);
    if (!dir || !read_file(path, g->model_digest, parts[0].numbers, bytes)) {
        const bool measures = fits(g);
        if (measures) rc = measure(g, parts, progress, ctx, e);
        if (!measures || rc) {
            centre_close(g);
            return rc;
        }
        if (dir && keep) write_file(path, g->model_digest, parts[0].numbers, bytes);
    }
    for (int i = 0; i < 2; i++) finish(&parts[i]);
    m->centres = parts[0].centres;
    m->windowed.centres = parts[1].centres;
    digest_make(sum, parts[0].numbers, bytes);
    digest_hex(hex, sum);
    snprintf(g->centres.digest, sizeof g->centres.digest, "%.8s", hex);
    return 0;
}

void centre_close(struct engine *g)
{
    arena_release(&g->centres.arena);
}
