/* The centres of a model's keys: measured, kept in a file, measured again if that is damaged. */
#include "tests/test.h"

#include <sys/stat.h>

#include "cli/options/options.h"
#include "runtime/forward/context.h"
#include "runtime/forward/engine.h"
#include "tests/unit/make_model.h"

static char folder[32], path[64];

static int set_up(void **state)
{
    struct maker m = {0};
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/retain-centre-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/gemma.gguf", folder);
    FILE *f = fopen(path, "wb");
    if (!f || !make_model(&m, "gemma")) return -1;
    fwrite(m.file.data, 1, m.file.n, f);
    maker_release(&m);
    return fclose(f);
}

static int tear_down(void **state)
{
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static struct engine *open_engine(void)
{
    struct options o;
    struct engine *g;
    options_init(&o);
    o.engine.model = path;
    o.engine.device.kind = ENGINE_DEVICE_CPU;
    o.engine.threads = 2;
    ok(engine_open(&g, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
    return g;
}

static void check_head(const struct kn_centre *c, int dim)
{
    for (int i = 0; i < dim; i++) {
        assert_true(c->scale[i] > 0 && fabsf(c->mean[i]) < 1e3f && fabsf(c->first[i]) < 1e3f);
        assert_true(fabsf(c->mean[i]) + 32 * c->scale[i] <= c->unit * 16384 * 1.0001f);
    }
}

TEST(test_every_head_has_one)
{
    AUTO_ENGINE *g = open_engine();
    const struct model *m = g->model;
    assert_int_equal(strlen(g->centres.digest), 8);
    for (int i = 0; i < m->n_kv_layer * m->n_kv_head; i++) check_head(&m->centres[i], m->head_dim);
    for (int i = 0; i < m->windowed.n_layer * m->windowed.n_kv_head; i++)
        check_head(&m->windowed.centres[i], m->windowed.head_dim);
}

static int count_measuring(void *ctx, int64_t done, int64_t total)
{
    assert_true(total < 0 && done >= 0 && done < -total);
    ++*(int *)ctx;
    return 0;
}

static int stop(void *ctx, int64_t done, int64_t total)
{
    (void)ctx, (void)done, (void)total;
    return 1;
}

/* The digits of the digest after opening with the folder. Returns whether keys were measured. */
static bool again(struct engine *g, char out[9])
{
    int n = 0;
    centre_close(g);
    ok(centre_open(g, folder, true, count_measuring, &n, &err));
    memcpy(out, g->centres.digest, 9);
    return n > 0;
}

static off_t size_of(const char *file)
{
    struct stat st;
    return stat(file, &st) ? -1 : st.st_size;
}

TEST(test_file)
{
    AUTO_ENGINE *g = open_engine();
    char first[9], file[128], now[9];
    memcpy(first, g->centres.digest, 9);
    snprintf(file, sizeof file, "%s/%.32s.centres", folder, g->model_digest);
    assert_int_equal(size_of(file), -1);
    centre_close(g);
    assert_int_equal(centre_open(g, folder, true, stop, NULL, &err), ERR_STOP);
    assert_int_equal(size_of(file), -1);
    assert_true(again(g, now)); /* writes it */
    assert_string_equal(now, first);
    const off_t size = size_of(file);
    assert_true(size > 1000);
    assert_false(again(g, now)); /* reads it */
    assert_string_equal(now, first);
    FILE *f = fopen(file, "r+b"); /* damages it */
    fseek(f, 500, SEEK_SET);
    fputc(fgetc(f) ^ 1, f);
    fclose(f);
    again(g, now);
    assert_string_equal(now, first);
    assert_int_equal(truncate(file, 300), 0);
    again(g, now);
    assert_string_equal(now, first);
    assert_int_equal(size_of(file), size);
}

/* 4-bit keys of a model with centres are of S4, whichever way they are asked for; --kv is told. */
TEST(test_plan)
{
    AUTO_ENGINE *g = open_engine();
    struct plan_opts o = plan_opts_default();
    struct context x;
    char text[16];
    for (int given = 0; given < 2; given++) {
        o.kv = (struct plan_kv){.given = given, .k = KN_KV_Q4, .v = KN_KV_Q8};
        ok(context_open(&x, g, &o, 1, 1, &err));
        plan_kv_text(&x.plan, text);
        assert_int_equal(x.plan.k_type, KN_KV_S4);
        assert_string_equal(text, given ? "q4:q8" : "q4");
        context_release(&x);
    }
}

AROUND_TESTS(set_up, tear_down)
