#include "cli/pull/download.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "base/file.h"
#include "cli/print/num.h"
#include "cli/pull/hub.h"

#define TRIES_MAX  5 /* without a new byte */
#define HASH_BYTES ((size_t)1 << 20)

/* ---- the record ------------------------------------------------------------------------------ */

static int write_record(const struct download *d, struct err *e)
{
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "address", d->opts.address);
    cJSON_AddStringToObject(j, "commit", d->opts.commit);
    cJSON_AddNumberToObject(j, "size", (double)d->size);
    cJSON_AddStringToObject(j, "sha256", d->opts.sha256);
    cJSON_AddStringToObject(j, "etag", d->etag);
    char *text = cJSON_Print(j);
    FILE *f = fopen(str_get(&d->part_record), "we");
    bool ok = f && text && fprintf(f, "%s\n", text) > 0;
    int error = errno;
    if (f && fclose(f) && ok) {
        ok = false;
        error = errno;
    }
    free(text);
    cJSON_Delete(j);
    return ok ? 0
              : err_set(e, ERR_FAIL, "cannot write %s: %s", str_get(&d->part_record),
                        strerror(error));
}

/* Whether the record says that the bytes here are of the file that is wanted. With an ETag alone
 * this holds only if the server agrees, so it is sent with the request. */
static bool record_agrees(struct download *d, const struct str *record)
{
    struct str text = {0};
    file_read(str_get(record), FILE_SETTINGS, &text, NULL);
    cJSON *j = cJSON_Parse(str_get(&text));
    const char *sha256 = cJSON_GetStringValue(cJSON_GetObjectItem(j, "sha256"));
    const char *etag = cJSON_GetStringValue(cJSON_GetObjectItem(j, "etag"));
    const char *address = cJSON_GetStringValue(cJSON_GetObjectItem(j, "address"));
    bool by_sum = *d->opts.sha256;
    bool same = by_sum ? str_same(sha256, d->opts.sha256)
                       : etag && *etag && str_same(address, d->opts.address);
    if (same && !by_sum) snprintf(d->etag, sizeof d->etag, "%s", etag);
    cJSON_Delete(j);
    str_release(&text);
    return same;
}

/* ---- the part -------------------------------------------------------------------------------- */

static int restart(struct download *d, struct err *e)
{
    crypto_hash_sha256_init(&d->hash);
    d->done = 0;
    if (ftruncate(d->fd, 0))
        return err_set(e, ERR_FAIL, "%s: %s", str_get(&d->part), strerror(errno));
    return 0;
}

/* Reads the bytes that an earlier run left. */
static int hash_part(struct download *d, struct err *e)
{
    unsigned char *bytes = malloc(HASH_BYTES);
    struct stat st;
    int rc = bytes && !fstat(d->fd, &st) ? 0 : err_set(e, ERR_FAIL, "cannot read the download");
    crypto_hash_sha256_init(&d->hash);
    for (ssize_t n = 1; !rc && n > 0; d->done += n) {
        n = pread(d->fd, bytes, HASH_BYTES, (off_t)d->done);
        if (n < 0) {
            rc = err_set(e, ERR_FAIL, "%s: %s", str_get(&d->part), strerror(errno));
            break;
        }
        crypto_hash_sha256_update(&d->hash, bytes, (unsigned long long)n);
        if (d->opts.progress && d->opts.progress(d->opts.ctx, d->done, d->size))
            rc = err_set(e, ERR_STOP, "interrupted");
    }
    free(bytes);
    return rc;
}

/* The lock is the program's, so it ends with it. A part that was renamed meanwhile is complete. */
static int lock_part(struct download *d, struct err *e)
{
    d->fd = file_open_locked(str_get(&d->part), 0644);
    if (d->fd >= 0) return 0;
    if (errno != EWOULDBLOCK && errno != ESTALE)
        return err_set(e, ERR_FAIL, "cannot write %s: %s", str_get(&d->part), strerror(errno));
    return err_set(e, ERR_FAIL,
                   errno == ESTALE ? "%s was downloaded by another retain in this moment; try again"
                                   : "%s is being downloaded by another retain; wait for it",
                   d->opts.path);
}

static int look_at_file(struct download *d, struct err *e)
{
    struct stat st;
    if (stat(d->opts.path, &st)) return 0;
    bool same = d->opts.size < 0 || st.st_size == d->opts.size;
    if (same && record_agrees(d, &d->record)) {
        d->complete = true;
        d->done = d->size = st.st_size;
        return 0;
    }
    if (d->opts.replace) return 0;
    return err_set(e, ERR_FAIL,
                   "%s is there already, and is another version of the file; --force replaces it",
                   d->opts.path);
}

int download_open(struct download *d, const struct download_opts *o, struct err *e)
{
    struct stat st;
    *d = (struct download){.opts = *o, .fd = -1, .size = o->size};
    str_printf(&d->part, "%s.part", o->path);
    str_printf(&d->part_record, "%s.part.pull", o->path);
    str_printf(&d->record, "%s.pull", o->path);
    int rc = look_at_file(d, e);
    if (rc || d->complete) return rc;
    rc = lock_part(d, e);
    if (rc) return rc;
    bool keeps = !fstat(d->fd, &st) && st.st_size > 0 && (o->size < 0 || st.st_size <= o->size) &&
                 record_agrees(d, &d->part_record);
    return keeps ? hash_part(d, e) : restart(d, e);
}

/* To be freed. */
#define DISK_MARGIN ((int64_t)16 << 20) /* for conversations, while the file fills the disk */

int download_check_disk(const char *path, int64_t bytes, struct err *e)
{
    struct statvfs fs;
    char needs[NUM_MAX], has[NUM_MAX];
    /* a path below the models' folder */
    char *folder = strndup(path, (size_t)(strrchr(path, '/') - path));
    bool known = !statvfs(folder, &fs);
    free(folder);
    int64_t free_bytes = known ? (int64_t)fs.f_bavail * (int64_t)fs.f_frsize : INT64_MAX;
    if (bytes <= free_bytes - DISK_MARGIN) return 0;
    return err_set(e, ERR_FAIL, "%s needs %s more, and its disk has %s free", path,
                   num_bytes(bytes, needs), num_bytes(free_bytes, has));
}

/* ---- the bytes ------------------------------------------------------------------------------- */

/* Sets and checks the size before the first byte is written. */
static int on_begin(void *ctx, const struct http_answer *a, struct err *e)
{
    struct download *d = ctx;
    int rc = 0;
    if (a->status == 206 && a->from != d->done)
        return err_set(e, ERR_FAIL, "%s sends other bytes than were asked for", a->host);
    if (a->status == 200 && d->done > 0)
        rc = restart(d, e); /* the whole file, from its beginning */
    int64_t size = a->status == 206 ? a->total : a->length;
    if (!rc && d->size >= 0 && size >= 0 && size != d->size)
        return err_set(e, ERR_FAIL, "%s: %s sends %lld bytes, and %lld were announced",
                       d->opts.address, a->host, (long long)size, (long long)d->size);
    if (size >= 0) d->size = size;
    snprintf(d->etag, sizeof d->etag, "%s", a->etag);
    if (!rc && d->size >= 0) rc = download_check_disk(d->opts.path, d->size - d->done, e);
    return rc ? rc : write_record(d, e);
}

static int write_failed(const struct download *d, struct err *e)
{
    int error = errno;
    if (error == ENOSPC || error == EDQUOT || error == EFBIG)
        return err_set(e, ERR_FAIL,
                       "the disk is full after %lld of %lld bytes of %s (%s); make room and repeat "
                       "the command, it continues there",
                       (long long)d->done, (long long)d->size, d->opts.path, strerror(error));
    return err_set(e, ERR_FAIL, "cannot write %s: %s", str_get(&d->part), strerror(error));
}

static int on_bytes(void *ctx, const void *bytes, size_t n, struct err *e)
{
    struct download *d = ctx;
    if (d->size >= 0 && (int64_t)n > d->size - d->done) {
        download_drop(d);
        return err_set(e, ERR_FAIL,
                       "%s: the server sends more than the %lld bytes it announced; they were "
                       "removed, try again",
                       d->opts.address, (long long)d->size);
    }
    for (size_t at = 0; at < n;) {
        ssize_t k = pwrite(d->fd, (const char *)bytes + at, n - at, (off_t)d->done);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return write_failed(d, e);
        crypto_hash_sha256_update(&d->hash, (const unsigned char *)bytes + at,
                                  (unsigned long long)k);
        at += (size_t)k;
        d->done += k;
    }
    if (d->opts.progress && d->opts.progress(d->opts.ctx, d->done, d->size))
        return err_set(e, ERR_STOP, "interrupted");
    return 0;
}

static bool has_enough(const struct download *d, int64_t n)
{
    return (n >= 0 && d->done >= n) || (d->size >= 0 && d->done >= d->size);
}

/* One request. *ended: the server sent the end of a file of unknown size. */
static int request(struct download *d, int64_t n, bool *ended, struct err *e)
{
    struct http_answer a;
    const struct http_request r = {.url = d->opts.url,
                                   .from = d->done,
                                   .to = n < 0 ? -1 : n - 1,
                                   .if_range = *d->etag ? d->etag : NULL,
                                   .begin = on_begin,
                                   .body = on_bytes,
                                   .ctx = d};
    int rc = http_get(d->opts.http, &r, &a, e);
    if (rc) return rc;
    if (a.status == 416) return restart(d, e); /* it became shorter than the part */
    if (a.status == 500 || a.status == 502 || a.status == 503 || a.status == 504) {
        hub_refused(&a, d->opts.address, d->opts.has_token, e);
        return HTTP_CUT;
    }
    if (a.status != 200 && a.status != 206)
        return hub_refused(&a, d->opts.address, d->opts.has_token, e);
    *ended = d->size < 0 && n < 0;
    if (d->size == 0) return write_record(d, e);
    return 0;
}

/* Waits before a try, polling for Ctrl-C. try: 1 is at once, then 1, 2, 4, … seconds. */
static int wait_for_try(const struct download *d, int try, struct err *e)
{
    int64_t tenths = try <= 1 ? 0 : 10LL << (try - 2);
    for (int64_t i = 0; i < tenths; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        if (d->opts.progress && d->opts.progress(d->opts.ctx, d->done, d->size))
            return err_set(e, ERR_STOP, "interrupted");
    }
    return 0;
}

int download_run(struct download *d, int64_t n, struct err *e)
{
    int tries = 0;
    int64_t most = d->done;
    bool ended = d->complete;
    while (!ended && !has_enough(d, n)) {
        int rc = request(d, n, &ended, e);
        if (rc && rc != HTTP_CUT) return rc;
        tries = d->done > most ? 1 : tries + 1; /* a restart is no progress */
        if (d->done > most) most = d->done;
        if (ended || has_enough(d, n)) break;
        if (tries > TRIES_MAX)
            return rc ? ERR_FAIL
                      : err_set(e, ERR_FAIL, "%s: the server stopped after %lld of %lld bytes",
                                d->opts.address, (long long)d->done, (long long)d->size);
        rc = wait_for_try(d, tries, e);
        if (rc) return rc;
    }
    if (ended && d->size < 0) d->size = d->done;
    return 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

static int rename_part(struct download *d, struct err *e)
{
    unlink(str_get(&d->record)); /* of an older version */
    if (fsync(d->fd) || rename(str_get(&d->part), d->opts.path) ||
        rename(str_get(&d->part_record), str_get(&d->record)))
        return err_set(e, ERR_FAIL, "cannot write %s: %s", d->opts.path, strerror(errno));
    file_sync_folder(d->opts.path);
    return 0;
}

int download_finish(struct download *d, char sha256[65], struct err *e)
{
    unsigned char digest[crypto_hash_sha256_BYTES];
    snprintf(sha256, 65, "%s", d->opts.sha256);
    if (d->complete) return 0;
    crypto_hash_sha256_final(&d->hash, digest);
    sodium_bin2hex(sha256, 65, digest, sizeof digest);
    if (*d->opts.sha256 && strcmp(sha256, d->opts.sha256) != 0) {
        download_drop(d);
        return err_set(e, ERR_FORMAT,
                       "%s: its SHA-256 is %s, and %s was announced; the bytes were removed, try "
                       "again",
                       d->opts.address, sha256, d->opts.sha256);
    }
    return rename_part(d, e);
}

#define FOLDERS 3 /* OWNER/REPO/FOLDER */

void download_drop(struct download *d)
{
    if (d->fd < 0) return;
    unlink(str_get(&d->part));
    unlink(str_get(&d->part_record));
    for (int i = 0; i < FOLDERS; i++) {
        char *slash = strrchr(d->part.data, '/');
        if (!slash) break;
        *slash = 0;
        if (rmdir(d->part.data)) break;
    }
    close(d->fd);
    d->fd = -1;
}

void download_close(struct download *d)
{
    if (d->done == 0) download_drop(d);
    if (d->fd >= 0) close(d->fd);
    str_release(&d->part);
    str_release(&d->part_record);
    str_release(&d->record);
}
