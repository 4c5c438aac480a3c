/* filters_list: filters of sequences and dicts. */
#include "base/utf8.h"
#include "runtime/template/eval.h"
#include "runtime/template/filters.h"

static const struct list *self_items(struct call *c)
{
    return value_items(c->heap, c->self);
}

static struct value filter_length(struct call *c)
{
    struct value v = c->self;
    if (v.kind == VALUE_TEXT) {
        heap_step(c->heap, v.as.text.n / 8);
        return value_int((int64_t)text_length(v.as.text));
    }
    if (v.kind == VALUE_UNDEFINED) return value_int(0);
    if (v.kind == VALUE_LIST && v.as.list->type != GENERATOR)
        return value_int((int64_t)v.as.list->n);
    if (v.kind == VALUE_DICT && !v.as.dict->is_namespace) return value_int((int64_t)v.as.dict->n);
    heap_fail(c->heap, ERR_FORMAT, "a %s has no length", value_type_name(v));
}

/* how: the last item. */
static struct value filter_end(struct call *c)
{
    const struct list *items = self_items(c);
    if (items->n == 0) return value_undefined(text_of(c->how ? "last item" : "first item"));
    return items->items[c->how ? items->n - 1 : 0];
}

static struct value filter_list(struct call *c)
{
    const struct list *items = self_items(c);
    struct list *all = list_make(c->heap, LIST);
    for (size_t i = 0; i < items->n; i++) list_push(c->heap, all, items->items[i]);
    return value_list(all);
}

static struct value filter_reverse(struct call *c)
{
    const struct list *items = self_items(c);
    struct list *all = list_make(c->heap, GENERATOR);
    struct builder b = {.heap = c->heap};
    for (size_t i = items->n; i-- > 0;)
        if (c->self.kind == VALUE_TEXT)
            builder_put(&b, items->items[i].as.text);
        else
            list_push(c->heap, all, items->items[i]);
    return c->self.kind == VALUE_TEXT ? value_text(builder_end(&b)) : value_list(all);
}

static struct value filter_items(struct call *c)
{
    if (c->self.kind == VALUE_UNDEFINED) return value_list(list_make(c->heap, GENERATOR));
    if (c->self.kind != VALUE_DICT || c->self.as.dict->is_namespace)
        heap_fail(c->heap, ERR_FORMAT, "items needs a dict, not a %s", value_type_name(c->self));
    struct list *all = dict_list(c->heap, c->self.as.dict, DICT_ITEMS);
    all->type = GENERATOR;
    return value_list(all);
}

static struct value filter_dictsort(struct call *c)
{
    struct value pairs = filter_items(c);
    bool by_value = c->p[1].kind == VALUE_TEXT && text_is(c->p[1].as.text, "value");
    return value_list(builtin_sort(c, pairs.as.list, value_int(by_value), !value_truth(c->p[0]),
                                   value_truth(c->p[2])));
}

static struct value filter_sort(struct call *c)
{
    return value_list(
        builtin_sort(c, self_items(c), c->p[2], !value_truth(c->p[1]), value_truth(c->p[0])));
}

/* how: the largest item, not the smallest. */
static struct value filter_extreme(struct call *c)
{
    struct list *sorted = builtin_sort(c, self_items(c), c->p[1], !value_truth(c->p[0]), c->how);
    return sorted->n > 0 ? sorted->items[0] : value_undefined(text_of("item"));
}

static struct value filter_sum(struct call *c)
{
    const struct list *items = self_items(c);
    struct value sum = c->p[1].kind == VALUE_ABSENT ? value_int(0) : c->p[1];
    for (size_t i = 0; i < items->n; i++) {
        struct value v = items->items[i];
        if (builtin_given(c->p[0])) v = builtin_attribute(c, v, c->p[0]);
        sum = eval_binary(c->run, '+', sum, v);
    }
    return sum;
}

static struct value filter_join(struct call *c)
{
    const struct list *items = self_items(c);
    struct text between = value_str(c->heap, c->p[0]);
    struct builder b = {.heap = c->heap};
    for (size_t i = 0; i < items->n; i++) {
        struct value v = items->items[i];
        heap_step(c->heap, 1);
        if (builtin_given(c->p[1])) v = builtin_attribute(c, v, c->p[1]);
        if (i > 0) builder_put(&b, between);
        builder_put(&b, value_str(c->heap, v));
    }
    return value_text(builder_end(&b));
}

static struct value filter_unique(struct call *c)
{
    const struct list *items = self_items(c);
    struct list *seen = list_make(c->heap, LIST), *all = list_make(c->heap, GENERATOR);
    for (size_t i = 0; i < items->n; i++) {
        struct value key = items->items[i];
        if (builtin_given(c->p[1])) key = builtin_attribute(c, key, c->p[1]);
        if (key.kind == VALUE_TEXT && !value_truth(c->p[0]))
            key.as.text = text_to_case(c->heap, key.as.text, TEXT_LOWER);
        if (value_contains(c->heap, value_list(seen), key)) continue;
        list_push(c->heap, seen, key);
        list_push(c->heap, all, items->items[i]);
    }
    return value_list(all);
}

/* ---- with a named filter or test ------------------------------------------------------------- */

static struct args without(const struct args *args, size_t n)
{
    struct args rest = *args;
    n = n < rest.n ? n : rest.n;
    if (n > 0) rest.at += n;
    rest.n -= n;
    return rest;
}

static const struct value *keyword(const struct args *args, const char *name)
{
    for (size_t i = 0; i < args->n_keywords; i++)
        if (text_is(args->keywords[i].name, name)) return &args->keywords[i].value;
    return NULL;
}

/* None and other false values give an empty list, without an error. */
static const struct list *true_items(struct call *c)
{
    return value_truth(c->self) ? self_items(c) : list_make(c->heap, LIST);
}

static struct value map_attribute(struct call *c, struct value path)
{
    const struct value *otherwise = keyword(c->args, "default");
    const struct list *items = true_items(c);
    struct list *all = list_make(c->heap, GENERATOR);
    for (size_t i = 0; i < items->n; i++) {
        struct value v = builtin_attribute(c, items->items[i], path);
        list_push(c->heap, all, v.kind == VALUE_UNDEFINED && otherwise ? *otherwise : v);
    }
    return value_list(all);
}

static const struct builtin *named(struct call *c, size_t at, bool is_filter)
{
    struct text name = builtin_text(c, at < c->args->n ? c->args->at[at] : value_none());
    const struct builtin *b = is_filter ? filter_named(name) : test_named(name);
    if (!b)
        heap_fail(c->heap, ERR_FORMAT, "the %s '%s' is not known", is_filter ? "filter" : "test",
                  utf8_show(name.data, name.n).text);
    return b;
}

static struct value filter_map(struct call *c)
{
    const struct value *path = keyword(c->args, "attribute");
    if (c->args->n == 0 && path) return map_attribute(c, *path);
    const struct builtin *filter = named(c, 0, true);
    struct args rest = without(c->args, 1);
    const struct list *items = true_items(c);
    struct list *all = list_make(c->heap, GENERATOR);
    for (size_t i = 0; i < items->n; i++)
        list_push(c->heap, all, builtin_call(c->run, filter, items->items[i], &rest));
    return value_list(all);
}

/* Items whose value (or attribute, the first argument) passes the test, or fails it. */
enum { PASSES = 1, BY_ATTRIBUTE = 2 };

static struct value filter_choose(struct call *c)
{
    bool by_attribute = c->how & BY_ATTRIBUTE, wanted = c->how & PASSES;
    size_t at = by_attribute;
    if (by_attribute && c->args->n == 0)
        heap_fail(c->heap, ERR_FORMAT, "an attribute's name is needed");
    const struct builtin *test = at < c->args->n ? named(c, at, false) : NULL;
    struct args rest = without(c->args, at + 1);
    const struct list *items = true_items(c);
    struct list *all = list_make(c->heap, GENERATOR);
    for (size_t i = 0; i < items->n; i++) {
        struct value v = items->items[i];
        if (by_attribute) v = builtin_attribute(c, v, c->args->at[0]);
        if (test) v = builtin_call(c->run, test, v, &rest);
        if (value_truth(v) == wanted) list_push(c->heap, all, items->items[i]);
    }
    return value_list(all);
}

static const struct builtin table[] = {
    {"count", filter_length, "", 0, 0},
    {"dictsort", filter_dictsort, "case_sensitive by reverse", 0, 0},
    {"first", filter_end, "", 0, false},
    {"items", filter_items, "", 0, 0},
    {"join", filter_join, "d attribute", 0, 0},
    {"last", filter_end, "", 0, true},
    {"length", filter_length, "", 0, 0},
    {"list", filter_list, "", 0, 0},
    {"map", filter_map, "*", 0, 0},
    {"max", filter_extreme, "case_sensitive attribute", 0, true},
    {"min", filter_extreme, "case_sensitive attribute", 0, false},
    {"reject", filter_choose, "*", 0, 0},
    {"rejectattr", filter_choose, "*", 0, BY_ATTRIBUTE},
    {"reverse", filter_reverse, "", 0, 0},
    {"select", filter_choose, "*", 0, PASSES},
    {"selectattr", filter_choose, "*", 0, BY_ATTRIBUTE | PASSES},
    {"sort", filter_sort, "reverse case_sensitive attribute", 0, 0},
    {"sum", filter_sum, "attribute start", 0, 0},
    {"unique", filter_unique, "case_sensitive attribute", 0, 0},
};

const struct builtin *filter_list_named(struct text name)
{
    return BUILTIN_FIND(table, name);
}
