/* analyze: measures of a policy's scores over a text, as papers plot them. No question is asked.
 *
 *   consistency    of the tenth of a prefix that the policy would keep: the share that it would
 *                  still keep once the whole text is read (Locret, figure 1)
 *   places         the share of the kept tenth that is in one tenth of the text
 *   concentration  the share of a head's attention, or of exp(score), that 5 % of its units have
 *                  (Ada-KV, figure 3)
 *   sparsity       the share of a head's units with less than 1 % of the largest (NaCl, figure 6)
 *   drift          the largest difference that evictions make in the last hidden state
 *   score-drift    the mean difference that they make in the scores of surviving units (both
 *                  Locret, figure 3, by stabilizers) */
#ifndef RETAIN_QUANT_EVAL_ANALYZE_H
#define RETAIN_QUANT_EVAL_ANALYZE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "quant/eval/task.h"

struct engine;
struct plan_opts;

struct analysis {
    enum task_measure kind;
    struct engine *engine;
    const struct plan_opts *plan; /* of the policy; its budget is used by the drifts alone */
    const int32_t *ids;           /* [n] */
    size_t n;
    double depth; /* consistency: the prefix's share of the text; places: which tenth; 0 … 1 */
};

/* *out: averaged over layers and heads. ERR_USAGE on a GPU, or for a policy without scores. */
int analyze(const struct analysis *a, double *out, struct err *e);

#endif
