/* The history of a saved conversation: the pictures that its log gives after a resume are those
 * that were seen while it ran. Run on the demo model. */

#include "runtime/cache/segment.h"
#include "tests/unit/session_kit.h"

enum { PAST_ROWS = 400 };

/* Pictures: as seen after each turn, or from the log. */
struct pictures {
    struct retention *rows[PAST_ROWS];
    int n;
    const struct session *s;
};

static void keep(void *ctx, const struct retention *r)
{
    struct pictures *p = ctx;
    struct retention *copy = retention_new(p->s);
    assert_true(p->n < PAST_ROWS);
    retention_copy(copy, r);
    p->rows[p->n++] = copy;
}

static void clear(struct pictures *p)
{
    for (int i = 0; i < p->n; i++) retention_free(p->rows[i]);
    p->n = 0;
}

static void look(struct pictures *p, const struct session *s)
{
    struct retention *now = retention_new(s);
    p->s = s;
    session_retention(s, now);
    keep(p, now);
    retention_free(now);
}

static void read_past(struct pictures *p, const struct session *s)
{
    p->s = s;
    ok(session_past(s, keep, p, &err));
}

/* Units in a wide column: col_width doubles as the conversation grows. */
static int64_t units(const struct retention *r, int head, int64_t from, int64_t end)
{
    int64_t n = 0;
    for (int64_t c = from / r->col_width; c < r->n_cols && c * r->col_width < end; c++)
        n += r->kept[head * RETENTION_COLS + c];
    return n;
}

static bool is_same(const struct retention *seen, const struct retention *past)
{
    const int64_t width = past->col_width > seen->col_width ? past->col_width : seen->col_width;
    for (int i = 0; i < seen->n_layer * seen->n_head; i++)
        for (int64_t at = 0; at < seen->n_pos; at += width)
            if (units(seen, i, at, at + width) != units(past, i, at, at + width)) return false;
    return true;
}

/* Each picture that was seen is there, and lengths only grow. */
static void check(const struct pictures *seen, const struct pictures *past)
{
    assert_true(past->n >= seen->n);
    for (int i = 1; i < past->n; i++) assert_true(past->rows[i]->n_pos >= past->rows[i - 1]->n_pos);
    for (int i = 0; i < seen->n; i++) {
        bool found = false;
        for (int k = 0; k < past->n && !found; k++)
            found = past->rows[k]->n_pos == seen->rows[i]->n_pos &&
                    is_same(seen->rows[i], past->rows[k]);
        if (!found) fail_msg("no such picture after %d tokens", (int)seen->rows[i]->n_pos);
    }
}

/* Turns 4 to 6 are taken back and said again; the twig has the first three. */
static void goes_back(struct session *s, struct pictures *seen, struct log *log)
{
    char name[128];
    ok(session_branch(s, 3, "twig", name, &err));
    ok(session_rewind(s, 3, NULL, &err));
    while (seen->n > 3) retention_free(seen->rows[--seen->n]);
    for (int i = 6; i < N_SAID; i++) {
        say(s, said[i], log);
        look(seen, s);
    }
}

static struct session *open_named(struct conversations *l, struct options o, const char *name)
{
    struct session *s;
    o.session.conversation = name;
    ok(session_open(&s, engine, l, &o.session, NULL, &err));
    return s;
}

static int count_base(void *ctx, const struct store_segment *g)
{
    *(int *)ctx += g->kind == STORE_BASE;
    return 0;
}

static int n_bases(struct store *store)
{
    struct store_conversation c;
    int n = 0;
    assert_int_equal(store_conversation_latest(store, &c, &err), 1);
    ok(store_segment_each(store, c.id, -1, count_base, &n, &err));
    return n;
}

/* The past of a conversation has the first n pictures that were seen. */
static void check_past(struct conversations *l, struct options o, const char *name,
                       const struct pictures *seen, int n)
{
    struct pictures past = {0}, first = *seen;
    AUTO_SESSION *s = open_named(l, o, name);
    read_past(&past, s);
    first.n = n;
    check(&first, &past);
    clear(&past);
}

static void check_policy(struct conversations *l, const char *policy, bool recalls)
{
    struct options o = options_of(policy, "q8", 0);
    AUTO_LOG log = {0};
    struct pictures seen = {0};
    if (!recalls) o.session.recall.chooser = RECALL_OFF;
    struct session *s = open_named(l, o, policy);
    for (int i = 0; i < 6; i++) {
        say(s, said[i], &log);
        look(&seen, s);
    }
    assert_true(log.n_evicted > 0);
    session_close(s);
    check_past(l, o, policy, &seen, seen.n);
    s = open_named(l, o, policy);
    goes_back(s, &seen, &log);
    session_close(s);
    check_past(l, o, policy, &seen, seen.n);
    check_past(l, o, "twig", &seen, 3);
    clear(&seen);
}

TEST(test_the_past_is_as_it_was_seen)
{
    NEW_LIBRARY(l);
    check_policy(l, "keeper", true);
}

/* Lists stay when the units before a base go. */
TEST(test_a_compacted_past)
{
    NEW_LIBRARY(l);
    struct options o = options_of("random", "q8", 0);
    AUTO_LOG log = {0};
    struct pictures seen = {0};
    o.session.rewind = 1;
    struct session *s = open_named(l, o, "small");
    for (int i = 0; i < 2 * N_SAID; i++) {
        say(s, said[i % N_SAID], &log);
        look(&seen, s);
    }
    session_close(s);
    assert_true(n_bases(conversations_store(l)) > 0);
    check_past(l, o, "small", &seen, seen.n);
    clear(&seen);
}

/* A seal makes segments longer than their positions. */
TEST(test_an_encrypted_past)
{
    AUTO_LIBRARY *l = open_encrypted(folder_new());
    check_policy(l, "random", false);
}

AROUND_TESTS(engine_set_up, engine_tear_down)
