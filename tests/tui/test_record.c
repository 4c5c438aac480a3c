/* Recordings, and the bytes that draw a screen: reading them back gives the screen, cell by cell,
 * with its colours; every line of a recording is a valid asciicast line. */
#include "tests/test.h"

#include <sys/stat.h>

#include <cjson/cJSON.h>

#include "base/file.h"
#include "base/random.h"
#include "base/utf8.h"
#include "cli/commands/commands.h"
#include "tests/tui/fake_stage.h"
#include "tui/term/ansi.h"
#include "tui/term/record.h"
#include "tui/term/svg.h"

enum { W_MAX = 200, H_MAX = 60 };

/* What a terminal shows in a cell. */
struct shown {
    uint32_t glyph; /* 0 = the right half of a wide character */
    struct cell_style style;
};

/* A terminal with the features that a recording uses. */
struct terminal {
    int w, h, x, y;
    struct cell_style pen;
    struct shown cells[H_MAX][W_MAX];
};

static const struct cell_style no_style = {0, -1, -1};

static void clear(struct terminal *t, int w, int h)
{
    t->w = w;
    t->h = h;
    for (int y = 0; y < H_MAX; y++)
        for (int x = 0; x < W_MAX; x++) t->cells[y][x] = (struct shown){' ', no_style};
}

static void put(struct terminal *t, uint32_t cp)
{
    int width = utf8_width(cp);
    if (width == 0) return; /* marks are not compared */
    assert_true(t->y < t->h && t->x + width <= t->w);
    t->cells[t->y][t->x] = (struct shown){cp, t->pen};
    if (width == 2) t->cells[t->y][t->x + 1] = (struct shown){0, t->pen};
    t->x += width;
}

static void set_pen(struct terminal *t, const int *codes, int n)
{
    static const int styles[] = {
        [1] = STYLE_BOLD, [2] = STYLE_DIM, [4] = STYLE_UNDERLINE, [7] = STYLE_REVERSE};
    for (int i = 0; i < n; i++) {
        int code = codes[i], *color = code < 40 ? &t->pen.color : &t->pen.background;
        if (code == 0) {
            t->pen = no_style;
        } else if (code < 8) {
            t->pen.style |= styles[code];
        } else if (code % 10 == 9) {
            *color = -1;
        } else if (code % 10 < 8) {
            *color = code % 10; /* of eight colours */
        } else if (codes[i + 1] == 5) {
            *color = codes[i + 2];
            i += 2;
        } else {
            assert_int_equal(codes[i + 1], 2);
            *color = COLOR_TRUE | codes[i + 2] << 16 | codes[i + 3] << 8 | codes[i + 4];
            i += 4;
        }
    }
}

/* The sequence at s, after ESC [. Returns its bytes. */
static int sequence(struct terminal *t, const char *s)
{
    int codes[16] = {0}, n = 0, at = s[0] == '?';
    for (;; at++) {
        char *end;
        assert_true(n < 16);
        codes[n++] = (int)strtol(s + at, &end, 10);
        at = (int)(end - s);
        if (s[at] != ';') break;
    }
    assert_non_null(strchr("HCJmhl", s[at]));
    if (s[at] == 'J') clear(t, t->w, t->h);
    if (s[at] == 'C') t->x += codes[0];
    if (s[at] == 'm') set_pen(t, codes, n);
    if (s[at] == 'H') {
        assert_int_equal(n, 2);
        t->y = codes[0] - 1;
        t->x = codes[1] - 1;
    }
    if (strchr("HC", s[at])) assert_true(t->x >= 0 && t->x < t->w && t->y >= 0 && t->y < t->h);
    return at + 1;
}

static void feed(struct terminal *t, const char *s)
{
    for (size_t n = strlen(s); n > 0;) {
        uint32_t cp;
        int length = utf8_next(s, n, &cp);
        if (s[0] == '\033')
            length = 2 + sequence(t, s + 2);
        else
            put(t, cp);
        s += length;
        n -= (size_t)length;
    }
}

/* The same for everything that looks the same: a cell of one colour has no glyph, halves can change
 * places, and a blank has no colour of text. */
static struct shown looks_like(struct shown c)
{
    struct cell_style *k = &c.style;
    if (c.glyph && utf8_width(c.glyph) == 1 && k->color >= 0 && k->color == k->background)
        c.glyph = ' ';
    if (c.glyph == 0x2584 && k->background >= 0)
        c = (struct shown){0x2580, {k->style, k->background, k->color}};
    if (c.glyph == ' ' && !(k->style & (STYLE_UNDERLINE | STYLE_REVERSE))) {
        k->style = 0;
        k->color = -1;
    }
    return c;
}

static void agrees(const struct terminal *t, const struct grid *g, const struct look *look)
{
    assert_int_equal(t->w, g->w);
    assert_int_equal(t->h, g->h);
    for (int y = 0; y < g->h; y++)
        for (int x = 0; x < g->w; x++) {
            const struct cell *c = &g->cells[y * g->w + x];
            struct shown is = looks_like(t->cells[y][x]);
            struct shown must =
                looks_like((struct shown){(uint32_t)c->text[0], cell_style_of(c->attr, look)});
            assert_int_equal(is.glyph, must.glyph);
            if (is.glyph) assert_memory_equal(&is.style, &must.style, sizeof is.style);
        }
}

/* Plays a file; the grids are those it was made from, one per "o" event. */
static void play(const char *path, struct terminal *t, int *n_inputs)
{
    AUTO_FREE char *line = NULL;
    size_t cap = 0;
    int w, h;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_true(getline(&line, &cap, f) > 0);
    cJSON *o = cJSON_Parse(line);
    assert_int_equal(cJSON_GetObjectItem(o, "version")->valueint, 2);
    clear(t, cJSON_GetObjectItem(o, "width")->valueint, cJSON_GetObjectItem(o, "height")->valueint);
    cJSON_Delete(o);
    double before = 0;
    while (getline(&line, &cap, f) > 0) {
        cJSON *event = cJSON_Parse(line);
        assert_int_equal(cJSON_GetArraySize(event), 3);
        assert_true(cJSON_GetArrayItem(event, 0)->valuedouble >= before);
        before = cJSON_GetArrayItem(event, 0)->valuedouble;
        char kind = cJSON_GetArrayItem(event, 1)->valuestring[0];
        const char *text = cJSON_GetArrayItem(event, 2)->valuestring;
        if (kind == 'o') {
            AUTO_STR clean = {0};
            record_clean(text, false, &clean);
            assert_string_equal(str_get(&clean), text);
            feed(t, text);
        }
        if (kind == 'i') ++*n_inputs;
        if (kind == 'r' && sscanf(text, "%dx%d", &w, &h) == 2) clear(t, w, h);
        cJSON_Delete(event);
    }
    fclose(f);
}

TEST(test_what_was_seen)
{
    static const struct {
        int w, h;
    } sizes[] = {{80, 24}, {80, 24}, {160, 50}, {1, 1}, {37, 9}, {80, 24}};
    static struct terminal t;
    const char *path = path_in(folder_new(), "talk.cast");
    struct look look = {.colors = 256};
    AUTO_STAGE s;
    struct record *r;
    int n_inputs = 0;
    stage_init(&s, false, false);
    s.app.halves = true;
    stage_open(&s, NULL);
    ok(record_open(&r, path, &err));
    record_input(r, "early", 5); /* before the first frame there is no recording */
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        stage_type(&s, i % 2 ? "unicode \"quoted\" \\ 漢字\r" : "evil\r");
        if (i == 2) stage_key(&s, K_F1 + 2);
        if (i == 4) stage_key(&s, K_F1 + 3);
        stage_draw(&s, sizes[i].w, sizes[i].h);
        record_frame(r, &s.grid);
        record_frame(r, &s.grid); /* nothing new: no event */
        record_input(r, "\033[A\"\\\177", 6);
        n_inputs = 0;
        play(path, &t, &n_inputs);
        agrees(&t, &s.grid, &look);
        assert_int_equal(n_inputs, i + 1);
    }
    ok(record_close(r, &err));
    ok(record_close(NULL, &err));
    record_frame(NULL, &s.grid);
}

/* ---- the bytes of a frame -------------------------------------------------------------------- */

static uint64_t drawn; /* random numbers so far */

static int below(int n)
{
    return (int)(random_at(11, 0, drawn++) * n);
}

/* Changes some runs of cells to text, cells and half cells of the ramp, and wide characters. */
static void change(struct grid *g)
{
    static const char *const texts[] = {" ", "a", "b c", "漢", "░", "▀", "▄", "é", "         "};
    struct pane p = grid_pane(g);
    for (int i = below(12); i >= 0; i--) {
        int x = below(g->w), y = below(g->h), kind = below(3);
        enum attr attr = kind == 0   ? (enum attr)below(ATTR_RAMP0)
                         : kind == 1 ? (enum attr)(ATTR_RAMP0 + below(RAMP_LEVELS))
                                     : attr_half(below(HALF_LEVELS) - 1, below(HALF_LEVELS) - 1);
        for (int n = below(6); n >= 0; n--)
            x = pane_puts(p, x, y, attr, kind == 2 ? below(2) ? "▀" : "▀▀" : texts[below(9)]);
    }
    g->cursor_x = below(4) ? below(g->w) : -1;
    g->cursor_y = below(g->h);
    if (g->cursor_x > 0 && g->cells[g->cursor_y * g->w + g->cursor_x].width == 0) g->cursor_x--;
}

/* Whatever changes, the terminal shows the grid, and its cursor is in place. */
TEST(test_frames)
{
    static struct terminal t;
    static const int colors[] = {0, 16, 256, COLOR_TRUE};
    for (int run = 0; run < 80; run++) {
        struct look look = {.colors = colors[run % 4], .light = run % 8 > 3};
        struct ansi a = {.look = &look};
        struct grid now = {0}, before = {0};
        grid_init(&now, 1 + below(60), 1 + below(8), false);
        grid_init(&before, now.w, now.h, false);
        clear(&t, now.w, now.h);
        t.pen = (struct cell_style){STYLE_REVERSE, 1, 2}; /* of a program before it */
        ansi_begin(&a);
        for (int frame = 0; frame < 40; frame++) {
            change(&now);
            for (int y = 0; y < now.h; y++) ansi_row(&a, &now, &before.cells[y * now.w], y);
            ansi_cursor(&a, &now);
            feed(&t, str_get(&a.bytes));
            str_clear(&a.bytes);
            agrees(&t, &now, &look);
            assert_int_equal(a.visible, now.cursor_x >= 0);
            if (a.visible) assert_true(t.x == now.cursor_x && t.y == now.cursor_y);
            memcpy(before.cells, now.cells, sizeof *now.cells * (size_t)(now.w * now.h));
        }
        str_release(&a.bytes);
        grid_release(&now);
        grid_release(&before);
    }
}

/* Terminals disagree about the width of some characters: behind one, moves say the column. */
TEST(test_moves_behind_wide_characters)
{
    struct look look = {.colors = 256};
    struct ansi a = {.look = &look};
    struct grid now = {0}, before = {0};
    grid_init(&now, 60, 1, false);
    grid_init(&before, 60, 1, false);
    pane_puts(grid_pane(&now), 0, 0, ATTR_TEXT, "a");
    pane_puts(grid_pane(&now), 20, 0, ATTR_TEXT, "漢");
    pane_puts(grid_pane(&now), 40, 0, ATTR_TEXT, "b");
    ansi_begin(&a);
    ansi_row(&a, &now, before.cells, 0);
    assert_string_equal(str_get(&a.bytes), "\033[m\033[?25l\033[1;1Ha\033[19C漢\033[1;41Hb");
    str_release(&a.bytes);
    grid_release(&now);
    grid_release(&before);
}

/* ---- as a picture ---------------------------------------------------------------------------- */

static void feed_svg(struct svg *s, const char *path)
{
    AUTO_FREE char *line = NULL;
    size_t cap = 0;
    int w, h;
    FILE *f = fopen(path, "r");
    assert_true(getline(&line, &cap, f) > 0);
    while (getline(&line, &cap, f) > 0) {
        cJSON *event = cJSON_Parse(line);
        const char *text = cJSON_GetArrayItem(event, 2)->valuestring;
        if (cJSON_GetArrayItem(event, 1)->valuestring[0] == 'o')
            svg_feed(s, text);
        else if (sscanf(text, "%dx%d", &w, &h) == 2)
            svg_resize(s, w, h);
        cJSON_Delete(event);
    }
    fclose(f);
}

/* Puts the characters of a row's texts into their columns. */
static void read_row(const char *svg, const char *end, uint32_t row[W_MAX])
{
    for (int x = 0; x < W_MAX; x++) row[x] = ' ';
    while ((svg = strstr(svg, "<text x=\"")) && svg < end) {
        double left;
        assert_int_equal(sscanf(svg, "<text x=\"%lf\"", &left), 1);
        int x = (int)(left / 7.2 + .5);
        for (svg = strchr(svg, '>') + 1; *svg != '<';) {
            static const char *const names[] = {"&amp;", "&lt;", "&gt;"};
            uint32_t cp;
            int n = utf8_next(svg, strlen(svg), &cp);
            for (int i = 0; cp == '&' && i < 3; i++)
                if (!strncmp(svg, names[i], strlen(names[i])))
                    cp = (uint32_t) "&<>"[i], n = (int)strlen(names[i]);
            if (utf8_width(cp) > 0) row[x] = cp;
            x += utf8_width(cp);
            svg += n;
        }
    }
}

static bool is_drawn(uint32_t cp)
{
    return cp == 0x2580 || (cp >= 0x2581 && cp <= 0x2593 && cp != 0x2590);
}

static void row_shows(const uint32_t row[W_MAX], const struct grid *g, int y)
{
    for (int x = 0; x < g->w; x++) {
        const struct cell *c = &g->cells[y * g->w + x];
        if (c->width > 0)
            assert_int_equal(row[x], is_drawn((uint32_t)c->text[0]) ? ' ' : c->text[0]);
    }
}

static void still_shows(const struct str *svg, const struct grid *g)
{
    uint32_t row[W_MAX];
    char begin[64];
    for (int y = 0; y < g->h; y++) {
        snprintf(begin, sizeof begin, "<g transform=\"translate(0 %g)\">", 15.0 * y + 11);
        const char *at = strstr(svg->data, begin);
        for (int x = 0; x < W_MAX; x++) row[x] = ' ';
        if (at) read_row(at, strstr(at, "</g>"), row);
        row_shows(row, g, y);
    }
}

TEST(test_pictures)
{
    const char *path = path_in(folder_new(), "talk.cast");
    AUTO_STAGE s;
    struct record *r;
    AUTO_STR still = {0};
    stage_init(&s, false, false);
    s.app.halves = true;
    stage_open(&s, NULL);
    ok(record_open(&r, path, &err));
    for (int i = 0; i < 6; i++) {
        stage_type(&s, i % 2 ? "a <b> & \"c\" 漢字\r" : "unicode\r");
        if (i == 4) stage_key(&s, K_F1 + 2);
        stage_draw(&s, i < 3 ? 80 : 100, 24);
        record_frame(r, &s.grid);
    }
    ok(record_close(r, &err));
    struct svg *one = svg_new(80, 24, false);
    feed_svg(one, path);
    svg_write(one, &still);
    still_shows(&still, &s.grid);
    svg_free(one);
}

/* Colours stay until they are changed. */
TEST(test_picture_colors)
{
    AUTO_STR out = {0};
    struct svg *s = svg_new(10, 1, false);
    svg_feed(s, "\033[38;2;1;2;3mA\033[2C\033[48;2;4;5;6mB\033[39mC\033[7mD\033[mE");
    svg_write(s, &out);
    static const char *const parts[] = {
        "fill=\"#010203\" textLength=\"7.2\">A<", "fill=\"#010203\" textLength=\"7.2\">B<",
        "x=\"28.8\" textLength=\"7.2\">C<",       "fill=\"#040506\" textLength=\"7.2\">D<",
        "x=\"43.2\" textLength=\"7.2\">E<",       "stroke=\"#040506\" d=\"M3 0.5h2"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        assert_non_null(strstr(out.data, parts[i]));
    svg_free(s);
}

/* A recording of others draws no more than its cells, wherever it moves the cursor. */
TEST(test_hostile_pictures)
{
    static const char *const texts[] = {"\033[999999999;999999999Hx",
                                        "\033[0;0Hx\033[-3;-4Hy",
                                        "\033[",
                                        "\033[38;2;1m\033[48;5m",
                                        "\033[38;2;999999999999;1;1mz",
                                        "\xcc\x81\xcc\x81",
                                        "\xff\xfe\033",
                                        "\033[1;10H漢",
                                        "a\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81"
                                        "\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81"
                                        "\xcc\x81\xcc\x81\xcc\x81"};
    AUTO_STR out = {0};
    struct svg *s = svg_new(10, 3, false);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) svg_feed(s, texts[i]);
    svg_resize(s, 1, 1);
    svg_feed(s, "]]></svg>");
    svg_write(s, &out);
    assert_non_null(strstr(out.data, "</g></svg>\n"));
    assert_null(strstr(out.data, "]]></svg>"));
    svg_free(s);
}

/* Typed bytes arrive in pieces of any size, and need not be UTF-8. */
TEST(test_typed)
{
    const char *path = path_in(folder_new(), "talk.cast");
    AUTO_STAGE s;
    AUTO_STR out = {0}, found = {0}, typed = {0};
    struct record *r;
    stage_init(&s, false, false);
    stage_open(&s, NULL);
    stage_draw(&s, 80, 24);
    ok(record_open(&r, path, &err));
    record_frame(r, &s.grid);
    record_input(r, "a\xe6", 2);
    record_input(r,
                 "\xbc\xa2\xff"
                 "b\xe6",
                 5);
    record_input(r, "c", 1);
    for (int i = 0; i < 100; i++) str_puts(&typed, "\xe6\xbc\xa2");
    record_input(r, typed.data, typed.n);
    ok(record_close(r, &err));
    ok(file_read(path, FILE_DATA, &found, &err));
    assert_non_null(strstr(found.data, "\"i\", \"a\"]\n"));
    assert_non_null(strstr(found.data, "\"i\", \"漢\xef\xbf\xbd"
                                       "b\"]\n"));
    assert_non_null(strstr(found.data, "\"i\", \"\xef\xbf\xbd"
                                       "c\"]\n"));
    for (size_t at = 0; at < found.n;) {
        int length = utf8_length(found.data + at, found.n - at);
        assert_true(length > 0);
        at += (size_t)length;
    }
}

/* The file is as private as the conversation in it, and an incomplete one is reported as such. */
TEST(test_files)
{
    const char *path = path_in(folder_new(), "talk.cast");
    AUTO_STAGE s;
    struct stat st;
    struct record *r;
    mode_t before = umask(0);
    ok(record_open(&r, path, &err));
    umask(before);
    ok(record_close(r, &err));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    stage_init(&s, false, false);
    stage_open(&s, NULL);
    stage_draw(&s, 80, 24);
    ok(record_open(&r, "/dev/full", &err));
    record_frame(r, &s.grid);
    record_input(r, "x", 1);
    assert_int_equal(record_close(r, &err), ERR_FAIL);
    assert_string_equal(err.text,
                        "the recording /dev/full is not complete: No space left on device");
}

static void assert_clean(const char *text, const char *expected)
{
    AUTO_STR out = {0};
    record_clean(text, true, &out);
    assert_string_equal(str_get(&out), expected);
}

/* From an untrusted recording only moves, colours and clears reach the terminal. */
TEST(test_strangers)
{
    assert_clean("\033[0m\033[2J\033[3;4Hab\033[0;1;38;5;7mc\033[?25l\033[1;1H\033[?25h",
                 "\033[0m\033[2J\033[3;4Hab\033[0;1;38;5;7mc\033[?25l\033[1;1H\033[?25h");
    assert_clean("\033]52;c;eA==\a", "^[]52;c;eA==^G");
    assert_clean("\033]0;t\033\\x", "^[]0;t^[\\x");
    assert_clean("\033[21t\033[6n\033[?1049l\033[?25", "^[[21t^[[6n^[[?1049l^[[?25");
    assert_clean("\033P+q\033c\xC2\x9B\x31m\r\n\033", "^[P+q^[c<U+009B>1m^M^J^[");
}

TEST(test_errors)
{
    struct record *r;
    struct options o;
    assert_true(record_open(&r, "/no/such/folder/file", &err) != 0);
    assert_null(r);
    assert_non_null(strstr(err.text, "/no/such/folder/file"));
    options_init(&o);
    assert_int_equal(cmd_replay(&o), 2);
    o.args[o.n_args++] = "/no/such/file";
    assert_int_equal(cmd_replay(&o), 1);
    o.args[0] = "README.md";
    assert_int_equal(cmd_replay(&o), 3);
}
