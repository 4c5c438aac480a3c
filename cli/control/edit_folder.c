#include "cli/control/edit_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "cli/options/paths.h"

#define PREFIX "edit-"

/* Opens and locks a folder; -1 = it is in use, or is none. */
static int take(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    for (struct dirent *d; folder && (d = readdir(folder));)
        if (strcmp(d->d_name, ".") && strcmp(d->d_name, ".."))
            unlinkat(dirfd(folder), d->d_name, 0);
    if (folder) closedir(folder);
    rmdir(path);
}

int edit_folder_make(struct edit_folder *f, struct err *e)
{
    *f = (struct edit_folder){.fd = -1};
    int rc = path_state(PREFIX "XXXXXX", &f->path, e);
    if (!rc && !mkdtemp(f->path.data)) /* 0700 */
        rc = err_set(e, ERR_FAIL, "cannot make folder %s: %s", f->path.data, strerror(errno));
    if (!rc) f->fd = take(f->path.data);
    if (!rc && f->fd < 0) {
        rc = err_set(e, ERR_FAIL, "cannot lock folder %s: %s", f->path.data, strerror(errno));
        rmdir(f->path.data);
    }
    if (rc) str_release(&f->path);
    return rc;
}

void edit_folder_remove(struct edit_folder *f)
{
    remove_folder(f->path.data);
    close(f->fd);
    str_release(&f->path);
}

void edit_folders_clean(void)
{
    struct str path = {0};
    struct err ignored;
    DIR *state = path_state_find("", &path, &ignored) ? NULL : opendir(path.data);
    size_t n = path.n;
    for (struct dirent *d; state && (d = readdir(state));) {
        if (strncmp(d->d_name, PREFIX, strlen(PREFIX)) != 0) continue;
        path.n = n;
        str_puts(&path, d->d_name);
        int fd = take(path.data);
        if (fd < 0) continue;
        remove_folder(path.data);
        close(fd);
    }
    if (state) closedir(state);
    str_release(&path);
}
