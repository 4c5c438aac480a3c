#include "runtime/save/conversations.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/nearest.h"
#include "base/str.h"
#include "runtime/model/identity.h"
#include "runtime/model/weight_cache.h"
#include "runtime/save/readings.h"
#include "runtime/save/transfer.h"

struct conversations {
    struct store *store; /* NULL in private mode */
    char *path;
    struct store_key key; /* .ask NULL = no passphrase can be asked for */
    struct model_registry registry;
};

/* ---- registry of models ---------------------------------------------------------------------- */

static int registry_find(void *ctx, const char *path, struct file_identity *out, struct err *e)
{
    return store_model_find(ctx, path, out, e);
}

static int registry_put(void *ctx, const struct file_identity *file, struct err *e)
{
    return store_model_put(ctx, file, e);
}

/* ---- opening --------------------------------------------------------------------------------- */

int conversations_open(struct conversations **out, const char *path, const struct store_key *k,
                       struct err *e)
{
    struct conversations *l = *out = memory_new(1, sizeof *l);
    if (k) l->key = *k;
    if (path) l->path = memory_copy(path);
    int rc = path ? store_open(&l->store, path, k ? &l->key : NULL, e) : 0;
    l->registry = (struct model_registry){l->store, registry_find, registry_put};
    if (!rc) return 0;
    conversations_close(l);
    *out = NULL;
    return rc;
}

void conversations_close(struct conversations *l)
{
    if (!l) return;
    store_close(l->store);
    free(l->path);
    free(l);
}

bool conversations_is_encrypted(const struct conversations *l)
{
    return l->store && store_is_encrypted(l->store);
}

bool conversations_is_missing(const char *path)
{
    return *path && access(path, F_OK) && errno == ENOENT;
}

struct store *conversations_store(struct conversations *l)
{
    return l->store;
}

const struct model_registry *conversations_registry(const struct conversations *l)
{
    return l && l->store ? &l->registry : NULL;
}

/* ---- list ------------------------------------------------------------------------------------ */

struct list_walk {
    struct store *store;
    int (*each)(void *ctx, const struct conversations_entry *c);
    void *ctx;
    struct err *e;
};

static int add_tag(void *ctx, const char *tag)
{
    struct conversations_entry *entry = ctx;
    size_t n = strlen(entry->tags);
    if (n + strlen(tag) + 3 > sizeof entry->tags) return 0;
    snprintf(entry->tags + n, sizeof entry->tags - n, "%s#%s", n ? " " : "", tag);
    return 0;
}

static int list_one(void *ctx, const struct store_conversation *c)
{
    const struct list_walk *w = ctx;
    struct conversations_entry entry = {.updated_ms = c->updated_ms,
                                        .n_turns = c->n_turns,
                                        .n_tokens = c->n_tokens,
                                        .cache_bytes = c->cache_bytes};
    memcpy(entry.name, c->name, sizeof entry.name);
    memcpy(entry.title, c->title, sizeof entry.title);
    struct save_state state;
    bool known;
    int rc = c->has_tags ? store_tag_each(w->store, c->id, add_tag, &entry, w->e) : 0;
    save_state_of(w->store, c->id, &state, &known, NULL);
    memcpy(entry.model, state.model_name, sizeof entry.model);
    save_state_release(&state);
    return rc ? rc : w->each(w->ctx, &entry);
}

int conversations_list(struct conversations *l, const char *tag,
                       int (*each)(void *ctx, const struct conversations_entry *c), void *ctx,
                       struct err *e)
{
    struct list_walk w = {l->store, each, ctx, e};
    if (!l->store) return 0;
    return tag ? store_tagged_each(l->store, tag, list_one, &w, e)
               : store_conversation_list(l->store, list_one, &w, e);
}

int conversations_origin(struct conversations *l, const char *name,
                         struct conversations_origin *out, struct err *e)
{
    bool known;
    if (!l->store) return 0;
    int found = name ? store_conversation_find(l->store, name, &out->is, e)
                     : store_conversation_latest(l->store, &out->is, e);
    if (found <= 0) return found;
    int rc = save_state_of(l->store, out->is.id, &out->state, &known, e);
    return rc ? rc : known;
}

int conversations_has(struct conversations *l, const char *name, struct err *e)
{
    struct store_conversation c;
    return l && l->store ? store_conversation_find(l->store, name, &c, e) : 0;
}

int conversations_read_cost(struct conversations *l, const char *name, const char *digest,
                            int64_t *out, struct err *e)
{
    struct store_conversation c;
    *out = 0;
    int found = l->store ? store_conversation_find(l->store, name, &c, e) : 0;
    return found > 0 ? readings_cost(l->store, c.id, digest, out, e) : found;
}

/* ---- by name --------------------------------------------------------------------------------- */

struct near {
    struct nearest to;
    char names[2][STORE_NAME_MAX]; /* of the nearest ones */
};

static int offer(void *ctx, const struct store_conversation *c)
{
    struct near *k = ctx;
    nearest_offer(&k->to, c->name);
    if (k->to.name == c->name) k->to.name = memcpy(k->names[0], c->name, STORE_NAME_MAX);
    if (k->to.other == c->name) k->to.other = memcpy(k->names[1], c->name, STORE_NAME_MAX);
    return 0;
}

static int no_such(struct conversations *l, const char *name, struct err *e)
{
    struct near k = {.to = nearest_to(name, strlen(name))};
    if (l->store) store_conversation_list(l->store, offer, &k, NULL);
    if (k.to.name)
        return err_set(e, ERR_FAIL, "there is no conversation '%.*s'; did you mean '%s'%s%s%s?",
                       STORE_NAME_MAX, name, k.to.name, k.to.other ? " or '" : "",
                       k.to.other ? k.to.other : "", k.to.other ? "'" : "");
    return err_set(e, ERR_FAIL, "there is no conversation '%.*s'; %s", STORE_NAME_MAX, name,
                   l->store ? "`retain list` shows all" : "nothing is saved with --private");
}

static int find(struct conversations *l, const char *name, struct store_conversation *out,
                struct err *e)
{
    int rc = l->store ? store_conversation_find(l->store, name, out, e) : 0;
    if (!rc) return no_such(l, name, e);
    return rc < 0 ? rc : 0;
}

/* As find, and begins a reading: later calls see the same state of the file, until
 * store_end_reading. */
static int find_reading(struct conversations *l, const char *name, struct store_conversation *out,
                        struct err *e)
{
    if (!l->store) return err_set(e, ERR_USAGE, "a private conversation does not keep its turns");
    int rc = store_begin_reading(l->store, e);
    if (rc) return rc;
    rc = find(l, name, out, e);
    if (rc) store_end_reading(l->store);
    return rc;
}

/* ---- messages -------------------------------------------------------------------------------- */

int conversations_messages(struct conversations *l, const char *name,
                           int (*each)(void *ctx, const struct store_message *m), void *ctx,
                           struct err *e)
{
    struct store_conversation c;
    int rc = find_reading(l, name, &c, e);
    if (rc) return rc;
    rc = store_message_each(l->store, c.id, each, ctx, e);
    store_end_reading(l->store);
    return rc;
}

int conversations_rename(struct conversations *l, const char *name, const char *new_name,
                         struct err *e)
{
    struct store_conversation c;
    int rc = find(l, name, &c, e);
    return rc ? rc : store_conversation_rename(l->store, c.id, new_name, e);
}

static int tag_one(struct conversations *l, const struct store_conversation *c, const char *tag,
                   bool off, struct err *e)
{
    int rc = (off ? store_tag_remove : store_tag_add)(l->store, c->id, tag, e);
    if (off && !rc) return err_set(e, ERR_FAIL, "'%s' has no tag #%s", c->name, tag);
    return rc < 0 ? rc : 0;
}

/* Finds a conversation for a change that end_change ends. */
static int begin_change(struct conversations *l, const char *name, struct store_conversation *out,
                        struct err *e)
{
    int rc = find(l, name, out, e);
    return rc ? rc : store_begin(l->store, e);
}

static int end_change(struct conversations *l, int rc, struct err *e)
{
    if (!rc) rc = store_commit(l->store, e);
    if (l->store) store_rollback(l->store);
    return rc;
}

int conversations_tag(struct conversations *l, const char *name, const char *const *tags, int n,
                      bool off, struct err *e)
{
    struct store_conversation c;
    int rc = begin_change(l, name, &c, e);
    for (int i = 0; i < n && !rc; i++) rc = tag_one(l, &c, tags[i], off, e);
    return end_change(l, rc, e);
}

int conversations_retag(struct conversations *l, const char *name, const char *words, struct err *e)
{
    struct store_conversation c;
    int rc = begin_change(l, name, &c, e);
    for (words += strspn(words, " ,"); *words && !rc; words += strspn(words, " ,")) {
        char tag[STORE_TAG_MAX + 1];
        bool off = *words == '-';
        words += off;
        words += *words == '#';
        size_t n = strcspn(words, " ,");
        snprintf(tag, sizeof tag, "%.*s", (int)(n < sizeof tag ? n : sizeof tag - 1), words);
        rc = tag_one(l, &c, tag, off, e);
        words += n;
    }
    return end_change(l, rc, e);
}

static int nothing_saved(struct err *e)
{
    return err_set(e, ERR_FAIL, "nothing is saved with --private");
}

/* ---- deleting -------------------------------------------------------------------------------- */

/* Runs a change of a conversation that no other program has open. */
static int alone(struct conversations *l, const char *name,
                 int (*change)(struct store *s, int64_t id, struct err *e), struct err *e)
{
    struct store_conversation c;
    int rc = find(l, name, &c, e);
    if (rc) return rc;
    bool had = store_holds(l->store, c.id); /* this program has it open */
    rc = had ? 0 : store_lock(l->store, c.id, e);
    if (rc) return rc;
    rc = change(l->store, c.id, e);
    if (!had) store_unlock(l->store, c.id);
    return rc;
}

int conversations_delete(struct conversations *l, const char *name, struct err *e)
{
    int64_t n;
    int rc = alone(l, name, store_conversation_delete, e);
    if (!rc) store_purge(l->store, (int64_t)CONVERSATIONS_UNDO_DAYS * 86400 * 1000, &n, NULL);
    return rc;
}

int conversations_restore(struct conversations *l, const char *name, const char *new_name,
                          struct err *e)
{
    return l->store ? store_conversation_restore(l->store, name, new_name, e) : nothing_saved(e);
}

int conversations_drop_cache(struct conversations *l, const char *name, struct err *e)
{
    return alone(l, name, store_cache_drop, e);
}

/* ---- search ---------------------------------------------------------------------------------- */

int conversations_search(struct conversations *l, const char *text,
                         int (*each)(void *ctx, const struct store_hit *h), void *ctx,
                         struct err *e)
{
    return l->store ? store_search(l->store, text, each, ctx, e) : 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

int conversations_export(struct conversations *l, const char *name, struct str *out,
                         int64_t *n_damaged, struct err *e)
{
    struct store_conversation c;
    int rc = find_reading(l, name, &c, e);
    if (rc) return rc;
    rc = transfer_json(l->store, &c, out, n_damaged, e);
    store_end_reading(l->store);
    return rc;
}

int conversations_export_cache(struct conversations *l, const char *name, const char *path,
                               struct err *e)
{
    struct store_conversation c;
    int rc = find(l, name, &c, e);
    return rc ? rc : transfer_database(l->store, &c, path, e);
}

int conversations_import(struct conversations *l, const char *path, const char *new_name,
                         void (*each)(void *ctx, const char *name), void *ctx, struct err *e)
{
    struct store_key key = l->key;
    key.encrypt = false;
    if (!l->store) return nothing_saved(e);
    return transfer_import(l->store, path, new_name, key.ask ? &key : NULL, each, ctx, e);
}

/* ---- care ------------------------------------------------------------------------------------ */

struct check {
    struct store *store;
    struct err *err;
};

/* Rows that were removed with their counters have no checksum; the state knows their number. */
static int check_count(void *ctx, const struct store_conversation *c)
{
    const struct check *k = ctx;
    struct save_state state;
    bool found;
    int rc = save_state_of(k->store, c->id, &state, &found, k->err);
    save_state_release(&state);
    if (rc || state.n_lost == 0) return rc;
    return err_set(k->err, ERR_FORMAT,
                   "the last %lld messages of conversation '%s' are missing: another program "
                   "removed them from the database",
                   (long long)state.n_lost, c->name);
}

void conversations_watch(struct conversations *l,
                         int (*progress)(void *ctx, int64_t done, int64_t total), void *ctx)
{
    if (l->store) store_watch(l->store, progress, ctx);
}

int conversations_check(struct conversations *l, struct err *e)
{
    struct check k = {l->store, e};
    if (!l->store) return 0;
    int rc = store_check(l->store, e);
    return rc ? rc : store_conversation_list(l->store, check_count, &k, e);
}

/* Of the database and its log, which has what was written last. */
static int64_t file_bytes(const struct conversations *l)
{
    struct stat st;
    struct str log = {0};
    str_printf(&log, "%s-wal", l->path);
    int64_t n = stat(l->path, &st) == 0 ? (int64_t)st.st_size : 0;
    n += stat(str_get(&log), &st) == 0 ? (int64_t)st.st_size : 0;
    str_release(&log);
    return n;
}

int conversations_compact(struct conversations *l, struct conversations_size *out, struct err *e)
{
    *out = (struct conversations_size){0};
    if (!l->store) return 0;
    out->bytes_before = file_bytes(l);
    int rc = store_purge(l->store, 0, &out->n_purged, e);
    if (!rc) rc = store_compact(l->store, e);
    out->bytes_after = file_bytes(l);
    return rc;
}

/* ---- models ---------------------------------------------------------------------------------- */

struct model_walk {
    const char *packed;
    int (*each)(void *ctx, const struct conversations_model *m);
    void *ctx;
};

static int model_one(void *ctx, const struct file_identity *m)
{
    struct model_walk *w = ctx;
    struct conversations_model out = {.path = m->path, .size = m->size, .state = MODEL_SAME};
    struct file_identity now;
    digest_hex(out.digest, m->digest);
    if (file_identity_read(&now, m->path, NULL))
        out.state = MODEL_MISSING;
    else if (!file_identity_same(&now, m))
        out.state = MODEL_TOUCHED;
    struct weight_cache copy;
    if (w->packed && weight_cache_find(&copy, w->packed, m)) out.packed_bytes = (int64_t)copy.bytes;
    return w->each(w->ctx, &out);
}

int conversations_models(struct conversations *l, const char *packed,
                         int (*each)(void *ctx, const struct conversations_model *m), void *ctx,
                         struct err *e)
{
    struct model_walk w = {packed, each, ctx};
    return l->store ? store_model_list(l->store, model_one, &w, e) : 0;
}

int conversations_forget_model(struct conversations *l, const char *path, struct err *e)
{
    return l->store ? store_model_forget(l->store, path, e) : 0;
}
