/* Colours: every text is readable on black and on white, the ramp rises evenly also for
 * colour-blind users, and colour is never the only sign. */
#include "tests/test.h"

#include <math.h>

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

/* Colours as other eyes see them, in linear light: Machado, Oliveira, Fernandes 2009, severity 1.0;
 * Vienot, Brettel, Mollon 1999. */
static const struct eye {
    const char *name;
    double m[3][3];
} eyes[] = {
    {"all cones", {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
    {"protan",
     {{0.152286, 1.052583, -0.204868},
      {0.114503, 0.786281, 0.099216},
      {-0.003882, -0.048116, 1.051998}}},
    {"deutan",
     {{0.367322, 0.860646, -0.227968},
      {0.280085, 0.672501, 0.047413},
      {-0.011820, 0.042940, 0.968881}}},
    {"tritan",
     {{1.255528, -0.076749, -0.178779},
      {-0.078411, 0.930809, 0.147602},
      {0.004733, 0.691367, 0.303900}}},
    {"protan, Vienot", {{0.11238, 0.88762, 0}, {0.11238, 0.88762, 0}, {0.00401, -0.00401, 1}}},
    {"deutan, Vienot", {{0.29275, 0.70725, 0}, {0.29275, 0.70725, 0}, {-0.02234, 0.02234, 1}}},
};
enum { EYES = sizeof eyes / sizeof *eyes };

static double clamp(double x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

static double seen_by(const struct eye *e, struct rgb c)
{
    double out[3];
    for (int i = 0; i < 3; i++)
        out[i] = clamp(e->m[i][0] * c.r + e->m[i][1] * c.g + e->m[i][2] * c.b);
    return luminance((struct rgb){out[0], out[1], out[2]});
}

static const struct background {
    const char *name;
    int color;
    bool light;
} backgrounds[] = {
    {"black", 0x000000, false},   {"#18181b", 0x18181b, false}, {"Solarized dark", 0x002b36, false},
    {"Dracula", 0x282a36, false}, {"Nord", 0x2e3440, false},    {"Solarized light", 0xfdf6e3, true},
    {"white", 0xffffff, true}};
enum { BACKGROUNDS = sizeof backgrounds / sizeof *backgrounds };

static struct cell_style style(int attr, int colors, bool light)
{
    struct look k = {.colors = colors, .light = light};
    return cell_style_of(attr, &k);
}

/* On a terminal that told its background; *shown: the background of the screen. */
static struct look look_on(int colors, const struct background *b, double *shown)
{
    struct look k = {.colors = colors};
    double rgb[3];
    for (int i = 0; i < 3; i++) rgb[i] = (b->color >> (16 - 8 * i) & 255) / 255.0;
    look_background(&k, rgb);
    assert_int_equal(k.light, b->light);
    int ground = cell_style_of(ATTR_TEXT, &k).background;
    *shown = luminance(rgb_of(ground >= 0 ? ground : COLOR_TRUE | b->color));
    return k;
}

TEST(test_text_can_be_read)
{
    static const enum attr texts[] = {ATTR_DIM,     ATTR_YOU,      ATTR_LLM,     ATTR_KEY,
                                      ATTR_ERROR,   ATTR_CODE,     ATTR_WEIGHTS, ATTR_CACHE,
                                      ATTR_SCRATCH, ATTR_GONE,     ATTR_FADE1,   ATTR_FADE2,
                                      ATTR_THIN,    ATTR_RETURNED, ATTR_FOUND};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int k = 0; k < BACKGROUNDS; k++) {
            const struct background *b = &backgrounds[k];
            double shown, theme = luminance(rgb_of(COLOR_TRUE | b->color));
            struct look look = look_on(256, b, &shown);
            struct cell_style l = cell_style_of(texts[i], &look);
            if (l.color < 0) continue; /* the terminal's default */
            double text = luminance(rgb_of(l.color));
            if (contrast(text, shown) < 4.5 || contrast(text, theme) < 4.5)
                fail_msg("attribute %d: colour %d on %s: %.2f, %.2f", texts[i], l.color, b->name,
                         contrast(text, shown), contrast(text, theme));
        }
}

static double seen_luminance(int level, const struct eye *e, int colors, bool light)
{
    return seen_by(e, rgb_of(style(ATTR_RAMP0 + level, colors, light).background));
}

/* From `few` to `most` every eye sees steps of at least 1.7:1. */
TEST(test_ramp_rises)
{
    static const int colors[] = {256, COLOR_TRUE};
    for (int i = 0; i < 2 * EYES; i++) {
        const struct eye *e = &eyes[i / 2];
        int n = colors[i % 2];
        for (int light = 0; light < 2; light++)
            for (int cls = RAMP_FEW; cls < RAMP_MOST; cls++) {
                double a = seen_luminance(ramp_class_level(cls), e, n, light);
                double b = seen_luminance(ramp_class_level(cls + 1), e, n, light);
                if ((light ? b >= a : b <= a) || contrast(a, b) < 1.7)
                    fail_msg("%s, %d colours, light %d: %s to %s %.2f", e->name, n, light,
                             ramp_words[cls], ramp_words[cls + 1], contrast(a, b));
            }
    }
}

/* `few` is seen beside every background and on the ground of the pictures, which every evicted cell
 * paints. `all` is quieter, but seen. */
TEST(test_few_is_seen)
{
    static const int colors[] = {256, COLOR_TRUE};
    for (int i = 0; i < 2 * BACKGROUNDS; i++) {
        const struct background *b = &backgrounds[i / 2];
        double beside;
        struct look k = look_on(colors[i % 2], b, &beside);
        double ground = seen_luminance(0, &eyes[0], k.colors, k.light);
        double few = seen_luminance(ramp_class_level(RAMP_FEW), &eyes[0], k.colors, k.light);
        double all = seen_luminance(RAMP_LEVEL_ALL, &eyes[0], k.colors, k.light);
        if (contrast(few, ground) < 3 || contrast(few, beside) < 3)
            fail_msg("%s: %.2f, %.2f", b->name, contrast(few, ground), contrast(few, beside));
        assert_true(contrast(all, ground) >= 1.5 && contrast(all, ground) < contrast(few, ground));
    }
}

/* With 24 bits the levels of a class are in order for every eye, up to those of the last. */
TEST(test_levels_rise)
{
    for (int light = 0; light < 2; light++)
        for (int eye = 0; eye < EYES; eye++)
            for (int level = 1; level <= ramp_class_level(RAMP_MOST); level++) {
                double a = seen_luminance(level - 1, &eyes[eye], COLOR_TRUE, light);
                double b = seen_luminance(level, &eyes[eye], COLOR_TRUE, light);
                if (light ? b >= a : b <= a)
                    fail_msg("level %d, light %d, %s: %.3f then %.3f", level, light, eyes[eye].name,
                             a, b);
            }
}

/* A cell has one colour: the ink of its glyph must not thin it. Only the dot of an evicted cell is
 * visible. */
TEST(test_cells_are_solid)
{
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

TEST(test_never_by_colour_alone)
{
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
TEST(test_halves)
{
    for (int up = 0; up < RAMP_LEVELS; up++)
        for (int down = -1; down < RAMP_LEVELS; down++) {
            struct cell_style l = style(attr_half(up, down), COLOR_TRUE, false);
            int below = down < 0 ? -1 : style(ATTR_RAMP0 + down, COLOR_TRUE, false).background;
            assert_int_equal(l.color, style(ATTR_RAMP0 + up, COLOR_TRUE, false).background);
            assert_int_equal(l.background, below);
        }
}
