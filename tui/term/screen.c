#include "tui/term/screen.h"

#include <curses.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <term.h>
#include <unistd.h>

#include "base/system.h"
#include "cli/options/options.h"
#include "cli/print/sanitize.h"
#include "tui/term/record.h"
#include "tui/term/term.h"

enum {
    /* unanswered frames when a key is echoed; other frames wait for each answer */
    FRAMES_AHEAD = 3,
    /* a terminal that has not answered after this time does not support the question */
    SILENT_MS = 1000,
    ANSWER_MS = 10000, /* one that answered before is only slow, but answers can be lost */
    FAREWELL_MS = 500,
    /* cells: a frame with fewer is sent in one write, which is shown at once without marks */
    AT_ONCE = 200,
};

/* ---- looks ---------------------------------------------------------------------------------- */

static void init_looks(struct screen *s)
{
    s->ansi.look = &s->look;
    s->repaint = true;
    record_look(s->record, &s->look);
}

static bool is_set(const char *name, const char *one, const char *other)
{
    const char *value = getenv(name);
    return value && (strcmp(value, one) == 0 || strcmp(value, other) == 0);
}

/* Colours of the terminal, as --color allows. */
static int count_colors(const char *asked)
{
    const char *no = getenv("NO_COLOR");
    bool automatic = strcmp(asked, "auto") == 0;
    if (strcmp(asked, "never") == 0 || (automatic && no && no[0])) return 0;
    const int has = tigetnum("colors"), n = has >= 256 ? 256 : has >= 8 ? 16 : 0;
    if (n == 0) return 0;
    if (strcmp(asked, "16") == 0 && n == 256) return 16;
    if (strcmp(asked, "true") == 0) return COLOR_TRUE;
    bool fine = automatic && n == 256 && is_set("COLORTERM", "truecolor", "24bit");
    return fine ? COLOR_TRUE : n;
}

/* Settings made by the user take precedence over the terminal's answers. */
static void init_colors(struct screen *s, const struct options *o)
{
    const char *background = getenv("COLORFGBG"),
               *last = background ? strrchr(background, ';') : NULL;
    bool light = last && (atoi(last + 1) == 7 || atoi(last + 1) > 8);
    s->told = strcmp(o->chat.background, "auto") != 0;
    if (s->told) light = strcmp(o->chat.background, "light") == 0;
    s->look = (struct look){
        .colors = count_colors(o->chat.color), .light = light, .strong = o->chat.contrast};
    init_looks(s);
}

/* ---- life ----------------------------------------------------------------------------------- */

static void add_terminfo_keys(struct input *in)
{
    static const struct {
        const char *name;
        uint32_t key;
    } rows[] = {
        {"kcuu1", K_UP},     {"kcud1", K_DOWN},   {"kcuf1", K_RIGHT}, {"kcub1", K_LEFT},
        {"khome", K_HOME},   {"kend", K_END},     {"kpp", K_PAGE_UP}, {"knp", K_PAGE_DOWN},
        {"kdch1", K_DELETE}, {"kich1", K_INSERT}, {"kf1", K_F1},      {"kf2", K_F1 + 1},
        {"kf3", K_F1 + 2},   {"kf4", K_F1 + 3},   {"kf5", K_F1 + 4},  {"kf6", K_F1 + 5},
        {"kf7", K_F1 + 6},   {"kf8", K_F1 + 7},   {"kf9", K_F1 + 8},  {"kf10", K_F1 + 9},
        {"kf11", K_F1 + 10}, {"kf12", K_F1 + 11},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *sequence = tigetstr(rows[i].name);
        if (sequence && sequence != (char *)-1 && sequence[0] == '\033')
            input_add(in, sequence, rows[i].key);
    }
}

static void ask_terminal(struct screen *s)
{
    static const char questions[] = "\033[?2026$p\033]11;?\033\\";
    s->polite = terminal_is_polite();
    if (s->polite) term_write(questions, sizeof questions - 1);
}

static int put_byte(int c)
{
    const char byte = (char)c;
    term_write(&byte, 1);
    return c;
}

static void begin_picture(struct screen *s)
{
    if (enter_ca_mode) tputs(enter_ca_mode, 1, put_byte);
    s->repaint = s->clear = true;
    screen_fit(s);
}

/* On a terminal with one screen the picture stays, with an empty line for the shell's prompt. */
static void end_picture(const struct screen *s)
{
    char bytes[48];
    int n = snprintf(bytes, sizeof bytes, "\033[m\033[?25h\033[%d;1H%s", s->h,
                     enter_ca_mode ? "" : "\033[K");
    term_write(bytes, (size_t)n);
    if (exit_ca_mode) tputs(exit_ca_mode, 1, put_byte);
}

int screen_open(struct screen *s, const struct options *o, struct err *e)
{
    *s = (struct screen){.w = 80, .h = 24};
    int unused, rc = term_open(e);
    if (rc) return rc;
    if (setupterm(NULL, term_out(), &unused) != OK) {
        term_close();
        return err_set(e, ERR_FAIL, "no terminal description for TERM=%s", getenv("TERM"));
    }
    s->open = true;
    term_raw();
    begin_picture(s);
    init_colors(s, o);
    add_terminfo_keys(&s->input);
    term_modes(true);
    ask_terminal(s);
    return 0;
}

/* Pending answers must not become the shell's input. */
static void await_answers(struct screen *s)
{
    struct pollfd fd = {.fd = term_in(), .events = POLLIN};
    struct key_event ev;
    while (s->unanswered > 0 && poll(&fd, 1, FAREWELL_MS) > 0 && screen_read(s) == 0)
        while (input_next(&s->input, false, &ev)) screen_reply(s, &ev);
    s->unanswered = 0;
}

void screen_close(struct screen *s)
{
    if (!s->open) return;
    await_answers(s);
    end_picture(s);
    term_close();
    del_curterm(cur_term);
    input_release(&s->input);
    str_release(&s->ansi.bytes);
    grid_release(&s->shown);
    s->open = false;
}

void screen_fit(struct screen *s)
{
    const int w = s->w, h = s->h;
    if (term_size(&s->w, &s->h) && (w != s->w || h != s->h)) s->repaint = true;
}

void screen_suspend(struct screen *s)
{
    await_answers(s);
    end_picture(s);
    term_stop();
    begin_picture(s);
}

void screen_leave(struct screen *s)
{
    end_picture(s);
    term_lend(true);
}

void screen_return(struct screen *s)
{
    term_lend(false);
    begin_picture(s);
}

int screen_read(struct screen *s)
{
    char bytes[4096];
    ssize_t n = read(term_in(), bytes, sizeof bytes);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return 0;
    if (n <= 0) return -1;
    record_input(s->record, bytes, (size_t)n);
    input_feed(&s->input, bytes, (size_t)n);
    return 0;
}

/* "rgb:RRRR/GGGG/BBBB", 1 to 4 digits each. */
static bool read_color(const char *text, double rgb[3])
{
    if (strncmp(text, "rgb:", 4) != 0) return false;
    text += 4;
    for (int i = 0; i < 3; i++) {
        char *end;
        unsigned long value = strtoul(text, &end, 16);
        int digits = (int)(end - text);
        if (digits < 1 || digits > 4) return false;
        rgb[i] = (double)value / (double)((1ul << 4 * digits) - 1);
        text = *end ? end + 1 : end;
    }
    return true;
}

bool screen_reply(struct screen *s, const struct key_event *ev)
{
    if (ev->key == K_REPLY_SYNC) {
        s->sync = true;
    } else if (ev->key == K_REPLY_BACKGROUND) {
        double rgb[3];
        struct look look = s->look;
        if (s->told || !read_color(ev->text, rgb)) return true;
        look_background(&look, rgb);
        bool same = look.light == s->look.light && look.painted == s->look.painted;
        s->look = look;
        if (!same) init_looks(s);
    } else if (ev->key == K_REPLY_STATUS) {
        s->answers = true;
        if (s->unanswered > 0) s->unanswered--;
    } else {
        return false;
    }
    return true;
}

static bool given_up(const struct screen *s, int64_t now_ms)
{
    return now_ms - s->asked_ms > (s->answers ? ANSWER_MS : SILENT_MS);
}

bool screen_ready(const struct screen *s, int64_t now_ms, bool key)
{
    int waiting = 0; /* bytes: set by serial lines; a pseudo-terminal reports 0 */
    if (ioctl(term_out(), TIOCOUTQ, &waiting) == 0 && waiting > (key ? 1024 : 256)) return false;
    if (s->unanswered < (key ? FRAMES_AHEAD : 1)) return true;
    return given_up(s, now_ms);
}

/* Asks the terminal to answer when it has drawn everything up to here. */
static void put_question(struct screen *s, struct str *out)
{
    int64_t now_ms = system_clock_ns() / 1000000;
    if (s->unanswered > 0 && given_up(s, now_ms)) {
        s->unanswered = 0;
        s->polite = s->answers;
    }
    if (!s->polite && !s->answers) return;
    str_puts(out, "\033[5n");
    s->unanswered++;
    s->asked_ms = now_ms;
}

/* ---- painting ------------------------------------------------------------------------------- */

static const char sync_begin[] = "\033[?2026h", sync_end[] = "\033[?2026l", hide[] = "\033[?25l";

/* A frame that is written in several parts is begun and ended so that the terminal shows it at
 * once. */
void screen_paint(struct screen *s, const struct grid *g)
{
    struct ansi *a = &s->ansi;
    size_t row = sizeof *g->cells * (size_t)g->w;
    int n = 0;
    record_frame(s->record, g);
    if (s->shown.w != g->w || s->shown.h != g->h || !s->shown.cells) s->repaint = true;
    if (s->repaint) grid_init(&s->shown, g->w, g->h, g->ascii);
    str_clear(&a->bytes);
    if (s->repaint) ansi_begin(a);
    if (s->clear) str_puts(&a->bytes, "\033[H\033[2J");
    for (int y = 0; y < g->h; y++) {
        struct cell *before = &s->shown.cells[y * g->w];
        n += ansi_row(a, g, s->repaint ? NULL : before, y);
        memcpy(before, &g->cells[y * g->w], row);
    }
    bool moved = g->cursor_x != s->shown.cursor_x || g->cursor_y != s->shown.cursor_y;
    s->shown.cursor_x = g->cursor_x;
    s->shown.cursor_y = g->cursor_y;
    s->repaint = s->clear = false;
    if (n == 0 && !moved) return;
    if (n > AT_ONCE && s->sync) {
        term_write(sync_begin, sizeof sync_begin - 1);
    } else if (n > AT_ONCE) {
        term_write(hide, sizeof hide - 1);
        a->visible = false;
    }
    ansi_cursor(a, g);
    if (n > AT_ONCE && s->sync) str_puts(&a->bytes, sync_end);
    put_question(s, &a->bytes);
    term_write(str_get(&a->bytes), a->bytes.n);
}
