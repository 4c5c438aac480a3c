/* Every chat command as both front ends run it: a request in, events out, with scripted answers. */

#include "tests/test.h"

#include "cli/control/control.h"
#include "cli/control/control_parts.h"
#include "runtime/save/conversations.h"
#include "tests/tui/fake_stage.h"

struct fixture {
    struct control control;
    struct options options;
    struct str log; /* a word for each event; pieces of text, progress and tokens are left out */
    struct str answer;
    struct event last; /* of these events */
    char text[512];    /* of the last event */
    int stop_after;    /* pieces of text; 0 = never */
    int n_pieces;
};

static const char *const words[] = {
    [EVENT_LOADED] = "loaded", [EVENT_OPENING] = "opening",   [EVENT_OPENED] = "opened",
    [EVENT_NOTICE] = "notice", [EVENT_BEGIN] = "begin",       [EVENT_ANSWER] = "answer",
    [EVENT_END] = "end",       [EVENT_QUESTION] = "question", [EVENT_TAKEN] = "taken",
    [EVENT_CUT] = "cut",       [EVENT_BRANCHED] = "branched", [EVENT_RENAMED] = "renamed",
    [EVENT_DONE] = "done",     [EVENT_FOUND] = "found",       [EVENT_NOTE] = "note",
    [EVENT_FAILED] = "failed", [EVENT_FATAL] = "fatal",       [EVENT_PASSAGE] = "passage",
    [EVENT_CLOSED] = NULL,
};

static void on_event(void *ctx, const struct event *ev)
{
    struct fixture *f = ctx;
    if (ev->kind == EVENT_TEXT) {
        str_append(&f->answer, ev->text, ev->n_text);
        f->n_pieces++;
    }
    if (!words[ev->kind]) return;
    str_printf(&f->log, "%s%s", f->log.n ? " " : "", words[ev->kind]);
    f->last = *ev;
    snprintf(f->text, sizeof f->text, "%.*s", (int)ev->n_text, ev->text ? ev->text : "");
}

static bool on_stop(void *ctx)
{
    const struct fixture *f = ctx;
    return f->stop_after && f->n_pieces >= f->stop_after;
}

static struct events events_of(struct fixture *f)
{
    return (struct events){f, on_event, on_stop};
}

static void begin(struct fixture *f, const char *name)
{
    struct events ev = events_of(f);
    *f = (struct fixture){0};
    scripted.fail_open = NULL;
    options_init(&f->options);
    scripted_plan(&f->options.session.plan);
    f->options.session.conversation = name;
    struct cli_session *p = &f->control.parts;
    f->control.options = f->options;
    ok(conversations_open(&p->library, stage_library(), NULL, &err));
    ok(engine_open(&p->engine, &f->options.engine, &f->options.session.plan, 1, NULL, NULL, &err));
    ok(control_begin(&f->control, &ev, &err));
    str_clear(&f->log);
}

static void end(struct fixture *f)
{
    control_close(&f->control);
    str_release(&f->log);
    str_release(&f->answer);
    scripted.fail_open = NULL;
}

static int64_t n_turns(const struct fixture *f)
{
    struct session_stats st;
    session_stats(f->control.parts.session, &st);
    return st.n_turns;
}

/* Parses and runs; the words of its events. A refused argument is "usage". */
static const char *run_agreed(struct fixture *f, enum slash command, const char *argument,
                              bool agreed)
{
    struct control_facts facts = {n_turns(f), false, n_turns(f) > 0, f->control.name, ""};
    struct events ev = events_of(f);
    struct request r = {0};
    str_clear(&f->log);
    str_clear(&f->answer);
    f->n_pieces = 0;
    if (control_parse(&r, command, argument, &facts, &err)) {
        str_puts(&f->log, "usage");
        snprintf(f->text, sizeof f->text, "%s", err.text);
    } else {
        r.agreed = agreed;
        control_run(&f->control, &r, &ev);
    }
    request_release(&r);
    return str_get(&f->log);
}

static const char *run(struct fixture *f, enum slash command, const char *argument)
{
    return run_agreed(f, command, argument, false);
}

static bool is_saved(struct fixture *f, const char *name)
{
    AUTO_STR text = {0};
    int rc = conversations_export(f->control.parts.library, name, &text, NULL, &err);
    return rc == 0;
}

TEST(test_turns)
{
    struct fixture f;
    begin(&f, NULL);
    assert_string_equal(run(&f, SLASH_SAY, "hello"), "begin answer end");
    assert_int_equal(f.last.end.how, SESSION_TURN_END);
    assert_false(f.last.end.can_continue);
    assert_true(f.answer.n > 0);
    f.stop_after = 2;
    assert_string_equal(run(&f, SLASH_SAY, "words 50"), "begin answer end");
    assert_int_equal(f.last.end.how, SESSION_STOPPED);
    assert_true(f.last.end.can_continue);
    f.stop_after = 0;
    assert_string_equal(run(&f, SLASH_CONTINUE, ""), "begin answer end");
    assert_false(f.last.end.can_continue);
    assert_string_equal(run(&f, SLASH_CONTINUE, ""), "begin failed");
    assert_string_equal(run(&f, SLASH_SAY, "fail"), "begin failed");
    end(&f);
}

/* Nothing is lost before the user has agreed. */
TEST(test_going_back)
{
    struct fixture f;
    begin(&f, "rust-notes");
    assert_int_equal(n_turns(&f), 2);
    assert_string_equal(run(&f, SLASH_EDIT, "2"), "question");
    assert_non_null(strstr(f.text, "change turn 2: deletes its answer; replays "));
    assert_true(f.last.cost.ask);
    assert_int_equal(n_turns(&f), 2);
    assert_string_equal(run_agreed(&f, SLASH_EDIT, "2", true), "taken cut end");
    assert_int_equal(n_turns(&f), 2); /* until another message is sent */
    run(&f, SLASH_SAY, "Another question.");
    assert_int_equal(n_turns(&f), 2);
    assert_string_equal(run_agreed(&f, SLASH_EDIT, "2", true), "taken cut end");
    run(&f, SLASH_RECALLED, "");
    run(&f, SLASH_TOKENS, "x");
    assert_int_equal(n_turns(&f), 2); /* commands that only read leave it waiting */
    assert_string_equal(run(&f, SLASH_REWIND, "1"), "question"); /* any other command cuts */
    assert_int_equal(n_turns(&f), 1);
    assert_non_null(strstr(f.text, "back to turn 1: replays "));
    assert_string_equal(run_agreed(&f, SLASH_REWIND, "", true), "cut end");
    assert_int_equal(n_turns(&f), 0);
    assert_string_equal(run(&f, SLASH_REWIND, "7"), "usage");
    assert_string_equal(f.text, "no such turn; this conversation has 0");
    assert_string_equal(run(&f, SLASH_REGENERATE, ""), "usage");
    end(&f);
}

TEST(test_answers)
{
    struct fixture f;
    begin(&f, NULL);
    assert_string_equal(run(&f, SLASH_ANSWER, "Dogs"), "usage");
    run(&f, SLASH_SAY, "hello");
    assert_string_equal(run_agreed(&f, SLASH_REGENERATE, "", true), "answer end");
    assert_string_equal(run(&f, SLASH_ANSWER, "Dogs"), "end");
    assert_true(f.last.end.can_continue);
    assert_string_equal(run(&f, SLASH_BRANCH, "1 kept"), "branched");
    assert_string_equal(f.text, "kept");
    assert_true(is_saved(&f, "kept"));
    assert_string_equal(run(&f, SLASH_TOKENS, "three small words"), "note");
    assert_string_equal(f.text, "5 tokens, 17 bytes");
    assert_string_equal(run(&f, SLASH_TOKENS, ""), "failed");
    end(&f);
}

TEST(test_recall)
{
    struct fixture f;
    begin(&f, NULL);
    run(&f, SLASH_SAY, "My locker code is 48213.");
    run(&f, SLASH_SAY, "tell me more, in words 300");
    assert_string_equal(run(&f, SLASH_RECALLED, ""), "note");
    assert_string_equal(f.text, "nothing came back for the last message");
    run(&f, SLASH_SAY, "what is my locker code?");
    assert_string_equal(run(&f, SLASH_RECALLED, ""), "note");
    assert_string_equal(f.text,
                        "this came back for the last message:\n  turn 1  My locker code is 48213.");
    assert_string_equal(run(&f, SLASH_RECALL, "locker"), "note");
    assert_string_equal(
        f.text, "this comes back with your next message:\n  turn 1  My locker code is 48213.");
    assert_string_equal(run(&f, SLASH_RECALL, "turn 1"), "note");
    assert_string_equal(run(&f, SLASH_RECALL, "turn 7"), "failed");
    assert_string_equal(run(&f, SLASH_RECALL, "turn 7 of the game"), "note"); /* words */
    assert_string_equal(run(&f, SLASH_RECALL, ""), "failed");
    end(&f);
}

/* What other conversations say is a turn of its own before the message. */
/* A passage of another day says which. */
TEST(test_recalled_day)
{
    const struct session_recalled r = {
        .n = 1, .windows = {{.text = "It is 7.", .turn = 3, .said_ms = 1715500000000, .end = 8}}};
    AUTO_STR text = {0};
    recalled_sentence(&r, &text);
    assert_string_equal(str_get(&text), "remembered turn 3 (12 May 2024): It is 7., 0.0 ms");
}

TEST(test_recall_from)
{
    struct fixture f;
    begin(&f, "work");
    run(&f, SLASH_SAY, "My locker code is 40917.");
    run(&f, SLASH_NEW, "");
    f.control.options.chat.recall_from = "all";
    assert_string_equal(run(&f, SLASH_SAY, "hello"), "begin answer end");
    assert_string_equal(run(&f, SLASH_SAY, "what is my locker code?"), "passage begin answer end");
    assert_string_equal(run(&f, SLASH_RECALLED, ""), "note");
    assert_non_null(strstr(f.text, "\nread before it: From \"work\": My locker code is 40917."));
    run(&f, SLASH_SAY, "hello");
    run(&f, SLASH_RECALLED, "");
    assert_null(strstr(f.text, "read before it"));
    f.control.base.chat.recall_from = "wrk";
    assert_string_equal(run(&f, SLASH_NEW, ""), "opening opening failed opened");
    end(&f);
}

TEST(test_marks)
{
    struct fixture f;
    begin(&f, NULL);
    assert_string_equal(run(&f, SLASH_PIN, ""), "usage"); /* no turn yet */
    run(&f, SLASH_SAY, "words 5");
    run(&f, SLASH_SAY, "words 5 again");
    assert_string_equal(run(&f, SLASH_PIN, "1"), "note");
    assert_string_equal(f.text, "turn 1 stays in the cache; /unpin ends it");
    assert_string_equal(run(&f, SLASH_UNPIN, ""), "failed"); /* the last turn */
    assert_string_equal(f.text, "turn 2 is not pinned");
    assert_string_equal(run(&f, SLASH_UNPIN, "1"), "note");
    assert_string_equal(run(&f, SLASH_FORGET, "-1"), "question");
    assert_string_equal(run_agreed(&f, SLASH_FORGET, "-1", true), "note");
    assert_string_equal(
        f.text, "turn 1 is forgotten; until your next message /forget undo takes that back");
    assert_string_equal(run(&f, SLASH_FORGET, "undo"), "note");
    assert_string_equal(run(&f, SLASH_FORGET, "undo"), "failed");
    assert_string_equal(run(&f, SLASH_FORGET, "0"), "usage");
    assert_string_equal(run(&f, SLASH_FORGET, "7"), "usage");
    assert_string_equal(run(&f, SLASH_FORGET, "the fox"), "usage");
    end(&f);
}

TEST(test_opening)
{
    struct fixture f;
    begin(&f, "rust-notes");
    assert_string_equal(run(&f, SLASH_OPEN, "tax-letter"), "opening opened");
    assert_string_equal(f.control.name, "tax-letter");
    assert_string_equal(run(&f, SLASH_OPEN, "no-such"), "failed");
    assert_string_equal(f.control.name, "tax-letter");
    assert_string_equal(run(&f, SLASH_OPEN, ""), "usage");
    assert_string_equal(run(&f, SLASH_NEW, ""), "opening opened");
    assert_int_equal(n_turns(&f), 0);
    end(&f);
}

/* A conversation that cannot be opened leaves the user in the one before, with its settings. */
TEST(test_opening_fails)
{
    struct fixture f;
    begin(&f, "rust-notes");
    struct options changed = f.control.options;
    options_set(&changed, OPTIONS_MEMORY, "budget", "96", NULL);
    options_set(&changed, OPTIONS_SAMPLING, "max-tokens", "5", NULL);
    control_set(&f.control, &changed);
    scripted.fail_open = "thesis-ch3";
    assert_string_equal(run(&f, SLASH_OPEN, "thesis-ch3"), "opening opening failed opened");
    assert_string_equal(f.control.name, "rust-notes");
    assert_int_equal(f.control.options.session.plan.budget,
                     128);                                     /* the memory it was opened with */
    assert_int_equal(f.control.options.session.max_tokens, 5); /* counts from the next token on */
    scripted.fail_open = "*";
    assert_string_equal(run(&f, SLASH_NEW, ""), "opening opening failed fatal");
    assert_null(f.control.parts.session);
    end(&f);
}

TEST(test_saved)
{
    struct fixture f;
    begin(&f, "rust-notes");
    assert_string_equal(run(&f, SLASH_DELETE, "rust-notes"), "failed");
    assert_string_equal(f.text, "rust-notes is open; open another one first");
    assert_string_equal(run(&f, SLASH_DELETE, "tax-letter"), "done");
    assert_string_equal(f.last.done.name, "tax-letter");
    assert_false(is_saved(&f, "tax-letter"));
    assert_string_equal(run(&f, SLASH_RESTORE, ""), "usage");
    assert_string_equal(run(&f, SLASH_RESTORE, "tax-letter"), "done");
    assert_true(is_saved(&f, "tax-letter"));
    assert_string_equal(run(&f, SLASH_DROP, "thesis-ch3"), "done");
    assert_string_equal(run(&f, SLASH_TAG, "work"), "done");
    assert_string_equal(run(&f, SLASH_RENAME, "arenas"), "renamed");
    assert_string_equal(f.control.name, "arenas");
    assert_string_equal(run(&f, SLASH_RENAME, ""), "usage");
    assert_string_equal(run(&f, SLASH_RENAME, "tax-letter"), "failed");
    assert_string_equal(f.control.name, "arenas");
    assert_string_equal(run(&f, SLASH_FIND, "fragmented"), "found");
    end(&f);
}

/* The N-th block, also an unclosed one. */
TEST(test_copied_blocks)
{
    static const char *const expected[] = {"", "one\n", "~~\ntwo\n", "three"};
    AUTO_STR text = {0}, out = {0};
    char what[16];
    str_puts(&text, "A\n```c\none\n```\nB\n  ~~~\n~~\ntwo\n~~~\n```\nthree");
    for (int i = 1; i <= 3; i++) {
        snprintf(what, sizeof what, "code %d", i);
        str_clear(&out);
        ok(control_copied(&text, what, &out, &err));
        assert_string_equal(str_get(&out), expected[i]);
    }
    assert_int_equal(control_copied(&text, "code 4", &out, &err), ERR_FAIL);
    assert_int_equal(control_copied(&text, "code 0", &out, &err), ERR_USAGE);
    assert_int_equal(control_copied(&text, "code 1x", &out, &err), ERR_USAGE);
}

TEST(test_copied)
{
    static const char answer[] = "Two:\n\n```c\nint a;\n```\n\n~~~\nb\n~~~\n";
    AUTO_STR text = {0}, out = {0};
    assert_int_equal(control_copied(NULL, "", &out, &err), ERR_FAIL);
    str_puts(&text, answer);
    ok(control_copied(&text, "", &out, &err));
    assert_string_equal(out.data, answer);
    str_clear(&out);
    ok(control_copied(&text, "code", &out, &err));
    assert_string_equal(out.data, "b\n");
    assert_int_equal(control_copied(&text, "half", &out, &err), ERR_USAGE);
}
