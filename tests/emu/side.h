/* side: one model with a context, on the CPU or on a GPU, to compare with another. */
#ifndef RETAIN_TESTS_EMU_SIDE_H
#define RETAIN_TESTS_EMU_SIDE_H

#include "tests/test.h"

#include "cli/options/options.h"
#include "runtime/forward/context.h"
#include "runtime/forward/engine.h"

struct side {
    struct engine *engine;
    struct context x;
};

/* n_logits: rows of logits of a run. */
static inline int side_open_with(struct side *s, const struct options *o, int n_logits,
                                 struct err *e)
{
    const struct plan_opts *plan = &o->session.plan;
    *s = (struct side){0};
    int rc = engine_open(&s->engine, &o->engine, plan, 1, NULL, NULL, e);
    return rc ? rc : context_open(&s->x, s->engine, plan, o->session.sampling.seed, n_logits, e);
}

static inline void side_close(struct side *s)
{
    if (s->engine) context_release(&s->x);
    engine_close(s->engine);
}

#define AUTO_SIDE __attribute__((cleanup(side_close))) struct side

/* n tokens of the vocabulary. */
static inline void some_ids(int32_t *ids, int n, const struct side *s)
{
    for (int i = 0; i < n; i++) ids[i] = (i * 37 + 11) % s->engine->model->n_vocab;
}

/* Runs n tokens; returns the last rows of logits. */
static inline float *run_rows(struct side *s, const int32_t *ids, int n, int rows)
{
    float *logits;
    ok(context_run(&s->x, ids, n, rows, &err));
    ok(context_logits(&s->x, &logits, &err));
    return logits;
}

#endif
