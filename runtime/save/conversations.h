/* conversations: the saved conversations, for the screens and commands. A thin layer over the
 * store, so that nothing above needs to know how they are kept. */
#ifndef RETAIN_RUNTIME_SAVE_CONVERSATIONS_H
#define RETAIN_RUNTIME_SAVE_CONVERSATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "runtime/save/save.h"

struct conversations;
struct model_registry;

/* path NULL: nothing is saved (private mode); then every list is empty. k: for a file that is
 * encrypted or is to be encrypted, or NULL. */
int conversations_open(struct conversations **out, const char *path, const struct store_key *k,
                       struct err *e);
bool conversations_is_encrypted(const struct conversations *l);

/* Whether no file of this name exists and one could be created. */
bool conversations_is_missing(const char *path);

void conversations_close(struct conversations *l);
struct store *conversations_store(struct conversations *l); /* NULL in private mode; for session */
/* For engine_opts; NULL in private mode, and for NULL. */
const struct model_registry *conversations_registry(const struct conversations *l);

/* ---- list ------------------------------------------------------------------------------------ */

struct conversations_entry {
    char name[STORE_NAME_MAX];
    char title[STORE_NAME_MAX];
    int64_t updated_ms;
    int64_t n_turns, n_tokens, cache_bytes;
    char model[96];            /* the name of the one that it was last open with; "" = not known */
    char tags[STORE_NAME_MAX]; /* "#trip #work"; as many as fit */
};

/* Those with this tag, NULL: all. Newest first; a non-zero return of the callback ends the walk and
 * is returned. */
int conversations_list(struct conversations *l, const char *tag,
                       int (*each)(void *ctx, const struct conversations_entry *c), void *ctx,
                       struct err *e);
/* Adds these tags or removes them: all, or none. A tag is one word, without comma and #. ERR_FAIL
 * when a tag to be removed is not there. */
int conversations_tag(struct conversations *l, const char *name, const char *const *tags, int n,
                      bool off, struct err *e);
/* The same: "work #trip -old" adds two tags and removes one. */
int conversations_retag(struct conversations *l, const char *name, const char *words,
                        struct err *e);

/* What a conversation was last open with. */
struct conversations_origin {
    struct store_conversation is;
    struct save_state state;
};
/* name NULL: the latest. 1 = found, the caller releases out->state; 0 = none, or nothing was
 * said. */
int conversations_origin(struct conversations *l, const char *name,
                         struct conversations_origin *out, struct err *e);

/* 1 = there is one of this name; 0 = none; ERR_*. l may be NULL. */
int conversations_has(struct conversations *l, const char *name, struct err *e);
/* Tokens of it that a model, by its digest, would have to read (readings.h). */
int conversations_read_cost(struct conversations *l, const char *name, const char *digest,
                            int64_t *out, struct err *e);

/* ---- one conversation ------------------------------------------------------------------------ */

/* ERR_FAIL, with the most similar name, when there is no conversation `name`. */
int conversations_messages(struct conversations *l, const char *name,
                           int (*each)(void *ctx, const struct store_message *m), void *ctx,
                           struct err *e);
int conversations_rename(struct conversations *l, const char *name, const char *new_name,
                         struct err *e);
/* Hides it until it is restored; it is permanently removed after CONVERSATIONS_UNDO_DAYS, or by
 * compacting. */
#define CONVERSATIONS_UNDO_DAYS 30
int conversations_delete(struct conversations *l, const char *name, struct err *e);
/* new_name NULL: its old name, which must be free. */
int conversations_restore(struct conversations *l, const char *name, const char *new_name,
                          struct err *e);
/* Drops the saved cache, keeps the text: it is replayed when the conversation is continued. */
int conversations_drop_cache(struct conversations *l, const char *name, struct err *e);

/* ---- search ---------------------------------------------------------------------------------- */

/* Messages and names that contain all words of `text`, newest conversation first. */
int conversations_search(struct conversations *l, const char *text,
                         int (*each)(void *ctx, const struct store_hit *h), void *ctx,
                         struct err *e);

/* ---- files (transfer.h) ---------------------------------------------------------------------- */

/* *n_damaged: the number of damaged parts, which are marked in the output; NULL = damage is an
 * error. */
int conversations_export(struct conversations *l, const char *name, struct str *out,
                         int64_t *n_damaged, struct err *e);
/* One file that includes the saved cache. It must not exist yet. */
int conversations_export_cache(struct conversations *l, const char *name, const char *path,
                               struct err *e);
/* Any exported file; new_name NULL: the name in the file. `each` gets the names, may be NULL. */
int conversations_import(struct conversations *l, const char *path, const char *new_name,
                         void (*each)(void *ctx, const char *name), void *ctx, struct err *e);

/* ---- care ------------------------------------------------------------------------------------ */

/* Importing and checking report how much of them is done; a callback that returns non-zero ends
 * them (ERR_STOP). */
void conversations_watch(struct conversations *l,
                         int (*progress)(void *ctx, int64_t done, int64_t total), void *ctx);
/* Verifies every checksum of every row and the numbers of messages; ERR_FORMAT names the first
 * wrong one. */
int conversations_check(struct conversations *l, struct err *e);

struct conversations_size {
    int64_t bytes_before, bytes_after; /* size of the file */
    int64_t n_purged;                  /* conversations that had been deleted */
};
/* Shrinks the file to its contents and permanently removes deleted conversations. */
int conversations_compact(struct conversations *l, struct conversations_size *out, struct err *e);

/* ---- models ---------------------------------------------------------------------------------- */

enum model_state {
    MODEL_NEW,     /* pulled, not used yet (cli/control/model_list.h) */
    MODEL_SAME,    /* as it was when it was registered */
    MODEL_TOUCHED, /* its size, time or inode changed since */
    MODEL_MISSING,
};

/* A model file that was used or added. */
struct conversations_model {
    const char *path; /* absolute */
    char digest[65];  /* hex digest at that time */
    int64_t size;
    int64_t packed_bytes; /* of its copy in the folder of weight caches, 0 = none */
    enum model_state state;
};

/* By path. `state` is derived from the file's size and times; the file is not read. packed: the
 * folder of weight caches (weight_cache.h), NULL = none. */
int conversations_models(struct conversations *l, const char *packed,
                         int (*each)(void *ctx, const struct conversations_model *m), void *ctx,
                         struct err *e);
/* Forgets the file, which is registered again when it is used. */
int conversations_forget_model(struct conversations *l, const char *path, struct err *e);

#endif
