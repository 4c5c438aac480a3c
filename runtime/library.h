/* library: the saved conversations, as the screens see them. A thin door to the store, so that
 * nothing in tui/ needs to know how they are kept. */
#ifndef RETAIN_RUNTIME_LIBRARY_H
#define RETAIN_RUNTIME_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/err.h"
#include "runtime/base/str.h"
#include "runtime/chat.h"

struct library;
struct store;

/* path NULL: nothing is saved (private mode); then every list is empty. */
int library_open(struct library **out, const char *path, struct err *e);

/* For files that are encrypted, or shall be. */
struct library_key {
    /* Writes the passphrase, NUL-terminated, to out[LIBRARY_PASSPHRASE_MAX]; fresh: for a new file,
     * so ask twice. */
    int (*ask)(void *ctx, bool fresh, char *out, struct err *e);
    void *ctx;
    bool encrypt; /* a file without conversations becomes an encrypted one */
};
int library_open_key(struct library **out, const char *path, const struct library_key *k,
                     struct err *e);
bool library_is_encrypted(const struct library *l);

/* Is the file there an encrypted one? *fresh: there is none yet, or nothing is in it. */
bool library_probe(const char *path, bool *fresh);
/* Nothing of this name is there, and nothing keeps it from being made. */
bool library_is_missing(const char *path);
/* LIBRARY_PASSPHRASE_MAX bytes of locked memory, wiped when they are freed. NULL = none left. */
#define LIBRARY_PASSPHRASE_MAX 1024
char *library_secret_new(void);
void library_secret_free(char *secret);

void library_close(struct library *l);
struct store *library_store(struct library *l); /* NULL in private mode; for session and engine */

/* ---- list ------------------------------------------------------------------------------------ */

struct library_entry {
    char name[128];
    char title[128];
    int64_t updated_ms;
    int64_t n_turns, n_tokens, cache_bytes;
    char tags[128]; /* "#trip #work"; as many as fit */
};

/* Newest first; a non-zero return of the callback ends the walk and is returned. */
int library_list(struct library *l, int (*each)(void *ctx, const struct library_entry *c),
                 void *ctx, struct err *e);
/* Those with a tag; NULL: all. */
int library_list_tagged(struct library *l, const char *tag,
                        int (*each)(void *ctx, const struct library_entry *c), void *ctx,
                        struct err *e);
/* A tag is one word, without comma and #. ERR_FAIL when a tag that shall go is not on. */
int library_tag(struct library *l, const char *name, const char *tag, struct err *e);
int library_untag(struct library *l, const char *name, const char *tag, struct err *e);
/* "work #trip -old" puts two on and takes one off. */
int library_retag(struct library *l, const char *name, const char *words, struct err *e);

/* ---- one conversation ------------------------------------------------------------------------ */

struct library_message {
    enum chat_role role;
    const char *text; /* NUL-terminated */
    size_t n_text;
    int64_t position; /* of its first token in the conversation */
    int64_t n_tokens;
    int partial;          /* 1: the answer was interrupted and not closed */
    const char *settings; /* what an answer was drawn with, as options; NULL = not known */
};

/* ERR_FAIL with the names that come nearest when there is no conversation `name`. */
int library_messages(struct library *l, const char *name,
                     int (*each)(void *ctx, const struct library_message *m), void *ctx,
                     struct err *e);
int library_rename(struct library *l, const char *name, const char *new_name, struct err *e);
/* Out of sight until it is restored; gone for good after LIBRARY_UNDO_DAYS, or when compacted. */
#define LIBRARY_UNDO_DAYS 30
int library_delete(struct library *l, const char *name, struct err *e);
/* new_name NULL: its own, which must be free. */
int library_restore(struct library *l, const char *name, const char *new_name, struct err *e);
/* Drops the saved cache, keeps the text: it is read again when the conversation goes on. */
int library_drop_cache(struct library *l, const char *name, struct err *e);

/* ---- search ---------------------------------------------------------------------------------- */

struct library_hit {
    const char *name, *title; /* of the conversation */
    int64_t message;          /* 0, 1, 2, …; -1 = its name was found */
    enum chat_role role;
    int64_t created_ms;
    const char *snippet; /* NUL-terminated; what was found stands between "\2" and "\3" */
};

/* Messages and names that hold all words of `text`, newest conversation first. */
int library_search(struct library *l, const char *text,
                   int (*each)(void *ctx, const struct library_hit *h), void *ctx, struct err *e);

/* ---- files (exchange.h) ---------------------------------------------------------------------- */

/* *n_damaged: how many parts of it are damaged and told of in their place; NULL = fails then. */
int library_export(struct library *l, const char *name, bool markdown, struct str *out,
                   int64_t *n_damaged, struct err *e);
/* One file with the saved cache in it. It must not exist yet. */
int library_export_cache(struct library *l, const char *name, const char *path, struct err *e);
/* Any file that was exported; new_name NULL: its own. `each` is told the names, may be NULL. */
int library_import(struct library *l, const char *path, const char *new_name,
                   void (*each)(void *ctx, const char *name), void *ctx, struct err *e);

/* ---- care ------------------------------------------------------------------------------------ */

/* Every checksum of every row; ERR_FORMAT names the first that is wrong. */
int library_check(struct library *l, struct err *e);

struct library_size {
    int64_t bytes_before, bytes_after; /* of the file */
    int64_t n_purged;                  /* conversations that were deleted before */
};
/* As small as its contents; what was deleted goes for good. */
int library_compact(struct library *l, struct library_size *out, struct err *e);

/* ---- models ---------------------------------------------------------------------------------- */

/* A model file that was used or added. */
struct library_model {
    const char *path; /* absolute */
    char digest[65];  /* hex, of what it was then */
    int64_t size;
    int64_t packed_bytes; /* of its copy in the folder of packed weights, 0 = none */
    enum { LIBRARY_MODEL_SAME, LIBRARY_MODEL_TOUCHED, LIBRARY_MODEL_MISSING } state;
};

/* By path. `state` is what the file's size and times say; nothing is read. packed: the folder of
 * packed weights (packed.h), NULL = none. */
int library_models(struct library *l, const char *packed,
                   int (*each)(void *ctx, const struct library_model *m), void *ctx, struct err *e);

#endif
