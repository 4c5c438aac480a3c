/* The centres of a model's keys: measured, kept in a file, measured again if that is damaged. */
#include "tests/test.h"

#include <sys/stat.h>

#include "cli/options/options.h"
#include "runtime/forward/context.h"
#include "runtime/forward/engine.h"
#include "tests/unit/make_model.h"

static const char *folder, *path;

static int set_up(void **state)
{
    struct maker m = {0};
    if (!make_model(&m, "gemma")) return -1;
    folder = folder_new();
    path = write_file(path_in(folder, "gemma.gguf"), m.file.data, m.file.n);
    maker_release(&m);
    return 0;
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

/* Keys of few bits of a model with centres are less these, whichever way they are asked for; --kv
 * is told. */
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
        assert_int_equal(x.plan.k_type, given ? KN_KV_S4 : KN_KV_S5);
        assert_string_equal(text, given ? "q4:q8" : "q5:q4");
        context_release(&x);
    }
    o.kv = (struct plan_kv){.given = true, .k = KN_KV_Q5, .v = KN_KV_Q5};
    ok(context_open(&x, g, &o, 1, 1, &err));
    plan_kv_text(&x.plan, text);
    assert_int_equal(x.plan.k_type, KN_KV_S5);
    assert_string_equal(text, "q5");
    context_release(&x);
}

/* The last logits of 40 tokens, as one chunk and one after another. */
static void run(struct engine *g, const char *kv, float *out)
{
    struct plan_opts o = plan_opts_default();
    struct context x;
    float *logits;
    int32_t ids[40];
    assert_true(plan_kv_named(kv, &o.kv));
    ok(context_open(&x, g, &o, 1, 1, &err));
    for (int i = 0; i < 40; i++) ids[i] = (i * 37 + 11) % g->model->n_vocab;
    ok(context_run(&x, ids, 30, 1, &err));
    for (int i = 30; i < 40; i++) ok(context_run(&x, ids + i, 1, 1, &err));
    ok(context_logits(&x, &logits, &err));
    memcpy(out, logits, (size_t)g->model->n_vocab * sizeof *out);
    context_release(&x);
}

static double error_of(struct engine *g, const char *kv, const float *exact, float *x)
{
    double sum = 0;
    run(g, kv, x);
    for (int i = 0; i < g->model->n_vocab; i++) sum += pow((double)(x[i] - exact[i]), 2);
    return sqrt(sum);
}

/* Units of 5 bits are about half as wrong as those of 4. */
TEST(test_five_bits)
{
    AUTO_ENGINE *g = open_engine();
    AUTO_FREE float *exact = calloc((size_t)g->model->n_vocab, sizeof *exact);
    AUTO_FREE float *x = calloc((size_t)g->model->n_vocab, sizeof *x);
    run(g, "f32", exact);
    const double four = error_of(g, "q4", exact, x), five = error_of(g, "q5", exact, x);
    printf("q4 %g, q5 %g\n", four, five);
    assert_true(five > 0 && five < 0.8 * four);
}

AROUND_TESTS(set_up, NULL)
