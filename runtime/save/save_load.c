/* Loads a saved conversation: the transcript, then the cache. Of each layer the newest base is
 * read, the lists of evicted and returned positions since, then the blocks of units after it, and
 * the earlier blocks of units that returned. */
#include "runtime/save/save_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/cache/policy.h"
#include "runtime/save/save_windows.h"

/* ---- transcript ------------------------------------------------------------------------------ */

struct transcript_job {
    struct save *s;
    struct tokens *ids;
    void (*each)(void *ctx, const struct store_message *m);
    void *ctx;
};

static int take_message(void *ctx, const struct store_message *m)
{
    const struct transcript_job *j = ctx;
    for (size_t i = 0; i < m->n_tokens; i++) tokens_push(j->ids, m->tokens[i]);
    for (size_t i = 0; m->seq < 0 && i < m->n_tokens; i++)
        tokens_push(&j->s->crash_ids, m->tokens[i]);
    j->each(j->ctx, m);
    return 0;
}

int save_transcript(struct save *s, struct tokens *ids,
                    void (*each)(void *ctx, const struct store_message *m), void *ctx,
                    struct err *e)
{
    struct transcript_job job = {s, ids, each, ctx};
    s->crash_ids.n = 0;
    return store_message_each(s->store, s->conversation, take_message, &job, e);
}

/* ---- entries --------------------------------------------------------------------------------- */

struct block {
    struct store_blob blob;
    uint32_t pos;
    int n; /* positions, about */
};

struct blocks {
    struct block *of; /* by position and age */
    size_t n, max;
};

struct layer {
    struct store_blob base, state; /* the newest ones; .id 0 = none */
    struct str base_bytes;
    struct segment base_units;
};

struct load {
    struct save *s;
    struct cache *c;
    uint32_t end; /* positions from here on are ignored */
    struct layer *layers;
    uint32_t *from; /* [n_layer] blocks before this position are in the base */
    struct blocks units, scores;
    struct store_blob *lists; /* evicted and returned positions, by age */
    size_t n_lists, lists_max;
    /* of all heads, since their bases; `again` are those of `returned` that are alive */
    struct positions evicted, returned, again;
    struct positions pieces;  /* one list: stretches of positions that `again` is in */
    int64_t n_bare, n_scored; /* positions of blocks without scores that were read; of scores */
    int64_t last_seq; /* of the newest checkpoint, if entries after it have no recurrent state */
    bool left_out;    /* such entries */
    const char *reason;
    struct err *e;
};

static const char does_not_fit[] = "it does not fit this model, budget or policy";
static const char is_incomplete[] = "parts of it are missing";
static const char is_out_of_order[] = "its checkpoints are out of order";
static const char other_policy[] = "its units were chosen by another --policy";

/* Fills job->reason; for functions that return 0, 1 with a reason, or an error. */
static int give_up(struct load *job, const char *reason)
{
    job->reason = reason;
    return 1;
}

static int take_layers(struct load *job, const struct store_blob *b)
{
    struct save *s = job->s;
    const struct store_segment *g = &b->segment;
    struct layer *l = &job->layers[g->layer];
    switch (g->kind) {
    case STORE_BASE:
        l->base = *b;
        save_note_base(s, g->layer, &(struct save_base){.seq = g->seq, .blob = *b});
        break;
    case STORE_STATE:
        if (s->state_seq == 0) s->state_seq = g->seq;
        l->state = *b;
        break;
    case STORE_EVICTED:
    case STORE_RETURNED:
        job->lists = memory_more(job->lists, job->n_lists, &job->lists_max, sizeof *job->lists);
        job->lists[job->n_lists++] = *b;
        break;
    default: break; /* save_windows_load and save_past read the others */
    }
    return 0;
}

static int take_blob(void *ctx, const struct store_blob *b)
{
    struct load *job = ctx;
    const struct store_segment *g = &b->segment;
    const int n_layer = job->c->shape.n_layer + job->c->shape.windows.n_layer;
    if (g->seq >= job->s->next_seq) job->s->next_seq = g->seq + 1;
    if (g->seq > job->last_seq) {
        job->left_out = true;
        return 0;
    }
    if (g->layer < 0) return give_up(job, does_not_fit);
    if (g->kind == STORE_UNITS || g->kind == STORE_SCORES) {
        struct blocks *l = g->kind == STORE_UNITS ? &job->units : &job->scores;
        l->of = memory_more(l->of, l->n, &l->max, sizeof *l->of);
        l->of[l->n++] =
            (struct block){*b, (uint32_t)g->layer, save_block_positions(&job->c->shape, g)};
        return 0;
    }
    if (g->layer >= n_layer) return give_up(job, does_not_fit);
    return g->layer < job->c->shape.n_layer ? take_layers(job, b) : 0;
}

/* ---- bases and lists ------------------------------------------------------------------------- */

static int read_base(struct load *job, int layer)
{
    struct layer *l = &job->layers[layer];
    struct save_bases *known = &job->s->bases[layer];
    struct store_segment row;
    if (!l->base.id) return 0;
    int rc = save_get_entry(job->s, &l->base, &row, job->e);
    if (rc) return rc;
    uint32_t n_list;
    if (!save_base_list(&row, &n_list)) return give_up(job, does_not_fit);
    const uint8_t *list = (const uint8_t *)row.bytes + sizeof n_list;
    str_append(&l->base_bytes, list + n_list, row.n_bytes - sizeof n_list - n_list);
    struct segment *g = &l->base_units;
    if (!positions_read(&job->evicted, NULL, list, n_list) ||
        !segment_open(g, l->base_bytes.data, l->base_bytes.n) ||
        !segment_fits(g, job->c, job->c->shape.n_head) || g->header.form != SEGMENT_SPARSE ||
        g->header.pos || g->header.n > job->end || g->header.n % ARCHIVE_PIECE)
        return give_up(job, does_not_fit);
    job->from[layer] = known->of[known->n - 1].end = g->header.n;
    return 0;
}

/* Reads a list into the heads whose bases are older. */
static int read_list(struct load *job, const struct store_blob *b, bool *taken)
{
    const int n_head = job->c->shape.n_head, n_heads = job->evicted.n_head;
    struct positions *to = b->segment.kind == STORE_EVICTED ? &job->evicted : &job->returned;
    struct store_segment row;
    bool any = false;
    for (int i = 0; i < n_heads; i++) {
        const struct layer *l = &job->layers[i / n_head];
        taken[i] = !l->base.id || b->segment.seq > l->base.segment.seq;
        any = any || taken[i];
    }
    if (!any) return 0;
    int rc = save_get_entry(job->s, b, &row, job->e);
    if (rc) return rc;
    return positions_read(to, taken, row.bytes, row.n_bytes) ? 0 : give_up(job, does_not_fit);
}

static bool in_base(const struct segment *base, int head, uint32_t pos)
{
    const struct segment_part p = segment_part(base, head);
    uint32_t i = 0;
    while (i < p.n && segment_position(base, &p, i) < pos) i++;
    return i < p.n && segment_position(base, &p, i) == pos;
}

/* Of one head's returned positions those that are alive: added and returned more often than they
 * were evicted. */
static void find_again(struct load *job, int index)
{
    const int layer = index / job->c->shape.n_head, head = index % job->c->shape.n_head;
    const struct layer *l = &job->layers[layer];
    const struct positions_head *r = &job->returned.heads[index];
    for (size_t i = 0, n; i < r->n; i += n) {
        const uint32_t pos = r->pos[i];
        for (n = 1; i + n < r->n && r->pos[i + n] == pos;) n++;
        size_t came =
            n + (pos >= job->from[layer] || (l->base.id && in_base(&l->base_units, head, pos)));
        if (pos >= job->end || came <= positions_times(&job->evicted.heads[index], pos)) continue;
        positions_push(&job->again, index, pos);
        positions_push(&job->pieces, 0, pos / ARCHIVE_PIECE);
    }
}

static int read_lists(struct load *job)
{
    const int n_heads = job->evicted.n_head;
    bool *taken = memory_new((size_t)n_heads, sizeof *taken);
    int rc = 0;
    for (int i = 0; !rc && i < job->c->shape.n_layer; i++) rc = read_base(job, i);
    for (size_t i = 0; !rc && i < job->n_lists; i++) rc = read_list(job, &job->lists[i], taken);
    free(taken);
    positions_sort(&job->evicted);
    positions_sort(&job->returned);
    for (int i = 0; !rc && i < n_heads; i++) find_again(job, i);
    positions_sort(&job->pieces);
    return rc;
}

/* ---- units ----------------------------------------------------------------------------------- */

/* Reads a segment of all heads. */
static int read_block(struct load *job, const struct block *b, struct segment *out)
{
    struct store_segment row;
    int rc = save_get_entry(job->s, &b->blob, &row, job->e);
    if (rc) return rc;
    const bool scores = row.kind == STORE_SCORES;
    if (!segment_open(out, row.bytes, row.n_bytes) ||
        !segment_fits(out, job->c, job->evicted.n_head) || out->header.form == SEGMENT_SPARSE ||
        (out->header.form == SEGMENT_SCORES) != scores || out->header.pos != b->pos)
        return give_up(job, does_not_fit);
    if (out->header.form == SEGMENT_BARE) job->n_bare += out->header.n;
    if (out->header.form == SEGMENT_SCORES) job->n_scored += out->header.n;
    return 0;
}

/* Whether a unit that returned may be in the block. */
static bool has_returned(const struct load *job, const struct block *b)
{
    return positions_times(&job->pieces.heads[0], b->pos / ARCHIVE_PIECE) > 0;
}

/* The same block may be there again, for a unit that returned. */
static bool is_again(const struct blocks *l, size_t i)
{
    return i > 0 && l->of[i - 1].pos == l->of[i].pos;
}

/* Appends the units of the blocks from `first` on. */
static int load_blocks(struct load *job, uint32_t first)
{
    const struct blocks *l = &job->units;
    uint32_t at = first;
    for (size_t i = 0; i < l->n; i++) {
        struct segment g;
        if (l->of[i].pos < first || l->of[i].pos >= job->end || is_again(l, i)) continue;
        int rc = read_block(job, &l->of[i], &g);
        if (rc) return rc;
        if (g.header.pos != at) return give_up(job, is_incomplete);
        if (!segment_load_block(job->c, &g, job->from, &job->evicted, job->end))
            return give_up(job, does_not_fit);
        at += g.header.n;
    }
    return at < job->end ? give_up(job, is_incomplete) : 0;
}

static int load_returned(struct load *job, uint32_t first)
{
    const struct blocks *l = &job->units;
    for (int i = 0; i < job->again.n_head; i++)
        job->c->kv_heads[i].coming = (int)job->again.heads[i].n;
    int rc = cache_make_room(job->c) ? 0 : give_up(job, does_not_fit);
    for (size_t i = 0; !rc && i < l->n; i++) {
        struct segment g;
        if (is_again(l, i) || !has_returned(job, &l->of[i])) continue;
        const int64_t n_bare = job->n_bare;
        rc = read_block(job, &l->of[i], &g);
        if (l->of[i].pos >= first) job->n_bare = n_bare; /* it was read before */
        if (!rc && !segment_load_returned(job->c, &g, &job->again)) rc = give_up(job, does_not_fit);
    }
    return rc;
}

/* Each block without scores has them elsewhere. */
static int load_scores(struct load *job, uint32_t first)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < job->scores.n; i++) {
        const struct block *b = &job->scores.of[i];
        struct segment g;
        if (is_again(&job->scores, i) || (b->pos < first && !has_returned(job, b))) continue;
        rc = read_block(job, b, &g);
        if (!rc) segment_load_scores(job->c, &g);
    }
    return rc || job->n_scored == job->n_bare ? rc : give_up(job, is_incomplete);
}

static const struct segment *base_of(const struct load *job, int layer)
{
    return job->layers[layer].base.id ? &job->layers[layer].base_units : NULL;
}

static int load_bases(struct load *job)
{
    struct cache *c = job->c;
    bool ok = true;
    for (int i = 0; ok && i < c->shape.n_layer; i++)
        ok = segment_expect(c, i, base_of(job, i), &job->evicted, job->end);
    ok = ok && cache_make_room(c);
    for (int i = 0; ok && i < c->shape.n_layer; i++)
        ok = !base_of(job, i) || segment_load_base(c, i, base_of(job, i), &job->evicted, job->end);
    return ok ? 0 : give_up(job, does_not_fit);
}

static int load_states(struct load *job)
{
    struct store_segment row;
    int rc = 0;
    if (!segment_state_needed(job->c)) return 0;
    for (int i = 0; !rc && i < job->c->shape.n_layer; i++) {
        const struct store_blob *b = &job->layers[i].state;
        if (!b->id) return give_up(job, does_not_fit);
        rc = save_get_entry(job->s, b, &row, job->e);
        if (!rc && !segment_state_read(job->c, i, row.bytes, row.n_bytes, job->end))
            rc = give_up(job, does_not_fit);
    }
    job->c->recurrent.changed = true;
    return rc;
}

static int load_units(struct load *job)
{
    const struct block *last = job->units.n ? &job->units.of[job->units.n - 1] : NULL;
    if (!last) return give_up(job, "none was saved");
    if ((int64_t)last->pos + last->n < job->end) return give_up(job, is_incomplete);
    int rc = read_lists(job);
    uint32_t first = UINT32_MAX;
    for (int i = 0; i < job->c->shape.n_layer; i++)
        if (job->from[i] < first) first = job->from[i];
    if (!rc) rc = load_bases(job);
    if (!rc) rc = load_blocks(job, first);
    if (!rc) rc = load_returned(job, first);
    if (!rc) rc = load_scores(job, first);
    if (!rc) rc = load_states(job);
    store_blob_done(job->s->store);
    return rc;
}

/* ---- the tail -------------------------------------------------------------------------------- */

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

static bool room_for_one(struct cache *c)
{
    for (int i = 0; i < c->shape.n_layer * c->shape.n_head; i++) c->kv_heads[i].coming = 1;
    return cache_make_room(c);
}

/* Appends a block of one position, n_pos. */
static bool take_newest(struct cache *c, const struct store_tail *t, const uint32_t *from,
                        const struct positions *none)
{
    struct segment g;
    return segment_open(&g, t->units, t->n_units) &&
           segment_fits(&g, c, c->shape.n_layer * c->shape.n_head) &&
           g.header.form == SEGMENT_BARE && g.header.n == 1 && g.header.pos == c->n_pos &&
           room_for_one(c) && segment_load_block(c, &g, from, none, UINT32_MAX);
}

/* Reads units of position n_pos, as save_answer_token wrote them. */
static int take_tail(void *ctx, const struct store_tail *t)
{
    struct load *job = ctx;
    struct cache *c = job->c;
    const size_t windows = save_windows_tail_bytes(c);
    const size_t step = recurrent_state_step_bytes(&c->recurrent);
    const uint8_t *rest = t->n_rest ? t->rest : (const uint8_t *)"";
    if (!t->n_units || t->position - 1 != c->n_pos) return 0; /* already in the log */
    if (t->n_rest < windows + step || !take_newest(c, t, job->from, &job->again)) return 1;
    if (!save_windows_take_tail(c, rest) ||
        !take_scores(c, rest + windows, t->n_rest - windows - step))
        return 1;
    if (step) {
        memcpy(c->recurrent.step, rest + (t->n_rest - step), step);
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

/* Whether later checkpoints have later positions, up to n_run. */
static bool points_rise(const struct save *s, int64_t n_run)
{
    int64_t at = 0;
    for (size_t i = 0; i < s->n_points; at = s->points[i++].n_run)
        if (s->points[i].n_run < at) return false;
    return at <= n_run;
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
    if (!points_rise(s, n_run)) return give_up(job, is_out_of_order);
    job->last_seq =
        c->recurrent.shape.n_layer && s->n_points ? s->points[s->n_points - 1].seq : INT64_MAX;
    rc = store_blob_each(s->store, s->conversation, -1, take_blob, job, job->e);
    if (!rc) rc = load_units(job);
    if (rc) return rc;
    if (saved->n_units >= 0 && cache_units(c) != saved->n_units) return give_up(job, is_incomplete);
    bool complete;
    rc = save_windows_load(s, c, n_run, &complete, job->e);
    if (rc || !complete) return rc ? rc : give_up(job, is_incomplete);
    s->saved_pos = c->n_pos = s->state_pos = n_run;
    if (job->left_out) {
        rc = store_segment_delete(s->store, s->conversation, -1, job->last_seq + 1, INT64_MAX,
                                  job->e);
        if (rc) return rc;
    }
    save_know(s, c);
    positions_clear(&job->again);
    rc = store_tail_each(s->store, s->conversation, take_tail, job, job->e);
    if (rc > 0) job->reason = does_not_fit;
    if (!rc) drop_unscored(job, now);
    s->tail_end = c->n_pos;
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
    if (strcmp(saved->policy, now->policy)) return other_policy;
    if (p && p->scorer == POLICY_CIS && strcmp(saved->heads, now->heads))
        return "it was scored by other retaining heads";
    return NULL;
}

static int load_init(struct load *job)
{
    const int n_layer = job->c->shape.n_layer, n_heads = n_layer * job->c->shape.n_head;
    int rc = save_make_known(job->s, job->c, job->e);
    job->layers = memory_new((size_t)n_layer, sizeof *job->layers);
    job->from = memory_new((size_t)n_layer, sizeof *job->from);
    positions_init(&job->evicted, n_heads);
    positions_init(&job->returned, n_heads);
    positions_init(&job->again, n_heads);
    positions_init(&job->pieces, 1);
    return rc;
}

static void load_release(struct load *job)
{
    for (int i = 0; i < job->c->shape.n_layer; i++) str_release(&job->layers[i].base_bytes);
    positions_release(&job->evicted);
    positions_release(&job->returned);
    positions_release(&job->again);
    positions_release(&job->pieces);
    free(job->layers);
    free(job->from);
    free(job->units.of);
    free(job->scores.of);
    free(job->lists);
    memory_return_free();
}

int save_load(struct save *s, struct cache *c, const struct save_state *now,
              struct save_loaded *out, struct err *e)
{
    struct save_state saved;
    struct load job = {.s = s, .c = c, .e = e};
    bool found;
    *out = (struct save_loaded){0};
    int rc = save_state_of(s->store, s->conversation, &saved, &found, e);
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
        out->other_policy = job.reason == other_policy && policy_named(saved.policy);
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
