/* checks: the tests behind `is`. */
#include "runtime/template/eval.h"
#include "runtime/template/lex.h"

#define CHECK(name, condition)               \
    static struct value name(struct call *c) \
    {                                        \
        return value_bool(condition);        \
    }

static bool is_sequence(struct value v)
{
    return v.kind == VALUE_TEXT || v.kind == VALUE_UNDEFINED ||
           (v.kind == VALUE_LIST && v.as.list->type <= RANGE) ||
           (v.kind == VALUE_DICT && !v.as.dict->is_namespace);
}

static int64_t remainder_of(struct call *c, struct value by)
{
    int64_t n = builtin_integer(c, by, 2);
    if (!value_is_integer(c->self) || n == 0)
        heap_fail(c->heap, "a %s cannot be divided so", value_type_name(c->self));
    return n == -1 ? 0 : value_integer(c->self) % n;
}

/* how: enum text_case. */
static struct value check_case(struct call *c)
{
    struct text t = value_str(c->heap, c->self);
    bool cased =
        !text_equal(text_to_case(c->heap, t, TEXT_UPPER), text_to_case(c->heap, t, TEXT_LOWER));
    return value_bool(cased && text_equal(t, text_to_case(c->heap, t, (enum text_case)c->how)));
}

CHECK(check_defined, c->self.kind != VALUE_UNDEFINED)
CHECK(check_undefined, c->self.kind == VALUE_UNDEFINED)
CHECK(check_none, c->self.kind == VALUE_NONE)
CHECK(check_string, c->self.kind == VALUE_TEXT)
CHECK(check_mapping, c->self.kind == VALUE_DICT && !c->self.as.dict->is_namespace)
CHECK(check_sequence, is_sequence(c->self))
CHECK(check_iterable, value_is_iterable(c->self))
CHECK(check_number, value_is_number(c->self))
CHECK(check_integer, c->self.kind == VALUE_INT)
CHECK(check_float, c->self.kind == VALUE_FLOAT)
CHECK(check_boolean, c->self.kind == VALUE_BOOL)
CHECK(check_true, c->self.kind == VALUE_BOOL && c->self.as.truth)
CHECK(check_false, c->self.kind == VALUE_BOOL && !c->self.as.truth)
CHECK(check_callable, c->self.kind == VALUE_MACRO || c->self.kind == VALUE_FUNCTION)
CHECK(check_odd, remainder_of(c, value_int(2)) != 0)
CHECK(check_even, remainder_of(c, value_int(2)) == 0)
CHECK(check_divisible, remainder_of(c, c->p[0]) == 0)
CHECK(check_compare, eval_holds(c->run, c->how, c->self, c->p[0])) /* how: the operator */

static const struct builtin table[] = {
    {"!=", check_compare, "other", 1, LEX_UNEQUAL},
    {"<", check_compare, "other", 1, '<'},
    {"<=", check_compare, "other", 1, LEX_AT_MOST},
    {"==", check_compare, "other", 1, LEX_EQUAL},
    {">", check_compare, "other", 1, '>'},
    {">=", check_compare, "other", 1, LEX_AT_LEAST},
    {"boolean", check_boolean, "", 0, 0},
    {"callable", check_callable, "", 0, 0},
    {"defined", check_defined, "", 0, 0},
    {"divisibleby", check_divisible, "num", 1, 0},
    {"eq", check_compare, "other", 1, LEX_EQUAL},
    {"equalto", check_compare, "other", 1, LEX_EQUAL},
    {"even", check_even, "", 0, 0},
    {"false", check_false, "", 0, 0},
    {"float", check_float, "", 0, 0},
    {"ge", check_compare, "other", 1, LEX_AT_LEAST},
    {"greaterthan", check_compare, "other", 1, '>'},
    {"gt", check_compare, "other", 1, '>'},
    {"in", check_compare, "seq", 1, NODE_IN},
    {"integer", check_integer, "", 0, 0},
    {"iterable", check_iterable, "", 0, 0},
    {"le", check_compare, "other", 1, LEX_AT_MOST},
    {"lessthan", check_compare, "other", 1, '<'},
    {"lower", check_case, "", 0, TEXT_LOWER},
    {"lt", check_compare, "other", 1, '<'},
    {"mapping", check_mapping, "", 0, 0},
    {"ne", check_compare, "other", 1, LEX_UNEQUAL},
    {"none", check_none, "", 0, 0},
    {"number", check_number, "", 0, 0},
    {"odd", check_odd, "", 0, 0},
    {"sequence", check_sequence, "", 0, 0},
    {"string", check_string, "", 0, 0},
    {"true", check_true, "", 0, 0},
    {"undefined", check_undefined, "", 0, 0},
    {"upper", check_case, "", 0, TEXT_UPPER},
};

const struct builtin *test_named(struct text name)
{
    return BUILTIN_FIND(table, name);
}
