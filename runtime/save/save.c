#include "runtime/save/save_parts.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/memory.h"
#include "runtime/save/save_windows.h"

static struct save *new_save(struct store *store, int64_t conversation)
{
    struct save *s = memory_new(1, sizeof *s);
    s->store = store;
    s->conversation = conversation;
    return s;
}

int save_open(struct save **out, struct store *store, int64_t conversation, int64_t rewind_bytes,
              struct err *e)
{
    *out = NULL;
    int rc = store_lock(store, conversation, e);
    if (rc) return rc;
    *out = new_save(store, conversation);
    (*out)->rewind_bytes = rewind_bytes;
    return 0;
}

struct store *save_store(const struct save *s)
{
    return s->store;
}

void save_close(struct save *s)
{
    if (!s) return;
    store_unlock(s->store, s->conversation);
    positions_release(&s->evicted);
    positions_release(&s->returned);
    free(s->points);
    free(s->known);
    free(s->n_known);
    for (int i = 0; s->bases && i < s->n_layer; i++) free(s->bases[i].of);
    free(s->bases);
    free(s->bytes);
    tokens_release(&s->crash_ids);
    free(s);
}

static int out_of_memory(struct err *e)
{
    return err_set(e, ERR_FAIL, "out of memory while saving; nothing already saved was lost");
}

int save_reserve(struct save *s, size_t n, struct err *e)
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

/* ---- contents of the log --------------------------------------------------------------------- */

int save_get_entry(struct save *s, const struct store_blob *b, struct store_segment *out,
                   struct err *e)
{
    int rc = save_reserve(s, b->segment.n_bytes, e);
    if (!rc) rc = store_blob_read(s->store, s->conversation, b, s->bytes, e);
    if (rc || store_blob_open(s->store, b, s->bytes, out)) return rc;
    return store_segment_damaged(s->store, s->conversation, &b->segment, e);
}

/* Encryption adds fewer bytes than a position has, and a block without scores has one position. */
int save_block_positions(const struct cache_shape *s, const struct store_segment *g)
{
    const size_t head = sizeof(struct segment_header), all = g->n_bytes;
    const size_t n = all > head ? (all - head) / archive_position_bytes(s) : 0;
    return n < 1 ? 1 : n > ARCHIVE_PIECE ? ARCHIVE_PIECE : (int)n;
}

int save_make_known(struct save *s, const struct cache *c, struct err *e)
{
    size_t n = (size_t)n_heads(c);
    if (s->known) return 0;
    s->known = calloc(n * (size_t)cache_head_max(&c->shape), sizeof *s->known);
    if (!s->known) return out_of_memory(e);
    s->n_layer = c->shape.n_layer;
    s->n_known = memory_new(n, sizeof *s->n_known);
    s->bases = memory_new((size_t)s->n_layer, sizeof *s->bases);
    positions_init(&s->evicted, (int)n);
    positions_init(&s->returned, (int)n);
    return 0;
}

static uint32_t *known_of(const struct save *s, const struct cache *c, int head)
{
    return s->known + (size_t)head * (size_t)cache_head_max(&c->shape);
}

/* Which of two slots has the earlier position: one of those set aside, from -h->aside on, or one of
 * the others. */
static int *earlier(const struct cache_head *h, int *aside, int *slot)
{
    return *aside < 0 && (*slot == h->len || h->pos[*aside] < h->pos[*slot]) ? aside : slot;
}

void save_know(struct save *s, const struct cache *c)
{
    for (int i = 0; i < n_heads(c); i++) {
        const struct cache_head *h = &c->kv_heads[i];
        uint32_t *known = known_of(s, c, i);
        int n = 0;
        for (int aside = -h->aside, slot = 0;;) {
            int *next = earlier(h, &aside, &slot);
            if (*next == h->len || h->pos[*next] >= s->saved_pos) break;
            known[n++] = h->pos[(*next)++];
        }
        s->n_known[i] = n;
    }
    s->n_evictions = c->n_evictions;
    s->n_returns = c->n_returns;
}

void save_know_nothing(struct save *s, const struct cache *c)
{
    s->n_points = 0;
    s->saved_pos = s->tail_end = 0;
    s->state_seq = s->state_pos = 0;
    if (!s->known) return;
    memset(s->n_known, 0, (size_t)n_heads(c) * sizeof *s->n_known);
    for (int i = 0; i < s->n_layer; i++) s->bases[i].n = 0;
}

/* Finds the positions that the cache has lost, into s->evicted, and those that returned, into
 * s->returned. */
static void find_changes(struct save *s, const struct cache *c)
{
    positions_clear(&s->evicted);
    positions_clear(&s->returned);
    for (int i = 0; i < n_heads(c); i++) {
        const struct cache_head *h = &c->kv_heads[i];
        const int n_known = s->n_known[i];
        const uint32_t *known = known_of(s, c, i);
        for (int k = 0, aside = -h->aside, slot = 0;;) {
            int *next = earlier(h, &aside, &slot);
            /* newer ones are not in the log yet */
            bool in = *next < h->len && h->pos[*next] < s->saved_pos;
            if (!in && k == n_known) break;
            if (in && k < n_known && h->pos[*next] == known[k])
                ++*next, k++;
            else if (in && (k == n_known || h->pos[*next] < known[k]))
                positions_push(&s->returned, i, h->pos[(*next)++]);
            else
                positions_push(&s->evicted, i, known[k++]);
        }
    }
}

void save_note_point(struct save *s, const struct save_point *p)
{
    s->points = memory_more(s->points, s->n_points, &s->points_max, sizeof *s->points);
    s->points[s->n_points++] = *p;
}

bool save_point(const struct save *s, int64_t n_tokens, struct save_point *out)
{
    bool found = false;
    for (size_t i = 0; i < s->n_points && !s->broken; i++) {
        const struct save_point *p = &s->points[i];
        if (p->n_run > n_tokens || (found && p->n_run < out->n_run)) continue;
        if (p->seq < s->state_seq) continue; /* its state is not kept */
        *out = *p;
        found = true;
    }
    return found;
}

/* ---- state ----------------------------------------------------------------------------------- */

static void add_turns(cJSON *o, const char *key, const struct save_turns *t)
{
    if (t->n) cJSON_AddItemToObject(o, key, cJSON_CreateIntArray(t->turn, t->n));
}

/* [from, position, number of positions, position, …] */
static void add_aside(cJSON *o, const struct recall_aside *a)
{
    cJSON *list = a->n ? cJSON_AddArrayToObject(o, "aside") : NULL;
    if (list) cJSON_AddItemToArray(list, cJSON_CreateNumber(a->from));
    for (int i = 0; i < a->n; i++) {
        cJSON_AddItemToArray(list, cJSON_CreateNumber(a->windows[i].pos));
        cJSON_AddItemToArray(list, cJSON_CreateNumber(a->windows[i].n));
    }
}

static void add_readings(cJSON *o, const struct save_state *now)
{
    cJSON *list = now->n_readings ? cJSON_AddArrayToObject(o, "readings") : NULL;
    for (int i = 0; i < now->n_readings; i++) {
        cJSON *r = cJSON_CreateObject();
        cJSON_AddStringToObject(r, "model", now->readings[i].model);
        cJSON_AddNumberToObject(r, "conversation", (double)now->readings[i].conversation);
        cJSON_AddItemToArray(list, r);
    }
}

/* n_messages: with encryption nobody else can write a state, so that messages removed from the end
 * are noticed. */
static char *state_text(const struct save_state *now, int64_t n_messages)
{
    char number[32];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "model", now->model);
    cJSON_AddStringToObject(o, "name", now->model_name);
    cJSON_AddStringToObject(o, "heads", now->heads);
    cJSON_AddStringToObject(o, "kv", now->kv);
    cJSON_AddStringToObject(o, "policy", now->policy);
    cJSON_AddStringToObject(o, "template", now->template_name);
    cJSON_AddNumberToObject(o, "budget", now->budget);
    snprintf(number, sizeof number, "%llu", (unsigned long long)now->seed);
    cJSON_AddStringToObject(o, "seed", number); /* a double cannot hold it exactly */
    cJSON_AddNumberToObject(o, "attempt", (double)now->attempt);
    if (now->heads_from) cJSON_AddNumberToObject(o, "heads_from", (double)now->heads_from);
    cJSON_AddNumberToObject(o, "n_run", (double)now->n_run);
    cJSON_AddNumberToObject(o, "n_units", (double)now->n_units);
    cJSON_AddNumberToObject(o, "n_messages", (double)n_messages);
    if (now->system) cJSON_AddStringToObject(o, "system", now->system);
    if (now->kept) cJSON_AddStringToObject(o, "settings", now->kept);
    add_turns(o, "pinned", &now->pinned);
    add_turns(o, "forgotten", &now->forgotten);
    add_aside(o, &now->aside);
    add_readings(o, now);
    char *text = cJSON_PrintUnformatted(o);
    cJSON_Delete(o);
    return text;
}

int save_put_state(struct save *s, int64_t conversation, const struct save_state *now,
                   struct err *e)
{
    int64_t n_messages;
    int rc = store_message_count(s->store, conversation, &n_messages, e);
    if (rc) return rc;
    char *text = state_text(now, n_messages);
    if (!text) return out_of_memory(e);
    rc = store_state_put(s->store, conversation, text, e);
    free(text);
    return rc;
}

static int put_state(struct save *s, const struct cache *c, const struct save_state *now,
                     struct err *e)
{
    struct save_state put = *now;
    put.n_run = s->broken ? 0 : s->saved_pos;
    put.n_units = cache_units(c) - (now->n_run - s->saved_pos) * n_heads(c);
    return save_put_state(s, s->conversation, &put, e);
}

static void get_text(const cJSON *o, const char *key, char *out, size_t n)
{
    const char *v = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
    snprintf(out, n, "%s", v ? v : "");
}

static int64_t int_of(const cJSON *v)
{
    /* a double holds it exactly */
    bool whole = cJSON_IsNumber(v) && fabs(v->valuedouble) < 9e15;
    return whole ? (int64_t)v->valuedouble : 0;
}

static int64_t get_int(const cJSON *o, const char *key)
{
    return int_of(cJSON_GetObjectItemCaseSensitive(o, key));
}

/* Numbers that do not ascend from 1 are left out. */
static void get_turns(const cJSON *o, const char *key, struct save_turns *t)
{
    const cJSON *v;
    int last = 0;
    cJSON_ArrayForEach(v, cJSON_GetObjectItemCaseSensitive(o, key))
    {
        if (!cJSON_IsNumber(v) || v->valueint <= last || t->n == SAVE_TURNS_MAX) continue;
        t->turn[t->n++] = last = v->valueint;
    }
}

static void get_aside(const cJSON *o, struct recall_aside *a)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(o, "aside");
    a->from = (uint32_t)int_of(cJSON_GetArrayItem(list, 0));
    for (int i = 1; i + 1 < cJSON_GetArraySize(list) && a->n < RECALL_MAX; i += 2) {
        struct recall_window *w = &a->windows[a->n++];
        const int64_t n = int_of(cJSON_GetArrayItem(list, i + 1));
        w->pos = (uint32_t)int_of(cJSON_GetArrayItem(list, i));
        w->n = n > 0 && n <= RECALL_SPAN ? (int)n : 0;
    }
}

static void get_readings(const cJSON *o, struct save_state *out)
{
    const cJSON *v;
    cJSON_ArrayForEach(v, cJSON_GetObjectItemCaseSensitive(o, "readings"))
    {
        if (out->n_readings == SAVE_READINGS_MAX) break;
        struct save_reading *r = &out->readings[out->n_readings++];
        get_text(v, "model", r->model, sizeof r->model);
        r->conversation = get_int(v, "conversation");
    }
}

static char *copy_text(const cJSON *o, const char *key)
{
    const char *v = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
    return v ? strdup(v) : NULL;
}

int save_state_of(struct store *store, int64_t conversation, struct save_state *out, bool *found,
                  struct err *e)
{
    char *text, seed[32];
    *out = (struct save_state){0};
    *found = false;
    int64_t n_messages;
    int rc = store_message_count(store, conversation, &n_messages, e);
    if (!rc) rc = store_state_get(store, conversation, &text, e);
    if (rc) return rc;
    cJSON *o = *text ? cJSON_Parse(text) : NULL;
    free(text);
    if (!o) return 0;
    get_text(o, "model", out->model, sizeof out->model);
    get_text(o, "name", out->model_name, sizeof out->model_name);
    get_text(o, "heads", out->heads, sizeof out->heads);
    get_text(o, "kv", out->kv, sizeof out->kv);
    get_text(o, "policy", out->policy, sizeof out->policy);
    get_text(o, "template", out->template_name, sizeof out->template_name);
    get_text(o, "seed", seed, sizeof seed);
    out->seed = strtoull(seed, NULL, 10);
    out->budget = (int)get_int(o, "budget");
    out->attempt = (uint64_t)get_int(o, "attempt");
    out->heads_from = get_int(o, "heads_from");
    out->n_run = get_int(o, "n_run");
    out->n_lost = get_int(o, "n_messages") - n_messages;
    if (out->n_lost < 0) out->n_lost = 0; /* it was saved before the last message */
    out->n_units = cJSON_HasObjectItem(o, "n_units") ? get_int(o, "n_units") : -1;
    out->system = copy_text(o, "system");
    out->kept = copy_text(o, "settings");
    get_turns(o, "pinned", &out->pinned);
    get_turns(o, "forgotten", &out->forgotten);
    get_aside(o, &out->aside);
    get_readings(o, out);
    cJSON_Delete(o);
    *found = true;
    return 0;
}

bool save_turns_hold(const struct save_turns *t, int64_t turn)
{
    for (int i = 0; i < t->n; i++)
        if (t->turn[i] == turn) return true;
    return false;
}

void save_state_release(struct save_state *s)
{
    free(s->system);
    free(s->kept);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Ends a transaction: commits, or rolls back when rc is an error. */
static int end(struct save *s, int rc, struct err *e)
{
    if (!rc) rc = store_commit(s->store, e);
    if (rc) {
        store_rollback(s->store);
        s->broken = true;
    }
    return rc;
}

/* m->seq is set, as in a message that the caller keeps. */
static int put_message(struct save *s, const struct store_message *given, struct err *e)
{
    struct store_message m = *given;
    return store_message_add(s->store, s->conversation, &m, e);
}

int save_message(struct save *s, const struct store_message *m, struct err *e)
{
    int rc = store_begin(s->store, e);
    if (!rc) rc = put_message(s, m, e);
    return end(s, rc, e);
}

int save_put_entry(struct save *s, int layer, enum store_kind kind, const void *bytes, size_t n,
                   struct err *e)
{
    const struct store_segment row = {
        .seq = s->next_seq, .layer = layer, .kind = kind, .bytes = bytes, .n_bytes = n};
    return store_segment_put(s->store, s->conversation, &row, e);
}

/* Writes positions [saved_pos, n_pos): those in the tail only need their scores. */
static int put_blocks(struct save *s, const struct cache *c, struct err *e)
{
    int rc = 0, n;
    for (int64_t pos = s->saved_pos; !rc && pos < c->n_pos; pos += n) {
        const bool in_tail = pos < s->tail_end;
        const int64_t end = in_tail ? s->tail_end : c->n_pos;
        const enum segment_form form = in_tail ? SEGMENT_SCORES : SEGMENT_DENSE;
        n = ARCHIVE_PIECE - (int)(pos % ARCHIVE_PIECE);
        if (n > end - pos) n = (int)(end - pos);
        const size_t bytes = segment_bytes(c, form, n_heads(c), n);
        rc = save_reserve(s, bytes, e);
        if (rc) return rc;
        segment_pack(c, form, 0, n_heads(c), pos, n, s->bytes);
        rc = save_put_entry(s, (int)pos, in_tail ? STORE_SCORES : STORE_UNITS, s->bytes, bytes, e);
    }
    if (rc || s->tail_end <= s->saved_pos) return rc;
    return store_tail_keep(s->store, s->conversation, s->saved_pos, s->tail_end, s->next_seq, e);
}

/* Writes positions [saved_pos, n_pos) to the log. */
static int put_units(struct save *s, const struct cache *c, struct err *e)
{
    int n = (int)(c->n_pos - s->saved_pos);
    assert(c->n_unscored == 0);
    s->n_unscored = 0;
    if (s->broken) return store_cache_drop(s->store, s->conversation, e);
    if (n <= 0) return 0;
    int rc = cache_fetch(c, n, e);
    if (!rc) rc = put_blocks(s, c, e);
    if (!rc) rc = save_windows_put(s, c, n, e);
    /* The new units are known from now on, so that they can be evicted in the same save. */
    for (int i = 0; i < n_heads(c); i++) {
        const struct cache_head *h = &c->kv_heads[i];
        memcpy(known_of(s, c, i) + s->n_known[i], h->pos + (h->len - n),
               (size_t)n * sizeof *h->pos);
        s->n_known[i] += n;
    }
    s->saved_pos = s->tail_end = c->n_pos;
    s->next_seq++;
    return rc;
}

static int put_list(struct save *s, enum store_kind kind, const struct positions *list,
                    struct err *e)
{
    struct str bytes = {0};
    if (positions_count(list) == 0) return 0;
    positions_write(list, &bytes);
    int rc = save_put_entry(s, 0, kind, bytes.data, bytes.n, e);
    str_release(&bytes);
    return rc;
}

/* The archive may drop the blocks of units that returned: the log refers to them again. */
static int return_blocks(struct save *s, struct err *e)
{
    struct positions pieces;
    int rc = 0;
    positions_init(&pieces, 1);
    for (int i = 0; i < s->returned.n_head; i++) {
        const struct positions_head *h = &s->returned.heads[i];
        for (size_t j = 0; j < h->n; j++) positions_push(&pieces, 0, h->pos[j] / ARCHIVE_PIECE);
    }
    positions_sort(&pieces);
    for (size_t i = 0; !rc && i < pieces.heads[0].n; i++) {
        const uint32_t piece = pieces.heads[0].pos[i];
        if (i > 0 && piece == pieces.heads[0].pos[i - 1]) continue;
        rc = store_piece_return(s->store, s->conversation, piece * ARCHIVE_PIECE, ARCHIVE_PIECE,
                                s->next_seq, e);
    }
    positions_release(&pieces);
    return rc;
}

/* Writes all positions evicted or returned since the last save. */
static int put_changes(struct save *s, const struct cache *c, struct err *e)
{
    if (s->broken || (c->n_evictions == s->n_evictions && c->n_returns == s->n_returns)) return 0;
    find_changes(s, c);
    int rc = put_list(s, STORE_EVICTED, &s->evicted, e);
    if (!rc) rc = put_list(s, STORE_RETURNED, &s->returned, e);
    if (!rc) rc = return_blocks(s, e);
    if (rc) return rc;
    save_know(s, c);
    s->next_seq++;
    return 0;
}

/* Writes the recurrent state for the checkpoint that follows. */
static int put_recurrent(struct save *s, const struct cache *c, struct err *e)
{
    struct str bytes = {0};
    int rc = 0;
    if (s->broken || !segment_state_needed(c)) return 0;
    s->state_bytes = 0;
    rc = cache_fetch_state(c, e);
    for (int i = 0; !rc && i < c->shape.n_layer; i++) {
        str_clear(&bytes);
        segment_state_write(c, i, &bytes);
        rc = save_put_entry(s, i, STORE_STATE, bytes.data, bytes.n, e);
        s->state_bytes += (int64_t)bytes.n;
    }
    str_release(&bytes);
    if (s->state_seq == 0) s->state_seq = s->next_seq;
    s->state_pos = c->n_pos;
    s->next_seq++;
    return rc;
}

/* Writes new units, then evicted ones; `after` evicts in between. Each entry has a separate
 * number. */
static int put_log(struct save *s, const struct cache *c, void (*after)(void *ctx), void *ctx,
                   struct err *e)
{
    int rc = s->broken ? 0 : save_make_known(s, c, e);
    /* Evictions before the newest units were added must be found while only the older units are
     * known. */
    if (!rc) rc = put_changes(s, c, e);
    if (!rc) rc = put_units(s, c, e);
    if (!rc && s->keep && !s->broken) rc = s->keep(s->keep_ctx, e);
    if (after) after(ctx);
    return rc ? rc : put_changes(s, c, e);
}

/* The log and the state, complete for a checkpoint. */
static int put_all(struct save *s, const struct cache *c, void (*after)(void *ctx), void *ctx,
                   struct err *e)
{
    const int64_t written = (c->n_pos - s->saved_pos) * (int64_t)archive_position_bytes(&c->shape);
    int rc = put_log(s, c, after, ctx, e);
    if (!rc && !s->broken) rc = save_put_bases(s, c, written, e);
    return rc ? rc : put_recurrent(s, c, e);
}

static int put_point(struct save *s, const struct cache *c, struct err *e)
{
    struct save_point p = {s->next_seq, c->n_pos};
    struct store_checkpoint row = {p.seq, p.n_run};
    if (s->broken) return 0;
    s->next_seq++;
    int rc = store_checkpoint_put(s->store, s->conversation, &row, e);
    if (!rc) save_note_point(s, &p);
    return rc;
}

/* Writes the newest unit of every head to the tail: a block without scores, which becomes a part of
 * the log. The rest of the row serves a crash: the newest units of windows; then, head by head, the
 * scores of this unit and of those written before they had theirs, unless it has none yet, either
 * (units that a crash left without scores have 0, save_load.c); last the inputs of the token's
 * recurrent steps. */
static int put_tail_units(struct save *s, const struct cache *c, struct store_tail *row,
                          struct err *e)
{
    const size_t units = segment_bytes(c, SEGMENT_BARE, n_heads(c), 1);
    const size_t late = c->n_unscored ? 0 : (size_t)s->n_unscored + 1;
    const size_t late_bytes = late * sizeof(float), windows = save_windows_tail_bytes(c);
    const size_t step_bytes = recurrent_state_step_bytes(&c->recurrent);
    const size_t rest = windows + (size_t)n_heads(c) * late_bytes + step_bytes;
    int rc = save_reserve(s, units + rest, e);
    if (!rc) rc = cache_fetch(c, 1, e);
    if (rc) return rc;
    uint8_t *out = s->bytes + units;
    segment_pack(c, SEGMENT_BARE, 0, n_heads(c), c->n_pos - 1, 1, s->bytes);
    save_windows_put_tail(c, out);
    out += windows;
    for (int i = 0; late && i < n_heads(c); i++, out += late_bytes)
        memcpy(out, c->kv_heads[i].score + (c->kv_heads[i].len - (int)late), late_bytes);
    if (step_bytes) memcpy(out, c->recurrent.step, step_bytes);
    s->n_unscored = c->n_unscored ? s->n_unscored + 1 : 0;
    assert(s->tail_end == c->n_pos - 1);
    s->tail_end = c->n_pos;
    row->units = s->bytes;
    row->n_units = units;
    row->rest = s->bytes + units;
    row->n_rest = rest;
    return 0;
}

static int put_token(struct save *s, const struct cache *c, const struct save_token *t,
                     struct err *e)
{
    struct store_tail row = {
        .position = t->position, .token = t->id, .text = t->bytes, .n_text = t->n};
    int rc = 0;
    if (c->n_pos > s->saved_pos && !s->broken) rc = put_tail_units(s, c, &row, e);
    return rc ? rc : store_tail_add(s->store, s->conversation, &row, e);
}

int save_units(struct save *s, const struct cache *c, const struct save_state *now,
               const struct save_token *first, struct err *e)
{
    int rc = store_begin(s->store, e);
    if (!rc) rc = put_all(s, c, NULL, NULL, e);
    if (!rc) rc = put_point(s, c, e);
    if (!rc) rc = save_forget_points(s, c, e);
    if (!rc) rc = put_state(s, c, now, e);
    if (!rc && first) rc = put_token(s, c, first, e);
    return end(s, rc, e);
}

/* Whether enough tokens were run for writing the recurrent state. */
static bool state_due(const struct save *s, const struct cache *c)
{
    size_t bytes = c->recurrent.shape.n_layer ? recurrent_state_bytes(&c->recurrent) : 0;
    return (int64_t)bytes <= SAVE_STATE_BYTES * (c->n_pos - s->state_pos);
}

int save_chunk(struct save *s, const struct cache *c, const struct save_state *now, struct err *e)
{
    if (state_due(s, c)) return save_units(s, c, now, NULL, e);
    int rc = store_begin(s->store, e);
    if (!rc) rc = put_log(s, c, NULL, NULL, e);
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
                const struct store_message *m, void (*after)(void *ctx), void *ctx, struct err *e)
{
    int rc = store_begin(s->store, e);
    if (!rc) rc = put_message(s, m, e);
    if (!rc)
        rc = put_all(s, c, after, ctx, e);
    else if (after)
        after(ctx);
    if (!rc) rc = store_tail_clear(s->store, s->conversation, e);
    if (!rc) rc = put_point(s, c, e);
    if (!rc) rc = put_state(s, c, now, e);
    return end(s, rc, e);
}

int save_rewind(struct save *s, const struct save_state *now, const struct save_point *point,
                int64_t n_messages, const struct store_message *then, struct err *e)
{
    struct save_state state = *now;
    state.n_run = point ? point->n_run : 0;
    state.n_units = -1;
    int rc = store_begin(s->store, e);
    if (!rc) rc = store_rewind(s->store, s->conversation, n_messages, point ? point->seq : -1, e);
    if (!rc && then) rc = put_message(s, then, e);
    if (!rc) rc = save_put_state(s, s->conversation, &state, e);
    if (!rc) rc = store_commit(s->store, e);
    store_rollback(s->store);
    return rc;
}

int save_branch(struct save *s, const char *name, const struct save_point *point,
                int64_t n_messages, struct store_conversation *out, struct err *e)
{
    struct save_state state;
    bool found;
    int rc = save_state_of(s->store, s->conversation, &state, &found, e);
    if (rc) return rc;
    state.n_run = point ? point->n_run : 0;
    state.n_units = -1;
    state.aside.n = 0;
    state.n_readings = 0; /* they belong to this one */
    rc = store_begin(s->store, e);
    if (!rc)
        rc = store_conversation_copy(s->store, s->conversation, n_messages, point ? point->seq : -1,
                                     s->store, name, out, e);
    if (!rc && found) rc = save_put_state(s, out->id, &state, e);
    if (!rc) rc = store_commit(s->store, e);
    store_rollback(s->store);
    save_state_release(&state);
    return rc;
}

/* ---- after a crash --------------------------------------------------------------------------- */

int save_recover(struct save *s, const struct cache *c, const struct save_state *now,
                 const struct str *text, const struct str *thought, struct err *e)
{
    struct store_message m = {.role = CHAT_ASSISTANT,
                              .text = str_get(text),
                              .n_text = text->n,
                              .tokens = s->crash_ids.ids,
                              .n_tokens = s->crash_ids.n};
    if (s->crash_ids.n == 0) return 0;
    if (thought->n) m.thought = (struct store_thought){.text = thought->data, .n = thought->n};
    int rc = save_answer(s, c, now, &m, NULL, NULL, e);
    tokens_release(&s->crash_ids);
    return rc;
}

/* ---- invariants ------------------------------------------------------------------------------ */

/* The log is not ahead of the cache, checkpoints follow one another, and the units that it knows
 * are in position order. */
void save_check(const struct save *s, const struct cache *c)
{
    if (s->broken) return;
    assert(s->saved_pos >= 0 && s->saved_pos <= c->n_pos);
    for (size_t i = 1; i < s->n_points; i++) {
        assert(s->points[i - 1].seq <= s->points[i].seq);
        assert(s->points[i - 1].n_run <= s->points[i].n_run);
    }
    const int n_heads = c->shape.n_layer * c->shape.n_head, max = cache_head_max(&c->shape);
    for (int i = 0; s->known && i < n_heads; i++) {
        const uint32_t *known = s->known + (size_t)i * (size_t)max;
        assert(s->n_known[i] >= 0 && s->n_known[i] <= max);
        for (int k = 1; k < s->n_known[i]; k++) assert(known[k - 1] < known[k]);
        assert(!s->n_known[i] || known[s->n_known[i] - 1] < s->saved_pos);
    }
}
