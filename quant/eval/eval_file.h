/* eval_file: asks the questions of a file (quant/files/questions.h), each in a new conversation,
 * and scores the answers by the file's metric. */
#ifndef RETAIN_QUANT_EVAL_EVAL_FILE_H
#define RETAIN_QUANT_EVAL_EVAL_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "base/str.h"
#include "quant/eval/eval_row.h"
#include "quant/eval/judge.h"

struct engine;
struct results;
struct session_opts;

enum eval_as {
    EVAL_AS_PROMPT,       /* document and question as one message */
    EVAL_AS_CONVERSATION, /* the document as turns, then the question */
};

struct eval_file {
    const char *path;
    enum eval_as as;
    int n_items;         /* at most; 0 = all */
    int64_t compression; /* the budget is the prompt's length by this; 0 = session->plan.budget */
    int64_t length;      /* longer prompts are cut in the middle; 0 = never */
    struct engine *engine;
    const struct session_opts *session; /* of this combination */
    struct results *results;            /* NULL = nothing is kept */
    const cJSON *run;                   /* the combination, as results keeps it */
    bool print;                         /* each answer as a line of JSON */
};

/* A part of the items, by length, category or depth. */
struct eval_group {
    struct str name;
    struct judge_tally scores; /* 0 … 1 */
};

struct eval_file_result { /* zero-initialise */
    struct str task;      /* "hotpotqa", the file's name */
    const char *metric;
    struct eval_group all, *groups;
    int n_groups;
    double length;         /* mean tokens of a prompt */
    struct eval_cost cost; /* means, but for the bytes */
};

/* ERR_STOP when interrupted. The caller releases *out in any case. */
int eval_file_run(const struct eval_file *f, struct eval_file_result *out, struct err *e);
void eval_file_result_release(struct eval_file_result *r);

/* Whether an argument of eval is a file, not a task: it has a slash, or ends in .json or .jsonl. */
bool eval_is_file(const char *argument);

#endif
