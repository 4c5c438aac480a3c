/* recording: loaded into the program (LD_PRELOAD), it appends to the file RETAIN_RECORDING each
 * write, truncation, sync and removal of the database and its log, and marks where output appeared:
 * test_power.c builds from them what a disk may hold after a power cut. */
#include "tests/fault/recording.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/fault/preload.h"

enum { FDS = 1024 };

static int log_fd = -1;
static signed char files[FDS]; /* 1 + the file that a descriptor is open for; 0 = another */

static void note(enum recording_kind kind, int file, int64_t at, const void *bytes, size_t n)
{
    const struct recording r = {kind, file, at, n};
    const struct iovec parts[] = {{(void *)&r, sizeof r}, {(void *)bytes, n}};
    if (log_fd >= 0 && writev(log_fd, parts, 2) < 0) abort();
}

static int file_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (int i = 0; i < RECORDING_FILES; i++)
        if (!strcmp(name, recording_names[i])) return i;
    return -1;
}

static int file_at(int fd)
{
    return fd >= 0 && fd < FDS ? files[fd] - 1 : -1;
}

static int opened(int fd, const char *path)
{
    if (fd >= 0 && fd < FDS) files[fd] = (signed char)(1 + file_of(path));
    return fd;
}

#define WRITE(name)                                                                                \
    ssize_t name(int fd, const void *p, size_t n, off_t at);                                       \
    ssize_t name(int fd, const void *p, size_t n, off_t at)                                        \
    {                                                                                              \
        static ssize_t (*real)(int, const void *, size_t, off_t);                                  \
        if (!real) real = (ssize_t(*)(int, const void *, size_t, off_t))next(#name);               \
        ssize_t done = real(fd, p, n, at);                                                         \
        if (done > 0 && file_at(fd) >= 0) note(RECORDING_WRITE, file_at(fd), at, p, (size_t)done); \
        return done;                                                                               \
    }

#define TRUNCATE(name)                                                                      \
    int name(int fd, off_t n);                                                              \
    int name(int fd, off_t n)                                                               \
    {                                                                                       \
        static int (*real)(int, off_t);                                                     \
        if (!real) real = (int (*)(int, off_t))next(#name);                                 \
        int rc = real(fd, n);                                                               \
        if (rc == 0 && file_at(fd) >= 0) note(RECORDING_TRUNCATE, file_at(fd), n, NULL, 0); \
        return rc;                                                                          \
    }

#define SYNC(name)                                                                      \
    int name(int fd);                                                                   \
    int name(int fd)                                                                    \
    {                                                                                   \
        static int (*real)(int);                                                        \
        if (!real) real = (int (*)(int))next(#name);                                    \
        int rc = real(fd);                                                              \
        if (rc == 0 && file_at(fd) >= 0) note(RECORDING_SYNC, file_at(fd), 0, NULL, 0); \
        return rc;                                                                      \
    }

OPEN(open, opened(real(path, flags, mode), path))
OPEN(open64, opened(real(path, flags, mode), path))
WRITE(pwrite)
WRITE(pwrite64)
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)
SYNC(fsync)
SYNC(fdatasync)

int close(int fd)
{
    static int (*real)(int);
    if (!real) real = (int (*)(int))next("close");
    if (fd >= 0 && fd < FDS) files[fd] = 0;
    return real(fd);
}

int unlink(const char *path)
{
    static int (*real)(const char *);
    if (!real) real = (int (*)(const char *))next("unlink");
    int rc = real(path);
    if (rc == 0 && file_of(path) >= 0) note(RECORDING_REMOVE, file_of(path), 0, NULL, 0);
    return rc;
}

ssize_t write(int fd, const void *p, size_t n)
{
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = (ssize_t(*)(int, const void *, size_t))next("write");
    if (fd == 1) note(RECORDING_OUTPUT, 1, 0, p, n);
    return real(fd, p, n);
}

size_t fwrite(const void *p, size_t size, size_t n, FILE *out)
{
    static size_t (*real)(const void *, size_t, size_t, FILE *);
    if (!real) real = (size_t(*)(const void *, size_t, size_t, FILE *))next("fwrite");
    if (out == stderr) note(RECORDING_OUTPUT, 2, 0, p, size * n);
    return real(p, size, n, out);
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("RETAIN_RECORDING");
    if (path) log_fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}
