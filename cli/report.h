/* report: what the workbench's commands share: errors, interruption, JSON lines and text input. */
#ifndef RETAIN_CLI_REPORT_H
#define RETAIN_CLI_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "base/str.h"

struct options;

/* "retain: text" on stderr; returns the exit status. */
int report_error(const struct err *e);
void report_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Prints one JSON object on a line of its own and frees it. */
void report_json(cJSON *o);

/* The text of -p or -f; ERR_USAGE when neither was given. */
int report_text(const struct options *o, struct str *out, struct err *e);

/* Item i of a list of whole numbers from `min` on: 0, 1 past the end, or ERR_USAGE naming the
 * option. */
int report_number(const char *list, int i, const char *option, int64_t min, int64_t *out,
                  struct err *e);

/* A bar on stderr, where that is a terminal. */
struct report_bar {
    const char *what;
    bool shown;
    int64_t last_ns;
};
struct report_bar report_bar(const char *what);
/* ctx: a report_bar. Returns non-zero when the person interrupts. */
int report_bar_show(void *ctx, int64_t done, int64_t total);
void report_bar_end(const struct report_bar *p);

/* Ctrl-C stops at the next step instead of ending the process. */
void report_catch_interrupt(void);
bool report_interrupted(void);

#endif
