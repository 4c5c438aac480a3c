/* markdown: an answer as styled screen lines, while it streams.
 *
 * The drawn bytes are those of the text itself, without the marks that md4c (CommonMark and tables)
 * interprets, so a screen line still knows its part of the text. Links and pictures are drawn as
 * written: nothing misleading is hidden, nothing is opened or run. The text is split into blocks
 * that are laid out one by one; a block followed by another never changes again. */
#ifndef RETAIN_TUI_TEXT_MARKDOWN_H
#define RETAIN_TUI_TEXT_MARKDOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Values of span.from for what is not in the text; n = columns of a rule, or the number of a code
 * block in "/copy code N". */
enum { SPAN_GLYPHS = 4, SPAN_BULLET = 0, SPAN_BAR, SPAN_RULE, SPAN_COPY };
#define SPAN_GLYPH(g) (UINT32_MAX - (uint32_t)(g))

struct span {
    uint32_t from, n; /* bytes of the text */
    uint16_t x;       /* column they begin at */
    uint8_t attr;     /* enum attr */
};

/* One line: covers text[from, from + n). Spans are in the order of their columns. */
typedef void markdown_line(void *ctx, size_t from, size_t n, const struct span *spans, int n_spans);

/* Lays out the block that begins at byte `at` of s [n], clean text (sanitize.h), and returns its
 * end. ends: the text is complete. */
size_t markdown_block(const char *s, size_t n, size_t at, bool ends, int width, markdown_line *line,
                      void *ctx);

/* The text of a span: bytes of the text, or a glyph in `glyph` (room for a rule of 256 columns). */
const char *span_text(const struct span *s, const char *text, bool ascii, char glyph[1024],
                      size_t *n);

/* ---- the colours of a code block (code.c) ---- */

struct language;

/* By the name after a fence, "python" or "py"; NULL = not known. */
const struct language *code_language(const char *name, size_t n);

/* The end of a comment or string that the next line continues; NULL = none. Begins as NULL. */
typedef const char *code_state;

/* A run of s[from, from + n) without blanks around it; attr: enum attr. In order, no two
 * overlap. */
typedef void code_run(void *ctx, size_t from, size_t n, uint8_t attr);

/* Runs over a line s [n] without its end. */
void code_line(const struct language *l, const char *s, size_t n, code_state *state, code_run *run,
               void *ctx);

#endif
