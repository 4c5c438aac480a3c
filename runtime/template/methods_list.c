/* methods_list: methods of lists, dicts and the loop object. */
#include "runtime/template/eval.h"
#include "runtime/template/methods.h"

/* ---- list ------------------------------------------------------------------------------------ */

static struct value list_append(struct call *c)
{
    list_push(c->heap, c->self.as.list, c->p[0]);
    return value_none();
}

static struct value list_extend(struct call *c)
{
    const struct list *more = value_items(c->heap, c->p[0]);
    for (size_t i = 0, n = more->n; i < n; i++) list_push(c->heap, c->self.as.list, more->items[i]);
    return value_none();
}

/* The index given by an argument; without one the last; in *at. */
static size_t list_place(struct call *c, struct value v)
{
    const struct list *list = c->self.as.list;
    int64_t at = builtin_integer(c, v, -1);
    if (at < 0) at += (int64_t)list->n;
    if (at < 0 || at >= (int64_t)list->n)
        heap_fail(c->heap, ERR_FORMAT, "the list has no item there");
    return (size_t)at;
}

static struct value list_pop(struct call *c)
{
    struct list *list = c->self.as.list;
    size_t at = list_place(c, c->p[0]);
    struct value v = list->items[at];
    heap_step(c->heap, list->n / 16);
    for (size_t i = at + 1; i < list->n; i++) list->items[i - 1] = list->items[i];
    list->n--;
    return v;
}

static struct value list_insert(struct call *c)
{
    struct list *list = c->self.as.list;
    int64_t at = builtin_integer(c, c->p[0], 0), n = (int64_t)list->n;
    if (at < 0) at = at < -n ? 0 : at + n;
    if (at > n) at = n;
    list_push(c->heap, list, c->p[1]);
    heap_step(c->heap, list->n / 16);
    for (int64_t i = n; i > at; i--) list->items[i] = list->items[i - 1];
    list->items[at] = c->p[1];
    return value_none();
}

static size_t list_find(struct call *c)
{
    const struct list *list = c->self.as.list;
    size_t i = 0;
    while (i < list->n && !value_equal(c->heap, list->items[i], c->p[0])) i++;
    return i;
}

static struct value list_index(struct call *c)
{
    size_t at = list_find(c);
    if (at == c->self.as.list->n)
        heap_fail(c->heap, ERR_FORMAT, "index: the item is not in the list");
    return value_int((int64_t)at);
}

static struct value list_count(struct call *c)
{
    int64_t n = 0;
    for (size_t i = 0; i < c->self.as.list->n; i++)
        n += value_equal(c->heap, c->self.as.list->items[i], c->p[0]);
    return value_int(n);
}

/* ---- dict ------------------------------------------------------------------------------------ */

/* keys, values and items; how: enum list_type. */
static struct value dict_view(struct call *c)
{
    return value_list(dict_list(c->heap, c->self.as.dict, (enum list_type)c->how));
}

static struct value dict_get(struct call *c)
{
    const struct value *found = dict_find(c->heap, c->self.as.dict, c->p[0]);
    return found ? *found : c->p[1].kind == VALUE_ABSENT ? value_none() : c->p[1];
}

static struct value dict_copy(struct call *c)
{
    struct dict *made = dict_make(c->heap);
    dict_add(c->heap, made, c->self.as.dict);
    return value_dict(made);
}

static struct value dict_update(struct call *c)
{
    if (c->p[0].kind != VALUE_DICT)
        heap_fail(c->heap, ERR_FORMAT, "update needs a dict, not a %s", value_type_name(c->p[0]));
    dict_add(c->heap, c->self.as.dict, c->p[0].as.dict);
    return value_none();
}

static struct value dict_pop(struct call *c)
{
    const struct value *found = dict_find(c->heap, c->self.as.dict, c->p[0]);
    struct value v = found ? *found : c->p[1];
    if (v.kind == VALUE_ABSENT) heap_fail(c->heap, ERR_FORMAT, "pop: the dict has no such key");
    if (found) dict_remove(c->self.as.dict, found);
    return v;
}

/* ---- loop ------------------------------------------------------------------------------------ */

static struct value loop_cycle(struct call *c)
{
    if (c->args->n == 0) heap_fail(c->heap, ERR_FORMAT, "cycle needs an argument");
    return c->args->at[c->self.as.loop->at % c->args->n];
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* The first two are also methods of a tuple. */
static const struct builtin of_list[] = {
    {"count", list_count, "value", 1, 0},        {"index", list_index, "value", 1, 0},
    {"append", list_append, "item", 1, 0},       {"extend", list_extend, "iterable", 1, 0},
    {"insert", list_insert, "index item", 2, 0}, {"pop", list_pop, "index", 0, 0},
};

static const struct builtin of_dict[] = {
    {"copy", dict_copy, "", 0, 0},
    {"get", dict_get, "key default", 1, 0},
    {"items", dict_view, "", 0, DICT_ITEMS},
    {"keys", dict_view, "", 0, DICT_KEYS},
    {"pop", dict_pop, "key default", 1, 0},
    {"update", dict_update, "other", 1, 0},
    {"values", dict_view, "", 0, DICT_VALUES},
};

static const struct builtin of_loop[] = {
    {"cycle", loop_cycle, "*", 0, 0},
};

const struct builtin *method_list_named(struct value object, struct text name)
{
    if (object.kind == VALUE_LIST && object.as.list->type == LIST)
        return BUILTIN_FIND(of_list, name);
    if (object.kind == VALUE_LIST && object.as.list->type == TUPLE)
        return builtin_find(of_list, 2, name);
    if (object.kind == VALUE_DICT) return BUILTIN_FIND(of_dict, name);
    if (object.kind == VALUE_LOOP) return BUILTIN_FIND(of_loop, name);
    return NULL;
}
