/* The message line: earlier messages, pastes, and drafts that survive. With scripted answers,
 * without a terminal. */
#include "tests/test.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/tui/fake_stage.h"
#include "tui/text/draft.h"

/* ---- history and pastes --------------------------------------------------------------------- */

TEST(test_history_search)
{
    AUTO_STAGE s;
    stage_talk(&s, 3);
    stage_type(&s, "draft");
    stage_key(&s, CTRL('r'));
    stage_type(&s, "ir");
    assert_string_equal(str_get(&s.app.edit.text), "third");
    shows(&s, "earlier message: ir");
    stage_key(&s, CTRL('r'));
    assert_string_equal(str_get(&s.app.edit.text), "first");
    stage_key(&s, CTRL('r'));
    assert_true(s.app.search.failed);
    stage_key(&s, '\033');
    assert_string_equal(str_get(&s.app.edit.text), "draft");
    stage_key(&s, CTRL('r'));
    stage_type(&s, "sec\r!");
    assert_string_equal(str_get(&s.app.edit.text), "second!");
}

static void paste(struct stage *s, const char *text, size_t n)
{
    struct key_event ev = {.key = K_PASTE, .text = text, .n = n};
    app_key(&s->app, &ev);
}

TEST(test_long_paste)
{
    AUTO_STAGE s;
    AUTO_STR big = {0}, full = {0};
    stage_talk(&s, 0);
    for (int i = 0; i < 10000; i++) str_puts(&big, "a line with 漢字 and \033[31m more\n");
    stage_type(&s, "look: ");
    paste(&s, "short\r\ntext", 11);
    paste(&s, big.data, big.n);
    assert_string_equal(str_get(&s.app.edit.text),
                        "look: short\ntext[paste 1: 10,000 lines, 332 KiB]");
    stage_type(&s, " why?");
    edit_full(&s.app.edit, &full);
    assert_int_equal(full.n, 16 + big.n + 5);
    for (int i = 0; i < 5; i++) stage_key(&s, 127);
    stage_key(&s, 127); /* the label is erased as a whole */
    assert_string_equal(str_get(&s.app.edit.text), "look: short\ntext");
    stage_key(&s, CTRL('_'));
    stage_key(&s, 'o' | K_ALT);
    assert_int_equal(s.app.edit.text.n, 16 + big.n);
    stage_key(&s, CTRL('_'));
    assert_string_equal(str_get(&s.app.edit.text),
                        "look: short\ntext[paste 1: 10,000 lines, 332 KiB]");
    s.stop_after = -1; /* the model need not read it */
    stage_key(&s, '\r');
    assert_int_equal(stage_message(&s, 0)->raw.n, 16 + big.n); /* one message */
    assert_int_equal(s.app.talk.n, 1);
    stage_key(&s, K_UP); /* and returns as one */
    assert_true(s.app.edit.text.n < 100);
    str_clear(&full);
    edit_full(&s.app.edit, &full);
    assert_int_equal(full.n, 16 + big.n);
}

/* Lines broken again after a change equal the whole text broken from the start. */
TEST(test_lines_are_cut_again)
{
    static const char *const pieces[] = {
        "a",  " ",         "漢", "word ", "a-long-word-that-fills-lines",
        "\n", "e\xCC\x81", "\t", "   ",   "x\n\ny"};
    unsigned seed = 11;
    for (int round = 0; round < 60; round++) {
        struct edit e, fresh;
        int a, b;
        edit_init(&e);
        e.width = 2 + round % 15;
        for (int i = 0; i < 150; i++) {
            seed = seed * 1103515245u + 12345u;
            unsigned r = seed >> 16;
            if (r % 3 == 0) edit_move(&e, (enum edit_move)(r / 3 % 10));
            if (r % 3 == 1) edit_erase(&e, (enum edit_move)(r / 3 % 4));
            if (r % 3 == 2) edit_insert(&e, pieces[r / 3 % 10], strlen(pieces[r / 3 % 10]));
            if (r % 17 == 0) edit_undo(&e);
            edit_init(&fresh);
            edit_insert(&fresh, str_get(&e.text), e.text.n);
            int n = edit_lines(&e, e.width, &a, &b);
            assert_int_equal(n, edit_lines(&fresh, e.width, &a, &b));
            for (int k = 0; k < n; k++)
                assert_int_equal(edit_line_start(&e, k), edit_line_start(&fresh, k));
            edit_release(&fresh);
        }
        edit_release(&e);
    }
}

/* ---- drafts --------------------------------------------------------------------------------- */

struct found {
    struct str all;
};

static void on_found(void *ctx, const char *text, size_t n, bool queued)
{
    struct found *f = ctx;
    str_printf(&f->all, "%s(%.*s)", queued ? "queued" : "draft", (int)n, text);
}

/* A killed program leaves its draft; a running one keeps it for itself. */
TEST(test_draft)
{
    const char *folder = folder_new();
    char path[64], go;
    struct found f = {{0}};
    struct draft d;
    struct stat st;
    int status, ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct str queue[2] = {{0}, {0}}, text = {0};
        draft_open(&d, folder);
        str_puts(&queue[0], "one");
        str_puts(&queue[1], "two\nlines");
        str_puts(&text, "being written");
        draft_save(&d, "trip", 1, queue, 2, &text);
        if (write(ready[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    assert_int_equal(read(ready[0], &go, 1), 1);
    snprintf(path, sizeof path, "%s/draft-%ld-0", folder, (long)pid);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    draft_adopt(folder, "trip", on_found, &f);
    assert_int_equal(f.all.n, 0);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    draft_adopt(folder, "tax", on_found, &f); /* of another conversation */
    draft_adopt(folder, "", on_found, &f);    /* of a new one */
    assert_int_equal(f.all.n, 0);
    draft_adopt(folder, "trip", on_found, &f);
    assert_string_equal(str_get(&f.all), "queued(one)queued(two\nlines)draft(being written)");
    str_clear(&f.all);
    draft_adopt(folder, "trip", on_found, &f); /* given only once */
    assert_int_equal(f.all.n, 0);
    assert_int_equal(rmdir(folder), 0);
    draft_open(&d, NULL); /* private */
    draft_save(&d, "trip", 1, NULL, 0, &f.all);
    draft_close(&d, true);
    str_release(&f.all);
}

/* One program has a file for each of its conversations, and takes back its own. */
TEST(test_draft_of_two_talks)
{
    static const char *const talks[] = {"trip", "tax", ""};
    const char *folder = folder_new();
    struct found f = {{0}};
    struct draft d;
    for (int i = 0; i < 3; i++) {
        AUTO_STR text = {0};
        str_printf(&text, "for %s", talks[i]);
        draft_open(&d, folder);
        draft_save(&d, talks[i], 1, NULL, 0, &text);
        draft_close(&d, true);
    }
    for (int i = 0; i < 3; i++) draft_adopt(folder, talks[i], on_found, &f);
    assert_string_equal(str_get(&f.all), "draft(for trip)draft(for tax)draft(for )");
    assert_int_equal(rmdir(folder), 0);
    str_release(&f.all);
}

TEST(test_draft_owner)
{
    AUTO_STAGE s;
    stage_init(&s, true, false);
    s.app.settings.options.session.conversation = "trip";
    assert_string_equal(app_draft_owner(&s.app), "trip"); /* while it loads */
    s.app.settings.options.session.conversation = NULL;
    stage_open(&s, NULL);
    assert_string_equal(app_draft_owner(&s.app), ""); /* the program named it */
    s.app.settings.options.session.conversation = s.app.name;
    assert_string_equal(app_draft_owner(&s.app), s.app.name);
    s.app.settings.options.session.conversation = NULL;
    stage_type(&s, "first\r");
    assert_string_equal(app_draft_owner(&s.app), s.app.name);
    stage_type(&s, "half a thought");
    assert_true(app_clear_draft(&s.app));
    assert_int_equal(s.app.edit.text.n, 0);
    assert_false(app_clear_draft(&s.app));
}

TEST(test_brought_back)
{
    AUTO_STAGE s;
    stage_init(&s, true, false);
    app_bring_back(&s.app, "one", 3, true);
    app_bring_back(&s.app, "two", 3, true);
    app_bring_back(&s.app, "being written", 13, false);
    stage_open(&s, NULL);
    assert_int_equal(s.app.talk.n, 0); /* nothing is sent without the user */
    assert_int_equal(s.app.n_queue, 2);
    assert_string_equal(str_get(&s.app.edit.text), "being written");
    stage_key(&s, CTRL('u'));
    stage_key(&s, '\r');
    assert_int_equal(s.app.talk.n, 4);
    assert_string_equal(str_get(&stage_message(&s, 2)->raw), "two");
}

TEST(test_send_now)
{
    AUTO_STAGE s;
    stage_talk(&s, 0);
    s.freeze_after = 5;
    stage_type(&s, "words 50\rnext\r");
    s.freeze_after = 0;
    assert_int_equal(s.app.n_queue, 1);
    stage_key(&s, 's' | K_ALT);
    stage_end(&s, SESSION_STOPPED);
    stage_run(&s);
    assert_int_equal(s.app.n_queue, 0);
    assert_string_equal(str_get(&stage_message(&s, 2)->raw), "next");
}
