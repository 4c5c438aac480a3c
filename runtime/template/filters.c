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
    int64_t limit = builtin_integer(c, c->p[2], -1);
    return value_text(text_replace(c->heap, self_text(c), value_str(c->heap, c->p[0]),
                                   value_str(c->heap, c->p[1]), limit));
}

static struct value filter_string(struct call *c)
{
    return c->self.kind == VALUE_TEXT ? c->self : value_text(self_text(c));
}

static struct value filter_safe(struct call *c)
{
    return (struct value){.kind = VALUE_TEXT, .markup = true, .as.text = self_text(c)};
}

struct text text_escape(struct heap *h, struct text t)
{
    static const char special[] = "&<>'\"";
    static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    struct builder b = {.heap = h};
    heap_step(h, t.n / 8);
    for (size_t at = 0; at < t.n; at++) {
        const char *found = t.data[at] ? strchr(special, t.data[at]) : NULL;
        if (found)
            builder_puts(&b, names[found - special]);
        else
            builder_put(&b, text_slice(t, at, 1));
    }
    return builder_end(&b);
}

static struct value filter_escape(struct call *c)
{
    struct value v = filter_safe(c);
    if (!c->self.markup) v.as.text = text_escape(c->heap, v.as.text);
    return v;
}

static struct value filter_indent(struct call *c)
{
    struct text t = self_text(c), line_end = text_of("\n"), width;
    bool first = value_truth(c->p[1]), blank = value_truth(c->p[2]);
    struct builder b = {.heap = c->heap};
    if (c->p[0].kind == VALUE_TEXT)
        width = c->p[0].as.text;
    else
        width = text_repeat(c->heap, text_of(" "), builtin_integer(c, c->p[0], 4));
    const struct list *lines = text_lines(c->heap, text_join2(c->heap, t, line_end));
    for (size_t i = 0; i < lines->n; i++) {
        struct text line = lines->items[i].as.text;
        if (i > 0) builder_put(&b, line_end);
        if (i > 0 ? blank || line.n > 0 : first) builder_put(&b, width);
        builder_put(&b, line);
    }
    return value_text(builder_end(&b));
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void number_text(struct heap *h, struct text t, char *out, size_t cap)
{
    t = text_strip(h, t, NULL, true, true);
    size_t n = 0;
    for (size_t i = 0; i < t.n && n + 1 < cap; i++)
        if (t.data[i] != '_') out[n++] = t.data[i];
    out[n] = '\0';
}

static bool read_float(struct call *c, double *out)
{
    char text[64], *end;
    if (value_is_number(c->self)) {
        *out = value_real(c->self);
        return true;
    }
    if (c->self.kind != VALUE_TEXT) return false;
    number_text(c->heap, c->self.as.text, text, sizeof text);
    *out = strtod(text, &end);
    return end > text && *end == '\0' && !strpbrk(text, "xX");
}

static struct value filter_float(struct call *c)
{
    double x;
    if (read_float(c, &x)) return value_float(x);
    return c->p[0].kind == VALUE_ABSENT ? value_float(0) : c->p[0];
}

static struct value filter_int(struct call *c)
{
    char text[64], *end;
    double x;
    int base = (int)builtin_integer(c, c->p[1], 10);
    if (value_is_integer(c->self)) return value_int(value_integer(c->self));
    if (c->self.kind == VALUE_TEXT && base >= 2 && base <= 36) {
        number_text(c->heap, c->self.as.text, text, sizeof text);
        errno = 0;
        long long whole = strtoll(text, &end, base);
        if (end > text && *end == '\0' && !errno) return value_int(whole);
    }
    if (read_float(c, &x) && fabs(x) < 9e18) return value_int((int64_t)x);
    return c->p[0].kind == VALUE_ABSENT ? value_int(0) : c->p[0];
}

static struct value filter_abs(struct call *c)
{
    if (!value_is_number(c->self))
        heap_fail(c->heap, "a %s has no absolute value", value_type_name(c->self));
    if (c->self.kind == VALUE_FLOAT) return value_float(fabs(c->self.as.real));
    int64_t x = value_integer(c->self);
    return x < 0 ? eval_binary(c->run, '-', value_int(0), value_int(x)) : value_int(x);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* As defined by transformers; unlike Jinja's own it escapes nothing for HTML. */
static struct value filter_tojson(struct call *c)
{
    struct print_style style = {.ascii = value_truth(c->p[0]),
                                .sort = value_truth(c->p[3]),
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

static struct value filter_format(struct call *c)
{
    return text_format(c, self_text(c));
}

/* Writes one argument for the conversion at format[at], after a '%'; returns the offset after
 * it. */
static size_t format_one(struct call *c, struct builder *b, struct text format, size_t at,
                         size_t *used)
{
    int precision = 6;
    if (at + 1 < format.n && format.data[at] == '.' && strchr("0123456789", format.data[at + 1])) {
        precision = format.data[at + 1] - '0';
        at += 2;
    }
    char kind = at < format.n ? format.data[at] : '\0';
    if (kind == '%') {
        builder_puts(b, "%");
        return at + 1;
    }
    if (*used == c->args->n) heap_fail(c->heap, "a format has too few arguments");
    struct value v = c->args->at[(*used)++];
    if (kind == 's')
        builder_put(b, value_str(c->heap, v));
    else if (kind == 'r')
        value_repr(b, v);
    else if (kind == 'd' && value_is_number(v) && fabs(value_real(v)) < 9e18)
        value_repr(b, value_int(v.kind == VALUE_FLOAT ? (int64_t)v.as.real : value_integer(v)));
    else if (kind == 'f' && value_is_number(v) && fabs(value_real(v)) < 1e30)
        builder_printf(b, "%.*f", precision, value_real(v));
    else
        heap_fail(c->heap, "a format has more than %%s, %%r, %%d, %%f and %%%%");
    return at + 1;
}

struct value text_format(struct call *c, struct text format)
{
    struct builder b = {.heap = c->heap};
    size_t used = 0;
    for (size_t at = 0; at < format.n;) {
        size_t hit = text_find(format, text_of("%"), at);
        if (hit == TEXT_NONE) hit = format.n;
        builder_put(&b, text_slice(format, at, hit - at));
        at = hit < format.n ? format_one(c, &b, format, hit + 1, &used) : hit;
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
        heap_fail(c->heap, "items needs a dict, not a %s", value_type_name(c->self));
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

/* None and other false values give an empty list, without an error. */
static const struct list *true_items(struct call *c)
{
    return value_truth(c->self) ? self_items(c) : list_make(c->heap, LIST);
}

static struct value map_attribute(struct call *c, struct value path)
{
    const struct value *otherwise = args_keyword(c->args, text_of("default"));
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
    {"abs", filter_abs, "", 0, 0},
    {"capitalize", builtin_case, "", 0, TEXT_CAPITALIZE},
    {"count", filter_length, "", 0, 0},
    {"d", filter_default, "default_value boolean", 0, 0},
    {"default", filter_default, "default_value boolean", 0, 0},
    {"dictsort", filter_dictsort, "case_sensitive by reverse", 0, 0},
    {"e", filter_escape, "", 0, 0},
    {"escape", filter_escape, "", 0, 0},
    {"first", filter_end, "", 0, false},
    {"float", filter_float, "default", 0, 0},
    {"format", filter_format, "*", 0, 0},
    {"indent", filter_indent, "width first blank", 0, 0},
    {"int", filter_int, "default base", 0, 0},
    {"items", filter_items, "", 0, 0},
    {"join", filter_join, "d attribute", 0, 0},
    {"last", filter_end, "", 0, true},
    {"length", filter_length, "", 0, 0},
    {"list", filter_list, "", 0, 0},
    {"lower", builtin_case, "", 0, TEXT_LOWER},
    {"map", filter_map, "*", 0, 0},
    {"max", filter_extreme, "case_sensitive attribute", 0, true},
    {"min", filter_extreme, "case_sensitive attribute", 0, false},
    {"reject", filter_choose, "*", 0, 0},
    {"rejectattr", filter_choose, "*", 0, BY_ATTRIBUTE},
    {"replace", filter_replace, "old new count", 2, 0},
    {"reverse", filter_reverse, "", 0, 0},
    {"safe", filter_safe, "", 0, 0},
    {"select", filter_choose, "*", 0, PASSES},
    {"selectattr", filter_choose, "*", 0, BY_ATTRIBUTE | PASSES},
    {"sort", filter_sort, "reverse case_sensitive attribute", 0, 0},
    {"string", filter_string, "", 0, 0},
    {"sum", filter_sum, "attribute start", 0, 0},
    {"title", filter_title, "", 0, 0},
    {"tojson", filter_tojson, "ensure_ascii indent separators sort_keys", 0, 0},
    {"trim", builtin_strip, "chars", 0, STRIP_LEFT | STRIP_RIGHT},
    {"unique", filter_unique, "case_sensitive attribute", 0, 0},
    {"upper", builtin_case, "", 0, TEXT_UPPER},
};

const struct builtin *filter_named(struct text name)
{
    return BUILTIN_FIND(table, name);
}
