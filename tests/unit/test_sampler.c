/* sampler: the chain's numbers (from llama.cpp's test-sampling), order, repeatability. */

#include "tests/test.h"

#include <math.h>

#include "base/random.h"
#include "make_gguf.h"
#include "runtime/token/sampler.h"

#define N_MAX 64

/* Everything off: the unchanged distribution. */
static struct sampling plain(void)
{
    return (struct sampling){.temperature = 1, .top_p = 1, .repeat_penalty = 1};
}

static void check(struct sampling s, int n, const float *p, int n_expected, const float *expected)
{
    float logits[N_MAX];
    struct sampler_entry out[N_MAX];
    for (int i = 0; i < n; i++) logits[i] = logf(p[i]);
    assert_int_equal(sampler_candidates(&s, logits, n, NULL, 0, out), n_expected);
    for (int i = 0; i < n_expected; i++) assert_true(fabsf(out[i].logit - expected[i]) < 1e-5f);
}

static const float tenths[] = {.1f, .2f, .3f, .4f};

TEST(top_k_keeps_the_largest)
{
    struct sampling s = plain();
    s.top_k = 1;
    check(s, 4, tenths, 1, (float[]){1});
    s.top_k = 3;
    check(s, 4, tenths, 3, (float[]){.44444f, .33333f, .22222f});
    s.top_k = 4;
    check(s, 4, tenths, 4, (float[]){.4f, .3f, .2f, .1f});
    s.top_k = 99;
    check(s, 4, tenths, 4, (float[]){.4f, .3f, .2f, .1f});
    s.top_k = 0;
    check(s, 4, tenths, 4, (float[]){.4f, .3f, .2f, .1f});
}

TEST(top_p_keeps_the_share)
{
    struct sampling s = plain();
    s.top_p = 0;
    check(s, 4, tenths, 1, (float[]){1});
    s.top_p = .7f;
    check(s, 4, tenths, 2, (float[]){.571429f, .428571f});
    s.top_p = .8f;
    check(s, 4, tenths, 3, (float[]){.44444f, .33333f, .22222f});
    s.top_p = 1;
    check(s, 4, tenths, 4, (float[]){.4f, .3f, .2f, .1f});
}

TEST(min_p_drops_the_unlikely)
{
    struct sampling s = plain();
    s.min_p = .24f;
    check(s, 4, tenths, 4, (float[]){.4f, .3f, .2f, .1f});
    s.min_p = .26f;
    check(s, 4, tenths, 3, (float[]){.4f / .9f, .3f / .9f, .2f / .9f});
    s.min_p = .74f;
    check(s, 4, tenths, 2, (float[]){.4f / .7f, .3f / .7f});
    s.min_p = 1;
    check(s, 4, tenths, 1, (float[]){1});
    s.min_p = 7;
    check(s, 4, tenths, 1, (float[]){1});
}

/* top-p's share refers to the candidates after top-k, and min-p drops none before top-p has
 * counted. */
TEST(stages_keep_their_order)
{
    struct sampling s = plain();
    s.top_k = 3;
    s.top_p = .75f; /* of .9: .4/.9 + .3/.9 = .7778 */
    check(s, 4, tenths, 2, (float[]){.571429f, .428571f});
    s = plain();
    s.top_p = .75f; /* .4 + .3 + .2, though min-p would keep only the first two */
    s.min_p = .6f;
    check(s, 4, tenths, 2, (float[]){.571429f, .428571f});
    s.min_p = .4f;
    check(s, 4, tenths, 3, (float[]){.44444f, .33333f, .22222f});
    s = plain();
    s.temperature = .5f; /* squares, after the cut */
    s.top_k = 2;
    check(s, 4, tenths, 2, (float[]){.16f / .25f, .09f / .25f});
}

TEST(penalty_divides_or_multiplies_once)
{
    struct sampling s = plain();
    struct sampler_entry out[4];
    float logits[] = {2, -2, 2, 1};
    int32_t recent[] = {3, 0, 1, 0, 1, -7, 1000000};
    s.repeat_penalty = 2;
    s.repeat_last = 6; /* the 3 is outside the window */
    sampler_candidates(&s, logits, 4, recent, 7, out);
    assert_true(logits[0] == 1 && logits[1] == -4 && logits[2] == 2 && logits[3] == 1);
    assert_int_equal(out[0].id, 2);
    s.repeat_last = 0;
    sampler_candidates(&s, logits, 4, recent, 7, out);
    assert_true(logits[0] == 1);
    /* {.2 x 5}, token 0 seen, penalty 50: it is dropped (logits are negative) */
    float equal[5];
    struct sampler_entry five[5];
    for (int i = 0; i < 5; i++) equal[i] = logf(.2f);
    s.repeat_penalty = 50;
    s.repeat_last = 64;
    assert_int_equal(sampler_candidates(&s, equal, 5, (int32_t[]){0}, 1, five), 5);
    for (int i = 0; i < 4; i++) assert_true(fabsf(five[i].logit - .25f) < 1e-5f);
    assert_int_equal(five[4].id, 0);
}

TEST(greedy_takes_the_first_of_the_largest)
{
    struct sampling s = sampling_default();
    struct sampler_entry out[6];
    float logits[] = {NAN, 1, 3, 3, -INFINITY, 2};
    s.temperature = 0;
    assert_int_equal(sampler_candidates(&s, logits, 6, NULL, 0, out), 1);
    assert_int_equal(out[0].id, 2);
    assert_true(out[0].logit == 1);
    assert_int_equal(sampler_draw(&s, logits, 6, NULL, 0, 5, out), 2);
}

TEST(survives_what_is_no_number)
{
    struct sampling s = sampling_default();
    struct sampler_entry out[4];
    for (int k = 0; k < 2; k++) {
        float none[] = {NAN, -INFINITY, NAN, -INFINITY}, endless[] = {1, INFINITY, 2, INFINITY};
        float some[] = {NAN, 1, -INFINITY, 1};
        s.top_k = k ? 2 : 0;
        assert_int_equal(sampler_draw(&s, none, 4, NULL, 0, 1, out), 1);
        assert_int_equal(sampler_draw(&s, endless, 4, NULL, 0, 1, out), 1);
        assert_int_equal(sampler_candidates(&s, some, 4, NULL, 0, out), 2);
        assert_true(out[0].id == 1 && out[1].id == 3 && out[1].logit == .5f);
    }
}

TEST(same_position_same_draw)
{
    struct sampling s = sampling_default();
    struct sampler_entry out[N_MAX];
    int changed_by_seed = 0, changed_by_position = 0;
    for (uint64_t position = 0; position < 200; position++) {
        int32_t ids[3];
        for (int k = 0; k < 3; k++) {
            float logits[N_MAX];
            for (int i = 0; i < N_MAX; i++) logits[i] = sinf((float)i);
            s.seed = k == 2;
            ids[k] = sampler_draw(&s, logits, N_MAX, NULL, 0, position, out);
        }
        assert_int_equal(ids[0], ids[1]);
        changed_by_seed += ids[0] != ids[2];
        static int32_t last = -1;
        changed_by_position += ids[0] != last;
        last = ids[0];
    }
    assert_true(changed_by_seed > 100 && changed_by_position > 100);
}

TEST(draws_follow_the_probabilities)
{
    enum { DRAWS = 10000 };
    struct sampling s = plain();
    struct sampler_entry out[4];
    int seen[4] = {0};
    for (uint64_t position = 0; position < DRAWS; position++) {
        float logits[4];
        for (int i = 0; i < 4; i++) logits[i] = logf(tenths[i]);
        seen[sampler_draw(&s, logits, 4, NULL, 0, position, out)]++;
    }
    double chi = 0;
    for (int i = 0; i < 4; i++) {
        double expected = DRAWS * (double)tenths[i];
        chi += (seen[i] - expected) * (seen[i] - expected) / expected;
    }
    assert_true(chi < 16.27); /* 3 degrees of freedom, p = 0.001; the draw is fixed */
}

static int by_logit(const void *a, const void *b)
{
    const struct sampler_entry *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

/* A large vocabulary with ties: selection gives the same result as sorting. */
TEST(selection_equals_sorting)
{
    enum { N = 5000 };
    AUTO_FREE float *logits = malloc(N * sizeof *logits);
    AUTO_FREE struct sampler_entry *out = malloc(N * sizeof *out), *all = malloc(N * sizeof *all);
    struct sampling s = plain();
    for (int k = 1; k < 300; k += 37) {
        for (int i = 0; i < N; i++) {
            logits[i] = floorf((float)random_at(1, (uint64_t)k, (uint64_t)i) * 700) / 70;
            all[i] = (struct sampler_entry){logits[i], i};
        }
        qsort(all, N, sizeof *all, by_logit);
        s.top_k = k;
        assert_int_equal(sampler_candidates(&s, logits, N, NULL, 0, out), k);
        for (int i = 0; i < k; i++) assert_int_equal(out[i].id, all[i].id);
    }
}

TEST(random_numbers_are_fixed)
{
    double sum = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        double u = random_at(42, 1, i);
        assert_true(u >= 0 && u < 1 && u == random_at(42, 1, i));
        sum += u;
    }
    assert_true(fabs(sum / 10000 - .5) < .01);
    assert_true(random_at(42, 1, 0) != random_at(42, 2, 0));
    assert_true(random_at(42, 1, 0) != random_at(43, 1, 0));
}

/* ---- the model file's own settings ----------------------------------------------------------- */

static struct sampling of_file(struct maker *m, char source[SAMPLING_SOURCE_MAX])
{
    struct gguf *file;
    maker_end(m);
    ok(gguf_open_bytes(&file, m->file.data, m->file.n, "a model", &err));
    struct sampling s = sampling_of_file(file, source);
    gguf_close(file);
    maker_release(m);
    return s;
}

static void put_f32(struct maker *m, const char *key, float v)
{
    maker_value(m, key, GGUF_F32, &v, sizeof v);
}

/* llama.cpp's keys, some as the integers that converters write. */
TEST(files_bring_settings)
{
    struct maker m = {0};
    char source[SAMPLING_SOURCE_MAX];
    const int32_t below = -1;
    put_f32(&m, "general.sampling.temp", .7f);
    maker_u32(&m, "general.sampling.top_k", 20);
    maker_u32(&m, "general.sampling.top_p", 1);
    put_f32(&m, "general.sampling.min_p", 0);
    put_f32(&m, "general.sampling.penalty_repeat", 1.1f);
    maker_value(&m, "general.sampling.penalty_last_n", GGUF_I32, &below, sizeof below);
    maker_u32(&m, "general.sampling.mirostat", 2);
    put_f32(&m, "general.sampling.xtc_probability", 0);
    struct sampling s = of_file(&m, source), mine = sampling_unset();
    mine.top_k = 3;
    mine.min_p = 0;
    sampling_complete(&mine, &s);
    assert_true(mine.temperature == .7f && mine.top_k == 3 && mine.top_p == 1 && mine.min_p == 0);
    assert_true(mine.repeat_penalty == 1.1f && mine.repeat_last == SAMPLER_HISTORY);
    assert_string_equal(source, "temp, top-k, top-p, min-p, repeat-penalty, repeat-last from the "
                                "file; not supported: mirostat");
}

TEST(settings_suit_the_size)
{
    char source[SAMPLING_SOURCE_MAX];
    struct maker small = {0}, own = {0};
    struct sampling of_small = of_file(&small, source);
    assert_true(of_small.temperature == .3f && of_small.repeat_penalty == 1.1f);
    maker_u32(&own, "general.sampling.top_k", 20);
    struct sampling s = of_file(&own, source);
    assert_true(s.temperature == sampling_default().temperature && s.top_k == 20);
    assert_string_equal(source, "top-k from the file");
}
