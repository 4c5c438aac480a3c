/* first_run: the first chat with a model keeps a budget, later ones find it; nothing is written for
 * the demo, in private mode, or where the user chose. */

#include "tests/test.h"

#include "base/file.h"
#include "cli/control/control_parts.h"
#include "cli/options/model_settings.h"
#include "cli/options/options.h"
#include "runtime/forward/engine.h"

#define MODEL "quant/demo/retain-demo.gguf"

static const char *folder;
static struct engine *engine;

static struct options fresh(void)
{
    struct options o;
    options_init(&o);
    o.engine.model = MODEL;
    return o;
}

static bool has_settings(void)
{
    AUTO_STR path = {0};
    assert_int_equal(model_settings_path(MODEL, &path, NULL), 0);
    bool there = access(str_get(&path), F_OK) == 0;
    return there;
}

TEST(stays_silent_where_the_user_chose)
{
    AUTO_STR note = {0};
    struct options o[4] = {fresh(), fresh(), fresh(), fresh()};
    o[0].engine.model = NULL;
    o[1].session.private_mode = true;
    o[2].session.plan.budget = 99;
    o[3].session.plan.memory = 1 << 30;
    for (int i = 0; i < 4; i++) {
        int budget = o[i].session.plan.budget;
        first_run(&o[i], engine, &note);
        assert_int_equal(note.n, 0);
        assert_int_equal(o[i].session.plan.budget, budget);
    }
    assert_false(has_settings());
}

/* 3,328 units are the demo's default, and more do not fit its trained positions. */
TEST(keeps_what_it_proposes)
{
    AUTO_STR note = {0}, path = {0}, text = {0};
    struct options o = fresh(), read;
    o.engine.heads.path = "some heads.gguf";
    first_run(&o, engine, &note);
    assert_int_equal(o.session.plan.budget, 3328);
    assert_non_null(strstr(str_get(&note), "remembers 3,328 tokens word for word"));
    assert_int_equal(model_settings_path(MODEL, &path, NULL), 0);
    assert_int_equal(file_read(str_get(&path), FILE_DATA, &text, NULL), 0);
    assert_non_null(strstr(str_get(&text), "# " MODEL "\n"));
    options_init(&read);
    assert_int_equal(options_parse_layer(&read, OPTIONS_CONFIG, text.data, "settings", NULL), 0);
    assert_int_equal(read.session.plan.budget, 3328);
    assert_string_equal(read.engine.heads.path, "some heads.gguf");
    int budget;
    char *heads;
    model_settings_read(MODEL, &budget, &heads);
    assert_int_equal(budget, 3328);
    assert_string_equal(heads, "some heads.gguf");
    free(heads);
    str_clear(&note);
    o = fresh(); /* the second run */
    first_run(&o, engine, &note);
    assert_int_equal(note.n, 0);
}

/* Weights of 76 KB, and twice as many positions as the larger budgets need. */
TEST(proposes_no_cache_above_a_fifth_of_the_weights)
{
    static const char make[] = "sed 's/context_length 512/context_length 65536/' "
                               "tests/golden/families/llama.model >%s/m && "
                               "build/golden/make_models %s/m %s/m.gguf";
    AUTO_STR command = {0}, note = {0};
    struct options o = fresh();
    AUTO_ENGINE *g;
    str_printf(&command, make, folder, folder, folder);
    assert_int_equal(system(str_get(&command)), 0);
    o.engine.model = path_in(folder, "m.gguf");
    o.engine.heads.none = true;
    assert_int_equal(engine_prepare(&g, &o.engine, &err), 0);
    first_run(&o, g, &note);
    assert_int_equal(o.session.plan.budget, 8192);
}

static int set_up(void **state)
{
    (void)state;
    struct options o = fresh();
    folder = folder_new();
    setenv("XDG_CONFIG_HOME", folder, 1);
    o.engine.heads.none = true;
    return engine_prepare(&engine, &o.engine, &err);
}

static int tear_down(void **state)
{
    (void)state;
    engine_close(engine);
    return 0;
}

AROUND_TESTS(set_up, tear_down)
