#include "runtime/model/weight_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

#define SUFFIX ".packed"
#define PART   SUFFIX ".part" /* being written, or left over from a writer that was killed */

/* The end of the file, after the weights, so that these begin at a page border, and the digest of
 * each MiB of them. Numbers are in the machine's byte order. */
struct footer {
    char magic[8];
    uint64_t version;
    uint64_t bytes; /* of weights */
    struct file_identity model;
    uint8_t digests[DIGEST_BYTES]; /* of the digests */
    uint8_t digest[DIGEST_BYTES];  /* of all fields above */
};

_Static_assert(sizeof(struct footer) == 24 + sizeof(struct file_identity) + 2 * DIGEST_BYTES,
               "no byte of it is undefined");

static const char magic[8] = "retainpk";
/* Version of the footer only: model_holds detects a changed layout of the weights. */
#define VERSION 2

#define MIB ((size_t)1 << 20)

static size_t n_parts(size_t bytes)
{
    return (bytes + MIB - 1) / MIB;
}

static size_t part_bytes(size_t bytes, size_t part)
{
    return bytes - part * MIB < MIB ? bytes - part * MIB : MIB;
}

static void footer_digest(const struct footer *f, uint8_t out[DIGEST_BYTES])
{
    digest_make(out, f, offsetof(struct footer, digest));
}

static bool footer_is_whole(const struct footer *f)
{
    uint8_t digest[DIGEST_BYTES];
    footer_digest(f, digest);
    return !memcmp(f->magic, magic, sizeof magic) && f->version == VERSION &&
           !memcmp(f->digest, digest, sizeof digest) && f->bytes > 0 &&
           memchr(f->model.path, 0, sizeof f->model.path);
}

/* ---- finding --------------------------------------------------------------------------------- */

static int64_t ns_of(struct timespec t)
{
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Reads the digests of a copy; NULL: they are damaged. The caller frees them. */
static uint8_t (*read_digests(int fd, const struct footer *f))[DIGEST_BYTES]
{
    const size_t bytes = n_parts((size_t)f->bytes) * DIGEST_BYTES;
    uint8_t(*out)[DIGEST_BYTES] = malloc(bytes), digest[DIGEST_BYTES] = {0};
    if (out && pread(fd, out, bytes, (off_t)f->bytes) == (ssize_t)bytes)
        digest_make(digest, out, bytes);
    if (out && !memcmp(digest, f->digests, DIGEST_BYTES)) return out;
    free(out);
    return NULL;
}

/* Accepts a file that this user owns, and whose footer and digests are correct. digests: takes
 * them, if not NULL. */
static bool read_copy(struct weight_cache *out, int fd, uint8_t (**digests)[DIGEST_BYTES])
{
    uint8_t(*found)[DIGEST_BYTES];
    struct footer f;
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid()) return false;
    off_t end = st.st_size - (off_t)sizeof f;
    if (end <= 0 || pread(fd, &f, sizeof f, end) != (ssize_t)sizeof f) return false;
    if (!footer_is_whole(&f) || f.bytes > (uint64_t)end ||
        f.bytes + n_parts((size_t)f.bytes) * DIGEST_BYTES != (uint64_t)end)
        return false;
    if (!(found = read_digests(fd, &f))) return false;
    if (digests)
        *digests = found;
    else
        free(found);
    out->model = f.model;
    out->bytes = (size_t)f.bytes;
    out->used_ns = ns_of(st.st_mtim);
    out->inode = st.st_ino;
    return true;
}

static int open_copy(struct weight_cache *out, uint8_t (**digests)[DIGEST_BYTES])
{
    int fd = open(out->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || read_copy(out, fd, digests)) return fd;
    close(fd);
    return -1;
}

static bool join(char out[4096], const char *dir, const char *name)
{
    int n = snprintf(out, 4096, "%s/%s", dir, name);
    return n > 0 && n < 4096;
}

/* One model file has one copy: DIR/NAME-16 digits of its path.packed */
static bool place_of(char out[4096], const char *dir, const char *model)
{
    uint8_t digest[DIGEST_BYTES];
    char hex[DIGEST_HEX];
    const char *slash = strrchr(model, '/');
    digest_make(digest, model, strlen(model));
    digest_hex(hex, digest);
    int n = snprintf(out, 4096, "%s/%.100s-%.16s" SUFFIX, dir, slash ? slash + 1 : model, hex);
    return n > 0 && n < 4096;
}

bool weight_cache_find(struct weight_cache *out, const char *dir, const struct file_identity *now)
{
    *out = (struct weight_cache){0};
    if (!place_of(out->path, dir, now->path)) return false;
    int fd = open_copy(out, NULL);
    if (fd >= 0) close(fd);
    bool same =
        fd >= 0 && !strcmp(out->model.path, now->path) && file_identity_same(&out->model, now);
    if (!same) out->bytes = 0;
    return same;
}

int weight_cache_list(const char *dir, int (*each)(void *ctx, const struct weight_cache *p),
                      void *ctx)
{
    DIR *d = opendir(dir);
    int rc = 0;
    if (!d) return 0;
    for (struct dirent *entry; !rc && (entry = readdir(d));) {
        struct weight_cache p = {0};
        if (!str_ends(entry->d_name, SUFFIX) || !join(p.path, dir, entry->d_name)) continue;
        int fd = open_copy(&p, NULL);
        if (fd < 0) continue;
        close(fd);
        rc = each(ctx, &p);
    }
    closedir(d);
    return rc;
}

/* ---- mapping --------------------------------------------------------------------------------- */

#define PART_BYTES ((size_t)64 << 20) /* between two checks for cancellation */

/* Kernels before 5.14 do not know MADV_POPULATE_READ: pages are then read on first use.
 * MADV_WILLNEED would not help: it reads ahead in smaller pages. */
int weight_cache_read(const struct arena *a, int (*progress)(void *, int64_t, int64_t), void *ctx,
                      struct err *e)
{
    madvise(a->base, a->bytes, MADV_HUGEPAGE);
    for (size_t at = 0; at < a->bytes; at += PART_BYTES) {
        size_t n = a->bytes - at < PART_BYTES ? a->bytes - at : PART_BYTES;
        if (madvise(a->base + at, n, MADV_POPULATE_READ)) madvise(a->base + at, n, MADV_WILLNEED);
        if (progress && progress(ctx, (int64_t)(at + n), (int64_t)a->bytes))
            return err_set(e, ERR_STOP, "loading was interrupted");
    }
    return 0;
}

void weight_cache_map(const struct weight_cache *p, struct arena *a, size_t bytes)
{
    struct weight_cache now = *p;
    *a = (struct arena){.tag = a->tag};
    int fd = open_copy(&now, NULL);
    if (fd < 0) return;
    void *base = MAP_FAILED;
    if (now.bytes == bytes) base = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    futimens(fd, NULL);
    close(fd);
    if (base == MAP_FAILED) return;
    a->base = base;
    a->bytes = bytes;
}

void weight_cache_remove(const struct weight_cache *p)
{
    unlink(p->path);
}

/* ---- checking -------------------------------------------------------------------------------- */

struct weight_check {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool stop; /* under the mutex */
    atomic_bool whole;
    atomic_llong damage;
    struct weight_cache copy;
    const struct arena *weights;
    uint8_t (*digests)[DIGEST_BYTES]; /* [n_parts] */
    bool sparing;
    int delay_ms;
};

/* Waits for `ms`; false: the check is to stop. */
static bool wait_ms(struct weight_check *c, int ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ms % 1000 * 1000000L;
    until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&c->mutex);
    while (!c->stop && ms > 0 && !pthread_cond_timedwait(&c->wake, &c->mutex, &until)) continue;
    bool stop = c->stop;
    pthread_mutex_unlock(&c->mutex);
    return !stop;
}

static bool part_is_whole(struct weight_check *c, size_t part)
{
    uint8_t digest[DIGEST_BYTES];
    unsigned char in_memory[MIB / 4096] = {0};
    char *bytes = c->weights->base + part * MIB;
    const size_t n = part_bytes(c->weights->bytes, part);
    if (c->sparing) mincore(bytes, n, in_memory);
    digest_make(digest, bytes, n);
    if (c->sparing && !in_memory[0]) madvise(bytes, n, MADV_COLD);
    return !memcmp(digest, c->digests[part], DIGEST_BYTES);
}

static void *check_copy(void *arg)
{
    struct weight_check *c = arg;
    struct timespec now;
    const size_t n = n_parts(c->weights->bytes);
    setpriority(PRIO_PROCESS, 0, 19); /* of this thread */
    clock_gettime(CLOCK_REALTIME, &now);
    if (!wait_ms(c, c->delay_ms)) return NULL;
    for (size_t i = 0; i < n; i++) {
        const size_t part = (i + (size_t)now.tv_nsec / 1000) % n;
        if (!wait_ms(c, 0)) return NULL;
        if (part_is_whole(c, part)) continue;
        atomic_store(&c->damage, (long long)(part * MIB));
        weight_cache_remove(&c->copy);
        return NULL;
    }
    atomic_store(&c->whole, true);
    return NULL;
}

/* Starts a thread that takes no signals. */
static int start(pthread_t *out, void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(out, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

struct weight_check *weight_check_begin(const struct weight_cache *p, const struct arena *a,
                                        bool sparing, int delay_ms)
{
    struct weight_check *c = memory_new(1, sizeof *c);
    *c = (struct weight_check){
        .copy = *p, .weights = a, .sparing = sparing, .delay_ms = delay_ms, .damage = -1};
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->wake, NULL);
    struct weight_cache now = *p;
    int fd = open_copy(&now, &c->digests);
    if (fd >= 0) close(fd);
    if (fd >= 0 && now.inode == p->inode && !start(&c->thread, check_copy, c)) return c;
    free(c->digests);
    free(c);
    return NULL;
}

int64_t weight_check_damage(const struct weight_check *c)
{
    return c ? (int64_t)atomic_load(&c->damage) : -1;
}

bool weight_check_is_whole(const struct weight_check *c)
{
    return atomic_load(&c->whole);
}

void weight_check_end(struct weight_check *c)
{
    if (!c) return;
    pthread_mutex_lock(&c->mutex);
    c->stop = true;
    pthread_cond_signal(&c->wake);
    pthread_mutex_unlock(&c->mutex);
    pthread_join(c->thread, NULL);
    free(c->digests);
    free(c);
}

/* ---- room ------------------------------------------------------------------------------------ */

struct room {
    uint64_t used;              /* bytes of all copies */
    struct weight_cache oldest; /* the least recently used copy */
    const char *but;            /* path of the copy to ignore */
};

static int count_copy(void *ctx, const struct weight_cache *p)
{
    struct room *r = ctx;
    if (!strcmp(p->path, r->but)) return 0;
    r->used += p->bytes;
    if (r->oldest.bytes == 0 || p->used_ns < r->oldest.used_ns) r->oldest = *p;
    return 0;
}

/* The folder, or its nearest existing ancestor. */
static void nearest_folder(char out[4096], const char *dir)
{
    snprintf(out, 4096, "%s", dir);
    for (char *slash; access(out, F_OK) && (slash = strrchr(out, '/')) && slash > out;) *slash = 0;
}

/* Bytes that copies may take; *used: bytes of the present ones, without the one at `but`. */
static int allowed_bytes(const char *dir, struct room *r, uint64_t *allowed, struct err *e)
{
    char folder[4096];
    struct statvfs fs;
    struct stat st;
    nearest_folder(folder, dir);
    errno = ENOTDIR;
    if (stat(folder, &st) || !S_ISDIR(st.st_mode) || access(folder, W_OK) || statvfs(folder, &fs))
        return err_set(e, ERR_FAIL, "%s cannot be written: %s", folder, strerror(errno));
    weight_cache_list(dir, count_copy, r);
    *allowed = ((uint64_t)fs.f_bavail * fs.f_frsize + r->used) / 4;
    return 0;
}

int weight_cache_room(const char *dir, size_t bytes, struct err *e)
{
    struct room r = {.but = ""};
    uint64_t allowed;
    int rc = allowed_bytes(dir, &r, &allowed, e);
    if (rc || bytes <= allowed) return rc;
    return err_set(e, ERR_FAIL,
                   "%zu bytes of weights, and %s has room for %llu (a quarter of the free space)",
                   bytes, dir, (unsigned long long)allowed);
}

/* Removes the least recently used copies until `bytes` more fit. */
static bool make_room(const char *dir, const char *place, size_t bytes)
{
    for (;;) {
        struct room r = {.but = place};
        uint64_t allowed;
        if (allowed_bytes(dir, &r, &allowed, NULL) || bytes > allowed) return false;
        if (r.used + bytes <= allowed) return true;
        if (unlink(r.oldest.path)) return false;
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Flushed before more is written, so that stopping is prompt. */
#define WRITE_BYTES ((size_t)16 << 20)

struct weight_cache_writer {
    pthread_t thread;
    atomic_bool stop;
    /* the copy's folder, path and temporary path */
    char dir[4096], place[4096], part[4096 + sizeof PART];
    const struct arena *weights;
    struct footer footer;
    uint8_t (*digests)[DIGEST_BYTES]; /* [n_parts] */
    int fd;                           /* of a copy that is filled in place */
};

static bool write_weights(struct weight_cache_writer *w, int fd)
{
    const struct arena *a = w->weights;
    for (size_t at = 0; at < a->bytes; at += WRITE_BYTES) {
        size_t n = a->bytes - at < WRITE_BYTES ? a->bytes - at : WRITE_BYTES;
        if (atomic_load(&w->stop) || file_write(fd, a->base + at, n) || fdatasync(fd)) return false;
        for (size_t part = at / MIB; part * MIB < at + n; part++)
            digest_make(w->digests[part], a->base + part * MIB, part_bytes(a->bytes, part));
    }
    return true;
}

/* After the weights; their digests are complete. */
static bool write_end(struct weight_cache_writer *w, int fd)
{
    const size_t bytes = n_parts((size_t)w->footer.bytes) * DIGEST_BYTES;
    digest_make(w->footer.digests, w->digests, bytes);
    footer_digest(&w->footer, w->footer.digest);
    return !file_write(fd, (const char *)w->digests, bytes) &&
           !file_write(fd, (const char *)&w->footer, sizeof w->footer);
}

/* The file to write to, truncated and locked by this program; -1: another program is writing it. */
static int open_part(const char *path)
{
    int fd = file_open_locked(path, 0600);
    if (fd < 0 || !ftruncate(fd, 0)) return fd;
    close(fd);
    return -1;
}

/* Removes files left by programs that were killed. */
static void remove_parts(const char *dir)
{
    DIR *d = opendir(dir);
    if (!d) return;
    for (struct dirent *entry; (entry = readdir(d));) {
        char path[4096];
        if (!str_ends(entry->d_name, PART) || !join(path, dir, entry->d_name)) continue;
        int fd = open_part(path);
        if (fd < 0) continue;
        unlink(path);
        close(fd);
    }
    closedir(d);
}

static void *write_copy(void *arg)
{
    struct weight_cache_writer *w = arg;
    /* of this thread: on Linux each thread has its own priority */
    setpriority(PRIO_PROCESS, 0, 10);
    file_make_folders(w->place, NULL);
    remove_parts(w->dir);
    if (!make_room(w->dir, w->place, w->weights->bytes)) return NULL;
    int fd = open_part(w->part);
    if (fd < 0) return NULL;
    bool ok = write_weights(w, fd) && write_end(w, fd) && !fsync(fd) && !rename(w->part, w->place);
    if (ok)
        fchmod(fd, 0400);
    else
        unlink(w->part);
    close(fd);
    return NULL;
}

static void writer_free(struct weight_cache_writer *w)
{
    free(w->digests);
    free(w);
}

static struct weight_cache_writer *writer_new(const char *dir, const struct file_identity *model,
                                              const struct arena *a)
{
    struct weight_cache_writer *w = memory_new(1, sizeof *w);
    int n = snprintf(w->dir, sizeof w->dir, "%s", dir);
    w->digests = calloc(n_parts(a->bytes), DIGEST_BYTES);
    if (!w->digests || n < 0 || (size_t)n >= sizeof w->dir ||
        !place_of(w->place, dir, model->path)) {
        writer_free(w);
        return NULL;
    }
    snprintf(w->part, sizeof w->part, "%s%s", w->place, PART + strlen(SUFFIX));
    w->weights = a;
    w->footer.version = VERSION;
    w->footer.bytes = a->bytes;
    w->footer.model = *model;
    memcpy(w->footer.magic, magic, sizeof magic);
    return w;
}

struct weight_cache_writer *weight_cache_write_begin(const char *dir,
                                                     const struct file_identity *model,
                                                     const struct arena *a)
{
    struct weight_cache_writer *w = writer_new(dir, model, a);
    if (!w || !start(&w->thread, write_copy, w)) return w;
    writer_free(w);
    return NULL;
}

void weight_cache_write_end(struct weight_cache_writer *w)
{
    if (!w) return;
    atomic_store(&w->stop, true);
    pthread_join(w->thread, NULL);
    writer_free(w);
}

/* ---- filling in place ------------------------------------------------------------------------ */

/* The file of all bytes, whose blocks are on the disk: a write to memory can't be refused. */
static int map_part(struct weight_cache_writer *w, struct arena *a)
{
    const size_t bytes = (size_t)w->footer.bytes;
    w->fd = open_part(w->part);
    if (w->fd < 0) return EBUSY;
    int rc = posix_fallocate(w->fd, 0,
                             (off_t)(bytes + n_parts(bytes) * DIGEST_BYTES + sizeof w->footer));
    if (rc) return rc;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0);
    if (base == MAP_FAILED) return errno;
    *a = (struct arena){a->tag, base, bytes, 0};
    return 0;
}

int weight_cache_fill_begin(struct weight_cache_writer **out, const char *dir,
                            const struct file_identity *model, struct arena *a, size_t bytes,
                            struct err *e)
{
    const struct arena size = {.bytes = bytes};
    struct weight_cache_writer *w = *out = writer_new(dir, model, &size);
    if (!w) return err_set(e, ERR_FAIL, "out of memory for a copy of the weights");
    file_make_folders(w->place, NULL);
    remove_parts(w->dir);
    const int rc = map_part(w, a);
    if (!rc) return 0;
    if (w->fd >= 0) {
        unlink(w->part);
        close(w->fd);
    }
    writer_free(w);
    *out = NULL;
    return err_set(e, ERR_FAIL, "%s: a copy of %.1f MiB of weights cannot be written: %s", dir,
                   (double)bytes / (1 << 20),
                   rc == EBUSY ? "another program is writing it" : strerror(rc));
}

int weight_cache_fill_end(struct weight_cache_writer *w, struct arena *a, bool whole, struct err *e)
{
    const off_t end = (off_t)w->footer.bytes;
    int rc = 0;
    for (size_t i = 0; whole && i < n_parts(a->bytes); i++)
        digest_make(w->digests[i], a->base + i * MIB, part_bytes(a->bytes, i));
    if (whole &&
        (msync(a->base, a->bytes, MS_SYNC) || lseek(w->fd, end, SEEK_SET) != end ||
         !write_end(w, w->fd) || fchmod(w->fd, 0400) || fsync(w->fd) || rename(w->part, w->place)))
        rc = err_set(e, ERR_FAIL, "%s: the copy of the weights cannot be written: %s", w->part,
                     strerror(errno));
    if (rc || !whole) unlink(w->part);
    arena_release(a);
    close(w->fd);
    writer_free(w);
    return rc;
}
