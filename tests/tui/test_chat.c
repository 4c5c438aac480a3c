/* Using the keyboard in a conversation: thoughts, rewinding, settings, completion, the list,
 * copies, the demo. With scripted answers, without a terminal. test_drafts.c has the message line.
 */
#include "tests/test.h"

#include "base/system.h"
#include "cli/control/clipboard.h"
#include "tests/tui/fake_stage.h"
#include "tests/unit/make_thinker.h"
#include "tui/chat/worker.h"
#include "tui/chat/script.h"

/* ---- thoughts -------------------------------------------------------------------------------- */

/* A model whose template knows thoughts. */
static const char *thinker(void)
{
    struct maker m;
    make_thinker(&m, "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
                     "{% if add_generation_prompt %}<|assistant|>{% if enable_thinking is defined "
                     "and not enable_thinking %}<think></think>{% endif %}{% endif %}");
    return stage_model(&m);
}

/* One line tells how long; Alt-e shows the text; copies leave it out. */
TEST(test_thoughts)
{
    static const char told[] = " tokens  Alt-e unfolds it";
    AUTO_STAGE s;
    char name[STORE_NAME_MAX];
    stage_init(&s, true, false);
    scripted.model = thinker();
    stage_open(&s, NULL);
    stage_type(&s, "first\rponder this\r");
    for (int again = 0; again < 2; again++) {
        shows(&s, told);
        hides_too(&s, "Let me see.");
        shows_too(&s, "llm The cache keeps");
        stage_key(&s, 'e' | K_ALT);
        shows(&s, "Alt-e folds it");
        shows_too(&s, "      Let me see.");
        shows_too(&s, "      They greet ");
        stage_type(&s, "/thought\r");
        hides(&s, "Let me see.");
        stage_type(&s, "/copy all\r");
        assert_null(strstr(str_get(&s.copied), "Let me see."));
        assert_non_null(strstr(str_get(&s.copied), "\n## assistant\n\nThe cache keeps"));
        assert_int_equal(stage_message(&s, 4)->role, CHAT_ASSISTANT);
        assert_int_equal(stage_message(&s, 4)->position,
                         stage_message(&s, 2)->position + stage_message(&s, 2)->n_tokens);
        snprintf(name, sizeof name, "%s", s.app.name);
        stage_load(&s, name, strlen(name));
    }
    stage_key(&s, K_F1 + 3); /* the folded thought is not in the way */
    hides(&s, "Let me see.");
}

TEST(test_a_running_thought)
{
    AUTO_STAGE s;
    stage_talk(&s, 1);
    s.freeze_after = 1;
    stage_type(&s, "hm\r");
    stage_text(&s, EVENT_THOUGHT, "Well, ");
    s.app.now_ms += 3200;
    shows(&s, "... thinking 3.2 s");
    stage_key(&s, 'e' | K_ALT);
    stage_text(&s, EVENT_THOUGHT, "let me see.");
    shows(&s, "      Well, let me see.");
    struct event answer = {.kind = EVENT_ANSWER};
    app_take(&s.app, &answer);
    stage_text(&s, EVENT_TEXT, "It is so.");
    assert_string_equal(str_get(&stage_message(&s, s.app.talk.n - 1)->text), "It is so.");
    assert_int_equal(stage_message(&s, s.app.talk.n - 2)->role, TRANSCRIPT_THOUGHT);
}

/* ---- rewinding ------------------------------------------------------------------------------- */

TEST(test_regenerate)
{
    AUTO_STAGE s;
    stage_talk(&s, 2);
    int64_t position = stage_message(&s, 2)->position, n_tokens = stage_message(&s, 2)->n_tokens;
    stage_key(&s, K_F1 + 4); /* costs nothing: no question */
    assert_int_equal(s.app.talk.n, 4);
    assert_string_equal(str_get(&stage_message(&s, 3)->text), "Another answer.");
    assert_int_equal(stage_message(&s, 2)->position, position);
    assert_int_equal(stage_message(&s, 2)->n_tokens, n_tokens);
    assert_int_equal(stage_message(&s, 3)->position, position + n_tokens);
    assert_int_equal(s.app.phase, PHASE_READY);
}

/* Another answer is asked about if it takes long. */
TEST(test_asks_only_if_it_is_slow)
{
    AUTO_STAGE s;
    struct event ev = {.kind = EVENT_QUESTION, .cost = {100, true}};
    stage_talk(&s, 2);
    for (int rate = 0; rate < 100; rate += 49) {
        s.app.question = (struct question){.what = SLASH_REGENERATE, .turn = 2};
        s.app.stats.prefill_tok_s = rate;
        s.app.phase = PHASE_READY;
        app_take(&s.app, &ev);
        assert_int_equal(s.app.question.open, rate < 50);
    }
    s.app.question = (struct question){.what = SLASH_REWIND, .turn = 1};
    s.app.phase = PHASE_READY;
    app_take(&s.app, &ev);
    assert_true(s.app.question.open); /* it loses a turn */
}

/* An interrupted answer is marked after every reopening, and continues in its message. */
TEST(test_stopped_is_shown_again)
{
    AUTO_STAGE s;
    struct event ev = {
        .kind = EVENT_OPENED, .text = "talk-1", .n_text = 6, .end = {SESSION_STOPPED, 0, true}};
    stage_talk(&s, 1);
    hides(&s, "[stopped]");
    app_take(&s.app, &ev);
    shows(&s, "[stopped]");
    ev.end.can_continue = false;
    ev.end.how = SESSION_TURN_END;
    app_take(&s.app, &ev);
    hides(&s, "[stopped]");
}

/* A short message does not hide the progress of what was asked next. */
TEST(test_flash_ends_with_the_next_request)
{
    AUTO_STAGE s;
    stage_talk(&s, 0);
    stage_type(&s, "abc");
    stage_key(&s, CTRL('c'));
    shows(&s, "stashed");
    s.freeze_after = 1;
    stage_type(&s, "abc\r");
    hides(&s, "stashed");
    shows_too(&s, "Ctrl-C stop");
    s.freeze_after = 0;
    stage_end(&s, SESSION_TURN_END);
    stage_type(&s, "/quti\r");
    shows(&s, "did you mean /quit");
    stage_key(&s, CTRL('u'));
    stage_type(&s, "/raw\r");
    hides(&s, "did you mean");
}

TEST(test_edit_a_turn)
{
    AUTO_STAGE s;
    stage_talk(&s, 4);
    stage_type(&s, "a draft");
    stage_key(&s, K_F1 + 5);
    assert_true(s.app.question.open);
    shows(&s, "change turn 4: deletes its answer; replays 0 tokens");
    shows_too(&s, "  y yes  n no  b yes, and keep a branch");
    stage_type(&s, " by me"); /* no answer: nothing happens, and no key is lost */
    assert_false(s.app.question.open);
    assert_string_equal(str_get(&s.app.edit.text), "a draft by me");
    assert_int_equal(s.app.talk.n, 8);
    stage_key(&s, K_F1 + 5);
    stage_key(&s, '\r'); /* cancels, and sends nothing */
    assert_false(s.app.question.open);
    assert_int_equal(s.app.talk.n, 8);
    assert_string_equal(str_get(&s.app.edit.text), "a draft by me");
    stage_key(&s, CTRL('u'));
    stage_type(&s, "/edit 2\r");
    shows(&s, "change turn 2: deletes its answer and 2 turns; replays 0 tokens");
    stage_type(&s, "y");
    assert_int_equal(s.app.talk.n, 2);
    assert_string_equal(str_get(&s.app.edit.text), "second");
    stage_type(&s, " thoughts\r");
    assert_int_equal(s.app.talk.n, 4);
    assert_string_equal(str_get(&stage_message(&s, 2)->raw), "second thoughts");
    assert_int_equal(stage_message(&s, 2)->position,
                     stage_message(&s, 1)->position + stage_message(&s, 1)->n_tokens);
    stage_type(&s, "/edit 9\r");
    assert_non_null(strstr(s.app.flash, "no such turn"));
}

TEST(test_answer_is_changed)
{
    AUTO_STAGE s;
    stage_talk(&s, 2);
    stage_type(&s, "code\r");
    stage_key(&s, 'a' | K_ALT);
    assert_memory_equal(str_get(&s.app.edit.text), "/answer Here it is:\n\n```c\n", 26);
    stage_key(&s, CTRL('u'));
    stage_key(&s, CTRL('c'));
    stage_type(&s, "/answer Mine,");
    stage_key(&s, '\n');
    stage_type(&s, "not yours\r");
    assert_int_equal(s.app.talk.n, 6);
    assert_string_equal(str_get(&stage_message(&s, 5)->raw), "Mine,\nnot yours");
    assert_int_equal(stage_message(&s, 5)->position,
                     stage_message(&s, 4)->position + stage_message(&s, 4)->n_tokens);
    assert_int_equal(stage_message(&s, 5)->n_tokens, 8);
    assert_true(s.app.can_continue);
    stage_type(&s, "/continue\r");
    assert_int_equal(s.app.talk.n, 6);
    assert_memory_equal(str_get(&stage_message(&s, 5)->raw), "Mine,\nnot yoursThe cache keeps", 30);
}

TEST(test_rewind_keeps_a_branch)
{
    AUTO_STAGE s;
    stage_talk(&s, 3);
    int n = s.app.list.n;
    stage_type(&s, "/rewind 1\rb");
    assert_int_equal(s.app.talk.n, 2);
    stage_list(&s);
    assert_int_equal(s.app.list.n, n + 2); /* this conversation and its branch */
    assert_int_equal(s.app.list.rows[0].n_turns, 3);
    stage_type(&s, "/branch 1 other\r");
    stage_list(&s);
    assert_string_equal(s.app.list.rows[0].name, "other");
    assert_int_equal(s.app.list.rows[0].n_turns, 1);
    stage_type(&s, "/open other\r");
    assert_string_equal(s.app.name, "other");
}

TEST(test_private_cannot_go_back)
{
    AUTO_STAGE s;
    stage_start(&s, true, NULL);
    stage_type(&s, "one\r/edit\r");
    assert_int_equal(s.app.talk.n, 2);
    assert_non_null(strstr(s.app.flash, "private"));
}

/* ---- settings ------------------------------------------------------------------------------- */

/* /file and @PATH: one line with size and tokens stands for the file, before and after it was read,
 * until it is unfolded; a missing file is told and the message stays. Tab completes the path. */
TEST(test_files)
{
    const char *path = write_text(path_in(folder_new(), "told"), "one two three\n");
    char line[160], label[160];
    AUTO_STAGE s;
    int64_t from, end;
    stage_init(&s, false, false);
    snprintf(line, sizeof line, "what is @%s about?\r", path);
    stage_type(&s, line); /* it is loading, so it is queued */
    shows(&s, "queued 1  what is @/tmp/");
    stage_open(&s, "");
    stage_run(&s);
    stage_draw(&s, 80, 24);
    const struct message *m = stage_message(&s, 0);
    assert_true(m->lines[0].file && m->n_lines == 2 && m->n_tokens > 0);
    transcript_positions(&s.app.talk, 0, m->lines[0].from, m->lines[0].n, &from, &end);
    snprintf(label, sizeof label, "you %s \xc2\xb7 14 B \xc2\xb7 %d tokens  Alt-o unfolds it", path,
             (int)(end - from));
    shows_too(&s, label);
    shows_too(&s, "what is @/tmp/");
    hides_too(&s, "one two three");
    stage_key(&s, 'o' | K_ALT);
    shows(&s, "one two three");
    stage_key(&s, 'o' | K_ALT);
    snprintf(line, sizeof line, "/file %s how long?\r", path);
    stage_type(&s, line);
    m = stage_message(&s, s.app.talk.n - 2);
    assert_true(m->role == CHAT_USER && strstr(m->raw.data, "one two three\n```\n\nhow long?"));
    int n = s.app.talk.n;
    stage_type(&s, "look at @src/gone.txt\r");
    assert_non_null(strstr(s.app.flash, "there is no file src/gone.txt"));
    assert_string_equal(str_get(&s.app.edit.text), "look at @src/gone.txt");
    assert_int_equal(s.app.talk.n, n);
    stage_key(&s, CTRL('u'));
    stage_type(&s, "look at @tests/tui/test_ch");
    shows(&s, "tests/tui/test_chat.c");
    stage_key(&s, '\t');
    assert_string_equal(str_get(&s.app.edit.text), "look at @tests/tui/test_chat.c");
}

TEST(test_set)
{
    AUTO_STAGE s;
    stage_talk(&s, 1);
    stage_type(&s, "/set temp 0.2\r");
    assert_true(s.app.o->session.sampling.temperature > 0.19f &&
                s.app.o->session.sampling.temperature < 0.21f);
    stage_type(&s, "/set max-tokens 3\r");
    stage_type(&s, "words 9\r");
    assert_int_equal(stage_message(&s, s.app.talk.n - 1)->n_tokens, 3);
    stage_type(&s, "/set temp warm\r");
    assert_non_null(strstr(s.app.flash, "expected a number"));
    assert_string_equal(str_get(&s.app.edit.text), "/set temp warm"); /* returned for correction */
    stage_key(&s, CTRL('u'));
    stage_type(&s, "/set tmep 1\r");
    assert_non_null(strstr(s.app.flash, "did you mean temp?"));
    stage_key(&s, CTRL('u'));
    stage_type(&s, "/set prompt x\r"); /* not a setting of a conversation */
    assert_non_null(strstr(s.app.flash, "no setting prompt"));
    stage_key(&s, CTRL('u'));
    stage_type(&s, "/set temp\r");
    assert_non_null(strstr(str_get(&stage_message(&s, s.app.talk.n - 1)->text), "temp 0.2: "));
}

/* The status line: a message and the mark of more lines do not overprint; the event line is about
 * the open conversation; its own name opens nothing, and the command is done. */
TEST(test_lines_around)
{
    AUTO_STAGE s;
    stage_init(&s, true, false);
    stage_list(&s);
    stage_open(&s, "rust-notes");
    for (int i = 0; i < 9; i++) stage_type(&s, "words 30\r");
    assert_true(s.app.event[0]);
    stage_draw(&s, 60, 24);
    stage_key(&s, K_PAGE_UP);
    app_flash(&s.app, "%s", "a message that is far too long for the line of this narrow screen");
    stage_draw(&s, 60, 24);
    const char *flash = strstr(s.drawn.data, "-- a message that is"),
               *more = strstr(s.drawn.data, " lines more |");
    assert_true(flash && more > flash && more < flash + 60);
    shows_too(&s, "... v ");
    stage_type(&s, "/open rust-notes\r");
    assert_non_null(strstr(s.app.flash, "rust-notes is open"));
    assert_int_equal(s.app.edit.text.n, 0);
    stage_type(&s, "/open tax-letter\r");
    assert_string_equal(s.app.name, "tax-letter");
    assert_string_equal(s.app.event, "");
}

/* Settings of the memory reopen the conversation, and are undone when that fails. */
TEST(test_set_memory)
{
    AUTO_STAGE s;
    stage_init(&s, true, false);
    stage_list(&s);
    stage_open(&s, "rust-notes");
    stage_type(&s, "/set budget 1024\r");
    assert_non_null(strstr(s.app.event, "budget 1024: the conversation was reopened with it"));
    stage_type(&s, "/set budget 64\r");
    assert_non_null(strstr(s.app.event, "budget 64: the conversation was reopened with it"));
    assert_int_equal(s.app.o->session.plan.budget, 64);
    assert_string_equal(s.app.name, "rust-notes");
    assert_int_equal(s.app.phase, PHASE_READY);
    assert_false(s.app.settings.reopening);
    s.app.settings.reopening = true; /* as while it is being opened */
    s.app.settings.before.session.plan.budget = 128;
    stage_text(&s, EVENT_FAILED, "it does not fit");
    assert_int_equal(s.app.o->session.plan.budget, 128);
}

/* ---- completion ----------------------------------------------------------------------------- */

static const char *names(void *ctx, enum slash_argument kind, int i, char text[200])
{
    static const char *const list[] = {"rust-notes", "rust-book", "tax"};
    const struct option *f = options_setting(SLASH_SETTINGS, i);
    if (kind == SLASH_SETTING) return f ? f->name : NULL;
    return i < 3 ? list[i] : NULL;
}

static void check_completion(const char *line, int i, const char *want)
{
    struct slash_offer o;
    bool found = slash_complete(line, strlen(line), names, NULL, i, &o);
    assert_int_equal(found, want != NULL);
    if (want) assert_string_equal(o.word, want);
    if (want) assert_memory_equal(o.word, line + o.from, strlen(line) - o.from);
}

TEST(test_completion)
{
    check_completion("/he", 0, "help");
    check_completion("/re", 0, "regenerate");
    check_completion("/re", 1, "rewind ");
    check_completion("/re", 4, "recall ");
    check_completion("/re", 6, NULL);
    check_completion("/open r", 1, "rust-book");
    check_completion("/open r", 2, NULL);
    check_completion("/set te", 0, "temp ");
    check_completion("/set policy ra", 0, "random");
    check_completion("/set budget ", 0, NULL);
    check_completion("/copy c", 0, "code");
    check_completion("//he", 0, NULL);
    check_completion("no", 0, NULL);
    check_completion("", 0, NULL);
}

TEST(test_tab)
{
    AUTO_STAGE s;
    stage_talk(&s, 0);
    stage_type(&s, "/se\t");
    assert_string_equal(str_get(&s.app.edit.text), "/set ");
    stage_type(&s, "pol\t");
    assert_string_equal(str_get(&s.app.edit.text), "/set policy ");
    stage_key(&s, CTRL('u'));
    stage_type(&s, "/re\t\t");
    assert_string_equal(str_get(&s.app.edit.text), "/rewind ");
    stage_type(&s, "\t\t\t\t\t"); /* rename, restore, recall, recalled, the typed text again */
    assert_string_equal(str_get(&s.app.edit.text), "/re");
    stage_key(&s, CTRL('u'));
    stage_type(&s, "a\tb"); /* in a text it is a tab */
    assert_string_equal(str_get(&s.app.edit.text), "a\tb");
}

TEST(test_turns)
{
    int64_t turn;
    const char *rest;
    assert_true(slash_turn("", 5, &turn, &rest));
    assert_int_equal(turn, 5);
    assert_true(slash_turn("-1 name", 5, &turn, &rest));
    assert_int_equal(turn, 4);
    assert_string_equal(rest, "name");
    assert_true(slash_turn("0", 5, &turn, &rest));
    assert_false(slash_turn("6", 5, &turn, &rest));
    assert_false(slash_turn("-6", 5, &turn, &rest));
    assert_false(slash_turn("2x", 5, &turn, &rest));
    assert_false(slash_turn("99999999999999999999", 5, &turn, &rest));
}

/* ---- the list ------------------------------------------------------------------------------- */

TEST(test_find)
{
    AUTO_STAGE s;
    stage_start(&s, false, "rust-notes");
    stage_type(&s, "/find failing case\r");
    assert_int_equal(s.app.view, VIEW_LIST);
    shows(&s, "Show me the..."); /* cut at a word, and marked */
    hides_too(&s, "tax-letter");
    for (int i = 0; i < 12; i++) stage_key(&s, 127);
    stage_type(&s, "TAX");
    shows(&s, "tax-letter");
    assert_int_equal(s.app.list.n_shown, 1);
    stage_key(&s, '\r'); /* the only one is opened */
    assert_string_equal(s.app.name, "tax-letter");
}

TEST(test_rename_and_undo)
{
    AUTO_STAGE s;
    stage_start(&s, false, "rust-notes");
    stage_key(&s, K_F1 + 1);
    stage_key(&s, K_DOWN);
    stage_type(&s, "r");
    stage_key(&s, CTRL('u'));
    stage_type(&s, "new name\r");
    assert_string_equal(s.app.list.rows[1].name, "new name");
    stage_type(&s, "dy");
    assert_int_equal(s.app.list.n, 2);
    stage_type(&s, "u");
    assert_int_equal(s.app.list.n, 3);
    assert_string_equal(s.app.list.chosen, "new name"); /* the cursor is on the restored one */
    stage_type(&s, "xn");
    assert_string_equal(s.app.list.said, "");
    stage_type(&s, "xy"); /* a cache cannot be restored: it asks */
    assert_non_null(strstr(s.app.list.said, "the cache of new name was deleted"));
    stage_key(&s, K_HOME);
    stage_type(&s, "r2\r"); /* the open one */
    assert_string_equal(s.app.name, "rust-notes2");
    stage_type(&s, "q/delete tax-letter\r");
    assert_true(s.app.question.open); /* as `d` in the list does */
    stage_type(&s, "n");
    assert_int_equal(s.app.list.n, 3);
    stage_type(&s, "/delete tax-letter\ry");
    assert_int_equal(s.app.list.n, 2);
    stage_type(&s, "/restore\r");
    assert_int_equal(s.app.list.n, 3);
    stage_type(&s, "/open rust\r");
    assert_non_null(strstr(s.app.flash, "no conversation rust"));
}

/* The reason why an answer was cut off stays at its end, and the answer can be continued. */
TEST(test_looped)
{
    AUTO_STAGE s;
    stage_talk(&s, 1);
    s.freeze_after = 1;
    stage_type(&s, "hm\r");
    app_take(&s.app, &(struct event){.kind = EVENT_ANSWER});
    stage_text(&s, EVENT_TEXT, "very, very, very");
    stage_end(&s, SESSION_REPETITION);
    shows(&s, "very [looped]");
    assert_true(s.app.can_continue);
}

/* A notice to the user is not hidden by the usual numbers, and a command's output is visible even
 * after scrolling up. */
TEST(test_words_are_seen)
{
    AUTO_STAGE s;
    stage_talk(&s, 4);
    stage_draw(&s, 80, 12);
    stage_key(&s, K_PAGE_UP);
    stage_draw(&s, 80, 12);
    assert_true(s.app.chat.held);
    stage_type(&s, "/edit 99\r");
    assert_non_null(strstr(stage_draw(&s, 60, 12), "no such turn; this conversation has 4"));
    stage_key(&s, CTRL('u'));
    stage_key(&s, K_PAGE_UP);
    stage_draw(&s, 80, 12);
    stage_type(&s, "/tokens a b\r");
    assert_non_null(strstr(stage_draw(&s, 80, 12), "*** 2 tokens"));
}

TEST(test_tags)
{
    AUTO_STAGE s;
    stage_start(&s, false, "rust-notes");
    stage_key(&s, K_F1 + 1);
    stage_key(&s, K_DOWN);
    stage_type(&s, "tsecond #trip\r");
    assert_string_equal(s.app.list.rows[1].tags, "#second #trip");
    shows(&s, "#second #trip");
    stage_type(&s, "/#tri"); /* only those with such a tag */
    stage_draw(&s, 80, 24);
    assert_int_equal(s.app.list.n_shown, 1);
    assert_int_equal(s.app.list.shown[0], 1);
    stage_key(&s, '\033');
    stage_key(&s, K_DOWN);
    stage_type(&s, "t");
    assert_string_equal(str_get(&s.app.list.field.text), "#second #trip");
    stage_key(&s, CTRL('u'));
    stage_type(&s, "#trip home\r"); /* one is removed, one is added */
    assert_string_equal(s.asked, "thesis-ch3\n-second home ");
    stage_type(&s, "t");
    stage_key(&s, CTRL('u'));
    stage_type(&s, "home -trip -none\r"); /* as with /tag: removes, adds nothing */
    assert_string_equal(s.asked, "thesis-ch3\n-trip ");
    stage_type(&s, "q/tag work -trip\r");
    assert_string_equal(s.asked, "rust-notes\nwork -trip");
}

static bool is_listed(const struct stage *s, const char *name)
{
    for (int i = 0; i < s->app.list.n; i++)
        if (strcmp(s->app.list.rows[i].name, name) == 0) return true;
    return false;
}

/* Rows move while a question about one of them waits for its answer: the question stays about that
 * one. */
TEST(test_rows_move)
{
    AUTO_STAGE s;
    stage_start(&s, false, "rust-notes");
    stage_key(&s, K_F1 + 1);
    stage_key(&s, K_DOWN);
    assert_string_equal(s.app.list.rows[1].name, "thesis-ch3");
    stage_type(&s, "d");
    stage_branch(&s, 1, "first"); /* it becomes the first row */
    stage_list(&s);
    assert_string_equal(s.app.list.rows[0].name, "first");
    stage_type(&s, "y");
    assert_false(is_listed(&s, "thesis-ch3"));
    assert_true(is_listed(&s, "rust-notes"));
    stage_key(&s, K_END);
    assert_string_equal(s.app.list.rows[2].name, "tax-letter");
    stage_type(&s, "r");
    stage_branch(&s, 1, "second");
    stage_list(&s);
    stage_type(&s, "2\r");
    assert_true(is_listed(&s, "tax-letter2"));
    /* removing a row ends the question about it */
    stage_type(&s, "r");
    ok(conversations_delete(s.control.parts.library, "tax-letter2", &err));
    stage_list(&s);
    stage_type(&s, "3\r");
    assert_string_equal(s.app.list.error, "tax-letter2 no longer exists");
    assert_int_equal(s.app.list.n, 3);
    for (int i = 0; i < 3; i++) assert_null(strchr(s.app.list.rows[i].name, '3'));
    /* Enter takes the only row found, even before it was drawn */
    stage_type(&s, "/second\r");
    assert_string_equal(s.app.name, "second");
}

/* ---- copies --------------------------------------------------------------------------------- */

TEST(test_copy)
{
    AUTO_STAGE s;
    stage_talk(&s, 0);
    stage_type(&s, "code\r");
    stage_key(&s, 'w' | K_ALT);
    assert_memory_equal(str_get(&s.copied), "Here it is:\n\n```c\nint main(void)\n{\n\treturn 0;\n",
                        strlen("Here it is:\n\n```c\nint main(void)\n{\n\treturn 0;\n"));
    stage_type(&s, "/copy code\r");
    assert_string_equal(str_get(&s.copied), "int main(void)\n{\n\treturn 0;\n}\n");
    stage_type(&s, "evil\r/copy\r"); /* as the model wrote it: no marks, no wrapping */
    assert_non_null(strstr(str_get(&s.copied), "title \033]0;owned\007"));
    stage_type(&s, "/copy all\r");
    assert_memory_equal(str_get(&s.copied), "## user\n\ncode\n\n## assistant\n\nHere",
                        strlen("## user\n\ncode\n\n## assistant\n\nHere"));
}

TEST(test_osc52)
{
    AUTO_STR out = {0};
    static const struct {
        const char *text, *want;
    } rows[] = {{"", ""}, {"M", "TQ=="}, {"Ma", "TWE="}, {"Man", "TWFu"}, {"\xff\xfe", "//4="}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) { /* RFC 4648 */
        char want[64];
        str_clear(&out);
        clipboard_osc52(rows[i].text, strlen(rows[i].text), &out);
        snprintf(want, sizeof want, "\033]52;c;%s\007", rows[i].want);
        assert_string_equal(out.data, want);
    }
}

/* ---- the demo -------------------------------------------------------------------------------- */

static void draft_is(const struct stage *s, const char *text)
{
    assert_string_equal(str_get(&s->app.edit.text), text);
}

/* With the demo model a digit writes a message on the empty screen, and is a digit
 * anywhere else. */
TEST(test_welcome)
{
    AUTO_STAGE s;
    stage_talk(&s, 0);
    stage_draw(&s, 80, 24);
    assert_null(strstr(str_get(&s.drawn), "toy model"));
    stage_type(&s, "1");
    draft_is(&s, "1");
    stage_key(&s, 127);
    s.app.settings.options.engine.model = NULL;
    stage_draw(&s, 80, 24);
    assert_non_null(strstr(str_get(&s.drawn), "toy model"));
    stage_type(&s, "1");
    draft_is(&s, "My locker code is 48213.");
    stage_type(&s, "0");
    draft_is(&s, "10");
    stage_type(&s, "\x7f\x7f"
                   "1Hello");
    draft_is(&s, "Hello");
    stage_key(&s, CTRL('U'));
    stage_type(&s, "2");
    draft_is(&s, "Tell me a story about a fox.");
    stage_type(&s, "\r");
    assert_int_equal(s.app.talk.n, 2);
    stage_type(&s, "1");
    draft_is(&s, "1");
}

struct asked {
    bool stop;
    int times;
};

static bool ask(void *ctx)
{
    struct asked *a = ctx;
    a->times++;
    return a->stop;
}

TEST(test_pace)
{
    struct pace p = {0};
    struct options o;
    struct asked stop = {0};
    options_init(&o);
    assert_int_equal(pace_rate(&o), 40); /* the demo */
    o.engine.model = "some.gguf";
    assert_int_equal(pace_rate(&o), 0);
    o.chat.pace = 7;
    assert_int_equal(pace_rate(&o), 7);
    int64_t begin = system_clock_ns();
    for (int i = 0; i < 25; i++) pace_wait(&p, 500, ask, &stop);
    assert_true(system_clock_ns() - begin >= 48000000);
    stop = (struct asked){.stop = true};
    pace_wait(&p, 1, ask, &stop);
    assert_in_range(stop.times, 0, 1);
    stop = (struct asked){0};
    pace_wait(&p, 0, ask, &stop);
    assert_int_equal(stop.times, 0);
}

/* Plays until `ms` from now, in steps of 10. */
static enum script_state play(struct stage *s, struct script *script, int ms)
{
    enum script_state state = SCRIPT_PLAYS;
    for (int64_t end = s->app.now_ms + ms; s->app.now_ms < end && state == SCRIPT_PLAYS;) {
        s->app.now_ms += 10;
        state = script_run(script, &s->app);
        stage_run(s);
    }
    return state;
}

/* The script types, presses keys and kills in the states that its steps wait for, until it is
 * stopped. */
TEST(test_script)
{
    static const struct script_step steps[] = {
        {SCRIPT_SAY, "one", 0, 0},     {SCRIPT_KEY, NULL, K_F1 + 2, 1000},
        {SCRIPT_KEY, NULL, 'q', 1000}, {SCRIPT_SAY, "two", 0, 0},
        {SCRIPT_KILL, NULL, 0, 100},   {SCRIPT_END, NULL, 0, 0},
    };
    struct script script = {.steps = steps, .hurry = 1};
    AUTO_STAGE s;
    stage_talk(&s, 0);
    s.app.phase = PHASE_LOADING;
    assert_int_equal(play(&s, &script, 60000), SCRIPT_PLAYS);
    assert_int_equal(script_wait(&script, &s.app), -1);
    draft_is(&s, "");
    s.app.phase = PHASE_READY;
    play(&s, &script, 1560);
    draft_is(&s, "on");
    assert_in_range(script_wait(&script, &s.app), 1, 35);
    play(&s, &script, 500);
    assert_int_equal(s.app.talk.n, 2);
    assert_int_equal(s.app.view, VIEW_CHAT);
    play(&s, &script, 1000);
    assert_int_equal(s.app.view, VIEW_MAP);
    play(&s, &script, 1010);
    assert_int_equal(s.app.view, VIEW_CHAT);
    assert_int_equal(play(&s, &script, 60000), SCRIPT_KILLS);
    assert_int_equal(s.app.talk.n, 4);
    script_stop(&script);
    assert_int_equal(script_run(&script, &s.app), SCRIPT_OVER);
    assert_int_equal(script_wait(&script, &s.app), -1);
}
