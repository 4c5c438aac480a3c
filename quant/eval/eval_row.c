#include "quant/eval/eval_row.h"

#include <stddef.h>

#include "cli/print/report.h"

static const struct column {
    const char *key;
    int width; /* columns in the table; 0 = not shown there */
    enum { TEXT, INTEGER, DECIMAL } kind;
    int digits;
    size_t offset;
} columns[] = {
    {"task", -22, TEXT, 0, offsetof(struct eval_row, task)},
    {"policy", -14, TEXT, 0, offsetof(struct eval_row, policy)},
    {"kv", 6, TEXT, 0, offsetof(struct eval_row, kv)},
    {"recall", 6, TEXT, 0, offsetof(struct eval_row, recall)},
    {"budget", 7, INTEGER, 0, offsetof(struct eval_row, budget)},
    {"compression", 11, DECIMAL, 1, offsetof(struct eval_row, compression)},
    {"length", 9, INTEGER, 0, offsetof(struct eval_row, length)},
    {"depth", 6, DECIMAL, 0, offsetof(struct eval_row, depth)},
    {"seed_count", 0, INTEGER, 0, offsetof(struct eval_row, seed_count)},
    {"accuracy", 8, DECIMAL, 3, offsetof(struct eval_row, accuracy)},
    {"accuracy_spread", 15, DECIMAL, 3, offsetof(struct eval_row, accuracy_spread)},
    {"right_count", 0, DECIMAL, 2, offsetof(struct eval_row, right_count)},
    {"question_count", 14, INTEGER, 0, offsetof(struct eval_row, question_count)},
    {"cache_bytes", 11, INTEGER, 0, offsetof(struct eval_row, cost.cache_bytes)},
    {"peak_bytes", 0, INTEGER, 0, offsetof(struct eval_row, cost.peak_bytes)},
    {"prefill_tok_s", 13, DECIMAL, 0, offsetof(struct eval_row, cost.prefill_tok_s)},
    {"decode_tok_s", 0, DECIMAL, 0, offsetof(struct eval_row, cost.decode_tok_s)},
    {"metric", 0, TEXT, 0, offsetof(struct eval_row, metric)},
};

enum { N_COLUMNS = sizeof columns / sizeof *columns };

static double number(const struct column *c, const struct eval_row *r)
{
    const char *at = (const char *)r + c->offset;
    return c->kind == INTEGER ? (double)*(const int64_t *)(const void *)at
                              : *(const double *)(const void *)at;
}

/* Whether the row lacks this number: only grids have a depth. */
static bool absent(const struct column *c, const struct eval_row *r)
{
    return c->offset == offsetof(struct eval_row, depth) && r->depth < 0;
}

static const char *text(const struct column *c, const struct eval_row *r)
{
    return *(const char *const *)(const void *)((const char *)r + c->offset);
}

static void print_json(const struct eval_row *r)
{
    cJSON *o = cJSON_CreateObject();
    for (int i = 0; i < N_COLUMNS; i++) {
        const struct column *c = &columns[i];
        if (c->kind == TEXT)
            cJSON_AddStringToObject(o, c->key, text(c, r));
        else if (absent(c, r))
            cJSON_AddNullToObject(o, c->key);
        else
            cJSON_AddNumberToObject(o, c->key, number(c, r));
    }
    report_json(o);
}

/* r NULL: the names of the columns. */
static void print_columns(const struct eval_row *r)
{
    struct str line = {0};
    for (int i = 0; i < N_COLUMNS; i++) {
        const struct column *c = &columns[i];
        const char *s = !r ? c->key : c->kind == TEXT ? text(c, r) : absent(c, r) ? "-" : NULL;
        if (!c->width) continue;
        if (s)
            str_printf(&line, "%*s ", c->width, s);
        else
            str_printf(&line, "%*.*f ", c->width, c->digits, number(c, r));
    }
    report_line("%s", str_get(&line));
    str_release(&line);
}

void eval_row_print(const struct eval_row *r, bool json, bool first)
{
    if (json) {
        print_json(r);
        return;
    }
    if (first) print_columns(NULL);
    print_columns(r);
}
