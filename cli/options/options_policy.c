#include "cli/options/options_policy.h"

#include <stddef.h>
#include <string.h>

#include "base/nearest.h"

/* The policy that the plan chooses, for changing its keys only. */
#define AUTO "auto"

static const struct key {
    const char *name, *help;
    size_t offset; /* offset of an int in struct policy_choice */
    int min, max;
} keys[] = {
    {"sinks", "first units that are always kept", offsetof(struct policy_choice, sinks), 0,
     1 << 24},
    {"stabilizers", "newest units that are always kept",
     offsetof(struct policy_choice, stabilizers), 0, 1 << 24},
    {"reserve", "units for an answer before eviction starts inside it",
     offsetof(struct policy_choice, reserve), 0, 1 << 24},
    {"floor", "percent of a budget that a head keeps before heads share the rest (kvpress)",
     offsetof(struct policy_choice, floor), 0, 100},
    {"recency", "keeper: a unit of age A scores at least log(budget / (N A)); 0 = its own score",
     offsetof(struct policy_choice, recency), 0, 1 << 20},
    {"context", "units of policy full; the model's context by default",
     offsetof(struct policy_choice, context), 1, PLAN_BUDGET_MAX},
};

enum { N_KEYS = sizeof keys / sizeof *keys, WORD_MAX = 64 };

bool options_policy_key(int i, struct options_policy_key *out)
{
    if (i < 0 || i >= N_KEYS) return false;
    *out = (struct options_policy_key){keys[i].name, keys[i].help};
    return true;
}

static int *field(struct policy_choice *c, const struct key *k)
{
    return (int *)(void *)((char *)c + k->offset);
}

/* ---- names ----------------------------------------------------------------------------------- */

static int unknown_key(const char *word, struct err *e)
{
    struct nearest near = nearest_to(word, strlen(word));
    struct str known = {0};
    for (int i = 0; i < N_KEYS; i++) {
        nearest_offer(&near, keys[i].name);
        str_printf(&known, "%s%s", i ? ", " : "", keys[i].name);
    }
    int rc = near.name ? err_set(e, ERR_USAGE, "--policy: there is no key %s; did you mean %s?",
                                 word, near.name)
                       : err_set(e, ERR_USAGE, "--policy: there is no key %s; known are: %s", word,
                                 str_get(&known));
    str_release(&known);
    return rc;
}

static int unknown_policy(const char *word, struct err *e)
{
    struct nearest near = nearest_to(word, strlen(word));
    struct str known = {0};
    for (int i = 0; policy_at(i); i++) nearest_offer(&near, policy_at(i)->name);
    policy_names(&known);
    int rc =
        err_set(e, ERR_USAGE, "--policy %s is not known%s%s; known are: %s", word,
                near.name ? "; did you mean " : "", near.name ? near.name : "", str_get(&known));
    str_release(&known);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Copies text[0, n) without blanks around it; false when it does not fit. */
static bool copy_word(char out[WORD_MAX], const char *text, size_t n)
{
    while (n && *text == ' ') text++, n--;
    while (n && text[n - 1] == ' ') n--;
    if (n >= WORD_MAX) n = WORD_MAX - 1;
    memcpy(out, text, n);
    out[n] = 0;
    return n > 0;
}

/* "sinks=4" */
static int read_key(struct policy_choice *c, const char *text, size_t n, struct err *e)
{
    char name[WORD_MAX], value[WORD_MAX];
    const char *equals = memchr(text, '=', n);
    if (!equals || !copy_word(name, text, (size_t)(equals - text)) ||
        !copy_word(value, equals + 1, n - (size_t)(equals + 1 - text)))
        return err_set(e, ERR_USAGE, "--policy: \"%.*s\": expected key=value", (int)n, text);
    const struct key *k = keys;
    while (k < keys + N_KEYS && strcmp(k->name, name)) k++;
    if (k == keys + N_KEYS) return unknown_key(name, e);
    int64_t number;
    if (!options_size(value, &number) || number < k->min || number > k->max)
        return err_set(e, ERR_USAGE, "--policy: %s=%s: expected a whole number from %d to %d", name,
                       value, k->min, k->max);
    *field(c, k) = (int)number;
    return 0;
}

static int read_policy(struct policy_choice *c, const char *text, size_t n, struct err *e)
{
    char name[WORD_MAX];
    if (!copy_word(name, text, n))
        return err_set(e, ERR_USAGE, "--policy: expected a policy's name, or NAME:key=value");
    *c = policy_choice(name);
    return c->row || !strcmp(name, AUTO) ? 0 : unknown_policy(name, e);
}

int options_policies_read(const char *text, struct options_policies *out, struct err *e)
{
    int rc = 0;
    *out = (struct options_policies){0};
    for (const char *at = text;; at++) {
        size_t n = strcspn(at, ",");
        const char *colon = memchr(at, ':', n), *key = colon ? colon + 1 : at;
        bool continues = out->n && memchr(at, '=', n) && !colon;
        if (!continues && out->n == OPTIONS_LIST_MAX)
            return err_set(e, ERR_USAGE, "--policy: more than %d policies", OPTIONS_LIST_MAX);
        if (!continues)
            rc = read_policy(&out->item[out->n++], at, colon ? (size_t)(colon - at) : n, e);
        if (!rc && (continues || colon))
            rc = read_key(&out->item[out->n - 1], key, n - (size_t)(key - at), e);
        at += n;
        if (rc || !*at) return rc;
    }
}

/* ---- printing -------------------------------------------------------------------------------- */

void options_policy_print(const struct policy_choice *c, struct str *out)
{
    struct policy_choice copy = *c;
    char before = ':';
    if (c->row) str_puts(out, c->row->name);
    for (int i = 0; i < N_KEYS; i++) {
        int v = *field(&copy, &keys[i]);
        if (v < 0) continue;
        if (before == ':' && !c->row) str_puts(out, AUTO);
        str_printf(out, "%c%s=%d", before, keys[i].name, v);
        before = ',';
    }
}
