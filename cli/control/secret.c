#include "cli/control/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <termios.h>
#include <unistd.h>

#include "cli/options/options.h"
#include "cli/options/paths.h"
#include "runtime/save/conversations.h"

/* The signal that arrived during the question; 0 = none. */
static volatile sig_atomic_t caught;

/* Reads one line from fd, without its end; false when there is none, or when a signal that only
 * `mask` allows is caught (NULL = none is). Reads byte by byte, so that nothing remains in a stdio
 * buffer. */
static bool read_line(int fd, const sigset_t *mask, char out[STORE_PASSPHRASE_MAX])
{
    struct pollfd input = {.fd = fd, .events = POLLIN};
    size_t n = 0;
    char c;
    for (;;) {
        if (mask && ppoll(&input, 1, NULL, mask) < 0) {
            if (caught) return false;
            continue;
        }
        ssize_t got = read(fd, &c, 1);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0 || c == '\n') {
            out[n] = 0;
            return got > 0 || n > 0;
        }
        if (n + 1 < STORE_PASSPHRASE_MAX && c != '\r') out[n++] = c;
    }
}

static int from_file(const char *path, char out[STORE_PASSPHRASE_MAX], struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return err_set(e, ERR_FAIL, "--passphrase-file %s: %s", path, strerror(errno));
    bool got = read_line(fd, NULL, out);
    close(fd);
    return got ? 0 : err_set(e, ERR_FAIL, "--passphrase-file %s is empty", path);
}

static void on_signal(int sig)
{
    caught = sig;
}

static bool ask_silently(int tty, const char *question, const sigset_t *mask,
                         char out[STORE_PASSPHRASE_MAX])
{
    struct termios before, silent;
    if (tcgetattr(tty, &before)) return false;
    silent = before;
    silent.c_lflag &= ~(tcflag_t)ECHO;
    if (write(tty, question, strlen(question)) < 0 || tcsetattr(tty, TCSAFLUSH, &silent))
        return false;
    bool got = read_line(tty, mask, out);
    tcsetattr(tty, TCSAFLUSH, &before);
    return write(tty, "\n", 1) == 1 && got;
}

/* A signal first ends the question, and then has its usual effect. */
static bool ask_once(int tty, const char *question, char out[STORE_PASSPHRASE_MAX])
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
    enum { N = sizeof signals / sizeof signals[0] };
    struct sigaction end = {.sa_handler = on_signal}, before[N];
    sigset_t asking, mask;
    sigemptyset(&asking);
    for (int i = 0; i < N; i++) sigaddset(&asking, signals[i]);
    sigprocmask(SIG_BLOCK, &asking, &mask); /* these signals arrive only while it waits */
    caught = 0;
    for (int i = 0; i < N; i++) sigaction(signals[i], &end, &before[i]);
    bool got = ask_silently(tty, question, &mask, out);
    for (int i = 0; i < N; i++) sigaction(signals[i], &before[i], NULL);
    if (caught) raise(caught);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    return got;
}

/* Asks without echo; asks again after a stop (Ctrl-Z). */
static bool ask_terminal(int tty, const char *question, char out[STORE_PASSPHRASE_MAX])
{
    bool got;
    do got = ask_once(tty, question, out);
    while (caught == SIGTSTP);
    return got;
}

static int from_terminal(bool fresh, char out[STORE_PASSPHRASE_MAX], struct err *e)
{
    int tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (tty < 0)
        return err_set(e, ERR_FAIL,
                       "there is no terminal to ask for the passphrase; use "
                       "--passphrase-file FILE");
    char *again = fresh ? store_secret_new() : NULL;
    int rc = 0;
    bool got = ask_terminal(tty, fresh ? "new passphrase: " : "passphrase: ", out);
    if (got && fresh) got = again && ask_terminal(tty, "once more: ", again);
    if (!got)
        rc = err_set(e, ERR_FAIL, "no passphrase was given");
    else if (fresh && strcmp(out, again))
        rc = err_set(e, ERR_FAIL, "the two passphrases differ; nothing was created");
    store_secret_free(again);
    close(tty);
    return rc;
}

/* No core file of this process, and no debugger of this user, sees its memory from now on. */
static void hide_memory(void)
{
    prctl(PR_SET_DUMPABLE, 0);
}

static int ask(void *ctx, bool fresh, char *out, struct err *e)
{
    const struct options *o = ctx;
    hide_memory();
    if (o->store.passphrase) {
        memcpy(out, o->store.passphrase, STORE_PASSPHRASE_MAX);
        return 0;
    }
    if (o->store.passphrase_file) return from_file(o->store.passphrase_file, out, e);
    return from_terminal(fresh, out, e);
}

bool secret_talk(const struct options *o, const struct conversations *l)
{
    return o->session.private_mode || conversations_is_encrypted(l);
}

int secret_open_library(struct conversations **out, const struct options *o, const char *path,
                        struct err *e)
{
    struct store_key key = {ask, (void *)(uintptr_t)o, o->store.encrypt};
    if (o->session.private_mode) hide_memory();
    return conversations_open(out, path, &key, e);
}

int secret_open_reading(struct conversations **out, const struct options *o, const char *path,
                        struct err *e)
{
    return secret_open_library(out, o, conversations_is_missing(path) ? NULL : path, e);
}

int secret_prepare(struct options *o, struct err *e)
{
    struct str path = {0};
    bool encrypted = false, fresh = false;
    if (o->session.private_mode || o->store.passphrase) return 0;
    int rc = path_database(o, &path, e);
    if (!rc) encrypted = store_probe(path.data, &fresh);
    str_release(&path);
    if (rc || !(encrypted || (o->store.encrypt && fresh))) return rc;
    char *secret = store_secret_new();
    rc = secret ? ask(o, !encrypted, secret, e) : err_set(e, ERR_FAIL, "no locked memory");
    if (rc)
        store_secret_free(secret);
    else
        o->store.passphrase = secret;
    return rc;
}

void secret_wipe(struct options *o)
{
    store_secret_free((char *)(uintptr_t)o->store.passphrase);
    o->store.passphrase = NULL;
}
