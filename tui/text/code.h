/* code: colours for the lines of a code block, by a small lexer: comments, strings, numbers and the
 * words of a language, which is a row of a table. It knows no grammar; what it does not know stays
 * plain. */
#ifndef RETAIN_TUI_TEXT_CODE_H
#define RETAIN_TUI_TEXT_CODE_H

#include <stddef.h>
#include <stdint.h>

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
