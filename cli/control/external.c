#include "cli/control/external.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/control/edit_folder.h"

int external_write(int fd, const char *text, size_t n)
{
    while (n > 0) {
        ssize_t written = write(fd, text, n);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return -1;
        text += written;
        n -= (size_t)written;
    }
    return 0;
}

static void put_path(struct str *out, const char *path)
{
    const char *home = getenv("HOME");
    if (strncmp(path, "~/", 2) == 0 && home)
        str_printf(out, "%s%s", home, path + 1);
    else
        str_puts(out, path);
}

int external_attach(const char *argument, struct str *out, struct err *e)
{
    struct str name = {0}, full = {0};
    const char quote = *argument == '"' || *argument == '\'' ? *argument : ' ';
    const char *from = argument + (quote != ' '), *end = strchr(from, quote);
    if (!end) end = from + strlen(from);
    str_append(&name, from, (size_t)(end - from));
    put_path(&full, str_get(&name));
    int rc = name.n ? file_read(str_get(&full), FILE_MESSAGE, out, e)
                    : err_set(e, ERR_USAGE, "/file PATH [QUESTION]");
    if (!rc && memchr(str_get(out), 0, out->n))
        rc = err_set(e, ERR_FORMAT, "%s is not a text", str_get(&name));
    while (*end && strchr(" \"'\n", *end)) end++;
    if (!rc && *end) str_printf(out, "%s%s", out->n ? "\n\n" : "", end);
    str_release(&name);
    str_release(&full);
    return rc;
}

int external_save(const char *path, const char *text, size_t n, struct err *e)
{
    struct str full = {0};
    put_path(&full, path);
    int rc = 0, fd = open(str_get(&full), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool failed = fd < 0 || external_write(fd, text, n) || fsync(fd);
    if (failed) rc = err_set(e, ERR_FAIL, "cannot write %s: %s", path, strerror(errno));
    /* an incomplete file must not be mistaken for a complete one */
    if (failed && fd >= 0) unlink(full.data);
    if (fd >= 0) close(fd);
    str_release(&full);
    return rc;
}

static void run_child(const char *path, int in, int out)
{
    struct str command = {0};
    const char *editor = getenv("VISUAL");
    sigset_t none;
    if (!editor || !*editor) editor = getenv("EDITOR");
    if (!editor || !*editor) editor = "vi";
    /* the variable may contain options, so a shell splits it; the path is a separate argument */
    str_printf(&command, "%s \"$1\"", editor);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    signal(SIGTTOU, SIG_DFL);
    if (in >= 0) {
        dup2(in, STDIN_FILENO);
        dup2(out, STDOUT_FILENO);
        dup2(out, STDERR_FILENO);
    }
    execl("/bin/sh", "sh", "-c", command.data, "sh", path, (char *)NULL);
    _exit(127);
}

static int wait_for(pid_t pid)
{
    int status = 0;
    for (;;) {
        pid_t got = waitpid(pid, &status, WUNTRACED);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (!WIFSTOPPED(status)) return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        kill(pid, SIGCONT); /* this program must not stop with it: an answer may be running */
    }
}

/* A process of its own, which outlives this program, and removes what the editor leaves if nobody
 * else will. */
static void watch_child(struct edit_folder *f, const char *path, int in, int out)
{
    const pid_t parent = getppid(), editor = fork();
    if (editor == 0) run_child(path, in, out);
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    const int status = editor > 0 ? wait_for(editor) : -1;
    if (getppid() != parent) edit_folder_remove(f);
    _exit(status < 0 ? 127 : status);
}

static int write_message(const char *path, const struct str *text, struct err *e)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool failed = fd < 0 || external_write(fd, str_get(text), text->n);
    if (fd >= 0 && close(fd)) failed = true;
    return failed ? err_set(e, ERR_FAIL, "cannot write %s: %s", path, strerror(errno)) : 0;
}

int external_edit(struct str *text, bool secret, int in, int out, struct err *e)
{
    struct edit_folder folder;
    struct str path = {0}, edited = {0};
    int rc = edit_folder_make(&folder, secret, e);
    if (rc) return rc;
    str_printf(&path, "%s/message.md", folder.path.data);
    rc = write_message(path.data, text, e);
    pid_t pid = rc ? -1 : fork();
    if (pid == 0 && secret) watch_child(&folder, path.data, in, out);
    if (pid == 0) run_child(path.data, in, out);
    int status = pid > 0 ? wait_for(pid) : -1;
    if (!rc && status != 0)
        rc = err_set(e, ERR_FAIL, "the editor ended with status %d; set VISUAL or EDITOR", status);
    if (!rc) rc = file_read(path.data, FILE_MESSAGE, &edited, e);
    if (!rc) {
        while (edited.n > 0 && edited.data[edited.n - 1] == '\n') edited.n--;
        str_clear(text);
        str_append(text, str_get(&edited), edited.n);
    }
    edit_folder_remove(&folder);
    str_release(&edited);
    str_release(&path);
    return rc;
}
