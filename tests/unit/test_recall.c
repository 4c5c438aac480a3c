/* Archive, choice and return of units, on a vocabulary of ten words and units whose bytes depend on
 * their position. The right windows were derived by hand from the rules in archive.h and
 * recall.h. */
#include "tests/test.h"

#include <math.h>

#include "base/random.h"
#include "base/word.h"
#include "runtime/cache/recall.h"
#include "tests/unit/cache_kit.h"

enum { DIM = 32, HEADS = 2, LAYERS = 2, CAPACITY = 400 };
enum { ASK = 0, END = 1, VOCAB = 40, EMBD = 64 };

struct fixture {
    struct arena arena, archive_arena;
    struct cache cache;
    struct archive archive;
    int32_t ids[4096];
};

/* Random rows; that of word 20 is nearly that of word 10. */
static float embeddings[VOCAB][EMBD];

static void embed(void *ctx, int32_t id, float *out)
{
    memcpy(out, embeddings[id], sizeof *embeddings);
}

static void open_archive(struct fixture *f, int n_positions, int n_text)
{
    struct arena plan;
    struct archive_opts o = {.bytes =
                                 (int64_t)archive_position_bytes(&f->cache.shape) * n_positions,
                             .n_text = n_text,
                             .n_returning = RECALL_MAX * RECALL_SPAN,
                             .n_vocab = VOCAB,
                             .compare = {.n_embd = EMBD, .embed = embed}};
    arena_init_plan(&plan, "archive");
    archive_plan(&f->archive, &o, &f->cache.shape, &plan);
    ok(arena_init(&f->archive_arena, "archive", plan.used, &err));
    archive_plan(&f->archive, &o, &f->cache.shape, &f->archive_arena);
    assert_int_equal(f->archive_arena.used, plan.used);
}

static void set_up_with(struct fixture *f, bool shared, int n_positions, int n_text)
{
    struct cache_shape shape = {.n_layer = LAYERS,
                                .n_head = HEADS,
                                .head_dim = DIM,
                                .k_type = KN_KV_Q4,
                                .v_type = KN_KV_Q8,
                                .capacity = CAPACITY,
                                .head_max = shared ? 2 * CAPACITY : 0,
                                .shared = shared};
    *f = (struct fixture){0};
    ok(cache_kit_open(&f->cache, &f->arena, &shape, &err));
    open_archive(f, n_positions, n_text);
}

static void set_up(struct fixture *f, bool shared, int n_positions)
{
    set_up_with(f, shared, n_positions, 0);
}

static void tear_down(struct fixture *f)
{
    arena_release(&f->arena);
    arena_release(&f->archive_arena);
}

#define AUTO_FIXTURE __attribute__((cleanup(tear_down))) struct fixture

/* Before and after a test with an archive of 1,000 positions. */
static int begin(void **state)
{
    static struct fixture f;
    set_up(&f, false, 1000);
    *state = &f;
    return 0;
}

static int end(void **state)
{
    tear_down(*state);
    return 0;
}

/* "my code is 7." */
static const int32_t told[] = {10, 11, 12, 13, END};

static float score_of(int head, uint32_t pos)
{
    return (float)head * 1000 + (float)pos;
}

/* Each token is a word of its own. */
static void say(const int32_t *ids, int n, struct archive_token *out)
{
    for (int i = 0; i < n; i++)
        out[i] = (struct archive_token){.id = ids[i],
                                        .word = ids[i] > END ? (uint32_t)ids[i] : 0,
                                        .asks = ids[i] == ASK,
                                        .ends = ids[i] <= END};
}

/* Appends the tokens without checking the cache's capacity. */
static void run_tokens(struct fixture *f, const struct archive_token *t, int n)
{
    cache_layout(&f->cache, true, NULL);
    for (int i = 0; i < LAYERS * HEADS; i++) {
        struct cache_head *h = &f->cache.kv_heads[i];
        for (int k = 0; k < n; k++) {
            size_t s = (size_t)h->len++;
            uint32_t pos = (uint32_t)(f->cache.n_pos + k);
            assert_true(h->len <= h->capacity);
            memset(h->k + s * f->cache.k_bytes, (int)pos * 3 + i, f->cache.k_bytes);
            memset(h->v + s * f->cache.v_bytes, (int)pos * 5 + i, f->cache.v_bytes);
            h->pos[s] = pos;
            h->score[s] = score_of(i, pos);
        }
    }
    for (int k = 0; k < n; k++) f->ids[f->cache.n_pos + k] = t[k].id;
    cache_appended(&f->cache, n);
    ok(archive_add(&f->archive, &f->cache, t, n, &err));
}

static void run(struct fixture *f, const int32_t *ids, int n)
{
    struct archive_token t[256];
    say(ids, n, t);
    run_tokens(f, t, n);
}

/* Evicts position p from a head where keeps[p] is false. */
static void evict_all_but(struct fixture *f, int index, const bool *keeps)
{
    struct cache *c = &f->cache;
    struct cache_head *h = &c->kv_heads[index];
    int to = 0;
    for (int s = 0; s < h->len; s++) {
        if (!keeps[h->pos[s]]) continue;
        memmove(h->k + (size_t)to * c->k_bytes, h->k + (size_t)s * c->k_bytes, c->k_bytes);
        memmove(h->v + (size_t)to * c->v_bytes, h->v + (size_t)s * c->v_bytes, c->v_bytes);
        h->score[to] = h->score[s];
        h->pos[to++] = h->pos[s];
    }
    h->len = to;
    cache_recount(c, index);
}

static void evict_everything(struct fixture *f)
{
    static const bool none[4096] = {false};
    for (int i = 0; i < LAYERS * HEADS; i++) evict_all_but(f, i, none);
}

static void check_unit(const struct cache *c, int index, int slot)
{
    const struct cache_head *h = &c->kv_heads[index];
    uint32_t pos = h->pos[slot];
    for (size_t b = 0; b < c->k_bytes; b++)
        assert_int_equal(h->k[(size_t)slot * c->k_bytes + b], (uint8_t)(pos * 3 + (uint32_t)index));
    for (size_t b = 0; b < c->v_bytes; b++)
        assert_int_equal(h->v[(size_t)slot * c->v_bytes + b], (uint8_t)(pos * 5 + (uint32_t)index));
    assert_true(h->score[slot] == score_of(index, pos));
    if (slot) assert_true(h->pos[slot - 1] < pos);
}

/* n tokens of filler: words 30 to 39, none of them rare. */
static void fill(struct fixture *f, int n)
{
    int32_t ids[256];
    for (int i = 0; i < n; i++) ids[i] = 30 + i % 10;
    run(f, ids, n);
}

struct query {
    const int32_t *ids, *before, *wanted;
    int n, n_before, n_wanted, room; /* 0 = as much as returns at once */
    bool more, texts;
    uint32_t newest; /* 0 = none are */
};

static int choose_by(struct fixture *f, struct query q, int max, struct recall_window *w)
{
    struct archive_token t[3][RECALL_MESSAGE];
    say(q.ids, q.n, t[0]);
    say(q.before, q.n_before, t[1]);
    say(q.wanted, q.n_wanted, t[2]);
    const struct recall_query r = {.text = t[0],
                                   .before = t[1],
                                   .wanted = t[2],
                                   .n = q.n,
                                   .n_before = q.n_before,
                                   .n_wanted = q.n_wanted,
                                   .more = q.more,
                                   .texts = q.texts,
                                   .newest = q.newest ? q.newest : UINT32_MAX,
                                   .room = q.room ? q.room : RECALL_MAX * RECALL_SPAN};
    return recall_choose(&f->archive, &f->cache, &r, max, w);
}

static int choose(struct fixture *f, const int32_t *ids, int n, int max, struct recall_window *w)
{
    return choose_by(f, (struct query){.ids = ids, .n = n}, max, w);
}

static bool covers(const struct recall_window *w, uint32_t pos)
{
    return pos >= w->pos && pos < w->pos + (uint32_t)w->n;
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* "my code is 7" among filler; asked for the code. */
TEST_WITH(test_finds_the_statement, begin, end)
{
    static const int32_t asked[] = {30, 10, 11, ASK};
    struct recall_window w[RECALL_MAX];
    struct fixture *f = *state;
    fill(f, 100);
    run(f, told, 5);
    fill(f, 100);
    assert_int_equal(choose(f, asked, 4, 4, w), 0); /* all units are in the cache */
    evict_everything(f);
    assert_true(choose(f, asked, 4, 4, w) >= 1);
    for (uint32_t p = 100; p < 104; p++) assert_true(covers(&w[0], p));
    int n = choose_by(f, (struct query){.ids = asked, .n = 4, .newest = 90}, 4, w);
    while (n-- > 0) assert_true(w[n].pos < 90);
}

/* Tells one text, then another, with 64 positions of filler before, between and behind; evicts
 * all. */
static void tell_two(struct fixture *f, const int32_t *first, int n_first, const int32_t *second,
                     int n_second)
{
    fill(f, 64);
    run(f, first, n_first);
    fill(f, 64);
    run(f, second, n_second);
    fill(f, 64);
    evict_everything(f);
}

/* An earlier question has the same words, and is newer; the statement comes first. */
TEST_WITH(test_statements_before_questions, begin, end)
{
    static const int32_t asked[] = {20, 10, 11, ASK};
    struct recall_window w[RECALL_MAX];
    struct fixture *f = *state;
    tell_two(f, told, 5, asked, 4);
    assert_true(choose(f, asked, 4, 4, w) >= 1);
    assert_true(covers(&w[0], 64));
}

/* "This is 20, 21, 22. Where is 10?" has more words in common with what is told second. */
TEST_WITH(test_words_of_the_question, begin, end)
{
    static const int32_t second[] = {20, 21, 22, 23, END};
    static const int32_t asked[] = {20, 21, 22, END, 30, 10, ASK};
    struct recall_window w[RECALL_MAX];
    struct fixture *f = *state;
    tell_two(f, told, 5, second, 5);
    assert_int_equal(choose(f, asked, 7, 4, w), 1);
    assert_true(covers(&w[0], 64));
    assert_true(choose(f, asked, 4, 4, w) >= 1); /* without the question */
    assert_true(covers(&w[0], 133));
}

/* The value is the first word of the sentence, 9 positions before those that are asked for, and in
 * another one 10 positions. Some of the words follow the first window at once. */
TEST_WITH(test_value_before_the_words, begin, end)
{
    static const int32_t near[] = {END, 13, 31, 32, 33, 34, 35, 36, 37, 38, 10, 11, 12, 14, 15,
                                   END, 31, 32, 33, 34, 35, 36, 37, 38, 39, 10, 11, 12, 14, END};
    static const int32_t far[] = {END, 14, 31, 32, 33, 34, 35, 36, 37, 38, 39, 20, 21, END};
    static const int32_t asked[] = {10, 11, 12, 14, 15, ASK}, asked_far[] = {20, 21, ASK};
    struct recall_window w[RECALL_MAX];
    struct fixture *f = *state;
    tell_two(f, near, 30, far, 14);
    assert_int_equal(choose(f, asked, 6, 4, w), 2);
    assert_int_equal(w[0].pos, 65);
    assert_int_equal(w[1].pos, 65 + w[0].n);
    assert_true(w[0].n >= 8 + RECALL_WINDOW);
    assert_int_equal(choose(f, asked_far, 3, 4, w), 1);
    assert_int_equal(w[0].pos, 158 + 10);
}

/* The second window's sentence begins in the first window, whose words begin a sentence. */
TEST_WITH(test_sentence_of_two_windows, begin, end)
{
    static const int32_t two[] = {END, 10, 11, 33, 34, 35, 36, 37, 38, 39, END,
                                  30,  31, 32, 33, 34, 35, 36, 10, 11, 37};
    static const int32_t asked[] = {10, 11, 33, ASK};
    struct recall_window w[RECALL_MAX];
    struct fixture *f = *state;
    fill(f, 60);
    run(f, two, 1);
    fill(f, 3); /* a sentence that the first window leaves out */
    run(f, two, 21);
    fill(f, 64);
    evict_everything(f);
    assert_int_equal(choose(f, asked, 4, 4, w), 2);
    assert_int_equal(w[0].pos, 64);
    assert_int_equal(w[0].n, RECALL_WINDOW);
    assert_int_equal(w[1].pos, 64 + RECALL_WINDOW);
}

/* Told twice with other values: the newest comes first. */
TEST_WITH(test_newest_of_equals, begin, end)
{
    static const int32_t old[] = {10, 11, 12, 13, END}, new[] = {10, 11, 12, 14, END};
    static const int32_t asked[] = {10, 11, ASK};
    struct recall_window w[RECALL_MAX];
    struct fixture *f = *state;
    tell_two(f, old, 5, new, 5);
    assert_true(choose(f, asked, 3, 4, w) >= 2);
    assert_true(covers(&w[0], 133) && covers(&w[0], 136));
    assert_true(covers(&w[1], 64));
}

/* "My new pin is 8." lacks the pair "my pin" of the old statement, which was made five times. */
TEST_WITH(test_later_statement, begin, end)
{
    static const int32_t old[] = {10, 11, 12, 13, END}, later[] = {10, 20, 11, 12, 14, END};
    static const int32_t asked[] = {10, 11, ASK};
    struct recall_window w[RECALL_MAX];
    struct fixture *f = *state;
    for (int i = 0; i < 5; i++) {
        fill(f, 40);
        run(f, old, 5);
    }
    fill(f, 40);
    run(f, later, 6);
    fill(f, 40);
    evict_everything(f);
    assert_int_equal(choose(f, asked, 3, 4, w), 4);
    assert_true(covers(&w[1], 265) && covers(&w[1], 269)); /* after the heaviest one */
}

/* The same in a later block of the archive's index. */
TEST(test_newest_of_blocks)
{
    static const int32_t asked[] = {10, 11, ASK};
    struct recall_window w[RECALL_MAX];
    AUTO_FIXTURE f;
    set_up(&f, false, 3000);
    for (int i = 0; i < 2; i++) {
        run(&f, told, 5);
        for (int k = 0; k < 5; k++) {
            fill(&f, 240);
            evict_everything(&f);
        }
    }
    assert_int_equal(choose(&f, asked, 3, 1, w), 1);
    assert_true(covers(&w[0], 1205));
}

/* Windows do not overlap, however often they match, and are no more than requested. */
TEST_WITH(test_windows_are_apart, begin, end)
{
    int32_t rare[200];
    struct recall_window w[RECALL_MAX];
    struct fixture *f = *state;
    fill(f, 150);
    for (int i = 0; i < 150; i++) rare[i] = 10 + i % 3;
    run(f, rare, 150);
    evict_everything(f);
    int n = choose(f, rare, 3, 5, w);
    assert_true(n > 1 && n <= 5);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            assert_true(w[i].pos + w[i].n <= w[j].pos || w[j].pos + w[j].n <= w[i].pos);
}

/* Tokens whose ids are words; the second and the third are one or two real words. */
static void run_statement(struct fixture *f, const char *first, const char *second, int32_t object,
                          int32_t value, bool answer)
{
    const int32_t ids[] = {object, 21, 22, value, END};
    const char *const real[] = {first, second};
    struct archive_token t[5];
    say(ids, 5, t);
    for (int i = 0; i < 2; i++) {
        struct word_reader r = {0};
        t[i + 1].word = real[i] ? word_read(&r, real[i], strlen(real[i])).word : 0;
    }
    for (int i = 0; i < 5; i++) t[i].answer = answer;
    run_tokens(f, t, 5);
}

/* What a later statement, at position 133, adds to the passage at 64 that was asked for. */
static bool comes_along(const char *first, const char *second, int32_t object, bool answer)
{
    static const int32_t asked[] = {10, 11, ASK}, end[] = {END};
    struct recall_window w[RECALL_MAX];
    struct fixture f;
    set_up(&f, false, 1000);
    fill(&f, 64);
    run(&f, told, 5);
    fill(&f, 63);
    run(&f, end, 1);
    run_statement(&f, first, second, object, 14, answer);
    fill(&f, 64);
    evict_everything(&f);
    const int n = choose(&f, asked, 3, 4, w);
    assert_true(n >= 1 && covers(&w[0], 64));
    const bool along = n == 2 && covers(&w[1], 133) && covers(&w[1], 136);
    assert_true(along || n == 1);
    tear_down(&f);
    return along;
}

/* "My code is 7." … "It is no longer 7, it is 8." shares only the value with what it withdraws. */
TEST(test_withdrawal_comes_along)
{
    assert_true(comes_along("no", "longer", 13, false));
    assert_true(comes_along("cancel", NULL, 13, false));
    assert_false(comes_along("the", "longer", 13, false));
    assert_false(comes_along("no", "other", 13, false));
    assert_false(comes_along("no", "longer", 13, true));  /* the model said it */
    assert_false(comes_along("no", "longer", 15, false)); /* something else is withdrawn */
}

/* "My code is 7." "Scrap that, 8." names nothing, and follows at once. */
TEST_WITH(test_withdrawal_of_the_sentence_before, begin, end)
{
    static const int32_t asked[] = {10, 11, ASK}, next[] = {24, END};
    struct recall_window w[RECALL_MAX];
    struct fixture *f = *state;
    fill(f, 64);
    run(f, told, 5);
    for (int i = 0; i < 10; i++) run(f, next, 2);
    run_statement(f, "scrap", NULL, 30, 14, false);
    fill(f, 40);
    evict_everything(f);
    assert_int_equal(choose(f, asked, 3, 4, w), 1); /* it came too late */
    run(f, told, 5);
    fill(f, 20);
    run(f, next, 2);
    run_statement(f, "scrap", NULL, 30, 14, false);
    fill(f, 40);
    evict_everything(f);
    assert_int_equal(choose(f, asked, 3, 4, w), 3);
    assert_true(covers(&w[0], 134) && covers(&w[1], 161) && covers(&w[2], 64));
    const int room = w[0].n + w[1].n;
    assert_int_equal(choose(f, asked, 3, 2, w), 2); /* before the older statement */
    assert_true(covers(&w[1], 161));
    assert_int_equal(choose_by(f, (struct query){.ids = asked, .n = 3, .room = room}, 4, w), 2);
}

/* Nine words of equal rarity. The window with all of them returns and the one with eight (0.89 of
 * its weight), not those with four (0.44). */
TEST_WITH(test_lighter_windows, begin, end)
{
    static const int32_t asked[] = {10, 12, 14, 16, 18, 11, 13, 15, 17};
    struct recall_window w[RECALL_MAX];
    struct fixture *f = *state;
    for (int i = 0; i < 11; i++) {
        int32_t ids[9];
        for (int k = 0; k < 9; k++) ids[k] = 10 + k;
        for (int k = 0; i < 9 && k < 5; k++) ids[(i + k) % 9] = 30;
        if (i == 9) ids[4] = 30;
        run(f, ids, 9);
        fill(f, 23);
    }
    evict_everything(f);
    assert_int_equal(choose(f, asked, 9, RECALL_MAX, w), 2);
    assert_true(covers(&w[0], 10 * 32) && covers(&w[1], 9 * 32));
}

/* A follow-up without the noun takes it from the previous message. */
TEST_WITH(test_follow_up, begin, end)
{
    static const int32_t before[] = {10, 11, ASK}, asked[] = {30, 25, ASK}, never[] = {25, ASK};
    struct recall_window w[RECALL_MAX];
    struct fixture *f = *state;
    fill(f, 64);
    run(f, told, 5);
    fill(f, 64);
    evict_everything(f);
    assert_int_equal(choose(f, asked, 3, 4, w), 0);
    struct query q = {.ids = asked, .n = 3, .before = before, .n_before = 3};
    assert_true(choose_by(f, q, 4, w) >= 1);
    assert_true(covers(&w[0], 64));
    q.ids = never; /* it shares no word with what was said */
    q.n = 2;
    assert_int_equal(choose_by(f, q, 4, w), 0);
}

/* The message before is long and full of rare words; they do not hide what the question names. A
 * question that names nothing takes them all the same. */
TEST_WITH(test_long_message_before, begin, end)
{
    static const int32_t other[] = {14, 15, 16, 17, 18, 19, 20, END}, asked[] = {10, 11, ASK},
                         hers[] = {30, 25, 26, ASK};
    struct recall_window w[RECALL_MAX];
    struct fixture *f = *state;
    tell_two(f, told, 5, other, 8);
    struct query q = {.ids = asked, .n = 3, .before = other, .n_before = 8};
    assert_true(choose_by(f, q, 4, w) >= 1);
    assert_true(covers(&w[0], 64));
    q.ids = hers;
    q.n = 4;
    assert_true(choose_by(f, q, 4, w) >= 1);
    assert_true(covers(&w[0], 133));
}

/* ---- by meaning ------------------------------------------------------------------------------ */

static void make_embeddings(void)
{
    for (uint32_t id = 0; id < VOCAB; id++)
        for (uint32_t i = 0; i < EMBD; i++) embeddings[id][i] = (float)random_at(5, id, i) - 0.5f;
    memcpy(embeddings[20], embeddings[10], sizeof *embeddings);
    embeddings[20][0] += 0.02f;
}

/* The question's only rare word does not occur; a word with nearly the same embedding does: in what
 * the user said, later in what the model said. */
TEST_WITH(test_meaning_finds_another_word, begin, end)
{
    static const int32_t asked[] = {30, 20, ASK}, other[] = {24, ASK}, end[] = {END};
    struct query q = {.ids = asked, .n = 3, .more = true};
    struct archive_token answer[5];
    struct recall_window w[RECALL_MAX];
    struct fixture *f = *state;
    make_embeddings();
    fill(f, 63);
    run(f, end, 1);
    run(f, told, 5);
    fill(f, 63);
    run(f, end, 1);
    say(told, 5, answer);
    for (int i = 0; i < 5; i++) answer[i].answer = true;
    run_tokens(f, answer, 5);
    fill(f, 59);
    run(f, other, 2);
    evict_everything(f);
    assert_int_equal(choose_by(f, q, 4, w), 4);
    assert_true(covers(&w[0], 64) && covers(&w[1], 133));
    q.n = 2; /* no question */
    for (int i = choose_by(f, q, 4, w); i-- > 0;) assert_false(covers(&w[i], 64));
    q.n = 3;
    q.ids = &asked[1]; /* no word in common */
    q.n = 2;
    assert_int_equal(choose_by(f, q, 4, w), 0);
    /* the wish is looked for by its words */
    q.wanted = other;
    q.n_wanted = 1;
    assert_true(choose_by(f, q, 4, w) >= 1);
    assert_true(covers(&w[0], 197));
}

/* A question is not vague because nobody said its words in its order. */
TEST_WITH(test_words_in_another_order, begin, end)
{
    static const int32_t weighs[] = {11, 35, 10, END}, asked[] = {30, 33, 10, 36, 38, 11, ASK};
    static const int32_t earlier[][3] = {{END, 10, ASK}, {END, 11, ASK}};
    const struct query q = {.ids = asked, .n = 7, .more = true};
    struct recall_window w[RECALL_MAX];
    struct fixture *f = *state;
    make_embeddings();
    for (int i = 0; i < 6; i++) {
        fill(f, 45);
        run(f, earlier[i % 2], 3);
    }
    fill(f, 40);
    run(f, weighs, 4);
    fill(f, 40);
    evict_everything(f);
    assert_int_equal(choose_by(f, q, 4, w), 1);
    assert_true(covers(&w[0], 6 * 48 + 40) && covers(&w[0], 6 * 48 + 42));
}

/* A passage with both words comes first, then one with the word itself and one with a word
 * like it. */
TEST_WITH(test_meaning_joins_words, begin, end)
{
    static const int32_t by_word[] = {24, 14, 15, 16, END}, by_meaning[] = {10, 17, 18, 19, END},
                         by_both[] = {24, 10, 12, 13, END}, asked[] = {24, 20, ASK};
    struct query q = {.ids = asked, .n = 3, .more = true};
    struct recall_window w[RECALL_MAX];
    struct fixture *f = *state;
    bool word = false, meaning = false;
    make_embeddings();
    fill(f, 64);
    run(f, by_word, 5);
    fill(f, 64);
    run(f, by_both, 5);
    fill(f, 64);
    run(f, by_meaning, 5);
    fill(f, 64);
    evict_everything(f);
    const int n = choose_by(f, q, 3, w);
    assert_int_equal(n, 3);
    assert_true(covers(&w[0], 133) && covers(&w[0], 134));
    for (int i = 1; i < n; i++) word |= covers(&w[i], 64), meaning |= covers(&w[i], 202);
    assert_true(word && meaning);
}

/* ---- forgetting ------------------------------------------------------------------------------ */

/* The index of a position in the archive, -1 = none. */
static int index_of(const struct archive *x, uint32_t pos)
{
    for (int i = 0; i < x->n; i++)
        if (x->pos[i] == pos) return i;
    return -1;
}

/* Forgotten positions are not found; those beside them, in the same pieces, are unchanged. */
TEST(test_forgets)
{
    static const int32_t asked[] = {30, 10, 11, ASK};
    static const struct {
        int64_t from, end;
    } gaps[] = {{100, 104}, {90, 140}, {104, 105}, {96, 112}, {0, 105}, {500, 600}};
    struct recall_window w[RECALL_MAX];
    AUTO_FREE uint8_t *unit = malloc(4096);
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++) {
        AUTO_FIXTURE f;
        set_up(&f, false, 1000);
        fill(&f, 100);
        run(&f, told, 5);
        fill(&f, 100);
        assert_true(f.archive.position_bytes <= 4096);
        ok(archive_forget(&f.archive, gaps[i].from, gaps[i].end, &err));
        archive_check(&f.archive);
        evict_everything(&f);
        for (uint32_t pos = 0; pos < 205; pos++) {
            int index = index_of(&f.archive, pos);
            assert_int_equal(index < 0, pos >= gaps[i].from && pos < gaps[i].end);
            if (index < 0) continue;
            assert_int_equal(f.archive.id[index], f.ids[pos]);
            assert_int_equal(archive_get(&f.archive, index, 1, unit, &err), 1);
            assert_int_equal(unit[0], (uint8_t)(pos * 3));
        }
        int n = choose(&f, asked, 4, 4, w);
        assert_int_equal(n == 0, gaps[i].from <= 100 && gaps[i].end >= 102 && gaps[i].from < 200);
        fill(&f, 20); /* its slots are used again */
    }
}

/* All units of the positions leave every head; the others keep their order, bytes and counters. */
static void drops_positions(bool shared)
{
    AUTO_FIXTURE f;
    set_up(&f, shared, 1000);
    fill(&f, 100);
    static bool keeps[4096];
    for (int p = 0; p < 100; p++) keeps[p] = p % 7 != 3;
    evict_all_but(&f, 1, keeps);
    int64_t before = cache_units(&f.cache), n = cache_drop(&f.cache, 40, 60);
    assert_int_equal(cache_units(&f.cache), before - n);
    assert_int_equal(n, LAYERS * HEADS * 20 - 3);
    assert_false(cache_holds(&f.cache, 40, 60));
    assert_true(cache_holds(&f.cache, 39, 60) && cache_holds(&f.cache, 40, 61));
    for (int i = 0; i < LAYERS * HEADS; i++) {
        const struct cache_head *h = &f.cache.kv_heads[i];
        uint32_t kept = 0;
        for (int s = 0; s < h->len; s++) check_unit(&f.cache, i, s);
        for (int c = 0; c < RETENTION_COLS; c++) kept += f.cache.kept[i * RETENTION_COLS + c];
        assert_int_equal(kept, h->len);
    }
    assert_int_equal(cache_drop(&f.cache, 40, 60), 0);
}

TEST(test_drops_positions)
{
    drops_positions(false);
    drops_positions(true);
}

/* ---- returning ------------------------------------------------------------------------------- */

static bool is_seen(uint32_t p)
{
    return p < 4 || (p >= 8 && p < 24) || (p >= 40 && p < 56) || p == 60 || p == 61 || p >= 70;
}

/* Sets aside all but sinks, windows, pins and the newest; then puts them back. */
static void set_aside(struct cache *c)
{
    const struct evict_pin pin = {60, 62};
    const struct evict_rule rule = {.budget = 40, .sinks = 4, .pins = &pin, .n_pins = 1};
    const struct recall_aside aside = {
        .from = 70, .n = 2, .windows = {{8, 16, 2, false, true}, {40, 16, 1, false, true}}};
    int n_seen[LAYERS * HEADS] = {0}, n_all[LAYERS * HEADS];
    uint16_t kept[3][100] = {0};
    cache_count(&c->kv_heads[1], 0, 100, kept[2]);
    for (int i = 0; i < LAYERS * HEADS; i++) {
        n_all[i] = c->kv_heads[i].len;
        for (int s = 0; s < n_all[i]; s++) n_seen[i] += is_seen(c->kv_heads[i].pos[s]);
    }
    for (int back = 0; back < 2; back++) {
        if (back)
            recall_put_back(c, pool);
        else
            recall_set_aside(c, &rule, &aside, pool);
        cache_check(c);
        assert_int_equal(recall_is_aside(c), !back);
        cache_count(&c->kv_heads[1], 0, 100, kept[back]);
        assert_memory_equal(kept[back], kept[2], sizeof *kept);
        for (int i = 0; i < LAYERS * HEADS; i++) {
            assert_int_equal(c->kv_heads[i].len, back ? n_all[i] : n_seen[i]);
            for (int s = 0; s < c->kv_heads[i].len; s++) {
                assert_true(back || is_seen(c->kv_heads[i].pos[s]));
                check_unit(c, i, s);
            }
        }
    }
}

/* Heads lost different positions; every head gets its missing units back, complete and in order.
 * Then others are set aside. */
static void return_to(bool shared)
{
    struct recall_window w[] = {{40, 16, 1, false, true}, {8, 16, 2, false, true}};
    AUTO_FIXTURE f;
    int64_t n_units, lacking = 0;
    set_up(&f, shared, 1000);
    fill(&f, 100);
    for (int i = 0; i < LAYERS * HEADS; i++) {
        bool keeps[100];
        for (int p = 0; p < 100; p++)
            keeps[p] = random_at(1, (uint64_t)i, (uint64_t)p) < 0.2 * (i + 1);
        for (int p = 8; p < 56; p++) lacking += !keeps[p] && (p < 24 || p >= 40);
        evict_all_but(&f, i, keeps);
    }
    cache_layout(&f.cache, true, NULL);
    ok(recall_return(&f.archive, &f.cache, w, 2, pool, &n_units, &err));
    assert_int_equal(n_units, lacking);
    assert_int_equal(w[0].pos, 8);
    for (int i = 0; i < LAYERS * HEADS; i++) {
        const struct cache_head *h = &f.cache.kv_heads[i];
        for (int p = 8; p < 56; p++)
            if (p < 24 || p >= 40) assert_true(cache_find(h, p) >= 0);
        for (int s = 0; s < h->len; s++) check_unit(&f.cache, i, s);
    }
    set_aside(&f.cache);
}

TEST(test_units_return_whole)
{
    return_to(false);
    return_to(true);
}

/* ---- the bound ------------------------------------------------------------------------------- */

/* Fifty rare statements in ten archives' worth of filler, evicted from the cache: all of them are
 * kept, and the archive never exceeds its limit. */
TEST(test_full_archive_keeps_what_is_rare)
{
    int32_t said[] = {0, 0, 0, 0, END};
    int n_told = 0;
    AUTO_FIXTURE f;
    set_up(&f, false, 320);
    for (int round = 0; round < 20; round++) {
        fill(&f, 150);
        if (round % 2 == 0) {
            for (int i = 0; i < 4; i++) said[i] = 2 + (n_told * 2 + i) % 22;
            run(&f, said, 5);
            n_told++;
        }
        assert_true(f.archive.n <= f.archive.n_max);
        evict_everything(&f);
    }
    int found = 0;
    for (int i = 0; i < f.archive.n; i++) found += f.archive.id[i] < 30 && f.archive.id[i] > END;
    assert_int_equal(found, 4 * n_told);
    for (int i = 1; i < f.archive.n; i++) assert_true(f.archive.pos[i] > f.archive.pos[i - 1]);
    for (int i = 0; i < f.archive.n; i++) {
        uint8_t units[LAYERS * HEADS * 512];
        assert_int_equal(archive_get(&f.archive, i, 1, units, &err), 1);
        assert_int_equal(units[0], (uint8_t)(f.archive.pos[i] * 3));
        assert_int_equal(f.archive.id[i], f.ids[f.archive.pos[i]]);
    }
}

/* Eight facts that an archive of 64 positions cannot hold: all are found in the index, the older
 * ones without units, until they are older than the text that stays. */
TEST(test_text_without_units)
{
    AUTO_FIXTURE f;
    struct recall_window w[RECALL_MAX];
    const int n_text = 480;
    int n_texts = 0, n_lost = 0;
    set_up_with(&f, false, 64, n_text);
    for (int32_t i = 0; i < 8; i++) {
        const int32_t fact[] = {2 + 3 * i, 3 + 3 * i, 4 + 3 * i, END};
        run(&f, fact, 4);
        for (int k = 0; k < 4; k++) fill(&f, 24);
        evict_everything(&f);
    }
    assert_true(f.archive.n_units <= 64 && f.archive.n <= 64 + n_text + n_text / 16);
    for (int32_t i = 0; i < 8; i++) {
        const int32_t asked[] = {2 + 3 * i, 3 + 3 * i, ASK};
        const uint32_t pos = 100 * (uint32_t)i;
        struct query q = {.ids = asked, .n = 3, .texts = true};
        uint8_t units[LAYERS * HEADS * 512];
        if (choose_by(&f, q, 4, w) < 1) {
            assert_true((int)pos < 800 - n_text);
            n_lost++;
            continue;
        }
        assert_true(covers(&w[0], pos) && covers(&w[0], pos + 2));
        const int n_before = n_texts;
        n_texts += w[0].text;
        q.texts = false;
        assert_int_equal(choose_by(&f, q, 4, w), n_texts == n_before);
        if (!w[0].text) continue;
        assert_int_equal(archive_get(&f.archive, archive_index(&f.archive, pos), 1, units, &err),
                         0);
        q.texts = true;
        q.n = 2; /* it asks nothing */
        assert_int_equal(choose_by(&f, q, 4, w), 0);
        ok(archive_forget(&f.archive, pos, pos + 4, &err));
        assert_false(archive_holds(&f.archive, pos, pos + 4));
    }
    assert_true(n_texts >= 2 && n_lost >= 1);
}

/* Of equally rare words a full archive keeps those of statements rather than those of questions. */
TEST(test_full_archive_prefers_statements)
{
    int32_t said[] = {0, 0, 0, 0, END};
    AUTO_FIXTURE f;
    int n_ends = 0, n_asks = 0;
    set_up(&f, false, 320);
    for (int round = 0; round < 80; round++) {
        fill(&f, 20);
        for (int i = 0; i < 4; i++) said[i] = 2 + (round / 2 * 4 + i) % 22;
        said[4] = round % 2 ? ASK : END;
        run(&f, said, 5);
        evict_everything(&f);
    }
    for (int i = 0; i < f.archive.n; i++) {
        n_ends += f.archive.id[i] == END;
        n_asks += f.archive.id[i] == ASK;
    }
    assert_true(n_ends > 2 * n_asks);
}

AROUND_TESTS(pool_set_up, pool_tear_down)
