/* Heads that are fitted while a conversation runs take over its cache: nothing is read again, the
 * units that are there get the scores that the formula says, and from then on the conversation
 * resumes to the bit. */
#include <math.h>

#include "quant/heads/heads_file.h"
#include "runtime/session/session_parts.h"
#include "tests/unit/session_kit.h"

static const char *heads_path;
static struct engine *with_heads;

static float weight(int layer, int head, int i)
{
    return (float)((layer * 31 + head * 17 + i * 7) % 23 - 11) / 64;
}

/* Rows w and -w for each head: silu(z) - silu(-z) = z. */
static int write_row(void *ctx, int layer, enum retaining_part part, int r, float *out,
                     struct err *e)
{
    const struct model *m = ctx;
    const int dim = m->head_dim, head = r / 2;
    if (part == RETAINING_W2) {
        for (int i = 0; i < 2 * m->n_kv_head; i++) out[i] = i / 2 == r ? i % 2 ? -1 : 1 : 0;
        return 0;
    }
    for (int i = 0; i < model_n_qkv(m); i++) out[i] = 0;
    for (int i = 0; i < 2 * dim; i++)
        out[(m->n_head + (i < dim ? 0 : m->n_kv_head) + head) * dim + i % dim] =
            (r % 2 ? -1 : 1) * weight(layer, head, i);
    return 0;
}

static int write_heads(const char *path, int n_unit)
{
    char hex[65];
    struct model *m = engine->model;
    float mean[64] = {0}, std[64];
    for (int i = 0; i < 64; i++) std[i] = 1;
    const struct heads_file h = {
        .model = m,
        .shape = {RETAINING_SILU, m->n_kv_layer, model_n_qkv(m), 2 * m->n_kv_head, m->n_kv_head, 0,
                  0},
        .settings = {-1, -1, -1, -1},
        .n_unit = n_unit,
        .label = "share",
        .mean = mean,
        .std = std,
        .row = write_row,
        .ctx = m,
    };
    return heads_file_write(&h, path, true, hex, &err);
}

static int open_heads(struct engine **out, const char *path)
{
    struct options o;
    options_init(&o);
    o.engine.heads.path = path;
    return engine_open(out, &o.engine, &o.session.plan, 1, NULL, NULL, &err);
}

static int set_up(void **state)
{
    int rc = engine_set_up(state);
    if (rc) return rc;
    heads_path = path_in(folder_new(), "heads");
    if (!write_heads(heads_path, 2 * engine->model->head_dim) &&
        !open_heads(&with_heads, heads_path))
        return 0;
    printf("%s\n", err.text);
    return -1;
}

static int tear_down(void **state)
{
    engine_close(with_heads);
    return engine_tear_down(state);
}

static struct session *open_with(struct engine *g, struct conversations *l, const char *policy,
                                 bool again)
{
    struct options o = options_of("keydiff+global", "q4", 0);
    struct session *s;
    if (!policy) o.session.plan.policy.row = NULL;
    if (again) o.session.plan.budget = 0; /* as it was */
    struct engine *before = engine;
    engine = g;
    s = open_session(l, o, again);
    engine = before;
    return s;
}

static void copy_library(const char *from, const char *to)
{
    char command[160];
    snprintf(command, sizeof command, "cp %s/* %s", from, to);
    assert_int_equal(system(command), 0);
}

/* The weights are stored in 8 bits. */
static void scores_as_the_formula(const struct session *s, int64_t end)
{
    const struct cache *c = session_cache(s);
    const struct model *m = with_heads->model;
    const int dim = m->head_dim;
    float k[KN_HEAD_DIM_MAX], v[KN_HEAD_DIM_MAX];
    int n = 0;
    for (int i = 0; i < c->shape.n_layer * c->shape.n_head; i++)
        for (int t = 0; t < c->kv_heads[i].len && c->kv_heads[i].pos[t] < end; t++, n++) {
            const struct cache_head *h = &c->kv_heads[i];
            double sum = 0, size = 0;
            engine->kernels->kv_unpack[c->shape.k_type](k, h->k + (size_t)t * c->k_bytes, dim);
            engine->kernels->kv_unpack[c->shape.v_type](v, h->v + (size_t)t * c->v_bytes, dim);
            for (int d = 0; d < 2 * dim; d++) {
                const double x = (double)(d < dim ? k[d] : v[d - dim]);
                sum += x * (double)weight(i / m->n_kv_head, i % m->n_kv_head, d);
                size += fabs(x) / 128;
            }
            assert_true(fabs((double)h->score[t] - sum) <= size / 64 + 1e-5);
        }
    assert_true(n > 0);
}

TEST(adopts)
{
    AUTO_LOG once = {0}, often = {0};
    const char *dir_a = folder_new(), *dir_b = folder_new();
    AUTO_LIBRARY *a = open_library(dir_a), *b;
    AUTO_SESSION *x = open_with(engine, a, "keydiff+global", false), *y;
    struct session_stats st;
    for (int i = 0; i < 3; i++) say(x, said[i], &once);
    assert_true(once.n_evicted > 0);
    session_close(x);
    x = open_with(with_heads, a, NULL, true);
    session_stats(x, &st);
    assert_string_equal(st.policy, "keeper");
    assert_true(st.scored);
    assert_int_equal(st.n_reread, 0);
    const int64_t from = x->state.heads_from;
    assert_int_equal(from, session_cache(x)->n_pos);
    scores_as_the_formula(x, from);
    session_close(x);
    conversations_close(a);
    copy_library(dir_a, dir_b);
    a = open_library(dir_a);
    b = open_library(dir_b);
    x = open_with(with_heads, a, NULL, true);
    y = open_with(with_heads, b, NULL, true);
    str_clear(&once.text);
    once.logits = once.n_evicted = 0;
    for (int i = 3; i < N_SAID; i++) {
        say(x, said[i], &once);
        say(y, said[i], &often);
        same_cache(x, y);
        session_close(y);
        y = open_with(with_heads, b, NULL, true);
        assert_int_equal(reread(y), 0);
        assert_int_equal(y->state.heads_from, from);
        same_cache(x, y);
        scores_as_the_formula(y, from);
    }
    assert_true(once.n_evicted > 0);
    assert_true(once.logits == often.logits);
    assert_string_equal(str_get(&once.text), str_get(&often.text));
}

/* A policy that the user chose stays, and so do heads that need more than a unit. */
TEST(leaves_the_rest)
{
    AUTO_LOG l = {0};
    const char *dir = folder_new();
    AUTO_LIBRARY *a = open_library(dir);
    AUTO_SESSION *s = open_with(engine, a, "keydiff+global", false);
    struct session_stats st;
    say(s, said[0], &l);
    session_close(s);
    s = open_with(engine, a, NULL, true);
    session_stats(s, &st);
    assert_string_equal(st.policy, "keydiff+global");
    assert_int_equal(st.n_reread, 0);
    session_close(s);
    s = open_with(with_heads, a, "keydiff+global", true);
    session_stats(s, &st);
    assert_string_equal(st.policy, "keydiff+global");
    assert_int_equal(st.n_reread, 0);
}

/* A file that lies about the size of a unit would be read beyond its end. */
TEST(refuses_another_size)
{
    const char *path = path_in(folder_new(), "heads");
    struct engine *g = NULL;
    const int sizes[] = {2, 2 * engine->model->head_dim - 2};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(write_heads(path, sizes[i]), 0);
        refused(open_heads(&g, path), ERR_FORMAT, "unit_length");
    }
}

AROUND_TESTS(set_up, tear_down)
