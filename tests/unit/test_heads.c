/* heads in training: gradient and steps against PyTorch in float64 (tests/golden/make_heads.py) and
 * finite differences, labels against their definition in double, rows of text. */
#include "tests/test.h"

#include "base/file.h"

#include <math.h>

#include "base/pool.h"
#include "cli/options/options.h"
#include "kernels/kernels.h"
#include "quant/heads/heads_calibrate.h"
#include "quant/heads/heads_net.h"
#include "quant/heads/heads_sample.h"
#include "quant/heads/heads_text.h"
#include "quant/heads/heads_watch.h"
#include "runtime/cache/evict.h"
#include "runtime/forward/context.h"
#include "runtime/forward/engine.h"
#include "runtime/model/blocks.h"
#include "tests/unit/json_kit.h"

/* ---- the network ----------------------------------------------------------------------------- */

struct trainer {
    struct heads_net net;
    struct heads_work work;
    struct arena arena;
    struct pool *pool;
};

static void plan(struct trainer *t, int n, int n_in, int n_hidden, int n_head, struct arena *a)
{
    heads_net_plan(&t->net, n_in, n_hidden, n_head, a);
    heads_work_plan(&t->work, n, n_in, n_hidden, n_head, 8, a);
}

static void trainer_init(struct trainer *t, int n, int n_in, int n_hidden, int n_head,
                         const char *isa, int n_threads)
{
    struct arena a;
    arena_init_plan(&a, "test");
    plan(t, n, n_in, n_hidden, n_head, &a);
    ok(arena_init(&t->arena, "test", a.used, &err));
    plan(t, n, n_in, n_hidden, n_head, &t->arena);
    ok(pool_open(&t->pool, n_threads, &err));
    t->work.kernels = kn_table(isa);
    t->work.pool = t->pool;
    assert_non_null(t->work.kernels);
}

struct golden {
    struct trainer t;
    cJSON *json;
    struct heads_rows rows;
    float *x, *label;
};

static double number(const struct golden *g, const char *key)
{
    return cJSON_GetNumberValue(json_at(g->json, key));
}

static void fill(float *out, const cJSON *numbers)
{
    const cJSON *v;
    cJSON_ArrayForEach(v, numbers) *out++ = (float)v->valuedouble;
}

static void golden_open(struct golden *g, const char *isa, int n_threads)
{
    struct trainer *t = &g->t;
    g->json = read_json("tests/golden/heads.json");
    int n = (int)number(g, "n"), n_in = (int)number(g, "n_in"), n_head = (int)number(g, "n_head");
    trainer_init(t, n, n_in, (int)number(g, "n_hidden"), n_head, isa, n_threads);
    g->x = aligned_alloc(64, (size_t)(n * n_in) * sizeof *g->x);
    g->label = calloc((size_t)(n * n_head), sizeof *g->label);
    fill(g->x, json_at(g->json, "x"));
    fill(g->label, json_at(g->json, "label"));
    g->rows = (struct heads_rows){n, g->x, g->label};
    fill(t->net.weights, json_at(g->json, "w1"));
    fill(heads_net_w2(&t->net), json_at(g->json, "w2"));
}

static void golden_close(struct golden *g)
{
    cJSON_Delete(g->json);
    free(g->x);
    free(g->label);
    pool_close(g->t.pool);
    arena_release(&g->t.arena);
}

#define AUTO_GOLDEN __attribute__((cleanup(golden_close))) struct golden

static void near(const float *x, const cJSON *expected, double tolerance)
{
    const cJSON *v;
    cJSON_ArrayForEach(v, expected)
    {
        if (!(fabs((double)*x - v->valuedouble) <= tolerance))
            fail_msg("%.9g, expected %.9g", (double)*x, v->valuedouble);
        x++;
    }
}

static double gradient(struct golden *g)
{
    struct trainer *t = &g->t;
    memset(t->net.gradient, 0, t->net.n * sizeof(float));
    return heads_net_gradient(&t->net, &g->rows, (float)number(g, "weight"), &t->work);
}

TEST(equals_pytorch)
{
    for (const char *const *isa = kn_isa_list(); *isa; isa++) {
        AUTO_GOLDEN g;
        golden_open(&g, *isa, 2);
        size_t n1 = (size_t)(g.t.net.n_hidden * g.t.net.n_in);
        double loss = gradient(&g);
        assert_true(fabs(loss - number(&g, "loss")) < 1e-6);
        near(g.t.work.score, json_at(g.json, "score"), 1e-5);
        near(g.t.net.gradient, json_at(g.json, "g1"), 1e-6);
        near(g.t.net.gradient + n1, json_at(g.json, "g2"), 1e-6);
        for (int step = 1; step <= (int)number(&g, "steps"); step++) {
            gradient(&g);
            heads_net_step(&g.t.net, (float)number(&g, "rate"), (float)number(&g, "clip"), step,
                           g.t.pool);
        }
        near(g.t.net.weights, json_at(g.json, "w1_after"), 2e-5);
        near(heads_net_w2(&g.t.net), json_at(g.json, "w2_after"), 2e-5);
    }
}

/* Central differences of the loss, in a few directions of each matrix. */
TEST(equals_differences)
{
    const float h = 1.0f / 256;
    AUTO_GOLDEN g;
    golden_open(&g, NULL, 1);
    gradient(&g);
    AUTO_FREE float *expected = malloc(g.t.net.n * sizeof *expected);
    memcpy(expected, g.t.net.gradient, g.t.net.n * sizeof *expected);
    for (size_t i = 0; i < g.t.net.n; i += 7) {
        float w = g.t.net.weights[i];
        g.t.net.weights[i] = w + h;
        double up = gradient(&g);
        g.t.net.weights[i] = w - h;
        double down = gradient(&g);
        g.t.net.weights[i] = w;
        assert_true(fabs((up - down) / (2 * (double)h) - (double)expected[i]) < 2e-4);
    }
}

/* The gradients of two texts add up to that of both. */
TEST(texts_add_up)
{
    AUTO_GOLDEN g;
    golden_open(&g, NULL, 2);
    const int n = 30; /* the first text */
    double whole = heads_net_gradient(&g.t.net, &g.rows, 0.25f, &g.t.work);
    AUTO_FREE float *expected = malloc(g.t.net.n * sizeof *expected);
    memcpy(expected, g.t.net.gradient, g.t.net.n * sizeof *expected);
    memset(g.t.net.gradient, 0, g.t.net.n * sizeof *expected);
    struct heads_rows first = {n, g.x, g.label};
    struct heads_rows rest = {g.rows.n - n, g.x + n * g.t.net.n_in, g.label + n * g.t.net.n_head};
    double parts = heads_net_gradient(&g.t.net, &first, 0.25f, &g.t.work);
    parts += heads_net_gradient(&g.t.net, &rest, 0.25f, &g.t.work);
    assert_true(fabs(whole - parts) < 1e-6 * fabs(whole));
    for (size_t i = 0; i < g.t.net.n; i++)
        assert_true(fabsf(g.t.net.gradient[i] - expected[i]) < 1e-4f);
    heads_net_step(&g.t.net, 0.01f, 0.5f, 1, g.t.pool);
    for (size_t i = 0; i < g.t.net.n; i++) assert_true(g.t.net.gradient[i] == 0.0f);
}

TEST(threads_do_not_matter)
{
    AUTO_GOLDEN g0, g1;
    struct golden *g[] = {&g0, &g1};
    for (int i = 0; i < 2; i++) {
        golden_open(g[i], NULL, 1 + 2 * i);
        gradient(g[i]);
        heads_net_step(&g[i]->t.net, 0.01f, 0.5f, 1, g[i]->t.pool);
    }
    assert_memory_equal(g[0]->t.net.weights, g[1]->t.net.weights, g[0]->t.net.n * sizeof(float));
}

/* Steps are those of inputs that were divided by their size: with x in other units and weights to
 * match, W1 moves in these units. */
TEST(steps_do_not_depend_on_the_units_of_inputs)
{
    AUTO_GOLDEN g0, g1;
    struct golden *g[] = {&g0, &g1};
    float pace[64];
    for (int i = 0; i < 2; i++) golden_open(g[i], NULL, 1);
    const int n_in = g[1]->t.net.n_in, n1 = g[1]->t.net.n_hidden * n_in;
    for (int i = 0; i < n_in; i++) pace[i] = i % 3 ? 1 : 0.25f;
    for (int i = 0; i < g[1]->rows.n * n_in; i++) g[1]->x[i] /= pace[i % n_in];
    for (int i = 0; i < n1; i++) g[1]->t.net.weights[i] *= pace[i % n_in];
    g[1]->t.net.pace = pace;
    for (int i = 0; i < 2; i++) {
        gradient(g[i]);
        heads_net_step(&g[i]->t.net, 0.01f, 1e9f, 1, g[i]->t.pool);
    }
    for (int i = 0; i < n1; i++)
        assert_true(fabsf(g[1]->t.net.weights[i] / pace[i % n_in] - g[0]->t.net.weights[i]) <
                    2e-5f);
}

#define AUTO_DATA  __attribute__((cleanup(heads_data_close))) struct heads_data
#define AUTO_WATCH __attribute__((cleanup(heads_watch_close))) struct heads_watch

/* ---- labels ---------------------------------------------------------------------------------- */

static struct engine *open_demo(void)
{
    struct options o;
    struct engine *g;
    options_init(&o);
    ok(engine_open(&g, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
    return g;
}

/* The rows of every layer, one text after another. */
struct kept {
    float *x[MODEL_LAYERS_MAX], *label[MODEL_LAYERS_MAX];
    int n[MODEL_LAYERS_MAX], n_in, n_head;
};

static void keep(void *ctx, int layer, struct heads_rows *rows)
{
    struct kept *k = ctx;
    size_t n = (size_t)k->n[layer], all = n + (size_t)rows->n;
    size_t n_in = (size_t)k->n_in, n_head = (size_t)k->n_head;
    k->x[layer] = realloc(k->x[layer], all * n_in * sizeof(float));
    k->label[layer] = realloc(k->label[layer], all * n_head * sizeof(float));
    memcpy(k->x[layer] + n * n_in, rows->x, (size_t)rows->n * n_in * sizeof(float));
    memcpy(k->label[layer] + n * n_head, rows->label, (size_t)rows->n * n_head * sizeof(float));
    k->n[layer] = (int)all;
}

static void kept_release(struct kept *k)
{
    for (int i = 0; i < MODEL_LAYERS_MAX; i++) {
        free(k->x[i]);
        free(k->label[i]);
    }
}

#define AUTO_KEPT __attribute__((cleanup(kept_release))) struct kept

/* The scaled logit of query head q at position t for its KV head's key at position s, by RoPE's
 * definition. x: q, k, v of the tokens. */
static double logit(const struct model *m, const float *x, int q, int t, int s)
{
    int dim = m->head_dim, half = dim / 2, row = model_n_qkv(m);
    const float *query = x + t * row + q * dim;
    const float *key = x + s * row + (m->n_head + q / (m->n_head / m->n_kv_head)) * dim;
    double sum = 0;
    for (int i = 0; i < half; i++) {
        double a = (t - s) * pow(50000, -2.0 * i / dim), x0 = (double)query[i];
        double x1 = (double)query[i + half], y0 = (double)key[i], y1 = (double)key[i + half];
        sum += (x0 * y0 + x1 * y1) * cos(a) + (x0 * y1 - x1 * y0) * sin(a);
    }
    return sum / sqrt(dim);
}

/* The whole text gets labels, so that the queries of asking tokens are among the rows: a unit that
 * no later token asks for has the label of a share of 0. */
TEST(labels_are_their_definition)
{
    enum { N = 40, CONTEXT = 30 };
    AUTO_ENGINE *g = open_demo();
    const struct model *m = g->model;
    int group = m->n_head / m->n_kv_head;
    AUTO_SAMPLE s = {.asks = calloc(N, 1)};
    for (int i = 0; i < N; i++) tokens_push(&s.ids, 300 + 37 * i % 1000);
    for (int t = CONTEXT; t < N; t += 3) s.asks[t] = 1;
    AUTO_WATCH w;
    AUTO_KEPT all = {.n_in = model_n_qkv(m), .n_head = m->n_kv_head}, k = all;
    ok(heads_watch_open(&w, g, N, &err));
    s.n_context = N;
    heads_watch_run(&w, &s, keep, &all);
    s.n_context = CONTEXT;
    heads_watch_run(&w, &s, keep, &k);
    for (int layer = 0; layer < m->n_kv_layer; layer++)
        for (int h = 0; h < m->n_kv_head; h++)
            for (int at = 0; at < CONTEXT; at += 7) {
                double best = 0;
                const float *x = all.x[layer];
                for (int i = 0; i < group * N; i++) {
                    int t = i / group, q = h * group + i % group;
                    double sum = 0;
                    if (!s.asks[t]) continue;
                    for (int p = 0; p <= t; p++) sum += exp(logit(m, x, q, t, p));
                    best = fmax(best, exp(logit(m, x, q, t, at)) / sum);
                }
                double got = (double)k.label[layer][at * m->n_kv_head + h];
                assert_true(fabs(got - log(best + 1.0 / 128)) < 1e-3);
            }
    /* The same text again gives the same rows. */
    heads_watch_run(&w, &s, keep, &k);
    assert_int_equal(k.n[1], 2 * CONTEXT);
    assert_memory_equal(k.label[1], k.label[1] + CONTEXT * m->n_kv_head,
                        (size_t)(CONTEXT * m->n_kv_head) * sizeof(float));
}

/* ---- use of the heads ------------------------------------------------------------------------ */

TEST(shares_compete_as_shares)
{
    AUTO_ENGINE *g = open_demo();
    AUTO_CONTEXT c;
    struct options o;
    int32_t ids[60];
    for (int i = 0; i < 60; i++) ids[i] = 300 + i;
    options_init(&o);
    o.session.plan.budget = 64;
    ok(context_open(&c, g, &o.session.plan, o.session.sampling.seed, 1, &err));
    struct policy rules = *c.forward.policy;
    rules.near_duplicates = false;
    c.forward.policy = &rules;
    forward_run(&c.forward, &c.cache, ids, 60, 1);
    score_values(&c.forward, &c.cache);
    for (int h = 0; h < g->model->n_layer * g->model->n_kv_head; h++) {
        const struct cache_head *head = &c.cache.kv_heads[h];
        for (int s = 0; s < head->len; s++) {
            double share = (double)head->score[s] * (double)g->retaining->label_std[h] +
                           (double)g->retaining->label_mean[h];
            assert_true(fabs((double)c.forward.slots[head->slot0 + (size_t)s].value - share) <
                        1e-4);
        }
    }
}

TEST(the_best_policy_is_the_default)
{
    AUTO_ENGINE *g = open_demo();
    struct plan p;
    struct options o;
    options_init(&o);
    ok(plan_make(&p, g->model, g->retaining, NULL, &o.session.plan, 1, 1, &err));
    assert_string_equal(p.policy->name, "keeper");
    /* A budget beyond the positions that the model knows would make it worse. */
    o.session.plan.budget = 4096;
    ok(plan_make(&p, g->model, g->retaining, NULL, &o.session.plan, 1, 1, &err));
    assert_int_equal(p.budget, g->model->n_ctx - p.chunk - p.reserve);
    assert_non_null(strstr(p.notice, "4608 positions"));
    assert_int_equal(p.budget_max, p.budget);
    o.session.plan.budget = 0;
    g->retaining->label_is_share = false;
    ok(plan_make(&p, g->model, g->retaining, NULL, &o.session.plan, 1, 1, &err));
    assert_string_equal(p.policy->name, "locret");
    o.session.plan.policy = policy_choice("keeper");
    refused(plan_make(&p, g->model, g->retaining, NULL, &o.session.plan, 1, 1, &err), ERR_USAGE,
            "heads train");
}

TEST(a_head_takes_up_to_two_thirds_of_the_positions)
{
    AUTO_ENGINE *g = open_demo();
    struct plan p;
    struct options o;
    options_init(&o);
    const struct {
        int budget, most;
    } heads[] = {{128, 1536}, {512, 3072}, {3072, 3072}, {3200, 3200}};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        o.session.plan.budget = heads[i].budget; /* twelve of it, within two thirds of 4,608 */
        ok(plan_make(&p, g->model, g->retaining, NULL, &o.session.plan, 1, 1, &err));
        assert_int_equal(p.budget_max, heads[i].most);
    }
}

TEST(memory_picks_the_budget)
{
    AUTO_ENGINE *g = open_demo();
    struct plan p;
    struct options o;
    options_init(&o);
    g->model->n_ctx = 1 << 17;
    ok(plan_make(&p, g->model, g->retaining, NULL, &o.session.plan, 1, 1, &err));
    assert_int_equal(p.budget, 8192);
    o.session.plan.memory = 64 << 20;
    ok(plan_make(&p, g->model, g->retaining, NULL, &o.session.plan, 1, 1, &err));
    assert_true(p.budget > 8192);
    o.session.plan.budget = p.budget + 1; /* one more does not fit */
    assert_int_equal(plan_make(&p, g->model, g->retaining, NULL, &o.session.plan, 1, 1, &err),
                     ERR_FIT);
    o.session.plan.budget = 0;
    o.session.plan.memory = 1LL << 40;
    ok(plan_make(&p, g->model, g->retaining, NULL, &o.session.plan, 1, 1, &err));
    assert_int_equal(p.budget, g->model->n_ctx - p.chunk - p.reserve);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int open_rows(struct heads_data *d, const char *path, struct err *e)
{
    struct options o = {.training.data = path, .args = {"train"}, .n_args = 1};
    return heads_data_open(d, &o, e);
}

/* The text of the asking tokens, or of all. */
static void text_of(const struct engine *g, const struct heads_sample *s, bool all, struct str *out)
{
    str_clear(out);
    for (size_t i = 0; i < s->ids.n; i++) {
        size_t n;
        const char *bytes = tokenizer_bytes(g->tokenizer, s->ids.ids[i], true, &n);
        if (all || s->asks[i]) str_append(out, bytes, n);
    }
}

TEST(rows_are_conversations)
{
    const char *path = path_in(folder_new(), "rows");
    write_text(path,
               "{\"document\": \"My cat is called Milo. She sleeps in the kitchen all day.\", "
               "\"question\": \"Who?\", \"answer\": \"Milo.\"}\n\n"
               "{\"document\": [\"I live in Rome now.\", \"Noted, thank you.\"], "
               "\"question\": [\"Where?\", \"Sure?\"], \"answer\": [\"Rome.\", \"Yes.\"]}\n"
               "{\"document\": [\"alone\"], \"question\": \"?\", \"answer\": \"!\"}\n"
               "{\"document\": ");
    AUTO_ENGINE *g = open_demo();
    AUTO_DATA d;
    AUTO_SAMPLE s = {0};
    AUTO_STR text = {0};
    ok(open_rows(&d, path, &err));
    assert_int_equal(d.n, 4);
    ok(heads_sample_read(&s, &d, 0, false, 0, g, 512, &err));
    text_of(g, &s, true, &text);
    assert_string_equal(str_get(&text),
                        "<|bos|><|user|> My cat is called Milo. She sleeps in the kitchen all "
                        "day.\n\nWho?<|end|><|assistant|> Milo.");
    text_of(g, &s, false, &text);
    assert_string_equal(str_get(&text), "<|assistant|> Milo.");
    assert_int_equal(s.asks[s.n_context - 1], 1);
    assert_int_equal(s.asks[s.n_context - 2], 0);

    ok(heads_sample_read(&s, &d, 1, false, 0, g, 512, &err));
    text_of(g, &s, false, &text);
    assert_string_equal(str_get(&text), "<|assistant|> Rome.<|assistant|> Yes.");
    size_t whole = s.ids.n;
    ok(heads_sample_read(&s, &d, 1, false, 0, g, (int)whole - 1, &err));
    text_of(g, &s, false, &text);
    assert_string_equal(str_get(&text), "<|assistant|> Rome.");

    refused(heads_sample_read(&s, &d, 2, false, 0, g, 512, &err), ERR_FORMAT, "row 3");
    refused(heads_sample_read(&s, &d, 3, false, 0, g, 512, &err), ERR_FORMAT, "row 4");
}

/* A document that is too long is cut; the question stays. */
TEST(long_documents_are_cut)
{
    const char *path = path_in(folder_new(), "rows");
    AUTO_STR row = {0};
    for (int i = 0; i < 2; i++) {
        str_puts(&row, "{\"document\": \"");
        for (int k = 0; k < 200; k++) str_puts(&row, "The quiet garden was old and green. ");
        str_puts(&row, "\", \"question\": \"What was it?\", \"answer\": \"Old.\"}\n");
    }
    write_file(path, row.data, row.n);
    AUTO_ENGINE *g = open_demo();
    AUTO_DATA d;
    AUTO_SAMPLE s = {0};
    ok(open_rows(&d, path, &err));
    ok(heads_sample_read(&s, &d, 1, false, 0, g, 256, &err));
    assert_in_range(s.ids.n, 150, 256);
    str_clear(&row);
    text_of(g, &s, true, &row);
    assert_non_null(strstr(str_get(&row), "\n\nWhat was it?<|end|><|assistant|> Old."));
    assert_int_equal(strncmp(str_get(&row), "<|bos|><|user|> The", 19), 0);
}

/* ---- plain text ------------------------------------------------------------------------------ */

struct text_case {
    struct engine *engine;
    struct heads_data data;
    struct heads_sample sample;
    struct str text;
    const char *folder;
    struct options o;
};

/* Two texts, and a file that is no text. */
static void text_open(struct text_case *c)
{
    static const char *const names[] = {"a.txt", "b.txt", "d.bin"};
    *c = (struct text_case){.folder = folder_new()};
    c->o = (struct options){.training.text = path_in(c->folder, "a.txt"),
                            .args = {"train", path_in(c->folder, "b.txt")},
                            .n_args = 2};
    for (int i = 0; i < 3; i++) {
        str_clear(&c->text);
        for (int k = 0; k < 60; k++)
            str_printf(&c->text, "The %s garden \xc3\xa9 %d.\n", names[i], k);
        if (i == 2) str_puts(&c->text, "\xc3");
        write_file(path_in(c->folder, names[i]), c->text.data, c->text.n);
    }
    c->engine = open_demo();
}

static void text_rows(struct text_case *c, int n_tokens)
{
    ok(heads_data_open(&c->data, &c->o, &err));
    ok(heads_data_cut(&c->data, c->engine->tokenizer, n_tokens, &err));
}

static void text_close(struct text_case *c)
{
    heads_data_close(&c->data);
    heads_sample_release(&c->sample);
    str_release(&c->text);
    engine_close(c->engine);
}

#define AUTO_TEXT __attribute__((cleanup(text_close))) struct text_case

TEST(files_are_cut_into_rows)
{
    AUTO_TEXT c;
    struct heads_data *d = &c.data;
    text_open(&c);
    ok(heads_data_open(d, &c.o, &err));
    assert_int_equal(d->n, 2);
    assert_memory_equal(d->text.data, "The a.txt", 9);
    size_t half = d->rows[1], n = d->text.n;
    assert_memory_equal(d->text.data + half, "The b.txt", 9);
    ok(heads_data_cut(d, c.engine->tokenizer, 100, &err));
    assert_in_range(d->n, 8, 30);
    assert_int_equal(d->rows[0], 0);
    assert_int_equal(d->rows[d->n], n);
    bool found = false;
    for (int i = 0; i < d->n; i++) {
        AUTO_TOKENS ids = {0};
        struct tokenizer_span row = {d->text.data + d->rows[i], d->rows[i + 1] - d->rows[i], false};
        if (i) assert_non_null(strchr(" \n", row.text[-1]));
        ok(tokenizer_encode(c.engine->tokenizer, &row, 1, false, &ids, &err));
        assert_in_range(ids.n, 60, 130);
        found = found || d->rows[i] == half; /* no row is of two files */
    }
    assert_true(found);
}

TEST(text_is_a_conversation_with_questions)
{
    AUTO_TEXT c;
    text_open(&c);
    const char *path = path_in(c.folder, "b.txt");
    c.o = (struct options){.training.text = path, .args = {"train", path}, .n_args = 2};
    text_rows(&c, heads_text_tokens(512));
    struct heads_sample *s = &c.sample;
    ok(heads_sample_read(s, &c.data, 0, false, 0, c.engine, 512, &err));
    text_of(c.engine, s, true, &c.text);
    assert_non_null(strstr(str_get(&c.text), "<|bos|><|user|> The b.txt garden \xc3\xa9 0."));
    assert_in_range(s->n_context, HEADS_SAMPLE_MIN, s->ids.n);
    assert_int_equal(s->asks[s->n_context - 1], 1);
    assert_int_equal(s->asks[s->n_context - 2], 0);
    text_of(c.engine, s, false, &c.text); /* four answers */
    const char *at = str_get(&c.text);
    for (int i = 0; i < 4; i++, at++) assert_non_null(at = strstr(at, "<|assistant|>"));
    assert_null(strstr(at, "<|assistant|>"));
}

/* Facts between sentences of a text, each with a question and an answer that has the told value. */
TEST(facts_are_told_in_a_text)
{
    AUTO_TEXT c;
    AUTO_DATA woven = {0};
    AUTO_STR first = {0};
    text_open(&c);
    text_rows(&c, heads_text_tokens(512));
    for (int i = 0; i < 12; i++) {
        const bool held_back = i % 2;
        ok(heads_text_weave(&woven, &c.data, 1, 512, held_back, (uint64_t)i / 4, &err));
        assert_int_equal(woven.n, 1);
        AUTO_JSON *row = cJSON_Parse(str_get(&woven.text));
        const char *text = json_text(row, "document");
        const cJSON *answers = json_at(row, "answer");
        assert_int_equal(cJSON_GetArraySize(answers), 4);
        for (int k = 0; k < 4; k++) {
            const char *answer = cJSON_GetStringValue(cJSON_GetArrayItem(answers, k));
            const char *last = strrchr(answer, ' ');
            assert_non_null(strstr(text, last)); /* the end of an answer was told */
            if (held_back && strstr(str_get(&first), answer)) fail_msg("told twice: %s", answer);
            if (!held_back) str_printf(&first, "%s\n", answer);
        }
        assert_non_null(strstr(text, "garden \xc3\xa9 "));
        assert_null(strstr(text, "garden My"));
    }
    /* The same seed tells the same. */
    ok(heads_text_weave(&woven, &c.data, 1, 512, false, 2, &err));
    str_clear(&first);
    str_puts(&first, str_get(&woven.text));
    ok(heads_text_weave(&woven, &c.data, 1, 512, false, 2, &err));
    assert_string_equal(str_get(&first), str_get(&woven.text));
    ok(heads_text_weave(&woven, &c.data, 1, 512, false, 3, &err));
    assert_string_not_equal(str_get(&first), str_get(&woven.text));
}

TEST(bad_text_is_named)
{
    AUTO_TEXT c;
    text_open(&c);
    const char *path = path_in(c.folder, "a.txt");
    c.o.training.text = path_in(c.folder, "d.bin");
    refused(heads_data_open(&c.data, &c.o, &err), ERR_FORMAT, "d.bin is empty or no text");
    heads_data_close(&c.data);
    c.o.training.text = path;
    c.o.n_args = 1;
    ok(heads_data_open(&c.data, &c.o, &err));
    refused(heads_data_cut(&c.data, c.engine->tokenizer, 100000, &err), ERR_FORMAT,
            "smaller --length");
    heads_data_close(&c.data);
    c.o.training.data = path;
    assert_int_equal(heads_data_open(&c.data, &c.o, &err), ERR_USAGE);
}

/* ---- calibration ----------------------------------------------------------------------------- */

/* One score by its definition. w: W1 and W2 as float. */
static double score_of(const struct retaining *h, const float *w, int head, const float *x)
{
    double sum = 0;
    for (int k = 0; k < h->shape.n_hidden; k++) {
        double z = 0;
        for (int i = 0; i < h->shape.n_in; i++)
            z += (double)w[k * h->shape.n_in + i] * (double)x[i];
        sum += (double)w[(h->shape.n_in + head) * h->shape.n_hidden + k] * z / (1 + exp(-z));
    }
    return sum;
}

/* Over the rows that were read, residuals have the mean 0 and do not depend on the score: that
 * defines the line of least squares. */
TEST(calibration_is_least_squares)
{
    enum { TOKENS = 512 };
    const char *folder = folder_new(), *out = path_in(folder, "calibrated");
    AUTO_STR page = {0};
    ok(file_read("CONTRIBUTING.md", FILE_DATA, &page, &err));
    const char *text = write_file(path_in(folder, "text"), page.data, 5000);
    AUTO_ENGINE *g = open_demo();
    AUTO_DATA d;
    AUTO_WATCH w;
    AUTO_SAMPLE sample = {0};
    struct gguf *file;
    struct retaining *made;
    struct options o;
    options_init(&o);
    o.args[0] = "calibrate";
    o.n_args = 1;
    o.training = (struct training_opts){.text = text, .out = out, .steps = 1000};
    o.sweep.lengths = (struct options_numbers){1, {TOKENS}};
    assert_int_equal(heads_calibrate(&o), 0);
    ok(gguf_open(&file, out, &err));
    ok(retaining_open(&made, file, &err));
    assert_true(retaining_comparable(made));

    ok(heads_data_open(&d, &o, &err));
    ok(heads_data_cut(&d, g->tokenizer, heads_text_tokens(TOKENS), &err));
    const struct retaining_shape *shape = &made->shape;
    AUTO_KEPT k = {.n_in = shape->n_in, .n_head = shape->n_head};
    ok(heads_watch_open(&w, g, TOKENS, &err));
    for (int i = 0; i < d.n; i++) {
        ok(heads_sample_read(&sample, &d, i, false, 0, g, TOKENS, &err));
        if (sample.ids.n) heads_watch_run(&w, &sample, keep, &k);
    }
    for (int layer = 0; layer < shape->n_layer; layer += 3) {
        int head = layer % 2, at = layer * shape->n_head + head;
        const struct gguf_tensor *const *t12 = made->tensors[layer];
        AUTO_FREE float *weights =
            calloc((size_t)(shape->n_hidden * (shape->n_in + shape->n_head)), sizeof(float));
        for (int i = 0; i < 2; i++)
            blocks_to_float(weights + i * shape->n_in * shape->n_hidden, t12[i]->type, t12[i]->data,
                            (size_t)(t12[i]->ne[0] * t12[i]->ne[1]));
        double n = 0, s1 = 0, s2 = 0, y1 = 0, y2 = 0, r1 = 0, rs = 0;
        for (int t = 0; t < k.n[layer]; t++) {
            double s = score_of(made, weights, head, k.x[layer] + t * shape->n_in);
            double y = (double)k.label[layer][t * shape->n_head + head];
            double r = y - s * (double)made->label_std[at] - (double)made->label_mean[at];
            n++, s1 += s, s2 += s * s, y1 += y, y2 += y * y, r1 += r, rs += r * s;
        }
        double deviation = sqrt(y2 / n - y1 / n * y1 / n), spread = sqrt(s2 / n - s1 / n * s1 / n);
        assert_true(fabs(r1 / n) < 0.02 * deviation);
        assert_true(fabs(rs / n - r1 / n * s1 / n) < 0.02 * deviation * spread);
    }
    retaining_close(made);
}
