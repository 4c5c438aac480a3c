/* A conversation whose last messages another program removed says so when it is opened; one that
 * was rewound, or whose last message was saved before a crash, does not. */

#include "tests/unit/session_kit.h"

/* As a program without the key can: rows and counters, but no sealed state. */
static void remove_messages(const char *dir, int n_kept)
{
    char sql[200];
    snprintf(sql, sizeof sql,
             "DELETE FROM transcript WHERE seq >= %d; UPDATE conversation SET n_messages = %d, "
             "n_turns = %d",
             n_kept, n_kept, n_kept / 2);
    change_library(dir, sql);
}

static void notes(struct conversations *l, const char *expected)
{
    AUTO_SESSION *s = open_session(l, options_of("sink", "q4", 0), true);
    const char *notice = session_notice(s);
    if (expected ? !strstr(notice, expected) : strstr(notice, "missing") != NULL)
        fail_msg("\"%s\"", notice);
}

TEST(misses_what_was_removed)
{
    AUTO_LOG log = {0};
    const char *dir = folder_new();
    AUTO_LIBRARY *l = open_encrypted(dir);
    struct session *s = open_session(l, options_of("sink", "q4", 0), false);
    for (int i = 0; i < 3; i++) say(s, said[i], &log);
    session_close(s);
    notes(l, NULL);
    s = open_session(l, options_of("sink", "q4", 0), true);
    ok(session_rewind(s, 2, NULL, &err));
    session_close(s);
    notes(l, NULL);
    conversations_close(l);
    remove_messages(dir, 2);
    l = open_encrypted(dir);
    refused(conversations_check(l, &err), ERR_FORMAT,
            "the last 2 messages of conversation 'chat-1' are missing");
    notes(l, "the last 2 messages of this conversation are missing");
    s = open_session(l, options_of("sink", "q4", 0), true);
    say(s, said[3], &log); /* it goes on, and the next save counts again */
    session_close(s);
    notes(l, NULL);
    ok(conversations_check(l, &err));
}

AROUND_TESTS(engine_set_up, engine_tear_down)
