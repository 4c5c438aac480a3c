#include "runtime/template/value.h"

/* ---- making ---------------------------------------------------------------------------------- */

struct value value_undefined(struct text name)
{
    return (struct value){.kind = VALUE_UNDEFINED, .as.text = name};
}

struct value value_none(void)
{
    return (struct value){.kind = VALUE_NONE};
}

struct value value_bool(bool truth)
{
    return (struct value){.kind = VALUE_BOOL, .as.truth = truth};
}

struct value value_int(int64_t number)
{
    return (struct value){.kind = VALUE_INT, .as.number = number};
}

struct value value_float(double real)
{
    return (struct value){.kind = VALUE_FLOAT, .as.real = real};
}

struct value value_text(struct text text)
{
    return (struct value){.kind = VALUE_TEXT, .as.text = text};
}

struct value value_list(struct list *list)
{
    return (struct value){.kind = VALUE_LIST, .as.list = list};
}

struct value value_dict(struct dict *dict)
{
    return (struct value){.kind = VALUE_DICT, .as.dict = dict};
}

struct list *list_make(struct heap *h, enum list_type type)
{
    struct list *list = heap_take(h, 1, sizeof *list);
    list->type = type;
    return list;
}

static size_t more(size_t cap)
{
    return cap < 4 ? 8 : 2 * cap;
}

void list_push(struct heap *h, struct list *list, struct value item)
{
    heap_step(h, 1);
    if (list->n == list->cap) {
        size_t cap = more(list->cap), size = sizeof *list->items;
        list->items = heap_grow(h, list->items, list->cap * size, cap * size);
        list->cap = cap;
    }
    list->items[list->n++] = item;
}

void list_add(struct heap *h, struct list *list, const struct list *more)
{
    for (size_t i = 0, n = more->n; i < n; i++) list_push(h, list, more->items[i]);
}

struct dict *dict_make(struct heap *h)
{
    return heap_take(h, 1, sizeof(struct dict));
}

const struct value *dict_find_text(const struct dict *d, struct text key)
{
    for (size_t i = 0; i < d->n; i++)
        if (d->pairs[i].key.kind == VALUE_TEXT && text_equal(d->pairs[i].key.as.text, key))
            return &d->pairs[i].value;
    return NULL;
}

const struct value *dict_find(struct heap *h, const struct dict *d, struct value key)
{
    heap_step(h, d->n / 8);
    if (key.kind == VALUE_TEXT) return dict_find_text(d, key.as.text);
    if (key.kind == VALUE_DICT || (key.kind == VALUE_LIST && key.as.list->type != TUPLE))
        heap_fail(h, "a %s cannot be a key", value_type_name(key));
    for (size_t i = 0; i < d->n; i++)
        if (value_equal(h, d->pairs[i].key, key)) return &d->pairs[i].value;
    return NULL;
}

void dict_set(struct heap *h, struct dict *d, struct value key, struct value value)
{
    heap_step(h, 1);
    const struct value *found = dict_find(h, d, key);
    if (found) {
        *(struct value *)found = value;
        return;
    }
    if (d->n == d->cap) {
        size_t cap = more(d->cap), size = sizeof *d->pairs;
        d->pairs = heap_grow(h, d->pairs, d->cap * size, cap * size);
        d->cap = cap;
    }
    d->pairs[d->n++] = (struct pair){key, value};
}

void dict_add(struct heap *h, struct dict *d, const struct dict *more)
{
    for (size_t i = 0, n = more->n; i < n; i++)
        dict_set(h, d, more->pairs[i].key, more->pairs[i].value);
}

struct list *dict_keys(struct heap *h, const struct dict *d)
{
    struct list *list = list_make(h, LIST);
    for (size_t i = 0; i < d->n; i++) list_push(h, list, d->pairs[i].key);
    return list;
}

struct list *dict_items(struct heap *h, const struct dict *d)
{
    struct list *list = list_make(h, LIST);
    for (size_t i = 0; i < d->n; i++) {
        struct list *pair = list_make(h, TUPLE);
        list_push(h, pair, d->pairs[i].key);
        list_push(h, pair, d->pairs[i].value);
        list_push(h, list, value_list(pair));
    }
    return list;
}

/* ---- asking ---------------------------------------------------------------------------------- */

bool value_is_integer(struct value v)
{
    return v.kind == VALUE_INT || v.kind == VALUE_BOOL;
}

bool value_is_number(struct value v)
{
    return value_is_integer(v) || v.kind == VALUE_FLOAT;
}

int64_t value_integer(struct value v)
{
    return v.kind == VALUE_BOOL ? v.as.truth : v.as.number;
}

double value_real(struct value v)
{
    return v.kind == VALUE_FLOAT ? v.as.real : (double)value_integer(v);
}

const char *value_type_name(struct value v)
{
    static const char *const lists[] = {"list", "tuple", "generator"};
    switch ((enum value_kind)v.kind) {
    case VALUE_ABSENT:
    case VALUE_UNDEFINED: return "Undefined";
    case VALUE_NONE: return "NoneType";
    case VALUE_BOOL: return "bool";
    case VALUE_INT: return "int";
    case VALUE_FLOAT: return "float";
    case VALUE_TEXT: return "str";
    case VALUE_LIST: return lists[v.as.list->type];
    case VALUE_DICT: return v.as.dict->is_namespace ? "Namespace" : "dict";
    case VALUE_LOOP: return "LoopContext";
    case VALUE_MACRO: return "Macro";
    case VALUE_FUNCTION: return "function";
    }
    return "value";
}

bool value_truth(struct value v)
{
    switch ((enum value_kind)v.kind) {
    case VALUE_BOOL: return v.as.truth;
    case VALUE_INT: return v.as.number != 0;
    case VALUE_FLOAT: return v.as.real != 0;
    case VALUE_TEXT: return v.as.text.n > 0;
    case VALUE_LIST: return v.as.list->type == GENERATOR || v.as.list->n > 0;
    case VALUE_DICT: return v.as.dict->is_namespace || v.as.dict->n > 0;
    case VALUE_LOOP:
    case VALUE_MACRO:
    case VALUE_FUNCTION: return true;
    default: return false;
    }
}

/* ---- comparing ------------------------------------------------------------------------------- */

static bool lists_equal(struct heap *h, const struct list *a, const struct list *b)
{
    bool equal = a->type == b->type && a->n == b->n;
    if (a == b || !equal) return equal;
    heap_enter(h);
    for (size_t i = 0; equal && i < a->n; i++) equal = value_equal(h, a->items[i], b->items[i]);
    heap_leave(h);
    return equal;
}

static bool dicts_equal(struct heap *h, const struct dict *a, const struct dict *b)
{
    if (a == b || a->is_namespace || b->is_namespace || a->n != b->n) return a == b;
    bool equal = true;
    heap_enter(h);
    for (size_t i = 0; equal && i < a->n; i++) {
        const struct value *found = dict_find(h, b, a->pairs[i].key);
        equal = found && value_equal(h, a->pairs[i].value, *found);
    }
    heap_leave(h);
    return equal;
}

bool value_equal(struct heap *h, struct value a, struct value b)
{
    heap_step(h, 1);
    if (value_is_integer(a) && value_is_integer(b)) return value_integer(a) == value_integer(b);
    if (value_is_number(a) && value_is_number(b)) return value_real(a) == value_real(b);
    if (a.kind != b.kind) return false;
    switch ((enum value_kind)a.kind) {
    case VALUE_TEXT: heap_step(h, a.as.text.n / 64); return text_equal(a.as.text, b.as.text);
    case VALUE_LIST: return lists_equal(h, a.as.list, b.as.list);
    case VALUE_DICT: return dicts_equal(h, a.as.dict, b.as.dict);
    case VALUE_LOOP: return a.as.loop == b.as.loop;
    case VALUE_MACRO: return a.as.macro == b.as.macro;
    case VALUE_FUNCTION:
        return a.as.function.builtin == b.as.function.builtin &&
               a.as.function.self == b.as.function.self;
    default: return true;
    }
}

static int compare_lists(struct heap *h, const struct list *a, const struct list *b)
{
    int order = 0;
    heap_enter(h);
    for (size_t i = 0; order == 0 && i < a->n && i < b->n; i++)
        if (!value_equal(h, a->items[i], b->items[i]))
            order = value_compare(h, a->items[i], b->items[i]);
    heap_leave(h);
    return order ? order : (a->n > b->n) - (a->n < b->n);
}

int value_compare(struct heap *h, struct value a, struct value b)
{
    heap_step(h, 1);
    if (value_is_integer(a) && value_is_integer(b)) {
        int64_t x = value_integer(a), y = value_integer(b);
        return (x > y) - (x < y);
    }
    if (value_is_number(a) && value_is_number(b)) {
        double x = value_real(a), y = value_real(b);
        return (x > y) - (x < y);
    }
    if (a.kind == VALUE_TEXT && b.kind == VALUE_TEXT) {
        heap_step(h, a.as.text.n / 64);
        return text_compare(a.as.text, b.as.text);
    }
    if (a.kind == VALUE_LIST && b.kind == VALUE_LIST && a.as.list->type == b.as.list->type &&
        a.as.list->type <= TUPLE)
        return compare_lists(h, a.as.list, b.as.list);
    heap_fail(h, "a %s and a %s have no order", value_type_name(a), value_type_name(b));
}

bool value_contains(struct heap *h, struct value container, struct value item)
{
    if (container.kind == VALUE_TEXT) {
        if (item.kind != VALUE_TEXT)
            heap_fail(h, "a %s cannot be in a text", value_type_name(item));
        heap_step(h, container.as.text.n / 64);
        return text_find(container.as.text, item.as.text, 0) != TEXT_NONE;
    }
    if (container.kind == VALUE_DICT && !container.as.dict->is_namespace)
        return dict_find(h, container.as.dict, item);
    const struct list *items = value_items(h, container);
    for (size_t i = 0; i < items->n; i++)
        if (value_equal(h, items->items[i], item)) return true;
    return false;
}

/* ---- iterating ------------------------------------------------------------------------------- */

bool value_is_iterable(struct value v)
{
    return v.kind == VALUE_UNDEFINED || v.kind == VALUE_TEXT || v.kind == VALUE_LIST ||
           (v.kind == VALUE_DICT && !v.as.dict->is_namespace);
}

static const struct list *characters(struct heap *h, struct text t)
{
    struct list *list = list_make(h, LIST);
    uint32_t c;
    for (size_t at = 0, length; at < t.n; at += length) {
        length = text_char(t, at, &c);
        list_push(h, list, value_text(text_slice(t, at, length)));
    }
    return list;
}

/* A generator returns its items only once. */
static const struct list *take_items(struct heap *h, struct list *generator)
{
    struct list *items = list_make(h, GENERATOR);
    *items = *generator;
    *generator = (struct list){.type = GENERATOR};
    return items;
}

const struct list *value_items(struct heap *h, struct value v)
{
    if (v.kind == VALUE_LIST && v.as.list->type == GENERATOR) return take_items(h, v.as.list);
    if (v.kind == VALUE_LIST) return v.as.list;
    if (v.kind == VALUE_TEXT) return characters(h, v.as.text);
    if (!value_is_iterable(v)) heap_fail(h, "a %s cannot be iterated", value_type_name(v));
    return v.kind == VALUE_DICT ? dict_keys(h, v.as.dict) : list_make(h, LIST);
}
