#include "cli/print/sanitize.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8_width.h"

/* Code points without a glyph that change how others are shown. */
static bool hidden(uint32_t cp)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0x80, 0x9F},       /* C1: CSI, OSC, … in one character */
        {0x61C, 0x61C},     /* Arabic letter mark */
        {0x200E, 0x200F},   /* LRM, RLM */
        {0x2028, 0x202E},   /* line and paragraph separator, bidi embeddings and overrides */
        {0x2066, 0x206F},   /* bidi isolates, deprecated format characters */
        {0xFFF9, 0xFFFB},   /* interlinear annotation */
        {0xE0000, 0xE007F}, /* tags: invisible text */
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (cp >= ranges[i].first && cp <= ranges[i].last) return true;
    return false;
}

static void mark_control(unsigned char c, bool ascii, struct str *out)
{
    if (ascii) {
        str_printf(out, "^%c", c ^ 0x40);
        return;
    }
    char picture[4];
    int length = utf8_encode(c == 0x7F ? 0x2421 : 0x2400u + c, picture);
    str_append(out, picture, (size_t)length);
}

static void emit(uint32_t cp, const char *bytes, int length, bool ascii, struct str *out)
{
    if (cp == '\n' || cp == '\t')
        str_append(out, bytes, 1);
    else if (cp < 0x20 || cp == 0x7F)
        mark_control((unsigned char)cp, ascii, out);
    else if (hidden(cp))
        str_printf(out, "<U+%04X>", (unsigned)cp);
    else if (ascii && cp > 0x7F)
        str_puts(out, "?");
    else
        str_append(out, bytes, (size_t)length);
}

static void emit_invalid(bool ascii, struct str *out)
{
    str_puts(out, ascii ? "?" : "\xEF\xBF\xBD");
}

static void flush_cr(struct sanitizer *z, struct str *out)
{
    if (z->cr) mark_control('\r', z->ascii, out);
    z->cr = false;
}

/* One character, or one bad byte, of s; 0 when more bytes are needed. */
static int feed_one(struct sanitizer *z, const char *s, size_t n, struct str *out)
{
    uint32_t cp;
    int length = utf8_next(s, n, &cp);
    if (length == 0) return 0;
    if (length > 0 && cp == '\n') z->cr = false;
    flush_cr(z, out);
    if (length < 0) {
        emit_invalid(z->ascii, out);
        return 1;
    }
    if (cp == '\r')
        z->cr = true;
    else
        emit(cp, s, length, z->ascii, out);
    return length;
}

void sanitize_feed(struct sanitizer *z, const char *bytes, size_t n, struct str *out)
{
    size_t at = 0;
    while (z->n_pending > 0 && at < n) {
        /* an incomplete character: add byte by byte until it is complete or invalid */
        z->pending[z->n_pending++] = bytes[at++];
        int used = feed_one(z, z->pending, (size_t)z->n_pending, out);
        while (used > 0 && z->n_pending > 0) {
            z->n_pending -= used;
            memmove(z->pending, z->pending + used, (size_t)z->n_pending);
            used = feed_one(z, z->pending, (size_t)z->n_pending, out);
        }
    }
    while (at < n) {
        int used = feed_one(z, bytes + at, n - at, out);
        if (used == 0) break;
        at += (size_t)used;
    }
    while (at < n) z->pending[z->n_pending++] = bytes[at++];
}

void sanitize_end(struct sanitizer *z, struct str *out)
{
    flush_cr(z, out);
    for (; z->n_pending > 0; z->n_pending--) emit_invalid(z->ascii, out);
}

void sanitize(const char *bytes, size_t n, bool ascii, bool one_line, struct str *out)
{
    struct sanitizer z = {.ascii = ascii};
    for (size_t at = 0; one_line && at < n;) {
        const char *space = bytes + at;
        size_t run = 0;
        while (at + run < n && space[run] != '\n' && space[run] != '\t') run++;
        sanitize_feed(&z, space, run, out);
        at += run;
        if (at < n) {
            sanitize_end(&z, out);
            mark_control((unsigned char)bytes[at++], ascii, out);
        }
    }
    if (!one_line) sanitize_feed(&z, bytes, n, out);
    sanitize_end(&z, out);
}

/* ---- the terminal ---------------------------------------------------------------------------- */

bool terminal_is_polite(void)
{
    static const char *const polite[] = {"xterm", "tmux",  "screen",  "rxvt", "alacritty", "foot",
                                         "st",    "kitty", "wezterm", "vte",  "ghostty"};
    const char *name = getenv("TERM");
    for (size_t i = 0; name && i < sizeof polite / sizeof polite[0]; i++)
        if (strncmp(name, polite[i], strlen(polite[i])) == 0) return true;
    return false;
}
