/* builtin: filters, tests, methods and global functions. Each is a row of a table that names its
 * parameters; arguments are bound to them before the call, so that a function finds each value in
 * its place, and VALUE_ABSENT for a missing one. */
#ifndef RETAIN_RUNTIME_TEMPLATE_BUILTIN_H
#define RETAIN_RUNTIME_TEMPLATE_BUILTIN_H

#include "runtime/template/value.h"

#define BUILTIN_PARAMS 6

struct run;

struct keyword {
    struct text name;
    struct value value;
};

struct args {
    struct value *at;
    size_t n;
    struct keyword *keywords;
    size_t n_keywords;
};

struct call {
    struct run *run;
    struct heap *heap;
    struct value self; /* the input of a filter or test, or the object of a method */
    struct value p[BUILTIN_PARAMS];
    const struct args *args; /* all arguments, for functions that take any */
    int how;                 /* of the row */
};

struct builtin {
    const char *name;
    struct value (*call)(struct call *c);
    const char *params; /* names, separated by blanks; "*": any number, none is bound */
    int n_required;
    int how; /* for functions that serve several rows */
};
/* The keyword argument of this name; NULL: none. */
const struct value *args_keyword(const struct args *args, struct text name);

/* The row of a table [n] with this name; NULL: unknown. */
const struct builtin *builtin_find(const struct builtin *table, size_t n, struct text name);
#define BUILTIN_FIND(table, name) builtin_find(table, sizeof(table) / sizeof *(table), name)

/* NULL: unknown. */
const struct builtin *filter_named(struct text name);
const struct builtin *test_named(struct text name);
const struct builtin *global_named(struct text name);
const struct builtin *method_named(struct value self, struct text name);

struct value builtin_call(struct run *r, const struct builtin *b, struct value self,
                          const struct args *args);

/* Arguments converted to the needed type; they fail for other types with the function's error. */
bool builtin_given(struct value v); /* neither absent nor None */
struct text builtin_text(struct call *c, struct value v);
int64_t builtin_integer(struct call *c, struct value v, int64_t absent);
/* The value of "a.b.0" in v. */
struct value builtin_attribute(struct call *c, struct value v, struct value path);
/* Sorts by a key, stable; capitals are as small letters. */
struct list *builtin_sort(struct call *c, const struct list *items, struct value attribute);

/* Filters and tests that are also methods of str; how: enum text_case, STRIP_LEFT | STRIP_RIGHT. */
enum { STRIP_LEFT = 1, STRIP_RIGHT = 2 };
struct value builtin_case(struct call *c);
struct value builtin_strip(struct call *c);

#endif
