/* The units that survive one eviction after a prompt against those that NVIDIA's kvpress keeps of
 * it, with the same weights (tests/golden/make_kvpress.py), and, in models with windows or latent
 * rows, against the policies' formulas in double precision (make_survivors.py). */

#include "tests/test.h"

#include "cli/options/options_policy.h"
#include "runtime/forward/context.h"
#include "runtime/forward/engine.h"

enum { N = 192, N_HEADS = 4, KEPT_MAX = 128 };

/* The least share of kvpress's units that must survive here, in percent. Below 100 the rules
 * differ: docs/conformance.md says how. */
static const struct {
    const char *name;
    int least;
} presses[] = {
    {"KeyDiff", 70},
    {"StreamingLLM", 100},
};

struct line {
    char name[32], policy[128];
    int budget, layer, head;
    int positions[KEPT_MAX], n;
};

static bool read_line(FILE *f, struct line *out)
{
    char text[4096];
    int at, n;
    do
        if (!fgets(text, sizeof text, f)) return false;
    while (*text == '#');
    *out = (struct line){0};
    assert_int_equal(sscanf(text, "%31s %127s %d %d %d%n", out->name, out->policy, &out->budget,
                            &out->layer, &out->head, &at),
                     5);
    for (int p; sscanf(text + at, "%d%n", &p, &n) == 1; at += n) {
        assert_true(out->n < KEPT_MAX);
        out->positions[out->n++] = p;
    }
    return true;
}

static void run(struct context *x, struct engine *g, const struct line *l)
{
    struct options_policies policies;
    struct plan_opts o = plan_opts_default();
    int32_t ids[N];
    int64_t n_evicted;
    ok(options_policies_read(l->policy, &policies, &err));
    o.policy = policies.item[0];
    o.budget = l->budget;
    o.chunk = N;
    plan_kv_named("f32", &o.kv);
    for (int i = 0; i < N; i++)
        ids[i] =
            (int32_t)(((uint32_t)i * 2654435761u + 12345) / 65536 % (uint32_t)g->model->n_vocab);
    if (context_open(x, g, &o, 1, 1, &err)) fail_msg("%s: %s", l->policy, err.text);
    ok(context_run(x, ids, N, 0, &err));
    ok(context_evict(x, &n_evicted, &err));
    assert_true(n_evicted > 0);
}

static int n_common(const struct line *l, const struct cache_head *h)
{
    int n = 0;
    for (int i = 0; i < l->n; i++)
        for (int k = 0; k < h->len; k++) n += h->pos[k] == (uint32_t)l->positions[i];
    return n;
}

TEST(test_survivors)
{
    struct engine_opts o = {.model = "build/golden/families/llama.gguf",
                            .heads = {.none = true},
                            .weights = ENGINE_WEIGHTS_F32};
    AUTO_ENGINE *g;
    FILE *f = fopen("tests/golden/kvpress.txt", "r");
    assert_non_null(f);
    ok(engine_open(&g, &o, NULL, 0, NULL, NULL, &err));
    for (size_t i = 0; i < sizeof presses / sizeof *presses; i++) {
        struct context x = {0};
        struct line l;
        int n = 0, common = 0, lines = 0;
        rewind(f);
        while (read_line(f, &l)) {
            if (strcmp(l.name, presses[i].name) != 0) continue;
            if (!lines++) run(&x, g, &l);
            n += l.n;
            common += n_common(&l, cache_head(&x.cache, l.layer, l.head));
        }
        context_release(&x);
        assert_int_equal(lines, N_HEADS);
        print_message("%s: %d of %d units\n", presses[i].name, common, n);
        if (100 * common < presses[i].least * n) fail_msg("%s", presses[i].name);
    }
    fclose(f);
}

/* ---- other attention ------------------------------------------------------------------------- */

static void open_model(struct engine **g, const char *name)
{
    char path[64];
    struct engine_opts o = {.model = path, .heads = {.none = true}, .weights = ENGINE_WEIGHTS_F32};
    snprintf(path, sizeof path, "build/golden/families/%s.gguf", name);
    ok(engine_open(g, &o, NULL, 0, NULL, NULL, &err));
}

/* Layers with windows have nothing evicted: the newest units, one behind the other. */
static void check_windows(const struct cache *c)
{
    for (int i = 0; i < c->shape.n_layer * c->shape.n_head; i++) {
        const struct cache_head *h = &c->kv_heads[i];
        assert_int_equal(h->pos[h->len - 1], N - 1);
        assert_int_equal(h->pos[h->len - 1] - h->pos[0], h->len - 1);
    }
}

/* Global layers and latent rows keep exactly the units of the formulas. */
TEST(test_formulas)
{
    AUTO_ENGINE *g = NULL;
    AUTO_CONTEXT x = {0};
    struct line l, last = {0};
    FILE *f = fopen("tests/golden/windows.txt", "r");
    int n = 0;
    assert_non_null(f);
    for (; read_line(f, &l); n++) {
        const bool other = strcmp(l.name, last.name) != 0;
        if (other || strcmp(l.policy, last.policy) != 0) context_release(&x);
        if (other) engine_close(g), open_model(&g, l.name);
        if (other || strcmp(l.policy, last.policy) != 0) run(&x, g, &l);
        last = l;
        const struct cache_head *h =
            cache_head(&x.cache, g->model->layers[l.layer].kv_layer, l.head);
        if (h->len != l.n || n_common(&l, h) != l.n)
            fail_msg("%s, %s, head %d: %d of %d units", l.name, l.policy, l.head, n_common(&l, h),
                     l.n);
        if (x.cache.windows) check_windows(x.cache.windows);
    }
    assert_int_equal(n, 14);
    fclose(f);
}
