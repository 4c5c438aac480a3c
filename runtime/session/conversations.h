/* library: the saved conversations, as the screens see them. A thin door to the store, so that
 * nothing in tui/ needs to know how they are kept. */
#ifndef RETAIN_RUNTIME_SESSION_CONVERSATIONS_H
#define RETAIN_RUNTIME_SESSION_CONVERSATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "runtime/token/chat_template.h"

struct conversations;
struct store;

/* path NULL: nothing is saved (private mode); then every list is empty. */
int conversations_open(struct conversations **out, const char *path, struct err *e);

/* For files that are encrypted, or shall be. */
struct conversations_key {
    /* Writes the passphrase, NUL-terminated, to out[CONVERSATIONS_PASSPHRASE_MAX]; fresh: for a new
     * file, so ask twice. */
    int (*ask)(void *ctx, bool fresh, char *out, struct err *e);
    void *ctx;
    bool encrypt; /* a file without conversations becomes an encrypted one */
};
int conversations_open_key(struct conversations **out, const char *path,
                           const struct conversations_key *k, struct err *e);
bool conversations_is_encrypted(const struct conversations *l);

/* Is the file there an encrypted one? *fresh: there is none yet, or nothing is in it. */
bool conversations_probe(const char *path, bool *fresh);
/* Nothing of this name is there, and nothing keeps it from being made. */
bool conversations_is_missing(const char *path);
/* CONVERSATIONS_PASSPHRASE_MAX bytes of locked memory, wiped when they are freed. NULL = none left.
 */
#define CONVERSATIONS_PASSPHRASE_MAX 1024
char *conversations_secret_new(void);
void conversations_secret_free(char *secret);

void conversations_close(struct conversations *l);
struct store *conversations_store(
    struct conversations *l); /* NULL in private mode; for session and engine */

/* ---- list ------------------------------------------------------------------------------------ */

struct conversations_entry {
    char name[128];
    char title[128];
    int64_t updated_ms;
    int64_t n_turns, n_tokens, cache_bytes;
    char tags[128]; /* "#trip #work"; as many as fit */
};

/* Newest first; a non-zero return of the callback ends the walk and is returned. */
int conversations_list(struct conversations *l,
                       int (*each)(void *ctx, const struct conversations_entry *c), void *ctx,
                       struct err *e);
/* Those with a tag; NULL: all. */
int conversations_list_tagged(struct conversations *l, const char *tag,
                              int (*each)(void *ctx, const struct conversations_entry *c),
                              void *ctx, struct err *e);
/* A tag is one word, without comma and #. ERR_FAIL when a tag that shall go is not on. */
int conversations_tag(struct conversations *l, const char *name, const char *tag, struct err *e);
int conversations_untag(struct conversations *l, const char *name, const char *tag, struct err *e);
/* "work #trip -old" puts two on and takes one off. */
int conversations_retag(struct conversations *l, const char *name, const char *words,
                        struct err *e);

/* ---- one conversation ------------------------------------------------------------------------ */

struct conversations_message {
    enum chat_role role;
    const char *text; /* NUL-terminated */
    size_t n_text;
    int64_t position; /* of its first token in the conversation */
    int64_t n_tokens;
    int partial;          /* 1: the answer was interrupted and not closed */
    const char *settings; /* what an answer was drawn with, as options; NULL = not known */
};

/* ERR_FAIL with the names that come nearest when there is no conversation `name`. */
int conversations_messages(struct conversations *l, const char *name,
                           int (*each)(void *ctx, const struct conversations_message *m), void *ctx,
                           struct err *e);
int conversations_rename(struct conversations *l, const char *name, const char *new_name,
                         struct err *e);
/* Out of sight until it is restored; gone for good after CONVERSATIONS_UNDO_DAYS, or when
 * compacted. */
#define CONVERSATIONS_UNDO_DAYS 30
int conversations_delete(struct conversations *l, const char *name, struct err *e);
/* new_name NULL: its own, which must be free. */
int conversations_restore(struct conversations *l, const char *name, const char *new_name,
                          struct err *e);
/* Drops the saved cache, keeps the text: it is read again when the conversation goes on. */
int conversations_drop_cache(struct conversations *l, const char *name, struct err *e);

/* ---- search ---------------------------------------------------------------------------------- */

struct conversations_hit {
    const char *name, *title; /* of the conversation */
    int64_t message;          /* 0, 1, 2, …; -1 = its name was found */
    enum chat_role role;
    int64_t created_ms;
    const char *snippet; /* NUL-terminated; what was found stands between "\2" and "\3" */
};

/* Messages and names that hold all words of `text`, newest conversation first. */
int conversations_search(struct conversations *l, const char *text,
                         int (*each)(void *ctx, const struct conversations_hit *h), void *ctx,
                         struct err *e);

/* ---- files (exchange.h) ---------------------------------------------------------------------- */

/* *n_damaged: how many parts of it are damaged and told of in their place; NULL = fails then. */
int conversations_export(struct conversations *l, const char *name, bool markdown, struct str *out,
                         int64_t *n_damaged, struct err *e);
/* One file with the saved cache in it. It must not exist yet. */
int conversations_export_cache(struct conversations *l, const char *name, const char *path,
                               struct err *e);
/* Any file that was exported; new_name NULL: its own. `each` is told the names, may be NULL. */
int conversations_import(struct conversations *l, const char *path, const char *new_name,
                         void (*each)(void *ctx, const char *name), void *ctx, struct err *e);

/* ---- care ------------------------------------------------------------------------------------ */

/* Every checksum of every row; ERR_FORMAT names the first that is wrong. */
int conversations_check(struct conversations *l, struct err *e);

struct conversations_size {
    int64_t bytes_before, bytes_after; /* of the file */
    int64_t n_purged;                  /* conversations that were deleted before */
};
/* As small as its contents; what was deleted goes for good. */
int conversations_compact(struct conversations *l, struct conversations_size *out, struct err *e);

/* ---- models ---------------------------------------------------------------------------------- */

/* A model file that was used or added. */
struct conversations_model {
    const char *path; /* absolute */
    char digest[65];  /* hex, of what it was then */
    int64_t size;
    int64_t packed_bytes; /* of its copy in the folder of packed weights, 0 = none */
    enum {
        CONVERSATIONS_MODEL_SAME,
        CONVERSATIONS_MODEL_TOUCHED,
        CONVERSATIONS_MODEL_MISSING
    } state;
};

/* By path. `state` is what the file's size and times say; nothing is read. packed: the folder of
 * packed weights (packed.h), NULL = none. */
int conversations_models(struct conversations *l, const char *packed,
                         int (*each)(void *ctx, const struct conversations_model *m), void *ctx,
                         struct err *e);

#endif
