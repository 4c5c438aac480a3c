/* Colours: every text is readable on black and on white, the ramp rises evenly also for
 * colour-blind users, and colour is never the only sign. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cli/control/ramp.h"
#include "tui/term/colors.h"

struct rgb {
    double r, g, b; /* linear light, 0 to 1 */
};

static double linear(int level)
{
    double c = level / 255.0;
    return c <= 0.04045 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4);
}

/* Of 24 bits, or of xterm's 256 colours from 16 on. */
static struct rgb rgb_of(int index)
{
    static const int levels[] = {0, 95, 135, 175, 215, 255};
    if (index >= 0 && index & COLOR_TRUE)
        return (struct rgb){linear(index >> 16 & 255), linear(index >> 8 & 255),
                            linear(index & 255)};
    assert_in_range(index, 16, 255);
    if (index >= 232) {
        double grey = linear(8 + 10 * (index - 232));
        return (struct rgb){grey, grey, grey};
    }
    index -= 16;
    return (struct rgb){linear(levels[index / 36]), linear(levels[index / 6 % 6]),
                        linear(levels[index % 6])};
}

static double luminance(struct rgb c)
{
    return 0.2126 * c.r + 0.7152 * c.g + 0.0722 * c.b;
}

/* WCAG 2: (lighter + 0.05) / (darker + 0.05). */
static double contrast(double a, double b)
{
    return a > b ? (a + 0.05) / (b + 0.05) : (b + 0.05) / (a + 0.05);
}

/* Vienot, Brettel, Mollon 1999: colours as seen without green or red cones, in linear light. */
static struct rgb without_green(struct rgb c)
{
    double rg = 0.29275 * c.r + 0.70725 * c.g;
    return (struct rgb){rg, rg, -0.02234 * c.r + 0.02234 * c.g + c.b};
}

static struct rgb without_red(struct rgb c)
{
    double rg = 0.11238 * c.r + 0.88762 * c.g;
    return (struct rgb){rg, rg, 0.00401 * c.r - 0.00401 * c.g + c.b};
}

static struct cell_style style(int attr, int colors, bool light)
{
    struct look k = look_of(colors, light);
    return cell_style_of(attr, &k);
}

static void test_text_can_be_read(void **state)
{
    static const enum attr texts[] = {ATTR_DIM,     ATTR_YOU,      ATTR_LLM,     ATTR_KEY,
                                      ATTR_ERROR,   ATTR_CODE,     ATTR_WEIGHTS, ATTR_CACHE,
                                      ATTR_SCRATCH, ATTR_GONE,     ATTR_FADE1,   ATTR_FADE2,
                                      ATTR_THIN,    ATTR_RETURNED, ATTR_FOUND};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int light = 0; light < 2; light++) {
            struct cell_style l = style(texts[i], 256, light);
            if (l.color < 0) continue; /* the terminal's default */
            if (contrast(luminance(rgb_of(l.color)), light) < 4.5)
                fail_msg("attribute %d: colour %d on %s", texts[i], l.color,
                         light ? "white" : "black");
        }
}

static double seen_luminance(int level, struct rgb (*eye)(struct rgb), int colors, bool light)
{
    struct rgb c = rgb_of(style(ATTR_RAMP0 + level, colors, light).background);
    return luminance(eye ? eye(c) : c);
}

static void rises(struct rgb (*eye)(struct rgb), int colors, bool light, double least)
{
    double before = light ? 2 : -1;
    for (int cls = 0; cls < RAMP_CLASSES; cls++) {
        double now = seen_luminance(ramp_class_level(cls), eye, colors, light);
        if (light)
            assert_true(now < before);
        else
            assert_true(now > before);
        if (cls > 0 && contrast(now, before) < least)
            fail_msg("class %d, %d colours, light %d: %.2f", cls, colors, light,
                     contrast(now, before));
        before = now;
    }
}

static void test_ramp_rises(void **state)
{
    static const int colors[] = {256, COLOR_TRUE};
    (void)state;
    for (int i = 0; i < 2; i++)
        for (int light = 0; light < 2; light++) {
            rises(NULL, colors[i], light, 2);
            rises(without_green, colors[i], light, 1.7);
            rises(without_red, colors[i], light, 1.7);
        }
}

/* With 24 bits every level has its own colour, and they are in order for every eye. */
static void test_levels_rise(void **state)
{
    static struct rgb (*const eyes[])(struct rgb) = {NULL, without_green, without_red};
    (void)state;
    for (int light = 0; light < 2; light++)
        for (int eye = 0; eye < 3; eye++)
            for (int level = 1; level < RAMP_LEVELS; level++) {
                double a = seen_luminance(level - 1, eyes[eye], COLOR_TRUE, light);
                double b = seen_luminance(level, eyes[eye], COLOR_TRUE, light);
                if (light ? b >= a : b <= a)
                    fail_msg("level %d, light %d, eye %d: %.3f then %.3f", level, light, eye, a, b);
            }
    for (int kept = 0; kept <= 1000; kept++)
        assert_int_equal(ramp_level_class(ramp_level(kept, 1000)), ramp_class(kept, 1000));
}

/* The user's colours replace ours, in as many colours as the terminal has. */
static void test_own_colors(void **state)
{
    struct look k = look_of(256, false);
    struct err e = {0};
    (void)state;
    assert_int_equal(look_set(&k, "few=17,dim=#0000ff", &e), 0);
    assert_int_equal(cell_style_of(ATTR_RAMP0 + ramp_class_level(1), &k).background, 17);
    assert_int_equal(cell_style_of(ATTR_DIM, &k).color, 21); /* the cube's blue */
    assert_int_equal(cell_style_of(ATTR_RAMP0, &k).background, 234);
    k.colors = COLOR_TRUE;
    assert_int_equal(cell_style_of(ATTR_DIM, &k).color, COLOR_TRUE | 0xff);
    k.colors = 0;
    assert_int_equal(cell_style_of(ATTR_DIM, &k).color, -1);
    static const char *const wrong[] = {"few",        "fewer=3", "few=256", "few=-1",
                                        "few=#12345", "few=",    "few=1x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(look_set(&k, wrong[i], &e), ERR_USAGE);
}

/* A cell has one colour: the ink of its glyph must not thin it. Only the dot of an evicted cell is
 * visible. */
static void test_cells_are_solid(void **state)
{
    (void)state;
    for (int light = 0; light < 2; light++)
        for (int attr = ATTR_RAMP0; attr <= ATTR_RAMP_LAST; attr++) {
            struct cell_style l = style(attr, 256, light);
            if (attr == ATTR_RAMP0)
                assert_true(contrast(luminance(rgb_of(l.color)), luminance(rgb_of(l.background))) >
                            1.5);
            else
                assert_int_equal(l.color, l.background);
        }
}

static void test_never_by_colour_alone(void **state)
{
    (void)state;
    for (int a = 0; a < RAMP_CLASSES; a++)
        for (int b = 0; b < a; b++) {
            assert_string_not_equal(ramp_glyph(a, true), ramp_glyph(b, true));
            assert_string_not_equal(ramp_glyph(a, false), ramp_glyph(b, false));
        }
    for (int attr = 0; attr < ATTRS; attr++) {
        struct cell_style none = style(attr, 0, false), basic = style(attr, 16, false);
        assert_true(none.color < 0 && none.background < 0);
        assert_true(basic.color < 16 && basic.background < 16);
    }
}

/* A half block's two colours are those of its two levels. */
static void test_halves(void **state)
{
    (void)state;
    for (int up = 0; up < RAMP_LEVELS; up++)
        for (int down = -1; down < RAMP_LEVELS; down++) {
            struct cell_style l = style(attr_half(up, down), COLOR_TRUE, false);
            int below = down < 0 ? -1 : style(ATTR_RAMP0 + down, COLOR_TRUE, false).background;
            assert_int_equal(l.color, style(ATTR_RAMP0 + up, COLOR_TRUE, false).background);
            assert_int_equal(l.background, below);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_can_be_read), cmocka_unit_test(test_ramp_rises),
        cmocka_unit_test(test_cells_are_solid),  cmocka_unit_test(test_never_by_colour_alone),
        cmocka_unit_test(test_halves),           cmocka_unit_test(test_levels_rise),
        cmocka_unit_test(test_own_colors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
