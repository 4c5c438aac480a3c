#include "cli/control/edit_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/options/paths.h"

static const char *prefix(bool in_memory)
{
    return in_memory ? "retain-edit-" : "edit-";
}

/* Appends the folder that folders are made in; nothing is created. */
static int place(bool in_memory, struct str *out, struct err *e)
{
    const char *run = getenv("XDG_RUNTIME_DIR");
    if (!in_memory) return path_find(PATH_STATE, "", out, e);
    str_printf(out, "%s/", run && *run ? run : "/dev/shm");
    return 0;
}

/* Opens and locks a folder of this user; -1 = it is in use, or is none. */
static int take(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd >= 0 && (fstat(fd, &st) || st.st_uid != geteuid() || flock(fd, LOCK_EX | LOCK_NB))) {
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

int edit_folder_make(struct edit_folder *f, bool in_memory, struct err *e)
{
    *f = (struct edit_folder){.fd = -1};
    int rc = place(in_memory, &f->path, e);
    if (!rc) str_printf(&f->path, "%sXXXXXX", prefix(in_memory));
    if (!rc && !in_memory) rc = file_make_folders(f->path.data, e);
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

static void clean(bool in_memory)
{
    struct str path = {0};
    DIR *state = place(in_memory, &path, NULL) ? NULL : opendir(path.data);
    size_t n = path.n;
    for (struct dirent *d; state && (d = readdir(state));) {
        if (strncmp(d->d_name, prefix(in_memory), strlen(prefix(in_memory))) != 0) continue;
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

void edit_folders_clean(void)
{
    clean(false);
    clean(true);
}
