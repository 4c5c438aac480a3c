/* arithmetic: + - * % and ~ as in Python, on 64-bit integers. */
#include "runtime/template/eval.h"

static _Noreturn void fail_types(struct run *r, const char *op, struct value a, struct value b)
{
    struct value undefined = a.kind == VALUE_UNDEFINED ? a : b;
    if (undefined.kind == VALUE_UNDEFINED)
        heap_fail(&r->heap, "'%.*s' is undefined", (int)undefined.as.text.n,
                  undefined.as.text.data);
    heap_fail(&r->heap, "%s does not work on a %s and a %s", op, value_type_name(a),
              value_type_name(b));
}

/* + - * of numbers. */
static struct value compute(struct run *r, char op, struct value a, struct value b)
{
    if (!value_is_number(a) || !value_is_number(b)) fail_types(r, (char[]){op, '\0'}, a, b);
    if (a.kind == VALUE_FLOAT || b.kind == VALUE_FLOAT) {
        const double x = value_real(a), y = value_real(b);
        return value_float(op == '+' ? x + y : op == '-' ? x - y : x * y);
    }
    const int64_t x = value_integer(a), y = value_integer(b);
    int64_t n;
    bool over = op == '+'   ? __builtin_add_overflow(x, y, &n)
                : op == '-' ? __builtin_sub_overflow(x, y, &n)
                            : __builtin_mul_overflow(x, y, &n);
    if (over) heap_fail(&r->heap, "a number does not fit into 64 bits");
    return value_int(n);
}

static struct value join_lists(struct run *r, const struct list *a, const struct list *b)
{
    struct list *sum = list_make(&r->heap, a->type);
    list_add(&r->heap, sum, a);
    list_add(&r->heap, sum, b);
    return value_list(sum);
}

static bool is_list(struct value v)
{
    return v.kind == VALUE_LIST && v.as.list->type <= TUPLE;
}

static struct value add(struct run *r, struct value a, struct value b)
{
    if (a.kind == VALUE_TEXT && b.kind == VALUE_TEXT)
        return value_text(text_join2(&r->heap, a.as.text, b.as.text));
    if (is_list(a) && is_list(b) && a.as.list->type == b.as.list->type)
        return join_lists(r, a.as.list, b.as.list);
    return compute(r, '+', a, b);
}

static struct value repeat_list(struct run *r, const struct list *list, int64_t n)
{
    struct list *all = list_make(&r->heap, list->type);
    for (; n > 0 && list->n > 0; n--) list_add(&r->heap, all, list);
    return value_list(all);
}

static struct value multiply(struct run *r, struct value a, struct value b)
{
    if (value_is_integer(a) && (b.kind == VALUE_TEXT || is_list(b))) return multiply(r, b, a);
    if (a.kind == VALUE_TEXT && value_is_integer(b))
        return value_text(text_repeat(&r->heap, a.as.text, value_integer(b)));
    if (is_list(a) && value_is_integer(b)) return repeat_list(r, a.as.list, value_integer(b));
    return compute(r, '*', a, b);
}

/* Has the divisor's sign. */
static struct value remainder_of(struct run *r, struct value a, struct value b)
{
    if (!value_is_integer(a) || !value_is_integer(b)) fail_types(r, "%", a, b);
    const int64_t x = value_integer(a), y = value_integer(b);
    if (y == 0) heap_fail(&r->heap, "division by zero");
    if (y == -1) return value_int(0);
    const int64_t rest = x % y;
    return value_int(rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest);
}

struct value eval_binary(struct run *r, int op, struct value a, struct value b)
{
    switch (op) {
    case '+': return add(r, a, b);
    case '*': return multiply(r, a, b);
    case '%': return remainder_of(r, a, b);
    case '~':
        return value_text(text_join2(&r->heap, value_str(&r->heap, a), value_str(&r->heap, b)));
    default: return compute(r, '-', a, b);
    }
}
