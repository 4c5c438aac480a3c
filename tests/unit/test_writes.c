/* Bytes that a talk writes and stores, counted by the system (/proc/self/io, wchar): at most 3
 * times the bytes of its units on average (3.5 if most of them are answers, whose tokens are
 * written one by one), 4 times in each turn, and the file at most 1.5 times its units. The cache is
 * not a model's: 30 layers of 3 heads of 64 numbers, 4 bits, as of SmolLM2-135M. */
#include <stdlib.h>
#include <sys/stat.h>

#include "base/pool.h"
#include "runtime/cache/evict.h"
#include "runtime/save/save.h"
#include "tests/unit/cache_kit.h"
#include "tests/unit/store_kit.h"

enum { BUDGET = 1024, NEWEST = 820, CHUNK = 512, TOKENS = 10000, RETURNING = 96 };

struct talk {
    struct arena arena, archive_arena;
    struct cache cache;
    struct archive archive;
    struct archive_token *ids;
    struct pool *pool;
    union evict_slot *slots;
    struct save *save;
    struct save_state state;
    int64_t archived;
};

static int64_t written(void)
{
    char line[64];
    long long n = -1;
    FILE *f = fopen("/proc/self/io", "r");
    while (f && n < 0 && fgets(line, sizeof line, f)) sscanf(line, "wchar: %lld", &n);
    if (f) fclose(f);
    if (n < 0) skip(); /* the system does not count */
    return n;
}

static int archive_new(void *ctx, struct err *e)
{
    struct talk *t = ctx;
    const int n = (int)(t->cache.n_pos - t->archived);
    int rc = archive_add(&t->archive, &t->cache, t->ids + t->archived, n, e);
    t->archived = t->cache.n_pos;
    return rc;
}

static void take_memory(struct talk *t)
{
    struct cache_shape shape = {.n_layer = 30,
                                .n_head = 3,
                                .head_dim = 64,
                                .k_type = KN_KV_Q4,
                                .v_type = KN_KV_Q4,
                                .capacity = BUDGET + 2 * CHUNK};
    struct arena plan;
    ok(cache_kit_open(&t->cache, &t->arena, &shape, &err));
    ok(pool_open(&t->pool, 1, &err));
    t->slots = malloc(cache_slots(&shape) * sizeof *t->slots);
    t->ids = calloc(TOKENS + 2 * CHUNK, sizeof *t->ids);
    for (int i = 0; i < TOKENS + 2 * CHUNK; i++)
        t->ids[i] = (struct archive_token){.id = i % 997, .word = (uint32_t)(1 + i % 4999)};
    struct archive_opts o = {.bytes = INT64_C(1) << 30, .n_returning = RETURNING, .n_vocab = 1000};
    o.store = save_archive(t->save, &t->cache, archive_new, t);
    arena_init_plan(&plan, "archive");
    archive_plan(&t->archive, &o, &shape, &plan);
    ok(arena_init_sparse(&t->archive_arena, "archive", plan.used, &err));
    archive_plan(&t->archive, &o, &shape, &t->archive_arena);
}

static void evict_turn(void *ctx)
{
    struct talk *t = ctx;
    const struct evict_rule rule = {.budget = BUDGET, .stabilizers = NEWEST};
    evict_values(&t->cache, t->slots);
    evict(&t->cache, &rule, t->pool, t->slots);
}

/* Three windows of old positions return, as recall returns them. */
static void recall(struct talk *t, unsigned turn)
{
    const int n_heads = t->cache.shape.n_layer * t->cache.shape.n_head;
    for (unsigned k = 0; k < 3 && t->cache.n_pos > 4 * BUDGET; k++) {
        uint32_t pos = (turn * 7919u + k * 104729u) % (uint32_t)(t->cache.n_pos - 2 * BUDGET);
        uint8_t *at = t->archive.returning;
        assert_int_equal(archive_get(&t->archive, (int)pos, 20, at, &err), 1);
        for (int i = 0; i < 20 * n_heads; i++) {
            struct cache_unit u = {.pos = pos + (uint32_t)(i / n_heads), .k = at};
            u.v = at + t->cache.k_bytes;
            memcpy(&u.score, u.v + t->cache.v_bytes, sizeof u.score);
            t->cache.n_returned += cache_insert(&t->cache, i % n_heads, &u, 1);
            at += t->cache.k_bytes + t->cache.v_bytes + sizeof u.score;
        }
        t->cache.n_returns++;
    }
}

static const char text[] = "A message of some words, whose units take more than its letters do.";

static void turn(struct talk *t, unsigned i, int n_read, int n_answer)
{
    struct store_message m = {.role = CHAT_USER, .text = text, .n_text = strlen(text)};
    int32_t ids[512] = {0};
    m.tokens = ids;
    m.n_tokens = (size_t)n_read;
    ok(save_message(t->save, &m, &err));
    recall(t, i);
    cache_kit_append(&t->cache, n_read);
    for (int k = 0; k < n_answer; k++) {
        const struct save_token token = {t->cache.n_pos, 7, " word", 5};
        t->state.n_run = t->cache.n_pos;
        ok(k ? save_answer_token(t->save, &t->cache, &token, &err)
             : save_units(t->save, &t->cache, &t->state, &token, &err));
        cache_kit_append(&t->cache, 1);
    }
    m.role = CHAT_ASSISTANT;
    m.n_tokens = (size_t)n_answer;
    t->state.n_run = t->cache.n_pos;
    ok(save_answer(t->save, &t->cache, &t->state, &m, evict_turn, t, &err));
    save_compact(t->save, &t->cache);
}

static void check_load(struct talk *t, struct fixture *f, int64_t id)
{
    const int64_t n_units = cache_units(&t->cache);
    struct save_loaded loaded;
    ok(save_open(&t->save, f->s, id, 64 << 20, &err));
    ok(save_load(t->save, &t->cache, &t->state, &loaded, &err));
    assert_true(loaded.usable);
    assert_int_equal(cache_units(&t->cache), n_units);
}

static void talk(struct fixture *f, const char *name, int n_read, int n_answer, double most)
{
    struct talk t = {.state = {.model = "m", .kv = "q4", .policy = "random"}};
    struct stat st;
    const int64_t id = begin_named(f, name), begin = written();
    const int64_t old_bytes = stat(f->path, &st) ? 0 : (int64_t)st.st_size;
    ok(save_open(&t.save, f->s, id, 64 << 20, &err));
    take_memory(&t);
    const int64_t position = (int64_t)archive_position_bytes(&t.cache.shape);
    double worst = 0;
    for (unsigned i = 0; t.cache.n_pos < TOKENS; i++) {
        const int64_t before = written(), from = t.cache.n_pos;
        turn(&t, i, n_read, n_answer);
        const double times =
            (double)(written() - before) / (double)((t.cache.n_pos - from) * position);
        if (times > worst) worst = times;
    }
    const double units = (double)(t.cache.n_pos * position);
    const double all = (double)(written() - begin) / units;
    save_close(t.save);
    reopen(f); /* the log is copied into the file */
    assert_int_equal(stat(f->path, &st), 0);
    const double stored = (double)(st.st_size - old_bytes) / units;
    printf("%s: written %.2f times the units, at most %.2f in a turn; stored %.2f times\n", name,
           all, worst, stored);
    assert_true(all <= most);
    assert_true(worst <= 4);
    assert_true(stored <= 1.5);
    check_load(&t, f, id);
    save_close(t.save);
    arena_release(&t.arena);
    arena_release(&t.archive_arena);
    pool_close(t.pool);
    free(t.slots);
    free(t.ids);
}

TEST_WITH(a_talk_of_long_messages, setup, teardown)
{
    talk(*state, "reading", 190, 80, 3);
}

TEST_WITH(a_talk_of_long_answers, setup, teardown)
{
    talk(*state, "answering", 40, 220, 3.5);
}
