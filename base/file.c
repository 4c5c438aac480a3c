#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"

#define MIB ((size_t)1 << 20)

static const struct {
    size_t max;
    bool regular;
} uses[] = {
    [FILE_SETTINGS] = {MIB, true},     [FILE_MESSAGE] = {16 * MIB, false},
    [FILE_RECORDS] = {16 * MIB, true}, [FILE_MODEL] = {64 * MIB, false},
    [FILE_DATA] = {64 * MIB, false},   [FILE_ATTACHED] = {16 * MIB, true},
};

size_t file_max(enum file_use use)
{
    return uses[use].max;
}

/* ---- opening --------------------------------------------------------------------------------- */

#define WAITS_MAX 60 /* of 50 ms */

/* Waits for a program that writes to the pipe `fd`, which does not block yet: reading returns 0
 * without one. *first: its first byte, -1 = none yet. */
static bool has_writer(int fd, int *first)
{
    for (int i = 0; i < WAITS_MAX; i++) {
        unsigned char byte;
        struct pollfd end = {.fd = fd, .events = POLLIN};
        ssize_t n = read(fd, &byte, 1);
        if (n > 0) *first = byte;
        if (n || (poll(&end, 1, 0) > 0 && end.revents & POLLHUP)) return true;
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    return false;
}

FILE *file_open(const char *path, enum file_use use, struct err *e)
{
    struct stat st;
    int first = -1, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st)) {
        err_set(e, ERR_FAIL, "%s cannot be opened: %s", path, strerror(errno));
    } else if (uses[use].regular && !S_ISREG(st.st_mode)) {
        err_set(e, ERR_FAIL, "%s is not a regular file", path);
    } else if (S_ISFIFO(st.st_mode) && !has_writer(fd, &first)) {
        err_set(e, ERR_FAIL, "%s is a pipe that no program writes to", path);
    } else {
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
        FILE *f = fdopen(fd, "r");
        if (f && first >= 0) ungetc(first, f);
        if (f) return f;
        err_set(e, ERR_FAIL, "%s cannot be opened: %s", path, strerror(errno));
    }
    if (fd >= 0) close(fd);
    return NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

int file_read(const char *path, enum file_use use, struct str *out, struct err *e)
{
    char part[65536];
    size_t n, read = 0;
    bool standard = !strcmp(path, "-");
    FILE *f = standard ? stdin : file_open(path, use, e);
    if (!f) return ERR_FAIL;
    /* after Ctrl-D a terminal could be read on */
    while (read <= uses[use].max && !feof(f) && (n = fread(part, 1, sizeof part, f)) > 0) {
        str_append(out, part, n);
        read += n;
    }
    int failed = ferror(f) ? errno : 0;
    if (!standard) fclose(f);
    if (failed) return err_set(e, ERR_FAIL, "%s cannot be read: %s", path, strerror(failed));
    if (read <= uses[use].max) return 0;
    return err_set(e, ERR_FAIL,
                   "%s is longer than %zu MiB; %zu bytes were read, and no more is taken",
                   standard ? "standard input" : path, uses[use].max / MIB, read);
}

ssize_t file_line(FILE *f, enum file_use use, char **line, size_t *cap)
{
    size_t n = 0;
    int c = 0;
    while (c != '\n' && (c = getc_unlocked(f)) != EOF) {
        if (n + 1 >= *cap) *line = memory_grow(*line, *cap = *cap ? 2 * *cap : 256, 1);
        (*line)[n++] = (char)c;
        if (n <= uses[use].max) continue;
        errno = EMSGSIZE;
        return -1;
    }
    if (n) (*line)[n] = 0;
    return n ? (ssize_t)n : -1;
}

/* ---- writing --------------------------------------------------------------------------------- */

int file_write(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t written = write(fd, bytes, n);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return -1;
        bytes += written;
        n -= (size_t)written;
    }
    return 0;
}

int file_make_folders(const char *path, struct err *e)
{
    struct str folder = {0};
    struct stat st;
    int rc = 0, why = 0;
    for (const char *end = strchr(path + 1, '/'); end && !rc; end = strchr(end + 1, '/')) {
        str_clear(&folder);
        str_append(&folder, path, (size_t)(end - path));
        /* EROFS or EACCES although it exists */
        if (mkdir(folder.data, 0700) && (why = errno) != EEXIST && stat(folder.data, &st))
            rc = err_set(e, ERR_FAIL, "cannot make the folder %.200s: %s", folder.data,
                         strerror(why));
    }
    str_release(&folder);
    return rc;
}

int file_open_locked(const char *path, mode_t mode)
{
    struct stat mine, named;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, mode), why = ESTALE;
    if (fd < 0) return -1;
    if (flock(fd, LOCK_EX | LOCK_NB))
        why = errno;
    else if (!fstat(fd, &mine) && S_ISREG(mine.st_mode) && !lstat(path, &named) &&
             mine.st_ino == named.st_ino && mine.st_dev == named.st_dev)
        return fd;
    close(fd);
    errno = why;
    return -1;
}

void file_sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct str folder = {0};
    str_append(&folder, slash ? path : ".", slash ? (size_t)(slash - path) + 1 : 1);
    int fd = open(folder.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) fsync(fd);
    if (fd >= 0) close(fd);
    str_release(&folder);
}

int file_make(const char *path, const char *bytes, size_t n, struct err *e)
{
    int rc = 0, fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool failed = fd < 0 || file_write(fd, bytes, n) || fsync(fd);
    if (failed) rc = err_set(e, ERR_FAIL, "cannot write %s: %s", path, strerror(errno));
    /* an incomplete file must not be mistaken for a complete one */
    if (failed && fd >= 0) unlink(path);
    if (fd >= 0) close(fd);
    return rc;
}
