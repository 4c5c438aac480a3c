/* A file system that has no locks (NFS without its lock service) is told as that, not as another
 * program that holds one: SQLite calls both busy. */
#include "tests/test.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>

#include "store/store.h"

static bool no_locks;

/* In front of the C library's, for the program and for SQLite. */
int fcntl64(int fd, int command, ...);

static int control(int fd, int command, void *argument)
{
    static int (*real)(int, int, ...);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "fcntl");
    if (no_locks && (command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK)) {
        errno = ENOLCK;
        return -1;
    }
    return real(fd, command, argument);
}

#undef fcntl
int fcntl(int fd, int command, ...)
{
    va_list ap;
    va_start(ap, command);
    void *argument = va_arg(ap, void *);
    va_end(ap);
    return control(fd, command, argument);
}

int fcntl64(int fd, int command, ...)
{
    va_list ap;
    va_start(ap, command);
    void *argument = va_arg(ap, void *);
    va_end(ap);
    return control(fd, command, argument);
}

TEST(locks_that_fail_are_named)
{
    const char *path = path_in(folder_new(), "retain.db");
    struct store *s;
    ok(store_open(&s, path, NULL, &err));
    store_close(s);
    no_locks = true;
    assert_int_equal(store_open(&s, path, NULL, &err), ERR_FAIL);
    no_locks = false;
    assert_non_null(strstr(err.text, "its file system may have no locks"));
    assert_null(strstr(err.text, "another program"));
}
