/* failing: loaded before the libraries of a program (LD_PRELOAD), it counts the program's system
 * calls or allocations and makes one of them fail, once. The file RETAIN_FAILING holds a struct
 * failing, which test_calls.c sets and reads. The errors are the usual ones of each call: a full
 * disk for writes, a broken disk for reads and syncs, no descriptors, no locks, no memory. */
#include "tests/fault/failing.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fault/preload.h"

static struct failing *shared;

/* Whether this call is the one that fails. */
static bool fails(enum failing_kind kind, const char *name, int error)
{
    if (!shared || shared->kind != kind) return false;
    if (__atomic_add_fetch(&shared->n_calls, 1, __ATOMIC_RELAXED) != shared->at) return false;
    strncpy(shared->name, name, sizeof shared->name - 1);
    if (shared->kills) kill(getpid(), SIGKILL);
    errno = error;
    return true;
}

/* RETURN NAME(PARAMETERS), called with ARGUMENTS; fails with ERROR if CONDITION. */
#define CALL(type, name, parameters, arguments, condition, failed, error)                      \
    type name parameters;                                                                      \
    type name parameters                                                                       \
    {                                                                                          \
        static type(*real) parameters;                                                         \
        if (!real) real = (type(*) parameters)next(#name);                                     \
        return (condition) && fails(FAILING_SYSTEM, #name, error) ? (failed) : real arguments; \
    }

CALL(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n), fd > 2, -1, ENOSPC)
CALL(ssize_t, pwrite, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at), true, -1, ENOSPC)
CALL(ssize_t, pwrite64, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at), true, -1,
     ENOSPC)
CALL(ssize_t, read, (int fd, void *p, size_t n), (fd, p, n), fd > 2, -1, EIO)
CALL(ssize_t, pread, (int fd, void *p, size_t n, off_t at), (fd, p, n, at), true, -1, EIO)
CALL(ssize_t, pread64, (int fd, void *p, size_t n, off_t at), (fd, p, n, at), true, -1, EIO)
CALL(int, fsync, (int fd), (fd), true, -1, EIO)
CALL(int, fdatasync, (int fd), (fd), true, -1, EIO)
CALL(int, ftruncate, (int fd, off_t n), (fd, n), true, -1, EIO)
CALL(int, ftruncate64, (int fd, off_t n), (fd, n), true, -1, EIO)
CALL(int, posix_fallocate, (int fd, off_t at, off_t n), (fd, at, n), true, ENOSPC, ENOSPC)
CALL(int, rename, (const char *a, const char *b), (a, b), true, -1, EACCES)
CALL(int, unlink, (const char *path), (path), true, -1, EACCES)
CALL(int, mkdir, (const char *path, mode_t mode), (path, mode), true, -1, EACCES)
CALL(int, access, (const char *path, int mode), (path, mode), true, -1, EACCES)
CALL(int, stat, (const char *path, struct stat *out), (path, out), true, -1, EACCES)
CALL(int, lstat, (const char *path, struct stat *out), (path, out), true, -1, EACCES)
CALL(int, fstat, (int fd, struct stat *out), (fd, out), true, -1, EIO)
CALL(FILE *, fopen, (const char *path, const char *mode), (path, mode), true, NULL, EMFILE)
CALL(FILE *, fopen64, (const char *path, const char *mode), (path, mode), true, NULL, EMFILE)
CALL(void *, mmap, (void *p, size_t n, int prot, int flags, int fd, off_t at),
     (p, n, prot, flags, fd, at), true, MAP_FAILED, ENOMEM)
CALL(void *, mmap64, (void *p, size_t n, int prot, int flags, int fd, off_t at),
     (p, n, prot, flags, fd, at), true, MAP_FAILED, ENOMEM)
CALL(int, pthread_create, (pthread_t * out, const pthread_attr_t *a, void *(*f)(void *), void *ctx),
     (out, a, f, ctx), true, EAGAIN, EAGAIN)

/* Its third argument may be missing. */
#define FCNTL(name)                                                                       \
    int name(int fd, int command, ...);                                                   \
    int name(int fd, int command, ...)                                                    \
    {                                                                                     \
        static int (*real)(int, int, ...);                                                \
        va_list rest;                                                                     \
        va_start(rest, command);                                                          \
        void *p = va_arg(rest, void *);                                                   \
        va_end(rest);                                                                     \
        if (!real) real = (int (*)(int, int, ...))next(#name);                            \
        bool locks = command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK; \
        return locks && fails(FAILING_SYSTEM, #name, ENOLCK) ? -1 : real(fd, command, p); \
    }

OPEN(open, fails(FAILING_SYSTEM, "open", EMFILE) ? -1 : real(path, flags, mode))
OPEN(open64, fails(FAILING_SYSTEM, "open64", EMFILE) ? -1 : real(path, flags, mode))
FCNTL(fcntl)
FCNTL(fcntl64)

/* ---- memory ---------------------------------------------------------------------------------- */

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

void *malloc(size_t n)
{
    return fails(FAILING_MEMORY, "malloc", ENOMEM) ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return fails(FAILING_MEMORY, "calloc", ENOMEM) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    return fails(FAILING_MEMORY, "realloc", ENOMEM) ? NULL : __libc_realloc(p, n);
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("RETAIN_FAILING");
    struct failing *p = MAP_FAILED;
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd >= 0) p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
    if (p != MAP_FAILED) shared = p;
}
