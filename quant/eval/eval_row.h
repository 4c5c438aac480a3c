/* eval_row: a result of `retain eval`, printed as a row of a table or as JSON, both from one list
 * of columns. */
#ifndef RETAIN_QUANT_EVAL_EVAL_ROW_H
#define RETAIN_QUANT_EVAL_EVAL_ROW_H

#include <stdbool.h>
#include <stdint.h>

/* What a run took. */
struct eval_cost {
    char kv[16];    /* format of units */
    double n_units; /* per head */
    int64_t cache_bytes, peak_bytes;
    double prefill_tok_s, decode_tok_s;
};

struct eval_row {
    const char *task, *policy, *kv, *recall;
    const char *metric; /* of a task from a file; "values" */
    int64_t budget, length, seed_count, question_count;
    double compression, accuracy, accuracy_spread, right_count;
    struct eval_cost cost;
    double depth; /* percent; negative = the task has no depths */
};

/* first: of the output, after a line with the names of the columns; JSON has none. */
void eval_row_print(const struct eval_row *r, bool json, bool first);

#endif
