/* A conversation that is killed (SIGKILL) at any moment: while it reads a prompt, recalls,
 * answers, has run several proposed tokens and verifies them, evicts, saves or compacts. Every time
 * the database is intact, no finished turn is lost, the running answer loses at most the token in
 * flight, and the conversation continues without a replay. unit/test_session_continue compares what
 * follows with a conversation that was never killed.
 *
 * A child process runs the conversation; it kills itself at the n-th event of one kind, or its
 * parent kills it at a random moment. Events are the session's callbacks and the statements of its
 * saves (sqlite3_trace_v2), and between them, inside statements, every 50th step of SQLite's
 * virtual machine. KILLS=200 for the long run. */

#include "tests/test.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "runtime/save/conversations.h"
#include "runtime/session/session.h"
#include "store/db.h"
#include "tests/fault/life.h"

enum phase { IDLE, READING, RECALLING, ANSWERING, VERIFYING, EVICTING, SAVING, COMPACTING, PHASES };

static const char *const phase_names[PHASES] = {"between turns", "reading",   "recalling",
                                                "answering",     "verifying", "evicting",
                                                "saving",        "compacting"};

/* The child's progress; outlives it. */
struct shared {
    enum phase phase, target; /* target: the phase in which it kills itself; IDLE = none */
    enum phase before;        /* a save */
    int countdown;            /* events in `target` until it does */
    int n_done;               /* finished turns */
    int n_seen;               /* bytes of the running answer shown so far */
    char seen[8192];
};

static struct shared *shared;
static struct session *talking; /* the child's */

static const char *path;

/* ---- the child ------------------------------------------------------------------------------- */

static void event(enum phase phase)
{
    shared->phase = phase;
    if (shared->target == phase && phase != IDLE && --shared->countdown <= 0)
        kill(getpid(), SIGKILL);
}

static void on_progress(void *ctx, int64_t done, int64_t total)
{
    event(done < total ? READING : ANSWERING);
}

/* The text of an accepted proposal: others wait behind it, in the cache already. */
static void on_text(void *ctx, const char *utf8, size_t n)
{
    static int64_t n_accepted;
    struct session_stats st;
    if (shared->n_seen + (int)n <= (int)sizeof shared->seen) {
        memcpy(shared->seen + shared->n_seen, utf8, n);
        shared->n_seen += (int)n;
    }
    session_stats(talking, &st);
    event(st.n_accepted > n_accepted ? VERIFYING : ANSWERING);
    n_accepted = st.n_accepted;
}

static void on_evicted(void *ctx, int64_t n, int64_t n_tokens)
{
    event(EVICTING);
}

static void on_recalled(void *ctx, const struct session_recalled *r)
{
    event(RECALLING);
}

static int on_statement(unsigned what, void *ctx, void *statement, void *text)
{
    const char *sql = text;
    if (what == SQLITE_TRACE_PROFILE) {
        if (!strcmp(sqlite3_sql(statement), "COMMIT")) shared->phase = shared->before;
        return 0;
    }
    bool saves = shared->phase == SAVING || shared->phase == COMPACTING;
    if (!strcmp(sql, "BEGIN IMMEDIATE")) {
        shared->before = shared->phase;
        event(SAVING);
    } else if (saves && !strncmp(sql, "DELETE FROM checkpoint", 22)) {
        event(COMPACTING);
    } else if (saves) {
        event(shared->phase);
    }
    return 0;
}

static int on_step(void *ctx)
{
    if (shared->phase == SAVING || shared->phase == COMPACTING) event(shared->phase);
    return 0;
}

static void talk(struct session *s)
{
    static const char text[] =
        "My dog is called Biscuit. Repeat: the blue fox sat on the red box and "
        "the blue fox sat on the red box and the blue fox sat on the red box.";
    const struct session_sink k = {
        .progress = on_progress, .text = on_text, .evicted = on_evicted, .recalled = on_recalled};
    enum session_end end;
    for (int turn = 0; turn < 20; turn++) {
        event(READING);
        if (session_say(s, text, sizeof text - 1, &k, &end, &err)) _exit(3);
        shared->phase = IDLE;
        shared->n_seen = 0;
        shared->n_done++;
    }
}

static void live(void)
{
    struct options o = life_options(32, 24, 0.8f);
    struct engine *engine;
    struct conversations *l;
    struct session *s;
    if (engine_open(&engine, &o.engine, &o.session.plan, 1, NULL, NULL, &err) ||
        conversations_open(&l, path, NULL, &err))
        _exit(1);
    if (session_open(&s, engine, l, &o.session, NULL, &err)) _exit(2);
    talking = s;
    sqlite3 *db = conversations_store(l)->db;
    sqlite3_trace_v2(db, SQLITE_TRACE_STMT | SQLITE_TRACE_PROFILE, on_statement, NULL);
    sqlite3_progress_handler(db, 50, on_step, NULL);
    talk(s);
    _exit(0);
}

/* ---- after the kill -------------------------------------------------------------------------- */

struct found {
    struct str text;   /* all messages without an interrupted answer */
    struct str answer; /* the interrupted answer */
    int n_answers;
};

static int take_message(void *ctx, const struct store_message *m)
{
    struct found *f = ctx;
    if (m->seq < 0) {
        str_append(&f->answer, m->text, m->n_text);
        return 0;
    }
    f->n_answers += m->role == CHAT_ASSISTANT;
    str_append(&f->text, m->text, m->n_text);
    str_puts(&f->text, "\n");
    return 0;
}

static void look(struct conversations *l, struct found *f)
{
    *f = (struct found){0};
    ok(conversations_messages(l, "life", take_message, f, &err));
}

static void found_release(struct found *f)
{
    str_release(&f->text);
    str_release(&f->answer);
}

/* Finished turns are unchanged, and the whole text that was shown is saved. */
static void assert_nothing_lost(struct conversations *l, const struct str *before, int n_before)
{
    struct found f;
    ok(conversations_check(l, &err));
    look(l, &f);
    if (before->n) assert_memory_equal(str_get(&f.text), before->data, before->n);
    assert_true(f.n_answers >= n_before + shared->n_done);
    if (f.n_answers == n_before + shared->n_done && shared->n_seen > 0) {
        assert_true((int)f.answer.n >= shared->n_seen);
        assert_memory_equal(f.answer.data, shared->seen, shared->n_seen);
    }
    found_release(&f);
}

/* Continues: with the interrupted answer, or else with a new message. */
static void go_on(struct engine *engine, struct conversations *l)
{
    const struct session_sink k = {.ctx = NULL};
    struct options o = life_options(32, 24, 0.8f);
    struct session_stats st;
    struct session *s;
    enum session_end end;
    o.session.max_tokens = 3;
    ok(session_open(&s, engine, l, &o.session, NULL, &err));
    session_stats(s, &st);
    assert_int_equal(st.n_reread, 0);
    ok(session_can_continue(s) ? session_continue(s, &k, &end, &err)
                               : session_say(s, "And?", 4, &k, &end, &err));
    session_close(s);
    ok(conversations_check(l, &err));
}

static void run_child(int i)
{
    int most = i % 8 == 0 ? 12 : i % 8 == 1 ? 6 : 60; /* events of the phase */
    *shared = (struct shared){.target = i % 8 == 7 ? IDLE : (enum phase)(i % 8 + 1),
                              .countdown = 1 + rand() % most};
    pid_t child = fork();
    if (child == 0) live();
    if (shared->target == IDLE) {
        usleep((useconds_t)(rand() % 120000));
        kill(child, SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status) && WEXITSTATUS(status) != 0)
        fail_msg("the child failed (%d)", WEXITSTATUS(status));
}

TEST(killed_in_the_middle)
{
    const char *kills = getenv("KILLS");
    int n_kills = kills ? atoi(kills) : 30, n_in[PHASES] = {0};
    struct options o = life_options(32, 24, 0.8f);
    struct engine *engine;
    struct conversations *l;
    struct found f = {0};
    srand(7);
    ok(engine_open(&engine, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
    for (int i = 0; i < n_kills; i++) {
        run_child(i);
        n_in[shared->phase]++;
        ok(conversations_open(&l, path, NULL, &err));
        if (i > 0 || shared->n_done > 0) assert_nothing_lost(l, &f.text, f.n_answers);
        go_on(engine, l);
        found_release(&f);
        look(l, &f);
        conversations_close(l);
    }
    for (int i = 0; i < PHASES; i++) print_message("%s: %d kills\n", phase_names[i], n_in[i]);
    for (int i = READING; i < PHASES; i++) assert_true(n_in[i] > 0);
    found_release(&f);
    engine_close(engine);
}

static int setup(void **state)
{
    path = path_in(folder_new(), "retain.db");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? -1 : 0;
}

AROUND_TESTS(setup, NULL)
