/* report: what the workbench's commands share: errors, interruption, JSON lines and text input. */
#ifndef RETAIN_QUANT_REPORT_H
#define RETAIN_QUANT_REPORT_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "runtime/base/err.h"
#include "runtime/base/str.h"

struct options;

/* "retain: text" on stderr; returns the exit status. */
int report_error(const struct err *e);
void report_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Prints one JSON object on a line of its own and frees it. */
void report_json(cJSON *o);

/* The text of -p or -f; ERR_USAGE when neither was given. */
int report_text(const struct options *o, struct str *out, struct err *e);

/* Ctrl-C stops at the next step instead of ending the process. */
void report_catch_interrupt(void);
bool report_interrupted(void);

#endif
