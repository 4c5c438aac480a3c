/* Loads a saved conversation: the transcript, then the cache.
 *
 * Reading the file and unpacking units run in parallel: while some of the pool's threads verify and
 * unpack a few layers, one reads the next few. */
#include "runtime/save/save_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/memory.h"
#include "base/pool.h"
#include "runtime/cache/policy.h"
#include "runtime/save/messages.h"
#include "runtime/save/save_windows.h"

/* Layers at a time. Reading takes as long as three threads need to unpack. */
#define LOAD_LAYERS 4

/* ---- transcript ------------------------------------------------------------------------------ */

struct transcript_job {
    struct save *s;
    struct tokens *ids;
    void (*each)(void *ctx, const struct save_message *m);
    void *ctx;
};

static int take_message(void *ctx, const struct store_message *m)
{
    const struct transcript_job *j = ctx;
    for (size_t i = 0; i < m->n_tokens; i++) tokens_push(j->ids, m->tokens[i]);
    for (size_t i = 0; m->seq < 0 && i < m->n_tokens; i++)
        tokens_push(&j->s->crash_ids, m->tokens[i]);
    const struct save_message out = save_message_of(m);
    j->each(j->ctx, &out);
    return 0;
}

int save_transcript(struct save *s, struct tokens *ids,
                    void (*each)(void *ctx, const struct save_message *m), void *ctx, struct err *e)
{
    struct transcript_job job = {s, ids, each, ctx};
    s->crash_ids.n = 0;
    return store_message_each(s->store, s->conversation, take_message, &job, e);
}

/* ---- one layer ------------------------------------------------------------------------------- */

struct layer {
    int index;
    size_t first, n;    /* its entries: job->blobs[first …] */
    struct arena bytes; /* their bytes, concatenated */
    struct positions evicted;
    int64_t end;              /* positions that it covers */
    int64_t n_units;          /* stored */
    int64_t policy_state_seq; /* where version 2 put the policy state; 0 = nowhere */
    const struct store_segment *damaged;
    bool fits;
};

struct batch {
    struct layer layers[LOAD_LAYERS];
    int n;
};

struct load {
    struct save *s;
    struct cache *c;
    struct pool *pool;
    uint32_t end;             /* positions from here on are ignored */
    struct store_blob *blobs; /* by layer and age */
    int64_t *n_evicted;       /* [n_blobs] positions that each says are evicted */
    size_t n_blobs, blobs_max;
    size_t policy_state; /* index of the layer's newest policy state; SIZE_MAX = none yet */
    size_t n_read;       /* blobs */
    struct batch batches[2], *reading, *checking;
    int read_rc;        /* result of the batch that was read */
    int64_t end_of_all; /* positions covered by every layer */
    int64_t last_seq;   /* of the newest checkpoint, if entries after it have no recurrent state */
    bool left_out;      /* such entries */
    int n_loaded;
    const char *reason;
    struct err *e;
};

/* A layer's entries while they are opened: segments from the front, returned units from the end. */
struct entries {
    struct segment *of; /* [max] */
    size_t max, n, n_back;
    struct store_segment policy_state; /* the policy's newest state */
};

/* Takes one entry of the log. */
static bool take_entry(struct layer *l, const struct store_segment *g, struct entries *t)
{
    if (g->kind == STORE_EVICTED) return positions_read(&l->evicted, g->bytes, g->n_bytes);
    if (policy_state_is(g->bytes, g->n_bytes)) {
        if (g->kind == STORE_UNITS) l->policy_state_seq = g->seq;
        t->policy_state = *g;
        return true;
    }
    size_t at = g->kind == STORE_RETURNED ? t->max - ++t->n_back : t->n++;
    if (!segment_open(&t->of[at], g->bytes, g->n_bytes)) return false;
    l->n_units += t->of[at].n_units;
    return true;
}

static bool fill_layer(const struct load *job, struct layer *l, const struct entries *t)
{
    const struct segment *back = t->of + (t->max - t->n_back);
    positions_sort(&l->evicted);
    return segments_join(t->of, t->n, &l->end) &&
           segments_load(job->c, l->index, t->of, t->n, &l->evicted, job->end) &&
           (!t->n_back ||
            returned_load(job->c, l->index, t->of, t->n, back, t->n_back, &l->evicted, job->end)) &&
           (!policy_state_needed(job->c) ||
            policy_state_read(job->c, l->index, t->policy_state.bytes, t->policy_state.n_bytes,
                              job->end));
}

/* Verifies a layer's entries, opens them, fills the cache's layer. */
static void load_layer(const struct load *job, struct layer *l)
{
    struct entries t = {.of = malloc(l->n * sizeof *t.of), .max = l->n};
    struct store_segment g;
    uint8_t *bytes = (uint8_t *)l->bytes.base;
    l->fits = t.of != NULL;
    for (size_t i = l->first; i < l->first + l->n && l->fits; i++) {
        const struct store_blob *b = &job->blobs[i];
        int64_t before = positions_count(&l->evicted);
        if (!store_blob_open(job->s->store, b, bytes, &g)) {
            l->damaged = &b->segment;
            break;
        }
        l->fits = take_entry(l, &g, &t);
        job->n_evicted[i] = positions_count(&l->evicted) - before;
        bytes += b->segment.n_bytes;
    }
    if (l->fits && !l->damaged) l->fits = fill_layer(job, l, &t);
    free(t.of);
}

/* Counts the units that each checkpoint had lost: those evicted by the entries before it. */
static void count_evicted(const struct load *job, const struct layer *l)
{
    struct save *s = job->s;
    for (size_t i = l->first; i < l->first + l->n; i++) {
        if (job->n_evicted[i] == 0) continue;
        s->n_evicted[l->index] += job->n_evicted[i];
        for (size_t j = 0; j < s->n_points; j++)
            if (s->points[j].seq >= job->blobs[i].segment.seq)
                s->n_evicted_at[j * (size_t)s->n_layer + (size_t)l->index] += job->n_evicted[i];
    }
}

/* ---- a few layers ---------------------------------------------------------------------------- */

/* Reads the layer whose entries begin at job->n_read into l. */
static int read_layer(struct load *job, struct layer *l)
{
    size_t n_bytes = 0, end = job->n_read;
    int rc = 0;
    l->first = job->n_read;
    l->index = job->blobs[l->first].segment.layer;
    for (; end < job->n_blobs && job->blobs[end].segment.layer == l->index; end++)
        n_bytes += job->blobs[end].segment.n_bytes;
    l->n = end - l->first;
    if (n_bytes > l->bytes.bytes) {
        arena_release(&l->bytes);
        rc = arena_init_sparse(&l->bytes, "loading", n_bytes, job->e);
    }
    uint8_t *out = (uint8_t *)l->bytes.base;
    for (; !rc && job->n_read < end; job->n_read++) {
        const struct store_blob *b = &job->blobs[job->n_read];
        rc = store_blob_read(job->s->store, job->s->conversation, b, out, job->e);
        out += b->segment.n_bytes;
    }
    return rc;
}

static void read_batch(struct load *job)
{
    struct batch *b = job->reading;
    /* If all heads share one budget, loading a layer moves the units of others. */
    int n_max = job->c->shape.share == CACHE_MODEL ? 1 : pool_n_threads(job->pool);
    if (n_max > LOAD_LAYERS) n_max = LOAD_LAYERS;
    job->read_rc = 0;
    for (b->n = 0; b->n < n_max && job->n_read < job->n_blobs && job->read_rc == 0; b->n++) {
        struct layer *l = &b->layers[b->n];
        positions_clear(&l->evicted);
        l->n_units = l->end = l->policy_state_seq = 0;
        l->damaged = NULL;
        job->read_rc = read_layer(job, l);
    }
}

static void load_part(void *ctx, int part, int thread)
{
    struct load *job = ctx;
    (void)thread;
    if (part == 0)
        read_batch(job);
    else
        load_layer(job, &job->checking->layers[part - 1]);
}

/* Adds the result of a layer to the state of the log. */
static int finish_layer(struct load *job, const struct layer *l)
{
    struct save *s = job->s;
    if (l->damaged) return store_segment_damaged(s->store, s->conversation, l->damaged, job->e);
    if (!l->fits) job->reason = "it does not fit this model, budget or policy";
    if (l->fits && job->n_loaded > 0 && l->end != job->end_of_all)
        job->reason = "parts of it are missing";
    if (job->reason) return 1;
    job->end_of_all = l->end;
    job->n_loaded++;
    s->n_stored[l->index] = l->n_units;
    if (l->policy_state_seq) s->policy_state_seq = l->policy_state_seq;
    if (policy_state_needed(job->c)) job->c->recurrent.changed = true;
    count_evicted(job, l);
    return 0;
}

static void swap_batches(struct load *job)
{
    struct batch *b = job->reading;
    job->reading = job->checking;
    job->checking = b;
}

static int load_layers(struct load *job)
{
    int rc = 0;
    read_batch(job);
    while (!rc && job->reading->n > 0 && job->read_rc == 0) {
        swap_batches(job);
        pool_run(job->pool, job->checking->n + 1, load_part, job);
        for (int i = 0; !rc && i < job->checking->n; i++)
            rc = finish_layer(job, &job->checking->layers[i]);
    }
    store_blob_done(job->s->store);
    return rc ? rc : job->read_rc;
}

/* ---- the log --------------------------------------------------------------------------------- */

/* Reads only the newest policy state of each layer. */
static int take_blob(void *ctx, const struct store_blob *b)
{
    struct load *job = ctx;
    struct save *s = job->s;
    const struct store_segment *g = &b->segment;
    if (g->layer < 0 || g->layer >= job->c->shape.n_layer + job->c->shape.windows.n_layer) {
        job->reason = "it does not fit this model or budget";
        return 1;
    }
    if (g->seq >= s->next_seq) s->next_seq = g->seq + 1;
    if (g->seq > job->last_seq) {
        job->left_out = true;
        return 0;
    }
    if (g->layer >= job->c->shape.n_layer) return 0; /* save_windows_load reads it */
    if (g->kind == STORE_PAST) return 0;             /* save_past reads it */
    if (job->n_blobs == 0 || job->blobs[job->n_blobs - 1].segment.layer != g->layer)
        job->policy_state = SIZE_MAX;
    if (g->kind == STORE_POLICY_STATE && s->policy_state_seq == 0) s->policy_state_seq = g->seq;
    if (g->kind == STORE_POLICY_STATE && job->policy_state != SIZE_MAX) {
        job->blobs[job->policy_state] = *b;
        return 0;
    }
    size_t max = job->blobs_max;
    job->n_evicted = memory_more(job->n_evicted, job->n_blobs, &max, sizeof *job->n_evicted);
    job->blobs = memory_more(job->blobs, job->n_blobs, &job->blobs_max, sizeof *job->blobs);
    if (g->kind == STORE_POLICY_STATE) job->policy_state = job->n_blobs;
    job->n_evicted[job->n_blobs] = 0;
    job->blobs[job->n_blobs++] = *b;
    return 0;
}

/* Reads scores of every head's newest units, which were written without. */
static bool take_scores(struct cache *c, const uint8_t *scores, size_t bytes)
{
    size_t n_heads = (size_t)(c->shape.n_layer * c->shape.n_head), each = bytes / n_heads;
    int n = (int)(each / sizeof(float));
    if (bytes % (n_heads * sizeof(float)) || n > CACHE_UNSCORED_MAX) return false;
    for (size_t i = 0; i < n_heads; i++, scores += each) {
        struct cache_head *h = &c->kv_heads[i];
        if (h->len < n) return false;
        memcpy(h->score + h->len - n, scores, each);
    }
    return true;
}

/* Whether the segment has one unit per head, at position n_pos: heads are in position order and
 * have none beyond n_pos. */
static bool is_newest(const struct cache *c, const struct segment *g)
{
    return g->header.form == SEGMENT_DENSE && g->header.n == 1 && g->header.pos == c->n_pos;
}

/* Reads units of position n_pos, one small segment per layer, as save_answer_token wrote them. */
static int take_tail(void *ctx, const struct store_tail *t)
{
    struct load *job = ctx;
    struct cache *c = job->c;
    size_t one = segment_bytes(c, 1), own = one * (size_t)c->shape.n_layer;
    size_t all = own + save_windows_tail_bytes(c);
    const size_t step = recurrent_state_step_bytes(&c->recurrent);
    if (!t->n_units || t->position - 1 != c->n_pos) return 0; /* already in the log */
    if (t->n_units < all + step) return 1;
    for (int i = 0; i < c->shape.n_layer; i++) {
        struct segment g;
        if (!segment_open(&g, (const uint8_t *)t->units + (size_t)i * one, one) ||
            !is_newest(c, &g) || !segments_load(c, i, &g, 1, NULL, UINT32_MAX))
            return 1;
    }
    if (!save_windows_take_tail(c, (const uint8_t *)t->units + own) ||
        !take_scores(c, (const uint8_t *)t->units + all, t->n_units - all - step))
        return 1;
    if (step) {
        memcpy(c->recurrent.step, (const uint8_t *)t->units + (t->n_units - step), step);
        c->recurrent.repeat(c->recurrent.repeat_ctx);
    }
    c->n_pos++;
    return 0;
}

/* Whether the newest unit has no score in any head: it was not scored before the crash. */
static bool newest_waits(const struct cache *c)
{
    for (int i = 0; i < c->shape.n_layer * c->shape.n_head; i++)
        if (c->kv_heads[i].score[c->kv_heads[i].len - 1] != 0) return false;
    return true;
}

/* Removes units that a crash left without scores, so that they are run again with the next message:
 * 0 is the score of an average unit, and the units kept so far are better. */
static void drop_unscored(const struct load *job, const struct save_state *now)
{
    struct cache *c = job->c;
    const struct policy *p = policy_named(now->policy);
    if (c->recurrent.shape.n_layer) return; /* they are scored at once */
    while (p && p->scorer == POLICY_CIS && c->n_pos > job->s->saved_pos && newest_waits(c)) {
        for (int i = 0; i < c->shape.n_layer * c->shape.n_head; i++) c->kv_heads[i].len--;
        save_windows_drop_newest(c);
        c->n_pos--;
    }
}

static int take_point(void *ctx, const struct store_checkpoint *p)
{
    const struct load *job = ctx;
    struct save *s = job->s;
    struct save_point point = {p->seq, p->n_run};
    if (p->seq >= s->next_seq) s->next_seq = p->seq + 1;
    save_note_point(s, &point);
    return 0;
}

static void reverse_points(struct save *s)
{
    for (size_t i = 0, j = s->n_points; i + 1 < j; i++) {
        struct save_point p = s->points[i];
        s->points[i] = s->points[--j];
        s->points[j] = p;
    }
}

/* Loads log and tail into the cache. 0, or 1 with job->reason, or an error. */
static int load_log(struct load *job, const struct save_state *saved, const struct save_state *now)
{
    struct save *s = job->s;
    struct cache *c = job->c;
    int64_t n_run = saved->n_run;
    int rc = store_checkpoint_each(s->store, s->conversation, take_point, job, job->e);
    if (rc) return rc;
    reverse_points(s);
    job->last_seq =
        c->recurrent.shape.n_layer && s->n_points ? s->points[s->n_points - 1].seq : INT64_MAX;
    rc = store_blob_each(s->store, s->conversation, -1, take_blob, job, job->e);
    if (!rc) rc = load_layers(job);
    if (rc) return rc;
    if (job->n_loaded == 0)
        job->reason = "none was saved";
    else if (job->n_loaded != c->shape.n_layer || job->end_of_all < n_run ||
             (saved->n_units >= 0 && cache_units(c) != saved->n_units))
        job->reason = "parts of it are missing";
    if (job->reason) return 1;
    bool complete;
    rc = save_windows_load(s, c, n_run, &complete, job->e);
    if (!rc && !complete) job->reason = "parts of it are missing";
    if (rc || job->reason) return rc ? rc : 1;
    s->saved_pos = c->n_pos = s->policy_state_pos = n_run;
    if (job->left_out && !s->reads_only) {
        rc = store_segment_delete(s->store, s->conversation, -1, job->last_seq + 1, INT64_MAX,
                                  job->e);
        if (rc) return rc;
    }
    save_know(s, c);
    rc = store_tail_each(s->store, s->conversation, take_tail, job, job->e);
    if (rc > 0) job->reason = "it does not fit this model or budget";
    if (!rc) drop_unscored(job, now);
    return rc;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* Whether heads take over a cache that was evicted by what its keys say. */
static bool adopts(const struct save_state *saved, const struct save_state *now)
{
    const struct policy *was = policy_named(saved->policy);
    return now->can_adopt && was && was->scorer == POLICY_KEYS;
}

/* The reason why a saved cache cannot be used, or NULL. */
static const char *mismatch(const struct save_state *saved, const struct save_state *now)
{
    if (saved->n_run <= 0) return "none was saved";
    if (strcmp(saved->model, now->model)) return "it was made by another model";
    if (strcmp(saved->kv, now->kv)) return "its units have another format (--kv)";
    if (adopts(saved, now)) return NULL;
    const struct policy *p = policy_named(now->policy);
    if (p && p->scorer == POLICY_CIS && strcmp(saved->heads, now->heads))
        return "it was scored by other retaining heads";
    if (strcmp(saved->policy, now->policy)) return "its units were chosen by another --policy";
    return NULL;
}

static int load_init(struct load *job)
{
    job->reading = &job->batches[0];
    job->checking = &job->batches[1];
    int rc = save_make_known(job->s, job->c, job->e);
    for (int i = 0; !rc && i < 2 * LOAD_LAYERS; i++) {
        struct layer *l = &job->batches[i / LOAD_LAYERS].layers[i % LOAD_LAYERS];
        if (!positions_init(&l->evicted, job->c->shape.n_head)) rc = save_out_of_memory(job->e);
    }
    return rc;
}

static void load_release(struct load *job)
{
    for (int i = 0; i < 2 * LOAD_LAYERS; i++) {
        struct layer *l = &job->batches[i / LOAD_LAYERS].layers[i % LOAD_LAYERS];
        positions_release(&l->evicted);
        arena_release(&l->bytes);
    }
    free(job->blobs);
    free(job->n_evicted);
    memory_return_free();
}

int save_load(struct save *s, struct cache *c, struct pool *pool, const struct save_state *now,
              struct save_loaded *out, struct err *e)
{
    struct save_state saved;
    struct load job = {.s = s, .c = c, .pool = pool, .e = e};
    bool found;
    *out = (struct save_loaded){0};
    int rc = save_state(s, &saved, &found, e);
    if (rc) return rc;
    save_state_release(&saved);
    job.end = (uint32_t)saved.n_run;
    cache_clear(c);
    job.reason = found ? mismatch(&saved, now) : "none was saved";
    rc = load_init(&job);
    if (!rc) {
        save_know_nothing(s, c);
        rc = job.reason ? 1 : load_log(&job, &saved, now);
    }
    load_release(&job);
    if (rc == ERR_FORMAT) job.reason = e->text;
    if (rc < 0 && rc != ERR_FORMAT) return rc;
    if (job.reason) {
        str_puts(&out->why, job.reason);
        cache_clear(c);
        save_know_nothing(s, c);
        return 0;
    }
    cache_imported(c, c->n_pos);
    out->n_run = c->n_pos;
    out->adopted = adopts(&saved, now);
    out->heads_from = out->adopted ? c->n_pos : saved.heads_from;
    out->usable = true;
    return 0;
}
