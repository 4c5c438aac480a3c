/* A conversation that is closed and reopened must continue as if it had never been closed: the same
 * text and the same cache, to the bit, after evictions too. Run on the demo model. Long on purpose:
 * every test is a few turns of the same conversation, told, saved and compared by the helpers at
 * the top. */
#include <malloc.h>
#include <math.h>
#include <sys/wait.h>

#include "runtime/save/conversations.h"
#include "runtime/session/session_parts.h"
#include "store/store.h"
#include "tests/unit/session_kit.h"

/* A policy without retaining heads resumes although the heads have changed: a first chat
 * fits some. */
TEST(test_resume_with_other_heads)
{
    struct options o = options_of("sink", "q4", 0);
    AUTO_LOG log = {0};
    NEW_LIBRARY(l);
    struct session *s = open_session(l, o, false);
    struct engine *first = engine;
    say(s, said[0], &log);
    session_close(s);
    o.engine.heads.none = true;
    ok(engine_open(&engine, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
    s = open_session(l, o, true);
    assert_int_equal(turns_of(s), 1);
    assert_int_equal(reread(s), 0);
    session_close(s);
    engine_close(engine);
    engine = first;
}

static int take_bytes(void *ctx, const struct conversations_entry *c)
{
    *(int64_t *)ctx = c->cache_bytes;
    return 0;
}

/* Of the only conversation. */
static int64_t cache_bytes(struct conversations *l)
{
    int64_t bytes = -1;
    ok(conversations_list(l, NULL, take_bytes, &bytes, &err));
    return bytes;
}

/* ---- twenty random conversations ------------------------------------------------------------- */

TEST(test_twenty_random_conversations)
{
    static const char *const policies[] = {"full",   "sink",    "random",        "locret",
                                           "keeper", "keydiff", "keydiff+global"};
    int64_t n_evicted = 0;
    for (uint64_t i = 0; i < 20; i++)
        n_evicted += resume_equals_never_stopped(random_options(i, policies[i % 7]), 6, same_cache);
    if (n_evicted < 2000) fail_msg("only %lld units were evicted", (long long)n_evicted);
}

/* The ids and the text of an answer have their memory when the session is opened. */
TEST(test_answers_take_no_memory)
{
    AUTO_LOG log = {0};
    struct options o = options_of("sink", "q4", 0);
    o.session.max_tokens = 300;
    o.session.ignore_end = true;
    AUTO_SESSION *s = open_session(NULL, o, false);
    struct tokens pending = s->pending, ids = s->answer_ids;
    struct str answer = s->answer;
    assert_true(pending.cap >= SESSION_ANSWER_ROOM && ids.cap >= SESSION_ANSWER_ROOM);
    assert_true(answer.cap >= SESSION_ANSWER_ROOM);
    for (int i = 0; i < 2; i++) {
        say(s, said[i], &log);
        assert_true(s->answer_ids.n > 100);
        assert_ptr_equal(s->pending.ids, pending.ids);
        assert_ptr_equal(s->answer_ids.ids, ids.ids);
        assert_ptr_equal(s->answer.data, answer.data);
    }
}

/* ---- going back ------------------------------------------------------------------------------ */

static void rewind_to(struct session *s, int64_t turn)
{
    ok(session_rewind(s, turn, NULL, &err));
    assert_int_equal(turns_of(s), turn);
}

/* Rewinding to turn k = never having said the later turns, to the bit; at once and again after
 * closing, for each k, with evictions in between. */
static void rewind_is_exact(struct options o)
{
    NEW_LIBRARY(l);
    AUTO_SESSION *y = open_session(l, o, false);
    AUTO_LOG all = {0};
    for (int i = 0; i < N_SAID; i++) say(y, said[i], &all);
    assert_true(all.n_evicted > 0);
    for (int64_t k = N_SAID - 1; k >= 0; k--) {
        struct log a = {0}, b = {0};
        struct session *x = open_session(NULL, o, false);
        for (int i = 0; i < k; i++) say(x, said[i], &a);
        assert_int_equal(session_rewind_cost(y, k), 0);
        rewind_to(y, k);
        assert_int_equal(reread(y), 0);
        same_cache(x, y);
        str_clear(&a.text);
        say(x, "Tell me about dogs.", &a);
        say(y, "Tell me about dogs.", &b);
        assert_string_equal(str_get(&a.text), str_get(&b.text));
        same_cache(x, y);
        reopen(&y, l, o);
        assert_int_equal(reread(y), 0);
        same_cache(x, y);
        session_close(x);
        str_release(&a.text);
        str_release(&b.text);
        rewind_to(y, k);
    }
}

TEST(test_rewind_locret)
{
    rewind_is_exact(options_of("locret", "q4", 0));
}

TEST(test_rewind_random_sampled)
{
    rewind_is_exact(options_of("random", "q8", 0.9f));
}

TEST(test_regenerate_gives_the_same)
{
    assert_true(regenerates_the_same(options_of("locret", "q8", 0), same_cache) > 0);
    assert_true(regenerates_the_same(options_of("keydiff+global", "q8", 0), same_cache) > 0);
}

/* Units evicted long ago and removed from the log must be recomputed: the cost is reported, and it
 * works. */
TEST(test_rewind_beyond_the_log)
{
    struct options o = options_of("sink", "q4", 0);
    NEW_LIBRARY(l);
    AUTO_LOG log = {0};
    o.session.rewind = 1;
    o.session.plan.budget = 20;
    o.session.plan.policy.reserve = 8;
    AUTO_SESSION *s = open_session(l, o, false);
    struct session_stats st;
    for (int i = 0; i < 30; i++) say(s, said[i % N_SAID], &log);
    int64_t cost = session_rewind_cost(s, 3);
    assert_true(cost > 10);
    rewind_to(s, 3);
    session_stats(s, &st);
    assert_int_equal(st.n_reread, cost);
    assert_int_equal(st.n_tokens, cost + 1);
    say(s, said[0], &log);
    reopen(&s, l, o);
    assert_int_equal(reread(s), 0);
    assert_int_equal(turns_of(s), 4);
    assert_int_equal(session_rewind(s, 5, NULL, &err), ERR_USAGE);
    session_close(s);
    s = open_session(NULL, o, false);
    assert_int_equal(session_rewind(s, 0, NULL, &err), ERR_USAGE);
}

TEST(test_regenerate)
{
    struct options o = options_of("locret", "q4", 4.0f);
    NEW_LIBRARY(l);
    AUTO_LOG first = {0}, log = {0};
    AUTO_SESSION *s = open_session(l, o, false);
    struct session_sink k = sink_of(&log);
    enum session_end end;
    assert_int_equal(session_regenerate(s, &k, &end, &err), ERR_USAGE);
    for (int i = 0; i < 4; i++) say(s, said[i], &log);
    say(s, said[2], &first);
    first.text.data[--first.text.n] = 0;
    int n_other = 0; /* chance may draw the same answer again, but not always */
    for (int i = 0; i < 6; i++) {
        str_clear(&log.text);
        regenerate(s, &log);
        n_other += strcmp(str_get(&log.text), str_get(&first.text)) != 0;
        assert_int_equal(reread(s), 0);
        assert_int_equal(turns_of(s), 5);
        reopen(&s, l, o);
        assert_int_equal(reread(s), 0);
        assert_int_equal(turns_of(s), 5);
    }
    assert_true(n_other > 1);
    /* A discarded answer is deleted, but the conversation continues as before. */
    rewind_to(s, 2);
    assert_int_equal(reread(s), 0);
}

TEST(test_branch)
{
    rewinds_and_branches(options_of("locret", "q4", 0), 3, same_cache);
}

/* Switching between conversations takes no more memory than one of them, and replays nothing. */
TEST(test_switching)
{
    struct options o = options_of("keydiff", "q4", 0);
    NEW_LIBRARY(l);
    AUTO_LOG log = {0};
    size_t used[2] = {0};
    for (int i = 0; i < 24; i++) {
        struct session *s;
        o.session.conversation = i % 2 ? "work" : "garden";
        ok(session_open(&s, engine, l, &o.session, NULL, &err));
        assert_int_equal(reread(s), 0);
        assert_int_equal(turns_of(s), i / 2 < 4 ? i / 2 : 4);
        if (i < 8) say(s, said[i], &log);
        session_close(s);
        used[i >= 12] = mallinfo2().uordblks;
    }
    /* apart from the text in `log`, nothing stays allocated */
    assert_true(used[1] <= used[0] + 16384);
}

/* A conversation that never ends does not grow on disk without limit. */
/* Also where the conversation is often loaded. */
TEST(test_the_file_stays_small)
{
    struct options o = options_of("random", "q4", 0.8f);
    NEW_LIBRARY(l);
    AUTO_LOG log = {0};
    o.session.plan.budget = 24;
    o.session.plan.policy.reserve = 8;
    o.session.max_tokens = 12;
    o.session.rewind = 128 << 10;       /* several bases; most are not read when it is loaded */
    o.session.recall.archive_bytes = 1; /* the fewest positions possible */
    AUTO_SESSION *s = open_session(l, o, false), *x = open_session(NULL, o, false);
    int64_t bytes[2] = {0};
    struct session_stats st;
    for (int i = 0; i < 160; i++) { /* the maximum in turns 20 to 79, and 100 to 159 */
        say(s, said[i % N_SAID], &log);
        say(x, said[i % N_SAID], &log);
        if (i % 4 == 3) reopen(&s, l, o);
        int64_t now = cache_bytes(l);
        if (i % 80 >= 20 && now > bytes[i / 80]) bytes[i / 80] = now;
    }
    session_stats(s, &st);
    assert_true(bytes[1] <= bytes[0] + bytes[0] / 4);
    /* a base waits for eight times as many dead units, twice: the oldest checkpoint has another */
    assert_true(bytes[1] < o.session.rewind + 16 * st.units_kept * st.unit_bytes);
    reopen(&s, l, o);
    assert_int_equal(reread(s), 0);
    same_cache(x, s);
}

/* first_budget counts for a new conversation, unless a budget is given; then the saved one does. */
TEST(test_first_budget)
{
    struct options o = options_of("keeper", "q4", 0);
    AUTO_LOG log = {0};
    NEW_LIBRARY(l);
    static const struct {
        int given, first, expected;
        bool again;
    } rows[] = {{0, 60, 60, false}, {0, 90, 60, true}, {50, 90, 50, true}, {70, 60, 70, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        o.session.plan.budget = rows[i].given;
        o.session.first_budget = rows[i].first;
        AUTO_SESSION *s = open_session(l, o, rows[i].again);
        struct session_stats st;
        session_stats(s, &st);
        assert_int_equal(st.budget, rows[i].expected);
        say(s, said[0], &log); /* an empty one would not be saved */
    }
}

/* Stopping and continuing gives the same text as an answer that was never stopped. */
TEST(test_stop_and_continue)
{
    AUTO_LOG whole = {0}, parts = {.stop_after = 5};
    struct options o = options_of("locret", "q4", 0);
    NEW_LIBRARY(l);
    AUTO_SESSION *s = open_session(NULL, o, false);
    say(s, said[2], &whole);
    session_close(s);
    s = open_session(l, o, false);
    assert_int_equal(answer(s, said[2], &parts), SESSION_STOPPED);
    assert_true(session_can_continue(s));
    reopen(&s, l, o);
    parts.stop_after = 0;
    answer(s, NULL, &parts);
    /* The second part may be longer: each answer has its own limit of tokens. */
    assert_memory_equal(whole.text.data, parts.text.data, whole.text.n - 1);
}

/* Another policy: the text is replayed, which the user asked for, so no fault is reported. */
TEST(test_another_policy_is_told_as_a_change)
{
    AUTO_LOG log = {0};
    NEW_LIBRARY(l);
    AUTO_SESSION *s = open_session(l, options_of("sink", "q4", 0), false);
    say(s, said[0], &log);
    session_close(s);
    const char *const policies[] = {"random", "keeper"}; /* without heads, and with them */
    for (int i = 0; i < 2; i++) {
        char expected[64];
        s = open_session(l, options_of(policies[i], "q4", 0), true);
        assert_true(reread(s) > 0);
        snprintf(expected, sizeof expected, "continues with policy %s: replaying", policies[i]);
        assert_non_null(strstr(session_notice(s), expected));
        assert_null(strstr(session_notice(s), "could not be used"));
        session_close(s);
    }
    s = open_session(l, options_of("keeper", "q4", 0), true);
    assert_string_equal(session_notice(s), "");
}

/* Another KV format: the saved cache is not used, and the user is told why. */
TEST(test_other_format_is_replayed)
{
    AUTO_LOG log = {0};
    NEW_LIBRARY(l);
    AUTO_SESSION *s = open_session(l, options_of("sink", "q4", 0), false);
    struct session_stats st;
    say(s, said[0], &log);
    say(s, said[1], &log);
    session_close(s);
    s = open_session(l, options_of("sink", "q8", 0), true);
    session_stats(s, &st);
    assert_true(st.n_reread > 0);
    assert_int_equal(st.n_tokens, st.n_reread + 1);
    assert_non_null(strstr(session_notice(s), "format"));
    say(s, said[3], &log);
    reopen(&s, l, options_of("sink", "q8", 0));
    assert_int_equal(reread(s), 0);
}

/* A state with impossible facts about the cache, under a correct checksum. */
static void forge_n_run(struct conversations *l, const char *n_run)
{
    struct store *store = conversations_store(l);
    struct store_conversation c;
    AUTO_STR forged = {0};
    char *text, *end;
    assert_int_equal(store_conversation_latest(store, &c, &err), 1);
    ok(store_state_get(store, c.id, &text, &err));
    char *number = strstr(text, "\"n_run\":") + strlen("\"n_run\":");
    strtoll(number, &end, 10);
    str_append(&forged, text, (size_t)(number - text));
    str_printf(&forged, "%s%s", n_run, end);
    ok(store_state_put(store, c.id, forged.data, &err));
    free(text);
}

/* A checkpoint of a position that was never reached, under a correct checksum. */
static void forge_point(struct conversations *l)
{
    struct store *store = conversations_store(l);
    struct store_conversation c;
    const struct store_checkpoint point = {.seq = 1, .n_run = 1000000};
    assert_int_equal(store_conversation_latest(store, &c, &err), 1);
    ok(store_checkpoint_put(store, c.id, &point, &err));
}

/* Any damage of the saved cache: the text is replayed, and the user is told why. */
TEST(test_damaged_caches_are_replayed)
{
    static const struct {
        /* or a number, the positions that the state claims to be in the cache; or "point" */
        const char *sql, *why;
    } cases[] = {
        {"UPDATE blob SET bytes = substr(bytes, 1, 50) || x'00' || substr(bytes, 52) WHERE id = "
         "(SELECT blob FROM segment WHERE kind = 0 ORDER BY layer DESC)",
         "checksum"},
        {"UPDATE segment SET layer = layer + 16 WHERE kind = 0 AND layer = (SELECT max(layer) FROM "
         "segment WHERE kind = 0)",
         "parts of it are missing"},
        {"UPDATE segment SET layer = 1000 WHERE kind = 1", "does not fit"},
        {"DELETE FROM segment WHERE kind = 0 AND layer = (SELECT max(layer) FROM segment WHERE "
         "kind = 0)",
         "parts of it are missing"},
        {"DELETE FROM segment WHERE kind = 0", "none was saved"},
        {"DELETE FROM segment WHERE kind = 6", "could not be used"},
        {"DELETE FROM segment WHERE kind = 1", "could not be used"},
        {"DELETE FROM segment", "none was saved"},
        {"UPDATE checkpoint SET n_run = n_run + 1", "checkpoint"},
        {"point", "its checkpoints are out of order"},
        {"-5", "none was saved"},
        {"1e300", "none was saved"},
        {"4294967295", "parts of it are missing"},
    };
    struct options o = options_of("sink", "q4", 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *dir = folder_new();
        AUTO_LIBRARY *l = open_library(dir);
        AUTO_SESSION *s = open_session(l, o, false);
        AUTO_LOG log = {0};
        for (int turn = 0; turn < 5; turn++) say(s, said[turn], &log);
        assert_true(log.n_evicted > 0);
        session_close(s);
        if (strchr(cases[i].sql, ' '))
            change_library(dir, cases[i].sql);
        else if (!strcmp(cases[i].sql, "point"))
            forge_point(l);
        else
            forge_n_run(l, cases[i].sql);
        s = open_session(l, o, true);
        assert_true(reread(s) > 0);
        if (!strstr(session_notice(s), cases[i].why))
            fail_msg("\"%s\" does not say \"%s\"", session_notice(s), cases[i].why);
        say(s, said[5], &log);
        reopen(&s, l, o);
        assert_int_equal(reread(s), 0);
    }
}

/* ---- scores of a crashed answer -------------------------------------------------------------- */

/* tokens of the answer: two batches of scores, and some not yet scored */
enum { CRASH_AFTER = 40 };

/* A child process dies in the middle of an answer. */
static void crash(const char *dir, struct options o)
{
#ifdef __SANITIZE_THREAD__
    skip(); /* it knows no threads of a process that was forked */
#endif
    run_victim(dir, o, 0, said[2], (struct victim){.n_tokens = CRASH_AFTER});
}

struct tail {
    struct store_tail rows[CRASH_AFTER];
    int n;
};

static void *copy_of(const void *bytes, size_t n)
{
    void *p = malloc(n + 1);
    assert_non_null(p);
    return memcpy(p, bytes, n);
}

static int keep_row(void *ctx, const struct store_tail *t)
{
    struct tail *tail = ctx;
    struct store_tail *row = &tail->rows[tail->n++];
    assert_in_range(tail->n, 1, CRASH_AFTER);
    *row = *t;
    row->text = copy_of(t->text, t->n_text);
    row->units = t->n_units ? copy_of(t->units, t->n_units) : NULL;
    row->rest = t->n_rest ? copy_of(t->rest, t->n_rest) : NULL;
    return 0;
}

/* Units of the running answer that claim position `pos`, under correct checksums. */
static void forge_tail(const char *dir, uint32_t pos)
{
    AUTO_LIBRARY *l = open_library(dir);
    struct store *store = conversations_store(l);
    struct store_conversation c;
    struct tail tail = {.n = 0};
    assert_int_equal(store_conversation_latest(store, &c, &err), 1);
    ok(store_tail_each(store, c.id, keep_row, &tail, &err));
    ok(store_tail_clear(store, c.id, &err));
    for (int i = 0; i < tail.n; i++) {
        struct store_tail *row = &tail.rows[i];
        if (row->n_units) memcpy((char *)(uintptr_t)row->units + 4, &pos, sizeof pos);
        ok(store_tail_add(store, c.id, row, &err));
        free((void *)(uintptr_t)row->text);
        free((void *)(uintptr_t)row->units);
        free((void *)(uintptr_t)row->rest);
    }
}

/* They are checked like all other units. */
TEST(test_forged_answer)
{
    static const uint32_t positions[] = {0, 1000, UINT32_MAX - 1};
    struct options o = options_of("sink", "q4", 0);
    o.session.max_tokens = CRASH_AFTER + 1;
    o.session.ignore_end = true;
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
        const char *dir = folder_new();
        AUTO_LOG log = {0};
        crash(dir, o);
        forge_tail(dir, positions[i]);
        AUTO_LIBRARY *l = open_library(dir);
        AUTO_SESSION *s = open_session(l, o, true);
        assert_non_null(strstr(session_notice(s), "does not fit"));
        say(s, said[5], &log);
    }
}

/* Generated tokens are scored in batches. Tokens that a crash left without a score are run again
 * with the next message, so that every unit has a score; the others keep the scores of an
 * uninterrupted run. */
TEST(test_crash_keeps_scores)
{
    struct options o = options_of("locret", "q4", 0);
    AUTO_LOG log = {0}, rest = {0};
    const char *dir = folder_new();
    o.session.plan.budget = 200;
    o.session.plan.policy.reserve = 64;
    o.session.max_tokens = CRASH_AFTER + 1;
    o.session.ignore_end = true;
    crash(dir, o);
    AUTO_LIBRARY *l = open_library(dir);
    o.session.max_tokens = 1;
    AUTO_SESSION *cut = open_session(l, o, true);
    o.session.max_tokens = CRASH_AFTER + 1;
    AUTO_SESSION *whole = open_session(NULL, o, false);
    assert_int_equal(reread(cut), 0);
    say(whole, said[2], &log);
    const struct cache *a = session_cache(cut), *b = session_cache(whole);
    assert_in_range(b->n_pos - a->n_pos, 1, 16);
    for (int i = 0; i < a->shape.n_layer * a->shape.n_head; i++)
        assert_memory_equal(a->kv_heads[i].score, b->kv_heads[i].score,
                            (size_t)a->n_pos * sizeof *a->kv_heads[i].score);
    answer(cut, NULL, &rest);
    assert_int_equal(a->n_pos, b->n_pos);
    for (int i = 0; i < a->shape.n_layer * a->shape.n_head; i++)
        for (int64_t p = 0; p < a->n_pos; p++) {
            assert_true(a->kv_heads[i].score[p] != 0);
            assert_true(fabsf(a->kv_heads[i].score[p] - b->kv_heads[i].score[p]) < 0.1f);
        }
}

/* ---- the end of a prompt --------------------------------------------------------------------- */

struct reading {
    int64_t done, total, evicted_at; /* tokens of the prompt: run, all, run at the last eviction */
    bool answering;
};

static void on_reading(void *ctx, int64_t done, int64_t total)
{
    struct reading *r = ctx;
    r->done = done;
    r->total = total;
}

static void on_reading_evicted(void *ctx, int64_t n, int64_t n_tokens)
{
    struct reading *r = ctx;
    if (!r->answering) r->evicted_at = r->done;
}

/* For the tokens of the message, before it is run, and of the answer. */
static void on_reading_tokens(void *ctx, int64_t position, int n, const uint16_t *n_bytes)
{
    struct reading *r = ctx;
    r->answering = r->total > 0 && r->done == r->total;
}

/* Prompts of one to two chunks and a little more: no eviction happens in or after their last
 * `local` tokens, which hold the question. */
static void ends_of_prompts_follow_evictions(int chunk, int local)
{
    struct options o = options_of("locret", "q4", 0);
    o.session.plan.chunk = chunk;
    o.session.max_tokens = 1;
    AUTO_SESSION *s = open_session(NULL, o, false);
    AUTO_STR text = {0};
    int64_t least = INT64_MAX; /* tokens between the last eviction and the answer */
    for (int n = chunk; n < 2 * chunk + local; n += local / 4 + 1) {
        struct reading r = {.evicted_at = -1};
        struct session_sink k = {.ctx = &r,
                                 .progress = on_reading,
                                 .evicted = on_reading_evicted,
                                 .tokens = on_reading_tokens};
        enum session_end end;
        str_clear(&text);
        for (int i = 0; i < n; i++) str_puts(&text, " the");
        ok(session_say(s, str_get(&text), text.n, &k, &end, &err));
        assert_int_equal(r.done, r.total);
        assert_in_range(r.total, n, n + 16);
        if (r.evicted_at > 0 && r.total - r.evicted_at < least) least = r.total - r.evicted_at;
    }
    if (least != local) fail_msg("%d tokens after an eviction, not %d", (int)least, local);
}

/* Locret's n_loc = 100; half a chunk if chunks are small. */
TEST(test_the_question_is_run_after_the_last_eviction)
{
    ends_of_prompts_follow_evictions(256, 100);
    ends_of_prompts_follow_evictions(64, 32);
}

/* A full cache without eviction ends with a message, not with a random answer. */
TEST(test_policy_full_ends)
{
    AUTO_LOG log = {0};
    struct options o = options_of("full", "q4", 0);
    o.session.plan.policy.context = 96;
    AUTO_SESSION *s = open_session(NULL, o, false);
    enum session_end end = SESSION_TURN_END;
    for (int i = 0; i < N_SAID && end != SESSION_FULL; i++) end = answer(s, said[i], &log);
    assert_int_equal(end, SESSION_FULL);
}

/* An answer of one token. */
static struct str first_word(const char *question, float penalty)
{
    struct log log = {0};
    struct options o = options_of("keeper", "q4", 0);
    o.session.sampling.temperature = 0;
    o.session.sampling.repeat_penalty = penalty;
    o.session.sampling.repeat_last = SAMPLER_HISTORY;
    o.session.max_tokens = 1;
    AUTO_SESSION *s = open_session(NULL, o, false);
    answer(s, question, &log);
    return log.text;
}

/* A penalty of 0.01 rewards what it sees: the answer begins as without it, because it sees nothing
 * of the question. */
TEST(test_the_penalty_spares_the_question)
{
    for (int i = 0; i < N_SAID; i++) {
        AUTO_STR bare = first_word(said[i], 1), rewarded = first_word(said[i], 0.01f);
        assert_int_equal(bare.n, rewarded.n);
        assert_memory_equal(bare.data, rewarded.data, bare.n);
    }
}

/* A penalty far below 1 rewards repeated tokens: some answer repeats itself endlessly. */
TEST(test_a_circle_ends)
{
    AUTO_LOG log = {0};
    struct options o = options_of("keeper", "q4", 0);
    o.session.sampling.repeat_penalty = 0.01f;
    o.session.sampling.repeat_last = 4;
    o.session.max_tokens = 5000;
    AUTO_SESSION *s = open_session(NULL, o, false);
    enum session_end end = SESSION_TURN_END;
    struct session_stats st;
    for (int i = 0; i < N_SAID && end == SESSION_TURN_END; i++) end = answer(s, said[i], &log);
    assert_int_equal(end, SESSION_REPETITION);
    session_stats(s, &st);
    assert_in_range(st.n_decoded, 1, 5000);
    assert_true(session_can_continue(s));
    assert_int_equal(session_ended(s), SESSION_REPETITION);
    o.session.max_tokens = 1000;
    o.session.ignore_end = true;
    session_set(s, &o.session);
    assert_int_equal(answer(s, NULL, &log), SESSION_LENGTH);
    assert_int_equal(session_ended(s), SESSION_LENGTH);
}

AROUND_TESTS(engine_set_up, engine_tear_down)
