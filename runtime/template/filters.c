/* filters: of texts, numbers and single values, then of sequences and dicts. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "runtime/template/eval.h"

static struct text self_text(struct call *c)
{
    return value_str(c->heap, c->self);
}

struct value builtin_case(struct call *c)
{
    return value_text(text_to_case(c->heap, self_text(c), (enum text_case)c->how));
}

/* Words end at blanks and at - ( { [ <; only their first letters become capitals. */
static struct value filter_title(struct call *c)
{
    struct text t = self_text(c);
    struct builder b = {.heap = c->heap};
    bool begins = true;
    uint32_t u;
    heap_step(c->heap, t.n / 2);
    for (size_t at = 0, length; at < t.n; at += length) {
        length = text_char(t, at, &u);
        enum text_case to = begins ? TEXT_UPPER : TEXT_LOWER;
        builder_put(&b, text_to_case(c->heap, text_slice(t, at, length), to));
        begins = utf8_is_space(u) || (u < 128 && u > 0 && strchr("-({[<", (int)u));
    }
    return value_text(builder_end(&b));
}

struct value builtin_strip(struct call *c)
{
    struct text chars = builtin_given(c->p[0]) ? builtin_text(c, c->p[0]) : text_of("");
    return value_text(text_strip(c->heap, self_text(c), builtin_given(c->p[0]) ? &chars : NULL,
                                 c->how & STRIP_LEFT, c->how & STRIP_RIGHT));
}

static struct value filter_replace(struct call *c)
{
    return value_text(text_replace(c->heap, self_text(c), value_str(c->heap, c->p[0]),
                                   value_str(c->heap, c->p[1])));
}

static struct value filter_string(struct call *c)
{
    return value_text(self_text(c));
}

static struct value filter_escape(struct call *c)
{
    static const char special[] = "&<>'\"";
    static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    struct text t = self_text(c);
    struct builder b = {.heap = c->heap};
    heap_step(c->heap, t.n / 8);
    for (size_t at = 0; at < t.n; at++) {
        const char *found = t.data[at] ? strchr(special, t.data[at]) : NULL;
        if (found)
            builder_puts(&b, names[found - special]);
        else
            builder_put(&b, text_slice(t, at, 1));
    }
    return value_text(builder_end(&b));
}

static struct value filter_indent(struct call *c)
{
    struct text t = self_text(c), line_end = text_of("\n");
    struct text width = text_repeat(c->heap, text_of(" "), builtin_integer(c, c->p[0], 4));
    struct builder b = {.heap = c->heap};
    bool indents = value_truth(c->p[1]);
    for (size_t at = 0, end; at < t.n; at = end) {
        const size_t found = text_find(t, line_end, at);
        end = found == TEXT_NONE ? t.n : found + 1;
        if (indents && found != at) builder_put(&b, width);
        builder_put(&b, text_slice(t, at, end - at));
        indents = true;
    }
    return value_text(builder_end(&b));
}

/* 0 of what is no number. */
static struct value filter_int(struct call *c)
{
    char text[64], *end;
    double x = 0;
    if (value_is_integer(c->self)) return value_int(value_integer(c->self));
    if (c->self.kind == VALUE_FLOAT) x = c->self.as.real;
    if (c->self.kind == VALUE_TEXT) {
        snprintf(text, sizeof text, "%.*s", (int)(c->self.as.text.n < 64 ? c->self.as.text.n : 63),
                 c->self.as.text.data);
        errno = 0;
        const long long whole = strtoll(text, &end, 10);
        if (end > text && !end[strspn(end, " \t\n")] && !errno) return value_int(whole);
        x = strtod(text, &end);
        if (end == text || end[strspn(end, " \t\n")]) x = 0;
    }
    return value_int(fabs(x) < 9e18 ? (int64_t)x : 0);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* As defined by transformers; unlike Jinja's own it escapes nothing for HTML. */
static struct value filter_tojson(struct call *c)
{
    struct print_style style = {.ascii = value_truth(c->p[0]),
                                .item_separator = text_of(", "),
                                .key_separator = text_of(": ")};
    struct builder b = {.heap = c->heap};
    struct text indent;
    if (builtin_given(c->p[1])) {
        indent = c->p[1].kind == VALUE_TEXT
                     ? c->p[1].as.text
                     : text_repeat(c->heap, text_of(" "), builtin_integer(c, c->p[1], 0));
        style.indent = &indent;
        style.item_separator = text_of(",");
    }
    if (builtin_given(c->p[2])) {
        const struct list *two = value_items(c->heap, c->p[2]);
        if (two->n != 2) heap_fail(c->heap, "tojson needs two separators");
        style.item_separator = builtin_text(c, two->items[0]);
        style.key_separator = builtin_text(c, two->items[1]);
    }
    value_print(&b, c->self, &style);
    return value_text(builder_end(&b));
}

/* ---- others ---------------------------------------------------------------------------------- */

static struct value filter_default(struct call *c)
{
    bool missing =
        c->self.kind == VALUE_UNDEFINED || (value_truth(c->p[1]) && !value_truth(c->self));
    if (!missing) return c->self;
    return c->p[0].kind == VALUE_ABSENT ? value_text(text_of("")) : c->p[0];
}

/* Writes one argument for the conversion at format[at], after a '%'. */
static void format_one(struct call *c, struct builder *b, struct text format, size_t at,
                       size_t *used)
{
    char kind = at < format.n ? format.data[at] : '\0';
    if (kind != 's' && kind != '%') heap_fail(c->heap, "a format has more than %%s and %%%%");
    if (kind == 's' && *used == c->args->n) heap_fail(c->heap, "a format has too few arguments");
    builder_put(b, kind == 's' ? value_str(c->heap, c->args->at[(*used)++]) : text_of("%"));
}

static struct value filter_format(struct call *c)
{
    struct text format = self_text(c);
    struct builder b = {.heap = c->heap};
    size_t used = 0;
    for (size_t at = 0; at < format.n;) {
        size_t hit = text_find(format, text_of("%"), at);
        if (hit == TEXT_NONE) hit = format.n;
        builder_put(&b, text_slice(format, at, hit - at));
        if (hit < format.n) format_one(c, &b, format, hit + 1, &used);
        at = hit + 2;
    }
    return value_text(builder_end(&b));
}

/* ---- sequences and dicts --------------------------------------------------------------------- */

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
    heap_fail(c->heap, "a %s has no length", value_type_name(v));
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
    struct list *all = list_make(c->heap, LIST);
    list_add(c->heap, all, self_items(c));
    return value_list(all);
}

static struct value filter_items(struct call *c)
{
    if (c->self.kind == VALUE_UNDEFINED) return value_list(list_make(c->heap, GENERATOR));
    if (c->self.kind != VALUE_DICT || c->self.as.dict->is_namespace)
        heap_fail(c->heap, "items needs a dict, not a %s", value_type_name(c->self));
    struct list *all = dict_items(c->heap, c->self.as.dict);
    all->type = GENERATOR;
    return value_list(all);
}

static struct value filter_dictsort(struct call *c)
{
    struct value pairs = filter_items(c);
    return value_list(builtin_sort(c, pairs.as.list, value_int(0)));
}

static struct value filter_sort(struct call *c)
{
    return value_list(builtin_sort(c, self_items(c), c->p[0]));
}

static struct value filter_min(struct call *c)
{
    struct list *sorted = builtin_sort(c, self_items(c), value_none());
    return sorted->n > 0 ? sorted->items[0] : value_undefined(text_of("item"));
}

static struct value filter_join(struct call *c)
{
    const struct list *items = self_items(c);
    struct text between = value_str(c->heap, c->p[0]);
    struct builder b = {.heap = c->heap};
    for (size_t i = 0; i < items->n; i++) {
        heap_step(c->heap, 1);
        if (i > 0) builder_put(&b, between);
        builder_put(&b, value_str(c->heap, items->items[i]));
    }
    return value_text(builder_end(&b));
}

static struct value filter_unique(struct call *c)
{
    const struct list *items = self_items(c);
    struct list *seen = list_make(c->heap, LIST), *all = list_make(c->heap, GENERATOR);
    for (size_t i = 0; i < items->n; i++) {
        struct value key = items->items[i];
        if (key.kind == VALUE_TEXT) key.as.text = text_to_case(c->heap, key.as.text, TEXT_LOWER);
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

/* None and other false values give an empty list, without an error. */
static const struct list *true_items(struct call *c)
{
    return value_truth(c->self) ? self_items(c) : list_make(c->heap, LIST);
}

static struct value map_attribute(struct call *c, struct value path)
{
    const struct list *items = true_items(c);
    struct list *all = list_make(c->heap, GENERATOR);
    for (size_t i = 0; i < items->n; i++)
        list_push(c->heap, all, builtin_attribute(c, items->items[i], path));
    return value_list(all);
}

static const struct builtin *named(struct call *c, size_t at, bool is_filter)
{
    struct text name = builtin_text(c, at < c->args->n ? c->args->at[at] : value_none());
    const struct builtin *b = is_filter ? filter_named(name) : test_named(name);
    if (!b)
        heap_fail(c->heap, "the %s '%s' is not known", is_filter ? "filter" : "test",
                  utf8_show(name.data, name.n).text);
    return b;
}

static struct value filter_map(struct call *c)
{
    const struct value *path = args_keyword(c->args, text_of("attribute"));
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
    if (by_attribute && c->args->n == 0) heap_fail(c->heap, "an attribute's name is needed");
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
    {"capitalize", builtin_case, "", 0, TEXT_CAPITALIZE},
    {"default", filter_default, "default_value boolean", 0, 0},
    {"dictsort", filter_dictsort, "", 0, 0},
    {"escape", filter_escape, "", 0, 0},
    {"first", filter_end, "", 0, false},
    {"format", filter_format, "*", 0, 0},
    {"indent", filter_indent, "width first", 0, 0},
    {"int", filter_int, "", 0, 0},
    {"items", filter_items, "", 0, 0},
    {"join", filter_join, "d", 0, 0},
    {"last", filter_end, "", 0, true},
    {"length", filter_length, "", 0, 0},
    {"list", filter_list, "", 0, 0},
    {"lower", builtin_case, "", 0, TEXT_LOWER},
    {"map", filter_map, "*", 0, 0},
    {"min", filter_min, "", 0, 0},
    {"reject", filter_choose, "*", 0, 0},
    {"rejectattr", filter_choose, "*", 0, BY_ATTRIBUTE},
    {"replace", filter_replace, "old new", 2, 0},
    {"safe", filter_string, "", 0, 0},
    {"select", filter_choose, "*", 0, PASSES},
    {"selectattr", filter_choose, "*", 0, BY_ATTRIBUTE | PASSES},
    {"sort", filter_sort, "attribute", 0, 0},
    {"string", filter_string, "", 0, 0},
    {"title", filter_title, "", 0, 0},
    {"tojson", filter_tojson, "ensure_ascii indent separators", 0, 0},
    {"trim", builtin_strip, "chars", 0, STRIP_LEFT | STRIP_RIGHT},
    {"unique", filter_unique, "", 0, 0},
    {"upper", builtin_case, "", 0, TEXT_UPPER},
};

const struct builtin *filter_named(struct text name)
{
    return BUILTIN_FIND(table, name);
}
