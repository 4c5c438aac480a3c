/* disk: a disk that fails. A SQLite VFS becomes the default: it opens the files of the one before
 * it, and puts its own functions in place of some of theirs, which make the n-th operation of a
 * kind fail. */
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

static struct disk {
    sqlite3_vfs vfs;
    sqlite3_vfs *real;
    const sqlite3_io_methods *io;  /* of a real database: those called here are the log's, too */
    sqlite3_io_methods methods[2]; /* of a database here, and of other files */
    enum operation operation;      /* the kind of operation that fails */
    int code;                      /* how */
    int countdown;                 /* operations of that kind until the failure; 0 = never */
    bool stays;                    /* every later one fails too */
    bool torn;                     /* a failing write still writes half of its bytes */
    int n_failed;
} disk;

/* Of the places at which a fault is tried, every nth; FAILURES=all in the environment: each. */
static inline int every(int nth)
{
    const char *failures = getenv("FAILURES");
    return failures && !strcmp(failures, "all") ? 1 : nth;
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

static int disk_read(sqlite3_file *f, void *out, int n, sqlite3_int64 offset)
{
    if (fails(READ)) return disk.code;
    return disk.io->xRead(f, out, n, offset);
}

static int disk_write(sqlite3_file *f, const void *bytes, int n, sqlite3_int64 offset)
{
    if (fails(WRITE)) {
        if (disk.torn && n > 1) disk.io->xWrite(f, bytes, n / 2, offset);
        return disk.code;
    }
    return disk.io->xWrite(f, bytes, n, offset);
}

static int disk_truncate(sqlite3_file *f, sqlite3_int64 n)
{
    if (fails(TRUNCATE)) return disk.code;
    return disk.io->xTruncate(f, n);
}

/* Never really syncs: the disk is simulated, and this keeps the test fast. */
static int disk_sync(sqlite3_file *f, int flags)
{
    if (fails(SYNC)) return disk.code;
    return SQLITE_OK;
}

static int disk_control(sqlite3_file *f, int what, void *arg)
{
    if (what == SQLITE_FCNTL_LAST_ERRNO && disk.operation == READ && disk.n_failed > 0) {
        *(int *)arg = EIO;
        return SQLITE_OK;
    }
    return disk.io->xFileControl(f, what, arg);
}

/* Does not promise that overwriting is safe, so that SQLite's own protections are tested. */
static int disk_traits(sqlite3_file *f)
{
    return 0;
}

static int share_map(sqlite3_file *f, int page, int n, int extend, void volatile **out)
{
    if (fails(SHARE)) return disk.code;
    return disk.io->xShmMap(f, page, n, extend, out);
}

static int disk_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *f, int flags, int *out)
{
    sqlite3_io_methods *m = &disk.methods[!(flags & SQLITE_OPEN_MAIN_DB)];
    f->pMethods = NULL;
    if (fails(OPEN)) return disk.code;
    int rc = disk.real->xOpen(disk.real, path, f, flags, out);
    if (rc != SQLITE_OK) return rc;
    if (flags & SQLITE_OPEN_MAIN_DB) disk.io = f->pMethods;
    *m = *f->pMethods;
    m->iVersion = 2;
    m->xRead = disk_read;
    m->xWrite = disk_write;
    m->xTruncate = disk_truncate;
    m->xSync = disk_sync;
    m->xFileControl = disk_control;
    m->xDeviceCharacteristics = disk_traits;
    if (m->xShmMap) m->xShmMap = share_map;
    f->pMethods = m;
    return SQLITE_OK;
}

static int disk_start(void **state)
{
    disk.real = sqlite3_vfs_find(NULL);
    if (!disk.real) return -1;
    disk.vfs = *disk.real;
    disk.vfs.zName = "fault";
    disk.vfs.xOpen = disk_open;
    return sqlite3_vfs_register(&disk.vfs, 1) == SQLITE_OK ? 0 : -1;
}

#endif
