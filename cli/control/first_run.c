#include "cli/control/control_parts.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/pool.h"
#include "cli/options/model_settings.h"
#include "cli/options/options.h"
#include "cli/print/num.h"
#include "runtime/forward/engine.h"
#include "runtime/forward/plan.h"

#define CACHE_SHARE_MAX 5 /* the cache is at most a fifth of the weights */

static bool is_first(const struct options *o, const struct str *settings)
{
    return o->engine.model && !o->session.private_mode && !o->session.plan.budget &&
           !o->session.plan.memory && access(str_get(settings), F_OK) != 0;
}

static bool make_plan(struct plan *p, const struct options *o, struct engine *g, int budget)
{
    struct plan_opts po = o->session.plan;
    po.budget = budget;
    return !plan_make(p, g->model, g->retaining, g->gpu, &po, 1, pool_n_threads(g->pool), NULL);
}

/* false: not even the default fits; opening the conversation reports it. */
static bool propose(struct plan *p, const struct options *o, struct engine *g)
{
    static const int larger[] = {16384, 32768};
    if (!make_plan(p, o, g, 0)) return false;
    for (size_t i = 0; i < sizeof larger / sizeof *larger; i++) {
        struct plan q;
        if (make_plan(&q, o, g, larger[i]) && q.budget > p->budget &&
            q.cache_bytes <= q.weights_bytes / CACHE_SHARE_MAX)
            *p = q;
    }
    return true;
}

static void tell(const struct plan *p, const struct engine *g, struct str *note)
{
    char units[NUM_MAX], bytes[NUM_MAX];
    str_printf(note, "%s, %s: remembers %s tokens word for word; /why", g->model->name,
               num_bytes((int64_t)plan_total_bytes(p), bytes), num_exact(p->budget, units));
}

void first_run(struct options *o, struct engine *g, struct str *note)
{
    struct str settings = {0}, text = {0};
    struct plan p;
    char budget[16];
    bool known = o->engine.model && !model_settings_path(o->engine.model, &settings, NULL);
    if (known && is_first(o, &settings) && propose(&p, o, g)) {
        snprintf(budget, sizeof budget, "%d", p.budget);
        str_printf(&text, "budget = %s\n", budget);
        if (o->engine.heads.path && !strpbrk(o->engine.heads.path, "\"\n\\"))
            str_printf(&text, "heads = \"%s\"\n", o->engine.heads.path);
        model_settings_write(o->engine.model, str_get(&text), NULL); /* else proposed again */
        str_clear(&text);
        str_printf(&text, "budget = %s\n", budget);
        options_parse_layer(o, OPTIONS_OF_MODEL, text.data, "", NULL);
        tell(&p, g, note);
    }
    str_release(&settings);
    str_release(&text);
}
