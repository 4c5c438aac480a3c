#include "quant/eval/analyze.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/print/report.h"
#include "runtime/cache/evict.h"
#include "runtime/forward/context.h"
#include "runtime/forward/engine.h"
#include "runtime/forward/score.h"

enum { PREFIX_MIN = 40, KEPT = 10, FEW_PERCENT = 5, LITTLE_PERCENT = 1 }; /* a tenth is kept */

static int n_heads(const struct context *x)
{
    return x->cache.shape.n_layer * x->cache.shape.n_head;
}

/* Reads ids [from, end); evicts before each chunk. */
static int read_ids(struct context *x, const int32_t *ids, size_t from, size_t end, struct err *e)
{
    for (size_t at = from; at < end;) {
        int64_t n_evicted;
        size_t n = end - at < (size_t)x->plan.chunk ? end - at : (size_t)x->plan.chunk;
        int rc = context_evict(x, &n_evicted, e);
        if (!rc) rc = context_run(x, ids + at, (int)n, 1, e);
        if (!rc && report_interrupted()) rc = err_set(e, ERR_STOP, "interrupted");
        if (rc) return rc;
        at += n;
    }
    context_score(x);
    return 0;
}

/* A context that has room for the whole text, or one with the policy's budget. */
static int open_context(const struct analysis *a, bool whole, struct context *x, struct err *e)
{
    struct plan_opts plan = *a->plan;
    if (a->engine->gpu)
        return err_set(e, ERR_USAGE, "scores are analysed on the CPU only: give --device cpu");
    if (whole) plan.budget = (int)a->n;
    int rc = context_open(x, a->engine, &plan, 1, 1, e);
    if (rc || x->plan.policy->scorer != POLICY_KEEP_ALL) return rc;
    return err_set(e, ERR_USAGE, "policy %s has no scores to analyse", x->plan.policy->name);
}

/* ---- the units that would be kept ------------------------------------------------------------ */

struct ranked {
    float value;
    int slot;
};

/* The highest first; equal ones: the older first. */
static int by_value(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->value != y->value) return x->value > y->value ? -1 : 1;
    return x->slot - y->slot;
}

/* Sorts the first n units of a head by value: r[n]. */
static void rank(const struct context *x, int head, int n, struct ranked *r)
{
    const struct cache_head *h = &x->cache.kv_heads[head];
    for (int i = 0; i < n; i++)
        r[i] = (struct ranked){x->forward.slots[h->slot0 + (size_t)i].value, i};
    qsort(r, (size_t)n, sizeof *r, by_value);
}

/* Marks the highest tenth of the first n units of each head: [head][n]. */
static void mark_kept(struct context *x, int n, bool *marks)
{
    struct ranked *r = memory_new((size_t)n, sizeof *r);
    score_values(&x->forward, &x->cache);
    for (int head = 0; head < n_heads(x); head++) {
        rank(x, head, n, r);
        for (int i = 0; i < n / KEPT; i++)
            marks[(size_t)head * (size_t)n + (size_t)r[i].slot] = true;
    }
    free(r);
}

static int measure_consistency(const struct analysis *a, struct context *x, double *out,
                               struct err *e)
{
    size_t n = (size_t)(a->depth * (double)a->n), both = 0, kept = 0;
    if (n < PREFIX_MIN) n = PREFIX_MIN;
    size_t n_marks = n * (size_t)n_heads(x);
    bool *early = memory_new(n_marks, sizeof *early), *late = memory_new(n_marks, sizeof *late);
    int rc = read_ids(x, a->ids, 0, n, e);
    if (!rc) mark_kept(x, (int)n, early);
    if (!rc) rc = read_ids(x, a->ids, n, a->n, e);
    if (!rc) mark_kept(x, (int)n, late);
    for (size_t i = 0; i < n_marks; i++) {
        kept += early[i];
        both += early[i] && late[i];
    }
    *out = kept ? (double)both / (double)kept : 0;
    free(early);
    free(late);
    return rc;
}

static int measure_places(const struct analysis *a, struct context *x, double *out, struct err *e)
{
    size_t tenth = (size_t)(a->depth * 9.999), here = 0, kept = 0;
    bool *marks = memory_new(a->n * (size_t)n_heads(x), sizeof *marks);
    int rc = read_ids(x, a->ids, 0, a->n, e);
    if (!rc) mark_kept(x, (int)a->n, marks);
    for (size_t i = 0; i < a->n * (size_t)n_heads(x); i++) {
        kept += marks[i];
        here += marks[i] && i % a->n * 10 / a->n == tenth;
    }
    *out = kept ? (double)here / (double)kept : 0;
    free(marks);
    return rc;
}

/* Values that can be negative are logarithms. */
static double weight(float value, float top, bool logarithms)
{
    return logarithms ? exp((double)(value - top)) : (double)value;
}

/* Of n units in order of their values: the share of the sum that the first few have, or the share
 * of the units that have little. */
static double share_of(const struct ranked *r, int n, bool of_units)
{
    double all = 0, few = 0, largest = weight(r[0].value, r[0].value, r[n - 1].value < 0);
    int n_little = 0;
    for (int i = 0; i < n; i++) {
        double w = weight(r[i].value, r[0].value, r[n - 1].value < 0);
        all += w;
        if (i < n * FEW_PERCENT / 100) few += w;
        n_little += w * 100 < LITTLE_PERCENT * largest;
    }
    if (of_units) return (double)n_little / n;
    return all > 0 ? few / all : 0;
}

static int measure_concentration(const struct analysis *a, struct context *x, double *out,
                                 struct err *e)
{
    int n = (int)a->n;
    struct ranked *r = memory_new(a->n, sizeof *r);
    int rc = read_ids(x, a->ids, 0, a->n, e);
    if (!rc) score_values(&x->forward, &x->cache);
    *out = 0;
    for (int head = 0; !rc && head < n_heads(x); head++) {
        rank(x, head, n, r);
        *out += share_of(r, n, a->kind == TASK_SPARSITY) / n_heads(x);
    }
    free(r);
    return rc;
}

/* ---- what evictions change ------------------------------------------------------------------- */

static double hidden_difference(const struct context *a, const struct context *b, size_t n)
{
    size_t row = (size_t)a->engine->model->n_embd;
    size_t last_a = (n - 1) % (size_t)a->plan.chunk, last_b = (n - 1) % (size_t)b->plan.chunk;
    double most = 0;
    for (size_t i = 0; i < row; i++) {
        double d =
            fabs((double)a->forward.x[last_a * row + i] - (double)b->forward.x[last_b * row + i]);
        if (d > most) most = d;
    }
    return most;
}

static double score_difference(const struct context *a, const struct context *b)
{
    double sum = 0;
    int64_t n = 0;
    for (int head = 0; head < n_heads(b); head++) {
        const struct cache_head *all = &a->cache.kv_heads[head], *some = &b->cache.kv_heads[head];
        for (int i = 0; i < some->len; i++) {
            int slot = cache_find(all, some->pos[i]);
            if (slot < 0) continue;
            sum += fabs((double)all->score[slot] - (double)some->score[i]);
            n++;
        }
    }
    return n ? sum / (double)n : 0;
}

static int measure_drift(const struct analysis *a, struct context *whole, double *out,
                         struct err *e)
{
    struct context some = {0};
    int rc = read_ids(whole, a->ids, 0, a->n, e);
    if (!rc) rc = open_context(a, false, &some, e);
    if (!rc) rc = read_ids(&some, a->ids, 0, a->n, e);
    if (!rc)
        *out = a->kind == TASK_DRIFT ? hidden_difference(whole, &some, a->n)
                                     : score_difference(whole, &some);
    context_release(&some);
    return rc;
}

int analyze(const struct analysis *a, double *out, struct err *e)
{
    struct context x = {0};
    if (a->n < 4 * PREFIX_MIN)
        return err_set(e, ERR_USAGE, "--length %zu: scores are analysed over %d tokens and more",
                       a->n, 4 * PREFIX_MIN);
    int rc = open_context(a, true, &x, e);
    *out = 0;
    if (!rc && a->kind == TASK_CONSISTENCY) rc = measure_consistency(a, &x, out, e);
    if (!rc && a->kind == TASK_PLACES) rc = measure_places(a, &x, out, e);
    if (!rc && (a->kind == TASK_CONCENTRATION || a->kind == TASK_SPARSITY))
        rc = measure_concentration(a, &x, out, e);
    if (!rc && (a->kind == TASK_DRIFT || a->kind == TASK_SCORE_DRIFT))
        rc = measure_drift(a, &x, out, e);
    context_release(&x);
    return rc;
}
