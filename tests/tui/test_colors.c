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

/* Of xterm's 256 colours, from 16 on. */
static struct rgb rgb_of(int index)
{
    static const int levels[] = {0, 95, 135, 175, 215, 255};
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

static void test_text_can_be_read(void **state)
{
    static const enum attr texts[] = {ATTR_DIM,     ATTR_YOU,  ATTR_LLM,     ATTR_KEY,
                                      ATTR_ERROR,   ATTR_CODE, ATTR_WEIGHTS, ATTR_CACHE,
                                      ATTR_SCRATCH, ATTR_GONE, ATTR_THIN,    ATTR_RETURNED};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int light = 0; light < 2; light++) {
            struct cell_style l = cell_style_of(texts[i], 256, light);
            if (l.color < 0) continue; /* the terminal's default */
            if (contrast(luminance(rgb_of(l.color)), light) < 4.5)
                fail_msg("attribute %d: colour %d on %s", texts[i], l.color,
                         light ? "white" : "black");
        }
}

static void rises(struct rgb (*eye)(struct rgb), bool light, double least)
{
    double before = light ? 2 : -1;
    for (int cls = 0; cls < RAMP_CLASSES; cls++) {
        struct rgb c = rgb_of(cell_style_of(ATTR_RAMP0 + cls, 256, light).background);
        double now = luminance(eye ? eye(c) : c);
        if (light)
            assert_true(now < before);
        else
            assert_true(now > before);
        if (cls > 0) assert_true(contrast(now, before) >= least);
        before = now;
    }
}

static void test_ramp_rises(void **state)
{
    (void)state;
    for (int light = 0; light < 2; light++) {
        rises(NULL, light, 2);
        rises(without_green, light, 1.7);
        rises(without_red, light, 1.7);
    }
}

/* A cell has one colour: the ink of its glyph must not thin it. Only the dot of an evicted cell is
 * visible. */
static void test_cells_are_solid(void **state)
{
    (void)state;
    for (int light = 0; light < 2; light++)
        for (int attr = ATTR_RAMP0; attr <= ATTR_RAMP4; attr++) {
            struct cell_style l = cell_style_of(attr, 256, light);
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
        struct cell_style none = cell_style_of(attr, 0, false),
                          basic = cell_style_of(attr, 16, false);
        assert_true(none.color < 0 && none.background < 0);
        assert_true(basic.color < 16 && basic.background < 16);
    }
}

/* A half block's two colours are those of its two classes. */
static void test_halves(void **state)
{
    (void)state;
    for (int up = 0; up < RAMP_CLASSES; up++)
        for (int down = -1; down < RAMP_CLASSES; down++) {
            struct cell_style l = cell_style_of(attr_half(up, down), 256, false);
            assert_int_equal(l.color, cell_style_of(ATTR_RAMP0 + up, 256, false).background);
            assert_int_equal(l.background,
                             down < 0 ? -1
                                      : cell_style_of(ATTR_RAMP0 + down, 256, false).background);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_can_be_read), cmocka_unit_test(test_ramp_rises),
        cmocka_unit_test(test_cells_are_solid),  cmocka_unit_test(test_never_by_colour_alone),
        cmocka_unit_test(test_halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
