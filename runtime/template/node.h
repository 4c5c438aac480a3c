/* node: the syntax tree of a template. The comment after a kind lists its parts; lists are chained
 * through `next`. */
#ifndef RETAIN_RUNTIME_TEMPLATE_NODE_H
#define RETAIN_RUNTIME_TEMPLATE_NODE_H

#include "runtime/template/value.h"

enum node_kind {
    /* expressions */
    NODE_CONST,     /* value */
    NODE_NAME,      /* value: the name */
    NODE_LIST,      /* a: items */
    NODE_TUPLE,     /* a: items */
    NODE_DICT,      /* a: PAIRs */
    NODE_PAIR,      /* a: key, b: value */
    NODE_ATTRIBUTE, /* a: object, value: name */
    NODE_ITEM,      /* a: object, b: index */
    NODE_SLICE,     /* a: object, b, c, d: start, stop, step, each may be NULL */
    NODE_CALL,      /* a: callee, b: ARGUMENTs */
    NODE_ARGUMENT,  /* a: expression, value: keyword (n = 0: none),  op: '*': spread */
    NODE_FILTER,    /* a: input (NULL: of a filter block), b: ARGUMENTs, value: name, builtin */
    NODE_TEST,      /* a: input, b: ARGUMENTs, value: name, builtin */
    NODE_NEGATIVE,  /* a */
    NODE_BINARY,    /* op, a, b */
    NODE_COMPARE,   /* op, a, b */
    NODE_AND,       /* a, b */
    NODE_OR,        /* a, b */
    NODE_NOT,       /* a */
    NODE_IF_ELSE,   /* a: condition, b: then, c: else or NULL */
    /* statements */
    NODE_DATA,         /* value */
    NODE_PRINT,        /* a */
    NODE_IF,           /* a: BRANCHes */
    NODE_BRANCH,       /* a: condition or NULL, b: statements */
    NODE_FOR,          /* a: names, b: iterable, c: statements, d: else, e: condition or NULL */
    NODE_SET,          /* a: target, b: expression */
    NODE_SET_BLOCK,    /* a: target, c: statements */
    NODE_MACRO,        /* value: name, a: PARAMETERs, c: statements */
    NODE_PARAMETER,    /* value: name, a: default or NULL */
    NODE_CALL_BLOCK,   /* a: PARAMETERs, b: CALL, c: statements */
    NODE_FILTER_BLOCK, /* b: FILTER, c: statements */
    NODE_GENERATION,   /* c: statements */
    NODE_BREAK,
    NODE_CONTINUE,
};

/* Comparisons in addition to the lexer's operators. */
enum node_operator { NODE_IN = 512, NODE_NOT_IN };

struct node {
    enum node_kind kind;
    int line;
    int op;
    struct node *next;
    struct node *a, *b, *c, *d, *e;
    struct value value;
    const struct builtin *builtin; /* NULL: unknown; an error only when it is executed */
};

/* The statements of a template; its nodes are allocated from *h. Leaves through heap_fail on a
 * syntax error and for an unknown tag. */
struct node *parse_template(struct heap *h, const char *source, size_t n);

#endif
