#include "runtime/save.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "runtime/base/pool.h"
#include "runtime/segment.h"
#include "store/store.h"

/* A layer is written anew when it has more dead bytes than living ones, and than this part of what
 * is kept for going back. */
#define COMPACT_PART 64
/* As many layers per call as stay below this. */
#define COMPACT_BYTES_MAX ((int64_t)32 << 20)

struct save {
    struct store *store;
    int64_t conversation;
    int64_t rewind_bytes;
    int64_t next_seq;
    int64_t saved_pos; /* positions below are in the log */
    int n_layer;
    int64_t *n_gone;           /* [n_layer] units that the log says are gone */
    struct save_point *points; /* oldest first */
    int64_t *n_gone_at;        /* [n_points][n_layer] n_gone at each of them */
    size_t n_points, points_max;
    int64_t state_seq; /* of what the policy remembers, the newest only; -1 = nothing is saved */

    /* What the log says is alive: [n_layer * n_head][slots] positions. What it lacks of the
     * cache is new, what it has more is gone. */
    uint32_t *known;
    int *n_known;
    int64_t n_evictions; /* of the cache, when `known` was made */
    int64_t *n_stored;   /* [n_layer] units in the log, dead ones included */
    struct gone gone;    /* of one layer, on its way */

    uint8_t *bytes; /* a segment on its way */
    size_t bytes_max;
    /* A write failed: what is on disk no longer follows the cache. From then on the text alone is
     * saved, and the next opening reads it again. */
    bool broken;
    struct str crash_text; /* of an answer that a crash cut off, until save_recover */
    struct tokens crash_ids;
};

int save_open(struct save **out, struct store *store, int64_t conversation, int64_t rewind_bytes,
              struct err *e)
{
    struct save *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s) return err_set(e, ERR_FAIL, "out of memory for saving");
    s->store = store;
    s->conversation = conversation;
    s->rewind_bytes = rewind_bytes;
    s->state_seq = -1;
    int rc = store_lock(store, conversation, e);
    if (rc) {
        free(s);
        return rc;
    }
    *out = s;
    return 0;
}

void save_close(struct save *s)
{
    if (!s) return;
    store_unlock(s->store, s->conversation);
    gone_release(&s->gone);
    free(s->points);
    free(s->n_gone_at);
    free(s->known);
    free(s->n_known);
    free(s->n_stored);
    free(s->n_gone);
    free(s->bytes);
    str_release(&s->crash_text);
    tokens_release(&s->crash_ids);
    free(s);
}

static int out_of_memory(struct err *e)
{
    return err_set(e, ERR_FAIL, "out of memory while saving; nothing already saved was lost");
}

static int reserve(struct save *s, size_t n, struct err *e)
{
    if (n <= s->bytes_max) return 0;
    uint8_t *p = realloc(s->bytes, n);
    if (!p) return out_of_memory(e);
    s->bytes = p;
    s->bytes_max = n;
    return 0;
}

static int n_heads(const struct cache *c)
{
    return c->shape.n_layer * c->shape.n_head;
}

/* ---- what the log knows ---------------------------------------------------------------------- */

/* Room for what is known, once the cache's shape is: 4 bytes per slot. */
static int make_known(struct save *s, const struct cache *c, struct err *e)
{
    size_t n = (size_t)n_heads(c);
    if (s->known) return 0;
    s->n_known = calloc(n, sizeof *s->n_known);
    s->n_layer = c->shape.n_layer;
    s->n_stored = calloc((size_t)s->n_layer, sizeof *s->n_stored);
    s->n_gone = calloc((size_t)s->n_layer, sizeof *s->n_gone);
    s->known = calloc(n * (size_t)cache_head_max(&c->shape), sizeof *s->known);
    if (s->n_known && s->n_stored && s->n_gone && s->known && gone_init(&s->gone, c->shape.n_head))
        return 0;
    free(s->known);
    free(s->n_known);
    free(s->n_stored);
    free(s->n_gone);
    s->known = NULL;
    s->n_known = NULL;
    s->n_stored = s->n_gone = NULL;
    return out_of_memory(e);
}

static uint32_t *known_of(const struct save *s, const struct cache *c, int head)
{
    return s->known + (size_t)head * (size_t)cache_head_max(&c->shape);
}

/* The log now says what the cache holds below saved_pos. */
static void know(struct save *s, const struct cache *c)
{
    for (int i = 0; i < n_heads(c); i++) {
        const struct cache_head *h = &c->heads[i];
        int n = h->len;
        while (n > 0 && h->pos[n - 1] >= s->saved_pos) n--;
        if (n > 0) memcpy(known_of(s, c, i), h->pos, (size_t)n * sizeof *h->pos);
        s->n_known[i] = n;
    }
    s->n_evictions = c->n_evictions;
}

/* Into s->gone: what one layer of the cache has no longer. */
static bool find_gone(struct save *s, const struct cache *c, int layer)
{
    gone_clear(&s->gone);
    for (int i = 0; i < c->shape.n_head; i++) {
        const struct cache_head *h = cache_head(c, layer, i);
        const int index = layer * c->shape.n_head + i;
        const uint32_t *known = known_of(s, c, index);
        for (int k = 0, j = 0; k < s->n_known[index]; k++) {
            if (j < h->len && h->pos[j] == known[k])
                j++;
            else if (!gone_push(&s->gone, i, known[k]))
                return false;
        }
    }
    return true;
}

static int note_point(struct save *s, const struct save_point *p, struct err *e)
{
    size_t row = (size_t)s->n_layer;
    if (s->n_points == s->points_max) {
        size_t max = s->points_max ? 2 * s->points_max : 64;
        struct save_point *points = realloc(s->points, max * sizeof *points);
        if (points) s->points = points;
        int64_t *n_gone_at = realloc(s->n_gone_at, max * row * sizeof *n_gone_at);
        if (n_gone_at) s->n_gone_at = n_gone_at;
        if (!points || !n_gone_at) return out_of_memory(e);
        s->points_max = max;
    }
    memcpy(s->n_gone_at + s->n_points * row, s->n_gone, row * sizeof *s->n_gone);
    s->points[s->n_points++] = *p;
    return 0;
}

bool save_point(const struct save *s, int64_t n_tokens, struct save_point *out)
{
    bool found = false;
    for (size_t i = 0; i < s->n_points && !s->broken; i++) {
        const struct save_point *p = &s->points[i];
        if (p->n_run > n_tokens || (found && p->n_run < out->n_run)) continue;
        if (p->seq < s->state_seq) continue; /* what the policy remembered then is not kept */
        *out = *p;
        found = true;
    }
    return found;
}

/* ---- state ----------------------------------------------------------------------------------- */

static char *state_text(const struct save_state *now)
{
    char number[32];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "model", now->model);
    cJSON_AddStringToObject(o, "heads", now->heads);
    cJSON_AddStringToObject(o, "kv", now->kv);
    cJSON_AddStringToObject(o, "policy", now->policy);
    cJSON_AddStringToObject(o, "template", now->template_name);
    cJSON_AddNumberToObject(o, "budget", now->budget);
    snprintf(number, sizeof number, "%llu", (unsigned long long)now->seed);
    cJSON_AddStringToObject(o, "seed", number); /* more than a double holds */
    cJSON_AddNumberToObject(o, "attempt", (double)now->attempt);
    cJSON_AddNumberToObject(o, "n_run", (double)now->n_run);
    cJSON_AddNumberToObject(o, "n_units", (double)now->n_units);
    if (now->system) cJSON_AddStringToObject(o, "system", now->system);
    char *text = cJSON_PrintUnformatted(o);
    cJSON_Delete(o);
    return text;
}

static int put_state_of(struct save *s, int64_t conversation, const struct save_state *now,
                        struct err *e)
{
    char *text = state_text(now);
    if (!text) return out_of_memory(e);
    int rc = store_state_put(s->store, conversation, text, e);
    free(text);
    return rc;
}

static int put_state(struct save *s, const struct cache *c, const struct save_state *now,
                     struct err *e)
{
    struct save_state put = *now;
    put.n_run = s->broken ? 0 : s->saved_pos;
    put.n_units = cache_units(c) - (now->n_run - s->saved_pos) * n_heads(c);
    return put_state_of(s, s->conversation, &put, e);
}

static void get_text(const cJSON *o, const char *key, char *out, size_t n)
{
    const char *v = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
    snprintf(out, n, "%s", v ? v : "");
}

static int64_t get_int(const cJSON *o, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsNumber(v) ? (int64_t)v->valuedouble : 0;
}

int save_state(struct save *s, struct save_state *out, bool *found, struct err *e)
{
    char *text, seed[32];
    *out = (struct save_state){0};
    *found = false;
    int rc = store_state_get(s->store, s->conversation, &text, e);
    if (rc) return rc;
    cJSON *o = *text ? cJSON_Parse(text) : NULL;
    free(text);
    if (!o) return 0;
    get_text(o, "model", out->model, sizeof out->model);
    get_text(o, "heads", out->heads, sizeof out->heads);
    get_text(o, "kv", out->kv, sizeof out->kv);
    get_text(o, "policy", out->policy, sizeof out->policy);
    get_text(o, "template", out->template_name, sizeof out->template_name);
    get_text(o, "seed", seed, sizeof seed);
    out->seed = strtoull(seed, NULL, 10);
    out->budget = (int)get_int(o, "budget");
    out->attempt = (uint64_t)get_int(o, "attempt");
    out->n_run = get_int(o, "n_run");
    out->n_units = cJSON_HasObjectItem(o, "n_units") ? get_int(o, "n_units") : -1;
    const char *system = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "system"));
    if (system) out->system = strdup(system);
    cJSON_Delete(o);
    *found = true;
    return 0;
}

/* ---- transcript ------------------------------------------------------------------------------ */

struct transcript_job {
    struct save *s;
    struct tokens *ids;
    void (*each)(void *ctx, const struct save_message *m);
    void *ctx;
};

static const enum chat_role role_of[] = {
    [STORE_SYSTEM] = CHAT_SYSTEM, [STORE_USER] = CHAT_USER, [STORE_ASSISTANT] = CHAT_ASSISTANT};

static int take_message(void *ctx, const struct store_message *m)
{
    const struct transcript_job *j = ctx;
    for (size_t i = 0; i < m->n_tokens; i++) tokens_push(j->ids, m->tokens[i]);
    if (m->seq < 0) {
        str_append(&j->s->crash_text, m->text, m->n_text);
        for (size_t i = 0; i < m->n_tokens; i++) tokens_push(&j->s->crash_ids, m->tokens[i]);
    }
    struct save_message out = {role_of[m->role], m->text, m->n_text, m->tokens, m->n_tokens};
    j->each(j->ctx, &out);
    return 0;
}

int save_transcript(struct save *s, struct tokens *ids,
                    void (*each)(void *ctx, const struct save_message *m), void *ctx, struct err *e)
{
    struct transcript_job job = {s, ids, each, ctx};
    str_clear(&s->crash_text);
    s->crash_ids.n = 0;
    return store_message_each(s->store, s->conversation, take_message, &job, e);
}

/* ---- loading --------------------------------------------------------------------------------- */

/* One layer's log in memory, and what came of it. */
struct layer {
    int index;
    struct store_blob *blobs; /* .segment.bytes: offset into `bytes` */
    size_t n, max;
    struct str bytes;
    struct gone gone;
    int64_t end;     /* positions that it covers */
    int64_t n_units; /* stored */
    int64_t *n_gone; /* [n] of each blob */
    const struct store_segment *damaged;
    int64_t state_seq; /* -1 = there is none */
    bool fits;
};

struct load {
    struct save *s;
    struct cache *c;
    struct pool *pool;
    uint32_t end;         /* positions from here on do not count */
    struct layer *layers; /* a batch of them, side by side */
    int n, n_max;
    int64_t end_of_all; /* positions covered by every layer; -1 = they differ */
    int n_loaded;
    const char *reason;
    struct err *e;
};

static void layer_clear(struct layer *l)
{
    for (size_t i = 0; i < l->n; i++) l->n_gone[i] = 0;
    l->n = 0;
    str_clear(&l->bytes);
    gone_clear(&l->gone);
    l->damaged = NULL;
}

static void load_release(struct load *l)
{
    for (int i = 0; l->layers && i < l->n_max; i++) {
        free(l->layers[i].blobs);
        free(l->layers[i].n_gone);
        str_release(&l->layers[i].bytes);
        gone_release(&l->layers[i].gone);
    }
    free(l->layers);
}

/* On one of the pool's threads: checks a layer's blobs, opens them, fills the cache's layer. */
static void load_layer(void *ctx, int part, int thread)
{
    struct load *job = ctx;
    struct layer *l = &job->layers[part];
    struct segment *segments = malloc((l->n + 1) * sizeof *segments);
    struct store_segment state = {.n_bytes = 0};
    size_t n = 0;
    (void)thread;
    l->fits = segments != NULL;
    l->n_units = 0;
    l->state_seq = -1;
    for (size_t i = 0; i < l->n && l->fits && !l->damaged; i++) {
        struct store_segment opened;
        uint8_t *bytes = (uint8_t *)l->bytes.data + (size_t)(uintptr_t)l->blobs[i].segment.bytes;
        int64_t before = gone_count(&l->gone);
        if (!store_blob_open(job->s->store, &l->blobs[i], bytes, &opened)) {
            l->damaged = &l->blobs[i].segment;
        } else if (opened.kind == STORE_GONE) {
            l->fits = gone_read(&l->gone, opened.bytes, opened.n_bytes);
            l->n_gone[i] = gone_count(&l->gone) - before;
        } else if (state_is(opened.bytes, opened.n_bytes)) {
            state = opened;
            l->state_seq = opened.seq;
        } else {
            l->fits = segment_open(&segments[n], opened.bytes, opened.n_bytes);
            if (l->fits) l->n_units += segments[n++].n_units;
        }
    }
    if (l->fits && !l->damaged) {
        gone_sort(&l->gone);
        l->fits = segments_join(segments, n, &l->end) &&
                  segments_load(job->c, l->index, segments, n, &l->gone, job->end);
        if (l->fits && state_needed(job->c))
            l->fits = state_read(job->c, l->index, state.bytes, state.n_bytes, job->end);
    }
    free(segments);
}

/* How many units each checkpoint had lost: its share of the entries before it. */
static void count_gone(struct save *s, const struct layer *l)
{
    for (size_t i = 0; i < l->n; i++) {
        if (l->n_gone[i] == 0) continue;
        s->n_gone[l->index] += l->n_gone[i];
        for (size_t j = 0; j < s->n_points; j++)
            if (s->points[j].seq >= l->blobs[i].segment.seq)
                s->n_gone_at[j * (size_t)s->n_layer + (size_t)l->index] += l->n_gone[i];
    }
}

static int load_batch(struct load *job)
{
    struct save *s = job->s;
    int rc = 0;
    if (job->n == 0) return 0;
    pool_run(job->pool, job->n, load_layer, job);
    for (int i = 0; rc == 0 && i < job->n; i++) {
        struct layer *l = &job->layers[i];
        if (l->damaged) rc = store_segment_damaged(s->store, s->conversation, l->damaged, job->e);
        if (rc == 0 && !l->fits) job->reason = "it does not fit this model, budget or policy";
        if (rc || job->reason) break;
        if (job->n_loaded > 0 && l->end != job->end_of_all) job->reason = "parts of it are missing";
        job->end_of_all = l->end;
        s->n_stored[l->index] = l->n_units;
        s->state_seq = l->state_seq;
        count_gone(s, l);
        job->n_loaded++;
    }
    for (int i = 0; i < job->n; i++) layer_clear(&job->layers[i]);
    job->n = 0;
    return rc ? rc : job->reason ? 1 : 0;
}

/* The layer's place in the batch; a full batch is loaded first. NULL = *rc says why not. */
static struct layer *layer_for(struct load *job, int index, int *rc)
{
    *rc = 0;
    if (job->n > 0 && job->layers[job->n - 1].index == index) return &job->layers[job->n - 1];
    if (job->n == job->n_max) *rc = load_batch(job);
    if (*rc) return NULL;
    struct layer *l = &job->layers[job->n++];
    l->index = index;
    return l;
}

static int take_blob(void *ctx, const struct store_blob *b)
{
    struct load *job = ctx;
    const struct store_segment *g = &b->segment;
    int rc;
    if (g->layer < 0 || g->layer >= job->c->shape.n_layer) {
        job->reason = "it does not fit this model or budget";
        return 1;
    }
    if (g->seq >= job->s->next_seq) job->s->next_seq = g->seq + 1;
    struct layer *l = layer_for(job, g->layer, &rc);
    if (!l) return rc;
    if (l->n == l->max) {
        size_t max = l->max ? 2 * l->max : 16;
        struct store_blob *blobs = realloc(l->blobs, max * sizeof *blobs);
        if (blobs) l->blobs = blobs;
        int64_t *n_gone = realloc(l->n_gone, max * sizeof *n_gone);
        if (n_gone) l->n_gone = n_gone;
        if (!blobs || !n_gone) return out_of_memory(job->e);
        l->max = max;
    }
    l->blobs[l->n] = *b;
    l->blobs[l->n].segment.bytes = (const void *)(uintptr_t)l->bytes.n; /* it may move */
    l->n_gone[l->n++] = 0;
    str_append(&l->bytes, g->bytes, g->n_bytes);
    return 0;
}

/* Units of position n_pos, one small segment per layer, as save_answer_token wrote them. */
static int take_tail(void *ctx, const struct store_tail *t)
{
    struct load *job = ctx;
    struct cache *c = job->c;
    size_t one = segment_bytes(c, 1);
    if (!t->n_units || t->position - 1 != c->n_pos) return 0; /* in the log already */
    if (t->n_units != one * (size_t)c->shape.n_layer) return 1;
    for (int i = 0; i < c->shape.n_layer; i++) {
        struct segment g;
        if (!segment_open(&g, (const uint8_t *)t->units + (size_t)i * one, one) ||
            !segments_load(c, i, &g, 1, NULL, UINT32_MAX))
            return 1;
    }
    c->n_pos++;
    return 0;
}

static int take_point(void *ctx, const struct store_checkpoint *p)
{
    const struct load *job = ctx;
    struct save *s = job->s;
    struct save_point point = {p->seq, p->n_run};
    if (p->seq >= s->next_seq) s->next_seq = p->seq + 1;
    return note_point(s, &point, job->e);
}

/* Why a saved cache cannot serve, or NULL. */
static const char *mismatch(const struct save_state *saved, const struct save_state *now)
{
    if (saved->n_run == 0) return "none was saved";
    if (strcmp(saved->model, now->model)) return "it was made by another model";
    if (strcmp(saved->heads, now->heads)) return "it was scored by other retaining heads";
    if (strcmp(saved->kv, now->kv)) return "its units have another format (--kv)";
    if (strcmp(saved->policy, now->policy)) return "its units were chosen by another --policy";
    return NULL;
}

static void reverse_points(struct save *s)
{
    for (size_t i = 0, j = s->n_points; i + 1 < j; i++) {
        struct save_point p = s->points[i];
        s->points[i] = s->points[--j];
        s->points[j] = p;
    }
}

/* Log and tail into the cache. 0, or 1 with job->reason, or an error. */
static int load_log(struct load *job, const struct save_state *saved)
{
    struct save *s = job->s;
    struct cache *c = job->c;
    int64_t n_run = saved->n_run;
    int rc = store_checkpoint_each(s->store, s->conversation, take_point, job, job->e);
    if (rc) return rc;
    reverse_points(s);
    rc = store_blob_each(s->store, s->conversation, -1, take_blob, job, job->e);
    if (rc == 0) rc = load_batch(job);
    if (rc) return rc;
    if (job->n_loaded == 0) job->reason = "none was saved";
    if (job->n_loaded > 0 && (job->n_loaded != c->shape.n_layer || job->end_of_all < n_run))
        job->reason = "parts of it are missing";
    if (!job->reason && saved->n_units >= 0 && cache_units(c) != saved->n_units)
        job->reason = "parts of it are missing";
    if (job->reason) return 1;
    s->saved_pos = c->n_pos = n_run;
    know(s, c);
    rc = store_tail_each(s->store, s->conversation, take_tail, job, job->e);
    if (rc > 0) job->reason = "it does not fit this model or budget";
    return rc;
}

static int load_init(struct load *job, struct err *e)
{
    int rc = make_known(job->s, job->c, e);
    if (rc) return rc;
    job->n_max = 2 * pool_n_threads(job->pool);
    if (job->n_max > job->c->shape.n_layer) job->n_max = job->c->shape.n_layer;
    if (job->c->shape.share == CACHE_MODEL) job->n_max = 1; /* a layer's units move the others' */
    job->layers = calloc((size_t)job->n_max, sizeof *job->layers);
    for (int i = 0; job->layers && i < job->n_max; i++)
        if (!gone_init(&job->layers[i].gone, job->c->shape.n_head)) return out_of_memory(e);
    return job->layers ? 0 : out_of_memory(e);
}

static void forget_log(struct save *s, const struct cache *c)
{
    s->n_points = 0;
    s->saved_pos = 0;
    s->state_seq = -1;
    if (!s->known) return;
    memset(s->n_gone, 0, (size_t)s->n_layer * sizeof *s->n_gone);
    memset(s->n_known, 0, (size_t)n_heads(c) * sizeof *s->n_known);
    memset(s->n_stored, 0, (size_t)c->shape.n_layer * sizeof *s->n_stored);
}

int save_load(struct save *s, struct cache *c, struct pool *pool, const struct save_state *now,
              int64_t *n_run, struct str *why, struct err *e)
{
    struct save_state saved;
    struct load job = {.s = s, .c = c, .pool = pool, .e = e};
    bool found;
    int rc = save_state(s, &saved, &found, e);
    if (rc) return rc;
    *n_run = 0;
    free(saved.system);
    job.end = (uint32_t)saved.n_run;
    cache_clear(c);
    job.reason = found ? mismatch(&saved, now) : "none was saved";
    rc = load_init(&job, e);
    if (!rc) {
        forget_log(s, c);
        rc = job.reason ? 1 : load_log(&job, &saved);
    }
    load_release(&job);
    if (rc == ERR_FORMAT) job.reason = e->text;
    if (rc < 0 && rc != ERR_FORMAT) return rc;
    if (!job.reason) {
        cache_imported(c, c->n_pos);
        *n_run = c->n_pos;
        return 1;
    }
    str_printf(why, "%s", job.reason);
    cache_clear(c);
    forget_log(s, c);
    return 0;
}

int save_drop(struct save *s, struct err *e)
{
    return store_cache_drop(s->store, s->conversation, e);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Ends a transaction: commits, or rolls back when rc says that something in it failed. */
static int end(struct save *s, int rc, struct err *e)
{
    if (!rc) rc = store_commit(s->store, e);
    if (rc) {
        store_rollback(s->store);
        s->broken = true;
    }
    return rc;
}

static int put_message(struct save *s, enum chat_role role, const char *text, size_t n,
                       const int32_t *ids, size_t n_ids, struct err *e)
{
    static const enum store_role roles[] = {
        [CHAT_SYSTEM] = STORE_SYSTEM, [CHAT_USER] = STORE_USER, [CHAT_ASSISTANT] = STORE_ASSISTANT};
    struct store_message m = {
        .role = roles[role], .text = text, .n_text = n, .tokens = ids, .n_tokens = n_ids};
    return store_message_add(s->store, s->conversation, &m, e);
}

int save_message(struct save *s, enum chat_role role, const char *text, size_t n,
                 const int32_t *ids, size_t n_ids, struct err *e)
{
    int rc = store_begin(s->store, e);
    if (!rc) rc = put_message(s, role, text, n, ids, n_ids, e);
    return end(s, rc, e);
}

/* Positions [saved_pos, n_pos) become a segment. */
static int put_units(struct save *s, const struct cache *c, struct err *e)
{
    int n = (int)(c->n_pos - s->saved_pos);
    if (s->broken) return store_cache_drop(s->store, s->conversation, e);
    if (n <= 0) return 0;
    size_t bytes = segment_bytes(c, n);
    int rc = reserve(s, bytes, e);
    if (!rc) rc = cache_fetch(c, n, e);
    for (int i = 0; !rc && i < c->shape.n_layer; i++) {
        segment_pack(c, i, s->saved_pos, n, s->bytes);
        struct store_segment row = {.seq = s->next_seq,
                                    .layer = i,
                                    .kind = STORE_UNITS,
                                    .bytes = s->bytes,
                                    .n_bytes = bytes};
        rc = store_segment_put(s->store, s->conversation, &row, e);
        s->n_stored[i] += (int64_t)c->shape.n_head * n;
    }
    /* What is new is known from now on, so that it can go in the same save. */
    for (int i = 0; i < n_heads(c); i++) {
        const struct cache_head *h = &c->heads[i];
        memcpy(known_of(s, c, i) + s->n_known[i], h->pos + (h->len - n),
               (size_t)n * sizeof *h->pos);
        s->n_known[i] += n;
    }
    s->saved_pos = c->n_pos;
    s->next_seq++;
    return rc;
}

/* What was evicted since the last save. */
static int put_gone(struct save *s, const struct cache *c, struct err *e)
{
    struct str bytes = {0};
    int rc = 0;
    if (s->broken || c->n_evictions == s->n_evictions) return 0;
    for (int i = 0; !rc && i < c->shape.n_layer; i++) {
        if (!find_gone(s, c, i)) rc = out_of_memory(e);
        int64_t n = gone_count(&s->gone);
        if (rc || n == 0) continue;
        str_clear(&bytes);
        gone_write(&s->gone, &bytes);
        struct store_segment row = {.seq = s->next_seq,
                                    .layer = i,
                                    .kind = STORE_GONE,
                                    .bytes = bytes.data,
                                    .n_bytes = bytes.n};
        rc = store_segment_put(s->store, s->conversation, &row, e);
        s->n_gone[i] += n;
    }
    str_release(&bytes);
    if (rc) return rc;
    know(s, c);
    s->next_seq++;
    return 0;
}

/* What the policy remembers, instead of what was saved of it before; so after going back further
 * than the last save, the text is read again. While an answer runs it is not written: a crash loses
 * what the tokens since then looked at, which only later evictions would have used. */
static int put_memory(struct save *s, const struct cache *c, struct err *e)
{
    struct str bytes = {0};
    int rc = 0;
    if (s->broken || !state_needed(c)) return 0;
    if (s->state_seq >= 0)
        rc = store_segment_delete(s->store, s->conversation, -1, s->state_seq, s->state_seq, e);
    for (int i = 0; !rc && i < c->shape.n_layer; i++) {
        str_clear(&bytes);
        state_write(c, i, &bytes);
        struct store_segment row = {.seq = s->next_seq,
                                    .layer = i,
                                    .kind = STORE_UNITS,
                                    .bytes = bytes.data,
                                    .n_bytes = bytes.n};
        rc = store_segment_put(s->store, s->conversation, &row, e);
    }
    str_release(&bytes);
    s->state_seq = s->next_seq++;
    return rc;
}

/* What came, then what went; `after` evicts in between. Each entry has a number of its own. */
static int put_log(struct save *s, const struct cache *c, void (*after)(void *ctx), void *ctx,
                   struct err *e)
{
    int rc = s->broken ? 0 : make_known(s, c, e);
    /* What went before the newest came must be found while only the older are known. */
    if (!rc) rc = put_gone(s, c, e);
    if (!rc) rc = put_units(s, c, e);
    if (after) after(ctx);
    if (!rc) rc = put_gone(s, c, e);
    return rc ? rc : put_memory(s, c, e);
}

static int put_point(struct save *s, const struct cache *c, struct err *e)
{
    struct save_point p = {s->next_seq, c->n_pos};
    struct store_checkpoint row = {p.seq, p.n_run};
    if (s->broken) return 0;
    s->next_seq++;
    int rc = store_checkpoint_put(s->store, s->conversation, &row, e);
    return rc ? rc : note_point(s, &p, e);
}

static int put_token(struct save *s, const struct cache *c, const struct save_token *t,
                     struct err *e)
{
    struct store_tail row = {
        .position = t->position, .token = t->id, .text = t->bytes, .n_text = t->n};
    size_t one = segment_bytes(c, 1), n = one * (size_t)c->shape.n_layer;
    if (c->n_pos > s->saved_pos && !s->broken) {
        int rc = reserve(s, n, e);
        if (!rc) rc = cache_fetch(c, 1, e);
        if (rc) return rc;
        for (int i = 0; i < c->shape.n_layer; i++)
            segment_pack(c, i, c->n_pos - 1, 1, s->bytes + (size_t)i * one);
        row.units = s->bytes;
        row.n_units = n;
    }
    return store_tail_add(s->store, s->conversation, &row, e);
}

int save_units(struct save *s, const struct cache *c, const struct save_state *now,
               const struct save_token *first, struct err *e)
{
    int rc = store_begin(s->store, e);
    if (!rc) rc = put_log(s, c, NULL, NULL, e);
    if (!rc) rc = put_point(s, c, e);
    if (!rc) rc = put_state(s, c, now, e);
    if (!rc && first) rc = put_token(s, c, first, e);
    return end(s, rc, e);
}

int save_answer_token(struct save *s, const struct cache *c, const struct save_token *t,
                      struct err *e)
{
    int rc = put_token(s, c, t, e);
    if (rc) s->broken = true;
    return rc;
}

int save_answer(struct save *s, const struct cache *c, const struct save_state *now,
                const char *text, size_t n, const int32_t *ids, size_t n_ids,
                void (*after)(void *ctx), void *ctx, struct err *e)
{
    int rc = store_begin(s->store, e);
    if (!rc) rc = put_message(s, CHAT_ASSISTANT, text, n, ids, n_ids, e);
    if (!rc) rc = store_tail_clear(s->store, s->conversation, e);
    if (!rc)
        rc = put_log(s, c, after, ctx, e);
    else if (after)
        after(ctx);
    if (!rc) rc = put_point(s, c, e);
    if (!rc) rc = put_state(s, c, now, e);
    return end(s, rc, e);
}

int save_rewind(struct save *s, const struct save_state *now, const struct save_point *point,
                int64_t n_run, int64_t n_messages, struct err *e)
{
    struct save_state then = *now;
    then.n_run = point ? n_run : 0;
    then.n_units = -1;
    int rc = store_begin(s->store, e);
    if (!rc) rc = store_rewind(s->store, s->conversation, n_messages, point ? point->seq : -1, e);
    if (!rc) rc = put_state_of(s, s->conversation, &then, e);
    if (!rc) rc = store_commit(s->store, e);
    store_rollback(s->store);
    return rc;
}

int save_branch(struct save *s, const char *name, const struct save_point *point, int64_t n_run,
                int64_t n_messages, struct store_conversation *out, struct err *e)
{
    struct save_state state;
    bool found;
    int rc = save_state(s, &state, &found, e);
    if (rc) return rc;
    state.n_run = point ? n_run : 0;
    state.n_units = -1;
    rc = store_begin(s->store, e);
    if (!rc)
        rc = store_conversation_copy(s->store, s->conversation, n_messages, point ? point->seq : -1,
                                     s->store, name, out, e);
    if (!rc && found) rc = put_state_of(s, out->id, &state, e);
    if (!rc) rc = store_commit(s->store, e);
    store_rollback(s->store);
    free(state.system);
    return rc;
}

/* ---- compaction ------------------------------------------------------------------------------ */

static size_t unit_bytes(const struct cache *c)
{
    return c->k_bytes + c->v_bytes + sizeof(float) + sizeof(uint32_t);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Units that went after a checkpoint. */
static int64_t gone_since(const struct save *s, size_t point)
{
    int64_t n = 0;
    for (int i = 0; i < s->n_layer; i++)
        n += s->n_gone[i] - s->n_gone_at[point * (size_t)s->n_layer + (size_t)i];
    return n;
}

/* Forgets checkpoints that need too many units that are dead otherwise. The newest always stays. */
static int forget_points(struct save *s, const struct cache *c, struct err *e)
{
    int64_t limit = larger(cache_units(c), s->rewind_bytes / (int64_t)unit_bytes(c));
    size_t n = 0, row = (size_t)s->n_layer;
    while (n + 1 < s->n_points && gone_since(s, n) > limit) n++;
    if (n == 0) return 0;
    int rc = store_checkpoint_forget(s->store, s->conversation, s->points[n].seq, e);
    if (rc) return rc;
    s->n_points -= n;
    memmove(s->points, s->points + n, s->n_points * sizeof *s->points);
    memmove(s->n_gone_at, s->n_gone_at + n * row, s->n_points * row * sizeof *s->n_gone_at);
    return 0;
}

/* Units of a layer that nothing needs any more. */
static int64_t dead_units(const struct save *s, const struct cache *c, int layer)
{
    int64_t alive = 0;
    for (int i = 0; i < c->shape.n_head; i++) alive += cache_head(c, layer, i)->len;
    int64_t kept = s->n_gone[layer] - s->n_gone_at[layer]; /* the oldest checkpoint needs them */
    int64_t dead = s->n_stored[layer] - alive - kept;
    int64_t limit = larger(alive, s->rewind_bytes / COMPACT_PART / (int64_t)unit_bytes(c));
    return dead > limit ? dead : 0;
}

struct compaction {
    int64_t horizon; /* log entries up to here become one */
    struct segment *segments;
    size_t n, max;
    struct str *bytes; /* [n] of segments */
    struct gone gone;
    struct str state; /* what the policy remembers: stays as it is */
    int64_t state_seq;
    struct err *e;
};

static int take_old(void *ctx, const struct store_segment *g)
{
    struct compaction *k = ctx;
    if (g->seq > k->horizon) return 0;
    if (g->kind == STORE_GONE) return gone_read(&k->gone, g->bytes, g->n_bytes) ? 0 : ERR_FORMAT;
    if (state_is(g->bytes, g->n_bytes)) {
        str_clear(&k->state);
        str_append(&k->state, g->bytes, g->n_bytes);
        k->state_seq = g->seq;
        return 0;
    }
    if (k->n == k->max) {
        size_t max = k->max ? 2 * k->max : 64;
        struct segment *segments = realloc(k->segments, max * sizeof *segments);
        if (segments) k->segments = segments;
        struct str *bytes = realloc(k->bytes, max * sizeof *bytes);
        if (bytes) k->bytes = bytes;
        if (!segments || !bytes) return out_of_memory(k->e);
        k->max = max;
    }
    struct str *copy = &k->bytes[k->n];
    *copy = (struct str){0};
    str_append(copy, g->bytes, g->n_bytes);
    return segment_open(&k->segments[k->n++], copy->data, copy->n) ? 0 : ERR_FORMAT;
}

/* One layer's entries up to the horizon become one sparse segment, in one transaction. */
static int compact_layer(struct save *s, const struct cache *c, int layer, struct err *e)
{
    struct compaction k = {.horizon = s->points[0].seq, .e = e};
    struct str merged = {0};
    int64_t end_pos, n_units = 0, n_before = 0;
    int rc = gone_init(&k.gone, c->shape.n_head) ? 0 : out_of_memory(e);
    if (!rc) rc = store_begin(s->store, e);
    if (!rc) rc = store_segment_each(s->store, s->conversation, layer, take_old, &k, e);
    if (!rc && (k.n == 0 || !segments_join(k.segments, k.n, &end_pos))) rc = ERR_FORMAT;
    if (!rc) {
        gone_sort(&k.gone);
        n_units = segments_merge(k.segments, k.n, &k.gone, &merged);
        for (size_t i = 0; i < k.n; i++) n_before += k.segments[i].n_units;
        rc = store_segment_delete(s->store, s->conversation, layer, 0, k.horizon, e);
    }
    struct store_segment row = {.seq = k.horizon,
                                .layer = layer,
                                .kind = STORE_UNITS,
                                .bytes = merged.data,
                                .n_bytes = merged.n};
    struct store_segment state = {.seq = k.state_seq,
                                  .layer = layer,
                                  .kind = STORE_UNITS,
                                  .bytes = k.state.data,
                                  .n_bytes = k.state.n};
    if (!rc) rc = store_segment_put(s->store, s->conversation, &row, e);
    if (!rc && k.state.n) rc = store_segment_put(s->store, s->conversation, &state, e);
    if (!rc) rc = store_commit(s->store, e);
    store_rollback(s->store);
    if (!rc) s->n_stored[layer] += n_units - n_before;
    for (size_t i = 0; i < k.n; i++) str_release(&k.bytes[i]);
    free(k.segments);
    free(k.bytes);
    gone_release(&k.gone);
    str_release(&k.state);
    str_release(&merged);
    return rc;
}

void save_compact(struct save *s, const struct cache *c)
{
    struct err ignored;
    int64_t bytes = 0;
    if (s->broken || s->n_points == 0 || forget_points(s, c, &ignored)) return;
    for (int i = 0; i < c->shape.n_layer && bytes < COMPACT_BYTES_MAX; i++) {
        int64_t dead = dead_units(s, c, i);
        if (dead == 0) continue;
        bytes += (s->n_stored[i] - dead) * (int64_t)unit_bytes(c);
        if (compact_layer(s, c, i, &ignored)) return;
    }
}

/* ---- after a crash --------------------------------------------------------------------------- */

int save_recover(struct save *s, const struct cache *c, const struct save_state *now, struct err *e)
{
    struct utf8_join join = {0};
    if (s->crash_ids.n == 0) return 0;
    char *out = malloc(3 * (s->crash_text.n + 4));
    if (!out) return out_of_memory(e);
    size_t n = utf8_join(&join, str_get(&s->crash_text), s->crash_text.n, true, out);
    int rc = save_answer(s, c, now, out, n, s->crash_ids.ids, s->crash_ids.n, NULL, NULL, e);
    free(out);
    str_release(&s->crash_text);
    tokens_release(&s->crash_ids);
    return rc;
}
