#include "tui/screen.h"

#include <errno.h>
#include <curses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <term.h>
#include <unistd.h>

#include "tui/term.h"

/* ---- looks ---------------------------------------------------------------------------------- */

struct look {
    attr_t attrs;      /* with and without colour */
    short dark, light; /* 256 colours; -1 = the terminal's own */
    short basic;       /* 16 colours */
};

/* Colours are for comfort: what an attribute says is always said by a glyph or a word too. */
static const struct look looks[ATTRS] = {
    [ATTR_TEXT] = {A_NORMAL, -1, -1, -1},    [ATTR_DIM] = {A_NORMAL, 245, 242, -1},
    [ATTR_BOLD] = {A_BOLD, -1, -1, -1},      [ATTR_TITLE] = {A_REVERSE, -1, -1, -1},
    [ATTR_YOU] = {A_BOLD, 81, 25, 6},        [ATTR_LLM] = {A_BOLD, 114, 28, 2},
    [ATTR_KEY] = {A_BOLD, -1, -1, -1},       [ATTR_SELECT] = {A_REVERSE, -1, -1, -1},
    [ATTR_ERROR] = {A_BOLD, 210, 124, 1},    [ATTR_CODE] = {A_NORMAL, 180, 94, -1},
    [ATTR_RAMP0] = {A_NORMAL, 236, 254, -1}, [ATTR_RAMP1] = {A_NORMAL, 24, 151, -1},
    [ATTR_RAMP2] = {A_NORMAL, 36, 73, -1},   [ATTR_RAMP3] = {A_NORMAL, 148, 24, -1},
    [ATTR_RAMP4] = {A_NORMAL, 226, 17, -1},  [ATTR_MARK] = {A_REVERSE, -1, -1, -1},
    [ATTR_WEIGHTS] = {A_NORMAL, 75, 25, 4},  [ATTR_CACHE] = {A_BOLD, 220, 130, 3},
    [ATTR_SCRATCH] = {A_NORMAL, 114, 28, 2}, [ATTR_GONE] = {A_NORMAL, 243, 243, -1},
    [ATTR_THIN] = {A_NORMAL, 250, 240, -1},
};

static int look_color(const struct screen *s, int attr)
{
    const struct look *l = &looks[attr];
    return s->colors < 256 ? l->basic : s->light ? l->light : l->dark;
}

static int class_color(const struct screen *s, int cls)
{
    return cls < 0 ? -1 : look_color(s, ATTR_RAMP0 + cls);
}

static void init_looks(struct screen *s)
{
    for (int i = 0; i < ATTR_HALF0 && s->colors; i++)
        init_extended_pair(i + 1, look_color(s, i), -1);
    for (int i = ATTR_HALF0; i < ATTRS && s->colors == 256; i++) {
        int up = (i - ATTR_HALF0) / 6 - 1, down = (i - ATTR_HALF0) % 6 - 1;
        if (up < 0) /* the lower half alone */
            init_extended_pair(i + 1, class_color(s, down), -1);
        else
            init_extended_pair(i + 1, class_color(s, up), class_color(s, down));
    }
    s->repaint = true;
}

static void init_colors(struct screen *s)
{
    const char *no = getenv("NO_COLOR"), *background = getenv("COLORFGBG");
    if ((no && no[0]) || !has_colors() || start_color() == ERR) return;
    use_default_colors();
    s->colors = COLORS >= 256 ? 256 : COLORS >= 8 ? 16 : 0;
    const char *last = background ? strrchr(background, ';') : NULL;
    if (last) s->light = atoi(last + 1) == 7 || atoi(last + 1) > 8;
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

/* Terminals that answer, or ignore what they do not know. */
static void ask_terminal(void)
{
    static const char *const polite[] = {"xterm", "tmux",  "screen",  "rxvt", "alacritty", "foot",
                                         "st",    "kitty", "wezterm", "vte",  "ghostty"};
    static const char questions[] = "\033[?2026$p\033]11;?\033\\";
    const char *name = getenv("TERM");
    for (size_t i = 0; name && i < sizeof polite / sizeof polite[0]; i++)
        if (strncmp(name, polite[i], strlen(polite[i])) == 0) {
            term_write(questions, sizeof questions - 1);
            return;
        }
}

int screen_open(struct screen *s, struct err *e)
{
    memset(s, 0, sizeof *s);
    int rc = term_open(e);
    if (rc) return rc;
    unsetenv("LINES"); /* set, they would hide every resize */
    unsetenv("COLUMNS");
    FILE *out = fdopen(dup(term_out()), "w"), *in = fdopen(dup(term_in()), "r");
    s->curses = out && in ? newterm(NULL, out, in) : NULL;
    if (!s->curses) {
        if (out) fclose(out);
        if (in) fclose(in);
        term_close();
        return err_set(e, ERR_FAIL, "no terminal description for TERM=%s", getenv("TERM"));
    }
    raw();
    nonl();
    noecho();
    intrflush(stdscr, FALSE);
    typeahead(-1); /* a waiting key must not stop a frame in its middle */
    init_colors(s);
    add_terminfo_keys(&s->input);
    term_modes(true);
    ask_terminal();
    s->repaint = true;
    screen_fit(s);
    return 0;
}

void screen_close(struct screen *s)
{
    if (!s->curses) return;
    endwin();
    term_close();
    delscreen(s->curses);
    input_release(&s->input);
    grid_release(&s->shown);
    s->curses = NULL;
}

void screen_fit(struct screen *s)
{
    int w, h;
    if (term_size(&w, &h) && (w != COLS || h != LINES)) {
        resizeterm(h, w);
        s->repaint = true;
    }
    s->w = COLS;
    s->h = LINES;
}

void screen_suspend(struct screen *s)
{
    endwin();
    term_stop();
    screen_fit(s);
    s->repaint = s->clear = true;
}

int screen_read(struct screen *s)
{
    char bytes[4096];
    ssize_t n = read(term_in(), bytes, sizeof bytes);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return 0;
    if (n <= 0) return -1;
    input_feed(&s->input, bytes, (size_t)n);
    return 0;
}

/* "rgb:RRRR/GGGG/BBBB", 1 to 4 digits each. */
static bool is_light(const char *text)
{
    double sum = 0;
    static const double weights[] = {0.299, 0.587, 0.114};
    if (strncmp(text, "rgb:", 4) != 0) return false;
    text += 4;
    for (int i = 0; i < 3; i++) {
        char *end;
        unsigned long value = strtoul(text, &end, 16);
        int digits = (int)(end - text);
        if (digits < 1 || digits > 4) return false;
        sum += weights[i] * (double)value / (double)((1ul << 4 * digits) - 1);
        text = *end ? end + 1 : end;
    }
    return sum > 0.5;
}

bool screen_reply(struct screen *s, const struct key_event *ev)
{
    if (ev->key == K_REPLY_SYNC) {
        s->sync = true;
    } else if (ev->key == K_REPLY_BACKGROUND) {
        bool light = is_light(ev->text);
        if (light != s->light) {
            s->light = light;
            init_looks(s);
        }
    } else {
        return false;
    }
    return true;
}

/* ---- painting ------------------------------------------------------------------------------- */

static void paint_cell(const struct screen *s, int x, int y, const struct cell *c)
{
    cchar_t out;
    int pair = s->colors ? c->attr + 1 : 0;
    if (c->width == 0) return; /* drawn with its left half */
    attr_t attrs = looks[c->attr].attrs;
    if (!s->colors && (c->attr == ATTR_DIM || c->attr == ATTR_GONE)) attrs |= A_DIM;
    setcchar(&out, c->text, attrs, 0, &pair);
    mvadd_wch(y, x, &out);
}

/* Changed cells of one row; a wide character is always written with both halves. */
static void paint_row(const struct screen *s, const struct grid *g, int y)
{
    const struct cell *now = &g->cells[y * g->w], *before = &s->shown.cells[y * g->w];
    for (int x = 0; x < g->w; x++) {
        bool same = !s->repaint && memcmp(&now[x], &before[x], sizeof now[x]) == 0;
        if (!same && now[x].width == 0 && x > 0) paint_cell(s, x - 1, y, &now[x - 1]);
        if (!same) paint_cell(s, x, y, &now[x]);
    }
}

void screen_paint(struct screen *s, const struct grid *g)
{
    if (s->shown.w != g->w || s->shown.h != g->h || !s->shown.cells) s->repaint = true;
    if (s->clear) clearok(curscr, TRUE);
    s->clear = false;
    if (s->repaint) {
        grid_init(&s->shown, g->w, g->h, g->ascii);
        erase();
    }
    for (int y = 0; y < g->h; y++) paint_row(s, g, y);
    memcpy(s->shown.cells, g->cells, sizeof *g->cells * (size_t)g->w * (size_t)g->h);
    s->repaint = false;
    curs_set(g->cursor_x >= 0);
    if (g->cursor_x >= 0) move(g->cursor_y, g->cursor_x);
    if (s->sync) term_write("\033[?2026h", 8);
    refresh();
    if (s->sync) term_write("\033[?2026l", 8);
}
