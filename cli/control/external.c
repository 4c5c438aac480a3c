#include "cli/control/external.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/control/edit_folder.h"
#include "cli/print/num.h"

static void put_path(struct str *out, const char *path)
{
    const char *home = getenv("HOME");
    if (strncmp(path, "~/", 2) == 0 && home)
        str_printf(out, "%s%s", home, path + 1);
    else
        str_puts(out, path);
}

/* A name in quotes, or up to a blank; *after = the byte after it. */
static void take_name(const char *s, size_t n, struct str *name, size_t *after)
{
    const char quote = n > 0 && (*s == '"' || *s == '\'') ? *s : 0;
    size_t end = quote != 0, from = end;
    while (end < n && (quote ? s[end] != quote : !strchr(" \t\n", s[end]))) end++;
    str_clear(name);
    str_append(name, s + from, end - from);
    *after = end + (quote && end < n);
}

static int attach(const char *name, struct str *out, struct err *e)
{
    struct str full = {0}, text = {0};
    put_path(&full, name);
    int rc = file_read(str_get(&full), FILE_ATTACHED, &text, e);
    if (!rc && memchr(str_get(&text), 0, text.n))
        rc = err_set(e, ERR_FORMAT, "%s is not a text", name);
    if (!rc) attached_put(out, name, str_get(&text), text.n);
    str_release(&full);
    str_release(&text);
    return rc;
}

int external_attach(const char *argument, struct str *out, struct err *e)
{
    struct str name = {0};
    size_t after;
    take_name(argument, strlen(argument), &name, &after);
    int rc =
        name.n ? attach(str_get(&name), out, e) : err_set(e, ERR_USAGE, "/file PATH [QUESTION]");
    str_puts(out, argument + after + strspn(argument + after, " \n"));
    str_release(&name);
    return rc;
}

static bool is_file(const char *name)
{
    struct str full = {0};
    struct stat st;
    put_path(&full, name);
    bool is = !stat(str_get(&full), &st) && S_ISREG(st.st_mode);
    str_release(&full);
    return is;
}

/* Whether a name that no file has was meant as one. */
static bool is_path(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "_./~+-";
    size_t n = strlen(name);
    return strspn(name, allowed) == n && n > 1 && strpbrk(name, "./") && name[n - 1] != '.';
}

/* Whether s[0, n), which follows an @, is a decorator: the next line that is no decorator begins a
 * function or a class. */
static bool is_decorator(const char *s, size_t n)
{
    static const char *const words[] = {"def ", "class ", "async "};
    const char *end = s + n, *at = memchr(s, '\n', n);
    while (at && at < end) {
        at += strspn(at, " \t\n");
        if (*at != '@') break;
        at = memchr(at, '\n', (size_t)(end - at));
    }
    for (size_t i = 0; at && i < sizeof words / sizeof *words; i++)
        if (!strncmp(at, words[i], strlen(words[i]))) return true;
    return false;
}

/* Whether the message contains the file already. A message that is sent again does. */
static bool has_file(const char *s, size_t n, const char *name)
{
    struct attached file;
    for (size_t at = 0; attached_next(s, n, &at, &file);)
        if (file.n_name == strlen(name) && !memcmp(file.name, name, file.n_name)) return true;
    return false;
}

/* The file that s[0, n), after an @, names; punctuation after it does not belong to the name. */
static int mention(const char *s, size_t n, const struct str *message, struct str *out,
                   struct err *e)
{
    struct str name = {0};
    size_t after;
    int rc = 0;
    take_name(s, n, &name, &after);
    while (name.n && !is_file(name.data) && strchr(".,;:!?)]}'\"", name.data[name.n - 1]))
        name.data[--name.n] = 0;
    if (name.n && is_file(name.data)) {
        bool has = has_file(str_get(message), message->n, name.data) ||
                   has_file(str_get(out), out->n, name.data);
        if (!has) rc = attach(name.data, out, e);
    } else if (is_path(str_get(&name)) && !is_decorator(s, n)) {
        rc = err_set(e, ERR_FAIL, "there is no file %.200s; @@ sends an @", name.data);
    }
    str_release(&name);
    return rc;
}

int external_message(const char *text, size_t n, struct str *out, struct err *e)
{
    struct str said = {0}, files = {0};
    const struct str message = {.data = (char *)(uintptr_t)text, .n = n};
    size_t begins = attached_skip(text, n);
    bool code = false;
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        bool word = i == 0 || strchr(" \t\n", text[i - 1]);
        if ((i == 0 || text[i - 1] == '\n') && n - i >= 3 && !memcmp(text + i, "```", 3))
            code = !code;
        bool at = i >= begins && !code && word && text[i] == '@' && i + 1 < n;
        if (at && text[i + 1] == '@')
            i++;
        else if (at)
            rc = mention(text + i + 1, n - i - 1, &message, &files, e);
        str_append(&said, text + i, 1);
    }
    if (!rc) str_append(out, str_get(&files), files.n);
    if (!rc) str_append(out, str_get(&said), said.n);
    str_release(&said);
    str_release(&files);
    return rc;
}

void external_label(const struct attached *f, int64_t n_tokens, bool ascii, struct str *out)
{
    char bytes[NUM_MAX], tokens[NUM_MAX];
    const char *dot = ascii ? ", " : " · ";
    str_printf(out, "%.*s%s%s", (int)f->n_name, f->name, dot, num_bytes((int64_t)f->n_text, bytes));
    if (n_tokens > 0) str_printf(out, "%s%s tokens", dot, num_exact(n_tokens, tokens));
}

int external_save(const char *path, const char *text, size_t n, struct err *e)
{
    struct str full = {0};
    put_path(&full, path);
    int rc = file_make(str_get(&full), text, n, e);
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

/* The process around the editor. It outlives this program, and removes the editor's files if this
 * program was killed. */
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

int external_edit(struct str *text, bool secret, int in, int out, struct err *e)
{
    struct edit_folder folder;
    struct str path = {0}, edited = {0};
    int rc = edit_folder_make(&folder, secret, e);
    if (rc) return rc;
    str_printf(&path, "%s/message.md", folder.path.data);
    rc = file_make(path.data, str_get(text), text->n, e);
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
