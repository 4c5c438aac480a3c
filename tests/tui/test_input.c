/* The message editor, its history, and the decoding of keys: no terminal. */
#include "tests/test.h"

#include <sys/stat.h>

#include "cli/control/slash.h"
#include "tests/tui/fake_stage.h"
#include "tui/term/input.h"

#define AUTO_EDIT  __attribute__((cleanup(edit_release))) struct edit
#define AUTO_INPUT __attribute__((cleanup(input_release))) struct input

/* ---- editor --------------------------------------------------------------------------------- */

static void put(struct edit *e, const char *text)
{
    edit_insert(e, text, strlen(text));
}

static void assert_edit(const struct edit *e, const char *before, const char *after)
{
    assert_int_equal(e->cursor, strlen(before));
    assert_int_equal(e->text.n, strlen(before) + strlen(after));
    assert_memory_equal(str_get(&e->text), before, strlen(before));
    assert_string_equal(str_get(&e->text) + strlen(before), after);
}

TEST(test_moves)
{
    AUTO_EDIT e;
    edit_init(&e);
    put(&e, "one two\nthree");
    assert_edit(&e, "one two\nthree", "");
    edit_move(&e, EDIT_WORD_LEFT);
    assert_edit(&e, "one two\n", "three");
    edit_move(&e, EDIT_LEFT);
    edit_move(&e, EDIT_WORD_LEFT);
    assert_edit(&e, "one ", "two\nthree");
    edit_move(&e, EDIT_LINE_END);
    assert_edit(&e, "one two", "\nthree");
    edit_move(&e, EDIT_DOWN);
    assert_edit(&e, "one two\nthree", "");
    edit_move(&e, EDIT_UP); /* the goal column is remembered */
    assert_edit(&e, "one two", "\nthree");
    assert_false(edit_move(&e, EDIT_UP));
    edit_move(&e, EDIT_START);
    assert_false(edit_move(&e, EDIT_LEFT));
    edit_move(&e, EDIT_WORD_RIGHT);
    assert_edit(&e, "one", " two\nthree");
    edit_move(&e, EDIT_END);
    assert_false(edit_move(&e, EDIT_RIGHT));
    assert_false(edit_move(&e, EDIT_DOWN));
}

TEST(test_characters)
{
    AUTO_EDIT e;
    edit_init(&e);
    put(&e, "漢e\xCC\x81🙂");
    edit_move(&e, EDIT_LEFT);
    assert_edit(&e, "漢e\xCC\x81", "🙂");
    edit_erase(&e, EDIT_LEFT); /* a mark is erased with its base */
    assert_edit(&e, "漢", "🙂");
    edit_erase(&e, EDIT_RIGHT);
    assert_edit(&e, "漢", "");
    edit_erase(&e, EDIT_LEFT);
    edit_erase(&e, EDIT_LEFT);
    assert_edit(&e, "", "");
    put(&e, "ab\xFF\xC3");
    edit_erase(&e, EDIT_LEFT);
    edit_erase(&e, EDIT_LEFT);
    assert_edit(&e, "ab", "");
}

TEST(test_kill_and_yank)
{
    AUTO_EDIT e;
    edit_init(&e);
    put(&e, "one two three");
    edit_kill(&e, EDIT_WORD_LEFT);
    assert_edit(&e, "one two ", "");
    edit_kill(&e, EDIT_LINE_START);
    assert_edit(&e, "", "");
    edit_yank(&e);
    edit_yank(&e);
    assert_edit(&e, "one two one two ", "");
    put(&e, "\nx");
    edit_move(&e, EDIT_START);
    edit_kill(&e, EDIT_LINE_END);
    assert_edit(&e, "", "\nx");
    edit_kill(&e, EDIT_LINE_END); /* at the end of a line it joins the next */
    assert_edit(&e, "", "x");
}

TEST(test_undo)
{
    AUTO_EDIT e;
    edit_init(&e);
    for (const char *c = "one two"; *c; c++) edit_insert(&e, c, 1);
    edit_kill(&e, EDIT_WORD_LEFT);
    put(&e, "a longer text");
    edit_undo(&e);
    assert_edit(&e, "one ", "");
    edit_undo(&e);
    assert_edit(&e, "one two", "");
    edit_undo(&e);
    assert_edit(&e, "one", "");
    edit_redo(&e);
    edit_redo(&e);
    assert_edit(&e, "one ", "");
    edit_undo(&e);
    edit_undo(&e);
    edit_undo(&e);
    assert_edit(&e, "", "");
    assert_false(edit_undo(&e));
    put(&e, "new");
    assert_false(edit_redo(&e));
}

/* The cursor returns to its place before the change, not to the end of the restored text. */
TEST(test_undo_moves_the_cursor_back)
{
    AUTO_EDIT e;
    edit_init(&e);
    put(&e, "one two three");
    edit_move(&e, EDIT_WORD_LEFT);
    edit_move(&e, EDIT_WORD_LEFT);
    edit_kill(&e, EDIT_LINE_END);
    assert_edit(&e, "one ", "");
    edit_undo(&e);
    assert_edit(&e, "one ", "two three");
    edit_erase(&e, EDIT_RIGHT);
    edit_undo(&e);
    assert_edit(&e, "one ", "two three");
}

/* Random edits: undoing all gives the empty text, redoing all gives the text again. */
TEST(test_undo_random)
{
    unsigned seed = 7;
    for (int round = 0; round < 50; round++) {
        AUTO_EDIT e;
        int n = 0;
        edit_init(&e);
        e.width = 10;
        for (int i = 0; i < 200; i++) {
            seed = seed * 1103515245u + 12345u;
            unsigned r = seed >> 16;
            static const char *const pieces[] = {"a", " ", "漢", "word\nline ", "e\xCC\x81", "\n"};
            if (r % 3 == 0)
                put(&e, pieces[r / 3 % 6]);
            else if (r % 3 == 1)
                edit_move(&e, (enum edit_move)(r / 3 % 10));
            else if (r % 5 == 0)
                edit_kill(&e, (enum edit_move)(r / 5 % 8));
            else
                edit_erase(&e, (enum edit_move)(r / 5 % 8));
            assert_true(e.cursor <= e.text.n);
        }
        AUTO_FREE char *text = strdup(str_get(&e.text));
        while (edit_undo(&e)) n++;
        assert_int_equal(e.text.n, 0);
        for (int i = 0; i < n; i++) assert_true(edit_redo(&e));
        assert_string_equal(str_get(&e.text), text);
    }
}

TEST(test_paste)
{
    AUTO_EDIT e;
    AUTO_STR big = {0};
    edit_init(&e);
    put(&e, "a\r\nb\rc\033[31m");
    assert_edit(&e, "a\nb\nc\033[31m", "");
    edit_set(&e, "", 0);
    for (int i = 0; i < 10000; i++) str_puts(&big, "a line with some words 漢字 and \033 more\r");
    edit_insert(&e, big.data, big.n);
    int line, column;
    assert_int_equal(edit_lines(&e, 78, &line, &column), 10001);
    assert_int_equal(line, 10000);
    edit_undo(&e);
    assert_edit(&e, "", "");
}

/* ---- history -------------------------------------------------------------------------------- */

TEST(test_history)
{
    const char *path = path_in(folder_new(), "history");
    struct history h;
    AUTO_STR draft = {0};
    struct stat st;
    history_init(&h, path);
    history_add(&h, "one", 3);
    history_add(&h, "two\nlines \\n", 12);
    history_add(&h, "two\nlines \\n", 12);
    history_release(&h);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    history_init(&h, path);
    str_puts(&draft, "draft");
    assert_int_equal(h.n, 2);
    assert_string_equal(str_get(history_older(&h, &draft)), "two\nlines \\n");
    assert_string_equal(str_get(history_older(&h, &draft)), "one");
    assert_null(history_older(&h, &draft));
    assert_string_equal(str_get(history_newer(&h)), "two\nlines \\n");
    assert_string_equal(str_get(history_newer(&h)), "draft");
    assert_null(history_newer(&h));
    char *huge = calloc(1, HISTORY_SAVED_BYTES + 2);
    memset(huge, 'x', HISTORY_SAVED_BYTES + 1);
    history_add(&h, huge, HISTORY_SAVED_BYTES + 1); /* a pasted book is not saved in the file */
    assert_int_equal(h.n, 3);
    history_release(&h);
    history_init(&h, path);
    assert_int_equal(h.n, 2);
    free(huge);
    history_release(&h);
    history_init(&h, NULL); /* private */
    history_add(&h, "x", 1);
    assert_int_equal(h.n, 1);
    history_older(&h, &draft);
    history_add(&h, "x", 1); /* the newest again */
    assert_string_equal(str_get(history_older(&h, &draft)), "x");
    history_release(&h);
}

/* ---- keys ----------------------------------------------------------------------------------- */

static const struct {
    const char *bytes;
    uint32_t key;
} sequences[] = {
    {"a", 'a'},
    {"\r", '\r'},
    {"\n", '\n'},
    {"\003", 3},
    {"é", 0xE9},
    {"🙂", 0x1F642},
    {"\033[A", K_UP},
    {"\033OA", K_UP},
    {"\033[1;5D", K_LEFT | K_CTRL},
    {"\033[1;2A", K_UP | K_SHIFT},
    {"\033[5~", K_PAGE_UP},
    {"\033[3~", K_DELETE},
    {"\033OP", K_F1},
    {"\033[11~", K_F1},
    {"\033[[A", K_F1},
    {"\033[21~", K_F1 + 9},
    {"\033\r", '\r' | K_ALT},
    {"\033b", 'b' | K_ALT},
    {"\033[13;2u", '\r' | K_SHIFT},
    {"\033[27;2;13~", '\r' | K_SHIFT},
    {"\033[?2026;2$y", K_REPLY_SYNC},
    {"\033]11;rgb:ffff/ffff/ffff\033\\", K_REPLY_BACKGROUND},
    {"\033]11;rgb:00/00/00\007", K_REPLY_BACKGROUND},
    {"\033[I", K_FOCUS_IN},
    {"\033[O", K_FOCUS_OUT},
};

/* Each sequence alone, byte by byte, and followed by a letter. */
TEST(test_sequences)
{
    for (size_t i = 0; i < sizeof sequences / sizeof sequences[0]; i++) {
        AUTO_INPUT in = {0};
        struct key_event ev;
        const char *s = sequences[i].bytes;
        for (; s[1]; s++) {
            input_feed(&in, s, 1);
            assert_false(input_next(&in, false, &ev));
        }
        input_feed(&in, s, 1);
        assert_true(input_next(&in, false, &ev));
        assert_int_equal(ev.key, sequences[i].key);
        input_feed(&in, sequences[i].bytes, strlen(sequences[i].bytes));
        input_feed(&in, "z", 1);
        assert_true(input_next(&in, false, &ev));
        assert_int_equal(ev.key, sequences[i].key);
        assert_true(input_next(&in, false, &ev));
        assert_int_equal(ev.key, 'z');
    }
}

/* Three arrows at once come from a wheel, and so do all others in the same input. */
TEST(test_wheel)
{
    static const struct {
        const char *bytes;
        uint32_t keys[6];
    } rows[] = {
        {"\033[A\033[A", {K_UP, K_UP}},
        {"\033[A\033[A\033[A", {K_WHEEL_UP, K_WHEEL_UP, K_WHEEL_UP}},
        {"\033OB\033OB\033OB\033OBx",
         {K_WHEEL_DOWN, K_WHEEL_DOWN, K_WHEEL_DOWN, K_WHEEL_DOWN, 'x'}},
        {"\033[A\033[A\033[B\033[A", {K_UP, K_UP, K_DOWN, K_UP}},
        {"\033[A\033[A\033[A\033[B", {K_WHEEL_UP, K_WHEEL_UP, K_WHEEL_UP, K_DOWN}},
        {"\033[C\033[C\033[C", {K_RIGHT, K_RIGHT, K_RIGHT}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        AUTO_INPUT in = {0};
        struct key_event ev;
        input_feed(&in, rows[i].bytes, strlen(rows[i].bytes));
        for (const uint32_t *key = rows[i].keys; *key; key++) {
            assert_true(input_next(&in, false, &ev));
            assert_int_equal(ev.key, *key);
        }
        assert_false(input_next(&in, false, &ev));
    }
}

TEST(test_escape_alone)
{
    AUTO_INPUT in = {0};
    struct key_event ev;
    input_feed(&in, "\033", 1);
    assert_false(input_next(&in, false, &ev));
    assert_true(input_waiting(&in));
    assert_true(input_next(&in, true, &ev));
    assert_int_equal(ev.key, '\033');
    input_feed(&in, "\033[12;", 5); /* never ends */
    assert_false(input_next(&in, false, &ev));
    assert_false(input_next(&in, true, &ev));
    input_feed(&in, "x", 1);
    assert_true(input_next(&in, false, &ev));
    assert_int_equal(ev.key, 'x');
    input_feed(&in, "\033[?62;c\033[99;99xy", 17); /* unknown: dropped */
    assert_true(input_next(&in, false, &ev));
    assert_int_equal(ev.key, 'y');
}

TEST(test_paste_is_one_event)
{
    static const char bytes[] = "\033[200~two\rlines \033[A \033[201 x\033[201~q";
    struct key_event ev;
    for (size_t step = 1; step < sizeof bytes; step++) {
        AUTO_INPUT in = {0};
        int n = 0;
        for (size_t at = 0; at < sizeof bytes - 1; at += step) {
            size_t left = sizeof bytes - 1 - at;
            input_feed(&in, bytes + at, left < step ? left : step);
            while (input_next(&in, false, &ev)) {
                if (n++ == 0) {
                    assert_int_equal(ev.key, K_PASTE);
                    assert_int_equal(ev.n, 21);
                    assert_memory_equal(ev.text, "two\rlines \033[A \033[201 x", 21);
                } else {
                    assert_int_equal(ev.key, 'q');
                }
            }
        }
        assert_int_equal(n, 2);
    }
    AUTO_INPUT in = {0};
    input_feed(&in, "\033[200~never ends", 16);
    assert_false(input_next(&in, true, &ev));
    input_end_paste(&in);
    assert_true(input_next(&in, false, &ev));
    assert_int_equal(ev.key, K_PASTE);
    assert_int_equal(ev.n, 10);
}

TEST(test_random_input)
{
    unsigned seed = 3;
    AUTO_INPUT in = {0};
    struct key_event ev;
    for (int i = 0; i < 200000; i++) {
        static const char alphabet[] = "\033\033[]O;0129~Pu$y?m\\\007abA\xC3\xA9\xFF\r";
        seed = seed * 1103515245u + 12345u;
        input_feed(&in, &alphabet[(seed >> 16) % (sizeof alphabet - 1)], 1);
        if (seed >> 28 == 0) input_end_paste(&in);
        while (input_next(&in, seed >> 27 == 1, &ev)) assert_true(ev.key != 0);
    }
}

/* ---- the table of keys ---------------------------------------------------------------------- */

/* From every place of the map to its word in the text and back, with keys only. */
TEST(test_map_and_text_are_linked)
{
    AUTO_STAGE s;
    int n_words = 0;
    stage_start(&s, true, NULL);
    stage_type(&s, "what is a unit?\r");
    stage_type(&s, "tell me more, in words 150\r");
    stage_key(&s, K_F1 + 2);
    for (int64_t position = 0; position < s.map->n_pos; position++) {
        size_t byte, end;
        char expected[64];
        s.app.mapped.position = position;
        stage_key(&s, '\r');
        assert_int_equal(s.app.view, VIEW_TINT);
        stage_draw(&s, 80, 24);
        assert_int_equal(s.app.tint.position, position);
        int index = transcript_find(&s.app.talk, position, &byte, &end);
        if (index >= 0 && end > byte) {
            const char *text = str_get(&s.app.talk.messages[index].text) + byte;
            n_words++;
            snprintf(expected, sizeof expected, "token \"%.*s", (int)(end - byte), text);
            expected[strcspn(expected, "\n")] = 0;
            assert_non_null(strstr(str_get(&s.drawn), expected));
            if (strspn(text, " \n") < end - byte) assert_true(s.grid.cursor_x >= 6); /* is on it */
        }
        stage_key(&s, 'm');
        assert_int_equal(s.app.view, VIEW_MAP);
        assert_int_equal(s.app.mapped.position, position);
    }
    assert_true(n_words > 200);
}

/* n and N stop at text that was evicted from all heads. */
TEST(test_runs_of_gone_text)
{
    AUTO_STAGE s;
    stage_start(&s, true, NULL);
    stage_type(&s, "tell me more, in words 900\r");
    stage_key(&s, K_F1 + 2);
    int64_t before = -1;
    int n_runs = 0;
    for (int i = 0; i < 40; i++) {
        stage_key(&s, 'n');
        if (s.app.mapped.position == before) break;
        int64_t position = before = s.app.mapped.position, width = s.map->col_width;
        for (int h = 0; h < s.map->n_layer * s.map->n_head; h++)
            assert_int_equal(s.map->kept[h * RETENTION_COLS + position / width], 0);
        n_runs++;
    }
    assert_true(n_runs > 2);
    for (int i = 1; i < n_runs; i++) {
        stage_key(&s, 'N');
        assert_true(s.app.mapped.position < before);
        before = s.app.mapped.position;
    }
}

TEST(test_every_key_is_documented)
{
    const char *group = "";
    for (const struct binding *b = key_table; b->views; b++) {
        bool told = b->label && b->help;
        if (told) group = b->label;
        if (strcmp(group, "arrows") == 0 || strchr(group, ' ')) told = true; /* "n N": two keys */
        for (const struct binding *c = key_table; c->views && !told; c++)
            told = c->request == b->request && c->label && c->help;
        if (!told) fail_msg("request %d has no help", b->request);
        for (const struct binding *c = b + 1; c->views; c++)
            if ((c->views & b->views) && c->key == b->key) fail_msg("key %x twice", b->key);
    }
}

/* The key of a name such as "F9", "^K", "Alt-x" or "n"; 0: of another form. */
static uint32_t key_named(const char *name, size_t n)
{
    if (n == 1) return (uint8_t)*name;
    if (*name == '^') return n == 2 ? CTRL(name[1]) : 0;
    if (*name == 'F' && name[1] <= '9') return K_F1 + (uint32_t)atoi(name + 1) - 1;
    return n == 5 && !memcmp(name, "Alt-", 4) ? (uint8_t)name[4] | K_ALT : 0;
}

/* A part of each label is the name of its row's key, unless it is a word. */
TEST(test_keys_have_names)
{
    int n_named = 0;
    for (const struct binding *b = key_table; b->views; b++) {
        bool found = false, named = false;
        for (const char *at = b->label; at; at = strchr(at, ' '), at = at ? at + 1 : NULL) {
            uint32_t key = key_named(at, strcspn(at, " "));
            named |= key != 0;
            found |= key == b->key;
        }
        if (named && !found && strcmp(b->label, "^X ^E")) fail_msg("%s is not the key", b->label);
        n_named += found;
    }
    assert_true(n_named > 60);
}

TEST(test_slash)
{
    const char *rest;
    size_t n;
    assert_int_equal(slash_parse("hello /map", 10, &rest, &n), SLASH_SAY);
    assert_int_equal(slash_parse("/map", 4, &rest, &n), SLASH_MAP);
    assert_int_equal(slash_parse("/mapp", 5, &rest, &n), SLASH_UNKNOWN);
    assert_int_equal(slash_parse("//map", 5, &rest, &n), SLASH_SAY);
    assert_int_equal(n, 4);
    assert_memory_equal(rest, "/map", 4);
    assert_int_equal(slash_parse("/", 1, &rest, &n), SLASH_UNKNOWN);
    assert_string_equal(slash_nearest("/mapp", 5), "map");
    assert_string_equal(slash_nearest("/hlep", 5), "help");
    assert_string_equal(slash_nearest("/con", 4), "continue");
    assert_null(slash_nearest("/?", 2));
    assert_null(slash_nearest("/nonsense", 9));
    char advice[SLASH_ADVICE_MAX];
    assert_non_null(
        strstr(slash_advice("/mapp", 5, advice), "no command /mapp; did you mean /map "));
    assert_non_null(strstr(slash_advice("/?", 2, advice), "/help lists all"));
}

/* ---- the chat's keys ------------------------------------------------------------------------ */

TEST(test_queue)
{
    AUTO_STAGE s;
    stage_init(&s, true, true);
    stage_type(&s, "one\rtwo\r"); /* the model is not loaded yet */
    assert_int_equal(s.app.n_queue, 2);
    stage_key(&s, K_UP); /* the last one returns */
    assert_string_equal(str_get(&s.app.edit.text), "two");
    stage_type(&s, "!\r");
    stage_open(&s, NULL);
    stage_run(&s);
    assert_int_equal(s.app.n_queue, 0);
    assert_int_equal(s.app.talk.n, 4);
    assert_string_equal(str_get(&s.app.talk.messages[2].text), "two!");
}

TEST(test_stop_and_continue)
{
    AUTO_STAGE s;
    stage_start(&s, true, NULL);
    s.stop_after = 5;
    stage_type(&s, "words 50\r");
    assert_true(s.app.can_continue);
    assert_int_equal(s.app.talk.messages[1].ended, SESSION_STOPPED);
    size_t n = s.app.talk.messages[1].text.n;
    s.stop_after = 0;
    stage_type(&s, "/continue\r");
    assert_int_equal(s.app.talk.n, 2);
    assert_true(s.app.talk.messages[1].text.n > n);
    assert_int_equal(s.app.talk.messages[1].ended, SESSION_TURN_END);
    assert_false(s.app.can_continue);
}

TEST(test_commands_stay_here)
{
    AUTO_STAGE s;
    stage_start(&s, true, NULL);
    stage_type(&s, "/hlep\r");
    assert_int_equal(s.app.talk.n, 0);
    assert_string_equal(str_get(&s.app.edit.text), "/hlep"); /* returned for correction */
    assert_non_null(strstr(s.app.flash, "/help"));
    stage_type(&s, "/open\r"); /* other text replaces it, a space continues it */
    assert_string_equal(str_get(&s.app.edit.text), "/open");
    stage_type(&s, " x");
    assert_string_equal(str_get(&s.app.edit.text), "/open x");
    stage_type(&s, "\r");
    stage_key(&s, CTRL('u'));
    stage_type(&s, "/hlep\r");
    stage_key(&s, K_LEFT); /* it is corrected */
    stage_type(&s, "x\r");
    assert_string_equal(str_get(&s.app.edit.text), "/hlexp");
    stage_type(&s, "//x\r");
    assert_string_equal(str_get(&s.app.talk.messages[0].text), "/x");
    stage_type(&s, "fail\r");
    assert_int_equal(s.app.phase, PHASE_READY);
    stage_type(&s, "/quit\r");
    assert_true(s.quit);
}

TEST(test_interrupt_never_quits_at_once)
{
    AUTO_STAGE s;
    stage_start(&s, true, NULL);
    stage_type(&s, "a draft");
    stage_key(&s, CTRL('c'));
    assert_int_equal(s.app.edit.text.n, 0);
    stage_key(&s, K_UP);
    assert_string_equal(str_get(&s.app.edit.text), "a draft");
    stage_key(&s, CTRL('c'));
    stage_key(&s, CTRL('c'));
    assert_false(s.quit);
    stage_type(&s, "x");
    stage_key(&s, CTRL('c'));
    stage_key(&s, CTRL('c'));
    assert_false(s.quit);
    stage_key(&s, CTRL('c'));
    assert_true(s.quit);
}

TEST(test_list_keys)
{
    AUTO_STAGE s;
    stage_start(&s, false, "rust-notes");
    stage_key(&s, K_F1 + 1);
    assert_int_equal(s.app.list.n, 3);
    stage_type(&s, "d"); /* rust-notes is open */
    assert_int_equal(s.app.list.mode, LIST_BROWSE);
    stage_key(&s, K_DOWN);
    stage_type(&s, "dn");
    assert_int_equal(s.app.list.n, 3);
    stage_type(&s, "dy");
    assert_int_equal(s.app.list.n, 2);
    stage_key(&s, '\r');
    assert_int_equal(s.app.view, VIEW_CHAT);
    assert_string_equal(s.app.name, "tax-letter");
}

/* Mode 1006: presses of the first button and the wheel; a broken report is dropped. */
TEST(test_mouse)
{
    AUTO_INPUT in = {0};
    struct key_event ev;
    static const char *const dropped[] = {"\033[<0;5;7m", "\033[<2;5;7M", "\033[<0;5M",
                                          "\033[<0;0;7M", "\033[<;;M",    "\033[<0;5;7;9M"};
    input_feed(&in, "\033[<0;5;7M", 9);
    assert_true(input_next(&in, false, &ev));
    assert_int_equal(ev.key, K_CLICK);
    assert_int_equal(ev.x, 4);
    assert_int_equal(ev.y, 6);
    input_feed(&in, "\033[<64;5;7M\033[<69;5;7M", 20);
    assert_true(input_next(&in, false, &ev));
    assert_int_equal(ev.key, K_WHEEL_UP);
    assert_true(input_next(&in, false, &ev));
    assert_int_equal(ev.key, K_WHEEL_DOWN);
    for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++) {
        input_feed(&in, dropped[i], strlen(dropped[i]));
        assert_false(input_next(&in, false, &ev));
    }
    input_feed(&in, "x", 1);
    assert_true(input_next(&in, false, &ev));
    assert_int_equal(ev.key, 'x');
}
