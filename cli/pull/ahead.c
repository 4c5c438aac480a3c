#include "cli/pull/ahead.h"

#include <stdio.h>

#include "base/pool.h"
#include "base/system.h"
#include "cli/options/options.h"
#include "runtime/forward/plan.h"

/* The largest file of the same shape that leaves memory for the smallest useful cache. */
#define SMALL_BUDGET 2048

static void fit_smaller(struct ahead *out, struct model *m, int64_t file_bytes,
                        const struct options *o)
{
    struct plan_opts any = o->session.plan;
    struct plan p;
    any.memory = INT64_MAX / 2;
    any.budget = SMALL_BUDGET;
    if (plan_make(&p, m, NULL, NULL, &any, 1, pool_threads(o->engine.threads), NULL)) return;
    out->plan_bytes = (int64_t)plan_total_bytes(&p);
    int64_t room = out->limit_bytes - (out->plan_bytes - (int64_t)p.weights_bytes);
    double packed = (double)p.weights_bytes / (double)file_bytes;
    if (room > 0) out->file_bytes_max = (int64_t)((double)room / packed);
}

static int plan_for(struct ahead *out, struct model *m, int64_t file_bytes, const struct options *o,
                    struct err *e)
{
    struct plan p;
    const struct plan_opts *po = &o->session.plan;
    out->limit_bytes = po->memory ? po->memory : system_available_bytes();
    int rc = plan_make(&p, m, NULL, NULL, po, 1, pool_threads(o->engine.threads), e);
    if (!rc) {
        out->budget = p.budget;
        out->plan_bytes = (int64_t)plan_total_bytes(&p);
    }
    /* A budget that was asked for is what does not fit: the plan's error names one that does. */
    if (rc != ERR_FIT || (po->budget && !o->force)) return rc;
    fit_smaller(out, m, file_bytes, o);
    return 0;
}

int ahead_read(struct ahead *out, const struct gguf_start *starts, int n, int64_t file_bytes,
               const struct options *o, struct err *e)
{
    struct gguf *file;
    struct model *m = NULL;
    *out = (struct ahead){0};
    int rc = gguf_open_starts(&file, starts, n, e);
    if (!rc) rc = model_open(&m, file, o->engine.weights == ENGINE_WEIGHTS_F32, e);
    if (!rc) {
        snprintf(out->name, sizeof out->name, "%s", m->name);
        snprintf(out->type, sizeof out->type, "%s", m->type);
        rc = plan_for(out, m, file_bytes, o, e);
    }
    model_close(m);
    return rc;
}
