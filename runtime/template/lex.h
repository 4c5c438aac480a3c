/* lex: the source of a template as tokens.
 *
 * Jinja 3.1's lexer with transformers' settings: trim_blocks (removes the line break after a block
 * tag or a comment), lstrip_blocks (removes blanks before them at the beginning of a line), `-` and
 * `+` at either end of a tag, and no line break at the end. */
#ifndef RETAIN_RUNTIME_TEMPLATE_LEX_H
#define RETAIN_RUNTIME_TEMPLATE_LEX_H

#include "runtime/template/text.h"
#include "runtime/template/value.h"

enum lex_kind {
    LEX_END,
    LEX_DATA,      /* text between tags */
    LEX_BLOCK,     /* {% */
    LEX_BLOCK_END, /* %} */
    LEX_PRINT,     /* {{ */
    LEX_PRINT_END, /* }} */
    LEX_NAME,
    LEX_STRING,
    LEX_NUMBER,
    LEX_OPERATOR,
};

/* Operators of one character are that character. */
enum lex_operator { LEX_EQUAL = 256, LEX_UNEQUAL, LEX_AT_LEAST, LEX_AT_MOST };

struct token {
    enum lex_kind kind;
    int line;
    int op;             /* of an operator */
    struct text text;   /* data, name or the string's contents; else the source text */
    struct value value; /* of a number */
};

struct lexer {
    struct heap *heap;
    struct text source; /* line breaks are \n */
    size_t at;
    int line;
    enum { LEX_IN_DATA, LEX_IN_BLOCK, LEX_IN_PRINT } state;
    bool line_starts;     /* the last tag removed the line break after it */
    enum lex_kind opened; /* the tag whose data was just returned; LEX_END: none */
    int n_brackets;       /* open ones, so that }} may end two dicts */
};

void lexer_init(struct lexer *l, struct heap *h, const char *source, size_t n);
struct token lexer_next(struct lexer *l);

#endif
