#include "cli/print/sanitize.h"

#include <stdlib.h>
#include <string.h>

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

static void emit(const struct sanitizer *z, uint32_t cp, const char *bytes, int length,
                 struct str *out)
{
    if ((cp == '\n' || cp == '\t') && !z->one_line)
        str_append(out, bytes, 1);
    else if (cp < 0x20 || cp == 0x7F)
        mark_control((unsigned char)cp, z->ascii, out);
    else if (utf8_hidden(cp))
        str_printf(out, "<U+%04X>", (unsigned)cp);
    else if (z->ascii && cp > 0x7F)
        str_puts(out, "?");
    else
        str_append(out, bytes, (size_t)length);
}

/* A CR waits for the character after it. */
static void feed(struct sanitizer *z, const char *bytes, size_t n, bool ends, struct str *out)
{
    struct str whole = {0};
    int length;
    str_reserve(&whole, 3 * (n + sizeof z->join.pending));
    whole.n = utf8_join(&z->join, bytes, n, ends, whole.data);
    for (size_t at = 0; at < whole.n; at += (size_t)length) {
        length = utf8_length(whole.data + at, whole.n - at);
        uint32_t cp = utf8_decode(whole.data + at, length);
        if (z->cr && (cp != '\n' || z->one_line)) mark_control('\r', z->ascii, out);
        z->cr = cp == '\r';
        if (!z->cr) emit(z, cp, whole.data + at, length, out);
    }
    if (z->cr && ends) mark_control('\r', z->ascii, out);
    str_release(&whole);
}

void sanitize_feed(struct sanitizer *z, const char *bytes, size_t n, struct str *out)
{
    feed(z, bytes, n, false, out);
}

void sanitize_end(struct sanitizer *z, struct str *out)
{
    feed(z, "", 0, true, out);
    z->cr = false;
}

void sanitize(const char *bytes, size_t n, bool ascii, bool one_line, struct str *out)
{
    struct sanitizer z = {.ascii = ascii, .one_line = one_line};
    feed(&z, bytes, n, true, out);
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
