/* trace: the numbers of a conversation as it grew: speed, cache, evictions, sensors. One sample per
 * snapshot that has more tokens; when there are too many, every second one is dropped. */
#ifndef RETAIN_TUI_CHAT_TRACE_H
#define RETAIN_TUI_CHAT_TRACE_H

#include <stdint.h>

#include "runtime/session/session.h"
#include "tui/chat/waterfall.h"

#define TRACE_MAX 512

enum trace_line {
    TRACE_SPEED,   /* tok/s of the answer */
    TRACE_KEPT,    /* percent of all units */
    TRACE_WHOLE,   /* bytes they would take if nothing were evicted */
    TRACE_EVICTED, /* units since the last sample */
    TRACE_RETURNED,
    TRACE_PROCESS, /* bytes */
    TRACE_CELSIUS,
    TRACE_WATT,
    TRACE_LINES
};

struct trace_sample {
    int64_t n_tokens;
    double values[TRACE_LINES]; /* NAN = unknown */
};

struct trace {
    struct trace_sample samples[TRACE_MAX];
    int n;
    int64_t evicted, returned; /* totals of the last sample */
    int64_t step;              /* tokens between samples */
};

void trace_clear(struct trace *t);
void trace_add(struct trace *t, const struct session_stats *st, double celsius, double watt);
/* Begins an empty trace with the pictures that led to the present one. */
void trace_past(struct trace *t, const struct waterfall *past, const struct session_stats *now);

/* The mean, or the sum for evicted and returned, over the samples of part x of n parts of the
 * conversation's length; NAN = none. */
double trace_at(const struct trace *t, enum trace_line line, int x, int n);
double trace_last(const struct trace *t, enum trace_line line);
double trace_most(const struct trace *t, enum trace_line line);

#endif
