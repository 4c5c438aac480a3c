/* parse_parts: shared by the two halves of the parser. */
#ifndef RETAIN_RUNTIME_TEMPLATE_PARSE_PARTS_H
#define RETAIN_RUNTIME_TEMPLATE_PARSE_PARTS_H

#include "runtime/template/lex.h"
#include "runtime/template/node.h"

struct parser {
    struct heap *heap;
    struct lexer lexer;
    struct token now, ahead;
    int n_loops; /* around the current statement, for break and continue */
};

struct node *parse_node(struct parser *p, enum node_kind kind);
void parse_next(struct parser *p);
bool parse_sees(const struct parser *p, int op);
bool parse_sees_name(const struct parser *p, const char *name);
bool parse_skip(struct parser *p, int op); /* true: it was skipped */
bool parse_skip_name(struct parser *p, const char *name);
void parse_expect(struct parser *p, int op, const char *text);
struct text parse_name(struct parser *p);
_Noreturn void parse_fail(struct parser *p, const char *expected);

struct node *parse_expression(struct parser *p);
/* Expressions separated by commas are a tuple; in_for: "if" after them is not a condition. */
struct node *parse_tuple(struct parser *p, bool in_for);
struct node *parse_primary(struct parser *p);
/* name(args)|name …: filters; `input` may be NULL. */
struct node *parse_filters(struct parser *p, struct node *input);

#endif
