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
           (v.kind == VALUE_LIST && v.as.list->type <= TUPLE) ||
           (v.kind == VALUE_DICT && !v.as.dict->is_namespace);
}

CHECK(check_defined, c->self.kind != VALUE_UNDEFINED)
CHECK(check_undefined, c->self.kind == VALUE_UNDEFINED)
CHECK(check_none, c->self.kind == VALUE_NONE)
CHECK(check_string, c->self.kind == VALUE_TEXT)
CHECK(check_mapping, c->self.kind == VALUE_DICT && !c->self.as.dict->is_namespace)
CHECK(check_sequence, is_sequence(c->self))
CHECK(check_iterable, value_is_iterable(c->self))
CHECK(check_boolean, c->self.kind == VALUE_BOOL)
CHECK(check_true, c->self.kind == VALUE_BOOL && c->self.as.truth)
CHECK(check_false, c->self.kind == VALUE_BOOL && !c->self.as.truth)
CHECK(check_compare, eval_holds(c->run, c->how, c->self, c->p[0])) /* how: the operator */

static const struct builtin table[] = {
    {"==", check_compare, "other", 1, LEX_EQUAL},
    {"boolean", check_boolean, "", 0, 0},
    {"defined", check_defined, "", 0, 0},
    {"eq", check_compare, "other", 1, LEX_EQUAL},
    {"equalto", check_compare, "other", 1, LEX_EQUAL},
    {"false", check_false, "", 0, 0},
    {"in", check_compare, "seq", 1, NODE_IN},
    {"iterable", check_iterable, "", 0, 0},
    {"mapping", check_mapping, "", 0, 0},
    {"ne", check_compare, "other", 1, LEX_UNEQUAL},
    {"none", check_none, "", 0, 0},
    {"sequence", check_sequence, "", 0, 0},
    {"string", check_string, "", 0, 0},
    {"true", check_true, "", 0, 0},
    {"undefined", check_undefined, "", 0, 0},
};

const struct builtin *test_named(struct text name)
{
    return BUILTIN_FIND(table, name);
}
