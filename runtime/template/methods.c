/* methods: of str, lists and dicts. */
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "runtime/template/eval.h"

static struct text self(struct call *c)
{
    return c->self.as.text;
}

/* ---- splitting and joining ------------------------------------------------------------------- */

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

static struct text separator(struct call *c)
{
    struct text between = builtin_text(c, c->p[0]);
    if (between.n == 0) heap_fail(c->heap, "a text cannot be split at nothing");
    return between;
}

static struct value method_split(struct call *c)
{
    int64_t limit = builtin_integer(c, c->p[1], -1);
    struct list *parts = list_make(c->heap, LIST);
    struct text t = self(c);
    heap_step(c->heap, t.n / 16);
    if (!builtin_given(c->p[0])) return split_blanks(c, limit);
    struct text between = separator(c);
    for (size_t hit; limit != 0 && (hit = text_find(t, between, 0)) != TEXT_NONE; limit--) {
        list_push(c->heap, parts, value_text(text_slice(t, 0, hit)));
        t = text_slice(t, hit + between.n, t.n - hit - between.n);
    }
    list_push(c->heap, parts, value_text(t));
    return value_list(parts);
}

static struct value method_rsplit(struct call *c)
{
    int64_t limit = builtin_integer(c, c->p[1], -1);
    if (limit < 0) return method_split(c);
    struct text t = self(c), between = separator(c);
    struct list *back = list_make(c->heap, LIST), *parts = list_make(c->heap, LIST);
    for (size_t hit; limit > 0 && (hit = text_find_last(c->heap, t, between)) != TEXT_NONE;
         limit--) {
        size_t end = hit + between.n;
        list_push(c->heap, back, value_text(text_slice(t, end, t.n - end)));
        t = text_slice(t, 0, hit);
    }
    list_push(c->heap, parts, value_text(t));
    for (size_t i = back->n; i-- > 0;) list_push(c->heap, parts, back->items[i]);
    return value_list(parts);
}

/* The length of the line end at byte `at`, 0 = none. */
static size_t line_end(struct text t, size_t at)
{
    uint32_t u;
    size_t length = text_char(t, at, &u);
    if (u == '\r' && at + 1 < t.n && t.data[at + 1] == '\n') return 2;
    bool ends =
        (u >= 10 && u <= 13) || (u >= 0x1C && u <= 0x1E) || u == 0x85 || u == 0x2028 || u == 0x2029;
    return ends ? length : 0;
}

struct list *text_lines(struct heap *h, struct text t)
{
    struct list *lines = list_make(h, LIST);
    uint32_t u;
    size_t from = 0, end;
    heap_step(h, t.n / 8);
    for (size_t at = 0; at < t.n;) {
        if ((end = line_end(t, at)) == 0) {
            at += text_char(t, at, &u);
            continue;
        }
        list_push(h, lines, value_text(text_slice(t, from, at - from)));
        from = at += end;
    }
    if (from < t.n) list_push(h, lines, value_text(text_slice(t, from, t.n - from)));
    return lines;
}

static struct value method_join(struct call *c)
{
    const struct list *items = value_items(c->heap, c->p[0]);
    struct builder b = {.heap = c->heap};
    for (size_t i = 0; i < items->n; i++) {
        heap_step(c->heap, 1);
        if (i > 0) builder_put(&b, self(c));
        builder_put(&b, builtin_text(c, items->items[i]));
    }
    return value_text(builder_end(&b));
}

/* ---- searching ------------------------------------------------------------------------------- */

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
    int64_t limit = builtin_integer(c, c->p[2], -1);
    return value_text(
        text_replace(c->heap, self(c), builtin_text(c, c->p[0]), builtin_text(c, c->p[1]), limit));
}

static struct value method_isdigit(struct call *c)
{
    struct text t = self(c);
    uint32_t u;
    heap_step(c->heap, t.n / 8);
    for (size_t at = 0; at < t.n;) {
        at += text_char(t, at, &u);
        if (utf8proc_category((utf8proc_int32_t)u) != UTF8PROC_CATEGORY_ND)
            return value_bool(false);
    }
    return value_bool(t.n > 0);
}

/* ---- str.format ------------------------------------------------------------------------------ */

/* The value of {name}, {0} or {}; *next counts the empty ones. */
static struct value field(struct call *c, struct text name, size_t *next)
{
    const struct value *named = args_keyword(c->args, name);
    size_t at = 0;
    if (named) return *named;
    for (size_t i = 0; i < name.n; i++) {
        if (name.data[i] < '0' || name.data[i] > '9' || at > 1000)
            heap_fail(c->heap, "format: only {}, {0} and {name} are known");
        at = 10 * at + (size_t)(name.data[i] - '0');
    }
    if (name.n == 0) at = (*next)++;
    if (at >= c->args->n) heap_fail(c->heap, "format: too few arguments");
    return c->args->at[at];
}

static struct value method_format(struct call *c)
{
    struct text t = self(c), close = text_of("}");
    struct builder b = {.heap = c->heap};
    size_t next = 0, end;
    heap_step(c->heap, t.n / 8);
    for (size_t at = 0; at < t.n; at = end) {
        char one = t.data[at];
        bool twice = at + 1 < t.n && t.data[at + 1] == one;
        end = at + 1;
        if ((one != '{' && one != '}') || twice) {
            builder_put(&b, text_slice(t, at, 1));
            end += one == '{' || one == '}';
        } else {
            end = one == '{' ? text_find(t, close, at) : TEXT_NONE;
            if (end == TEXT_NONE) heap_fail(c->heap, "format: a single brace");
            struct value v = field(c, text_slice(t, at + 1, end - at - 1), &next);
            builder_put(&b, value_str(c->heap, v));
            end++;
        }
    }
    return value_text(builder_end(&b));
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

static struct value dict_update(struct call *c)
{
    if (c->p[0].kind != VALUE_DICT)
        heap_fail(c->heap, "update needs a dict, not a %s", value_type_name(c->p[0]));
    dict_add(c->heap, c->self.as.dict, c->p[0].as.dict);
    return value_none();
}

static struct value dict_pop(struct call *c)
{
    const struct value *found = dict_find(c->heap, c->self.as.dict, c->p[0]);
    struct value v = found ? *found : c->p[1];
    if (v.kind == VALUE_ABSENT) heap_fail(c->heap, "pop: the dict has no such key");
    if (found) dict_remove(c->self.as.dict, found);
    return v;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static const struct builtin of_text[] = {
    {"capitalize", builtin_case, "", 0, TEXT_CAPITALIZE},
    {"endswith", method_touches, "suffix", 1, true},
    {"format", method_format, "*", 0, 0},
    {"isdigit", method_isdigit, "", 0, 0},
    {"join", method_join, "iterable", 1, 0},
    {"lower", builtin_case, "", 0, TEXT_LOWER},
    {"lstrip", builtin_strip, "chars", 0, STRIP_LEFT},
    {"replace", method_replace, "old new count", 2, 0},
    {"rsplit", method_rsplit, "sep maxsplit", 0, 0},
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
    {"get", dict_get, "key default", 1, 0}, {"items", dict_view, "", 0, DICT_ITEMS},
    {"keys", dict_view, "", 0, DICT_KEYS},  {"pop", dict_pop, "key default", 1, 0},
    {"update", dict_update, "other", 1, 0}, {"values", dict_view, "", 0, DICT_VALUES},
};

const struct builtin *method_named(struct value object, struct text name)
{
    if (object.kind == VALUE_TEXT) return BUILTIN_FIND(of_text, name);
    if (object.kind == VALUE_LIST && object.as.list->type == LIST)
        return BUILTIN_FIND(of_list, name);
    if (object.kind == VALUE_DICT) return BUILTIN_FIND(of_dict, name);
    return NULL;
}
