/* methods: of str, lists and dicts. */

#include "base/utf8.h"
#include "runtime/template/eval.h"

static struct text self(struct call *c)
{
    return c->self.as.text;
}

/* ---- str ------------------------------------------------------------------------------------- */

static struct value split_blanks(struct call *c, int64_t limit)
{
    struct list *parts = list_make(c->heap, LIST);
    struct text t = text_strip(c->heap, self(c), NULL, true, false);
    uint32_t u;
    while (t.n > 0) {
        size_t end = 0, length = 0;
        for (; end < t.n; end += length) {
            length = text_char(t, end, &u);
            if (utf8_is_space(u)) break;
        }
        if (limit-- == 0) end = t.n;
        list_push(c->heap, parts, value_text(text_slice(t, 0, end)));
        t = text_strip(c->heap, text_slice(t, end, t.n - end), NULL, true, false);
    }
    return value_list(parts);
}

static struct value method_split(struct call *c)
{
    int64_t limit = builtin_integer(c, c->p[1], -1);
    struct list *parts = list_make(c->heap, LIST);
    struct text t = self(c);
    heap_step(c->heap, t.n / 16);
    if (!builtin_given(c->p[0])) return split_blanks(c, limit);
    struct text between = builtin_text(c, c->p[0]);
    if (between.n == 0) heap_fail(c->heap, "a text cannot be split at nothing");
    for (size_t hit; limit != 0 && (hit = text_find(t, between, 0)) != TEXT_NONE; limit--) {
        list_push(c->heap, parts, value_text(text_slice(t, 0, hit)));
        t = text_slice(t, hit + between.n, t.n - hit - between.n);
    }
    list_push(c->heap, parts, value_text(t));
    return value_list(parts);
}

/* Whether the text begins (or ends) with the argument, or with any of a tuple. */
static bool touches(struct call *c, struct value what, bool end)
{
    struct text t = self(c);
    if (what.kind == VALUE_LIST && what.as.list->type == TUPLE) {
        for (size_t i = 0; i < what.as.list->n; i++)
            if (touches(c, value_text(builtin_text(c, what.as.list->items[i])), end)) return true;
        return false;
    }
    struct text part = builtin_text(c, what);
    return part.n <= t.n && text_equal(part, text_slice(t, end ? t.n - part.n : 0, part.n));
}

/* how: the end of the text, not its beginning. */
static struct value method_touches(struct call *c)
{
    return value_bool(touches(c, c->p[0], c->how));
}

static struct value method_replace(struct call *c)
{
    return value_text(
        text_replace(c->heap, self(c), builtin_text(c, c->p[0]), builtin_text(c, c->p[1])));
}

/* ---- list ------------------------------------------------------------------------------------ */

static struct value list_append(struct call *c)
{
    list_push(c->heap, c->self.as.list, c->p[0]);
    return value_none();
}

/* The index given by an argument; without one the last; in *at. */
static size_t list_place(struct call *c, struct value v)
{
    const struct list *list = c->self.as.list;
    int64_t at = builtin_integer(c, v, -1);
    if (at < 0) at += (int64_t)list->n;
    if (at < 0 || at >= (int64_t)list->n) heap_fail(c->heap, "the list has no item there");
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

/* ---- dict ------------------------------------------------------------------------------------ */

static struct value method_keys(struct call *c)
{
    return value_list(dict_keys(c->heap, c->self.as.dict));
}

static struct value method_items(struct call *c)
{
    return value_list(dict_items(c->heap, c->self.as.dict));
}

static struct value dict_get(struct call *c)
{
    const struct value *found = dict_find(c->heap, c->self.as.dict, c->p[0]);
    return found ? *found : c->p[1].kind == VALUE_ABSENT ? value_none() : c->p[1];
}

static struct value dict_update(struct call *c)
{
    if (c->p[0].kind != VALUE_DICT)
        heap_fail(c->heap, "update needs a dict, not a %s", value_type_name(c->p[0]));
    dict_add(c->heap, c->self.as.dict, c->p[0].as.dict);
    return value_none();
}

/* ---- tables ---------------------------------------------------------------------------------- */

static const struct builtin of_text[] = {
    {"capitalize", builtin_case, "", 0, TEXT_CAPITALIZE},
    {"endswith", method_touches, "suffix", 1, true},
    {"lower", builtin_case, "", 0, TEXT_LOWER},
    {"lstrip", builtin_strip, "chars", 0, STRIP_LEFT},
    {"replace", method_replace, "old new", 2, 0},
    {"rstrip", builtin_strip, "chars", 0, STRIP_RIGHT},
    {"split", method_split, "sep maxsplit", 0, 0},
    {"startswith", method_touches, "prefix", 1, false},
    {"strip", builtin_strip, "chars", 0, STRIP_LEFT | STRIP_RIGHT},
    {"title", builtin_case, "", 0, TEXT_TITLE},
    {"upper", builtin_case, "", 0, TEXT_UPPER},
};

static const struct builtin of_list[] = {
    {"append", list_append, "item", 1, 0},
    {"pop", list_pop, "index", 0, 0},
};

static const struct builtin of_dict[] = {
    {"get", dict_get, "key default", 1, 0},
    {"items", method_items, "", 0, 0},
    {"keys", method_keys, "", 0, 0},
    {"update", dict_update, "other", 1, 0},
};

const struct builtin *method_named(struct value object, struct text name)
{
    if (object.kind == VALUE_TEXT) return BUILTIN_FIND(of_text, name);
    if (object.kind == VALUE_LIST && object.as.list->type == LIST)
        return BUILTIN_FIND(of_list, name);
    if (object.kind == VALUE_DICT) return BUILTIN_FIND(of_dict, name);
    return NULL;
}
