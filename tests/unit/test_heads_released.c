/* Retaining heads that others released: files of their names and shapes
 * (tests/golden/make_released.py) are imported, and score as their formulas do in PyTorch; the plan
 * takes the settings of their authors; the CPU runs the forms that a GPU does not have. */
#include "tests/test.h"

#include <math.h>

#include "cli/options/options.h"
#include "kernels/kernels.h"
#include "quant/heads/heads_import.h"
#include "runtime/cuda/cuda.h"
#include "runtime/forward/cis_net.h"
#include "runtime/forward/context.h"
#include "runtime/forward/engine.h"
#include "runtime/model/blocks.h"
#include "tests/unit/json_kit.h"

#define MODEL    "build/golden/families/qwen3.gguf"
#define RELEASED "tests/golden/released/"

enum { ROWS = 6 }; /* of make_released.py */

static const char *const files[] = {"locret.safetensors", "kvzap-mlp.safetensors",
                                    "kvzap-linear.safetensors", "fast-kvzip.safetensors"};
static const char *const forms[] = {"silu", "gelu", "linear", "gate"};
#define N_FILES 4

static struct engine *import(const char *name, const char *isa)
{
    const char *out = path_in(folder_new(), "heads");
    char path[96];
    struct options o;
    struct engine *g;
    snprintf(path, sizeof path, RELEASED "%s", name);
    options_init(&o);
    o.engine.model = MODEL;
    o.engine.isa = isa;
    o.training.out = out;
    o.args[0] = "import";
    o.args[1] = path;
    o.n_args = 2;
    assert_int_equal(heads_import(&o), 0);
    o.engine.heads.path = out;
    ok(engine_open(&g, &o.engine, NULL, 0, NULL, NULL, &err));
    return g;
}

/* grid() of make_released.py. */
static float on_grid(int i, int salt)
{
    return (i % 32 == 0 ? 127.0f : (float)((i * 37 + salt * 11) % 255 - 127)) / 64;
}

static void scores_of(const struct engine *g, int layer, float *out)
{
    const struct retaining *h = g->retaining;
    const int n_in = h->shape.n_in;
    size_t n = (size_t)(ROWS * n_in), groups = n / KN_GROUP;
    AUTO_FREE float *x = aligned_alloc(64, n * sizeof *x);
    AUTO_FREE float *scratch = calloc(cis_net_floats(h) + 1, sizeof *scratch);
    struct kn_act act = {n_in, x, malloc(n), malloc(groups * 4), malloc(groups * 4)};
    for (int i = 0; i < ROWS * n_in; i++) x[i] = on_grid(i % n_in, i / n_in);
    for (int t = 0; t < ROWS; t++) {
        size_t at = (size_t)(t * n_in);
        g->kernels->quantize(act.q + at, act.d + at / KN_GROUP, act.sum + at / KN_GROUP, x + at,
                             n_in);
    }
    cis_net_score(h, layer, g->kernels, &act, ROWS, scratch, out);
    free(act.q);
    free(act.d);
    free(act.sum);
}

TEST(scores_equal_pytorch)
{
    AUTO_JSON *json = read_json(RELEASED "scores.json");
    for (int i = 0; i < N_FILES; i++)
        for (const char *const *isa = kn_isa_list(); *isa; isa++) {
            AUTO_ENGINE *g = import(files[i], *isa);
            const cJSON *v = json_at(json, files[i])->child;
            assert_string_equal(retaining_form_name(g->retaining->shape.form), forms[i]);
            for (int layer = 0; layer < g->retaining->shape.n_layer; layer++) {
                float out[ROWS * 2];
                scores_of(g, layer, out);
                for (int k = 0; k < ROWS * 2; k++, v = v->next)
                    if (!(fabs((double)out[k] - v->valuedouble) <
                          1e-3 * fmax(1, fabs(v->valuedouble))))
                        fail_msg("%s, layer %d, %d: %.7g, expected %.7g", files[i], layer, k,
                                 (double)out[k], v->valuedouble);
            }
            assert_null(v);
        }
}

/* ---- the input ------------------------------------------------------------------------------- */

static void read_row(const struct model *m, const char *name, int row, float *out)
{
    const struct gguf_tensor *t = gguf_tensor_find(m->file, name);
    assert_non_null(t);
    size_t bytes = t->bytes / (size_t)t->ne[1];
    blocks_to_float(out, t->type, (const char *)t->data + (size_t)row * bytes, (size_t)t->ne[0]);
}

/* The score that a linear head gives to a token in layer 0: its row times the normed embedding. */
static double expected_score(const struct engine *g, int head, int32_t id)
{
    enum { WIDTH = 64 };
    float x[WIDTH], norm[WIDTH], w[WIDTH], bias[2];
    const struct gguf_tensor *const *parts = g->retaining->tensors[0];
    double square = 0, sum = 0;
    read_row(g->model, "token_embd.weight", id, x);
    read_row(g->model, "blk.0.attn_norm.weight", 0, norm);
    blocks_to_float(w, parts[RETAINING_W1]->type,
                    (const char *)parts[RETAINING_W1]->data + head * WIDTH * 2, WIDTH);
    blocks_to_float(bias, parts[RETAINING_BIAS1]->type, parts[RETAINING_BIAS1]->data, 2);
    for (int i = 0; i < WIDTH; i++) square += (double)x[i] * (double)x[i] / WIDTH;
    for (int i = 0; i < WIDTH; i++)
        sum += (double)w[i] * (double)x[i] * (double)norm[i] /
               sqrt(square + (double)g->model->norm_eps);
    return sum + (double)bias[head];
}

/* Tokens of a chunk, and tokens that are run one by one and scored later. */
TEST(hidden_states_are_normed_inputs)
{
    enum { CHUNK = 70, ALL = 110 };
    AUTO_ENGINE *g = import("kvzap-linear.safetensors", NULL);
    AUTO_CONTEXT c;
    struct plan_opts o = plan_opts_default();
    int32_t ids[ALL];
    o.policy = policy_choice("keeper");
    o.budget = 128;
    o.chunk = CHUNK;
    ok(context_open(&c, g, &o, 0, 1, &err));
    for (int i = 0; i < ALL; i++) ids[i] = 3 + i * 29 % 250;
    forward_run(&c.forward, &c.cache, ids, CHUNK, 1);
    for (int i = CHUNK; i < ALL; i++) forward_run(&c.forward, &c.cache, ids + i, 1, 1);
    int n = ALL - c.cache.n_unscored; /* the last few wait for their batch */
    assert_true(n > CHUNK);
    for (int head = 0; head < 2; head++)
        for (int t = 0; t < n; t++) {
            double expected = expected_score(g, head, ids[t]);
            double got = (double)cache_head(&c.cache, 0, head)->score[t];
            if (!(fabs(got - expected) < 1e-3))
                fail_msg("token %d: %.6g, expected %.6g", t, got, expected);
        }
}

/* ---- use ------------------------------------------------------------------------------------- */

static void plan_of(struct plan *p, struct engine *g, const struct plan_opts *o)
{
    ok(plan_make(p, g->model, g->retaining, NULL, o, 1, 1, &err));
}

TEST(authors_settings_are_the_default)
{
    AUTO_ENGINE *g = import("locret.safetensors", NULL);
    struct plan p;
    struct plan_opts o = plan_opts_default();
    g->model->n_ctx = 1 << 17;
    plan_of(&p, g, &o);
    assert_string_equal(p.policy->name, "locret");
    assert_int_equal(p.budget, 16384);
    assert_int_equal(p.stabilizers, 2500);
    assert_int_equal(p.sinks, 0);
    assert_int_equal(p.chunk, 1024);
    o.budget = 4096; /* a quarter of it */
    plan_of(&p, g, &o);
    assert_int_equal(p.budget, 4096);
    assert_int_equal(p.stabilizers, 625);
    o.policy = policy_choice("locret");
    o.policy.stabilizers = 7;
    o.policy.sinks = 3;
    o.chunk = 64;
    plan_of(&p, g, &o);
    assert_int_equal(p.stabilizers, 7);
    assert_int_equal(p.sinks, 3);
    assert_int_equal(p.chunk, 64);
    o = plan_opts_default();
    o.policy = policy_choice("keydiff"); /* does not use the heads */
    plan_of(&p, g, &o);
    assert_int_equal(p.budget, 8192);
    assert_int_equal(p.sinks, 4);
    engine_close(g);

    g = import("fast-kvzip.safetensors", NULL); /* stabilizers without a budget */
    o = plan_opts_default();
    o.budget = 100;
    plan_of(&p, g, &o);
    assert_string_equal(p.policy->name, "keeper");
    assert_int_equal(p.stabilizers, 50);
}

TEST(the_cpu_runs_other_forms_for_a_gpu)
{
    for (int i = 0; i < N_FILES; i++) {
        AUTO_ENGINE *g = import(files[i], NULL);
        if (i) assert_false(cuda_runs_heads(g->retaining));
    }
}
