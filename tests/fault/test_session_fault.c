/* A conversation while the disk or the memory fails: opening it, a turn, closing it. The n-th read,
 * write or sync fails, or the n-th allocation. Each time there is one clear error line; all data
 * saved before is intact, and the conversation continues: at once, and after reopening. */

#include "tests/test.h"

#include <signal.h>
#include <sys/wait.h>

#include "runtime/save/conversations.h"
#include "runtime/session/session.h"
#include "store/db.h"
#include "tests/fault/disk.h"
#include "tests/fault/life.h"

static struct engine *engine;
static const char *path;
static char original[1 << 20]; /* the file before each fault */
static size_t n_original;

/* ---- memory that fails ----------------------------------------------------------------------- */

static int allocations; /* until one fails; 0 = none fails */

#ifdef __SANITIZE_ADDRESS__
#define CAN_FAIL false /* the sanitizer has its own malloc */
#else
#define CAN_FAIL true

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

static bool is_refused(void)
{
    return allocations > 0 && --allocations == 0;
}

void *malloc(size_t n)
{
    return is_refused() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return is_refused() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    return is_refused() ? NULL : __libc_realloc(p, n);
}
#endif

/* ---- a conversation -------------------------------------------------------------------------- */

static int n_recalled;

static void on_recalled(void *ctx, const struct session_recalled *r)
{
    n_recalled += r->n > 0;
}

static int say(struct session *s)
{
    static const char text[] = "My dog is Biscuit. Tell me a joke.";
    const struct session_sink k = {.recalled = on_recalled};
    enum session_end end;
    return session_say(s, text, sizeof text - 1, &k, &end, &err);
}

struct life {
    struct conversations *l;
    struct session *s;
};

static void life_end(struct life *x)
{
    session_close(x->s);
    conversations_close(x->l);
    *x = (struct life){0};
}

static int life_begin(struct life *x)
{
    struct options o = life_options(24, 3, 0);
    *x = (struct life){0};
    int rc = conversations_open(&x->l, path, NULL, &err);
    return rc ? rc : session_open(&x->s, engine, x->l, &o.session, NULL, &err);
}

static int note_message(void *ctx, const struct store_message *m)
{
    str_append(ctx, m->text, m->n_text);
    str_puts(ctx, "\n");
    return 0;
}

/* All messages, in order. */
static void read_text(struct conversations *l, struct str *out)
{
    str_clear(out);
    ok(conversations_messages(l, "life", note_message, out, &err));
}

static void assert_clear(const char *what, int n)
{
    if (strlen(err.text) < 15 || strchr(err.text, '\n') || err.code == 0)
        fail_msg("%s %d: unclear: %d '%s'", what, n, err.code, err.text);
}

/* The disk works again: nothing is lost, what is saved is no torn cache, and the conversation
 * continues. */
static void assert_goes_on(const char *what, int n, const struct str *before)
{
    struct life x;
    AUTO_STR text = {0};
    if (life_begin(&x)) fail_msg("%s %d: %s", what, n, err.text);
    if (strstr(session_notice(x.s), "missing")) fail_msg("%s %d: %s", what, n, session_notice(x.s));
    if (conversations_check(x.l, &err)) fail_msg("%s %d: %s", what, n, err.text);
    read_text(x.l, &text);
    if (text.n < before->n || memcmp(text.data, before->data, before->n))
        fail_msg("%s %d: \"%s\" does not begin with \"%s\"", what, n, str_get(&text), before->data);
    if (say(x.s)) fail_msg("%s %d: %s", what, n, err.text);
    life_end(&x);
}

static void restore(void)
{
    char beside[2][160];
    snprintf(beside[0], sizeof *beside, "%s-wal", path);
    snprintf(beside[1], sizeof *beside, "%s-shm", path);
    unlink(beside[0]);
    unlink(beside[1]);
    write_file(path, original, n_original);
}

/* ---- the disk -------------------------------------------------------------------------------- */

struct fault {
    const char *name;
    enum operation operation;
    int code;
    bool stays;
    int first, step; /* places: faults of one operation take turns */
};

/* false = the n-th operation was never reached. */
static bool run_with_fault(const struct fault *f, int n, const struct str *before)
{
    struct life x;
    restore();
    disk.operation = f->operation;
    disk.code = f->code;
    disk.stays = f->stays;
    disk.n_failed = 0;
    disk.countdown = n;
    memset(&err, 0, sizeof err);
    int rc = life_begin(&x);
    if (rc == 0) rc = say(x.s);
    disk.countdown = 0;
    if (rc) assert_clear(f->name, n);
    if (rc && x.s) { /* the same session: at most its cache is dropped */
        if (say(x.s)) fail_msg("%s %d, said again: %s", f->name, n, err.text);
    }
    life_end(&x);
    assert_goes_on(f->name, n, before);
    return disk.n_failed > 0;
}

TEST(every_operation_fails)
{
    static const struct fault faults[] = {
        {"write error", WRITE, SQLITE_IOERR_WRITE, false, 1, 2},
        {"disk full", WRITE, SQLITE_FULL, true, 2, 2},
        {"read error", READ, SQLITE_IOERR_READ, false, 1, 2},
        {"disk unreadable", READ, SQLITE_IOERR_READ, true, 2, 2},
        {"sync error", SYNC, SQLITE_IOERR_FSYNC, true, 1, 1},
    };
    const struct str *before = *state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const struct fault *f = &faults[i];
        const int step = f->step * every(f->operation == WRITE ? 5 : 1);
        int n = f->first;
        while (run_with_fault(f, n, before)) n += step;
        print_message("%s: %d places, recalled %d times\n", f->name, n / step, n_recalled);
        assert_true(n_recalled > 0);
        n_recalled = 0;
        assert_true(n > f->first);
    }
}

/* ---- replacing an answer, and a message with its answer -------------------------------------- */

static const char amended[] = "Ask my cat.";

enum replaced { ANSWER, MESSAGE, AGAIN }; /* which is replaced; AGAIN: another answer */

/* The old text, all of it, or the new one; of another answer, which is the same at temperature 0,
 * at least the beginning. */
static void assert_old_or_new(int n, enum replaced change, const struct str *before)
{
    struct life x;
    AUTO_STR text = {0};
    if (life_begin(&x)) fail_msg("amend %d: %s", n, err.text);
    read_text(x.l, &text);
    size_t asked = (size_t)(strrchr(before->data, 'j') - before->data) + sizeof "joke." - 1;
    bool old = text.n == before->n && !memcmp(text.data, before->data, text.n);
    bool begun = text.n > asked + 2 && !memcmp(text.data, before->data, text.n - 1);
    if (!old && !(change == AGAIN ? begun : strstr(str_get(&text), amended) != NULL))
        fail_msg("amend %d: neither text is there: \"%s\"", n, str_get(&text));
    life_end(&x);
}

static int amend(struct session *s, enum replaced change)
{
    const struct session_sink k = {.ctx = NULL};
    enum session_end end;
    if (change == AGAIN) return session_regenerate(s, &k, &end, &err);
    if (change == MESSAGE)
        return session_replace(s, 1, amended, sizeof amended - 1, &k, &end, &err);
    return session_amend(s, amended, sizeof amended - 1, &k, &err);
}

static bool amend_with_fault(int n, enum replaced change, bool stays, const struct str *before)
{
    struct life x;
    restore();
    if (life_begin(&x)) fail_msg("amend %d: %s", n, err.text);
    memset(&err, 0, sizeof err);
    disk.operation = WRITE;
    disk.code = SQLITE_FULL;
    disk.stays = stays;
    disk.n_failed = 0;
    disk.countdown = n;
    int rc = amend(x.s, change);
    bool reopen = session_must_reopen(x.s);
    if (rc) assert_clear("amend", n);
    if (stays || reopen) { /* the disk stays full until the end, as after kill -9 */
        life_end(&x);
        disk.countdown = 0;
        assert_old_or_new(n, change, before);
        if (reopen && life_begin(&x)) fail_msg("amend %d, opened again: %s", n, err.text);
        if (!reopen) return disk.n_failed > 0;
    }
    disk.countdown = 0;
    if (say(x.s)) fail_msg("amend %d, then said: %s", n, err.text);
    life_end(&x);
    return disk.n_failed > 0;
}

static void is_replaced_whole(enum replaced change, const struct str *before)
{
    int n = 1; /* the disk is full to the end, or for one write */
    while (amend_with_fault(n, change, n % 2 != 0, before)) n += every(3);
    assert_true(n > 3);
}

TEST(an_answer_is_replaced_whole)
{
    is_replaced_whole(ANSWER, *state);
}

TEST(a_message_is_replaced_whole)
{
    is_replaced_whole(MESSAGE, *state);
}

TEST(an_answer_is_generated_again_whole)
{
    is_replaced_whole(AGAIN, *state);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* In a child process: it may end at once when a few bytes are refused. 1 = it was never refused. */
static int talk_with_refusal(int n)
{
    struct life x;
    memset(&err, 0, sizeof err);
    allocations = n;
    int rc = life_begin(&x);
    if (rc == 0) rc = say(x.s);
    bool reached = allocations == 0;
    allocations = 0;
    if (rc && (strlen(err.text) < 15 || strchr(err.text, '\n'))) return 2;
    if (rc && x.s && say(x.s)) return 3;
    life_end(&x);
    return reached ? 0 : 1;
}

TEST(every_allocation_fails)
{
    const struct str *before = *state;
    int n_ended = 0, n_runs = 0, rc = 0;
    if (!CAN_FAIL) skip();
    /* Each of the first allocations, then steps that hit each kind of loop at another place. */
    for (int n = 1; rc != 1; n += n < 60 ? 1 : 1 + n / 23) {
        int status;
        restore();
        pid_t child = fork();
        if (child == 0) {
            signal(SIGABRT, SIG_DFL);
            _exit(talk_with_refusal(n));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        rc = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
        bool ended = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
        if (rc > 1 || (WIFSIGNALED(status) && !ended))
            fail_msg("allocation %d: status %d", n, status);
        n_ended += ended;
        n_runs++;
        assert_goes_on("allocation", n, before);
    }
    print_message("%d allocations refused, the program ended at once at %d of them\n", n_runs,
                  n_ended);
}

/* ---- two programs ---------------------------------------------------------------------------- */

static struct conversations *faster;

/* Another program begins the conversation between looking for it and making it. */
static int begin_meanwhile(unsigned what, void *ctx, void *statement, void *sql)
{
    struct conversations *l = faster;
    struct store_conversation c;
    if (!l || strcmp(sql, "BEGIN IMMEDIATE") != 0) return 0;
    faster = NULL;
    ok(store_conversation_create(conversations_store(l), "life", &c, &err));
    ok(store_lock(conversations_store(l), c.id, &err));
    return 0;
}

TEST(another_program_is_faster)
{
    struct options o = life_options(24, 3, 0);
    struct conversations *l, *other;
    struct session *s;
    unlink(path);
    ok(conversations_open(&l, path, NULL, &err));
    ok(conversations_open(&other, path, NULL, &err));
    faster = other;
    sqlite3_trace_v2(conversations_store(l)->db, SQLITE_TRACE_STMT, begin_meanwhile, NULL);
    refused(session_open(&s, engine, l, &o.session, NULL, &err), ERR_FAIL,
            "'life' is open in another retain");
    conversations_close(other);
    ok(session_open(&s, engine, l, &o.session, NULL, &err));
    session_close(s);
    conversations_close(l);
}

/* Two turns with evictions, in one file. */
static int setup(void **state)
{
    struct str *before = calloc(1, sizeof *before);
    struct options o = life_options(24, 3, 0);
    struct life x;
    if (disk_start(NULL) || engine_open(&engine, &o.engine, &o.session.plan, 1, NULL, NULL, &err))
        return -1;
    path = path_in(folder_new(), "retain.db");
    if (life_begin(&x) || say(x.s) || say(x.s)) return -1;
    read_text(x.l, before);
    life_end(&x);
    *state = before;
    FILE *f = fopen(path, "rb");
    n_original = fread(original, 1, sizeof original, f);
    fclose(f);
    return n_original == sizeof original;
}

static int teardown(void **state)
{
    str_release(*state);
    free(*state);
    engine_close(engine);
    return 0;
}

AROUND_TESTS(setup, teardown)
