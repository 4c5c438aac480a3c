/* globals: functions that every template can call. */
#include <locale.h>
#include <string.h>

#include "runtime/template/eval.h"

#define RANGE_MAX 100000 /* as in Jinja's sandbox */

static struct value global_range(struct call *c)
{
    int64_t a = builtin_integer(c, c->p[0], 0), step = builtin_integer(c, c->p[2], 1);
    bool one = c->p[1].kind == VALUE_ABSENT;
    int64_t start = one ? 0 : a, stop = one ? a : builtin_integer(c, c->p[1], 0);
    double n = step == 0 ? 0 : ((double)stop - (double)start) / (double)step;
    if (step == 0 || n > RANGE_MAX)
        heap_fail(c->heap, "a range of more than %d numbers, or of step 0", RANGE_MAX);
    struct list *list = list_make(c->heap, LIST);
    bool over = false; /* beyond 64 bits, and so beyond `stop` */
    for (int64_t at = start; !over && (step > 0 ? at < stop : at > stop);) {
        list_push(c->heap, list, value_int(at));
        over = __builtin_add_overflow(at, step, &at);
    }
    return value_list(list);
}

/* dict(mapping, key=value, …), and namespace likewise: how. */
static struct value global_dict(struct call *c)
{
    struct dict *d = dict_make(c->heap);
    if (c->args->n > 1 || (c->args->n == 1 && c->args->at[0].kind != VALUE_DICT))
        heap_fail(c->heap, "a dict is made of one dict and of keywords");
    if (c->args->n) dict_add(c->heap, d, c->args->at[0].as.dict);
    for (size_t i = 0; i < c->args->n_keywords; i++)
        dict_set(c->heap, d, value_text(c->args->keywords[i].name), c->args->keywords[i].value);
    d->is_namespace = c->how;
    return value_dict(d);
}

static struct value global_raise(struct call *c)
{
    struct text why = value_str(c->heap, c->p[0]);
    c->heap->line = 0;
    heap_fail_as(c->heap, ERR_USAGE, "it refuses this conversation: %.*s",
                 (int)(why.n < 200 ? why.n : 200), why.data);
}

/* Uses English names in any locale. */
static struct value global_strftime(struct call *c)
{
    char format[128], out[512];
    struct text t = builtin_text(c, c->p[0]);
    if (t.n >= sizeof format) heap_fail(c->heap, "strftime_now: the format is too long");
    memcpy(format, t.data, t.n);
    format[t.n] = '\0';
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    size_t n = plain ? strftime_l(out, sizeof out, format, &c->run->now, plain) : 0;
    if (plain) freelocale(plain);
    char *kept = heap_take(c->heap, n + 1, 1);
    memcpy(kept, out, n);
    return value_text(text_bytes(kept, n));
}

static const struct builtin table[] = {
    {"dict", global_dict, "*", 0, false},
    {"namespace", global_dict, "*", 0, true},
    {"raise_exception", global_raise, "message", 1, 0},
    {"range", global_range, "start stop step", 1, 0},
    {"strftime_now", global_strftime, "format", 1, 0},
};

const struct builtin *global_named(struct text name)
{
    return BUILTIN_FIND(table, name);
}
