/* disk: a disk that fails. A SQLite VFS wraps the default one and becomes the default: it makes the
 * n-th operation of a kind fail. It also tracks what a disk would hold after a power cut: all
 * synced data, and any part of the data written since. */
#ifndef RETAIN_TESTS_DISK_H
#define RETAIN_TESTS_DISK_H

#include <errno.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum operation { OPEN, READ, WRITE, TRUNCATE, SYNC, SHARE, OPERATIONS };

struct change { /* written, not synced */
    int64_t offset;
    int n;
    uint8_t *bytes;
};

/* The database or its log, as the disk has it. */
struct disk_file {
    char path[256];
    uint8_t *synced;
    int64_t n_synced;
    struct change *changes;
    int n_changes, changes_max;
};

static struct disk {
    sqlite3_vfs vfs;
    sqlite3_vfs *real;
    enum operation operation; /* the kind of operation that fails */
    int code;                 /* how */
    int countdown;            /* operations of that kind until the failure; 0 = never */
    bool stays;               /* every later one fails too */
    bool torn;                /* a failing write still writes half of its bytes */
    int n_failed;
    bool record; /* keep the state after a power cut */
    struct disk_file files[2];
} disk;

struct file {
    sqlite3_file base;
    struct disk_file *shadow;
    sqlite3_file *real; /* behind this struct */
};

static sqlite3_file *real_of(sqlite3_file *f)
{
    return ((struct file *)(void *)f)->real;
}

static bool fails(enum operation operation)
{
    if (disk.operation != operation || disk.countdown == 0) return false;
    if (disk.n_failed > 0) {
        if (!disk.stays) return false;
    } else if (--disk.countdown > 0) {
        return false;
    } else {
        disk.countdown = 1;
    }
    disk.n_failed++;
    return true;
}

static void forget_changes(struct disk_file *d)
{
    for (int i = 0; i < d->n_changes; i++) free(d->changes[i].bytes);
    d->n_changes = 0;
}

static void note_write(struct disk_file *d, const void *bytes, int n, int64_t offset)
{
    if (!d) return;
    if (d->n_changes == d->changes_max) {
        d->changes_max = d->changes_max ? d->changes_max * 2 : 64;
        d->changes = realloc(d->changes, (size_t)d->changes_max * sizeof *d->changes);
    }
    struct change *c = &d->changes[d->n_changes++];
    *c = (struct change){offset, n, malloc((size_t)n)};
    memcpy(c->bytes, bytes, (size_t)n);
}

static void apply(uint8_t **data, int64_t *n, const struct change *c, int n_bytes)
{
    int64_t end = c->offset + n_bytes;
    if (end > *n) {
        *data = realloc(*data, (size_t)end);
        memset(*data + *n, 0, (size_t)(end - *n));
        *n = end;
    }
    memcpy(*data + c->offset, c->bytes, (size_t)n_bytes);
}

static void note_sync(struct disk_file *d)
{
    if (!d) return;
    for (int i = 0; i < d->n_changes; i++)
        apply(&d->synced, &d->n_synced, &d->changes[i], d->changes[i].n);
    forget_changes(d);
}

static int disk_close(sqlite3_file *f)
{
    return real_of(f)->pMethods->xClose(real_of(f));
}

static int disk_read(sqlite3_file *f, void *out, int n, sqlite3_int64 offset)
{
    if (fails(READ)) return disk.code;
    return real_of(f)->pMethods->xRead(real_of(f), out, n, offset);
}

static int disk_write(sqlite3_file *f, const void *bytes, int n, sqlite3_int64 offset)
{
    if (fails(WRITE)) {
        if (disk.torn && n > 1) real_of(f)->pMethods->xWrite(real_of(f), bytes, n / 2, offset);
        return disk.code;
    }
    note_write(((struct file *)(void *)f)->shadow, bytes, n, offset);
    return real_of(f)->pMethods->xWrite(real_of(f), bytes, n, offset);
}

static int disk_truncate(sqlite3_file *f, sqlite3_int64 n)
{
    if (fails(TRUNCATE)) return disk.code;
    struct disk_file *d = ((struct file *)(void *)f)->shadow;
    if (d) { /* applied at once: a short log is the harder case */
        note_sync(d);
        if (n < d->n_synced) d->n_synced = n;
    }
    return real_of(f)->pMethods->xTruncate(real_of(f), n);
}

/* Never really syncs: the disk is simulated, and this keeps the test fast. */
static int disk_sync(sqlite3_file *f, int flags)
{
    (void)flags;
    if (fails(SYNC)) return disk.code;
    note_sync(((struct file *)(void *)f)->shadow);
    return SQLITE_OK;
}

static int disk_size(sqlite3_file *f, sqlite3_int64 *n)
{
    return real_of(f)->pMethods->xFileSize(real_of(f), n);
}

static int disk_lock(sqlite3_file *f, int level)
{
    return real_of(f)->pMethods->xLock(real_of(f), level);
}

static int disk_unlock(sqlite3_file *f, int level)
{
    return real_of(f)->pMethods->xUnlock(real_of(f), level);
}

static int disk_check_lock(sqlite3_file *f, int *out)
{
    return real_of(f)->pMethods->xCheckReservedLock(real_of(f), out);
}

static int disk_control(sqlite3_file *f, int what, void *arg)
{
    if (what == SQLITE_FCNTL_LAST_ERRNO && disk.operation == READ && disk.n_failed > 0) {
        *(int *)arg = EIO;
        return SQLITE_OK;
    }
    return real_of(f)->pMethods->xFileControl(real_of(f), what, arg);
}

static int disk_sector(sqlite3_file *f)
{
    return real_of(f)->pMethods->xSectorSize(real_of(f));
}

/* Does not promise that overwriting is safe, so that SQLite's own protections are tested. */
static int disk_traits(sqlite3_file *f)
{
    (void)f;
    return 0;
}

static int share_map(sqlite3_file *f, int page, int n, int extend, void volatile **out)
{
    if (fails(SHARE)) return disk.code;
    return real_of(f)->pMethods->xShmMap(real_of(f), page, n, extend, out);
}

static int share_lock(sqlite3_file *f, int offset, int n, int flags)
{
    return real_of(f)->pMethods->xShmLock(real_of(f), offset, n, flags);
}

static void share_barrier(sqlite3_file *f)
{
    real_of(f)->pMethods->xShmBarrier(real_of(f));
}

static int share_unmap(sqlite3_file *f, int remove)
{
    return real_of(f)->pMethods->xShmUnmap(real_of(f), remove);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = disk_close,
    .xRead = disk_read,
    .xWrite = disk_write,
    .xTruncate = disk_truncate,
    .xSync = disk_sync,
    .xFileSize = disk_size,
    .xLock = disk_lock,
    .xUnlock = disk_unlock,
    .xCheckReservedLock = disk_check_lock,
    .xFileControl = disk_control,
    .xSectorSize = disk_sector,
    .xDeviceCharacteristics = disk_traits,
    .xShmMap = share_map,
    .xShmLock = share_lock,
    .xShmBarrier = share_barrier,
    .xShmUnmap = share_unmap,
};

static struct disk_file *shadow_of(const char *path, int flags)
{
    if (!disk.record || !path) return NULL;
    struct disk_file *d = &disk.files[(flags & SQLITE_OPEN_WAL) != 0];
    if (!(flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL))) return NULL;
    if (d->path[0] && strcmp(d->path, path)) return NULL;
    snprintf(d->path, sizeof d->path, "%s", path);
    return d;
}

static int disk_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *f, int flags, int *out)
{
    struct file *file = (struct file *)(void *)f;
    (void)vfs;
    *file = (struct file){.real = (sqlite3_file *)(void *)(file + 1)};
    if (fails(OPEN)) return disk.code;
    int rc = disk.real->xOpen(disk.real, path, file->real, flags, out);
    if (rc != SQLITE_OK) return rc;
    file->shadow = shadow_of(path, flags);
    file->base.pMethods = &methods;
    return SQLITE_OK;
}

static int disk_delete(sqlite3_vfs *vfs, const char *path, int sync)
{
    (void)vfs;
    (void)sync;
    for (int i = 0; i < 2; i++) {
        if (!disk.record || strcmp(disk.files[i].path, path)) continue;
        forget_changes(&disk.files[i]);
        disk.files[i].n_synced = 0;
    }
    return disk.real->xDelete(disk.real, path, 0);
}

static int disk_start(void **state)
{
    (void)state;
    disk.real = sqlite3_vfs_find(NULL);
    if (!disk.real) return -1;
    disk.vfs = *disk.real;
    disk.vfs.zName = "fault";
    disk.vfs.szOsFile = (int)sizeof(struct file) + disk.real->szOsFile;
    disk.vfs.xOpen = disk_open;
    disk.vfs.xDelete = disk_delete;
    return sqlite3_vfs_register(&disk.vfs, 1) == SQLITE_OK ? 0 : -1;
}

#endif
