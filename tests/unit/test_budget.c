/* The default budget: 8,192 units per head, or more where the cache stays small next to the
 * weights. */

#include "tests/test.h"

#include "runtime/forward/engine.h"
#include "runtime/forward/plan.h"

/* The default for a model with that many positions and that long feed-forward rows. */
static int budget_of(int n_ctx, int n_ff)
{
    static const char make[] =
        "sed 's/context_length 512/context_length %d/; s/length 96/length %d/; "
        "s/ 96 64$/ %d 64/; s/ 64 96$/ 64 %d/; s/F32 96$/F32 %d/' "
        "tests/golden/families/llama.model >%s/m && "
        "build/golden/make_models %s/m %s/m.gguf";
    AUTO_STR command = {0};
    AUTO_ENGINE *g;
    const char *folder = folder_new();
    const struct plan_opts o = plan_opts_default();
    struct plan p;
    str_printf(&command, make, n_ctx, n_ff, n_ff, n_ff, n_ff, folder, folder, folder);
    assert_int_equal(system(str_get(&command)), 0);
    const struct engine_opts eo = {.model = path_in(folder, "m.gguf"), .heads.none = true};
    ok(engine_prepare(&g, &eo, &err));
    ok(plan_make(&p, g->model, NULL, NULL, &o, 1, 1, &err));
    assert_true(p.budget == 8192 || p.cache_bytes <= p.weights_bytes / 5);
    return p.budget;
}

TEST(grows_with_the_weights)
{
    assert_int_equal(budget_of(65536, 96), 8192);
    assert_int_equal(budget_of(65536, 27000), 16384);
    assert_int_equal(budget_of(65536, 54000), 32768);
}

TEST(stays_within_the_trained_positions)
{
    const int budget = budget_of(16384, 48000);
    assert_true(budget > 14000 && budget < 16384);
}
