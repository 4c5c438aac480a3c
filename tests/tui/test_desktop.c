/* The sequences for the window around the terminal, byte by byte. */

#include "tests/test.h"

#include "tests/tui/fake_stage.h"
#include "tui/chat/desktop.h"

static const char *update(struct desktop *d, struct stage *s, struct str *out)
{
    str_clear(out);
    desktop_update(d, &s->app, out);
    return str_get(out);
}

static void begin(struct desktop *d, struct stage *s, bool bell, bool windows)
{
    stage_init(s, false, true);
    s->o.chat.progress = true;
    s->o.chat.no_bell = !bell;
    desktop_init(d, &s->o, windows);
}

static void end(struct desktop *d, struct stage *s, struct str *out)
{
    desktop_release(d);
    stage_release(s);
    str_release(out);
}

TEST(test_title)
{
    struct desktop d;
    struct stage s;
    struct str out = {0};
    begin(&d, &s, false, true);
    assert_string_equal(update(&d, &s, &out), "\033]2;retain\007");
    strcpy(s.app.name, "rust \033]0;x\007 notes");
    assert_non_null(strstr(update(&d, &s, &out), "\033]2;retain: rust "));
    for (size_t i = 1; i + 1 < out.n; i++) assert_in_range((unsigned char)out.data[i], 0x20, 0xFF);
    assert_int_equal(out.data[out.n - 1], 7);
    assert_string_equal(update(&d, &s, &out), ""); /* it is sent once */
    desktop_forget(&d);
    assert_int_not_equal(strlen(update(&d, &s, &out)), 0);
    assert_string_equal(d.on, "\033[22;2t");
    assert_string_equal(d.off, "\033]9;4;0\007\033[23;2t");
    end(&d, &s, &out);
}

TEST(test_progress)
{
    struct desktop d;
    struct stage s;
    struct str out = {0};
    begin(&d, &s, false, true);
    update(&d, &s, &out);
    stage_progress(&s, EVENT_LOADING, 30, 200);
    assert_string_equal(update(&d, &s, &out), "\033]9;4;1;15\007");
    stage_progress(&s, EVENT_LOADING, 31, 200);
    assert_string_equal(update(&d, &s, &out), "");
    stage_progress(&s, EVENT_LOADED, 0, 0);
    assert_string_equal(update(&d, &s, &out), "\033]9;4;0\007");
    end(&d, &s, &out);
}

/* An answer of this many milliseconds, in a window with or without the focus. */
static const char *answer(bool bell, int64_t ms, const char *focus, struct str *out)
{
    struct desktop d;
    struct stage s;
    struct key_event ev = {.key = focus[0] == 'I' ? K_FOCUS_IN : K_FOCUS_OUT};
    begin(&d, &s, bell, true);
    if (focus[0]) assert_true(desktop_key(&d, &ev));
    ev.key = 'x';
    assert_false(desktop_key(&d, &ev));
    s.app.phase = PHASE_READING;
    update(&d, &s, out);
    s.app.now_ms += ms;
    s.app.phase = PHASE_ANSWERING;
    assert_string_equal(update(&d, &s, out), "");
    s.app.phase = PHASE_READY;
    update(&d, &s, out);
    desktop_release(&d);
    stage_release(&s);
    return str_get(out);
}

TEST(test_alert)
{
    AUTO_STR out = {0};
    assert_string_equal(answer(true, 20000, "O", &out), "\007");
    assert_string_equal(answer(true, 20000, "I", &out), "");
    /* a terminal that does not report it */
    assert_string_equal(answer(true, 20000, "", &out), "");
    assert_string_equal(answer(true, 3000, "O", &out), "");
    assert_string_equal(answer(false, 20000, "O", &out), "");
}

TEST(test_nothing_elsewhere)
{
    struct desktop d;
    struct stage s;
    struct str out = {0};
    for (int i = 0; i < 2; i++) { /* no window; --safe */
        begin(&d, &s, true, i == 1);
        s.o.safe = i == 1;
        desktop_init(&d, &s.o, i == 1);
        stage_progress(&s, EVENT_LOADING, 30, 200);
        assert_string_equal(update(&d, &s, &out), "");
        assert_string_equal(d.on, "");
        assert_string_equal(d.off, "");
        end(&d, &s, &out);
    }
}
