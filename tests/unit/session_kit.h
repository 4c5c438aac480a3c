/* session_kit: conversations with the demo model in a temporary folder, and a record of their text
 * and of the logits that tokens were drawn from. */
#ifndef RETAIN_TESTS_SESSION_KIT_H
#define RETAIN_TESTS_SESSION_KIT_H

#include "tests/test.h"

#include <signal.h>
#include <sys/wait.h>

#include <sqlite3.h>

#include "base/random.h"
#include "cli/options/options.h"
#include "cli/options/options_policy.h"
#include "runtime/cache/cache.h"
#include "runtime/save/conversations.h"
#include "runtime/save/save_parts.h"
#include "runtime/session/session.h"
#include "store/store.h"
#include "tests/unit/engine_kit.h"
#include "tests/unit/same_units.h"

static const char *const said[] = {
    "My locker code is 48213.",  "Tell me about cats.",    "Tell me a story about a fox.",
    "What is my locker code?",   "How are you?",           "Tell me a joke.",
    "My dog is called Biscuit.", "What is my dog's name?",
};

enum { N_SAID = sizeof said / sizeof *said };

struct log {
    struct str text;
    int stop_after; /* stop after this many pieces of text; 0 = never */
    int n_pieces;
    int64_t n_evicted;
    const struct session *session; /* the session whose logits are hashed; NULL = none */
    /* a hash of all bits of the logits that tokens were drawn from */
    uint64_t logits;
};

static inline void log_end(struct log *l)
{
    str_release(&l->text);
}

#define AUTO_LOG __attribute__((cleanup(log_end))) struct log

static inline void hash_logits(struct log *l)
{
    if (!l->session) return;
    const struct context *c = &l->session->ctx;
    const int n_vocab = c->engine->model->n_vocab;
    const float *x = c->forward.logits + (size_t)c->row * (size_t)n_vocab;
    for (int i = 0; i < n_vocab; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        l->logits = (l->logits ^ bits) * 0x100000001b3u;
    }
}

static inline void on_text(void *ctx, const char *utf8, size_t n)
{
    struct log *l = ctx;
    str_append(&l->text, utf8, n);
    l->n_pieces++;
    hash_logits(l);
}

static inline void on_evicted(void *ctx, int64_t n, int64_t n_tokens)
{
    ((struct log *)ctx)->n_evicted += n;
}

static inline bool on_stop(void *ctx)
{
    const struct log *l = ctx;
    return l->stop_after && l->n_pieces >= l->stop_after;
}

static inline struct session_sink sink_of(struct log *l)
{
    return (struct session_sink){.ctx = l, .text = on_text, .evicted = on_evicted, .stop = on_stop};
}

static inline struct conversations *open_library(const char *dir)
{
    struct conversations *l;
    ok(conversations_open(&l, path_in(dir, "retain.db"), NULL, &err));
    return l;
}

static inline int tell(void *ctx, bool fresh, char *out, struct err *e)
{
    strcpy(out, "sesame");
    return 0;
}

static inline struct conversations *open_encrypted(const char *dir)
{
    const struct store_key key = {.ask = tell, .encrypt = true};
    struct conversations *l;
    ok(conversations_open(&l, path_in(dir, "retain.db"), &key, &err));
    return l;
}

/* A library in a folder of its own. */
#define NEW_LIBRARY(l) AUTO_LIBRARY *l = open_library(folder_new())

/* Changes the file of a library without the store. */
static inline void change_library(const char *dir, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path_in(dir, "retain.db"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_true(sqlite3_changes(db) > 0);
    sqlite3_close(db);
}

static inline struct options options_of(const char *policy, const char *kv, float temperature)
{
    struct options o;
    struct options_policies read;
    options_init(&o);
    ok(options_policies_read(policy, &read, &err));
    o.session.plan.policy = read.item[0];
    plan_kv_named(kv, &o.session.plan.kv);
    o.session.plan.budget = 48;
    o.session.plan.chunk = 16;
    o.session.plan.policy.reserve = 24;
    o.session.sampling.temperature = temperature;
    o.session.sampling.seed = 11;
    o.session.max_tokens = 40;
    return o;
}

/* A small cache, and room for what returns. */
static inline struct options recalling(const char *policy, enum recall_chooser chooser, int budget)
{
    struct options o = options_of(policy, "q4", 0);
    o.session.plan.budget = budget;
    o.session.plan.chunk = 32;
    o.session.plan.policy.reserve = 64;
    o.session.recall.chooser = chooser;
    return o;
}

static inline struct session *open_session(struct conversations *l, struct options o, bool again)
{
    struct session *s;
    o.session.continue_latest = again;
    o.session.new_conversation = !again;
    ok(session_open(&s, engine, l, &o.session, NULL, &err));
    return s;
}

/* As after the program ended and began again. */
static inline void reopen(struct session **s, struct conversations *l, struct options o)
{
    session_close(*s);
    *s = open_session(l, o, true);
}

/* Tokens that were run a second time. */
static inline int64_t reread(const struct session *s)
{
    struct session_stats st;
    session_stats(s, &st);
    return st.n_reread;
}

static inline int64_t turns_of(const struct session *s)
{
    struct session_stats st;
    session_stats(s, &st);
    return st.n_turns;
}

/* Says a text, or with NULL continues; returns how the answer ended. */
static inline enum session_end answer(struct session *s, const char *text, struct log *l)
{
    const struct session_sink k = sink_of(l);
    enum session_end end;
    l->session = s;
    ok(text ? session_say(s, text, strlen(text), &k, &end, &err)
            : session_continue(s, &k, &end, &err));
    l->session = NULL;
    return end;
}

/* A message and all of its answer. */
static inline void say(struct session *s, const char *text, struct log *l)
{
    answer(s, text, l);
    str_puts(&l->text, "\n");
    l->session = s;
    hash_logits(l);
    l->session = NULL;
}

static inline void regenerate(struct session *s, struct log *l)
{
    const struct session_sink k = sink_of(l);
    enum session_end end;
    ok(session_regenerate(s, &k, &end, &err));
}

static inline void same_cache(const struct session *x, const struct session *y)
{
    same_units(session_cache(x), session_cache(y));
}

/* ---- going on, going back -------------------------------------------------------------------- */

typedef void same_sessions(const struct session *x, const struct session *y);

/* Number k of conversation i, below n. */
static inline int random_below(uint64_t i, uint64_t k, int n)
{
    return (int)(random_at(i, k, 0) * n);
}

static inline struct options random_options(uint64_t i, const char *policy)
{
    static const char *const kvs[] = {"q4", "q8", "f16", "f32", "q8:q4", "q5:q8"};
    static const float temperatures[] = {0, 0.7f, 1.3f};
    struct options o =
        options_of(policy, kvs[random_below(i, 1, 6)], temperatures[random_below(i, 2, 3)]);
    o.session.plan.budget = 16 + random_below(i, 3, 64);
    if (o.session.plan.policy.row->scorer == POLICY_KEEP_ALL) o.session.plan.policy.context = 1024;
    o.session.plan.chunk = 4 + random_below(i, 4, 60);
    o.session.plan.policy.reserve = random_below(i, 5, 30);
    o.session.max_tokens = 1 + random_below(i, 6, 40);
    o.session.sampling.seed = i + 1;
    o.session.rewind = i % 2 ? 64 << 20 : 1; /* 1: old checkpoints are forgotten after every turn */
    return o;
}

/* One turn, sometimes stopped in the middle and continued in the next one. */
static inline void random_turn(struct session *s, int turn, uint64_t seed, struct log *l)
{
    const uint64_t choice = (seed + (uint64_t)turn) % 4;
    l->n_pieces = 0;
    l->stop_after = choice == 0 ? 3 : 0;
    if (choice == 1 && session_can_continue(s))
        answer(s, NULL, l);
    else
        say(s, said[turn % N_SAID], l);
    l->stop_after = 0;
}

/* A conversation that is closed and resumed after each of n turns goes on as one that never was.
 * Returns how many units were evicted. */
static inline int64_t resume_equals_never_stopped(struct options o, int n, same_sessions *same)
{
    AUTO_LOG once = {0}, often = {0};
    const char *dir = folder_new(), *policy = o.session.plan.policy.row->name;
    AUTO_LIBRARY *l = open_library(dir);
    AUTO_SESSION *x = open_session(NULL, o, false), *y = open_session(l, o, false);
    for (int i = 0; i < n; i++) {
        random_turn(x, i, o.session.sampling.seed, &once);
        random_turn(y, i, o.session.sampling.seed, &often);
        session_close(y);
        conversations_close(l);
        l = open_library(dir);
        y = open_session(l, o, true);
        assert_int_equal(reread(y), 0);
        if (strcmp(str_get(&once.text), str_get(&often.text)))
            fail_msg("turn %d (%s): \"%s\", not \"%s\"", i, policy, str_get(&often.text),
                     str_get(&once.text));
        if (once.logits != often.logits) fail_msg("turn %d (%s): other logits", i, policy);
        same(x, y);
    }
    return once.n_evicted;
}

/* Answers that are generated again without randomness are the same, and later turns are as if there
 * had been one answer. Returns how many units were evicted. */
static inline int64_t regenerates_the_same(struct options o, same_sessions *same)
{
    NEW_LIBRARY(l);
    AUTO_LOG once = {0}, again = {0};
    AUTO_SESSION *x = open_session(NULL, o, false), *y = open_session(l, o, false);
    for (int turn = 0; turn < N_SAID; turn++) {
        str_clear(&once.text);
        say(x, said[turn], &once);
        say(y, said[turn], &again);
        str_clear(&again.text);
        regenerate(y, &again);
        str_puts(&again.text, "\n");
        assert_string_equal(str_get(&again.text), str_get(&once.text));
        if (turn == N_SAID / 2) reopen(&y, l, o);
        assert_int_equal(reread(y), 0);
        same(x, y);
    }
    return once.n_evicted;
}

/* Rewound to turn k, and branched there, it goes on as one that never had the later turns. */
static inline void rewinds_and_branches(struct options o, int k, same_sessions *same)
{
    NEW_LIBRARY(l);
    char name[STORE_NAME_MAX];
    AUTO_LOG log = {0}, rewound = {0}, branched = {0}, plain = {0};
    AUTO_SESSION *x = open_session(NULL, o, false), *y = open_session(l, o, false), *b;
    for (int i = 0; i < N_SAID; i++) say(y, said[i], &log);
    for (int i = 0; i < k; i++) say(x, said[i], &log);
    ok(session_branch(y, k, "fork", name, &err));
    refused(session_branch(y, k, "fork", name, &err), ERR_USAGE, "fork");
    assert_int_equal(session_rewind_cost(y, k), 0);
    ok(session_rewind(y, k, NULL, &err));
    o.session.conversation = "fork";
    ok(session_open(&b, engine, l, &o.session, NULL, &err));
    assert_int_equal(reread(y) + reread(b), 0);
    same(x, y);
    same(x, b);
    say(x, said[6], &plain);
    say(y, said[6], &rewound);
    say(b, said[6], &branched);
    assert_true(plain.logits == rewound.logits && plain.logits == branched.logits);
    same(x, b);
}

/* ---- a kill ---------------------------------------------------------------------------------- */

struct victim {
    int n_tokens; /* of its last answer until the kill */
    int n_chunks; /* of its last prompt until the kill; 0 = it is killed in the answer */
    void (*last)(const struct session *s); /* what it does last; NULL = nothing */
    struct session *session;
};

static inline void die(const struct victim *v)
{
    if (v->last) v->last(v->session);
    kill(getpid(), SIGKILL);
}

static inline void kill_at_token(void *ctx, int64_t position, int n, const uint16_t *n_bytes)
{
    struct victim *v = ctx;
    if (n == 1 && --v->n_tokens == 0) die(v);
}

static inline void kill_at_chunk(void *ctx, int64_t done, int64_t total)
{
    struct victim *v = ctx;
    v->session->save->state_pos = INT32_MAX; /* no state is due */
    if (--v->n_chunks == 0) die(v);
}

/* A new conversation of n_turns and the message `last` in `dir` whose process is killed. */
static inline void run_victim(const char *dir, struct options o, int n_turns, const char *last,
                              struct victim v)
{
    const struct session_sink k = {
        .ctx = &v, .tokens = kill_at_token, .progress = v.n_chunks ? kill_at_chunk : NULL};
    enum session_end end;
    struct log log = {0};
    int status;
    pid_t child = fork();
    if (child == 0) {
        v.session = open_session(open_library(dir), o, false);
        for (int i = 0; i < n_turns; i++) say(v.session, said[i], &log);
        session_say(v.session, last, strlen(last), &k, &end, &err);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

#endif
