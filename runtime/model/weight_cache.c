#include "runtime/model/weight_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define SUFFIX ".packed"
#define PART   SUFFIX ".part" /* being written, or left over from a writer that was killed */

/* The end of the file, after the weights, so that these begin at a page border. Numbers are in the
 * machine's byte order. */
struct footer {
    char magic[8];
    uint64_t version;
    uint64_t bytes; /* of weights */
    struct file_identity model;
    uint8_t digest[DIGEST_BYTES]; /* of all fields above */
};

_Static_assert(sizeof(struct footer) == 24 + sizeof(struct file_identity) + DIGEST_BYTES,
               "no byte of it is undefined");

static const char magic[8] = "retainpk";
/* Version of the footer only: model_holds detects a changed layout of the weights. */
#define VERSION 1

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

/* Accepts a file that this user owns and whose footer is correct. */
static bool read_copy(struct weight_cache *out, int fd)
{
    struct footer f;
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid()) return false;
    off_t bytes = st.st_size - (off_t)sizeof f;
    if (bytes <= 0 || pread(fd, &f, sizeof f, bytes) != (ssize_t)sizeof f) return false;
    if (!footer_is_whole(&f) || f.bytes != (uint64_t)bytes) return false;
    out->model = f.model;
    out->bytes = (size_t)f.bytes;
    out->used_ns = ns_of(st.st_mtim);
    return true;
}

static int open_copy(struct weight_cache *out)
{
    int fd = open(out->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || read_copy(out, fd)) return fd;
    close(fd);
    return -1;
}

static bool join(char out[4096], const char *dir, const char *name)
{
    int n = snprintf(out, 4096, "%s/%s", dir, name);
    return n > 0 && n < 4096;
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), n_end = strlen(end);
    return n > n_end && !strcmp(name + n - n_end, end);
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
    int fd = open_copy(out);
    if (fd >= 0) close(fd);
    bool same = fd >= 0 && !strcmp(out->model.path, now->path) && out->model.size == now->size &&
                out->model.mtime_ns == now->mtime_ns && out->model.inode == now->inode;
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
        if (!ends_with(entry->d_name, SUFFIX) || !join(p.path, dir, entry->d_name)) continue;
        int fd = open_copy(&p);
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
    int fd = open_copy(&now);
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
    int fd; /* of a copy that is filled in place */
};

static bool write_bytes(int fd, const void *bytes, size_t n)
{
    for (const char *p = bytes; n > 0;) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

static bool write_weights(struct weight_cache_writer *w, int fd)
{
    const struct arena *a = w->weights;
    for (size_t at = 0; at < a->bytes; at += WRITE_BYTES) {
        size_t n = a->bytes - at < WRITE_BYTES ? a->bytes - at : WRITE_BYTES;
        if (atomic_load(&w->stop) || !write_bytes(fd, a->base + at, n) || fdatasync(fd))
            return false;
    }
    return true;
}

static void make_folders(char *dir)
{
    for (char *slash = strchr(dir + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(dir, 0700);
        *slash = '/';
    }
    mkdir(dir, 0700);
}

/* The file to write to, truncated and locked by this program; -1: another program is writing it. */
static int open_part(const char *path)
{
    struct stat mine, named;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0) return -1;
    /* Its previous owner may have renamed or removed it. */
    if (!flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &mine) && !stat(path, &named) &&
        mine.st_dev == named.st_dev && mine.st_ino == named.st_ino && !ftruncate(fd, 0))
        return fd;
    close(fd);
    return -1;
}

static void remove_part(const char *path)
{
    int fd = open_part(path);
    if (fd < 0) return;
    unlink(path);
    close(fd);
}

/* Removes files left by programs that were killed. */
static void remove_parts(const char *dir)
{
    DIR *d = opendir(dir);
    if (!d) return;
    for (struct dirent *entry; (entry = readdir(d));) {
        char path[4096];
        if (ends_with(entry->d_name, PART) && join(path, dir, entry->d_name)) remove_part(path);
    }
    closedir(d);
}

static void *write_copy(void *arg)
{
    struct weight_cache_writer *w = arg;
    /* of this thread: on Linux each thread has its own priority */
    setpriority(PRIO_PROCESS, 0, 10);
    make_folders(w->dir);
    remove_parts(w->dir);
    if (!make_room(w->dir, w->place, w->weights->bytes)) return NULL;
    int fd = open_part(w->part);
    if (fd < 0) return NULL;
    bool ok = write_weights(w, fd) && write_bytes(fd, &w->footer, sizeof w->footer) && !fsync(fd) &&
              !rename(w->part, w->place);
    if (ok)
        fchmod(fd, 0400);
    else
        unlink(w->part);
    close(fd);
    return NULL;
}

static struct weight_cache_writer *writer_new(const char *dir, const struct file_identity *model,
                                              const struct arena *a)
{
    struct weight_cache_writer *w = calloc(1, sizeof *w);
    if (!w) return NULL;
    int n = snprintf(w->dir, sizeof w->dir, "%s", dir);
    if (n < 0 || (size_t)n >= sizeof w->dir || !place_of(w->place, dir, model->path)) {
        free(w);
        return NULL;
    }
    snprintf(w->part, sizeof w->part, "%s%s", w->place, PART + strlen(SUFFIX));
    w->weights = a;
    w->footer.version = VERSION;
    w->footer.bytes = a->bytes;
    w->footer.model = *model;
    memcpy(w->footer.magic, magic, sizeof magic);
    footer_digest(&w->footer, w->footer.digest);
    return w;
}

struct weight_cache_writer *weight_cache_write_begin(const char *dir,
                                                     const struct file_identity *model,
                                                     const struct arena *a)
{
    struct weight_cache_writer *w = writer_new(dir, model, a);
    sigset_t all, before;
    if (!w) return NULL;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&w->thread, NULL, write_copy, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed) return w;
    free(w);
    return NULL;
}

void weight_cache_write_end(struct weight_cache_writer *w)
{
    if (!w) return;
    atomic_store(&w->stop, true);
    pthread_join(w->thread, NULL);
    free(w);
}

/* ---- filling in place ------------------------------------------------------------------------ */

/* The file of all bytes, whose blocks are on the disk: a write to memory can't be refused. */
static int map_part(struct weight_cache_writer *w, struct arena *a)
{
    const size_t bytes = (size_t)w->footer.bytes;
    w->fd = open_part(w->part);
    if (w->fd < 0) return EBUSY;
    int rc = posix_fallocate(w->fd, 0, (off_t)(bytes + sizeof w->footer));
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
    make_folders(w->dir);
    remove_parts(w->dir);
    const int rc = map_part(w, a);
    if (!rc) return 0;
    if (w->fd >= 0) {
        unlink(w->part);
        close(w->fd);
    }
    free(w);
    *out = NULL;
    return err_set(e, ERR_FAIL, "%s: a copy of %.1f MiB of weights cannot be written: %s", dir,
                   (double)bytes / (1 << 20),
                   rc == EBUSY ? "another program is writing it" : strerror(rc));
}

int weight_cache_fill_end(struct weight_cache_writer *w, struct arena *a, bool whole, struct err *e)
{
    const off_t end = (off_t)w->footer.bytes;
    int rc = 0;
    if (whole && (msync(a->base, a->bytes, MS_SYNC) ||
                  pwrite(w->fd, &w->footer, sizeof w->footer, end) != (ssize_t)sizeof w->footer ||
                  fchmod(w->fd, 0400) || fsync(w->fd) || rename(w->part, w->place)))
        rc = err_set(e, ERR_FAIL, "%s: the copy of the weights cannot be written: %s", w->part,
                     strerror(errno));
    if (rc || !whole) unlink(w->part);
    arena_release(a);
    close(w->fd);
    free(w);
    return rc;
}
