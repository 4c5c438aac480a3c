#include "cli/options/options_parts.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "cli/options/options_policy.h"

/* ---- small things ---------------------------------------------------------------------------- */

bool options_size(const char *text, int64_t *bytes)
{
    static const char units[] = "KMGT";
    const char *end;
    double n, unit = 1;
    if (!decimal_read(text, &end, &n)) return false;
    const char *u = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (u) {
        for (const char *p = units; p <= u; p++) unit *= 1024;
        end++;
        if (!strcmp(end, "iB")) end += 2;
    }
    if (*end || n * unit >= 9.2e18) return false;
    if (!u && strchr(text, '.')) return false; /* fractions of bytes are not allowed */
    *bytes = (int64_t)(n * unit);
    return true;
}

bool options_list_item(const char *list, int i, char *out, size_t out_bytes)
{
    if (!list || !*list || i < 0) return false;
    for (; i > 0; i--) {
        list = strchr(list, ',');
        if (!list) return false;
        list++;
    }
    while (*list == ' ') list++;
    size_t n = strcspn(list, ",");
    while (n > 0 && list[n - 1] == ' ') n--;
    if (out_bytes == 0) return true;
    if (n >= out_bytes) n = out_bytes - 1;
    memcpy(out, list, n);
    out[n] = 0;
    return true;
}

static bool seed(const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || errno) return false;
    *out = n;
    return true;
}

static bool truth(const char *text, bool *out)
{
    static const char *const words[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(text, words[i])) continue;
        *out = i % 2;
        return true;
    }
    return false;
}

/* Index in the list; -1 = not found. */
static int index_of(const char *list, const char *text)
{
    char item[32];
    for (int i = 0; options_list_item(list, i, item, sizeof item); i++)
        if (!strcmp(item, text)) return i;
    return -1;
}

static int bad_number(const struct option *d, const char *text, const char *what, struct err *e)
{
    if (d->max > 0)
        return err_set(e, ERR_USAGE, "--%s %s: expected %s from %.15g to %.15g", d->name, text,
                       what, d->min, d->max);
    return err_set(e, ERR_USAGE, "--%s %s: expected %s, 0 or more", d->name, text, what);
}

static bool in_range(const struct option *d, double n)
{
    return n >= d->min && (d->max <= 0 || n <= d->max);
}

/* ---- reading --------------------------------------------------------------------------------- */

static int read_number(const struct option *d, void *field, const char *text, struct err *e)
{
    const char *end;
    double n;
    int64_t bytes;
    const char *what = d->kind == DECIMAL ? "a number" : "a whole number";
    if (d->kind == SIZE) {
        what = "a number, as 1048576, 512K or 6G,";
        if (!options_size(text, &bytes)) return bad_number(d, text, what, e);
        n = (double)bytes;
    } else {
        bool whole_only = d->kind == INT;
        if (!decimal_read(text, &end, &n) || *end || (whole_only && strchr(text, '.')))
            return bad_number(d, text, what, e);
    }
    if (!in_range(d, n)) return bad_number(d, text, what, e);
    if (d->kind == DECIMAL) *(float *)field = (float)n;
    if (d->kind == SIZE) *(int64_t *)field = bytes;
    if (d->kind == INT) *(int *)field = (int)n;
    return 0;
}

union list {
    struct options_numbers numbers;
    struct options_kvs kvs;
    struct options_recalls recalls;
    struct options_policies policies;
};

static int read_item(const struct option *d, union list *l, int i, const char *text, struct err *e)
{
    const char *end;
    double n;
    if (d->kind == FORMATS && !plan_kv_named(text, &l->kvs.item[i]))
        return err_set(e, ERR_USAGE, "--kv %s: expected q4, q5, q8, f16, f32, or K:V such as q8:q4",
                       text);
    if (d->kind == RECALLS && !recall_chooser_named(text, &l->recalls.item[i]))
        return err_set(e, ERR_USAGE, "--recall %s: expected off or words", text);
    if (d->kind != NUMBERS) return 0;
    if (!decimal_read(text, &end, &n) || *end || strchr(text, '.') || !in_range(d, n))
        return bad_number(d, text, "a whole number", e);
    l->numbers.item[i] = (int64_t)n;
    return 0;
}

static int read_list(const struct option *d, void *field, const char *text, struct err *e)
{
    char item[32];
    union list all = {.numbers.n = 0};
    int n = 0;
    for (; options_list_item(text, n, item, sizeof item); n++) {
        if (n == OPTIONS_LIST_MAX)
            return err_set(e, ERR_USAGE, "--%s: more than %d values", d->name, OPTIONS_LIST_MAX);
        int rc = read_item(d, &all, n, item, e);
        if (rc) return rc;
    }
    if (!n) return err_set(e, ERR_USAGE, "--%s: the value is missing", d->name);
    all.numbers.n = n; /* where each list has it */
    memcpy(field, &all, d->size);
    return 0;
}

static int read_file(const struct option *d, struct options_files *out, const char *text,
                     struct err *e)
{
    if (out->n == OPTIONS_FILES_MAX)
        return err_set(e, ERR_USAGE, "--%s: more than %d files", d->name, OPTIONS_FILES_MAX);
    out->item[out->n++] = text;
    return 0;
}

static int read_device(struct engine_device *out, const char *text, struct err *e)
{
    char *end = (char *)"";
    long n = 0;
    bool numbered = !strncmp(text, "cuda:", 5) && isdigit((unsigned char)text[5]);
    if (numbered) n = strtol(text + 5, &end, 10);
    if (!strcmp(text, "auto"))
        *out = (struct engine_device){.kind = ENGINE_DEVICE_AUTO};
    else if (!strcmp(text, "cpu"))
        *out = (struct engine_device){.kind = ENGINE_DEVICE_CPU};
    else if (!strcmp(text, "cuda") || (numbered && !*end && n < 1024))
        *out = (struct engine_device){ENGINE_DEVICE_CUDA, (int)n};
    else
        return err_set(e, ERR_USAGE, "--device %s: expected auto, cpu, cuda or cuda:N", text);
    return 0;
}

static int read_speculate(struct plan_speculate *out, const char *text, struct err *e)
{
    const char *end;
    double n = 0;
    bool named = !strcmp(text, "auto") || !strcmp(text, "off");
    bool number = !named && decimal_read(text, &end, &n) && !*end && n == (int)n;
    if (!named && !(number && n >= 1 && n <= PLAN_SPECULATE_MAX))
        return err_set(e, ERR_USAGE, "--speculate %s: expected auto, off or a number from 1 to %d",
                       text, PLAN_SPECULATE_MAX);
    *out = (struct plan_speculate){.off = !strcmp(text, "off"), .n = (int)n};
    return 0;
}

static int read_word(const struct option *d, void *field, const char *text, struct err *e)
{
    int i = d->choices ? index_of(d->choices, text) : 0;
    if (i < 0)
        return err_set(e, ERR_USAGE, "--%s %s: expected one of %s", d->name, text, d->choices);
    if (d->kind == CHOICE)
        *(unsigned *)field = (unsigned)i;
    else
        *(const char **)field = text;
    return 0;
}

static int read_flag(const struct option *d, bool *field, const char *text, struct err *e)
{
    *field = true;
    if (!text || truth(text, field)) return 0;
    return err_set(e, ERR_USAGE, "--%s=%s: expected yes or no", d->name, text);
}

/* Commands that take one value read it from the plan: copies it there from the lists. */
static void take_first(struct options *o)
{
    const struct sweep_opts *s = &o->sweep;
    struct plan_opts *p = &o->session.plan;
    p->policy = s->policies.n ? s->policies.item[0] : policy_choice(NULL);
    p->kv = s->kvs.n ? s->kvs.item[0] : (struct plan_kv){0};
    if (s->recalls.n) o->session.recall.chooser = s->recalls.item[0];
    p->budget = s->budgets.n ? (int)s->budgets.item[0] : 0;
}

static int read_value(struct options *o, const struct option *d, const char *text, struct err *e)
{
    void *field = (char *)o + d->offset;
    int rc = 0;
    switch (d->kind) {
    case FLAG: return read_flag(d, field, text, e);
    case TEXT:
    case CHOICE: return read_word(d, field, text, e);
    case SEED:
        if (seed(text, field)) return 0;
        return err_set(e, ERR_USAGE, "--%s %s: expected a whole number from 0 to %llu", d->name,
                       text, ~0ULL);
    case DEVICE: return read_device(field, text, e);
    case HEADS_FILE: {
        bool none = !strcmp(text, "none");
        *(struct engine_heads *)field = (struct engine_heads){none ? NULL : text, none};
        return 0;
    }
    case SPECULATE: return read_speculate(field, text, e);
    case FILES: return read_file(d, field, text, e);
    case POLICIES: rc = options_policies_read(text, field, e); break;
    case FORMATS:
    case RECALLS:
    case NUMBERS: rc = read_list(d, field, text, e); break;
    default: return read_number(d, field, text, e);
    }
    if (!rc) take_first(o);
    return rc;
}

int option_read(struct options *o, enum options_layer layer, const struct option *d,
                const char *text, struct err *e)
{
    struct options unused;
    unsigned char *from = &o->from[d - options_table];
    if (*from > layer) {
        unused = *o;
        return read_value(&unused, d, text, e);
    }
    int rc = read_value(o, d, text, e);
    if (!rc) *from = (unsigned char)layer;
    return rc;
}

enum options_layer options_from(const struct options *o, const char *name)
{
    return o->from[option_named(name, strlen(name)) - options_table];
}

static void copy(struct options *o, const struct options *other, size_t i)
{
    const struct option *d = &options_table[i];
    memcpy((char *)o + d->offset, (const char *)other + d->offset, d->size);
    o->from[i] = other->from[i];
}

void options_unset(struct options *o, const char *name)
{
    struct options fresh;
    options_init(&fresh);
    copy(o, &fresh, (size_t)(option_named(name, strlen(name)) - options_table));
    take_first(o);
}

void options_give(struct options *o, const struct options *given)
{
    for (size_t i = 0; i < options_table_n; i++)
        if (given->from[i] == OPTIONS_GIVEN) copy(o, given, i);
    take_first(o);
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_device(const struct engine_device *v, struct str *out)
{
    if (v->kind == ENGINE_DEVICE_CUDA)
        str_printf(out, "cuda:%d", v->ordinal);
    else
        str_puts(out, v->kind == ENGINE_DEVICE_CPU ? "cpu" : "auto");
}

static void print_speculate(const struct plan_speculate *v, struct str *out)
{
    if (v->n)
        str_printf(out, "%d", v->n);
    else
        str_puts(out, v->off ? "off" : "auto");
}

static void print_list(const struct option *d, const union list *l, struct str *out)
{
    for (int i = 0; i < l->numbers.n; i++) {
        if (i) str_puts(out, ",");
        if (d->kind == POLICIES) options_policy_print(&l->policies.item[i], out);
        if (d->kind == NUMBERS) str_printf(out, "%lld", (long long)l->numbers.item[i]);
        if (d->kind == RECALLS) str_puts(out, recall_chooser_name(l->recalls.item[i]));
        if (d->kind != FORMATS) continue;
        const struct plan_kv *kv = &l->kvs.item[i];
        str_puts(out, plan_kv_name(kv->k));
        if (kv->k != kv->v) str_printf(out, ":%s", plan_kv_name(kv->v));
    }
}

/* Numbers below the minimum mean "not set". */
static void print_number(const struct option *d, const void *field, struct str *out)
{
    double n = d->kind == INT    ? *(const int *)field
               : d->kind == SIZE ? (double)*(const int64_t *)field
                                 : (double)*(const float *)field;
    if (n < d->min) return;
    if (d->kind == DECIMAL)
        decimal_print(out, *(const float *)field);
    else
        str_printf(out, "%lld",
                   d->kind == INT ? *(const int *)field : (long long)*(const int64_t *)field);
}

void option_print(const struct options *o, const struct option *d, struct str *out)
{
    const void *field = (const char *)o + d->offset;
    const struct engine_heads *heads = field;
    char word[32];
    const char *text;
    switch (d->kind) {
    case FLAG: str_puts(out, *(const bool *)field ? "yes" : "no"); break;
    case TEXT:
        memcpy(&text, field, sizeof text);
        str_puts(out, text ? text : "");
        break;
    case CHOICE:
        options_list_item(d->choices, (int)*(const unsigned *)field, word, sizeof word);
        str_puts(out, word);
        break;
    case SEED: str_printf(out, "%llu", (unsigned long long)*(const uint64_t *)field); break;
    case DEVICE: print_device(field, out); break;
    case HEADS_FILE: str_puts(out, heads->none ? "none" : heads->path ? heads->path : ""); break;
    case SPECULATE: print_speculate(field, out); break;
    case FILES: break; /* never a setting */
    case POLICIES:
    case FORMATS:
    case RECALLS:
    case NUMBERS: print_list(d, field, out); break;
    default: print_number(d, field, out);
    }
}
