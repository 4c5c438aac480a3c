/* eval: expressions. */
#include "runtime/template/eval.h"

#include "base/utf8.h"
#include "runtime/template/lex.h"

/* ---- names ----------------------------------------------------------------------------------- */

struct binding {
    struct binding *next;
    struct text name;
    struct value value;
};

struct scope *scope_make(struct run *r, struct scope *parent)
{
    struct scope *s = heap_take(&r->heap, 1, sizeof *s);
    s->parent = parent;
    return s;
}

static struct binding *scope_find(struct run *r, const struct scope *s, struct text name)
{
    struct binding *b = s->first;
    size_t n = 0;
    for (; b && !text_equal(b->name, name); b = b->next) n++;
    heap_step(&r->heap, 1 + n / 8);
    return b;
}

void scope_set(struct run *r, struct scope *s, struct text name, struct value value)
{
    struct binding *b = scope_find(r, s, name);
    if (!b) {
        b = heap_take(&r->heap, 1, sizeof *b);
        b->name = name;
        b->next = s->first;
        s->first = b;
    }
    b->value = value;
}

static struct value eval_name(struct run *r, const struct scope *s, struct text name)
{
    for (; s; s = s->parent) {
        const struct binding *b = scope_find(r, s, name);
        if (b) return b->value;
    }
    const struct builtin *global = global_named(name);
    if (!global) return value_undefined(name);
    return (struct value){.kind = VALUE_FUNCTION, .as.function = {.builtin = global}};
}

static _Noreturn void fail_undefined(struct run *r, struct value v)
{
    struct utf8_shown name = utf8_show(v.as.text.data, v.as.text.n);
    heap_fail(&r->heap, "'%s' is undefined", name.text);
}

/* ---- attributes and items -------------------------------------------------------------------- */

static struct value loop_attribute(const struct loop *l, struct text name)
{
    int64_t at = (int64_t)l->at, n = (int64_t)l->items->n;
    if (text_is(name, "index")) return value_int(at + 1);
    if (text_is(name, "index0")) return value_int(at);
    if (text_is(name, "first")) return value_bool(at == 0);
    if (text_is(name, "last")) return value_bool(at == n - 1);
    if (text_is(name, "length")) return value_int(n);
    if (text_is(name, "previtem") && at > 0) return l->items->items[at - 1];
    if (text_is(name, "nextitem") && at + 1 < n) return l->items->items[at + 1];
    return value_undefined(name);
}

static struct value bound_method(struct run *r, struct value object, struct text name)
{
    const struct builtin *method = method_named(object, name);
    if (!method) return value_undefined(name);
    struct value *self = heap_take(&r->heap, 1, sizeof *self);
    *self = object;
    return (struct value){.kind = VALUE_FUNCTION, .as.function = {.builtin = method, .self = self}};
}

static struct value attribute(struct run *r, struct value object, struct text name)
{
    if (object.kind == VALUE_UNDEFINED) fail_undefined(r, object);
    if (object.kind == VALUE_LOOP) {
        struct value found = loop_attribute(object.as.loop, name);
        if (found.kind != VALUE_UNDEFINED) return found;
    }
    bool is_dict = object.kind == VALUE_DICT;
    struct value method = is_dict && object.as.dict->is_namespace ? value_undefined(name)
                                                                  : bound_method(r, object, name);
    if (method.kind != VALUE_UNDEFINED || !is_dict) return method;
    heap_step(&r->heap, object.as.dict->n / 8);
    const struct value *found = dict_find_text(object.as.dict, name);
    return found ? *found : value_undefined(name);
}

/* Negative indices count from the end. */
static bool in_range(int64_t *at, size_t n)
{
    if (*at < 0) *at += (int64_t)n;
    return *at >= 0 && *at < (int64_t)n;
}

static struct value text_item(struct run *r, struct text t, int64_t at)
{
    uint32_t c;
    heap_step(&r->heap, t.n / 8);
    if (!in_range(&at, text_length(t))) return value_undefined(text_of("character"));
    size_t from = text_offset(t, (size_t)at);
    return value_text(text_slice(t, from, text_char(t, from, &c)));
}

static bool is_indexed(struct value v)
{
    return v.kind == VALUE_LIST && v.as.list->type <= TUPLE;
}

struct value eval_item(struct run *r, struct value object, struct value key)
{
    if (object.kind == VALUE_UNDEFINED) fail_undefined(r, object);
    if (object.kind == VALUE_DICT && !object.as.dict->is_namespace) {
        const struct value *found = dict_find(&r->heap, object.as.dict, key);
        if (found) return *found;
    }
    if (value_is_integer(key)) {
        int64_t at = value_integer(key);
        if (object.kind == VALUE_TEXT) return text_item(r, object.as.text, at);
        if (is_indexed(object) && in_range(&at, object.as.list->n))
            return object.as.list->items[at];
    }
    if (key.kind == VALUE_TEXT) return attribute(r, object, key.as.text);
    return value_undefined(text_of("item"));
}

/* ---- slices ---------------------------------------------------------------------------------- */

static bool eval_bound(struct run *r, struct scope *s, const struct node *n, int64_t *out)
{
    if (!n) return false;
    struct value v = eval(r, s, n);
    if (v.kind == VALUE_NONE) return false;
    if (!value_is_integer(v))
        heap_fail(&r->heap, "a slice needs integers, not a %s", value_type_name(v));
    *out = value_integer(v);
    return true;
}

/* The index of a bound in n items; negative ones count from the end. */
static int64_t clamp(int64_t at, int64_t n)
{
    if (at < 0) at = at < -n ? 0 : at + n;
    return at > n ? n : at;
}

static struct value slice_text(struct run *r, struct text t, int64_t start, int64_t stop)
{
    heap_step(&r->heap, t.n / 8);
    const size_t from = text_offset(t, (size_t)start), end = text_offset(t, (size_t)stop);
    return value_text(text_slice(t, from, end > from ? end - from : 0));
}

static struct value slice_list(struct run *r, const struct list *list, int64_t start, int64_t stop)
{
    struct list *part = list_make(&r->heap, list->type);
    for (int64_t at = start; at < stop; at++) list_push(&r->heap, part, list->items[at]);
    return value_list(part);
}

static struct value reversed(struct run *r, const struct list *list)
{
    struct list *all = list_make(&r->heap, list->type);
    for (size_t i = list->n; i-- > 0;) list_push(&r->heap, all, list->items[i]);
    return value_list(all);
}

/* The only step is that of [::-1]. */
static struct value eval_slice(struct run *r, struct scope *s, const struct node *n)
{
    struct value object = eval(r, s, n->a);
    int64_t start = 0, stop = INT64_MAX, step = 1;
    if (object.kind == VALUE_UNDEFINED) fail_undefined(r, object);
    if (object.kind != VALUE_TEXT && !is_indexed(object)) return value_undefined(text_of("slice"));
    const bool is_text = object.kind == VALUE_TEXT;
    const bool begins = eval_bound(r, s, n->b, &start), ends = eval_bound(r, s, n->c, &stop);
    eval_bound(r, s, n->d, &step);
    if (step == -1 && !begins && !ends && !is_text) return reversed(r, object.as.list);
    if (step != 1) heap_fail(&r->heap, "of slices with a step only [::-1] of a list is known");
    const int64_t length = (int64_t)(is_text ? text_length(object.as.text) : object.as.list->n);
    start = clamp(start, length);
    stop = clamp(stop, length);
    return is_text ? slice_text(r, object.as.text, start, stop)
                   : slice_list(r, object.as.list, start, stop);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void add_keyword(struct run *r, struct args *args, struct text name, struct value value)
{
    size_t size = sizeof *args->keywords, n = args->n_keywords++;
    args->keywords = heap_grow(&r->heap, args->keywords, n * size, (n + 1) * size);
    args->keywords[n] = (struct keyword){name, value};
}

struct args eval_args(struct run *r, struct scope *s, const struct node *arguments)
{
    struct args args = {0};
    struct list *list = list_make(&r->heap, LIST);
    for (const struct node *n = arguments; n; n = n->next) {
        struct value v = eval(r, s, n->a);
        if (n->op == '*')
            list_add(&r->heap, list, value_items(&r->heap, v));
        else if (n->value.as.text.n > 0)
            add_keyword(r, &args, n->value.as.text, v);
        else
            list_push(&r->heap, list, v);
    }
    args.at = list->items;
    args.n = list->n;
    return args;
}

static struct value call_macro(struct run *r, const struct macro *m, const struct args *args,
                               const struct macro *caller)
{
    struct scope *s = scope_make(r, m->scope);
    size_t i = 0;
    for (const struct node *p = m->parameters; p; p = p->next, i++) {
        heap_step(&r->heap, args->n_keywords / 8);
        const struct value *given =
            i < args->n ? &args->at[i] : args_keyword(args, p->value.as.text);
        struct value v = given  ? *given
                         : p->a ? eval(r, s, p->a)
                                : value_undefined(p->value.as.text);
        scope_set(r, s, p->value.as.text, v);
    }
    if (caller) {
        struct value v = {.kind = VALUE_MACRO, .as.macro = caller};
        scope_set(r, s, text_of("caller"), v);
    }
    return exec_captured(r, s, m->body);
}

struct value eval_call(struct run *r, struct value callee, const struct args *args,
                       const struct macro *caller)
{
    if (callee.kind == VALUE_UNDEFINED) fail_undefined(r, callee);
    if (callee.kind == VALUE_MACRO) return call_macro(r, callee.as.macro, args, caller);
    if (callee.kind != VALUE_FUNCTION)
        heap_fail(&r->heap, "a %s cannot be called", value_type_name(callee));
    struct value self = callee.as.function.self ? *callee.as.function.self : value_none();
    return builtin_call(r, callee.as.function.builtin, self, args);
}

/* ---- operators ------------------------------------------------------------------------------- */

bool eval_holds(struct run *r, int op, struct value a, struct value b)
{
    struct heap *h = &r->heap;
    if (op == LEX_EQUAL) return value_equal(h, a, b);
    if (op == LEX_UNEQUAL) return !value_equal(h, a, b);
    if (op == NODE_IN) return value_contains(h, b, a);
    if (op == NODE_NOT_IN) return !value_contains(h, b, a);
    if (a.kind == VALUE_UNDEFINED) fail_undefined(r, a);
    if (b.kind == VALUE_UNDEFINED) fail_undefined(r, b);
    bool nan = value_is_number(a) && value_is_number(b) &&
               (value_real(a) != value_real(a) || value_real(b) != value_real(b));
    int order = value_compare(h, a, b);
    return !nan && (op == '<'           ? order < 0
                    : op == '>'         ? order > 0
                    : op == LEX_AT_MOST ? order <= 0
                                        : order >= 0);
}

static struct value eval_compare(struct run *r, struct scope *s, const struct node *n)
{
    struct value left = eval(r, s, n->a);
    return value_bool(eval_holds(r, n->op, left, eval(r, s, n->b)));
}

static struct value eval_sequence(struct run *r, struct scope *s, const struct node *n)
{
    struct list *list = list_make(&r->heap, n->kind == NODE_TUPLE ? TUPLE : LIST);
    for (const struct node *k = n->a; k; k = k->next) list_push(&r->heap, list, eval(r, s, k));
    return value_list(list);
}

static struct value eval_dict(struct run *r, struct scope *s, const struct node *n)
{
    struct dict *d = dict_make(&r->heap);
    for (const struct node *k = n->a; k; k = k->next) {
        struct value key = eval(r, s, k->a);
        dict_set(&r->heap, d, key, eval(r, s, k->b));
    }
    return value_dict(d);
}

static struct value eval_builtin(struct run *r, struct scope *s, const struct node *n)
{
    struct value self = n->a ? eval(r, s, n->a) : r->piped;
    struct args args = eval_args(r, s, n->b);
    struct text name = n->value.as.text;
    if (!n->builtin)
        heap_fail(&r->heap, "the %s '%s' is not known", n->kind == NODE_FILTER ? "filter" : "test",
                  utf8_show(name.data, name.n).text);
    return builtin_call(r, n->builtin, self, &args);
}

static struct value eval_choice(struct run *r, struct scope *s, const struct node *n)
{
    if (value_truth(eval(r, s, n->a))) return eval(r, s, n->b);
    return n->c ? eval(r, s, n->c) : value_undefined(text_of("else"));
}

static struct value eval_logic(struct run *r, struct scope *s, const struct node *n)
{
    struct value left = eval(r, s, n->a);
    return value_truth(left) == (n->kind == NODE_OR) ? left : eval(r, s, n->b);
}

static struct value eval_call_node(struct run *r, struct scope *s, const struct node *n)
{
    struct value callee = eval(r, s, n->a);
    struct args args = eval_args(r, s, n->b);
    return eval_call(r, callee, &args, NULL);
}

static struct value eval_item_node(struct run *r, struct scope *s, const struct node *n)
{
    struct value object = eval(r, s, n->a);
    return eval_item(r, object, eval(r, s, n->b));
}

static struct value eval_binary_node(struct run *r, struct scope *s, const struct node *n)
{
    struct value left = eval(r, s, n->a);
    return eval_binary(r, n->op, left, eval(r, s, n->b));
}

static struct value eval_kind(struct run *r, struct scope *s, const struct node *n)
{
    switch (n->kind) {
    case NODE_CONST: return n->value;
    case NODE_NAME: return eval_name(r, s, n->value.as.text);
    case NODE_LIST:
    case NODE_TUPLE: return eval_sequence(r, s, n);
    case NODE_DICT: return eval_dict(r, s, n);
    case NODE_ATTRIBUTE: return attribute(r, eval(r, s, n->a), n->value.as.text);
    case NODE_ITEM: return eval_item_node(r, s, n);
    case NODE_SLICE: return eval_slice(r, s, n);
    case NODE_CALL: return eval_call_node(r, s, n);
    case NODE_FILTER:
    case NODE_TEST: return eval_builtin(r, s, n);
    case NODE_NEGATIVE: return eval_binary(r, '-', value_int(0), eval(r, s, n->a));
    case NODE_BINARY: return eval_binary_node(r, s, n);
    case NODE_COMPARE: return eval_compare(r, s, n);
    case NODE_AND:
    case NODE_OR: return eval_logic(r, s, n);
    case NODE_NOT: return value_bool(!value_truth(eval(r, s, n->a)));
    case NODE_IF_ELSE: return eval_choice(r, s, n);
    default: heap_fail(&r->heap, "a statement where an expression belongs");
    }
}

struct value eval(struct run *r, struct scope *s, const struct node *n)
{
    heap_step(&r->heap, 1);
    heap_enter(&r->heap);
    r->heap.line = n->line;
    struct value v = eval_kind(r, s, n);
    heap_leave(&r->heap);
    return v;
}
