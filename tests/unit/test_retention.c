/* The inputs of the screens against the engine's own tables: the picture of retained units after
 * each of 1,000 evictions, and the bytes of the text for each token. Run on the demo model. */

#include "cli/options/options.h"
#include "runtime/cache/cache.h"
#include "runtime/save/conversations.h"
#include "runtime/session/session.h"
#include "runtime/token/token_text.h"
#include "tests/unit/engine_kit.h"
#include "tests/unit/same_units.h"

/* ---- the picture ----------------------------------------------------------------------------- */

struct watch {
    struct session *s;
    struct retention *map;
    int n_evictions;
};

static int64_t count_column(const struct cache_head *h, int64_t from, int64_t end)
{
    int64_t n = 0;
    for (int i = 0; i < h->len; i++) n += h->pos[i] >= from && h->pos[i] < end;
    return n;
}

/* Column by column, unit by unit, and the sums that the strip and the memory line show. */
static void check_picture(const struct watch *w)
{
    const struct cache *c = session_cache(w->s);
    const struct retention *r = w->map;
    struct session_stats st;
    int64_t total = 0, in_tables = 0;
    session_retention(w->s, w->map);
    session_stats(w->s, &st);
    assert_int_equal(r->n_pos, c->n_pos);
    assert_true((int64_t)r->n_cols * r->col_width >= r->n_pos);
    for (int i = 0; i < r->n_layer * r->n_head; i++) {
        const struct cache_head *h = &c->kv_heads[i];
        const uint32_t *row = r->kept + (size_t)i * RETENTION_COLS;
        for (int col = 0; col < RETENTION_COLS; col++) {
            int64_t from = col * r->col_width, n = count_column(h, from, from + r->col_width);
            assert_int_equal(row[col], n);
            total += n;
        }
        in_tables += h->len;
    }
    assert_int_equal(total, in_tables);
    assert_int_equal(total, st.units_kept);
    assert_int_equal(total, st.units_seen - st.units_evicted);
    assert_int_equal(st.cache_used_bytes % st.unit_bytes, 0);
    assert_int_equal(st.cache_used_bytes / st.unit_bytes, total);
}

/* The same for single positions, as tint and map show them. */
static void check_positions(const struct watch *w)
{
    const struct cache *c = session_cache(w->s);
    int n_heads = c->shape.n_layer * c->shape.n_head, n = (int)c->n_pos;
    AUTO_FREE uint16_t *kept = malloc(sizeof *kept * (size_t)n),
                       *again = calloc((size_t)n, sizeof *again);
    session_kept(w->s, 0, n, kept);
    session_retention(w->s, w->map);
    for (int i = 0; i < n_heads; i++)
        for (int k = 0; k < c->kv_heads[i].len; k++) again[c->kv_heads[i].pos[k]]++;
    assert_memory_equal(kept, again, sizeof *kept * (size_t)n);
    assert_memory_equal(w->map->heads, again, sizeof *again * (size_t)n);
}

static void on_evicted(void *ctx, int64_t n, int64_t n_tokens)
{
    struct watch *w = ctx;
    assert_true(n > 0);
    w->n_evictions++;
    check_picture(w);
}

/* Snapshots between evictions count appended positions only. */
static void on_progress(void *ctx, int64_t done, int64_t total)
{
    struct watch *w = ctx;
    session_retention(w->s, w->map);
}

static void feed(struct watch *w, int n_words, uint32_t seed)
{
    static const char *const words[] = {"cat ", "dog ", "fox ", "sea ", "code ", "story "};
    AUTO_STR text = {0};
    struct session_sink k = {.ctx = w, .evicted = on_evicted, .progress = on_progress};
    for (int i = 0; i < n_words; i++) {
        seed = seed * 1664525u + 1013904223u;
        str_puts(&text, words[seed >> 16 & 3]);
    }
    struct chat_message m = {CHAT_USER, str_get(&text)};
    ok(session_feed(w->s, &m, 1, &k, &err));
}

TEST(test_a_thousand_evictions)
{
    static const char *const policies[] = {"locret",         "random", "sink", "keeper", "keydiff",
                                           "keydiff+global", "locret", "sink", "random"};
    static const int budgets[] = {16, 40, 33, 64, 48, 90, 24, 57, 128};
    int n_evictions = 0;
    for (int i = 0; i < 9; i++) {
        struct watch w = {0};
        struct options o;
        options_init(&o);
        o.session.private_mode = true;
        o.session.plan.policy = policy_choice(policies[i]);
        o.session.plan.budget = budgets[i];
        o.session.plan.chunk = 3 + 2 * i;
        o.session.plan.policy.reserve = i;
        o.session.sampling.seed = 7 + (uint64_t)i;
        ok(session_open(&w.s, engine, NULL, &o.session, NULL, &err));
        w.map = retention_new(w.s);
        /* longer than RETENTION_COLS, so that columns grow wider than a position */
        while (w.n_evictions < 115) feed(&w, 20 + 31 * w.n_evictions % 200, (uint32_t)i);
        check_positions(&w);
        n_evictions += w.n_evictions;
        retention_free(w.map);
        session_close(w.s);
    }
    assert_true(n_evictions >= 1000);
}

/* ---- tokens and text ------------------------------------------------------------------------- */

struct spelled {
    uint16_t bytes[4096];
    int64_t n;
    struct str answer;
};

static void on_tokens(void *ctx, int64_t position, int n, const uint16_t *n_bytes)
{
    struct spelled *p = ctx;
    assert_int_equal(position, p->n); /* every position is reported, once, in order */
    assert_true(p->n + n <= 4096);
    memcpy(p->bytes + p->n, n_bytes, sizeof *n_bytes * (size_t)n);
    p->n += n;
}

static void on_text(void *ctx, const char *utf8, size_t n)
{
    str_append(&((struct spelled *)ctx)->answer, utf8, n);
}

static int64_t sum(const struct spelled *p, int64_t from, int64_t end)
{
    int64_t n = 0;
    for (int64_t i = from; i < end; i++) n += p->bytes[i];
    return n;
}

struct compare {
    const struct spelled *p;
    int n;
};

static int compare_message(void *ctx, const struct store_message *m)
{
    struct compare *c = ctx;
    c->n++;
    size_t n = m->n_text; /* the template may keep or trim white space at the end */
    while (n > 0 && (m->text[n - 1] == ' ' || m->text[n - 1] == '\n')) n--;
    int64_t told = sum(c->p, m->position, m->position + (int64_t)m->n_tokens);
    assert_in_range(told, n, m->n_text);
    return 0;
}

TEST(test_tokens_spell_the_text)
{
    static const char *const said[] = {
        "My locker code is 48213.", "  漢字 and 🙂, with spaces around \n",
        "<|end|> is no end",        "user",
        "What is my locker code?",
    };
    struct spelled live = {0}, again = {0};
    struct session_sink k = {.ctx = &live, .tokens = on_tokens, .text = on_text};
    AUTO_LIBRARY *l;
    AUTO_SESSION *s;
    struct options o;
    options_init(&o);
    o.session.plan.budget = 48;
    o.session.plan.chunk = 16;
    o.session.max_tokens = 30;
    o.session.new_conversation = true;
    o.session.system = "You are asked: What is my locker code?";
    o.session.sampling.temperature = 0;
    ok(conversations_open(&l, path_in(folder_new(), "retain.db"), NULL, &err));
    ok(session_open(&s, engine, l, &o.session, &k, &err));
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        enum session_end end;
        struct session_stats st;
        session_stats(s, &st);
        assert_int_equal(st.n_tokens, live.n);
        str_clear(&live.answer);
        ok(session_say(s, said[i], strlen(said[i]), &k, &end, &err));
        session_stats(s, &st);
        assert_int_equal(st.n_tokens, live.n);
        /* the answer's tokens come last */
        int64_t from = live.n, n = 0;
        while (from > 0 && n < (int64_t)live.answer.n) n += live.bytes[--from];
        assert_int_equal(n, live.answer.n);
    }
    struct compare compare = {&live, 0};
    ok(conversations_messages(l, session_name(s), compare_message, &compare, &err));
    assert_int_equal(compare.n, 2 * sizeof said / sizeof *said);
    session_close(s);
    o.session.new_conversation = false;
    o.session.continue_latest = true;
    k.ctx = &again;
    ok(session_open(&s, engine, l, &o.session, &k, &err));
    assert_int_equal(again.n, live.n);
    assert_memory_equal(again.bytes, live.bytes, sizeof *live.bytes * (size_t)live.n);
    str_release(&live.answer);
}

/* White space before the text that tokens of its own spell belongs to these. */
TEST(test_leading_white_space)
{
    static const char *const pieces[] = {" ", " ", "two"};
    const struct tokenizer *t = engine->tokenizer;
    AUTO_TOKENS ids = {0};
    uint16_t n_bytes[8];
    for (int i = 0; i < 3; i++)
        ok(tokenizer_encode_text(t, pieces[i], strlen(pieces[i]), true, &ids, &err));
    assert_in_range(ids.n, 3, 8);
    assert_true(token_text_align(t, ids.ids, ids.n, " ", " two", 4, n_bytes));
    assert_int_equal(n_bytes[0], 0); /* the template's */
    assert_int_equal(n_bytes[1], 1);
}

AROUND_TESTS(engine_set_up, engine_tear_down)
