/* print: values as text, as Python's str, repr and json.dumps write them. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "runtime/template/value.h"

/* The shortest digits that read back as the same number, in Python's notation. */
static void put_float(struct builder *b, double x, bool python)
{
    char digits[40], out[64];
    if (isnan(x) || isinf(x)) {
        const char *name = isnan(x) ? (python ? "nan" : "NaN") : python ? "inf" : "Infinity";
        builder_printf(b, "%s%s", x < 0 ? "-" : "", name);
        return;
    }
    int precision = 0;
    do snprintf(digits, sizeof digits, "%.*e", precision, x);
    while (strtod(digits, NULL) != x && precision++ < 17);
    int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent < -4 || exponent >= 16) {
        builder_puts(b, digits);
        return;
    }
    int decimals = precision - exponent;
    snprintf(out, sizeof out, "%.*f", decimals < 1 ? 1 : decimals, x);
    builder_puts(b, out);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static bool printable(uint32_t c)
{
    if (c == ' ') return true;
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
    }
}

static void put_number(struct builder *b, uint32_t c, bool python)
{
    if (python && c < 0x100)
        builder_printf(b, "\\x%02x", (unsigned)c);
    else if (c < 0x10000)
        builder_printf(b, "\\u%04x", (unsigned)c);
    else if (python)
        builder_printf(b, "\\U%08x", (unsigned)c);
    else
        builder_printf(b, "\\u%04x\\u%04x", (unsigned)(0xD7C0 + (c >> 10)),
                       (unsigned)(0xDC00 + (c & 0x3FF)));
}

static void put_text(struct builder *b, struct text t, const struct print_style *s)
{
    static const char letters[] = "nrtfb";
    const char *const named = s->python ? "\n\r\t" : "\n\r\t\f\b";
    bool single = t.n > 0 && memchr(t.data, '\'', t.n), twice = t.n > 0 && memchr(t.data, '"', t.n);
    char quote = !s->python || (single && !twice) ? '"' : '\'';
    uint32_t c;
    heap_step(b->heap, t.n / 4);
    builder_printf(b, "%c", quote);
    for (size_t at = 0, length; at < t.n; at += length) {
        length = text_char(t, at, &c);
        const char *name = c > 0 && c < 128 ? strchr(named, (int)c) : NULL;
        bool plain = s->python ? printable(c) : c >= 0x20 && !(s->ascii && c > 126);
        if (name)
            builder_printf(b, "\\%c", letters[name - named]);
        else if (c == '\\' || c == (uint32_t)quote)
            builder_printf(b, "\\%c", (int)c);
        else if (plain)
            builder_put(b, text_slice(t, at, length));
        else
            put_number(b, c, s->python);
    }
    builder_printf(b, "%c", quote);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void new_line(struct builder *b, const struct print_style *s, int level)
{
    if (!s->indent) return;
    builder_puts(b, "\n");
    for (; level > 0; level--) builder_put(b, *s->indent);
}

static void put_value(struct builder *b, struct value v, const struct print_style *s, int level);

static void put_list(struct builder *b, const struct list *l, const struct print_style *s,
                     int level)
{
    static const struct {
        const char *open, *close;
    } marks[] = {[LIST] = {"[", "]"}, [TUPLE] = {"(", ")"}, [GENERATOR] = {"<generator ", ">"}};
    const enum list_type type = s->python ? l->type : LIST;
    builder_puts(b, marks[type].open);
    for (size_t i = 0; i < l->n; i++) {
        if (i > 0) builder_put(b, s->item_separator);
        new_line(b, s, level + 1);
        put_value(b, l->items[i], s, level + 1);
    }
    if (l->n > 0) new_line(b, s, level);
    if (type == TUPLE && l->n == 1) builder_puts(b, ",");
    builder_puts(b, marks[type].close);
}

/* Keys that are no texts become texts in JSON. */
static void put_key(struct builder *b, struct value key, const struct print_style *s)
{
    const bool quoted = !s->python && key.kind != VALUE_TEXT;
    if (quoted && key.kind > VALUE_FLOAT)
        heap_fail(b->heap, "a %s cannot be a key in JSON", value_type_name(key));
    if (quoted) builder_puts(b, "\"");
    put_value(b, key, s, 0);
    if (quoted) builder_puts(b, "\"");
}

static void put_dict(struct builder *b, const struct dict *d, const struct print_style *s,
                     int level)
{
    const struct pair *pairs = d->pairs;
    builder_puts(b, d->is_namespace ? "<Namespace {" : "{");
    for (size_t i = 0; i < d->n; i++) {
        if (i > 0) builder_put(b, s->item_separator);
        new_line(b, s, level + 1);
        put_key(b, pairs[i].key, s);
        builder_put(b, s->key_separator);
        put_value(b, pairs[i].value, s, level + 1);
    }
    if (d->n > 0) new_line(b, s, level);
    builder_puts(b, d->is_namespace ? "}>" : "}");
}

static bool has_json(struct value v)
{
    if (v.kind == VALUE_LIST) return v.as.list->type <= TUPLE;
    if (v.kind == VALUE_DICT) return !v.as.dict->is_namespace;
    return v.kind >= VALUE_NONE && v.kind <= VALUE_TEXT;
}

static void put_value(struct builder *b, struct value v, const struct print_style *s, int level)
{
    static const char *const names[2][2] = {{"false", "true"}, {"False", "True"}};
    heap_step(b->heap, 1);
    heap_enter(b->heap);
    if (!s->python && !has_json(v))
        heap_fail(b->heap, "a %s cannot be written as JSON", value_type_name(v));
    switch ((enum value_kind)v.kind) {
    case VALUE_ABSENT:
    case VALUE_UNDEFINED: builder_puts(b, "Undefined"); break;
    case VALUE_NONE: builder_puts(b, s->python ? "None" : "null"); break;
    case VALUE_BOOL: builder_puts(b, names[s->python][v.as.truth]); break;
    case VALUE_INT: builder_printf(b, "%" PRId64, v.as.number); break;
    case VALUE_FLOAT: put_float(b, v.as.real, s->python); break;
    case VALUE_TEXT: put_text(b, v.as.text, s); break;
    case VALUE_LIST: put_list(b, v.as.list, s, level); break;
    case VALUE_DICT: put_dict(b, v.as.dict, s, level); break;
    case VALUE_LOOP:
    case VALUE_MACRO:
    case VALUE_FUNCTION: builder_printf(b, "<%s>", value_type_name(v)); break;
    }
    heap_leave(b->heap);
}

void value_print(struct builder *b, struct value v, const struct print_style *style)
{
    put_value(b, v, style, 0);
}

struct text value_str(struct heap *h, struct value v)
{
    if (v.kind == VALUE_TEXT) return v.as.text;
    if (v.kind == VALUE_UNDEFINED || v.kind == VALUE_ABSENT) return text_of("");
    const struct print_style repr = {
        .python = true, .item_separator = text_of(", "), .key_separator = text_of(": ")};
    struct builder b = {.heap = h};
    put_value(&b, v, &repr, 0);
    return builder_end(&b);
}
