/* Every view at five sizes, compared with saved pictures. `test_render --update` writes them again:
 * review the difference before you commit it. */
#include "tests/test.h"

#include "cli/print/num.h"
#include "cli/control/ramp.h"
#include "tests/tui/fake_stage.h"
#include "tests/unit/make_model.h"

static const struct {
    int w, h;
} sizes[] = {{1, 1}, {20, 5}, {40, 12}, {80, 24}, {160, 50}};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

/* The line of a picture that begins with `label`, or its n-th from 0; NULL = there is none. */
static char *line_of(const struct str *picture, const char *label, int n)
{
    char *line = picture->data;
    for (; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL)
        if (label ? strncmp(line, label, strlen(label)) == 0 : n-- == 0) return line;
    return NULL;
}

static void cut(struct str *picture, char *from, char *to)
{
    memmove(from, to, strlen(to) + 1);
    picture->n -= (size_t)(to - from);
}

/* Removes the hint bar, the last line of a view, from a picture, and the line of its attributes. */
static void cut_hints(struct str *picture, int h)
{
    char label[16];
    snprintf(label, sizeof label, "%d ", h - 1);
    char *attributes = line_of(picture, label, 0), *cells = line_of(picture, NULL, h);
    if (!attributes || !cells) return;
    /* Hints begin with a blank; a message's prompt begins at once. */
    const char *first = attributes + strlen(label);
    if (first[0] != '1' || !strchr("-:", first[1]) ||
        strncmp(first + strcspn(first, ":\n"), ":key", 4))
        return;
    cut(picture, attributes, strchr(attributes, '\n') + 1);
    cut(picture, cells, strchr(cells, '\n') + 1);
}

static void compare(const char *name, int w, int h, const char *text)
{
    char path[256], *saved = NULL;
    size_t cap = 0;
    snprintf(path, sizeof path, "tests/tui/golden/%s_%dx%d.txt", name, w, h);
    const bool update = test_argc > 1 && strcmp(test_argv[1], "--update") == 0;
    FILE *f = fopen(path, update ? "w" : "r");
    if (!f) fail_msg("cannot open %s", path);
    if (update) {
        fputs(text, f);
        fclose(f);
        return;
    }
    ssize_t n = getdelim(&saved, &cap, 0, f);
    fclose(f);
    if (n < 0 || strcmp(saved, text) != 0) {
        fprintf(stderr, "%s was\n%sis\n%s", path, n < 0 ? "" : saved, text);
        free(saved);
        fail_msg("%s differs", path);
    }
    free(saved);
}

/* Without the hint bar, which test_hints has alone: otherwise every picture changes with it. */
static void compare_view(struct stage *s, const char *name, int w, int h)
{
    stage_draw(s, w, h);
    cut_hints(&s->drawn, h);
    compare(name, w, h, str_get(&s->drawn));
}

static void compare_all(struct stage *s, const char *name)
{
    for (int i = 0; i < N_SIZES; i++) compare_view(s, name, sizes[i].w, sizes[i].h);
}

/* Two turns; the second fills the cache. model: NULL = the demo. */
static void talk(struct stage *s, bool ascii, const char *model)
{
    stage_init(s, ascii, false);
    scripted.model = model;
    stage_list(s);
    stage_open(s, NULL);
    stage_type(s, "what is a unit?\r");
    stage_type(s, "tell me more, in words 150\r");
    stage_list(s);
}

TEST(test_chat)
{
    AUTO_STAGE s;
    talk(&s, true, NULL);
    stage_type(&s, "and what was");
    stage_key(&s, '\n');
    stage_type(&s, "the commit");
    s.app.now_ms += 60000;
    compare_all(&s, "chat");
}

TEST(test_chat_blocks)
{
    AUTO_STAGE s;
    stage_init(&s, false, false);
    stage_open(&s, NULL);
    stage_type(&s, "unicode please\r");
    stage_type(&s, "code\r");
    stage_type(&s, "evil\r");
    s.app.now_ms += 60000;
    compare_view(&s, "chat_blocks", 80, 24);
    compare_view(&s, "chat_blocks", 38, 24);
}

TEST(test_loading)
{
    AUTO_STAGE s;
    stage_init(&s, true, false);
    stage_list(&s);
    stage_progress(&s, EVENT_LOADING, 0, INT64_C(2200000000));
    s.app.now_ms += 2000;
    stage_progress(&s, EVENT_LOADING, INT64_C(880000000), INT64_C(2200000000));
    stage_type(&s, "first question\rsecond question\r");
    compare_all(&s, "loading");
}

TEST(test_answering)
{
    AUTO_STAGE s;
    stage_start(&s, false, NULL);
    stage_type(&s, "what is a unit?\r");
    s.freeze_after = 40;
    stage_type(&s, "tell me more, in words 150\r");
    stage_type(&s, "a question that waits\r");
    compare_view(&s, "answering", 80, 24);
}

TEST(test_views)
{
    static const struct {
        const char *name;
        uint32_t keys[2];
    } views[] = {{"map", {K_F1 + 2}},
                 {"tint", {K_F1 + 3, K_UP}},
                 {"list", {K_F1 + 1, K_DOWN}},
                 {"help", {K_F1}}};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        AUTO_STAGE s;
        talk(&s, true, NULL);
        stage_key(&s, views[i].keys[0]);
        if (views[i].keys[1]) stage_key(&s, views[i].keys[1]);
        compare_all(&s, views[i].name);
    }
}

/* A model of so many layers with 8 KV heads each. */
static const char *with_layers(int n_layer)
{
    struct model_kind k = model_kinds[1];
    struct maker m;
    k.n_layer = n_layer;
    make_kind(&m, &k);
    stage_library(); /* makes the folder */
    return stage_model(&m);
}

TEST(test_map_layer)
{
    AUTO_STAGE s;
    talk(&s, true, with_layers(36));
    stage_key(&s, K_F1 + 2);
    compare_view(&s, "map36", 80, 24);
    for (int i = 0; i < 20; i++) stage_key(&s, K_RIGHT);
    stage_key(&s, K_DOWN);
    stage_key(&s, 'l');
    compare_view(&s, "map36_layer", 80, 24);
}

/* A number of a turn below the map is whole or left out: they rise at every width. */
TEST(test_turn_numbers_are_whole)
{
    AUTO_STAGE s;
    stage_start(&s, true, NULL);
    for (int i = 0; i < 12; i++) stage_type(&s, "words 3\r");
    app_show(&s.app, VIEW_MAP);
    for (int w = 40; w < 120; w++) {
        const char *row = strstr(stage_draw(&s, w, 24), "\nturn ");
        assert_non_null(row);
        const char *end = row + 1 + strcspn(row + 1, "\n");
        for (long turn = 0, next; (row += strcspn(row, "0123456789")) < end; turn = next) {
            next = strtol(row, (char **)&row, 10);
            if (next <= turn || next > 12) fail_msg("%d columns: %ld after %ld", w, next, turn);
        }
    }
}

TEST(test_map_modes)
{
    AUTO_STAGE s;
    talk(&s, true, NULL);
    stage_type(&s, "go on in words 400\r");
    stage_key(&s, K_F1 + 2);
    for (int i = 0; i < 12; i++) stage_key(&s, K_RIGHT);
    stage_type(&s, "ll");
    compare_view(&s, "map_rows", 80, 24);
    stage_type(&s, "lw");
    compare_view(&s, "map_waterfall", 80, 24);
    stage_type(&s, "w++z");
    compare_view(&s, "map_zoom", 80, 24);
}

/* Layers with a state, and layers with a window, are shown as what they are. */
TEST(test_map_kinds)
{
    static const char *const models[] = {"qwen35", "gemma3"};
    struct stage s;
    char path[64], name[32];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "build/golden/families/%s.gguf", models[i]);
        talk(&s, true, path);
        stage_key(&s, K_F1 + 2);
        snprintf(name, sizeof name, "map_%s", models[i]);
        compare_view(&s, name, 80, 24);
        stage_type(&s, "ll");
        snprintf(name, sizeof name, "map_%s_rows", models[i]);
        compare_view(&s, name, 80, 24);
        stage_release(&s);
    }
}

/* 80 layers are folded. */
TEST(test_map80)
{
    AUTO_STAGE s;
    talk(&s, false, with_layers(80));
    s.app.halves = true;
    stage_key(&s, K_F1 + 2);
    compare_view(&s, "map80_halves", 80, 24);
}

/* Two layers in one line, in two colours. */
TEST(test_map_halves)
{
    AUTO_STAGE s;
    talk(&s, false, with_layers(36));
    s.app.halves = true;
    stage_key(&s, K_F1 + 2);
    compare_view(&s, "map36_halves", 80, 24);
    stage_type(&s, "w");
    compare_view(&s, "map36_waterfall_halves", 80, 24);
}

TEST(test_hints)
{
    static const int widths[] = {40, 80, 160};
    AUTO_STAGE s;
    AUTO_STR hints = {0};
    talk(&s, true, NULL);
    for (int view = 0; view < VIEWS; view++)
        for (int i = 0; i < 3; i++) {
            app_show(&s.app, (enum view)view);
            stage_run(&s);
            stage_draw(&s, widths[i], 24);
            str_printf(&hints, "%.*s\n", widths[i] + 1, line_of(&s.drawn, NULL, 24));
            const char *attributes = line_of(&s.drawn, "23 ", 0);
            str_append(&hints, attributes, strcspn(attributes, "\n") + 1);
        }
    compare("hints", 160, 24, str_get(&hints));
}

/* ---- properties ----------------------------------------------------------------------------- */

/* No cell holds half of a wide character, and the cursor is on the screen. */
static void check_grid(const struct grid *g)
{
    for (int y = 0; y < g->h; y++)
        for (int x = 0; x < g->w; x++) {
            const struct cell *c = &g->cells[y * g->w + x];
            if (c->width == 2) assert_true(x + 1 < g->w && c[1].width == 0);
            if (c->width == 0) assert_true(x > 0 && c[-1].width == 2);
            for (int i = 0; c->text[i]; i++) assert_true(c->text[i] >= 0x20 && c->text[i] != 0x7F);
            if (g->ascii && c->width) assert_true(c->text[0] < 0x7F && c->text[1] == 0);
        }
    assert_true(g->cursor_x < g->w && g->cursor_y < g->h);
}

TEST(test_every_size)
{
    struct stage s;
    for (int ascii = 0; ascii < 2; ascii++) {
        talk(&s, ascii != 0, NULL);
        stage_type(&s, "unicode\revil\r");
        stage_type(&s, "漢字 and more 漢字\n\tx");
        stage_key(&s, '\n');
        for (int view = 0; view < VIEWS; view++) {
            app_show(&s.app, (enum view)view);
            stage_run(&s);
            for (int h = 1; h < 40; h += h < 12 ? 1 : 5)
                for (int w = 1; w < 180; w += w < 30 ? 1 : 7) {
                    app_draw(&s.app, &s.grid, w, h);
                    check_grid(&s.grid);
                }
        }
        stage_release(&s);
    }
}

/* The strip's cells and the map's rows add up to the engine's counts. */
TEST(test_sums)
{
    AUTO_STAGE s;
    talk(&s, true, NULL);
    const struct retention *r = s.map;
    for (int width = 1; width <= RETENTION_COLS && width <= r->n_cols; width += 3) {
        int64_t kept = 0, seen = 0;
        for (int x = 0; x < width; x++) {
            int col, end;
            int64_t k, n;
            ramp_columns(r, width, x, &col, &end);
            ramp_sum(r, ramp_all(r), col, end, &k, &n);
            kept += k;
            seen += n;
        }
        assert_int_equal(kept, s.app.stats.units_kept);
        assert_int_equal(seen, s.app.stats.units_seen);
    }
}

/* A row of any width shows all columns in order, and its last cell the last one. */
TEST(test_stretch)
{
    for (int n = 1; n <= RETENTION_COLS; n += 7)
        for (int width = 1; width < 2 * RETENTION_COLS; width += 5) {
            int from, end, before = 0;
            for (int x = 0; x < width; x++) {
                ramp_stretch(n, width, x, &from, &end);
                assert_true(end > from && from <= before && end >= before);
                assert_true(width > n || from == before);
                before = end;
            }
            assert_int_equal(before, n);
            for (int col = 0; col < n; col++) {
                ramp_stretch(n, width, ramp_cell(n, width, col), &from, &end);
                assert_in_range(col, from, end - 1);
            }
        }
}

/* The header, the strip and the counters say the same; unknown is n/a, never 0. */
TEST(test_numbers_agree)
{
    AUTO_STAGE s;
    char b[NUM_MAX], strip[64], title[64];
    talk(&s, true, NULL);
    for (int i = 0; i < 2; i++) {
        struct session_stats *st = &s.app.stats;
        int64_t heads = (int64_t)st->n_layer * st->n_kv_head;
        st->n_tokens -= i; /* the last token of an answer is not read yet */
        snprintf(strip, sizeof strip, "%lld of %lld kept", (long long)(st->units_kept / heads),
                 (long long)st->n_tokens);
        snprintf(title, sizeof title, "| %lld tok |", (long long)st->n_tokens);
        s.app.around.grid = NULL;
        shows(&s, strip);
        shows_too(&s, title);
        shows_too(&s, "budget 128");
    }
    s.app.stats.decode_tok_s = s.app.stats.prefill_tok_s = s.app.stats.first_token_ms = 0;
    s.app.stats.weights_bytes = s.app.stats.cache_bytes = s.app.stats.scratch_bytes = 1 << 20;
    stage_type(&s, "/stats\r");
    assert_non_null(strstr(stage_draw(&s, 160, 50), "first token n/a"));
    hides_too(&s, "[w"); /* 3 MiB of 24 GiB are less than a column */
    hides_too(&s, "[.");
    assert_string_equal(num_count(1175, b), "1.2k");
    assert_string_equal(num_count(999949, b), "999.9k");
    assert_string_equal(num_count(999999, b), "1.00M");
    assert_string_equal(num_count(INT64_MAX, b), "9223372036854.78M");
    assert_string_equal(num_age(1795434960326, 1795434960326 - 5 * 60000, b), "5m");
    assert_string_equal(num_age(1795434960326, INT64_MIN, b), "292471265y");
    assert_string_equal(num_left(0.2, b), "1 s left");
    assert_string_equal(num_left(2341, b), "39 min left");
    assert_string_equal(num_left(9000, b), "2.5 h left");
}

TEST(test_classes)
{
    static const struct {
        int64_t kept, seen;
        enum ramp cls;
    } shares[] = {{0, 100, RAMP_GONE},   {1, 1000000, RAMP_FEW}, {2, 100, RAMP_FEW},
                  {21, 1000, RAMP_SOME}, {10, 100, RAMP_SOME},   {101, 1000, RAMP_MANY},
                  {40, 100, RAMP_MANY},  {401, 1000, RAMP_MOST}, {100, 100, RAMP_MOST}};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
        assert_int_equal(ramp_level_class(ramp_level(shares[i].kept, shares[i].seen)),
                         shares[i].cls);
}

/* Columns of 10 tokens, # = alive: ##..#...#. A jump lands at the beginning of a gap, from either
 * side. */
TEST(test_jumps_to_the_beginning_of_gaps)
{
    enum { NONE = -1 };
    static const int64_t kept[] = {4, 4, 0, 0, 4, 0, 0, 0, 4};
    static const struct {
        int64_t from, before, after;
    } jumps[] = {{5, NONE, 20}, {20, NONE, 50}, {35, NONE, 50},
                 {45, 20, 50},  {55, 20, NONE}, {85, 50, NONE}};
    struct retention r = {.n_layer = 1, .n_head = 1, .col_width = 10, .n_cols = 9, .n_pos = 90};
    struct app a = {.map = &r};
    for (int i = 0; i < 9; i++) a.col_kept[i] = kept[i];
    for (size_t i = 0; i < sizeof jumps / sizeof *jumps; i++) {
        assert_int_equal(map_next_gone(&a, jumps[i].from, false), jumps[i].before);
        assert_int_equal(map_next_gone(&a, jumps[i].from, true), jumps[i].after);
    }
}

/* How many heads hold the token under the cursor. */
TEST(test_fates)
{
    AUTO_STAGE s;
    talk(&s, true, NULL);
    app_show(&s.app, VIEW_MAP);
    const int n_heads = s.map->n_layer * s.map->n_head;
    for (int64_t at = 0; at < s.map->n_pos; at++) {
        char fate[64];
        const int n = s.map->heads[at];
        s.app.mapped.position = at;
        snprintf(fate, sizeof fate, "kept by %d/%d heads%s", n, n_heads,
                 n == 0            ? "  evicted"
                 : 4 * n < n_heads ? "  thin"
                                   : "");
        assert_non_null(strstr(stage_draw(&s, 160, 50), fate));
    }
    assert_int_equal(s.map->heads[0], n_heads); /* a sink */
}

/* A column that just lost units keeps its colour. */
TEST(test_losses)
{
    AUTO_STAGE s;
    talk(&s, false, NULL);
    s.app.halves = true;
    s.app.lost_until_ms = s.app.now_ms + 1;
    memset(s.app.col_lost, 1, sizeof s.app.col_lost);
    stage_draw(&s, 80, 24);
    const char *ribbon = strstr(s.drawn.data, "memory  ");
    assert_non_null(ribbon);
    assert_memory_equal(ribbon + strlen("memory  "), "▀▀▀▀", strlen("▀▀▀▀"));
    hides_too(&s, ":mark");
}

/* Help begins with the keys of the view it is opened in, and returns there. */
TEST(test_help_of_a_view)
{
    AUTO_STAGE s;
    talk(&s, true, NULL);
    app_show(&s.app, VIEW_MAP);
    stage_key(&s, K_F1);
    stage_draw(&s, 80, 24);
    assert_non_null(line_of(&s.drawn, "  Map (F3)", 0));
    assert_ptr_equal(line_of(&s.drawn, "  Map (F3)", 0), line_of(&s.drawn, NULL, 2));
    stage_key(&s, 'q');
    assert_int_equal(s.app.view, VIEW_MAP);
    stage_key(&s, 'q');
    assert_int_equal(s.app.view, VIEW_CHAT);
    stage_key(&s, K_F1);
    stage_draw(&s, 80, 24);
    assert_non_null(line_of(&s.drawn, "  Everywhere", 0));
}

/* Where 40 columns have no room for everything, all signs are explained, and text that is cut ends
 * with an ellipsis. */
TEST(test_narrow)
{
    AUTO_STAGE s;
    talk(&s, true, NULL);
    s.app.returned = (struct recalled_spans){.n = 1, .spans = {{3, 5}}};
    app_event(&s.app, "forgot 17 words of turns 1 to 3, and an end that is too long");
    assert_non_null(strstr(stage_draw(&s, 40, 24), "forgot 17 words of turn...|"));
    stage_key(&s, K_F1 + 2);
    const char *signs = "# most = many : some . few   gone - all ^ returned";
    shows(&s, signs);
    signs = " #most =many :some .few  gone ^ returned|";
    assert_non_null(strstr(stage_draw(&s, 40, 24), signs));
    stage_key(&s, K_F1 + 3);
    assert_non_null(strstr(stage_draw(&s, 40, 24), signs));
}

/* Text that came back for a message is told apart until the next message. */
TEST(test_returned)
{
    AUTO_STAGE s;
    struct event ev = {.kind = EVENT_RECALLED, .text = "remembered turn 1", .n_text = 17};
    talk(&s, true, NULL);
    ev.recalled = (struct recalled_spans){.n = 1, .spans = {{0, 6}}};
    app_take(&s.app, &ev);
    app_show(&s.app, VIEW_TINT);
    s.app.tint.position = 0;
    shows(&s, "all ^ returned");
    const char *turn = strstr(s.drawn.data, "\n1 ");
    assert_non_null(turn);
    turn = strstr(turn, ":returned");
    assert_non_null(turn);
    app_show(&s.app, VIEW_CHAT);
    stage_type(&s, "next\r");
    app_show(&s.app, VIEW_TINT);
    hides(&s, "returned");
}

/* A turn with text of other conversations stands before the message, and every token of it is in
 * its place. */
TEST(test_passage)
{
    static const char *const texts[] = {"From \"work\": My locker code is 40917.", "Noted.",
                                        "what is my locker code?"};
    AUTO_STAGE s;
    stage_init(&s, true, false);
    s.o.chat.recall_from = "all";
    stage_open(&s, NULL);
    stage_type(&s, "My locker code is 40917.\r/rename work\r/new\r");
    stage_type(&s, "what is my locker code?\r");
    const struct message *m = s.app.talk.messages;
    assert_int_equal(s.app.talk.n, 4);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(str_get(&m[i].raw), texts[i]);
        assert_true(m[i].n_tokens > 0);
        assert_int_equal(m[i].position + m[i].n_tokens, m[i + 1].position);
    }
}

/* The page of the text has no blank end while there is text before it. */
TEST(test_tint_is_full)
{
    AUTO_STAGE s;
    stage_start(&s, false, NULL);
    for (int i = 0; i < 10; i++) stage_type(&s, "words 60\r");
    app_show(&s.app, VIEW_TINT);
    stage_draw(&s, 80, 24);
    for (int y = 1; y < 21; y++) {
        const char *line = line_of(&s.drawn, NULL, y);
        assert_true(strspn(line, " ") < 80);
    }
}

/* New text does not move a view that is scrolled up; resizing keeps its first line. */
TEST(test_scroll_is_held)
{
    AUTO_STAGE s;
    stage_start(&s, true, NULL);
    stage_type(&s, "words 900\r");
    stage_draw(&s, 80, 24);
    stage_key(&s, K_PAGE_UP);
    stage_key(&s, K_PAGE_UP);
    app_draw(&s.app, &s.grid, 80, 24);
    int message = s.app.chat.top_message;
    size_t byte = s.app.chat.top_byte;
    stage_type(&s, "words 20");
    /* sending jumps to the end again; text of a running answer does not */
    struct stage *again = &s;
    stage_text(again, EVENT_TEXT, "more and more and more\nand more\n");
    app_draw(&s.app, &s.grid, 80, 24);
    assert_true(s.app.chat.held);
    assert_int_equal(s.app.chat.top_message, message);
    assert_int_equal(s.app.chat.top_byte, byte);
    for (int i = 0; i < 500; i++) app_draw(&s.app, &s.grid, 1 + i * 37 % 200, 1 + i * 13 % 60);
    app_draw(&s.app, &s.grid, 80, 24);
    assert_int_equal(s.app.chat.top_message, message);
    assert_int_equal(s.app.chat.top_byte, byte);
    stage_key(&s, K_END);
    app_draw(&s.app, &s.grid, 80, 24);
    assert_false(s.app.chat.held);
}

/* How often the text moves while `rows` of it arrive, one per `ms`; its end is always on the
 * screen. */
static int leaps(int rows, int ms)
{
    struct stage s;
    int n = 0, top = -1;
    stage_start(&s, true, NULL);
    s.freeze_after = 1;
    stage_type(&s, "words 900\r");
    for (int i = 0; i < rows; i++) {
        char line[32];
        snprintf(line, sizeof line, "\n\nline%04d", i); /* a paragraph: two rows */
        s.app.now_ms += ms;
        stage_text(&s, EVENT_TEXT, line);
        shows(&s, line + 2);
        n += s.app.chat.top_row != top;
        top = s.app.chat.top_row;
    }
    stage_release(&s);
    return n;
}

TEST(test_fast_text_leaps)
{
    assert_in_range(leaps(300, 1000), 290, 300);
    assert_in_range(leaps(300, 200), 60, 125); /* twice a second */
    assert_in_range(leaps(300, 25), 60, 100);  /* by half a page */
}

/* The parts left on the screen while an answer streams equal those of a whole frame. */
TEST(test_parts_make_the_whole)
{
    static const struct {
        int w, h;
    } at[] = {{160, 50}, {80, 24}, {120, 30}, {80, 14}, {40, 12}};
    AUTO_STAGE s;
    struct grid whole = {0};
    AUTO_STR parts = {0}, out = {0};
    stage_init(&s, false, false);
    stage_open(&s, NULL);
    stage_type(&s, "tell me more, in words 300\r");
    s.freeze_after = 40;
    stage_type(&s, "and more, in words 300\r");
    for (int i = 0; i < 200; i++) {
        int w = at[i / 40].w, h = at[i / 40].h;
        app_draw(&s.app, &s.grid, w, h);
        stage_text(&s, EVENT_TEXT, i % 7 ? " wörter 字" : "\n\n# next\n");
        if (i % 3 == 0) stage_key(&s, i % 5 ? 'x' : '\n');
        if (i % 11 == 0) stage_type(&s, " queued\r");
        if (i % 13 == 0) stage_key(&s, i % 2 ? K_PAGE_UP : K_END);
        if (i % 17 == 0) stage_key(&s, CTRL('r'));
        app_draw(&s.app, &s.grid, w, h);
        str_clear(&parts);
        grid_dump(&s.grid, &parts);
        str_clear(&out);
        app_draw(&s.app, &whole, w, h); /* another grid: it is blank */
        grid_dump(&whole, &out);
        assert_string_equal(str_get(&parts), str_get(&out));
    }
    grid_release(&whole);
}
