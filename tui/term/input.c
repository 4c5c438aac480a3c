#include "tui/term/input.h"

#include <string.h>

#include "base/utf8_width.h"

#define PASTE_END   "\033[201~"
#define WHEEL_LEAST 3 /* equal arrows at once: fingers and a slow line send at most two */

void input_release(struct input *in)
{
    str_release(&in->bytes);
    str_release(&in->paste);
}

void input_add(struct input *in, const char *sequence, uint32_t key)
{
    size_t n = strlen(sequence);
    if (n < 2 || n >= sizeof in->extra[0].sequence || in->n_extra == INPUT_EXTRA_MAX) return;
    memcpy(in->extra[in->n_extra].sequence, sequence, n + 1);
    in->extra[in->n_extra++].key = key;
}

void input_feed(struct input *in, const char *bytes, size_t n)
{
    if (in->at > 0) {
        in->bytes.n -= in->at;
        memmove(in->bytes.data, in->bytes.data + in->at, in->bytes.n);
        in->at = 0;
    }
    str_append(&in->bytes, bytes, n);
}

bool input_waiting(const struct input *in)
{
    return in->in_paste || in->at < in->bytes.n;
}

/* ---- sequences ------------------------------------------------------------------------------ */

/* "1;5" of ESC [ 1 ; 5 A: xterm's modifiers are 1 + shift 1, alt 2, ctrl 4. */
static uint32_t flags_of(int modifier)
{
    int bits = modifier > 1 ? modifier - 1 : 0;
    return (bits & 1 ? K_SHIFT : 0u) | (bits & 2 ? K_ALT : 0u) | (bits & 4 ? K_CTRL : 0u);
}

/* The key of ESC [ letter and ESC O letter, or of ESC [ number ~. */
static uint32_t key_of(int code)
{
    static const struct {
        int code;
        uint32_t key;
    } rows[] = {
        {'A', K_UP},       {'B', K_DOWN},     {'C', K_RIGHT},     {'D', K_LEFT},    {'H', K_HOME},
        {'F', K_END},      {'P', K_F1},       {'Q', K_F1 + 1},    {'R', K_F1 + 2},  {'S', K_F1 + 3},
        {'Z', K_BACK_TAB}, {'I', K_FOCUS_IN}, {'O', K_FOCUS_OUT}, {1, K_HOME},      {2, K_INSERT},
        {3, K_DELETE},     {4, K_END},        {5, K_PAGE_UP},     {6, K_PAGE_DOWN}, {7, K_HOME},
        {8, K_END},        {11, K_F1},        {12, K_F1 + 1},     {13, K_F1 + 2},   {14, K_F1 + 3},
        {15, K_F1 + 4},    {17, K_F1 + 5},    {18, K_F1 + 6},     {19, K_F1 + 7},   {20, K_F1 + 8},
        {21, K_F1 + 9},    {23, K_F1 + 10},   {24, K_F1 + 11},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].code == code) return rows[i].key;
    return 0;
}

/* A key given by its code point and modifiers (CSI u, modifyOtherKeys). */
static uint32_t coded_key(int code, int modifier)
{
    uint32_t flags = flags_of(modifier);
    if (code <= 0 || code > 0x10FFFF) return 0;
    if ((flags & K_CTRL) && code >= 'a' && code <= 'z') return CTRL((uint32_t)code);
    if (code == 13 || code == 127) flags &= ~(uint32_t)K_CTRL;
    return (uint32_t)code | flags;
}

/* Reads "1;5"; the number of its fields, at most 4, -1 = it has other characters. */
static int read_numbers(const char *s, size_t n, int values[4])
{
    int k = 0;
    memset(values, 0, 4 * sizeof *values);
    for (size_t i = 0; i < n && k < 4; i++) {
        if (s[i] == ';')
            k++;
        else if (s[i] < '0' || s[i] > '9')
            return -1;
        else if (values[k] < 1000000)
            values[k] = 10 * values[k] + (s[i] - '0');
    }
    return k < 4 ? k + 1 : 4;
}

/* ESC [ parameters final: the key, or 0 if unknown. */
static uint32_t csi_key(const char *parameters, size_t n, char final)
{
    int values[4];
    if (read_numbers(parameters, n, values) < 0) return 0;
    if (final == 'u') return coded_key(values[0], values[1]);
    if (final == '~' && values[0] == 27) return coded_key(values[2], values[1]);
    uint32_t key = final == '~' && values[0] < 'A' ? key_of(values[0]) : key_of(final);
    return key ? key | flags_of(values[1]) : 0;
}

/* "0;12;5" of ESC [ < 0 ; 12 ; 5 M (mode 1006): button, column, row, from 1. Presses of the first
 * button and turns of the wheel count. */
static void take_mouse(const char *parameters, size_t n, char final, struct key_event *ev)
{
    int values[4];
    if (read_numbers(parameters, n, values) != 3 || final != 'M') return;
    if (values[1] < 1 || values[2] < 1) return;
    int button = values[0] & ~28; /* without Shift, Alt, Ctrl */
    if (button == 64 || button == 65) ev->key = button == 64 ? K_WHEEL_UP : K_WHEEL_DOWN;
    if (button == 0)
        *ev = (struct key_event){.key = K_CLICK, .x = values[1] - 1, .y = values[2] - 1};
}

/* s = ESC [ …: bytes used, 0 when unfinished. Sets the event when the sequence is one. */
static size_t take_csi(struct input *in, const char *s, size_t n, struct key_event *ev)
{
    size_t at = 2;
    if (at < n && s[at] == '[') { /* Linux console: ESC [ [ A is F1 */
        if (n < 4) return 0;
        if (s[3] >= 'A' && s[3] <= 'E') ev->key = (uint32_t)(K_F1 + s[3] - 'A');
        return 4;
    }
    while (at < n && s[at] >= 0x20 && s[at] <= 0x3F) at++;
    if (at == n) return n > 64 ? n : 0;
    size_t n_parameters = at - 2;
    if (n_parameters > 0 && s[2] == '<') {
        take_mouse(s + 3, n_parameters - 1, s[at], ev);
        return at + 1;
    }
    if (s[at] < 0x40 || s[at] == 0x7F) return at; /* interrupted by another byte */
    if (n_parameters == 3 && memcmp(s + 2, "200", 3) == 0 && s[at] == '~') {
        in->in_paste = true;
        str_clear(&in->paste);
    } else if (s[at] == 'y' && n_parameters >= 7 && memcmp(s + 2, "?2026;", 6) == 0) {
        if (s[8] == '1' || s[8] == '2') ev->key = K_REPLY_SYNC;
    } else if (s[at] == 'n' && n_parameters == 1 && s[2] == '0') {
        ev->key = K_REPLY_STATUS;
    } else {
        ev->key = csi_key(s + 2, n_parameters, s[at]);
    }
    return at + 1;
}

/* s = ESC ] …, ESC P …, ESC _ …: up to BEL or ESC \. Only the background colour is used. */
static size_t take_string(struct input *in, const char *s, size_t n, struct key_event *ev)
{
    size_t at = 2;
    while (at < n && s[at] != '\007' && s[at] != '\033') at++;
    if (at == n) return n > 4096 ? n : 0;
    size_t n_text = at - 2;
    if (s[at] == '\033') {
        if (at + 1 == n) return 0;
        if (s[at + 1] == '\\')
            at++;
        else
            at--; /* another sequence begins */
    }
    if (s[1] == ']' && n_text > 3 && n_text - 3 < sizeof in->text && memcmp(s + 2, "11;", 3) == 0) {
        memcpy(in->text, s + 5, n_text - 3);
        in->text[n_text - 3] = 0;
        *ev = (struct key_event){.key = K_REPLY_BACKGROUND, .text = in->text, .n = n_text - 3};
    }
    return at + 1;
}

static size_t take_extra(const struct input *in, const char *s, size_t n, struct key_event *ev)
{
    for (int i = 0; i < in->n_extra; i++) {
        size_t length = strlen(in->extra[i].sequence);
        if (n < length || memcmp(s, in->extra[i].sequence, length) != 0) continue;
        ev->key = in->extra[i].key;
        return length;
    }
    return 0;
}

static size_t take_character(const char *s, size_t n, bool late, struct key_event *ev)
{
    uint32_t cp;
    int length = utf8_next(s, n, &cp);
    if (length == 0 && !late) return 0;
    ev->key = length > 0 ? cp : UTF8_REPLACEMENT;
    return length > 0 ? (size_t)length : 1;
}

/* s[0] is ESC. */
static size_t take_escape(struct input *in, const char *s, size_t n, bool late,
                          struct key_event *ev)
{
    size_t used = take_extra(in, s, n, ev);
    if (used) return used;
    if (n == 1) {
        if (late) ev->key = '\033';
        return late ? 1 : 0;
    }
    if (s[1] == '[')
        used = take_csi(in, s, n, ev);
    else if (s[1] == 'O' && n > 2) {
        ev->key = s[2] >= 'A' ? key_of(s[2]) : 0;
        return 3;
    } else if (s[1] == ']' || s[1] == 'P' || s[1] == '_')
        used = take_string(in, s, n, ev);
    else if (s[1] == '\033') {
        ev->key = '\033';
        return 1;
    } else if (s[1] != 'O') {
        used = take_character(s + 1, n - 1, late, ev);
        if (used) ev->key |= K_ALT;
        return used ? used + 1 : 0;
    }
    if (used || !late) return used;
    if (n == 2) { /* Alt-[, Alt-O, … */
        ev->key = (uint32_t)(unsigned char)s[1] | K_ALT;
        return 2;
    }
    return n; /* a sequence without an end */
}

/* ---- paste ---------------------------------------------------------------------------------- */

static bool take_paste(struct input *in, struct key_event *ev)
{
    const char *s = str_get(&in->bytes) + in->at;
    size_t n = in->bytes.n - in->at, n_end = strlen(PASTE_END);
    const char *end = n ? memmem(s, n, PASTE_END, n_end) : NULL;
    size_t take = end ? (size_t)(end - s) : n;
    /* the marker may be split: keep a possible beginning */
    for (size_t k = n_end - 1; !end && k > 0; k--)
        if (k <= n && memcmp(s + n - k, PASTE_END, k) == 0) {
            take = n - k;
            break;
        }
    str_append(&in->paste, s, take);
    in->at += take;
    if (!end) return false;
    in->at += n_end;
    in->in_paste = false;
    *ev = (struct key_event){.key = K_PASTE, .text = str_get(&in->paste), .n = in->paste.n};
    return true;
}

void input_end_paste(struct input *in)
{
    if (in->in_paste) input_feed(in, PASTE_END, strlen(PASTE_END));
}

/* Detects whether an arrow, whose sequence of `length` bytes s begins with, comes from a wheel. */
static void find_wheel(struct input *in, const char *s, size_t n, size_t length,
                       struct key_event *ev)
{
    int equal = 0;
    if (in->n_wheel == 0) {
        for (size_t at = 0; at + length <= n && !memcmp(s + at, s, length); at += length) equal++;
        if (equal >= WHEEL_LEAST) in->n_wheel = equal;
    }
    if (in->n_wheel == 0) return;
    in->n_wheel--;
    ev->key = ev->key == K_UP ? K_WHEEL_UP : K_WHEEL_DOWN;
}

bool input_next(struct input *in, bool late, struct key_event *ev)
{
    for (;;) {
        *ev = (struct key_event){0};
        if (in->in_paste) return take_paste(in, ev);
        const char *s = str_get(&in->bytes) + in->at;
        size_t n = in->bytes.n - in->at;
        if (n == 0) return false;
        size_t used =
            s[0] == '\033' ? take_escape(in, s, n, late, ev) : take_character(s, n, late, ev);
        if (used == 0) return false;
        in->at += used;
        if (ev->key == K_UP || ev->key == K_DOWN) find_wheel(in, s, n, used, ev);
        if (ev->key) return true;
    }
}
