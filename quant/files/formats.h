/* formats: how each benchmark's records become items, where fields alone do not say it. Used by
 * benchmark.c. */
#ifndef RETAIN_QUANT_FILES_FORMATS_H
#define RETAIN_QUANT_FILES_FORMATS_H

#include <cjson/cJSON.h>

#include "base/err.h"
#include "quant/files/benchmark.h"

#define FORMAT_MARKS_MAX 4

/* One benchmark. Functions may be NULL: then a record is one item and its fields are used as they
 * are. i counts the items of a record, from 0. Errors are one line without file and line. */
struct benchmark_format {
    const char *name;
    const char *marks[FORMAT_MARKS_MAX]; /* fields that its records have, and no row above it */
    const char *context, *answers, *id, *group;
    int (*count)(const cJSON *record, const struct benchmark_task *t);
    /* Puts a field of the prompt that the record does not have as such; 0, or 1: it has it, or a
     * negative code. */
    int (*field)(const cJSON *record, const struct benchmark_task *t, int i, const char *name,
                 struct str *out, struct err *e);
    /* The node with the answer or answers. */
    const cJSON *(*answer)(const cJSON *record, const struct benchmark_task *t, int i);
    /* Changes an item that is otherwise complete. */
    int (*finish)(const cJSON *record, const struct benchmark_task *t, int i, struct item *out,
                  struct err *e);
};

const struct benchmark_format *format_at(int i); /* NULL past the end */

/* A field that is a string, or NULL. */
const char *format_string(const cJSON *o, const char *name);
const cJSON *format_member(const cJSON *o, const char *name);

/* The node as text: a string, a whole number, a number, "True". false: it is none of these. */
bool format_text(const cJSON *node, struct str *out);

/* Records that hold a conversation (format_talk.c). */
int longmemeval_field(const cJSON *record, const struct benchmark_task *t, int i, const char *name,
                      struct str *out, struct err *e);
int longmemeval_finish(const cJSON *record, const struct benchmark_task *t, int i, struct item *out,
                       struct err *e);
int locomo_count(const cJSON *record, const struct benchmark_task *t);
int locomo_field(const cJSON *record, const struct benchmark_task *t, int i, const char *name,
                 struct str *out, struct err *e);
const cJSON *locomo_answer(const cJSON *record, const struct benchmark_task *t, int i);
int locomo_finish(const cJSON *record, const struct benchmark_task *t, int i, struct item *out,
                  struct err *e);

#endif
