/* task_params: the text of a task on the command line: NAME, or NAME:key=value,key=value. */
#ifndef RETAIN_QUANT_EVAL_TASK_PARAMS_H
#define RETAIN_QUANT_EVAL_TASK_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* 0 = the task's own */
struct task_params {
    char name[32]; /* of the task, or "ruler" */
    int n_facts;   /* things to be remembered */
    int n_depths;  /* places of a single thing, from the beginning to the end; one row for each */
    bool papers;   /* the papers' wording, instead of words that the demo model knows */
    int64_t report_every; /* tokens between two lines on speed and memory */
};

/* ERR_USAGE names an unknown key; the name is not looked up. */
int task_params_read(const char *text, struct task_params *out, struct err *e);

#endif
