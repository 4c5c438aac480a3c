/* eval_run: runs one combination of `retain eval`'s lists: a session reads a task, seed by seed,
 * answers greedily, and the values in its answers are counted. */
#ifndef RETAIN_QUANT_EVAL_EVAL_RUN_H
#define RETAIN_QUANT_EVAL_EVAL_RUN_H

#include <stdint.h>

#include "base/err.h"
#include "quant/eval/eval_row.h"

struct cJSON;
struct engine;
struct results;
struct session;
struct session_opts;
struct session_recalled;
struct session_sink;
struct str;
struct task;

/* A question that was answered. */
struct eval_answer {
    uint64_t seed;
    int number; /* of the question in its seed, from 1 */
    const char *question, *answer;
    const char *const *values; /* [n_values] the contents of a right answer */
    int n_values;
    double right;                            /* share of the values that the answer contains */
    double nats;                             /* of the value, if its first words were given */
    const struct session_recalled *recalled; /* NULL: the answer was not generated */
};

struct eval_run {
    struct engine *engine;
    const struct task *task;
    int n_facts;                        /* to remember; 0 = the task's own */
    const struct session_opts *session; /* of this combination */
    const char *text;                   /* an essay or conversations; NULL = none */
    int64_t length;                     /* tokens before the questions */
    double depth; /* of a single thing, 0 … 1; < 0 = seeds sweep from start to end */
    uint64_t first_seed;
    int n_seeds;
    struct results *results; /* keeps each seed; NULL = nothing is kept */
    const struct cJSON *run; /* the combination, as results keeps it */
    void (*answered)(void *ctx, const struct eval_answer *a); /* NULL = not wanted */
    void *ctx;
};

/* Fills in all but the columns of the settings: the accuracy is the mean over seeds, its spread
 * their standard deviation, and a question counts by the share of its values. ERR_STOP when
 * interrupted. */
int eval_run_once(const struct eval_run *t, struct eval_row *out, struct err *e);

/* The passages that returned for an answer, as a list of texts. */
struct cJSON *eval_passages(const struct session_recalled *r);

/* For eval_file.c: a sink that appends the answer, and stops when the user interrupts; a turn that
 * is only read; what a session took. */
struct session_sink eval_sink(struct str *answer);
int eval_tell(struct session *s, const char *user, const char *assistant, struct err *e);
struct eval_cost eval_cost_of(const struct session *s);
/* Adds the cost of one more of n: means, but the most of the bytes. */
void eval_cost_add(struct eval_cost *all, struct eval_cost c, double n);

#endif
