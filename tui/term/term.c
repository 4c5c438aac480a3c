#include "tui/term/term.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

/* The signal handler needs all of it, so it must be global. */
static struct {
    bool open;
    int in, out, error; /* duplicates of 0, 1, 2 */
    int log, signals;
    struct termios saved;
    sigset_t mask;
    const char *on, *off; /* of term_add_modes */
    bool mouse;
} term = {.in = -1, .out = -1, .error = -1, .log = -1, .signals = -1};

static const int crashes[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
enum { N_CRASHES = sizeof crashes / sizeof crashes[0] };

/* Ends: synchronized output, paste, mouse, keypad; leaves the second screen; shows the cursor. */
static const char restore_bytes[] =
    "\033[?2026l\033[?2004l\033[?1006l\033[?1000l\033[?1l\033>\033[0m\033[?1049l\033[?25h\r";

void term_write(const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t written = write(term.out, bytes, n);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return; /* the terminal was closed: nothing to write to */
        bytes += written;
        n -= (size_t)written;
    }
}

static void on_crash(int sig)
{
    if (term.off) term_write(term.off, strlen(term.off));
    term_write(restore_bytes, sizeof restore_bytes - 1);
    tcsetattr(term.in, TCSANOW, &term.saved);
    dup2(term.error, STDERR_FILENO);
    signal(sig, SIG_DFL);
    raise(sig);
}

static void catch_crashes(bool on)
{
    static char stack[65536]; /* a handler needs its own stack when the stack overflowed */
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction a = {.sa_handler = on ? on_crash : SIG_DFL,
                          .sa_flags = (int)(SA_ONSTACK | SA_NODEFER | SA_RESETHAND)};
    if (on) sigaltstack(&alternate, NULL);
    for (int i = 0; i < N_CRASHES; i++) sigaction(crashes[i], &a, NULL);
}

static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGQUIT);
    sigaddset(&set, SIGWINCH);
    sigaddset(&set, SIGTSTP);
    sigprocmask(SIG_BLOCK, &set, &term.mask);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTTOU, SIG_IGN);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int keep(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, 10);
}

int term_open(struct err *e)
{
    if (tcgetattr(STDIN_FILENO, &term.saved) != 0)
        return err_set(e, ERR_FAIL, "standard input is no terminal: %s", strerror(errno));
    term.in = keep(STDIN_FILENO);
    term.out = keep(STDOUT_FILENO);
    term.error = keep(STDERR_FILENO);
    term.log = memfd_create("retain-log", MFD_CLOEXEC);
    if (term.in < 0 || term.out < 0 || term.error < 0 || term.log < 0)
        return err_set(e, ERR_FAIL, "cannot take over the terminal: %s", strerror(errno));
    fcntl(term.log, F_SETFL, O_APPEND);
    dup2(term.log, STDOUT_FILENO);
    dup2(term.log, STDERR_FILENO);
    term.signals = open_signals();
    term.open = true;
    catch_crashes(true);
    return 0;
}

void term_close(void)
{
    if (!term.open) return;
    term.open = false;
    catch_crashes(false);
    term_modes(false);
    term.on = term.off = NULL;
    tcsetattr(term.in, TCSADRAIN, &term.saved);
    dup2(term.out, STDOUT_FILENO);
    dup2(term.error, STDERR_FILENO);
    close(term.in);
    close(term.out);
    close(term.error);
    close(term.signals);
    close(term.log);
    sigprocmask(SIG_SETMASK, &term.mask, NULL);
}

bool term_remember(void)
{
    return tcgetattr(STDIN_FILENO, &term.saved) == 0;
}

void term_rescue(void)
{
    ssize_t n = write(STDOUT_FILENO, restore_bytes, sizeof restore_bytes - 1);
    (void)n; /* a terminal that was closed needs nothing */
    tcsetattr(STDIN_FILENO, TCSADRAIN, &term.saved);
}

int term_in(void)
{
    return term.in;
}

int term_out(void)
{
    return term.out;
}

int term_signal_fd(void)
{
    return term.signals;
}

static void term_mouse_bytes(bool on)
{
    const char *bytes = on ? "\033[?1000h\033[?1006h" : "\033[?1006l\033[?1000l";
    term_write(bytes, strlen(bytes));
}

void term_modes(bool on)
{
    const char *bytes = on ? "\033[?2004h" : "\033[?2004l", *more = on ? term.on : term.off;
    term_write(bytes, strlen(bytes));
    if (more) term_write(more, strlen(more));
    if (term.mouse) term_mouse_bytes(on);
}

void term_mouse(bool on)
{
    term.mouse = on;
    term_mouse_bytes(on);
}

void term_add_modes(const char *on, const char *off)
{
    term.on = on;
    term.off = off;
    term_write(on, strlen(on));
}

bool term_size(int *w, int *h)
{
    struct winsize size;
    if (ioctl(term.out, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
        return false;
    *w = size.ws_col;
    *h = size.ws_row;
    return true;
}

void term_raw(void)
{
    struct termios raw = term.saved;
    cfmakeraw(&raw);
    tcsetattr(term.in, TCSADRAIN, &raw);
}

void term_lend(bool on)
{
    term_modes(!on);
    if (on)
        tcsetattr(term.in, TCSADRAIN, &term.saved);
    else
        term_raw();
}

void term_stop(void)
{
    sigset_t stop, before;
    struct sigaction ignore = {.sa_handler = SIG_DFL}, old;
    term_lend(true);
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    sigaction(SIGTSTP, &ignore, &old);
    raise(SIGTSTP); /* blocked: takes effect when the mask is restored */
    sigprocmask(SIG_UNBLOCK, &stop, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);
    sigaction(SIGTSTP, &old, NULL);
    term_lend(false);
}

void term_log(struct str *out)
{
    char buffer[4096];
    off_t end = lseek(term.log, 0, SEEK_END), at = end > 65536 ? end - 65536 : 0;
    ssize_t n;
    while ((n = pread(term.log, buffer, sizeof buffer, at)) > 0) {
        str_append(out, buffer, (size_t)n);
        at += n;
    }
}
