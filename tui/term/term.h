/* term: takes over the terminal, and restores it on every exit.
 *
 * Descriptors 1 and 2 point at a log while the screen is up: drivers print there and would spoil
 * the screen. A crash writes fixed bytes and restores the terminal's settings before the process
 * ends. */
#ifndef RETAIN_TUI_TERM_TERM_H
#define RETAIN_TUI_TERM_TERM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

/* One per process. Duplicates the terminal, redirects 1 and 2, installs the crash handlers and
 * blocks the signals that term_signal_fd delivers. */
int term_open(struct err *e);
void term_close(void); /* restores everything; a second call does nothing */

/* For a program that lets another process use this terminal (0 and 1): keeps its settings, and
 * restores them after that process was killed. */
bool term_remember(void); /* false: not a terminal */
void term_rescue(void);

int term_in(void); /* descriptors of the terminal */
int term_out(void);
int term_signal_fd(void); /* SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGWINCH, SIGTSTP */

void term_write(const char *bytes, size_t n); /* writes directly to the terminal */
void term_modes(bool on);                     /* bracketed paste */
/* Bytes sent together with the modes from now on, in a crash too. They must stay valid until
 * term_close. */
void term_add_modes(const char *on, const char *off);
/* Presses of buttons and turns of the wheel are reported (modes 1000 and 1006), or not. */
void term_mouse(bool on);
bool term_size(int *w, int *h);
void term_raw(void);            /* each key is a byte to be read; nothing is echoed */
void term_lend(bool on);        /* restores the original settings for another program */
void term_stop(void);           /* stops the process as Ctrl-Z would; returns when it continues */
void term_log(struct str *out); /* the log's last 64 KiB */

#endif
