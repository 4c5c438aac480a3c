/* transfer: saved conversations as files: text for users and programs, or one database that
 * includes the cache.
 *
 *   JSON       one object per line and conversation, complete: messages with text and token
 *              ids, times, state. text_hex has the bytes of a text that has a NUL or is not UTF-8.
 *   Markdown   of versions before 0.2.0: the same object in a comment; only read
 *   database   a store with that one conversation and its saved cache
 *
 * Exporting an imported conversation gives the same file, byte for byte. Of a damaged conversation
 * JSON contains the intact part: a marked message takes the place of a missing or damaged one. */
#ifndef RETAIN_RUNTIME_SAVE_TRANSFER_H
#define RETAIN_RUNTIME_SAVE_TRANSFER_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct store;
struct store_conversation;
struct store_key;

/* *n_damaged: number of damaged parts; NULL = damage is an error. */
int transfer_json(struct store *s, const struct store_conversation *c, struct str *out,
                  int64_t *n_damaged, struct err *e);
/* Creates `path`, which must not exist. */
int transfer_database(struct store *s, const struct store_conversation *c, const char *path,
                      struct err *e);

/* Imports any of them, "-" = standard input. All conversations of the file or none; each under its
 * own name, or (only one) as `name`. `each` gets their names; may be NULL. key: for an encrypted
 * database; may be NULL. ERR_FORMAT names the wrong line or message. */
int transfer_import(struct store *s, const char *path, const char *name,
                    const struct store_key *key, void (*each)(void *ctx, const char *name),
                    void *ctx, struct err *e);

#endif
