/* forced: asks questions whose answers' first words are given (task "told"). What is told is one
 * message, read as a chat reads it, chunk by chunk with evictions before each, and cut to the
 * budget; then every question is asked of that same cache, which its tokens leave as it was.
 *
 * An answer is right if every token of its value is the model's most likely one after the first
 * words and the tokens of the value before it. */
#ifndef RETAIN_QUANT_EVAL_FORCED_H
#define RETAIN_QUANT_EVAL_FORCED_H

#include <stdbool.h>

#include "base/err.h"

struct context;
struct task_run;
struct task_step;

/* The result of one question: nats are the value's, -log p summed over its tokens. */
typedef void forced_answered(void *ctx, const struct task_step *q, bool right, double nats);

/* Reads and asks all of a script. ERR_STOP when interrupted. */
int forced_run(struct context *x, struct task_run *script, forced_answered *answered, void *ctx,
               struct err *e);

#endif
