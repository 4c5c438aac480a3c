/* benchmark: the published formats of files with documents, questions and answers, as one table:
 * fields, prompts, lengths of answers, metrics. A file is recognised by its fields and its name.
 *
 *   infinitebench   InfiniteBench, prompts of its open models, all tasks
 *   longbench       LongBench and LongBench-E
 *   longbench-v2    LongBench v2
 *   leval           L-Eval: closed and open tasks
 *   ruler           RULER, files made by its generators
 *   longmemeval     LongMemEval
 *   locomo          LoCoMo, questions and answers
 *   niah            a needle in a haystack: context, needle, retrieval_question
 *   plain           context, question, answers, and optionally metric, options, id, max_tokens */
#ifndef RETAIN_QUANT_FILES_BENCHMARK_H
#define RETAIN_QUANT_FILES_BENCHMARK_H

#include "quant/files/item.h"
#include "quant/files/records.h"

/* A row of the table: one task of one benchmark. */
struct benchmark_task {
    const char *benchmark;
    const char *name;   /* the beginning of the file's name, or of its field `dataset` */
    const char *prompt; /* with {FIELD}s; {context} once */
    int n_predict;
    const char *metric;
    enum item_cut cut;
    bool raw, first_line;
    const char *prefix; /* the first words of the answer; NULL = none */
    const char *system;
};

const struct benchmark_task *benchmark_task_at(int i); /* NULL past the end */
void benchmark_names(struct str *out);                 /* of the formats, comma-separated */

struct benchmark_file { /* zero-initialise */
    struct records records;
    const struct benchmark_format *format;
    const struct benchmark_task *task; /* NULL = each record says which */
    struct str name;                   /* "longbench/hotpotqa" */
    cJSON *record;
    int64_t line;
    int next, n_in_record; /* of the record's questions */
    int number;
};

/* format: "NAME" or "NAME/TASK"; NULL = as recognised. ERR_USAGE when it is not known, or the file
 * is none of them; ERR_FORMAT when it is damaged. */
int benchmark_open(struct benchmark_file *f, const char *path, const char *format, struct err *e);
void benchmark_close(struct benchmark_file *f);

/* 1 and the next item; 0 at the end; a negative code names file, line and field. */
int benchmark_next(struct benchmark_file *f, struct item *out, struct err *e);

struct benchmark_size {
    int n_items;         /* at least 1 */
    size_t prompt_bytes; /* of the longest prompt */
};

/* Reads the whole file and checks every item. */
int benchmark_check(const char *path, const char *format, struct benchmark_size *out,
                    struct err *e);

#endif
