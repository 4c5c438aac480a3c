#include "quant/eval/plans.h"

#include <stdlib.h>

int plans_add(struct plans *p, const struct plan_opts *plan, struct err *e)
{
    if (p->n == p->max) {
        int max = p->max ? 2 * p->max : 64;
        struct plan_opts *item = reallocarray(p->item, (size_t)max, sizeof *item);
        if (!item) return err_set(e, ERR_FAIL, "out of memory for the plans");
        p->item = item;
        p->max = max;
    }
    p->item[p->n++] = *plan;
    return 0;
}

void plans_release(struct plans *p)
{
    free(p->item);
    *p = (struct plans){0};
}
