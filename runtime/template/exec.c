/* exec: statements. */
#include "runtime/template/eval.h"

/* The names of a loop: one, or one for each of an item's values. */
static void assign_item(struct run *r, struct scope *s, const struct node *names, struct value v)
{
    if (!names->next) {
        scope_set(r, s, names->value.as.text, v);
        return;
    }
    const struct list *items = value_items(&r->heap, v);
    size_t i = 0;
    for (const struct node *n = names; n; n = n->next, i++)
        if (i < items->n) scope_set(r, s, n->value.as.text, items->items[i]);
    if (i != items->n) heap_fail(&r->heap, "%zu values for %zu names", items->n, i);
}

static void assign(struct run *r, struct scope *s, const struct node *target, struct value v)
{
    if (target->kind == NODE_NAME) {
        scope_set(r, s, target->value.as.text, v);
    } else {
        struct value object = eval(r, s, target->a);
        if (object.kind != VALUE_DICT || !object.as.dict->is_namespace)
            heap_fail(&r->heap, "only a namespace's attributes can be set");
        dict_set(&r->heap, object.as.dict, target->value, v);
    }
}

static enum jump exec_if(struct run *r, struct scope *s, const struct node *n)
{
    for (const struct node *branch = n->a; branch; branch = branch->next)
        if (!branch->a || value_truth(eval(r, s, branch->a))) return exec(r, s, branch->b);
    return JUMP_NONE;
}

/* The items for which the loop's condition holds. */
static const struct list *chosen(struct run *r, struct scope *s, const struct node *n,
                                 const struct list *items)
{
    if (!n->e) return items;
    struct list *list = list_make(&r->heap, LIST);
    for (size_t i = 0; i < items->n; i++) {
        struct scope *pass = scope_make(r, s);
        assign_item(r, pass, n->a, items->items[i]);
        if (value_truth(eval(r, pass, n->e))) list_push(&r->heap, list, items->items[i]);
    }
    return list;
}

static enum jump exec_for(struct run *r, struct scope *s, const struct node *n)
{
    const struct list *items = chosen(r, s, n, value_items(&r->heap, eval(r, s, n->b)));
    struct loop *loop = heap_take(&r->heap, 1, sizeof *loop);
    struct value object = {.kind = VALUE_LOOP, .as.loop = loop};
    enum jump jump = JUMP_NONE;
    if (items->n == 0) return n->d ? exec(r, scope_make(r, s), n->d) : JUMP_NONE;
    *loop = (struct loop){.items = items};
    for (size_t i = 0; i < items->n && jump != JUMP_BREAK; i++) {
        struct scope *pass = scope_make(r, s);
        heap_step(&r->heap, 1);
        loop->at = i;
        scope_set(r, pass, text_of("loop"), object);
        assign_item(r, pass, n->a, items->items[i]);
        jump = exec(r, pass, n->c);
    }
    return JUMP_NONE;
}

static struct macro *make_macro(struct run *r, struct scope *s, const struct node *n)
{
    struct macro *m = heap_take(&r->heap, 1, sizeof *m);
    *m = (struct macro){.parameters = n->a, .body = n->c, .scope = s};
    return m;
}

static void exec_macro(struct run *r, struct scope *s, const struct node *n)
{
    struct macro *m = make_macro(r, s, n);
    m->name = n->value.as.text;
    scope_set(r, s, m->name, (struct value){.kind = VALUE_MACRO, .as.macro = m});
}

static void exec_call_block(struct run *r, struct scope *s, const struct node *n)
{
    struct value callee = eval(r, s, n->b->a);
    struct args args = eval_args(r, s, n->b->b);
    struct value v = eval_call(r, callee, &args, make_macro(r, s, n));
    builder_put(r->out, value_str(&r->heap, v));
}

static void print(struct run *r, struct text t)
{
    heap_step(&r->heap, t.n / 64);
    builder_put(r->out, t);
}

static void exec_filter_block(struct run *r, struct scope *s, const struct node *n)
{
    struct value before = r->piped;
    r->piped = exec_captured(r, scope_make(r, s), n->c);
    print(r, value_str(&r->heap, eval(r, s, n->b)));
    r->piped = before;
}

static enum jump exec_one(struct run *r, struct scope *s, const struct node *n)
{
    switch (n->kind) {
    case NODE_DATA: print(r, n->value.as.text); break;
    case NODE_PRINT: print(r, value_str(&r->heap, eval(r, s, n->a))); break;
    case NODE_IF: return exec_if(r, s, n);
    case NODE_FOR: return exec_for(r, s, n);
    case NODE_SET: assign(r, s, n->a, eval(r, s, n->b)); break;
    case NODE_SET_BLOCK: assign(r, s, n->a, exec_captured(r, scope_make(r, s), n->c)); break;
    case NODE_MACRO: exec_macro(r, s, n); break;
    case NODE_CALL_BLOCK: exec_call_block(r, s, n); break;
    case NODE_FILTER_BLOCK: exec_filter_block(r, s, n); break;
    case NODE_GENERATION: return exec(r, scope_make(r, s), n->c);
    case NODE_BREAK: return JUMP_BREAK;
    case NODE_CONTINUE: return JUMP_CONTINUE;
    default: heap_fail(&r->heap, "an expression where a statement belongs");
    }
    return JUMP_NONE;
}

enum jump exec(struct run *r, struct scope *s, const struct node *statements)
{
    enum jump jump = JUMP_NONE;
    heap_enter(&r->heap);
    for (const struct node *n = statements; n && jump == JUMP_NONE; n = n->next) {
        heap_step(&r->heap, 1);
        r->heap.line = n->line;
        jump = exec_one(r, s, n);
    }
    heap_leave(&r->heap);
    return jump;
}

struct value exec_captured(struct run *r, struct scope *s, const struct node *statements)
{
    struct builder captured = {.heap = &r->heap}, *out = r->out;
    r->out = &captured;
    exec(r, s, statements);
    r->out = out;
    return value_text(builder_end(&captured));
}
