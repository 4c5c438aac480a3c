/* One writer per conversation: an open-file-description lock on byte `id` of "FILE.lock".
 *
 * Such a lock belongs to the descriptor, so it ends with the process however the process ends, and
 * two stores in one process exclude each other as well. The file is never removed: otherwise two
 * processes could lock two different files of the same name. It holds nothing but the reserve: room
 * on the disk that store_free_reserve returns when the disk is full. */
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/check.h"
#include "base/str.h"
#include "store/db.h"

#define RESERVE ((off_t)1 << 20)

static int open_beside(const char *path, int flags)
{
    struct str name = {0};
    str_printf(&name, "%s.lock", path);
    int fd = open(name.data, O_RDWR | O_CLOEXEC | flags, 0600);
    str_release(&name);
    return fd;
}

static int open_lock_file(struct store *s, struct err *e)
{
    struct stat st;
    if (s->lock_fd >= 0) return 0;
    s->lock_fd = open_beside(s->path, O_CREAT);
    if (s->lock_fd < 0)
        return err_set(e, ERR_FAIL, "cannot make %s.lock: %s; allow writing to its folder",
                       s->shown, strerror(errno));
    if (!fstat(s->lock_fd, &st) && st.st_size < RESERVE)
        (void)posix_fallocate(s->lock_fd, 0, RESERVE); /* without room there is no reserve */
    return 0;
}

void store_free_reserve(const char *path)
{
    struct statvfs disk;
    int fd = open_beside(path, 0);
    if (fd < 0) return;
    if (!fstatvfs(fd, &disk) && disk.f_bavail * disk.f_frsize < RESERVE) (void)!ftruncate(fd, 0);
    close(fd);
}

static int set_lock(struct store *s, int64_t conversation, short type)
{
    struct flock f = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)conversation, .l_len = 1};
    return fcntl(s->lock_fd, F_OFD_SETLK, &f);
}

/* A lock that is taken twice is held once. */
static void exchange(struct store *s, int64_t from, int64_t to)
{
    if (to && store_holds(s, to)) return;
    for (size_t i = 0; i < sizeof s->held / sizeof s->held[0]; i++)
        if (s->held[i] == from) {
            s->held[i] = to;
            return;
        }
}

bool store_holds(const struct store *s, int64_t conversation)
{
    for (size_t i = 0; i < sizeof s->held / sizeof s->held[0]; i++)
        if (s->held[i] == conversation) return true;
    return false;
}

int store_lock(struct store *s, int64_t conversation, struct err *e)
{
    int rc = open_lock_file(s, e);
    if (!rc && set_lock(s, conversation, F_WRLCK) == 0) {
        exchange(s, 0, conversation);
        CHECK(db_check(s));
        return 0;
    }
    if (rc) return rc;
    int why = errno;
    const struct db_name name = db_conversation_name(s, conversation);
    if (why == EAGAIN || why == EACCES)
        return err_set(
            e, ERR_FAIL,
            "conversation '%s' is open in another retain; close it there, or start a new "
            "one with --new; `retain show` prints its text",
            name.text);
    return err_set(e, ERR_FAIL, "conversation '%s' cannot be locked in %s.lock: %s%s", name.text,
                   s->shown, strerror(why),
                   why == ENOLCK || why == ENOSYS || why == EOPNOTSUPP
                       ? "; choose a file on a local disk with --db FILE"
                       : "");
}

void store_unlock(struct store *s, int64_t conversation)
{
    if (s->lock_fd >= 0) set_lock(s, conversation, F_UNLCK);
    exchange(s, conversation, 0);
}
