#include "tui/text/draft.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"

/* The file: texts, each with a NUL at its end; first the queued ones, last the draft. Before them:
 * TALK_MARK, a byte that no text begins with, and the name of the conversation; without both, the
 * texts are for a new conversation. */
enum { TALK_MARK = '\001', SAME_PID_MAX = 100 };

static bool lock_file(int fd)
{
    return flock(fd, LOCK_EX | LOCK_NB) == 0;
}

static const char *talk_of(const struct str *content)
{
    const char *s = str_get(content);
    return s[0] == TALK_MARK ? s + 1 : "";
}

static void give(const struct str *content, draft_found *found, void *ctx)
{
    const char *s = str_get(content);
    for (size_t at = s[0] == TALK_MARK ? strlen(s) + 1 : 0; at < content->n;) {
        size_t n = strnlen(s + at, content->n - at);
        bool queued = at + n + 1 < content->n;
        if (n > 0) found(ctx, s + at, n, queued);
        at += n + 1;
    }
}

static void read_all(int fd, struct str *out)
{
    char buffer[65536];
    ssize_t n;
    while ((n = read(fd, buffer, sizeof buffer)) > 0) str_append(out, buffer, (size_t)n);
}

static int is_draft(const struct dirent *entry)
{
    return strncmp(entry->d_name, "draft-", 6) == 0 && !strchr(entry->d_name, '~');
}

void draft_adopt(const char *folder, const char *talk, draft_found *found, void *ctx)
{
    struct dirent **names;
    int n = folder ? scandir(folder, &names, is_draft, alphasort) : -1;
    for (int i = 0; i < n; i++) {
        struct str path = {0}, content = {0};
        str_printf(&path, "%s/%s", folder, names[i]->d_name);
        int fd =
            file_open_locked(path.data, 0600); /* a running program holds the lock of its own */
        if (fd >= 0) read_all(fd, &content);
        if (fd >= 0 && strcmp(talk_of(&content), talk) == 0) {
            unlink(path.data);
            str_puts(&path, "~");
            unlink(path.data); /* it may have been killed while saving */
            give(&content, found, ctx);
        }
        if (fd >= 0) close(fd);
        str_release(&content);
        str_release(&path);
        free(names[i]);
    }
    if (n >= 0) free(names);
}

void draft_open(struct draft *d, const char *folder)
{
    struct str path = {0};
    *d = (struct draft){.fd = -1};
    if (!folder) return;
    for (int i = 0; i < SAME_PID_MAX && d->fd < 0;
         i++) { /* others may wait for their conversation */
        str_clear(&path);
        str_printf(&path, "%s/draft-%ld-%d", folder, (long)getpid(), i);
        d->fd = open(path.data, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    }
    if (d->fd < 0) {
        str_release(&path);
        return;
    }
    lock_file(d->fd);
    d->path = path.data;
}

/* A kill must leave the old or the new text, not half of one: the new content replaces the file as
 * a whole, and is locked before it gets the name. */
static int replace(struct draft *d, const struct str *content)
{
    struct str path = {0};
    str_printf(&path, "%s~", d->path);
    int fd = open(path.data, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool ok = fd >= 0 && lock_file(fd) && file_write(fd, content->data, content->n) == 0 &&
              rename(path.data, d->path) == 0;
    if (!ok) unlink(path.data);
    if (!ok && fd >= 0) close(fd);
    str_release(&path);
    if (!ok) return -1;
    close(d->fd); /* releases the old file's lock too */
    d->fd = fd;
    return 0;
}

bool draft_differs(const struct draft *d, const char *talk, uint64_t version)
{
    return d->path && (version != d->version || strcmp(talk, str_get(&d->talk)) != 0);
}

void draft_save(struct draft *d, const char *talk, uint64_t version, const struct str *queue,
                int n_queue, const struct str *text)
{
    struct str content = {0};
    if (!draft_differs(d, talk, version)) return;
    if (talk[0]) str_printf(&content, "%c%s", TALK_MARK, talk);
    if (talk[0]) str_append(&content, "", 1);
    for (int i = 0; i < n_queue; i++) str_append(&content, str_get(&queue[i]), queue[i].n + 1);
    str_append(&content, str_get(text), text->n + 1);
    if (replace(d, &content) == 0) {
        d->version = version;
        str_clear(&d->talk);
        str_puts(&d->talk, talk);
    }
    str_release(&content);
}

void draft_close(struct draft *d, bool keep)
{
    if (d->path && !keep) unlink(d->path);
    if (d->fd >= 0) close(d->fd);
    free(d->path);
    str_release(&d->talk);
    *d = (struct draft){.fd = -1};
}
