/* pty: a program on a terminal that the test controls: its output as it arrives, keys as they are
 * typed. The terminal answers like an xterm, but only after it has read a question: over a slow
 * link the answers are late. */
#ifndef RETAIN_TESTS_TUI_PTY_H
#define RETAIN_TESTS_TUI_PTY_H

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"

struct pty {
    int fd;
    pid_t pid;
    struct str bytes; /* all output read so far */
    size_t answered;  /* bytes of it that were checked for questions */
    bool mute;        /* never answers */
};

static inline int64_t pty_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* argv ends with NULL. The child's files go to `home`. */
static inline bool pty_start(struct pty *p, int w, int h, const char *home, char *const *argv)
{
    struct winsize size = {.ws_col = (unsigned short)w, .ws_row = (unsigned short)h};
    *p = (struct pty){0};
    p->pid = forkpty(&p->fd, NULL, NULL, &size);
    if (p->pid == 0) {
        setenv("TERM", "xterm-256color", 1);
        setenv("LC_ALL", "C.UTF-8", 1);
        setenv("HOME", home, 1);
        setenv("XDG_DATA_HOME", home, 1);
        setenv("XDG_STATE_HOME", home, 1);
        setenv("XDG_CONFIG_HOME", home, 1);
        unsetenv("NO_COLOR");
        execv(argv[0], argv);
        _exit(127);
    }
    return p->pid > 0;
}

static inline void pty_type(struct pty *p, const char *keys)
{
    ssize_t n = write(p->fd, keys, strlen(keys));
    (void)n;
}

static inline void pty_answer(struct pty *p)
{
    static const struct {
        const char *question, *answer;
    } rows[] = {{"\033[?2026$p", "\033[?2026;2$y"},
                {"\033]11;?\033\\", "\033]11;rgb:0000/0000/0000\033\\"},
                {"\033[5n", "\033[0n"}};
    if (p->mute) p->answered = p->bytes.n;
    for (; p->answered < p->bytes.n; p->answered++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            size_t n = strlen(rows[i].question);
            /* a question is answered when its last byte has arrived */
            if (p->answered + 1 >= n &&
                memcmp(p->bytes.data + p->answered + 1 - n, rows[i].question, n) == 0)
                pty_type(p, rows[i].answer);
        }
}

/* Reads available bytes, at most n, waiting this long for the first; false: none arrived. */
static inline bool pty_read(struct pty *p, int wait_ms, size_t n)
{
    char bytes[65536];
    struct pollfd fd = {.fd = p->fd, .events = POLLIN};
    if (poll(&fd, 1, wait_ms) <= 0) return false;
    ssize_t got = read(p->fd, bytes, n < sizeof bytes ? n : sizeof bytes);
    if (got <= 0) return false;
    str_append(&p->bytes, bytes, (size_t)got);
    pty_answer(p);
    return true;
}

static inline bool pty_shows(const struct pty *p, size_t from, const char *text)
{
    return p->bytes.n > from && memmem(p->bytes.data + from, p->bytes.n - from, text, strlen(text));
}

/* Reads until the bytes from `from` on contain a text; false after two minutes. */
static inline bool pty_wait(struct pty *p, size_t from, const char *text)
{
    int64_t limit = pty_clock_ns() + INT64_C(120000000000);
    while (!pty_shows(p, from, text)) {
        if (pty_clock_ns() > limit) return false;
        pty_read(p, 100, sizeof(char[65536]));
    }
    return true;
}

/* Hangs up; returns the program's exit status, or -1. */
static inline int pty_stop(struct pty *p)
{
    int status = 0;
    kill(p->pid, SIGTERM);
    for (;;) { /* drains the output: a full terminal must not keep it from exiting */
        pid_t gone = waitpid(p->pid, &status, WNOHANG);
        if (gone != 0) break;
        pty_read(p, 20, sizeof(char[65536]));
    }
    close(p->fd);
    str_release(&p->bytes);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#endif
