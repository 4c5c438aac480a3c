/* eval: runs the syntax tree. */
#ifndef RETAIN_RUNTIME_TEMPLATE_EVAL_H
#define RETAIN_RUNTIME_TEMPLATE_EVAL_H

#include <time.h>

#include "runtime/template/builtin.h"
#include "runtime/template/node.h"

struct binding;

struct scope { /* of one pass of a loop, a macro's call, or a block; `if` has none */
    struct scope *parent;
    struct binding *first;
};

struct macro {
    struct text name;
    const struct node *parameters, *body;
    struct scope *scope; /* the scope of its definition */
};

struct run {
    struct heap heap;
    struct scope *globals;
    struct builder *out;
    struct value piped; /* input of the filters of a filter block */
    struct tm now;      /* for strftime_now */
};

enum jump { JUMP_NONE, JUMP_BREAK, JUMP_CONTINUE };

struct value eval(struct run *r, struct scope *s, const struct node *n);
enum jump exec(struct run *r, struct scope *s, const struct node *statements);
/* Their output. */
struct value exec_captured(struct run *r, struct scope *s, const struct node *statements);

void scope_set(struct run *r, struct scope *s, struct text name, struct value value);
struct scope *scope_make(struct run *r, struct scope *parent);

struct value eval_item(struct run *r, struct value object, struct value key);
struct value eval_call(struct run *r, struct value callee, const struct args *args,
                       const struct macro *caller);
struct args eval_args(struct run *r, struct scope *s, const struct node *arguments);

/* op: an operator of the lexer; see parse.c. */
struct value eval_binary(struct run *r, int op, struct value a, struct value b);
bool eval_holds(struct run *r, int op, struct value a, struct value b); /* a comparison */

#endif
