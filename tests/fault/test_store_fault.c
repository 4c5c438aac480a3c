/* The store under a failing disk (disk.h): in each step of a scenario the n-th operation of a kind
 * fails, until the step passes without a failure. */

#include "base/file.h"
#include "tests/fault/disk.h"
#include "tests/unit/store_kit.h"

/* ---- contents of a file ---------------------------------------------------------------------- */

static int note_size(void *ctx, const struct store_segment *g)
{
    str_printf(ctx, "segment %d %lld %d %zu\n", g->layer, (long long)g->seq, (int)g->kind,
               g->n_bytes);
    return 0;
}

struct dump {
    struct store *s;
    struct str *out;
    struct err *e;
};

static int note_conversation(void *ctx, const struct store_conversation *c)
{
    struct dump *d = ctx;
    char *state = NULL;
    str_printf(d->out, "conversation %s '%s' %lld %lld %lld\n", c->name, c->title,
               (long long)c->n_turns, (long long)c->n_tokens, (long long)c->cache_bytes);
    int rc = store_message_each(d->s, c->id, note_message, d->out, d->e);
    if (rc == 0) rc = store_tail_each(d->s, c->id, note_tail, d->out, d->e);
    if (rc == 0) rc = store_segment_each(d->s, c->id, -1, note_size, d->out, d->e);
    if (rc == 0) rc = store_checkpoint_each(d->s, c->id, note_checkpoint, d->out, d->e);
    if (rc == 0) rc = store_state_get(d->s, c->id, &state, d->e);
    if (rc == 0) str_printf(d->out, "state %s\n", state);
    free(state);
    return rc;
}

static int read_all(struct store *s, struct str *out, struct err *e)
{
    struct dump d = {s, out, e};
    str_clear(out);
    int rc = store_conversation_list(s, note_conversation, &d, e);
    return rc ? rc : store_search(s, "plug", note_hit, out, e);
}

/* ---- the scenario ---------------------------------------------------------------------------- */

struct life {
    const char *path;
    struct store *s;
    int64_t id;
    struct str seen; /* the rows that the last step read */
};

static int life_say(struct life *l, enum chat_role role, const char *text)
{
    static const int32_t tokens[] = {4, 5, 6};
    struct store_message m = {
        .role = role, .text = text, .n_text = strlen(text), .tokens = tokens, .n_tokens = 3};
    return store_message_add(l->s, l->id, &m, &err);
}

static int life_keep(struct life *l, int layer, int64_t seq, enum store_kind kind, size_t n_bytes)
{
    static uint8_t bytes[12500];
    struct store_segment g = {
        .seq = seq, .layer = layer, .kind = kind, .bytes = bytes, .n_bytes = n_bytes};
    return store_segment_put(l->s, l->id, &g, &err);
}

static int add_token(struct life *l)
{
    static const char units[100] = "units";
    struct store_tail t = {.text = "word ", .n_text = 5, .units = units, .n_units = sizeof units};
    t.rest = units;
    t.n_rest = 50;
    AUTO_STR seen = {0};
    int rc = store_tail_each(l->s, l->id, note_tail, &seen, &err);
    for (size_t i = 0; i < seen.n; i++) t.position += seen.data[i] == ';';
    return rc ? rc : store_tail_add(l->s, l->id, &t, &err);
}

/* The end of a turn, as a session writes it. */
static int close_turn(struct life *l, int64_t seq)
{
    int rc = store_begin(l->s, &err);
    if (rc == 0) rc = life_say(l, CHAT_ASSISTANT, "word word ");
    if (rc == 0) rc = life_keep(l, 0, seq, STORE_WINDOWS, 800);
    if (rc == 0) rc = life_keep(l, 1, seq, STORE_BASE, 12500);
    if (rc == 0) rc = store_tail_keep(l->s, l->id, 0, 16, seq, &err);
    if (rc == 0) rc = store_tail_clear(l->s, l->id, &err);
    if (rc == 0 && seq == 0) rc = store_piece_keep(l->s, l->id, 0, 16, &err);
    if (rc == 0 && seq > 0) rc = store_piece_return(l->s, l->id, 0, 16, 9, &err);
    if (rc == 0 && seq > 0) rc = store_piece_drop(l->s, l->id, 0, 16, &err);
    if (rc == 0 && seq > 0) rc = store_block_drop(l->s, l->id, 16, 0, &err);
    if (rc == 0 && seq > 0) rc = store_segment_delete(l->s, l->id, 0, 0, 0, &err);
    if (rc == 0 && seq > 0) rc = life_keep(l, 1, seq, STORE_EVICTED, 300);
    struct store_checkpoint point = {seq, 10 * seq};
    if (rc == 0) rc = store_checkpoint_put(l->s, l->id, &point, &err);
    if (rc == 0) rc = store_state_put(l->s, l->id, seq ? "second" : "first", &err);
    if (rc == 0) rc = store_commit(l->s, &err);
    store_rollback(l->s);
    return rc;
}

enum step {
    REOPEN,
    CREATE,
    ASK,
    TOKEN,
    FIRST_TURN,
    SECOND_TURN,
    READ_ALL,
    BRANCH,
    REWIND,
    DELETE,
    RESTORE,
    CUT_BRANCH,
    PURGE,
    COMPACT,
    DROP
};

static int run_step(struct life *l, enum step step)
{
    struct store_conversation c;
    int64_t n;
    int rc;
    switch (step) {
    case REOPEN:
        store_close(l->s);
        l->s = NULL;
        return store_open(&l->s, l->path, NULL, &err);
    case CREATE:
        rc = store_conversation_create(l->s, NULL, &c, &err);
        l->id = c.id;
        return rc;
    case ASK: return life_say(l, CHAT_USER, "what is a plug?");
    case TOKEN: return add_token(l);
    case FIRST_TURN: return close_turn(l, 0);
    case SECOND_TURN: return close_turn(l, 1);
    case READ_ALL: return read_all(l->s, &l->seen, &err);
    case BRANCH: return store_conversation_copy(l->s, l->id, 2, 0, l->s, "branch", &c, &err);
    case REWIND: return store_rewind(l->s, l->id, 2, 0, &err);
    case DELETE: return store_conversation_delete(l->s, l->id, &err);
    case RESTORE: return store_conversation_restore(l->s, "chat-1", "again", &err);
    case CUT_BRANCH:
        rc = store_conversation_find(l->s, "branch", &c, &err);
        return rc > 0 ? store_conversation_delete(l->s, c.id, &err) : rc;
    case PURGE: return store_purge(l->s, 0, &n, &err);
    case COMPACT: return store_compact(l->s, &err);
    default: return store_cache_drop(l->s, l->id, &err);
    }
}

static const enum step steps[] = {
    REOPEN,  CREATE,     ASK,         TOKEN,    TOKEN,    FIRST_TURN, REOPEN, READ_ALL,
    ASK,     TOKEN,      SECOND_TURN, READ_ALL, BRANCH,   READ_ALL,   REWIND, DELETE,
    RESTORE, CUT_BRANCH, PURGE,       COMPACT,  READ_ALL, TOKEN,      DROP,   READ_ALL,
};

#define N_STEPS ((int)(sizeof steps / sizeof steps[0]))

/* The scenario before step i: the database, its log, the conversation, and everything in the
 * file. expected[N_STEPS]: after the last one. */
static struct {
    struct str file, log;
    int64_t id;
} before[N_STEPS];
static char *expected[N_STEPS + 1];

/* At the beginning of step i. */
static void life_begin(struct life *l, int i)
{
    *l = (struct life){.path = path_in(folder_new(), "retain.db"), .id = before[i].id};
    if (!before[i].file.n) return;
    char log[256];
    snprintf(log, sizeof log, "%s-wal", l->path);
    write_file(l->path, before[i].file.data, before[i].file.n);
    write_file(log, str_get(&before[i].log), before[i].log.n);
    ok(store_open(&l->s, l->path, NULL, &err));
    ok(read_all(l->s, &l->seen, &err));
}

static void life_end(struct life *l)
{
    store_close(l->s);
    str_release(&l->seen);
}

static void learn(void)
{
    struct life l;
    char log[256];
    AUTO_STR s = {0};
    life_begin(&l, 0);
    snprintf(log, sizeof log, "%s-wal", l.path);
    expected[0] = strdup("");
    for (int i = 0; i < N_STEPS; i++) {
        if (i) ok(file_read(l.path, FILE_DATA, &before[i].file, &err));
        if (i) ok(file_read(log, FILE_DATA, &before[i].log, &err));
        before[i].id = l.id;
        ok(run_step(&l, steps[i]));
        ok(read_all(l.s, &s, &err));
        expected[i + 1] = strdup(str_get(&s));
    }
    ok(store_check(l.s, &err));
    assert_non_null(strstr(expected[11], "3/2/word word /4/5/6;"));
    assert_non_null(strstr(expected[11], "segment 1 1 1 300\n"));
    assert_non_null(strstr(expected[N_STEPS], "conversation again"));
    assert_null(strstr(expected[N_STEPS], "3/2/"));
    life_end(&l);
}

struct fault {
    const char *name;
    enum operation operation;
    int code;
    bool stays, torn;
    const char *said;
    /* Every `step`-th place from `first`: faults of one operation take turns, so that each place is
     * hit by one of them. */
    int first, step;
};

static void assert_clear(const struct fault *f, int n, int step)
{
    if (strlen(err.text) < 30 || strchr(err.text, '\n') || !strstr(err.text, f->said) ||
        err.code == 0 || err.code == ERR_USAGE)
        fail_msg("%s %d, step %d: unclear: %d '%s'", f->name, n, step, err.code, err.text);
}

/* After the disk works again: committed data is present, and the failed step happened completely or
 * not at all. */
static void assert_nothing_lost(struct life *l, const struct fault *f, int n, int step)
{
    AUTO_STORE *s;
    AUTO_STR now = {0};
    ok(store_open(&s, l->path, NULL, &err));
    ok(store_check(s, &err));
    ok(read_all(s, &now, &err));
    if (strcmp(str_get(&now), expected[step]) && strcmp(str_get(&now), expected[step + 1]))
        fail_msg("%s %d, step %d: expected\n%s\nor\n%s\nfound\n%s", f->name, n, step,
                 expected[step], expected[step + 1], str_get(&now));
}

/* Runs the step before `at`, then the n-th operation of step `at` fails; then three more steps, or
 * after every eighth failure all. False when the operation was never reached. */
static bool run_with_fault(const struct fault *f, int at, int n)
{
    const int end = n / f->step % 16 > 13 || at + 4 > N_STEPS ? N_STEPS : at + 4;
    struct life l;
    bool failed = false;
    life_begin(&l, at ? at - 1 : 0);
    if (at) ok(run_step(&l, steps[at - 1]));
    disk.operation = f->operation;
    disk.code = f->code;
    disk.stays = f->stays;
    disk.torn = f->torn;
    disk.n_failed = 0;
    disk.countdown = n;
    for (int i = at; i < end; i++) {
        memset(&err, 0, sizeof err);
        int rc = run_step(&l, steps[i]);
        if (!disk.n_failed) break;
        if (rc == 0) continue;
        assert_false(failed); /* when the disk works again, nothing else fails */
        failed = true;
        disk.countdown = 0;
        assert_clear(f, n, i);
        assert_nothing_lost(&l, f, n, i);
        i--; /* "send it again": the same step, on the same store */
    }
    disk.countdown = 0;
    if (disk.n_failed) {
        ok(store_check(l.s, &err));
        ok(read_all(l.s, &l.seen, &err));
        assert_string_equal(str_get(&l.seen), expected[end]);
    }
    life_end(&l);
    return disk.n_failed > 0;
}

TEST(every_operation_fails_once)
{
    static const struct fault faults[] = {
        {"write error", WRITE, SQLITE_IOERR_WRITE, false, false, "reading or writing", 1, 3},
        {"torn write", WRITE, SQLITE_IOERR_WRITE, true, true, "reading or writing", 2, 3},
        {"disk full", WRITE, SQLITE_FULL, true, false, "or go on unsaved with --private", 3, 3},
        {"read error", READ, SQLITE_IOERR_READ, false, false, "", 1, 2},
        /* SQLite tells EIO as damage */
        {"unreadable", READ, SQLITE_IOERR_CORRUPTFS, true, false, "reading or writing", 2, 2},
        {"sync error", SYNC, SQLITE_IOERR_FSYNC, false, false, "reading or writing", 1, 1},
        {"no sync any more", SYNC, SQLITE_IOERR_FSYNC, true, false, "reading or writing", 1, 1},
        {"truncate error", TRUNCATE, SQLITE_IOERR_TRUNCATE, true, false, "reading or writing", 1,
         1},
        {"open error", OPEN, SQLITE_CANTOPEN, true, false, "opened", 1, 1},
        {"no locks", SHARE, SQLITE_PROTOCOL, true, false, "cannot be locked", 1, 1},
        {"no shared memory", SHARE, SQLITE_IOERR_SHMMAP, true, false, "reading or writing", 1, 1},
    };
    learn();
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        const struct fault *f = &faults[i];
        const int often = every(f->operation == WRITE || f->operation == READ ? 2 : 1);
        int n_places = 0;
        for (int at = 0; at < N_STEPS; at++)
            for (int n = f->first; run_with_fault(f, at, n); n += f->step * often) n_places++;
        print_message("%s: %d places\n", f->name, n_places);
        if (f->operation != TRUNCATE) assert_true(n_places > 0);
    }
    for (int i = 0; i <= N_STEPS; i++) free(expected[i]);
    for (int i = 0; i < N_STEPS; i++) str_release(&before[i].file), str_release(&before[i].log);
}

AROUND_TESTS(disk_start, NULL)
