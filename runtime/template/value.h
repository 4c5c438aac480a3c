/* value: the values of a template, with Python's semantics.
 *
 * Values are small and passed by value; texts, lists and dicts are in the heap of the rendering.
 * Lists, tuples and generators differ in how they print and compare. A loop object, a
 * macro and a function are values too. */
#ifndef RETAIN_RUNTIME_TEMPLATE_VALUE_H
#define RETAIN_RUNTIME_TEMPLATE_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/template/text.h"

enum value_kind {
    VALUE_ABSENT, /* a missing argument; never a value of a template */
    VALUE_UNDEFINED,
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_FLOAT,
    VALUE_TEXT,
    VALUE_LIST,
    VALUE_DICT,
    VALUE_LOOP,
    VALUE_MACRO,
    VALUE_FUNCTION,
};

struct list;
struct dict;
struct loop;
struct macro;
struct builtin;

struct value {
    uint8_t kind;
    union {
        bool truth;
        int64_t number;
        double real;
        struct text text; /* of UNDEFINED: the name, for messages */
        struct list *list;
        struct dict *dict;
        struct loop *loop;
        const struct macro *macro;
        struct { /* FUNCTION: a global function, or a method of *self */
            const struct builtin *builtin;
            const struct value *self;
        } function;
    } as;
};

enum list_type { LIST, TUPLE, GENERATOR };

struct list {
    struct value *items;
    size_t n, cap;
    enum list_type type;
};

struct pair {
    struct value key, value;
};

struct dict {
    struct pair *pairs; /* in the order of insertion */
    size_t n, cap;
    bool is_namespace;
};

struct loop { /* the variable `loop` */
    const struct list *items;
    size_t at;
};

struct value value_undefined(struct text name);
struct value value_none(void);
struct value value_bool(bool truth);
struct value value_int(int64_t number);
struct value value_float(double real);
struct value value_text(struct text text);
struct value value_list(struct list *list);
struct value value_dict(struct dict *dict);

struct list *list_make(struct heap *h, enum list_type type);
void list_push(struct heap *h, struct list *list, struct value item);
void list_add(struct heap *h, struct list *list, const struct list *more); /* all items of `more` */
struct dict *dict_make(struct heap *h);
const struct value *dict_find(struct heap *h, const struct dict *d, struct value key); /* or NULL */
const struct value *dict_find_text(const struct dict *d, struct text key);
void dict_set(struct heap *h, struct dict *d, struct value key, struct value value);
void dict_add(struct heap *h, struct dict *d, const struct dict *more); /* all pairs of `more` */
/* A list of its keys, and one of its pairs. */
struct list *dict_keys(struct heap *h, const struct dict *d);
struct list *dict_items(struct heap *h, const struct dict *d);

bool value_is_number(struct value v);  /* bool, int or float */
bool value_is_integer(struct value v); /* bool or int */
int64_t value_integer(struct value v); /* of a bool or int */
double value_real(struct value v);     /* of a number */

/* "str", "int", "dict", …: Python's name of the type, for messages. */
const char *value_type_name(struct value v);

bool value_truth(struct value v);
bool value_equal(struct heap *h, struct value a, struct value b);
/* < 0, 0 or > 0; fails for types that have no order. */
int value_compare(struct heap *h, struct value a, struct value b);
bool value_contains(struct heap *h, struct value container, struct value item);

/* The items of an iterable: a list, a dict's keys, a text's characters, none for an undefined
 * value. Fails for other types. */
const struct list *value_items(struct heap *h, struct value v);
bool value_is_iterable(struct value v);

/* str(v) */
struct text value_str(struct heap *h, struct value v);

/* json.dumps(v): indent = NULL for one line; python: repr(v) */
struct print_style {
    bool ascii, python;
    const struct text *indent;
    struct text item_separator, key_separator;
};
void value_print(struct builder *b, struct value v, const struct print_style *style);

#endif
