/* session_kit: conversations with the demo model in a temporary folder, and a record of their text
 * and of the logits that tokens were drawn from. */
#ifndef RETAIN_TESTS_SESSION_KIT_H
#define RETAIN_TESTS_SESSION_KIT_H

#include "tests/test.h"

#include <signal.h>
#include <sys/wait.h>

#include <sqlite3.h>

#include "cli/options/options.h"
#include "cli/options/options_policy.h"
#include "runtime/cache/cache.h"
#include "runtime/save/conversations.h"
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
    (void)n_tokens;
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
    (void)ctx, (void)fresh, (void)e;
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

static inline void say(struct session *s, const char *text, struct log *l)
{
    struct session_sink k = sink_of(l);
    enum session_end end;
    l->session = s;
    ok(session_say(s, text, strlen(text), &k, &end, &err));
    str_puts(&l->text, "\n");
    hash_logits(l);
    l->session = NULL;
}

static inline void same_cache(const struct session *x, const struct session *y)
{
    same_units(session_cache(x), session_cache(y));
}

/* ---- going on, going back -------------------------------------------------------------------- */

typedef void same_sessions(const struct session *x, const struct session *y);

/* A conversation that is stopped and resumed after each of n turns goes on as one that never
 * stopped. Returns how many units were evicted. */
static inline int64_t resume_equals_never_stopped(struct options o, int n, same_sessions *same)
{
    AUTO_LOG once = {0}, often = {0};
    NEW_LIBRARY(l);
    AUTO_SESSION *x = open_session(NULL, o, false), *y = open_session(l, o, false);
    for (int i = 0; i < n; i++) {
        say(x, said[i], &once);
        say(y, said[i], &often);
        reopen(&y, l, o);
        assert_int_equal(reread(y), 0);
        same(x, y);
        assert_true(once.logits == often.logits);
    }
    assert_string_equal(str_get(&once.text), str_get(&often.text));
    return once.n_evicted;
}

/* Answers that are generated again without randomness are the same, and later turns are as if there
 * had been one answer. Returns how many units were evicted. */
static inline int64_t regenerates_the_same(struct options o, same_sessions *same)
{
    NEW_LIBRARY(l);
    AUTO_LOG once = {0}, again = {0};
    AUTO_SESSION *x = open_session(NULL, o, false), *y = open_session(l, o, false);
    struct session_sink k = sink_of(&again);
    enum session_end end;
    for (int turn = 0; turn < N_SAID; turn++) {
        str_clear(&once.text);
        say(x, said[turn], &once);
        say(y, said[turn], &again);
        str_clear(&again.text);
        ok(session_regenerate(y, &k, &end, &err));
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

static int tokens_left;

static inline void kill_at_token(void *ctx, int64_t position, int n, const uint16_t *n_bytes)
{
    (void)ctx;
    (void)position;
    (void)n_bytes;
    if (n == 1 && --tokens_left == 0) kill(getpid(), SIGKILL);
}

/* A new conversation of n_turns in `dir` whose process is killed at a token of its next answer. */
static inline void run_victim(const char *dir, struct options o, int n_turns, int token)
{
    const struct session_sink k = {.tokens = kill_at_token};
    enum session_end end;
    struct log log = {0};
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct session *s = open_session(open_library(dir), o, false);
        for (int i = 0; i < n_turns; i++) say(s, said[i], &log);
        tokens_left = token;
        session_say(s, said[n_turns], strlen(said[n_turns]), &k, &end, &err);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

#endif
