/* engine_kit: the demo model, opened once for all tests of a program. */
#ifndef RETAIN_TESTS_ENGINE_KIT_H
#define RETAIN_TESTS_ENGINE_KIT_H

#include "tests/test.h"

#include "cli/options/options.h"
#include "runtime/forward/engine.h"

static struct engine *engine;

/* With one thread: a child that was forked has no others, and they would wait for the processors of
 * other tests. Under the thread sanitizer with as many as the program takes. */
static inline int engine_open_model(const char *model)
{
    struct options o;
    options_init(&o);
    o.engine.model = model;
#ifndef __SANITIZE_THREAD__
    o.engine.threads = 1;
#endif
    if (engine_open(&engine, &o.engine, &o.session.plan, 1, NULL, NULL, &err) == 0) return 0;
    printf("%s\n", err.text);
    return -1;
}

static inline int engine_set_up(void **state)
{
    return engine_open_model(NULL);
}

static inline int engine_tear_down(void **state)
{
    engine_close(engine);
    return 0;
}

#endif
