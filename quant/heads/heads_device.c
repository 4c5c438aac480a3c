#include "quant/heads/heads_device.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "quant/heads/heads_sample.h"
#include "runtime/forward/engine.h"

static struct cuda_trainer_opts opts_of(const struct engine *g, int hidden, int n_text)
{
    return (struct cuda_trainer_opts){
        .model = g->model, .n_text = n_text, .n_hidden = hidden, .noise = HEADS_SHARE_NOISE};
}

struct cuda_trainer_bytes heads_device_plan(const struct engine *g, int hidden, int n_text)
{
    const struct cuda_trainer_opts o = opts_of(g, hidden, n_text);
    struct cuda_trainer_bytes bytes = cuda_trainer_plan(&o);
    bytes.host += (size_t)n_text * sizeof(int32_t);
    return bytes;
}

int heads_device_open(struct heads_device *d, struct engine *g, int hidden, int n_text,
                      struct err *e)
{
    const struct cuda_trainer_opts o = opts_of(g, hidden, n_text);
    const struct plan_opts plan = heads_watch_plan(n_text, 0);
    *d = (struct heads_device){.asked = memory_new((size_t)n_text, sizeof *d->asked)};
    int rc = context_open(&d->context, g, &plan, 0, 1, e);
    return rc ? rc : cuda_trainer_open(&d->trainer, d->context.gpu, &o, e);
}

void heads_device_close(struct heads_device *d)
{
    cuda_trainer_close(d->trainer);
    context_release(&d->context);
    free(d->asked);
}

static struct cuda_trainer_text text_of(struct heads_device *d, const struct heads_sample *s)
{
    struct cuda_trainer_text text = {s->ids.ids, (int)s->ids.n, s->n_context, d->asked, 0};
    assert(text.n <= d->context.plan.chunk);
    for (int t = 0; t < text.n; t++)
        if (s->asks[t]) d->asked[text.n_asked++] = t;
    cache_clear(&d->context.cache);
    return text;
}

int heads_device_add(struct heads_device *d, const struct heads_sample *s, float weight,
                     double *loss, struct err *e)
{
    const struct cuda_trainer_text text = text_of(d, s);
    return cuda_trainer_add(d->trainer, &text, weight, loss, e);
}
