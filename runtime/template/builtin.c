#include "runtime/template/builtin.h"

#include <string.h>

#include "base/utf8.h"
#include "runtime/template/eval.h"

const struct value *args_keyword(const struct args *args, struct text name)
{
    for (size_t i = 0; i < args->n_keywords; i++)
        if (text_equal(args->keywords[i].name, name)) return &args->keywords[i].value;
    return NULL;
}

const struct builtin *builtin_find(const struct builtin *table, size_t n, struct text name)
{
    for (size_t i = 0; i < n; i++)
        if (text_is(name, table[i].name)) return &table[i];
    return NULL;
}

/* Index of a name in "a b c"; -1 = not found. n = 0: the number of names. */
static int find_param(const char *params, struct text name)
{
    int at = 0;
    for (const char *s = params; *s; at++) {
        size_t n = strcspn(s, " ");
        if (name.n > 0 && text_equal(text_bytes(s, n), name)) return at;
        s += n + (s[n] == ' ');
    }
    return name.n > 0 ? -1 : at;
}

static void bind(struct call *c, const struct builtin *b, const struct args *args)
{
    int n_params = find_param(b->params, text_of(""));
    if (args->n > (size_t)n_params)
        heap_fail(c->heap, "%s takes at most %d arguments", b->name, n_params);
    for (size_t i = 0; i < args->n; i++) c->p[i] = args->at[i];
    for (size_t i = 0; i < args->n_keywords; i++) {
        struct text name = args->keywords[i].name;
        int at = find_param(b->params, name);
        if (at < 0 || c->p[at].kind != VALUE_ABSENT)
            heap_fail(c->heap, "%s does not take '%s'", b->name, utf8_show(name.data, name.n).text);
        c->p[at] = args->keywords[i].value;
    }
    for (int i = 0; i < b->n_required; i++)
        if (c->p[i].kind == VALUE_ABSENT)
            heap_fail(c->heap, "%s needs %d arguments", b->name, b->n_required);
}

struct value builtin_call(struct run *r, const struct builtin *b, struct value self,
                          const struct args *args)
{
    struct call c = {.run = r, .heap = &r->heap, .self = self, .args = args, .how = b->how};
    heap_enter(c.heap);
    if (strcmp(b->params, "*") != 0) bind(&c, b, args);
    struct value v = b->call(&c);
    heap_leave(c.heap);
    return v;
}

bool builtin_given(struct value v)
{
    return v.kind != VALUE_ABSENT && v.kind != VALUE_NONE;
}

struct text builtin_text(struct call *c, struct value v)
{
    if (v.kind == VALUE_ABSENT) return text_of("");
    if (v.kind != VALUE_TEXT) heap_fail(c->heap, "a text is needed, not a %s", value_type_name(v));
    return v.as.text;
}

int64_t builtin_integer(struct call *c, struct value v, int64_t absent)
{
    if (!builtin_given(v)) return absent;
    if (!value_is_integer(v))
        heap_fail(c->heap, "an integer is needed, not a %s", value_type_name(v));
    return value_integer(v);
}

struct value builtin_attribute(struct call *c, struct value v, struct value path)
{
    if (path.kind != VALUE_TEXT) return eval_item(c->run, v, path);
    struct text rest = path.as.text, dot = text_of(".");
    for (;;) {
        size_t end = text_find(rest, dot, 0);
        struct text part = text_slice(rest, 0, end == TEXT_NONE ? rest.n : end);
        v = eval_item(c->run, v, value_text(part));
        if (end == TEXT_NONE) return v;
        rest = text_slice(rest, end + 1, rest.n - end - 1);
    }
}

/* ---- sorting --------------------------------------------------------------------------------- */

struct keyed {
    struct value key, item;
};

static bool comes_later(struct heap *h, const struct keyed *a, const struct keyed *b)
{
    /* None has no order, but equals None */
    return !value_equal(h, a->key, b->key) && value_compare(h, a->key, b->key) > 0;
}

/* Merges two sorted neighbours through `spare`. */
static void merge(struct heap *h, struct keyed *at, size_t half, size_t n, struct keyed *spare)
{
    size_t i = 0, j = half;
    for (size_t k = 0; k < n; k++) {
        bool right = i == half || (j < n && comes_later(h, &at[i], &at[j]));
        spare[k] = right ? at[j++] : at[i++];
    }
    memcpy(at, spare, n * sizeof *at);
}

struct list *builtin_sort(struct call *c, const struct list *items, struct value attribute)
{
    struct list *sorted = list_make(c->heap, LIST);
    struct keyed *all = heap_take(c->heap, items->n, sizeof *all),
                 *spare = heap_take(c->heap, items->n, sizeof *spare);
    for (size_t i = 0; i < items->n; i++) {
        struct value key = items->items[i];
        if (builtin_given(attribute)) key = builtin_attribute(c, key, attribute);
        if (key.kind == VALUE_TEXT) key.as.text = text_to_case(c->heap, key.as.text, TEXT_LOWER);
        all[i] = (struct keyed){key, items->items[i]};
    }
    for (size_t half = 1, n; half < items->n; half *= 2)
        for (size_t at = 0; at + half < items->n; at += n) {
            n = items->n - at < 2 * half ? items->n - at : 2 * half;
            merge(c->heap, all + at, half, n, spare);
        }
    for (size_t i = 0; i < items->n; i++) list_push(c->heap, sorted, all[i].item);
    return sorted;
}
