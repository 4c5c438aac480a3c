/* report: prints every line of a command, and handles its interruption.
 *
 * Names, paths, keys and messages come from untrusted files. All output of commands goes through
 * these functions, so that none of it can steer a terminal (sanitize.h). stderr is always
 * sanitised; stdout is sanitised when it is a terminal, and unchanged when it is a file or a pipe.
 * tests/check_layers.sh refuses printf and its relatives elsewhere. Two streams have separate
 * functions: a model's answer (answer.h) and the screen (tui/term). */
#ifndef RETAIN_CLI_PRINT_REPORT_H
#define RETAIN_CLI_PRINT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "base/str.h"

/* ---- stderr ---------------------------------------------------------------------------------- */

/* "retain: text" and a newline. An error is one line and gives the exit status. */
int report_error(const struct err *e);
void report_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Text without "retain: "; it may have several lines. */
void report_aside(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- stdout ---------------------------------------------------------------------------------- */

/* One line; a newline inside a name is shown as a mark on a terminal. */
void report_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* One line that is the same in files and pipes. On a terminal the text between the bytes 2 and 3 is
 * bold; elsewhere these bytes are left out. */
void report_marked(const char *line);

/* Text that may have several lines. Nothing is added. */
void report_text(const char *text, size_t n);

/* Prints one JSON object on its own line and frees it. */
void report_json(cJSON *o);

/* Appends text to a line of a table, safe for terminals, padded to `columns` (0 = no padding). */
void report_cell(struct str *line, const char *text, int columns);

/* Call at the end of main: a full disk is an error. Returns the exit status. */
int report_finish(int status);

/* ---- a progress bar on stderr, if that is a terminal ----------------------------------------- */

struct report_bar {
    const char *what;
    bool shown;
    int64_t last_ns;
};
struct report_bar report_bar(const char *what);
/* ctx: a report_bar. Returns non-zero when the user interrupts. */
int report_bar_show(void *ctx, int64_t done, int64_t total);
void report_bar_end(const struct report_bar *p);

/* A line that the next one replaces; nothing if stderr is no terminal. report_status_end removes
 * it. */
void report_status(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void report_status_end(void);

/* ---- interruption ---------------------------------------------------------------------------- */

/* The first Ctrl-C, SIGTERM or SIGHUP stops the work at its next step; a second one ends the
 * process. */
void report_catch_interrupt(void);

/* For a chat: every Ctrl-C stops an answer and none ends the process; SIGPIPE is ignored. */
void report_catch_interrupts(void);
void report_clear_interrupt(void);

bool report_interrupted(void);

#endif
