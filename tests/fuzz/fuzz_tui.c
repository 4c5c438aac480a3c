/* fuzz: a conversation at the keyboard: keys, pastes, terminal replies, broken UTF-8, resizes and a
 * model's text, byte by byte, with scripted answers. Each byte below 64 is an action of a user or a
 * terminal; the others are typed. Checked after each: no cell holds half a character or a control
 * byte, the cursor is on the screen and between characters, and the draft is never lost. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tui/fake_stage.h"
#include "tui/term/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static const char *const doings[] = {
    "\r",
    "\n",
    "\t",
    "\033",
    "\177",
    "\033[19~",
    "\033[1;3A",
    "\003",
    "\005",
    "\033/",
    "\007",
    "\033t",
    "\014",
    "\016",
    "\020",
    "\022",
    "\024",
    "\025",
    "/turns\r",
    "\033[<0;30;9M",
    "\030\005",
    "/model qwen3\r",
    "\037",
    "\033_",
    "\033[A",
    "\033[B",
    "\033[C",
    "\033[D",
    "\033[1;5C",
    "\033[1;2A",
    "\033[5~",
    "\033[6~",
    "\033[H",
    "\033[F",
    "\033[3~",
    "\033b",
    "\033d",
    "\033o",
    "\033m",
    "\033s",
    "\033w",
    "\033[11~",
    "\033[12~",
    "\033[13~",
    "\033[14~",
    "\033[15~",
    "\033[17~",
    "\033[18~",
    "/edit 1\r",
    "/rewind ",
    "/branch\r",
    "/set temp 1\r",
    "/set ",
    "/find ",
    "/open ",
    "/delete ",
    "/copy code\r",
    "code\r",
    "unicode\r",
    "\033[200~",
    "\033[201~",
    "\033]11;rgb:",
    "\033[?2026;2$y",
    "words 90\r",
};
enum { N_DOINGS = sizeof doings / sizeof doings[0] };

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

static void check_grid(const struct grid *g)
{
    for (int i = 0; i < g->w * g->h; i++) {
        const struct cell *c = &g->cells[i];
        int x = i % g->w;
        if (c->width == 2 && (x + 1 == g->w || c[1].width != 0)) fail("half a wide character");
        if (c->width == 0 && (x == 0 || c[-1].width != 2)) fail("half a wide character");
        for (int k = 0; c->text[k]; k++)
            if (c->text[k] < 0x20 || (c->text[k] >= 0x7F && c->text[k] < 0xA0))
                fail("a control byte");
    }
    if (g->cursor_x >= g->w || g->cursor_y >= g->h) fail("the cursor is outside");
}

/* The cursor is at the beginning of a character. */
static void check_cursor(const struct edit *e)
{
    const char *s = str_get(&e->text);
    size_t at = 0;
    while (at < e->cursor) {
        uint32_t cp;
        int length = utf8_next(s + at, e->text.n - at, &cp);
        at += length > 0 ? (size_t)length : 1;
    }
    if (at != e->cursor) fail("the cursor is inside a character");
}

static bool holds(const struct str *s, const struct str *part)
{
    return s->n >= part->n && memmem(str_get(s), s->n, str_get(part), part->n);
}

/* A draft that vanished was sent, queued, stashed, replaced by a search, or can be restored by
 * undo. */
static void check_draft(const struct app *a, const struct str *before)
{
    if (a->edit.text.n > 0 || before->n == 0 || a->edit.undo.n + a->edit.redo.n > 0 ||
        before->data[0] == '/')
        return;
    if (strspn(before->data, " \t\n") == before->n) return;
    for (int i = a->history.n - 1; i >= 0; i--)
        if (holds(&a->history.rows[i], before)) return;
    for (int i = 0; i < a->n_queue; i++)
        if (holds(&a->queue[i], before)) return;
    if (a->search.open && holds(&a->search.draft, before)) return;
    for (int i = 0; i < a->history.n; i++) /* an older message from the history */
        if (holds(before, &a->history.rows[i])) return;
    if (holds(&a->history.draft, before)) return;
    fail("a draft was lost");
}

static void take_keys(struct stage *s, struct input *in, bool late)
{
    struct key_event ev;
    while (input_next(in, late, &ev)) {
        struct str draft = {0};
        edit_full(&s->app.edit, &draft);
        if (ev.key != K_REPLY_SYNC && ev.key != K_REPLY_BACKGROUND) app_key(&s->app, &ev);
        if (s->app.n_acts > 0 && s->app.talk.n < 40 && s->app.list.n < 20) stage_run(s);
        for (int i = 0; i < s->app.n_acts; i++) act_release(&s->app.acts[i]);
        s->app.n_acts = 0;
        check_draft(&s->app, &draft);
        check_cursor(&s->app.edit);
        str_release(&draft);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct stage s;
    struct input in = {0};
    if (n < 2 || n > 4096) return 0;
    stage_init(&s, bytes[0] & 1, bytes[0] & 2);
    scripted.model = SCRIPTED_OTHER; /* so small that the time is spent on the screen */
    s.o.session.max_tokens = 20;
    s.app.settings.options.session.max_tokens = 20;
    stage_list(&s);
    if (bytes[0] & 4) stage_open(&s, NULL);
    int w = 80, h = 24;
    for (size_t i = 1; i < n; i++) {
        uint8_t b = bytes[i];
        if (b < N_DOINGS) {
            input_feed(&in, doings[b], strlen(doings[b]));
        } else if (b == 0xFE && i + 2 < n) { /* the terminal's size */
            w = 1 + bytes[i + 1] % 200;
            h = 1 + bytes[i + 2] % 70;
            i += 2;
        } else if (b == 0xFD && i + 1 < n) { /* the model generates text */
            size_t length = bytes[i + 1] % 64;
            if (i + 2 + length > n) length = n - i - 2;
            struct event piece = {
                .kind = EVENT_TEXT, .text = (const char *)bytes + i + 2, .n_text = length};
            app_take(&s.app, &piece);
            i += 1 + length;
        } else if (b == 0xFC && !s.control.parts.session) {
            stage_open(&s, NULL);
        } else if (b == 0xFB) {
            s.app.now_ms += 5000;
            input_end_paste(&in);
        } else {
            input_feed(&in, (const char *)&bytes[i], 1);
        }
        take_keys(&s, &in, b == 3 || b == 0xFB);
        if (i % 4 == 0) {
            app_draw(&s.app, &s.grid, w, h);
            check_grid(&s.grid);
        }
    }
    take_keys(&s, &in, true);
    app_draw(&s.app, &s.grid, w, h);
    check_grid(&s.grid);
    input_release(&in);
    stage_release(&s);
    return 0;
}
