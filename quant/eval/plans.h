/* plans: every plan that the lists of eval and bench multiply out to, so that the engine can refuse
 * one that does not fit before the first is run. */
#ifndef RETAIN_QUANT_EVAL_PLANS_H
#define RETAIN_QUANT_EVAL_PLANS_H

#include "base/err.h"
#include "runtime/forward/plan.h"

struct plans { /* zero-initialise */
    struct plan_opts *item;
    int n, max;
};

int plans_add(struct plans *p, const struct plan_opts *plan, struct err *e);
void plans_release(struct plans *p);

#endif
