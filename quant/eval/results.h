/* results: a file of JSON lines, one for each question of a file or seed of a task that `retain
 * eval` is done with. Each is on disk before the next begins, so that a run that was stopped or
 * killed continues where it stopped:
 *
 *     {"run": {"task": …, "policy": …, …}, "item": 7, "score": 1, …}
 *
 * `run` is the combination of settings; `item` the number of the question or the seed. */
#ifndef RETAIN_QUANT_EVAL_RESULTS_H
#define RETAIN_QUANT_EVAL_RESULTS_H

#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
#include "quant/eval/eval_row.h"

struct results;

/* Opens or creates the file. A last line without its end, of a run that was killed while it wrote,
 * is removed; ERR_FORMAT names any other line that is wrong. */
int results_open(struct results **out, const char *path, struct err *e);
void results_close(struct results *r);

/* The kept result of this item; NULL = none, also if r or run is. */
const cJSON *results_find(const struct results *r, const cJSON *run, uint64_t item);

/* A number of a result; 0 = it has none of this name. */
double results_number(const cJSON *line, const char *name);
/* A cost as members of a result, but for the peak. */
void results_put_cost(cJSON *line, const struct eval_cost *c);
struct eval_cost results_cost(const cJSON *line);

/* Appends a line with the members of `o`, which is freed. Only frees it if r is NULL. */
int results_add(struct results *r, const cJSON *run, uint64_t item, cJSON *o, struct err *e);

#endif
