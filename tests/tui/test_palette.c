/* The palette, the list above a typed command, /model, the graphs, and the words that fade: with
 * scripted answers, without a terminal. */
#include "tests/test.h"

#include <math.h>

#include "cli/control/ramp.h"
#include "tests/tui/fake_stage.h"
#include "tui/text/transcript.h"
#include "tui/view/words.h"

static void open_talk(struct stage *s, bool ascii)
{
    stage_init(s, ascii, false);
    stage_list(s);
    stage_open(s, "rust-notes");
}

/* ---- palette --------------------------------------------------------------------------------- */

TEST(test_finds_everything)
{
    AUTO_STAGE s;
    open_talk(&s, true);
    stage_type(&s, "a draft");
    stage_key(&s, CTRL('p'));
    assert_int_equal(s.app.view, VIEW_PALETTE);
    stage_type(&s, "tax");
    shows(&s, "open tax-letter");
    hides_too(&s, "/regenerate");
    stage_key(&s, CTRL('u'));
    stage_type(&s, "temp set"); /* words in any order */
    shows(&s, "set temp");
    shows_too(&s, "0 to 100");
    stage_key(&s, CTRL('u'));
    stage_type(&s, "keep-thoughts"); /* its row is too short for its text */
    shows(&s, "the answer is over");
    stage_key(&s, CTRL('u'));
    stage_type(&s, "temp set");
    stage_key(&s, '\r');
    assert_int_equal(s.app.view, VIEW_CHAT);
    assert_string_equal(str_get(&s.app.edit.text), "/set temp ");
    stage_key(&s, CTRL('u'));
    stage_key(&s, K_UP);
    assert_string_equal(str_get(&s.app.edit.text), "a draft"); /* nothing typed is lost */
    stage_key(&s, CTRL('p'));
    stage_type(&s, "/map");
    stage_draw(&s, 80, 24);
    stage_key(&s, '\r');
    assert_int_equal(s.app.view, VIEW_MAP);
    assert_string_equal(str_get(&s.app.edit.text), "a draft");
    stage_key(&s, CTRL('p')); /* the map's own keys are in it */
    stage_type(&s, "waterfall");
    shows(&s, "earlier states of this picture");
    stage_key(&s, '\r');
    assert_int_equal(s.app.view, VIEW_MAP);
    assert_int_equal(s.app.mapped.mode, MAP_HISTORY);
    stage_key(&s, CTRL('p'));
    stage_type(&s, "no such thing");
    shows(&s, "nothing of that name");
    stage_key(&s, '\r'); /* nothing happens */
    stage_key(&s, '\033');
    assert_int_equal(s.app.view, VIEW_MAP);
}

TEST(test_turns)
{
    AUTO_STAGE s;
    open_talk(&s, true);
    for (int i = 0; i < 12; i++) stage_type(&s, "words 60\r");
    s.app.stats.pinned = (struct save_turns){.n = 1, .turn = {2}};
    stage_key(&s, 't' | K_ALT);
    shows(&s, "turn 2, pinned");
    shows_too(&s, "turn 2");
    shows_too(&s, "Show me the failing case");
    stage_type(&s, "failing");
    stage_draw(&s, 80, 24);
    stage_key(&s, '\r');
    shows(&s, "you Show me the failing case");
    assert_true(s.app.chat.held);
}

/* Typing a command lists what it may become; the arrows choose, Esc hides the list. */
TEST(test_list_above_a_command)
{
    AUTO_STAGE s;
    open_talk(&s, true);
    stage_type(&s, "/re");
    shows(&s, "regenerate");
    shows_too(&s, "[TURN]  go back to the end of a turn");
    stage_key(&s, K_DOWN);
    stage_key(&s, K_DOWN);
    assert_string_equal(str_get(&s.app.edit.text), "/rewind ");
    stage_key(&s, K_UP);
    assert_string_equal(str_get(&s.app.edit.text), "/regenerate");
    stage_key(&s, '\033');
    hides(&s, "go back to the end");
    stage_key(&s, CTRL('u'));
    stage_type(&s, "/set policy key");
    shows(&s, "keydiff+global");
    stage_key(&s, CTRL('u'));
    stage_type(&s, "/set te");
    shows(&s, "0 to 100: 0 = always the most likely");
    stage_key(&s, CTRL('u'));
    stage_type(&s, "//re"); /* text that begins with a slash */
    hides(&s, "regenerate");
}

TEST(test_settings)
{
    AUTO_STAGE s;
    open_talk(&s, true);
    int n = s.app.talk.n;
    stage_key(&s, K_F1 + 6);
    shows(&s, "settings> ");
    shows_too(&s, "set budget");
    hides_too(&s, "eval");
    assert_int_equal(s.app.talk.n, n); /* nothing is printed into the conversation */
}

/* ---- /model ---------------------------------------------------------------------------------- */

TEST(test_model)
{
    AUTO_STAGE s;
    open_talk(&s, true);
    stage_type(&s, "hello\r/model\r");
    stage_draw(&s, 100, 24);
    shows_too(&s, "model qwen3 ");
    shows_too(&s, "it needs 41 GiB of 24 GiB");
    stage_key(&s, '\033');
    s.app.stats.prefill_tok_s = 1; /* it takes long: it asks */
    stage_type(&s, "/model qwen3\r");
    assert_true(s.app.question.open);
    assert_non_null(strstr(stage_draw(&s, 100, 24), "continue with qwen3: replays"));
    stage_type(&s, "y");
    assert_int_equal(s.app.phase, PHASE_READY);
    assert_string_equal(s.app.name, "rust-notes");
    assert_non_null(strstr(s.app.o->engine.model, SCRIPTED_OTHER));
    assert_non_null(strstr(s.control.options.engine.model, SCRIPTED_OTHER));
    assert_true(app_is_model(&s.app, SCRIPTED_OTHER));
    stage_type(&s, "/set budget 64\r"); /* reopens the conversation with the same model */
    assert_non_null(strstr(s.control.options.engine.model, SCRIPTED_OTHER));
    stage_type(&s, "/model demo\r");
    assert_null(s.app.o->engine.model);
    stage_type(&s, "/model nonsense\r");
    assert_non_null(strstr(str_get(&s.app.events), "no model nonsense"));
}

/* It asks however fast the model reads, and sends the whole text. */
TEST(test_system)
{
    AUTO_STAGE s;
    open_talk(&s, true);
    stage_type(&s, "hello\r/system\r");
    assert_non_null(strstr(stage_draw(&s, 100, 24), "no system text; /system TEXT sets one"));
    s.app.stats.prefill_tok_s = 1e6;
    stage_type(&s, "/system Answer like a king, in one sentence.\r");
    assert_true(s.app.question.open);
    assert_non_null(strstr(stage_draw(&s, 100, 24), "another system text: replays "));
    shows_too(&s, "tokens, about ");
    stage_type(&s, "n");
    assert_null(session_system(s.control.parts.session));
    stage_type(&s, "/system Answer like a king, in one sentence.\ry");
    assert_int_equal(s.app.phase, PHASE_READY);
    assert_string_equal(s.app.name, "rust-notes");
    assert_string_equal(session_system(s.control.parts.session),
                        "Answer like a king, in one sentence.");
    assert_non_null(strstr(stage_draw(&s, 100, 24), "system text: Answer like a king"));
}

/* A model that cannot be opened leaves the old one and its conversation. */
TEST(test_model_fails)
{
    AUTO_STAGE s;
    open_talk(&s, true);
    stage_type(&s, "hello\r");
    int n = s.app.talk.n;
    scripted.fail_model = SCRIPTED_OTHER;
    stage_type(&s, "/model qwen3\r");
    scripted.fail_model = NULL;
    assert_int_equal(s.app.phase, PHASE_READY);
    assert_string_equal(s.control.options.engine.model, s.o.engine.model);
    assert_string_equal(s.app.o->engine.model, s.o.engine.model);
    assert_non_null(strstr(str_get(&s.app.events), "not a model"));
    assert_int_equal(s.app.talk.n, n);
    stage_type(&s, "and on\r");
    assert_int_equal(s.app.talk.n, n + 2);
}

/* A private conversation cannot be read again by another model; before its first message it can
 * change. */
TEST(test_model_private)
{
    AUTO_STAGE s;
    stage_start(&s, true, NULL);
    stage_type(&s, "/model qwen3\r");
    assert_int_equal(s.app.phase, PHASE_READY);
    assert_non_null(strstr(s.control.options.engine.model, SCRIPTED_OTHER));
    stage_type(&s, "hello\r/model demo\r");
    assert_non_null(strstr(str_get(&s.app.events), "no other model can read it"));
    assert_non_null(strstr(s.control.options.engine.model, SCRIPTED_OTHER));
}

/* ---- graphs ---------------------------------------------------------------------------------- */

TEST(test_graphs)
{
    AUTO_STAGE s;
    stage_init(&s, true, false);
    stage_key(&s, K_F1 + 7);
    shows(&s, "no numbers before the model is loaded");
    stage_key(&s, 'q');
    stage_open(&s, NULL);
    for (int i = 0; i < 6; i++) stage_type(&s, "words 100\r");
    stage_type(&s, "/stats\r");
    shows(&s, "this cache: 164 MiB");
    shows_too(&s, "one that keeps everything: ");
    shows_too(&s, "first token 31 ms");
}

/* Sums stay sums when samples are joined, and a rewind begins again. */
TEST(test_trace)
{
    struct trace t = {0};
    struct session_stats st = {.unit_bytes = 10, .cache_bytes = 50};
    for (int i = 0; i < 3 * TRACE_MAX; i++) {
        st.n_tokens = i;
        st.units_evicted = 2 * i;
        st.units_seen = i;
        st.units_kept = 5;
        trace_add(&t, &st, NAN, NAN);
        assert_true(t.n <= TRACE_MAX);
    }
    double sum = 0;
    for (int x = 0; x < 7; x++) sum += trace_at(&t, TRACE_EVICTED, x, 7);
    assert_int_equal((int)sum, (int)t.evicted);
    assert_true(isnan(trace_last(&t, TRACE_CELSIUS)));
    assert_true(fabs(trace_at(&t, TRACE_WHOLE, 50, 101) / trace_most(&t, TRACE_WHOLE) - 0.5) <
                0.02);
    st.n_tokens = 10;
    st.units_evicted = 0;
    trace_add(&t, &st, 40, NAN);
    assert_int_equal(t.n, 1);
}

/* A reopened conversation shows what led to it, exactly, also where recalled units raised the share
 * again. */
TEST(test_trace_of_the_past)
{
    uint16_t first[] = {4, 4, 4, 4}, second[] = {2, 3, 0, 2, 3, 1}; /* [2 heads][columns of 4] */
    uint16_t third[] = {2, 3, 2, 2, 2, 3, 3, 2}, later[10] = {0};
    const struct waterfall past = {
        .rows = {{.n_pos = 8, .col_width = 4, .n_cols = 2, .kept = first},
                 {.n_pos = 12,
                  .col_width = 4,
                  .n_cols = 3,
                  .kept = second,
                  .n_evicted = 16,
                  .n_returned = 3},
                 {.n_pos = 14,
                  .col_width = 4,
                  .n_cols = 4,
                  .kept = third,
                  .n_evicted = 16,
                  .n_returned = 7},
                 {.n_pos = 20, .col_width = 4, .n_cols = 5, .kept = later}},
        .n = 4,
        .n_layer = 1,
        .n_head = 2};
    static const int kept[] = {100, 45, 67, 25}, evicted[] = {0, 16, 0, 0};
    static const int returned[] = {0, 3, 4, 0};
    struct session_stats st = {
        .n_tokens = 16, .units_seen = 32, .units_kept = 8, .unit_bytes = 10, .cache_bytes = 240};
    struct trace t = {0};
    trace_past(&t, &past, &st);
    trace_add(&t, &st, NAN, NAN);
    assert_int_equal(t.n, 4);
    for (int i = 0; i < 4; i++) {
        const double *values = t.samples[i].values;
        assert_int_equal((int)values[TRACE_KEPT], kept[i]);
        assert_int_equal((int)values[TRACE_EVICTED], evicted[i]);
        assert_int_equal((int)values[TRACE_RETURNED], returned[i]);
        assert_true(isnan(values[TRACE_SPEED]));
    }
    assert_true(trace_last(&t, TRACE_WHOLE) == 320);
}

/* ---- forgetting ------------------------------------------------------------------------------ */

static struct message *put_words(struct transcript *t, const char *const pieces[], int n)
{
    AUTO_STR text = {0};
    for (int i = 0; i < n; i++) {
        str_puts(&text, pieces[i]);
        transcript_piece(t, i, (uint16_t)strlen(pieces[i]));
    }
    struct message *m = transcript_add(t, CHAT_USER, str_get(&text), text.n);
    transcript_close(m);
    m->position = 0;
    m->n_tokens = n;
    return m;
}

/* A word of several tokens is forgotten with its last unit, whatever its column still has. */
TEST(test_forgot_sentence)
{
    static const char *const pieces[] = {"One", " fox", " named", " An", "na", " ran", ".", ""};
    uint16_t before[8], heads[8];
    struct retention now = {.col_width = 4, .n_pos = 8, .heads = heads};
    struct transcript t = {0};
    struct str out = {0};
    bool lost[RETENTION_COLS] = {false};
    put_words(&t, pieces, 8);
    for (int i = 0; i < 8; i++) before[i] = heads[i] = 1;
    assert_int_equal(forgot_sentence(&t, &now, before, 8, lost, &out), 0);
    assert_int_equal(out.n, 0);
    heads[2] = heads[4] = 0;
    assert_int_equal(forgot_sentence(&t, &now, before, 8, lost, &out), 1);
    assert_string_equal(out.data, "forgot 1 word of turn 1: \"…named…\"");
    assert_true(lost[0] && !lost[1]);
    str_clear(&out);
    memcpy(before, heads, sizeof before);
    heads[3] = 0; /* the rest of Anna, of which the model has not read all, and has */
    now.n_pos = 4;
    assert_int_equal(forgot_sentence(&t, &now, before, 8, lost, &out), 0);
    now.n_pos = 8;
    assert_int_equal(forgot_sentence(&t, &now, before, 8, lost, &out), 1);
    assert_string_equal(out.data, "forgot 1 word of turn 1: \"…Anna…\"");
    str_clear(&out);
    for (int i = 0; i < 3; i++) before[i] = 1;
    heads[0] = heads[1] = 0; /* neighbours are quoted together; a new position was held, too */
    assert_int_equal(forgot_sentence(&t, &now, before, 2, lost, &out), 4);
    assert_string_equal(out.data, "forgot 4 words of turn 1: \"One fox named Anna…\"");
    str_clear(&out);
    memcpy(before, heads, sizeof before);
    heads[6] = 0; /* only a full stop: its word is still there */
    assert_int_equal(forgot_sentence(&t, &now, before, 8, lost, &out), 0);
    transcript_clear(&t);
    static const char *const signs[] = {"漢", "字", "で"};
    put_words(&t, signs, 3);
    memset(before, 1, sizeof before);
    heads[2] = 1;
    now.n_pos = 3; /* no spaces: each sign is a word */
    assert_int_equal(forgot_sentence(&t, &now, before, 3, lost, &out), 2);
    assert_string_equal(out.data, "forgot 2 words of turn 1: \"漢字…\"");
    str_release(&out);
    transcript_clear(&t);
}

static const char *event_of(struct stage *s, struct retention *r, int64_t n_evicted)
{
    struct session_stats st = s->app.stats;
    st.units_evicted += n_evicted;
    r->n_evictions += n_evicted > 0;
    app_snapshot(&s->app, &st, r);
    return s->app.event;
}

/* The event of an eviction says that no word was lost only when each is still in some head: also
 * where a column has many positions. */
TEST(test_no_word_is_lost)
{
    static const char *const pieces[] = {"a", " fox", " ran"};
    for (int width = 1; width <= 4; width *= 4) {
        uint32_t kept[2 * RETENTION_COLS] = {0};
        uint16_t heads[3] = {2, 2, 2};
        struct retention r = {.n_layer = 1,
                              .n_head = 2,
                              .col_width = width,
                              .n_cols = 4 - width,
                              .n_pos = 3,
                              .kept = kept,
                              .heads = heads};
        struct stage s;
        stage_init(&s, false, true);
        put_words(&s.app.talk, pieces, 3);
        event_of(&s, &r, 0);
        heads[1] = 1;
        assert_non_null(strstr(event_of(&s, &r, 1), "evicted 1 unit; no word lost its last unit"));
        heads[1] = 0;
        assert_non_null(strstr(event_of(&s, &r, 1), "forgot 1 word of turn 1: \"…fox…\""));
        assert_true(s.app.col_lost[1 / width] && !s.app.col_lost[2]);
        stage_release(&s);
    }
}

static enum attr attr_of(struct stage *s, int64_t position)
{
    struct grid g = {0};
    size_t byte, end;
    grid_init(&g, 80, 1, true);
    int index = transcript_find(&s->app.talk, position, &byte, &end);
    assert_true(index >= 0);
    struct words_look look = {ATTR_TEXT, ATTR_TEXT};
    words_put(&s->app, grid_pane(&g), 0, 0, look, index, byte, end - byte);
    enum attr attr = (enum attr)g.cells[0].attr;
    grid_release(&g);
    return attr;
}

/* A word that no head holds any more turns grey in steps; with reduced motion at once. */
TEST(test_words_fade)
{
    static const enum attr steps[] = {ATTR_TEXT, ATTR_THIN, ATTR_FADE2, ATTR_FADE1, ATTR_GONE};
    struct stage s;
    for (int reduced = 0; reduced < 2; reduced++) {
        stage_start(&s, false, NULL);
        s.app.settings.options.chat.reduced_motion = reduced;
        stage_type(&s, "one two three four\r");
        const struct message *m = &s.app.talk.messages[0];
        int64_t position = m->position + 3;
        assert_int_equal(attr_of(&s, position), ATTR_TEXT);
        assert_int_equal(app_timeout(&s.app), -1);
        s.map->heads[position] = 0;
        retention_find_whole(s.map);
        s.app.now_ms += 5000;
        event_of(&s, s.map, 1);
        s.app.lost_until_ms = 0;
        for (int step = 0; step < 5; step++) {
            assert_int_equal(attr_of(&s, position), reduced ? ATTR_GONE : steps[step]);
            int ms = app_timeout(&s.app);
            assert_int_equal(ms, reduced || step == 4 ? -1 : FADE_MS / FADE_STEPS);
            s.app.now_ms += FADE_MS / FADE_STEPS;
        }
        s.map->heads[position] = s.map->heads[0]; /* it came back */
        event_of(&s, s.map, 1);
        assert_int_equal(attr_of(&s, position), ATTR_TEXT);
        s.app.returned = (struct recalled_spans){.n = 1, .spans = {{position, position + 1}}};
        assert_int_equal(attr_of(&s, position), ATTR_RETURNED);
        stage_release(&s);
    }
}

/* The waterfall has a row for each eviction, newest last; playing shows the rows one by one. */
TEST(test_play)
{
    AUTO_STAGE s;
    stage_start(&s, false, NULL);
    for (int i = 0; i < 8; i++) stage_type(&s, "words 60\r");
    assert_true(s.app.past.n >= 8);
    for (int i = 1; i < s.app.past.n; i++)
        assert_true(s.app.past.rows[i].n_pos > s.app.past.rows[i - 1].n_pos);
    app_show(&s.app, VIEW_MAP);
    stage_type(&s, "w ");
    int64_t length = 0;
    while (s.app.mapped.play_ms) {
        stage_draw(&s, 80, 40);
        if (!s.app.mapped.play_ms) break;
        shows_too(&s, "playing");
        const struct retention *r = s.app.mapped.frozen;
        int64_t kept = 0;
        assert_true(r->n_pos >= length);
        length = r->n_pos;
        for (int i = 0; i < r->n_layer * r->n_head; i++)
            for (int c = 0; c < r->n_cols; c++) kept += r->kept[i * RETENTION_COLS + c];
        assert_in_range(kept, 1, length * r->n_layer * r->n_head);
        int ms = app_timeout(&s.app);
        assert_in_range(ms, 1, 400);
        s.app.now_ms += ms;
    }
    assert_null(s.app.mapped.frozen);
    assert_non_null(strstr(stage_draw(&s, 80, 40), " live"));
    stage_type(&s, " "); /* held in the middle, then live again */
    s.app.now_ms += app_timeout(&s.app);
    stage_type(&s, "p");
    assert_non_null(strstr(stage_draw(&s, 80, 40), "held"));
    assert_true(s.app.mapped.frozen->n_pos < s.map->n_pos);
    stage_type(&s, "p");
    assert_non_null(strstr(stage_draw(&s, 80, 40), " live"));
}

/* ---- messages, mouse ------------------------------------------------------------------------- */

TEST(test_search_and_walk)
{
    AUTO_STAGE s;
    open_talk(&s, true);
    for (int i = 0; i < 12; i++) stage_type(&s, "words 60\r");
    stage_draw(&s, 80, 24);
    stage_key(&s, '/' | K_ALT);
    stage_type(&s, "SLAB");
    shows(&s, "/SLAB_  3 found");
    shows_too(&s, ":found");
    int message = s.app.read.message;
    assert_true(message < 4); /* the page went there */
    stage_key(&s, '\r');
    stage_type(&s, "nn");
    stage_draw(&s, 80, 24);
    size_t byte = s.app.read.byte;
    stage_type(&s, "n"); /* around the end */
    assert_int_equal(s.app.read.message, message);
    stage_type(&s, "N");
    assert_int_equal(s.app.read.byte, byte);
    stage_type(&s, "/no such word\r");
    assert_non_null(strstr(s.app.flash, "not found"));
    stage_key(&s, K_HOME);
    assert_int_equal(s.app.read.message, 0);
    stage_key(&s, K_DOWN);
    stage_type(&s, "c");
    assert_memory_equal(str_get(&s.copied), "In turn 12 you picked", 21);
    shows(&s, "-- message 2 of ");
    stage_type(&s, "m");
    assert_int_equal(s.app.view, VIEW_MAP);
    assert_int_equal(s.app.mapped.position, s.app.talk.messages[1].position);
    app_show(&s.app, VIEW_READ);
    stage_key(&s, K_END);
    stage_type(&s, "e"); /* its turn is asked for: nothing is lost without an answer */
    assert_int_equal(s.app.view, VIEW_CHAT);
    assert_true(s.app.question.open);
    assert_int_equal(s.app.question.turn, 14);
}

static void mark_first(struct stage *s, const char *key)
{
    app_show(&s->app, VIEW_READ);
    stage_key(s, K_HOME);
    stage_type(s, key);
    assert_int_equal(s->app.view, VIEW_CHAT);
}

TEST(test_turns_are_marked_from_a_message)
{
    AUTO_STAGE s;
    stage_start(&s, false, NULL);
    stage_type(&s, "words 20\rwords 60\r");
    const struct session *session = s.control.parts.session;
    mark_first(&s, "p");
    assert_true(session_is_pinned(session, 1));
    mark_first(&s, "u");
    assert_false(session_is_pinned(session, 1));
    mark_first(&s, "F"); /* asks, and can be taken back */
    assert_true(s.app.question.open);
    stage_type(&s, "n");
    assert_false(session_is_forgotten(session, 1));
    mark_first(&s, "F");
    stage_type(&s, "y");
    assert_true(session_is_forgotten(session, 1));
    assert_int_equal(s.app.phase, PHASE_READY);
    stage_type(&s, "/forget undo\r");
    assert_false(session_is_forgotten(session, 1));
}

TEST(test_a_question_mark_asks_for_help)
{
    AUTO_STAGE s;
    open_talk(&s, true);
    stage_type(&s, "what?");
    assert_int_equal(s.app.view, VIEW_CHAT);
    assert_string_equal(str_get(&s.app.edit.text), "what?");
    stage_key(&s, CTRL('u'));
    stage_type(&s, "?");
    assert_int_equal(s.app.view, VIEW_HELP);
}

TEST(test_clicks)
{
    AUTO_STAGE s;
    open_talk(&s, true);
    for (int i = 0; i < 3; i++) stage_type(&s, "words 60\r");
    stage_draw(&s, 80, 24);
    struct pane *at = &s.app.places[PLACE_RIBBON];
    struct key_event ev = {.key = K_CLICK, .x = at->x + at->w / 2, .y = at->y};
    app_key(&s.app, &ev);
    assert_int_equal(s.app.view, VIEW_MAP);
    int64_t half = s.map->n_pos / 2;
    assert_in_range(s.app.mapped.position, half - 12, half + 12);
    stage_draw(&s, 80, 24);
    at = &s.app.places[PLACE_MAP];
    ev = (struct key_event){.key = K_CLICK, .x = at->x, .y = at->y};
    app_key(&s.app, &ev);
    assert_int_equal(s.app.mapped.position, 0);
    stage_key(&s, K_F1 + 1);
    stage_draw(&s, 80, 24);
    at = &s.app.places[PLACE_LIST];
    ev = (struct key_event){.key = K_CLICK, .x = 5, .y = at->y + 1};
    app_key(&s.app, &ev);
    assert_int_equal(s.app.list.selected, 1);
    ev.y = 0; /* outside */
    app_key(&s.app, &ev);
    assert_int_equal(s.app.list.selected, 1);
}

/* A long message is shown by its first lines, after sending, too. */
TEST(test_long_messages_fold)
{
    AUTO_STAGE s;
    AUTO_STR text = {0};
    open_talk(&s, true);
    for (int i = 0; i < 200; i++) str_printf(&text, "line %d\n", i);
    struct key_event ev = {.key = K_PASTE, .text = text.data, .n = text.n};
    app_key(&s.app, &ev);
    stage_key(&s, '\r');
    stage_draw(&s, 80, 40);
    shows_too(&s, "line 7");
    hides_too(&s, "line 8 ");
    shows_too(&s, "... 192 more lines; Alt-o unfolds");
    stage_key(&s, 'o' | K_ALT);
    stage_draw(&s, 80, 40);
    shows_too(&s, "line 199");
    stage_key(&s, 'o' | K_ALT);
    assert_non_null(strstr(stage_draw(&s, 60, 40), "... 192 more lines"));
}

TEST(test_events_are_kept)
{
    AUTO_STAGE s;
    open_talk(&s, true);
    stage_type(&s, "/set temp 0.5\r/set temp 0.6\r/log\r");
    shows(&s, "14:02:13  temp 0.5 from the next token on");
    shows_too(&s, "14:02:13  temp 0.6 from the next token on");
    for (int i = 0; i < 5000; i++) app_event(&s.app, "event %d of many", i);
    assert_true(s.app.events.n < 70000);
    assert_non_null(strstr(s.app.events.data, "event 4999"));
    assert_int_equal(s.app.events.data[2], ':'); /* whole lines */
}

/* An error that is longer than the line is read whole, and the line stays for correction. */
TEST(test_long_errors)
{
    AUTO_STAGE s;
    open_talk(&s, true);
    stage_type(&s, "/set policy foo\r");
    stage_draw(&s, 80, 40);
    shows_too(&s, "random"); /* the end of the list of policies */
    assert_string_equal(str_get(&s.app.edit.text), "/set policy foo");
}

/* Help wraps its lines on a narrow screen. */
TEST(test_help_wraps)
{
    AUTO_STAGE s;
    open_talk(&s, true);
    app_show(&s.app, VIEW_HELP);
    stage_draw(&s, 40, 200);
    shows_too(&s, "which tokens are still in");
    shows_too(&s, "              the cache; also /map");
}
