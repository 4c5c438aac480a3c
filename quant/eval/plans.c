#include "quant/eval/plans.h"

#include <stdlib.h>

#include "base/memory.h"

void plans_add(struct plans *p, const struct plan_opts *plan)
{
    p->item = memory_more(p->item, (size_t)p->n, &p->max, sizeof *p->item);
    p->item[p->n++] = *plan;
}

void plans_release(struct plans *p)
{
    free(p->item);
    *p = (struct plans){0};
}
