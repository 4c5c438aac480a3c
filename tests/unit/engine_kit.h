/* engine_kit: the demo model, opened once for all tests of a program. */
#ifndef RETAIN_TESTS_ENGINE_KIT_H
#define RETAIN_TESTS_ENGINE_KIT_H

#include "tests/test.h"

#include "cli/options/options.h"
#include "runtime/forward/engine.h"

static struct engine *engine;

static inline int engine_set_up(void **state)
{
    struct options o;
    (void)state;
    options_init(&o);
    if (engine_open(&engine, &o.engine, &o.session.plan, 1, NULL, NULL, &err) == 0) return 0;
    printf("%s\n", err.text);
    return -1;
}

static inline int engine_tear_down(void **state)
{
    (void)state;
    engine_close(engine);
    return 0;
}

#endif
