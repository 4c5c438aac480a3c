/* The screens with the real engine and the demo model: every cell of strip, map, head map,
 * waterfall and tint, and the numbers next to them, equal the engine's own tables. */
#include "tests/test.h"

#include <math.h>

#include "cli/control/ramp.h"
#include "cli/plain/plain_parts.h"
#include "cli/print/num.h"
#include "quant/eval/task_words.h"
#include "runtime/cache/cache.h"
#include "tests/tui/stage.h"
#include "tests/unit/same_units.h"

static struct stage s;
static int n_evictions;

/* ---- the engine's tables --------------------------------------------------------------------- */

struct count {
    int64_t kept, seen;
};

/* Units of a part at positions [from, end). */
static struct count in_tables(struct ramp_part part, int64_t from, int64_t end)
{
    const struct cache *c = session_cache(s.control.parts.session);
    struct count n = {0};
    if (end > c->n_pos) end = c->n_pos;
    if (end > from) n.seen = (end - from) * part.n_layer * part.n_head;
    for (int layer = part.layer; layer < part.layer + part.n_layer; layer++)
        for (int head = part.head; head < part.head + part.n_head; head++) {
            const struct cache_head *h = cache_head(c, layer, head);
            for (int i = 0; i < h->len; i++) n.kept += h->pos[i] >= from && h->pos[i] < end;
        }
    return n;
}

static const struct cell *cell_at(int x, int y)
{
    return &s.grid.cells[y * s.grid.w + x];
}

/* Whether no eviction has touched a position: all heads hold it and every later one, or it is a
 * sink, and they hold every earlier one. */
static bool is_untouched(int64_t position)
{
    const int64_t n_pos = session_cache(s.control.parts.session)->n_pos;
    struct count later = in_tables(ramp_all(s.map), position, n_pos);
    struct count earlier = in_tables(ramp_all(s.map), 0, position + 1);
    return position < n_pos &&
           (later.kept == later.seen || (position < s.map->n_sink && earlier.kept == earlier.seen));
}

/* The part's units at positions [from, end), without the untouched ones at either side. */
static struct count in_old(struct ramp_part part, int64_t from, int64_t end)
{
    const int64_t n_pos = session_cache(s.control.parts.session)->n_pos;
    if (end > n_pos) end = n_pos;
    while (from < end && is_untouched(from) && from < s.map->n_sink) from++;
    while (from < end && is_untouched(end - 1)) end--;
    return in_tables(part, from, end);
}

/* The class of n units, and of the ribbon's if compared with all old text. */
static int class_of(struct count n, const struct count *old)
{
    static const double factors[] = {0.707, 1, 1.414};
    int cls = n.seen > 0 ? ramp_level_class(ramp_level(n.kept, n.seen)) : RAMP_ALL,
        beside = RAMP_FEW;
    if (!old || n.kept == 0 || cls == RAMP_ALL) return cls;
    for (int i = 0; i < 3; i++)
        beside +=
            (double)n.kept * (double)old->seen > factors[i] * (double)n.seen * (double)old->kept;
    return beside > cls ? beside : cls;
}

static void class_is(int x, int y, int cls)
{
    if (cell_at(x, y)->attr == ATTR_SELECT || cell_at(x, y)->attr == ATTR_MARK) return;
    assert_int_equal(cell_at(x, y)->attr, ATTR_RAMP0 + ramp_class_level(cls));
    assert_int_equal(cell_at(x, y)->text[0], ramp_glyph(cls, true)[0]);
}

/* The row that begins with this text; -1 = none. */
static int row_of(const char *begin)
{
    for (int y = 0; y < s.grid.h; y++) {
        size_t x = 0;
        while (begin[x] && x < (size_t)s.grid.w && cell_at((int)x, y)->text[0] == begin[x]) x++;
        if (!begin[x]) return y;
    }
    return -1;
}

static void row_text(int y, char *out)
{
    for (int x = 0; x < s.grid.w; x++) *out++ = (char)cell_at(x, y)->text[0];
    *out = 0;
}

/* ---- ribbon ---------------------------------------------------------------------------------- */

/* The ribbon, its numbers, the title and the counters are those of the cache's tables. */
static void check_ribbon(void)
{
    const struct retention *r = s.map;
    const struct session_stats *st = &s.app.stats;
    char text[512], title[512], want[64];
    long long kept, seen;
    int y = row_of("memory  "), heads = r->n_layer * r->n_head;
    assert_true(y >= 0);
    row_text(y, text);
    char *numbers = strstr(text, " kept");
    while (numbers > text && strncmp(numbers, "  ", 2) != 0) numbers--;
    int n_cells = (int)(numbers - text) - 8;
    const struct count old = in_old(ramp_all(r), 0, INT64_MAX);
    for (int x = 0; x < n_cells; x++) {
        int col, last;
        ramp_columns(r, n_cells, x, &col, &last);
        struct count n = in_old(ramp_all(r), col * r->col_width, last * r->col_width);
        class_is(8 + x, y, class_of(n, &old));
    }
    assert_int_equal(sscanf(numbers, " %lld of %lld kept", &kept, &seen), 2);
    struct count all = in_tables(ramp_all(r), 0, INT64_MAX);
    assert_int_equal(all.kept, st->units_kept);
    assert_int_equal(all.kept, st->cache_used_bytes / st->unit_bytes);
    assert_int_equal(all.kept, st->units_seen - st->units_evicted + st->units_returned);
    const int newest = (int)(st->n_tokens - all.seen / heads); /* run with the next message */
    assert_in_range(newest, 0, 1);
    const int whole = all.kept == all.seen ? newest : 0; /* nothing was evicted */
    assert_int_equal(kept, (all.kept + heads / 2) / heads + whole);
    assert_int_equal(seen, st->n_tokens);
    row_text(0, title);
    snprintf(want, sizeof want, "| %lld tok |", seen);
    assert_non_null(strstr(title, want));
}

/* ---- map ------------------------------------------------------------------------------------- */

/* The part that a row of the map shows. */
static struct ramp_part part_of(enum map_mode mode, int row)
{
    const struct retention *r = s.map;
    if (mode == MAP_LAYERS) return (struct ramp_part){row, 1, 0, r->n_head};
    if (mode == MAP_HEADS) return (struct ramp_part){0, 1, row, 1};
    if (mode == MAP_ROWS) return (struct ramp_part){row / r->n_head, 1, row % r->n_head, 1};
    return ramp_all(r);
}

static void check_map(enum map_mode mode)
{
    const struct retention *r = s.map;
    int rows[] = {[MAP_LAYERS] = r->n_layer,
                  [MAP_HEADS] = r->n_head,
                  [MAP_ROWS] = r->n_layer * r->n_head,
                  [MAP_HISTORY] = 1};
    const char *labels[] = {"01 ", "h1 ", "   h1 ", ""};
    int second = row_of(labels[mode]), first = 7, n_cells = s.grid.w - first - 6;
    int stretch = mode == MAP_HISTORY || second < 0 ? 1 : second - 2; /* lines of a row */
    int top = mode == MAP_HISTORY ? row_of("turn ") - 1 : 2; /* its newest row is the last */
    assert_int_equal(s.app.mapped.mode, mode);
    for (int row = 0; row < rows[mode]; row++) {
        int n_drawn = 0;
        for (int x = 0; x < n_cells; x++, n_drawn++) {
            int col, last;
            ramp_columns(r, n_cells, x, &col, &last);
            struct count n = in_old(part_of(mode, row), col * r->col_width, last * r->col_width);
            class_is(first + x, top + stretch * row, class_of(n, NULL));
        }
        assert_true(n_drawn > 10);
    }
}

/* ---- tint ------------------------------------------------------------------------------------ */

/* Each letter that is the only one of its token has the shade of that token's units. */
static void check_tint(void)
{
    const struct retention *r = s.map;
    int n_letters = 0;
    for (int i = 0; i < s.app.talk.n; i++) {
        const struct message *m = &s.app.talk.messages[i];
        for (size_t at = 0; at < m->text.n && m->position >= 0; at++) {
            size_t byte, end;
            int64_t position = transcript_position(&s.app.talk, i, at);
            assert_int_equal(transcript_find(&s.app.talk, position, &byte, &end), i);
            assert_in_range(at, byte, end - 1);
        }
    }
    for (int y = 1; y < s.grid.h - 2; y++) {
        /* the line's text is found in the transcript by its bytes: all lines of the page differ */
        char text[512];
        row_text(y, text);
        size_t n = strlen(text);
        while (n > 6 && text[n - 1] == ' ') n--;
        if (n < 12) continue;
        text[n] = 0;
        for (int i = 0, found = 0; i < s.app.talk.n && !found; i++) {
            const struct message *m = &s.app.talk.messages[i];
            const char *at = strstr(str_get(&m->text), text + 6);
            if (!at || m->position < 0 || strstr(at + 1, text + 6)) continue;
            for (size_t k = 0; k < n - 6; k++) {
                int64_t p = transcript_position(&s.app.talk, i, (size_t)(at - m->text.data) + k);
                struct count c = in_tables(ramp_all(r), p, p + 1);
                int attr = cell_at(6 + (int)k, y)->attr;
                if (attr == ATTR_SELECT || attr == ATTR_RETURNED) continue;
                enum attr want = c.kept == 0                     ? ATTR_GONE
                                 : is_untouched(p)               ? ATTR_TEXT
                                 : 1000 * c.kept <= 283 * c.seen ? ATTR_THIN
                                 : ramp_level_class(ramp_level(c.kept, c.seen)) == RAMP_MOST
                                     ? ATTR_BOLD
                                     : ATTR_TEXT;
                assert_int_equal(attr, want);
                n_letters++;
            }
            found = 1;
        }
    }
    assert_true(n_letters > 40);
}

/* ---- the conversation ------------------------------------------------------------------------ */

static void check_eviction(void)
{
    n_evictions++;
    /* while an answer streams, the surroundings are drawn twice a second only */
    s.app.around.grid = NULL;
    app_draw(&s.app, &s.grid, 80, 24);
    check_ribbon();
}

static void draw(int w, int h)
{
    stage_draw(&s, w, h);
}

static void check_views(int w, int h)
{
    app_show(&s.app, VIEW_CHAT);
    draw(w, h);
    check_ribbon();
    app_show(&s.app, VIEW_MAP);
    s.app.mapped = (struct map_state){.position = 3};
    draw(w, h);
    check_map(MAP_ROWS); /* a small model: every head has its row */
    stage_key(&s, 'l');
    draw(w, h);
    check_map(MAP_LAYERS);
    stage_key(&s, 'l');
    draw(w, h);
    check_map(MAP_HEADS);
    stage_type(&s, "w");
    s.app.mapped.history_layer = -1;
    draw(w, h);
    check_map(MAP_HISTORY);
    app_show(&s.app, VIEW_TINT);
    draw(w, h);
    check_tint();
    app_show(&s.app, VIEW_CHAT);
}

TEST(test_screens)
{
    static const char *const said[] = {
        "My locker code is 48213.\r",
        "Tell me about cats.\r",
        "Tell me a story about a fox.\r",
        "How are you?\r",
        "Tell me a joke.\r",
        "What is my locker code?\r",
    };
    stage_begin(&s, true, path_in(folder_new(), "retain.db"));
    s.o.engine.model = NULL; /* the demo */
    s.o.session.plan.budget = 48;
    s.o.session.plan.chunk = 16;
    s.o.session.plan.policy.reserve = 32;
    s.o.session.sampling.seed = 3;
    s.o.session.new_conversation = true;
    s.on_evicted = check_eviction;
    stage_open(&s, NULL);
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) stage_type(&s, said[i]);
    assert_true(n_evictions >= 3);
    check_views(80, 24);
    check_views(160, 50);
    stage_release(&s);
}

/* ---- a reopened conversation ----------------------------------------------------------------- */

enum { LONG = 5000, MOMENTS_MAX = 2048 };

/* What the tables held after each turn, which is saved then. */
static struct moment {
    int64_t n_tokens, kept, seen;
} moments[MOMENTS_MAX];
static int n_moments;

static void take_moment(const struct session_stats *st)
{
    assert_true(n_moments < MOMENTS_MAX);
    moments[n_moments++] = (struct moment){ramp_seen(st), st->units_kept, st->units_seen};
}

static void row_has(const char *want)
{
    char row[512];
    for (int y = 0; y < s.grid.h; y++) {
        row_text(y, row);
        if (strstr(row, want)) return;
    }
    fail_msg("no row has: %s", want);
}

#define ROW_HAS(...) (snprintf(want, sizeof want, __VA_ARGS__), row_has(want))

/* Header, ribbon, F2 and F8. */
static void check_numbers(void)
{
    const struct session_stats *st = &s.app.stats;
    const struct retention *r = s.map;
    const int heads = r->n_layer * r->n_head;
    const struct count all = in_tables(ramp_all(r), 0, INT64_MAX);
    const int64_t each = heads * st->unit_bytes;
    char want[256], b[4][NUM_MAX];
    app_show(&s.app, VIEW_CHAT);
    s.app.around.grid = NULL;
    draw(160, 50);
    ROW_HAS("| %s tok | turn %lld", num_count(st->n_tokens, b[0]), (long long)st->n_turns);
    const int64_t newest = st->n_tokens - all.seen / heads; /* run with the next message */
    assert_in_range(newest, 0, 1);
    const bool whole = all.kept == all.seen;
    ROW_HAS("%s of %s kept", num_exact((all.kept + heads / 2) / heads + whole * newest, b[0]),
            num_exact(st->n_tokens, b[1]));
    const struct pane *p = &s.app.places[PLACE_RIBBON];
    const struct count old = in_old(ramp_all(r), 0, INT64_MAX);
    for (int x = 0; x < p->w; x++) {
        int col, last;
        ramp_columns(r, p->w, x, &col, &last);
        struct count n = in_old(ramp_all(r), col * r->col_width, last * r->col_width);
        class_is(p->x + x, p->y, class_of(n, &old));
    }
    assert_true(p->w > 80);
    app_show(&s.app, VIEW_LIST);
    stage_run(&s);
    draw(160, 50);
    ROW_HAS("%s", num_count(st->n_tokens, b[0]));
    app_show(&s.app, VIEW_DASH);
    draw(160, 50);
    ROW_HAS("%s tokens, %lld turn", num_exact(st->n_tokens, b[0]), (long long)st->n_turns);
    ROW_HAS("kept %s of %s units, %s are evicted", num_exact(all.kept, b[0]),
            num_exact(all.seen, b[1]), num_exact(all.seen - all.kept, b[2]));
    ROW_HAS("this cache: %s taken, %s in use", num_bytes(st->cache_bytes, b[0]),
            num_bytes(all.kept * st->unit_bytes, b[1]));
    ROW_HAS("one that keeps everything: %s", num_bytes(all.seen * st->unit_bytes, b[0]));
    ROW_HAS("equal at %s", num_exact((st->cache_bytes + each - 1) / each, b[0]));
}

/* F8's line of the share kept: each moment that it has is the one of the tables at that time. */
static void check_history(void)
{
    int n_found = 0;
    double most = 0;
    for (int i = 0; i < s.app.trace.n; i++) {
        const struct trace_sample *x = &s.app.trace.samples[i];
        most = x->values[TRACE_KEPT] > most ? x->values[TRACE_KEPT] : most;
        for (int k = 0; k < n_moments; k++) {
            const struct moment *m = &moments[k];
            if (m->n_tokens != x->n_tokens) continue;
            double kept = 100 * (double)m->kept / (double)m->seen;
            if (fabs(x->values[TRACE_KEPT] - kept) < 1e-9) n_found++;
        }
    }
    if (n_found < 20) fail_msg("only %d of %d moments are in the graph", n_found, n_moments);
    assert_true(most > 50); /* the beginning, not only the present */
}

static void check_stats(void)
{
    char want[256], b[2][NUM_MAX], path[] = "/tmp/retain-stats-XXXXXX", text[4096];
    const struct count all = in_tables(ramp_all(s.map), 0, INT64_MAX);
    int fd = mkstemp(path), out = dup(1), told = dup(2);
    fflush(stdout);
    dup2(fd, 1), dup2(fd, 2);
    session_print_stats(s.control.parts.session);
    fflush(stdout);
    dup2(out, 1), dup2(told, 2);
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    snprintf(want, sizeof want, "kept %s of %s units", num_exact(all.kept, b[0]),
             num_exact(all.seen, b[1]));
    if (!strstr(text, want)) fail_msg("%s is not in %s", want, text);
    close(fd), close(out), close(told);
    unlink(path);
}

/* Words without any unit now that had one before, by the tables, counted anew for each message. */
static uint16_t *had;
static int64_t n_had;
static int n_told;

static int count_forgotten(const uint16_t *has, int64_t n_pos)
{
    int n_words = 0;
    for (int i = 0; i < s.app.talk.n; i++) {
        const struct message *m = &s.app.talk.messages[i];
        const char *text = str_get(&m->text);
        for (size_t at = 0; m->position >= 0 && at < m->text.n;) {
            size_t n = strcspn(text + at, " \n\t"), byte, end;
            bool alive = n == 0, lost = false;
            for (int64_t p = m->position; p < m->position + m->n_tokens && n; p++) {
                if (transcript_find(&s.app.talk, p, &byte, &end) != i) continue;
                if (end <= at || byte >= at + n || end == byte) continue;
                alive = alive || p >= n_pos || has[p] > 0;
                lost = lost || (p < n_pos && has[p] == 0 && (p >= n_had || had[p] > 0));
            }
            n_words += !alive && lost;
            at += n + 1;
        }
    }
    return n_words;
}

static void check_event(void)
{
    const int64_t n = session_cache(s.control.parts.session)->n_pos;
    uint16_t *has = malloc(sizeof *has * (size_t)n);
    char want[64];
    session_kept(s.control.parts.session, 0, (int)n, has);
    int n_words = count_forgotten(has, n);
    if (n_words)
        snprintf(want, sizeof want, "forgot %d word%s of turn", n_words, n_words == 1 ? "" : "s");
    else
        snprintf(want, sizeof want, "; no word lost its last unit");
    if (!strstr(s.app.event, want)) fail_msg("%s is not in %s", want, s.app.event);
    n_told += n_words > 0;
    free(had);
    had = has;
    n_had = n;
}

static void feed_long(const char *path, char *name)
{
    static const struct session_sink silent;
    struct session_stats st = {0};
    struct recall *words = words_open(5, 1);
    stage_begin(&s, true, path);
    s.o.engine.model = NULL;
    s.o.session.plan.budget = 256;
    s.o.session.new_conversation = true;
    stage_open(&s, NULL);
    while (st.n_tokens < LONG) {
        const struct words_turn *t = words_filler(words);
        const struct chat_message m[] = {{CHAT_USER, t->user}, {CHAT_ASSISTANT, t->assistant}};
        ok(session_feed(s.control.parts.session, m, 2, &silent, &err));
        session_stats(s.control.parts.session, &st);
        take_moment(&st);
    }
    snprintf(name, STORE_NAME_MAX, "%s", session_name(s.control.parts.session));
    stage_release(&s);
    words_close(words);
}

/* A conversation of 5,000 tokens, far above the columns of the picture, is closed and opened. */
TEST(test_reopened)
{
    static const char *const said[] = {"Tell me a story about a fox.\r", "Tell me a joke.\r",
                                       "Tell me about cats.\r"};
    char name[STORE_NAME_MAX];
    for (int recalls = 0; recalls < 2; recalls++) {
        const char *path = path_in(folder_new(), "retain.db");
        n_moments = n_told = 0;
        feed_long(path, name);
        stage_begin(&s, true, path);
        s.o.engine.model = NULL;
        s.o.session.recall.chooser = recalls ? RECALL_WORDS : RECALL_OFF;
        stage_open(&s, name);
        assert_string_equal(s.app.event, "");
        assert_int_equal(s.app.stats.n_reread, 0);
        check_numbers();
        check_history();
        check_stats();
        n_had = session_cache(s.control.parts.session)->n_pos;
        had = malloc(sizeof *had * (size_t)n_had);
        session_kept(s.control.parts.session, 0, (int)n_had, had);
        s.on_evicted = check_event;
        app_show(&s.app, VIEW_CHAT);
        for (int i = 0; i < 3; i++) stage_type(&s, said[i]);
        assert_true(n_told > 0);
        check_numbers();
        check_stats();
        stage_release(&s);
        free(had);
        had = NULL;
    }
}
