/* engine_kit: the demo model, opened once for all tests of a program. */
#ifndef RETAIN_TESTS_ENGINE_KIT_H
#define RETAIN_TESTS_ENGINE_KIT_H

#include "tests/test.h"

#include "cli/options/options.h"
#include "runtime/forward/engine.h"

static struct engine *engine;

/* n_threads: 0 = as many as the program takes, for tests of threads. A child that was forked has
 * none but one, and others only wait for the processor of other tests. */
static inline int engine_open_model(const char *model, int n_threads)
{
    struct options o;
    options_init(&o);
    o.engine.model = model;
    o.engine.threads = n_threads;
    if (engine_open(&engine, &o.engine, &o.session.plan, 1, NULL, NULL, &err) == 0) return 0;
    printf("%s\n", err.text);
    return -1;
}

static inline int engine_set_up(void **state)
{
    return engine_open_model(NULL, 1);
}

static inline int engine_tear_down(void **state)
{
    engine_close(engine);
    return 0;
}

#endif
