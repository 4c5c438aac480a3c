#include "quant/convert/gguf_write.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/size.h"

#define ALIGN       32 /* the format's default */
#define HEX_BYTES   (2 * DIGEST_BYTES)
#define DIGESTS_KEY "retain.digest.tensors"

struct tensor {
    size_t bytes;
    uint8_t digest[DIGEST_BYTES];
};

struct gguf_writer {
    char *path, *tmp;
    bool force, committed;
    int fd;
    struct str infos; /* descriptions of tensors */
    struct tensor *tensors;
    size_t n_tensors, cap;
    uint64_t data_bytes; /* of all tensors, padded */
    uint64_t digests_at; /* offset of the digests in the file */
    size_t current;      /* index of the tensor that is being written */
    size_t written;      /* bytes of it so far */
    crypto_generichash_state hash;
};

/* ---- keys ------------------------------------------------------------------------------------ */

static void put_u32(struct str *s, uint32_t v)
{
    str_append(s, &v, sizeof v);
}

static void put_u64(struct str *s, uint64_t v)
{
    str_append(s, &v, sizeof v);
}

void gguf_keys_element(struct str *elements, const char *text, size_t n)
{
    put_u64(elements, n);
    str_append(elements, text, n);
}

static void put_key(struct gguf_keys *k, struct gguf_str key, enum gguf_type type)
{
    gguf_keys_element(&k->bytes, key.data, key.n);
    put_u32(&k->bytes, type);
    k->n++;
}

static struct gguf_str name_of(const char *key)
{
    return (struct gguf_str){key, strlen(key)};
}

void gguf_keys_release(struct gguf_keys *k)
{
    str_release(&k->bytes);
    k->n = 0;
}

void gguf_keys_u32(struct gguf_keys *k, const char *key, uint32_t v)
{
    put_key(k, name_of(key), GGUF_U32);
    put_u32(&k->bytes, v);
}

void gguf_keys_f32(struct gguf_keys *k, const char *key, float v)
{
    put_key(k, name_of(key), GGUF_F32);
    str_append(&k->bytes, &v, sizeof v);
}

void gguf_keys_bool(struct gguf_keys *k, const char *key, bool v)
{
    uint8_t byte = v;
    put_key(k, name_of(key), GGUF_BOOL);
    str_append(&k->bytes, &byte, 1);
}

void gguf_keys_str(struct gguf_keys *k, const char *key, const char *text)
{
    put_key(k, name_of(key), GGUF_STRING);
    gguf_keys_element(&k->bytes, text, strlen(text));
}

void gguf_keys_array(struct gguf_keys *k, const char *key, enum gguf_type type, uint64_t n,
                     const void *elements, size_t n_bytes)
{
    put_key(k, name_of(key), GGUF_ARRAY);
    put_u32(&k->bytes, type);
    put_u64(&k->bytes, n);
    str_append(&k->bytes, elements, n_bytes);
}

void gguf_keys_copy(struct gguf_keys *k, struct gguf_str key, const struct gguf_array *value,
                    bool is_array)
{
    put_key(k, key, is_array ? GGUF_ARRAY : value->type);
    if (is_array) {
        put_u32(&k->bytes, value->type);
        put_u64(&k->bytes, value->n);
    }
    str_append(&k->bytes, value->data, value->bytes);
}

/* ---- opening --------------------------------------------------------------------------------- */

static int failed(const struct gguf_writer *w, const char *what, struct err *e)
{
    int code = errno;
    const char *advice = code == ENOSPC || code == EDQUOT ? "; free some space or choose another "
                                                            "folder"
                                                          : "";
    return err_set(e, ERR_FAIL, "%s cannot be %s: %s%s", w->tmp, what, strerror(code), advice);
}

static int open_tmp(struct gguf_writer *w, struct err *e)
{
    w->fd = file_open_locked(w->tmp, 0666);
    if (w->fd >= 0) return ftruncate(w->fd, 0) ? failed(w, "emptied", e) : 0;
    if (errno == EWOULDBLOCK)
        return err_set(e, ERR_FAIL, "%s is being written by another process", w->tmp);
    if (errno == ESTALE)
        return err_set(e, ERR_FAIL, "%s blocks the write; remove it or try again", w->tmp);
    return failed(w, "created", e);
}

/* A folder or a device is never replaced; a file only with --force. */
int gguf_write_check(const char *path, bool force, struct err *e)
{
    struct stat st;
    if (lstat(path, &st)) {
        if (errno == ENOENT) return 0;
        return err_set(e, ERR_FAIL, "%s cannot be created: %s", path, strerror(errno));
    }
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_USAGE, "%s is not a regular file; give another name", path);
    if (!force) return err_set(e, ERR_USAGE, "%s already exists; --force replaces it", path);
    return 0;
}

int gguf_write_open(struct gguf_writer **out, const char *path, bool force, struct err *e)
{
    *out = NULL;
    int rc = gguf_write_check(path, force, e);
    if (rc) return rc;
    struct gguf_writer *w = memory_new(1, sizeof *w);
    struct str tmp = {0};
    str_printf(&tmp, "%s.tmp", path);
    w->fd = -1;
    w->force = force;
    w->tmp = tmp.data;
    w->path = memory_copy(path);
    if (sodium_init() < 0) rc = err_set(e, ERR_FAIL, "libsodium cannot start");
    if (!rc) rc = open_tmp(w, e);
    if (rc)
        gguf_write_close(w);
    else
        *out = w;
    return rc;
}

void gguf_write_close(struct gguf_writer *w)
{
    if (!w) return;
    if (w->fd >= 0) {
        if (!w->committed) unlink(w->tmp);
        close(w->fd);
    }
    str_release(&w->infos);
    free(w->tensors);
    free(w->path);
    free(w->tmp);
    free(w);
}

/* ---- describing ------------------------------------------------------------------------------ */

int gguf_write_tensor(struct gguf_writer *w, const char *name, uint32_t type, int n_dims,
                      const int64_t *ne, struct err *e)
{
    const struct gguf_tensor_type *t = gguf_tensor_type(type);
    size_t n = 1, bytes;
    assert(t && n_dims >= 0 && n_dims <= 4 && strlen(name) < 64);
    bool fits = n_dims == 0 || ne[0] % t->block == 0;
    for (int i = 0; i < n_dims; i++) fits = fits && ne[i] > 0 && size_mul(n, (size_t)ne[i], &n);
    fits = fits && size_mul(n / (size_t)t->block, (size_t)t->block_bytes, &bytes);
    if (!fits || bytes > INT64_MAX / 2)
        return err_set(e, ERR_FORMAT, "tensor %s has a shape that %s cannot have", name, t->name);
    w->tensors = memory_more(w->tensors, w->n_tensors, &w->cap, sizeof *w->tensors);
    gguf_keys_element(&w->infos, name, strlen(name));
    put_u32(&w->infos, (uint32_t)n_dims);
    str_append(&w->infos, ne, (size_t)n_dims * sizeof *ne);
    put_u32(&w->infos, type);
    put_u64(&w->infos, w->data_bytes);
    w->tensors[w->n_tensors++] = (struct tensor){.bytes = bytes};
    w->data_bytes += size_align(bytes, ALIGN);
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int write_all(struct gguf_writer *w, const void *bytes, size_t n, struct err *e)
{
    return file_write(w->fd, bytes, n) ? failed(w, "written", e) : 0;
}

/* The header, with room for the digests; *digests_at: their offset. */
static void make_header(const struct gguf_writer *w, const struct gguf_keys *keys, struct str *out,
                        uint64_t *digests_at)
{
    static const char none[HEX_BYTES] = {0};
    struct gguf_keys last = {0};
    str_append(out, "GGUF", 4);
    put_u32(out, 3);
    put_u64(out, w->n_tensors);
    put_u64(out, keys->n + 1);
    str_append(out, str_get(&keys->bytes), keys->bytes.n);
    gguf_keys_array(&last, DIGESTS_KEY, GGUF_STRING, w->n_tensors, none, 0);
    str_append(out, str_get(&last.bytes), last.bytes.n);
    gguf_keys_release(&last);
    *digests_at = out->n;
    for (size_t i = 0; i < w->n_tensors; i++) gguf_keys_element(out, none, sizeof none);
    str_append(out, str_get(&w->infos), w->infos.n);
    while (out->n % ALIGN) str_append(out, "", 1);
}

int gguf_write_begin(struct gguf_writer *w, const struct gguf_keys *keys, struct err *e)
{
    struct str header = {0};
    make_header(w, keys, &header, &w->digests_at);
    /* Reserve the space now: a full disk is reported before the work, not after it. */
    int rc = 0;
    if (fallocate(w->fd, 0, 0, (off_t)(header.n + w->data_bytes)) &&
        (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
        rc = failed(w, "written", e);
    if (!rc) rc = write_all(w, str_get(&header), header.n, e);
    str_release(&header);
    crypto_generichash_init(&w->hash, NULL, 0, DIGEST_BYTES);
    return rc;
}

int gguf_write_data(struct gguf_writer *w, const void *bytes, size_t n, struct err *e)
{
    static const char zeros[ALIGN] = {0};
    assert(w->current < w->n_tensors);
    struct tensor *t = &w->tensors[w->current];
    assert(n <= t->bytes - w->written);
    crypto_generichash_update(&w->hash, bytes, n);
    int rc = write_all(w, bytes, n, e);
    w->written += n;
    if (rc || w->written < t->bytes) return rc;
    crypto_generichash_final(&w->hash, t->digest, DIGEST_BYTES);
    crypto_generichash_init(&w->hash, NULL, 0, DIGEST_BYTES);
    rc = write_all(w, zeros, size_align(t->bytes, ALIGN) - t->bytes, e);
    w->current++;
    w->written = 0;
    return rc;
}

static int write_digests(struct gguf_writer *w, struct err *e)
{
    struct str all = {0};
    char hex[HEX_BYTES + 1];
    for (size_t i = 0; i < w->n_tensors; i++) {
        digest_hex(hex, w->tensors[i].digest);
        gguf_keys_element(&all, hex, HEX_BYTES);
    }
    int rc = 0;
    if (lseek(w->fd, (off_t)w->digests_at, SEEK_SET) < 0) rc = failed(w, "written", e);
    if (!rc) rc = write_all(w, str_get(&all), all.n, e);
    str_release(&all);
    return rc;
}

/* The digest of the whole file, read back from disk. */
static int digest_file(struct gguf_writer *w, char hex[65], struct err *e)
{
    enum { PART = 1 << 20 };
    uint8_t digest[DIGEST_BYTES];
    crypto_generichash_state hash;
    ssize_t n = 0;
    uint8_t *part = memory_new(PART, 1);
    crypto_generichash_init(&hash, NULL, 0, DIGEST_BYTES);
    for (off_t at = 0; (n = pread(w->fd, part, PART, at)) != 0; at += n) {
        if (n < 0 && errno == EINTR)
            n = 0;
        else if (n < 0)
            break;
        crypto_generichash_update(&hash, part, (size_t)n);
    }
    free(part);
    if (n < 0) return failed(w, "read back", e);
    crypto_generichash_final(&hash, digest, DIGEST_BYTES);
    digest_hex(hex, digest);
    return 0;
}

/* link() fails if another process has created the file meanwhile; rename() would replace it. File
 * systems without hard links use rename(). */
static int put_in_place(struct gguf_writer *w, struct err *e)
{
    if (!w->force) {
        if (!link(w->tmp, w->path)) {
            unlink(w->tmp);
            return 0;
        }
        if (errno == EEXIST)
            return err_set(e, ERR_USAGE, "%s already exists; --force replaces it", w->path);
    }
    if (rename(w->tmp, w->path))
        return err_set(e, ERR_FAIL, "%s cannot be renamed to %s: %s", w->tmp, w->path,
                       strerror(errno));
    return 0;
}

int gguf_write_commit(struct gguf_writer *w, char hex[65], struct err *e)
{
    assert(w->current == w->n_tensors);
    int rc = write_digests(w, e);
    if (!rc && fsync(w->fd)) rc = failed(w, "written", e);
    if (!rc) rc = digest_file(w, hex, e);
    if (!rc) rc = put_in_place(w, e);
    if (rc) return rc;
    w->committed = true;
    file_sync_folder(w->path);
    return 0;
}
