/* The store's saved caches: entries of the log, their checkpoints, branches that share them, and
 * limits. The contents of entries are opaque to the store. */
#include <unistd.h>

#include "tests/unit/store_kit.h"

STORE_TEST(segments_round_trip)
{
    int64_t n, id = begin_named(f, "g"), other = begin_named(f, "o");
    keep(f, id, 1, 5, "B5");
    keep(f, id, 0, 7, "A7");
    keep(f, id, 0, 5, "A5");
    keep(f, id, 0, 7, "-A6");
    keep(f, other, 0, 5, "other");
    keep(f, id, 10, 5, "");
    assert_segments(f, id, "0/5/A5;0/7/-A6;0/7/A7;1/5/B5;10/5/;");
    reopen(f);
    ok(store_segment_delete(f->s, id, 0, 0, 5, &err));
    assert_segments(f, id, "0/7/-A6;0/7/A7;1/5/B5;10/5/;");
    ok(store_check(f->s, &err));
    struct store_segment g = {.seq = 7, .kind = STORE_WINDOWS, .bytes = "x", .n_bytes = 1};
    refused(store_segment_put(f->s, id, &g, &err), ERR_FAIL, "already saved");
    g.seq = 8;
    refused(store_segment_put(f->s, 99, &g, &err), ERR_FAIL, "deleted in another");
    ok(store_segment_delete(f->s, id, -1, 6, 7, &err));
    assert_segments(f, id, "1/5/B5;10/5/;");
    ok(store_cache_drop(f->s, id, &err));
    assert_segments(f, id, "");
    assert_segments(f, other, "0/5/other;");
    ok(store_conversation_delete(f->s, other, &err));
    ok(store_purge(f->s, 0, &n, &err));
    assert_int_equal(n, 1);
    assert_segments(f, other, "");
    assert_int_equal(count_rows(f, "blob"), 0);
}

/* A dropped cache leaves free space in the file, which is returned to the disk 4 MiB at a time. */
TEST_WITH(space_is_given_back_in_parts, setup, teardown)
{
    enum { PAGE = 1024, MIB = 1024 }; /* pages */
    struct fixture *f = *state;
    int64_t id = begin_named(f, "g");
    char *mib = calloc(1, (MIB * PAGE) + 1);
    assert_non_null(mib);
    memset(mib, 'u', MIB * PAGE);
    for (int i = 0; i < 10; i++) keep(f, id, 0, i, mib);
    free(mib);
    int64_t full = query_number(f, "PRAGMA page_count");
    ok(store_cache_drop(f->s, id, &err));
    assert_in_range(full - query_number(f, "PRAGMA page_count"), 4 * MIB,
                    4 * MIB + 4 * MIB / 200); /* and their pointer map */
    assert_in_range(query_number(f, "PRAGMA freelist_count"), 6 * MIB, 7 * MIB);
    store_give_back(f->s, 5 * MIB * PAGE);
    assert_int_equal(query_number(f, "PRAGMA freelist_count"), 5 * MIB);
    store_give_back(f->s, 5 * MIB * PAGE);
    assert_int_equal(query_number(f, "PRAGMA freelist_count"), 5 * MIB);
    store_give_back(f->s, 0);
    store_give_back(f->s, 0);
    assert_int_equal(query_number(f, "PRAGMA freelist_count"), 0);
    ok(store_check(f->s, &err));
}

STORE_TEST(going_back)
{
    int64_t id = begin_two_turns(f, "b");
    assert_checkpoints(f, id, "2/11;0/5;");
    ok(store_rewind(f->s, id, 2, 0, &err));
    assert_messages(f, id, "0/1/first question/1/-2/2147483647;1/2/first answer/1/-2/2147483647;");
    assert_segments(f, id, "0/0/units of turn one;");
    assert_checkpoints(f, id, "0/5;");
    assert_int_equal(look(f, "b").n_turns, 1);
    assert_int_equal(look(f, "b").n_tokens, 6);
    assert_int_equal(look(f, "b").cache_bytes, 17);
    assert_int_equal(count_hits(f, "second"), 0);
    say(f, id, CHAT_USER, "another question");
    ok(store_rewind(f->s, id, 0, -1, &err));
    assert_messages(f, id, "");
    assert_int_equal(look(f, "b").cache_bytes, 0);
    say(f, id, CHAT_USER, "new title");
    assert_string_equal(look(f, "b").title, "new title");
    point(f, id, 3, 1);
    point(f, id, 5, 2);
    ok(store_checkpoint_forget(f->s, id, 5, &err));
    assert_checkpoints(f, id, "5/2;");
    ok(store_check(f->s, &err));
}

STORE_TEST(branches_share_their_cache)
{
    struct store_conversation c;
    int64_t n, id = begin_two_turns(f, "trunk");
    ok(store_conversation_copy(f->s, id, 2, 0, f->s, "branch", &c, &err));
    assert_messages(f, c.id,
                    "0/1/first question/1/-2/2147483647;1/2/first answer/1/-2/2147483647;");
    assert_segments(f, c.id, "0/0/units of turn one;");
    assert_checkpoints(f, c.id, "0/5;");
    assert_string_equal(c.title, "first question");
    assert_int_equal(c.cache_bytes, 17);
    assert_int_equal(count_rows(f, "blob"), 3); /* nothing was copied */
    refused(store_conversation_copy(f->s, id, 2, 0, f->s, "trunk", &c, &err), ERR_USAGE, "already");
    ok(store_conversation_copy(f->s, id, INT64_MAX, -1, f->s, NULL, &c, &err));
    assert_messages(f, c.id,
                    "0/1/first question/1/-2/2147483647;1/2/first "
                    "answer/1/-2/2147483647;2/1/second question/1/-2/2147483647;-1/2/se/120;");
    assert_segments(f, c.id, "");
    ok(store_conversation_delete(f->s, id, &err));
    ok(store_purge(f->s, 0, &n, &err));
    assert_int_equal(count_rows(f, "blob"), 1);
    assert_segments(f, look(f, "branch").id, "0/0/units of turn one;");
    ok(store_check(f->s, &err));
}

/* A conversation with its cache is copied to another file and back. */
STORE_TEST(copies_into_another_file)
{
    struct store_conversation c;
    struct fixture g = {0};
    char expected[] = "0/1/first question/1/-2/2147483647;1/2/first "
                      "answer/1/-2/2147483647;2/1/second question/1/-2/2147483647;-1/2/se/120;";
    int64_t id = begin_two_turns(f, "mover");
    snprintf(g.path, sizeof g.path, "%s/one.db", f->folder);
    ok(store_open(&g.s, g.path, NULL, &err));
    ok(store_conversation_copy(f->s, id, INT64_MAX, INT64_MAX, g.s, "mover", &c, &err));
    assert_messages(&g, c.id, expected);
    assert_segments(&g, c.id, "0/0/units of turn one;0/1/units of turn two;0/2/-some;");
    assert_checkpoints(&g, c.id, "2/11;0/5;");
    assert_int_equal(c.created_ms, look(f, "mover").created_ms);
    assert_int_equal(c.updated_ms, look(f, "mover").updated_ms);
    ok(store_check(g.s, &err));
    ok(store_close_single(g.s, &err));
    char path[192];
    snprintf(path, sizeof path, "%s-wal", g.path);
    assert_int_not_equal(access(path, F_OK), 0);
    ok(store_open(&g.s, g.path, NULL, &err));
    ok(store_conversation_copy(g.s, c.id, INT64_MAX, INT64_MAX, f->s, "back", &c, &err));
    assert_messages(f, c.id, expected);
    store_close(g.s);
}

STORE_TEST(caches_within_a_limit)
{
    struct store_conversation c;
    int64_t old = begin_two_turns(f, "old"), mine = begin_two_turns(f, "mine");
    begin_two_turns(f, "gone");
    begin_two_turns(f, "new");
    ok(store_conversation_times(f->s, old, 1, 1, &err));
    ok(store_conversation_times(f->s, mine, 2, 2, &err));
    ok(store_conversation_delete(f->s, look(f, "gone").id, &err));
    ok(store_cache_trim(f->s, 1000, mine, &err));
    assert_int_equal(look(f, "old").cache_bytes, 34);
    ok(store_cache_trim(f->s, 102, mine, &err)); /* the deleted one first */
    assert_int_equal(look(f, "old").cache_bytes, 34);
    ok(store_conversation_restore(f->s, "gone", NULL, &err));
    assert_int_equal(look(f, "gone").cache_bytes, 0);
    ok(store_cache_trim(f->s, 70, mine, &err));
    assert_int_equal(look(f, "old").cache_bytes, 0);
    assert_int_equal(look(f, "new").cache_bytes, 34);
    ok(store_cache_trim(f->s, 0, mine, &err));
    assert_int_equal(look(f, "mine").cache_bytes, 34);
    assert_int_equal(look(f, "new").cache_bytes, 0);
    ok(store_conversation_copy(f->s, old, INT64_MAX, -1, f->s, NULL, &c, &err));
}

/* The recurrent state is kept as long as a checkpoint needs it. */
STORE_TEST(states_go_with_their_checkpoints)
{
    int64_t id = begin_named(f, "m");
    for (int64_t seq = 0; seq < 9; seq += 3) {
        struct store_segment g = {.seq = seq + 1, .kind = STORE_STATE, .bytes = "m", .n_bytes = 1};
        keep(f, id, 0, seq, "units");
        ok(store_segment_put(f->s, id, &g, &err));
        point(f, id, seq + 2, seq);
    }
    assert_segments(f, id, "0/0/units;0/1/m;0/3/units;0/4/m;0/6/units;0/7/m;");
    ok(store_checkpoint_forget(f->s, id, 5, &err));
    assert_checkpoints(f, id, "8/6;5/3;");
    assert_segments(f, id, "0/0/units;0/3/units;0/4/m;0/6/units;0/7/m;");
    assert_int_equal(look(f, "m").cache_bytes, 17);
}

static int note_kind(void *ctx, const struct store_segment *g)
{
    str_printf(ctx, "%d/%d/%lld;", g->layer, (int)g->kind, (long long)g->seq);
    return 0;
}

static void assert_kinds(struct fixture *f, int64_t id, const char *expected)
{
    AUTO_STR s = {0};
    ok(store_segment_each(f->s, id, -1, note_kind, &s, &err));
    assert_string_equal(str_get(&s), expected);
}

static void put(struct fixture *f, int64_t id, int layer, int64_t seq, enum store_kind kind)
{
    const struct store_segment g = {
        .seq = seq, .layer = layer, .kind = kind, .bytes = "x", .n_bytes = 1};
    ok(store_segment_put(f->s, id, &g, &err));
}

/* Of the lists before a number the newest n stay, with the returned positions among them; a mark
 * has the number of the newest one that went. Nothing else goes, nor anything of another
 * conversation. */
STORE_TEST(the_newest_lists_stay)
{
    const int64_t id = begin_named(f, "l"), other = begin_named(f, "o");
    struct store_conversation c;
    for (int64_t seq = 1; seq <= 6; seq++) put(f, id, 0, seq, STORE_EVICTED);
    put(f, id, 0, 2, STORE_RETURNED);
    put(f, id, 0, 5, STORE_RETURNED);
    put(f, id, 0, 1, STORE_BASE);
    put(f, id, 0, 2, STORE_STATE);
    put(f, id, 1, 1, STORE_BASE);
    put(f, other, 0, 1, STORE_EVICTED);
    ok(store_lists_forget(f->s, id, 5, 4, &err)); /* there are no more than four */
    assert_kinds(f, id, "0/1/1;0/5/1;0/1/2;0/2/2;0/4/2;0/1/3;0/1/4;0/1/5;0/4/5;0/1/6;1/5/1;");
    ok(store_lists_forget(f->s, id, 5, 2, &err));
    assert_kinds(f, id, "0/5/1;0/2/2;0/8/2;0/1/3;0/1/4;0/1/5;0/4/5;0/1/6;1/5/1;");
    ok(store_lists_forget(f->s, id, 6, 2, &err)); /* the mark moves on */
    assert_kinds(f, id, "0/5/1;0/2/2;0/8/3;0/1/4;0/1/5;0/4/5;0/1/6;1/5/1;");
    ok(store_lists_forget(f->s, id, 6, 2, &err));
    assert_kinds(f, id, "0/5/1;0/2/2;0/8/3;0/1/4;0/1/5;0/4/5;0/1/6;1/5/1;");
    assert_kinds(f, other, "0/1/1;");
    put(f, other, 0, 7, STORE_UNITS);
    ok(store_conversation_copy(f->s, other, 0, 7, f->s, NULL, &c, &err));
    ok(store_piece_keep(f->s, c.id, 0, 1, &err));
    ok(store_block_drop(f->s, other, 1, 7, &err)); /* a branch's archive has it, too */
    assert_int_equal(look(f, "o").cache_bytes, 0);
    ok(store_check(f->s, &err));
}
