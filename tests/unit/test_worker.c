/* worker: the screen's thread with the real session and the demo model. The newest snapshot is
 * never lost, the state at an end is published before its event, and quitting or stopping waits
 * neither for an answer nor for a conversation that is read. Nothing here depends on the speed of
 * either thread. */

#include "tests/test.h"

#include <poll.h>

#include "runtime/save/conversations.h"
#include "tui/chat/worker.h"

enum { PATIENCE_MS = 120000 };

struct fixture {
    const char *db;
    struct options options;
    struct worker *worker;
    struct worker_box box;
    int n_seen[EVENT_CLOSED + 1];
    struct event last[EVENT_CLOSED + 1];
};

static void set_up(struct fixture *f)
{
    *f = (struct fixture){.db = path_in(folder_new(), "retain.db")};
    options_init(&f->options);
    f->options.store.db = f->db;
    f->options.chat.pace = 0;
    f->options.session.conversation = "talk";
    f->options.session.sampling.seed = 1;
    f->options.engine.threads = 1;
}

static void start(struct fixture *f)
{
    memset(f->n_seen, 0, sizeof f->n_seen);
    ok(worker_open(&f->worker, &f->options, &err));
}

static void leave(struct fixture *f)
{
    worker_close(f->worker);
    worker_box_release(&f->box);
    f->worker = NULL;
}

#define AUTO_FIXTURE __attribute__((cleanup(leave))) struct fixture

/* The picture and the numbers next to it are of one moment, and later than the last ones. */
static void check_snapshot(const struct worker_box *b, const struct session_stats *before)
{
    int64_t kept = 0;
    if (!b->map) return;
    for (int i = 0; i < b->map->n_layer * b->map->n_head * RETENTION_COLS; i++)
        kept += b->map->kept[i];
    assert_int_equal(kept, b->stats.units_kept);
    assert_true(b->stats.n_tokens >= before->n_tokens);
    if (!b->fresh) assert_memory_equal(&b->stats, before, sizeof *before);
}

static void take(struct fixture *f)
{
    const struct session_stats before = f->box.stats;
    worker_take(f->worker, &f->box);
    check_snapshot(&f->box, &before);
    for (int i = 0; i < f->box.events.n; i++) {
        struct event ev = event_box_at(&f->box.events, i);
        f->n_seen[ev.kind]++;
        f->last[ev.kind] = ev;
    }
}

static void wait_for(struct fixture *f, enum event_kind kind)
{
    const int before = f->n_seen[kind];
    while (f->n_seen[kind] == before) {
        struct pollfd p = {.fd = worker_fd(f->worker), .events = POLLIN};
        if (poll(&p, 1, PATIENCE_MS) != 1) fail_msg("nothing happens");
        take(f);
        if (f->n_seen[EVENT_CLOSED] && kind != EVENT_CLOSED) fail_msg("the thread ended");
    }
}

static void say(struct fixture *f, const char *text)
{
    struct request r = {.command = SLASH_SAY};
    str_puts(&r.text, text);
    worker_run(f->worker, &r);
}

static int find_talk(void *ctx, const struct conversations_entry *c)
{
    if (!strcmp(c->name, "talk")) *(struct conversations_entry *)ctx = *c;
    return 0;
}

/* As the database has it. */
static struct conversations_entry saved(const struct fixture *f)
{
    struct conversations_entry out = {.n_tokens = -1};
    struct conversations *l;
    ok(conversations_open(&l, f->db, NULL, &err));
    ok(conversations_list(l, NULL, find_talk, &out, &err));
    conversations_close(l);
    return out;
}

/* While text flows, snapshots are rare; the last one is of the finished turn. */
TEST(test_snapshots)
{
    struct fixture f;
    set_up(&f);
    start(&f);
    worker_calm(f.worker, true);
    wait_for(&f, EVENT_OPENED);
    assert_non_null(f.box.map);
    assert_int_equal(f.box.stats.n_turns, 0);
    for (int turn = 1; turn <= 4; turn++) {
        say(&f, turn % 2 ? "Tell me about cats." : "Tell me a story about a fox.");
        wait_for(&f, EVENT_END);
        assert_int_equal(f.box.stats.n_turns, turn);
        take(&f); /* what was taken is not taken again */
        assert_false(f.box.fresh);
    }
    worker_leave(f.worker);
    wait_for(&f, EVENT_CLOSED);
    const struct session_stats last = f.box.stats;
    leave(&f);
    assert_int_equal(saved(&f).n_turns, last.n_turns);
    assert_int_equal(saved(&f).n_tokens, last.n_tokens);
}

/* An answer without an end, at a reader's pace, is stopped. */
static void endless(struct fixture *f)
{
    f->options.chat.pace = 20;
    f->options.session.max_tokens = 1200; /* a minute */
    f->options.session.ignore_end = true;
    start(f);
    wait_for(f, EVENT_OPENED);
    say(f, "Tell me about cats.");
    wait_for(f, EVENT_TEXT);
}

TEST(test_stop)
{
    AUTO_FIXTURE f;
    set_up(&f);
    endless(&f);
    worker_stop(f.worker);
    wait_for(&f, EVENT_END);
    assert_int_equal(f.last[EVENT_END].end.how, SESSION_STOPPED);
    say(&f, "Go on."); /* a stop is of one answer */
    wait_for(&f, EVENT_TEXT);
    worker_stop(f.worker);
    wait_for(&f, EVENT_END);
    assert_int_equal(f.last[EVENT_END].end.how, SESSION_STOPPED);
}

TEST(test_quit)
{
    struct fixture f;
    set_up(&f);
    endless(&f);
    say(&f, "A request that waits is not run.");
    worker_leave(f.worker);
    wait_for(&f, EVENT_CLOSED);
    assert_int_equal(f.n_seen[EVENT_END], 1);
    assert_int_equal(f.last[EVENT_END].end.how, SESSION_STOPPED);
    leave(&f);
    assert_int_equal(saved(&f).n_turns, 1);
}

/* Now a conversation is read when it is opened. */
static void drop_cache(const struct fixture *f, const char *name)
{
    AUTO_LIBRARY *l;
    ok(conversations_open(&l, f->db, NULL, &err));
    ok(conversations_drop_cache(l, name, &err));
}

/* A conversation of thousands of tokens without a saved cache. */
static void save_long_talk(struct fixture *f)
{
    struct str text = {0};
    for (int i = 0; i < 300; i++) str_puts(&text, "The cat sat on the mat and saw a fox. ");
    f->options.session.max_tokens = 1;
    start(f);
    wait_for(f, EVENT_OPENED);
    say(f, str_get(&text));
    wait_for(f, EVENT_END);
    leave(f);
    str_release(&text);
    drop_cache(f, "talk");
}

/* Takes half a minute to read, if that is not stopped after one of many chunks. */
static void read_slowly(struct fixture *f)
{
    f->options.engine.isa = "ref";
    f->options.session.plan.chunk = 16;
}

static void check_opening(void (*stop)(struct worker *w))
{
    struct fixture f;
    set_up(&f);
    save_long_talk(&f);
    read_slowly(&f);
    start(&f);
    wait_for(&f, EVENT_READING);
    stop(f.worker);
    wait_for(&f, EVENT_CLOSED);
    assert_int_equal(f.n_seen[EVENT_OPENED], 0);
    assert_int_equal(f.last[EVENT_FATAL].code, ERR_STOP);
    leave(&f);
    assert_int_equal(saved(&f).n_turns, 1);
}

TEST(test_stop_while_opening)
{
    check_opening(worker_stop);
    check_opening(worker_leave);
}

/* A stopped opening leads back to the conversation before it, whose opening is not stopped. */
TEST(test_stop_leads_back)
{
    AUTO_FIXTURE f;
    struct request open_talk = {.command = SLASH_OPEN, .name = "talk"};
    set_up(&f);
    save_long_talk(&f);
    read_slowly(&f);
    f.options.session.conversation = "other";
    start(&f);
    wait_for(&f, EVENT_OPENED);
    say(&f, "Tell me about cats.");
    wait_for(&f, EVENT_END);
    worker_run(f.worker, &open_talk);
    wait_for(&f, EVENT_READING);
    drop_cache(&f, "other");
    worker_stop(f.worker);
    wait_for(&f, EVENT_OPENED);
    assert_int_equal(f.last[EVENT_FAILED].code, ERR_STOP);
    assert_int_equal(f.box.stats.n_turns, 1);
}
