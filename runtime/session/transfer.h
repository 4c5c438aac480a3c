/* exchange: saved conversations as files that travel: text for people and programs, or one database
 * with the cache in it.
 *
 *   JSON       one object per line and conversation, nothing lost: messages with text and token
 *              ids, times, state. Text that is no UTF-8 has its bytes in text_hex besides.
 *   Markdown   for reading; the same object stands in a comment at its end, and is what is imported
 *   database   a store with that one conversation and its saved cache
 *
 * What was imported and exported again is the same, byte for byte. Of a damaged conversation text
 * formats take what is left: a message says so where one is missing or not what was written. */
#ifndef RETAIN_RUNTIME_SESSION_TRANSFER_H
#define RETAIN_RUNTIME_SESSION_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct store;
struct store_conversation;
struct store_key;

/* *n_damaged: how many of its parts; NULL = fails then. */
int transfer_json(struct store *s, const struct store_conversation *c, struct str *out,
                  int64_t *n_damaged, struct err *e);
int transfer_markdown(struct store *s, const struct store_conversation *c, struct str *out,
                      int64_t *n_damaged, struct err *e);
/* Makes `path`, which must not exist. */
int transfer_database(struct store *s, const struct store_conversation *c, const char *path,
                      struct err *e);

/* Reads any of them, "-" = standard input. All conversations of the file or none; each under its
 * own name, or (only one) as `name`. `each` is told their names; may be NULL. key: for a database
 * that is encrypted; may be NULL. ERR_FORMAT says which line or message is wrong. */
int transfer_import(struct store *s, const char *path, const char *name,
                    const struct store_key *key, void (*each)(void *ctx, const char *name),
                    void *ctx, struct err *e);

#endif
