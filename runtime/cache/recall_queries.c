/* By queries: windows whose mean keys answer the message's mean queries.
 *
 * Each stretch of ARCHIVE_PIECE positions has a digest: for each KV head the mean of its keys
 * before RoPE, a byte a number. Every query head spreads a weight of 1 over all stretches by a
 * softmax. Means are used by InfLLM (arXiv 2402.04617); Quest (arXiv 2406.10774) and ArkVale
 * (NeurIPS 2024) use bounds of the keys. A digest is made from the archived units when it is first
 * needed, so it is the same after a resume. */
#include "runtime/cache/recall_choosers.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static int n_heads(const struct archive *x)
{
    return x->shape.n_layer * x->shape.n_head;
}

static int8_t *digest_keys(const struct archive *x, uint32_t digest)
{
    return x->digest + (size_t)digest * (size_t)(n_heads(x) * x->shape.head_dim);
}

/* ---- making ---------------------------------------------------------------------------------- */

/* The mean key of a head in n positions, from `units` [n][position_bytes]. */
static void mean_key(struct archive *x, const uint8_t *units, int n, int head, float *mean)
{
    const int dim = x->shape.head_dim;
    const size_t each = x->position_bytes / (size_t)n_heads(x);
    memset(mean, 0, (size_t)dim * sizeof *mean);
    for (int i = 0; i < n; i++) {
        const uint8_t *k = units + (size_t)i * x->position_bytes + (size_t)head * each;
        x->opts.compare.kernels->kv_unpack[x->shape.k_type](x->key, k, dim);
        for (int d = 0; d < dim; d++) mean[d] += x->key[d] / (float)n;
    }
}

static void make_digest(struct archive *x, const uint8_t *units, int n, uint32_t digest)
{
    const int dim = x->shape.head_dim;
    float *mean = x->key + dim, *scale = x->digest_scale + (size_t)digest * (size_t)n_heads(x);
    for (int h = 0; h < n_heads(x); h++) {
        int8_t *out = digest_keys(x, digest) + (size_t)h * (size_t)dim;
        float most = 0;
        mean_key(x, units, n, h, mean);
        for (int d = 0; d < dim; d++)
            if (fabsf(mean[d]) > most) most = fabsf(mean[d]);
        scale[h] = most / 127;
        for (int d = 0; d < dim; d++)
            out[d] = scale[h] > 0 ? (int8_t)lrintf(mean[d] / scale[h]) : 0;
    }
}

/* The number of a new digest; 0 = all are in use. */
static uint32_t take_digest(struct archive *x)
{
    if (x->n_free_digests) return x->free_digests[--x->n_free_digests];
    return x->n_digests < x->n_digests_max ? ++x->n_digests : 0;
}

/* Makes the missing digests. That of a stretch with a damaged piece is 0. */
static int make_digests(struct archive *x, struct err *e)
{
    for (int i = 0, n_pieces; i < x->n_pieces; i += n_pieces) {
        struct archive_piece *p = &x->pieces[i];
        n_pieces = archive_n_in_stretch(x, i);
        if (p->digest) continue;
        const int n = (int)(p[n_pieces - 1].first + p[n_pieces - 1].n - p->first);
        int found = archive_get(x, (int)p->first, n, x->returning, e);
        if (found < 0) return found;
        p->digest = take_digest(x);
        if (!p->digest) return 0;
        if (!found) memset(x->returning, 0, (size_t)n * x->position_bytes);
        make_digest(x, x->returning, n, p->digest - 1);
    }
    return 0;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static float product(const float *q, const int8_t *k, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++) sum += q[i] * (float)k[i];
    return sum;
}

/* Adds a softmax of one query head's products to the stretches' weights. */
static void add_head(struct archive *x, const float *query, int head)
{
    const int dim = x->shape.head_dim;
    const float scale = 1 / sqrtf((float)dim);
    float most = -INFINITY, sum = 0;
    for (int i = 0; i < x->n_pieces; i++) {
        uint32_t digest = x->pieces[i].digest - 1;
        x->value[i] = -INFINITY;
        if (!x->pieces[i].digest) continue; /* that of its stretch is at an earlier piece */
        float k_scale = x->digest_scale[(size_t)digest * (size_t)n_heads(x) + (size_t)head];
        const int8_t *k = digest_keys(x, digest) + (size_t)head * (size_t)dim;
        x->value[i] = scale * k_scale * product(query, k, dim);
        if (x->value[i] > most) most = x->value[i];
    }
    for (int i = 0; i < x->n_pieces; i++) sum += x->value[i] = expf(x->value[i] - most);
    for (int i = 0; i < x->n_pieces; i++) x->weight[x->pieces[i].first] += x->value[i] / sum;
}

int recall_weigh_queries(struct archive *x, const struct recall_query *q, struct err *e)
{
    const int n_group = x->opts.compare.n_group;
    int rc = make_digests(x, e);
    if (rc) return rc;
    assert(q->queries);
    for (int h = 0; h < n_heads(x); h++)
        for (int g = 0; g < n_group; g++)
            add_head(x, q->queries + (size_t)(h * n_group + g) * (size_t)x->shape.head_dim, h);
    return 0;
}
