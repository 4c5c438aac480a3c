/* plans: the plans of all combinations of eval's and bench's lists, so that the engine can refuse
 * one that does not fit before the first one is run. */
#ifndef RETAIN_QUANT_EVAL_PLANS_H
#define RETAIN_QUANT_EVAL_PLANS_H

#include "base/err.h"
#include "runtime/forward/plan.h"

struct plans { /* zero-initialise */
    struct plan_opts *item;
    int n;
    size_t max;
};

void plans_add(struct plans *p, const struct plan_opts *plan);
void plans_release(struct plans *p);

#endif
