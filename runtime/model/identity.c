#include "runtime/model/identity.h"

#include <stdio.h>
#include <string.h>

#include "runtime/model/checksum.h"
#include "runtime/model/gguf.h"

static void set_digest(struct identity *id, const uint8_t *digest)
{
    memcpy(id->now.digest, digest, sizeof id->now.digest);
    digest_hex(id->digest, digest);
    id->known = true;
}

/* ---- sources --------------------------------------------------------------------------------- */

/* Implements the table in the header. */
static enum identity_source choose_source(const struct identity *id)
{
    const struct identity_opts *o = &id->opts;
    bool off = o->verify == IDENTITY_VERIFY_OFF;
    if (!o->path || o->verify == IDENTITY_VERIFY_FULL) return IDENTITY_READ;
    if (id->seen_before && file_identity_same(&id->seen, &id->now)) return IDENTITY_REGISTERED;
    if (id->copy.bytes && (!o->registry || off)) return IDENTITY_COPIED;
    if (off || (!o->needed && !o->registry)) return IDENTITY_UNREAD;
    return IDENTITY_READ;
}

/* Sets an identity for saved caches that is not a digest. */
static void set_unread_name(struct identity *id)
{
    snprintf(id->digest, sizeof id->digest, "unread-%llx-%llx-%llx",
             (unsigned long long)id->now.size, (unsigned long long)id->now.mtime_ns,
             (unsigned long long)id->now.inode);
}

/* Reads the facts in the registry and in the folder of copies, before the file itself. */
static int look_up(struct identity *id, struct err *e)
{
    const struct identity_opts *o = &id->opts;
    if (!o->path) return 0;
    int rc = file_identity_read(&id->now, o->path, e);
    if (!rc && o->registry) rc = o->registry->find(o->registry->ctx, id->now.path, &id->seen, e);
    if (rc < 0) return rc;
    id->seen_before = rc > 0;
    if (o->cache_dir && o->verify != IDENTITY_VERIFY_FULL)
        weight_cache_find(&id->copy, o->cache_dir, &id->now);
    return 0;
}

int identity_begin(struct identity *id, const struct gguf *file, const struct identity_opts *o,
                   struct err *e)
{
    *id = (struct identity){.opts = *o, .file = file};
    if (!o->path) id->opts.registry = NULL;
    int rc = look_up(id, e);
    if (rc) return rc;
    id->source = choose_source(id);
    switch (id->source) {
    case IDENTITY_REGISTERED: set_digest(id, id->seen.digest); break;
    case IDENTITY_COPIED: set_digest(id, id->copy.model.digest); break;
    case IDENTITY_UNREAD: set_unread_name(id); break;
    case IDENTITY_READ: break;
    }
    /* A copy is used only if its digest is the accepted one. */
    if (!id->known || memcmp(id->copy.model.digest, id->now.digest, DIGEST_BYTES))
        id->copy.bytes = 0;
    id->pending = id->source == IDENTITY_READ ||
                  (id->source == IDENTITY_UNREAD && o->verify != IDENTITY_VERIFY_OFF);
    return id->source == IDENTITY_READ ? checksum_begin(&id->reading, file, e) : 0;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static int refuse_changed(const struct identity *id, const struct gguf_tensor *bad, struct err *e)
{
    char old[DIGEST_HEX];
    digest_hex(old, id->seen.digest);
    if (bad)
        return err_set(e, ERR_FORMAT,
                       "%s has changed since it was first used: its digest was %s and is %s now; "
                       "tensor %s is damaged",
                       id->opts.path, old, id->digest, gguf_show(bad->name).text);
    return err_set(e, ERR_FORMAT,
                   "%s has changed since it was first used: its digest was %s and is %s now; if "
                   "you meant to replace it, use --accept-model",
                   id->opts.path, old, id->digest);
}

/* A file whose content changed is refused until the user accepts it, because saved caches and heads
 * belong to the old one. A file that contradicts its own digests is always refused. */
static int check(const struct identity *id, struct pool *pool, struct err *e)
{
    const struct gguf_tensor *bad;
    int rc = checksum_tensors(id->file, pool, &bad, e);
    if (rc) return rc;
    bool changed = id->seen_before && memcmp(id->now.digest, id->seen.digest, DIGEST_BYTES);
    if (changed && !id->opts.accept) return refuse_changed(id, bad, e);
    if (bad)
        return err_set(e, ERR_FORMAT,
                       "%s is damaged: tensor %s does not have the digest it was written with; "
                       "get the file again, or if another program rewrote it, use --verify off",
                       gguf_name(id->file), gguf_show(bad->name).text);
    return 0;
}

int identity_end(struct identity *id, struct pool *pool, struct err *e)
{
    const struct model_registry *r = id->opts.registry;
    uint8_t digest[DIGEST_BYTES];
    if (!id->pending) return 0;
    id->pending = false;
    if (id->reading) {
        checksum_end(id->reading, digest);
        set_digest(id, digest);
    }
    int rc = check(id, pool, e);
    return !rc && r && id->reading ? r->put(r->ctx, &id->now, e) : rc;
}

void identity_release(struct identity *id)
{
    checksum_close(id->reading);
}
