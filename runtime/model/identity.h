/* identity: the digest of a model file, and whether it is the same file as before.
 *
 * Saved caches and retaining heads belong to a digest, but reading a file of gigabytes takes longer
 * than mapping its weights. So the digest comes from the cheapest source that can be trusted (enum
 * identity_source), and if a file must be read, a thread reads it while the weights are loaded. */
#ifndef RETAIN_RUNTIME_MODEL_IDENTITY_H
#define RETAIN_RUNTIME_MODEL_IDENTITY_H

#include <stdbool.h>

#include "base/digest.h"
#include "base/err.h"
#include "runtime/model/weight_cache.h"

struct checksum;
struct gguf;
struct pool;

/* The registry of the digests of used models, by absolute path. */
struct model_registry {
    void *ctx;
    /* 1 = found, 0 = never used, negative = error */
    int (*find)(void *ctx, const char *path, struct file_identity *out, struct err *e);
    int (*put)(void *ctx, const struct file_identity *file, struct err *e);
};

enum identity_verify {
    IDENTITY_VERIFY_SAMPLE, /* read a file that is new or looks changed */
    IDENTITY_VERIFY_FULL,   /* always read */
    IDENTITY_VERIFY_OFF,    /* never read */
};

struct identity_opts {
    const char *path;                      /* NULL = the embedded demo model */
    const struct model_registry *registry; /* NULL = none */
    const char *cache_dir;                 /* of copies of the weights (weight_cache.h), or NULL */
    enum identity_verify verify;
    bool accept; /* accept a file that changed since it was registered */
    bool needed; /* the caller prints the digest, or compares it */
};

/* The first row that applies is used.
 *
 *   source      when                                             verify     the digest is
 *   REGISTERED  size, time, inode are those in the registry      not full   the registered one
 *   COPIED      a copy of the weights was made of this file,     not full   the copy's
 *               and there is no registry, or verify is off
 *   UNREAD      verify is off; or it is not needed, and there    not full   a name made of size,
 *               is no registry                                              time and inode
 *   READ        otherwise; also for the embedded model           any        read from the file
 *
 * READ and, with verify sample, UNREAD compare the digests that the file gives for its tensors. */
enum identity_source {
    IDENTITY_REGISTERED,
    IDENTITY_COPIED,
    IDENTITY_UNREAD,
    IDENTITY_READ,
};

struct identity {
    struct identity_opts opts;
    enum identity_source source;
    const struct gguf *file;
    struct file_identity now, seen; /* seen: the registered one */
    bool seen_before;
    bool known;               /* now.digest is filled */
    char digest[DIGEST_HEX];  /* in hex, or the name of an unread file */
    struct weight_cache copy; /* of the weights, made of this file; bytes 0 = none */
    bool pending;             /* identity_end still has work */
    struct checksum *reading; /* reads the file; NULL = it is not read */
};

/* Chooses the source and begins to read if it must; `file` must stay open until identity_release.
 * The strings of `o` are not copied. */
int identity_begin(struct identity *id, const struct gguf *file, const struct identity_opts *o,
                   struct err *e);
/* Waits for the digest, refuses a changed or damaged file (ERR_FORMAT) and registers it. A second
 * call does nothing. */
int identity_end(struct identity *id, struct pool *pool, struct err *e);
void identity_release(struct identity *id);

#endif
