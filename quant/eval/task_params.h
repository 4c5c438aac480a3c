/* task_params: the text of a task on the command line: NAME, or NAME:key=value,key=value. */
#ifndef RETAIN_QUANT_EVAL_TASK_PARAMS_H
#define RETAIN_QUANT_EVAL_TASK_PARAMS_H

#include "base/err.h"

/* 0 = the task's own */
struct task_params {
    char name[32]; /* name of the task */
    int n_facts;   /* facts to remember */
    int n_depths;  /* places of a single fact, from the beginning to the end; one row for each */
};

/* ERR_USAGE names an unknown key; whether the task exists is not checked. */
int task_params_read(const char *text, struct task_params *out, struct err *e);

#endif
