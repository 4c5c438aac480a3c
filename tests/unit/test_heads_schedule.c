/* A training's rows and learning rate: rows held back are never trained on, every other row is read
 * once per pass; the rate is Locret's. */
#include "tests/test.h"

#include <math.h>

#include "quant/heads/heads_schedule.h"

enum { ROWS_MAX = 400 };

struct fixture {
    struct heads_schedule s;
    struct arena arena;
    int seen[ROWS_MAX]; /* how often each row was read in training */
};

static void begin(struct fixture *f, int n_rows, uint64_t seed)
{
    struct arena plan;
    memset(f, 0, sizeof *f);
    arena_init_plan(&plan, "test");
    heads_schedule_plan(&f->s, n_rows, &plan);
    ok(arena_init(&f->arena, "test", plan.used, &err));
    heads_schedule_plan(&f->s, n_rows, &f->arena);
    heads_schedule_init(&f->s, seed);
}

/* Reads `passes` passes and returns the number of rows held back. */
static int read_passes(struct fixture *f, int passes)
{
    int n_held = 0, n = f->s.n_rows - f->s.n_valid;
    for (int i = 0; i < passes * n; i++) {
        int row = heads_schedule_row(&f->s, i);
        assert_in_range(row, 0, f->s.n_rows - 1);
        f->seen[row]++;
    }
    for (int row = 0; row < f->s.n_rows; row++) {
        assert_true(f->seen[row] == 0 || f->seen[row] == passes);
        n_held += f->seen[row] == 0;
    }
    return n_held;
}

/* A tenth, at most 32, at least one. */
TEST(held_back_rows_are_never_trained_on)
{
    static const struct {
        int rows, held;
    } cases[] = {{2, 1}, {9, 1}, {10, 1}, {25, 2}, {100, 10}, {319, 31}, {320, 32}, {400, 32}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint64_t seed = 1; seed <= 5; seed++) {
            struct fixture f;
            begin(&f, cases[i].rows, seed);
            assert_int_equal(read_passes(&f, 3), cases[i].held);
            for (int v = 0; v < f.s.n_valid; v++) assert_int_equal(f.seen[f.s.order[v]], 0);
            arena_release(&f.arena);
        }
}

/* A resumed training asks first for a row in the middle of a pass. */
TEST(rows_depend_on_seed_and_step_only)
{
    struct fixture a, b, c;
    int differ = 0, turned = 0;
    begin(&a, 50, 7);
    begin(&b, 50, 7);
    begin(&c, 50, 8);
    for (int i = 0; i < 90; i++) heads_schedule_row(&a.s, i);
    for (int i = 90; i < 135; i++) {
        int row = heads_schedule_row(&a.s, i);
        assert_int_equal(row, heads_schedule_row(&b.s, i));
        differ += row != heads_schedule_row(&c.s, i);
        turned += row != heads_schedule_row(&b.s, i - 45);
    }
    assert_true(differ > 30);
    assert_true(turned > 30); /* each pass has a different order */
    arena_release(&a.arena);
    arena_release(&b.arena);
    arena_release(&c.arena);
}

static void near(float x, double expected)
{
    if (fabs((double)x - expected) > 1e-6) fail_msg("%g, expected %g", (double)x, expected);
}

/* 3000 steps: a straight line up to step 2000, then one down to the last step. */
TEST(rate_rises_over_two_thirds)
{
    near(heads_schedule_rate(0.5f, 1, 3000), 0.5 / 2000);
    near(heads_schedule_rate(0.5f, 1000, 3000), 0.25);
    near(heads_schedule_rate(0.5f, 2000, 3000), 0.5);
    near(heads_schedule_rate(0.5f, 2001, 3000), 0.5);
    near(heads_schedule_rate(0.5f, 2501, 3000), 0.25);
    near(heads_schedule_rate(0.5f, 3000, 3000), 0.5 / 1000);
    near(heads_schedule_rate(0.5f, 1, 1), 0.5);
}
