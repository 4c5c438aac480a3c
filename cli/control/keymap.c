#include "cli/control/keymap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8_width.h"

/* ---- names ----------------------------------------------------------------------------------- */

static bool is(const char *name, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(name, word, n) == 0;
}

static uint32_t plain_key(const char *name, size_t n)
{
    static const struct {
        const char *name;
        uint32_t key;
    } words[] = {{"Up", K_UP},         {"Down", K_DOWN},      {"Left", K_LEFT},
                 {"Right", K_RIGHT},   {"Home", K_HOME},      {"End", K_END},
                 {"PgUp", K_PAGE_UP},  {"PgDn", K_PAGE_DOWN}, {"Insert", K_INSERT},
                 {"Delete", K_DELETE}, {"Tab", '\t'},         {"Enter", '\r'},
                 {"Esc", '\033'},      {"Backspace", 127},    {"Space", ' '}};
    uint32_t cp = 0;
    char *end;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is(name, n, words[i].name)) return words[i].key;
    if (n == 2 && name[0] == '^' && name[1] >= '@' && name[1] <= '_') return CTRL(name[1]);
    if (n > 1 && n < 4 && name[0] == 'F') {
        long number = strtol(name + 1, &end, 10);
        if (end == name + n && number >= 1 && number <= 12) return K_F1 + (uint32_t)number - 1;
    }
    return utf8_next(name, n, &cp) == (int)n && cp > ' ' ? cp : 0;
}

uint32_t key_named(const char *name, size_t n)
{
    static const struct {
        const char *name;
        uint32_t flag;
    } flags[] = {{"Alt-", K_ALT}, {"Ctrl-", K_CTRL}, {"Shift-", K_SHIFT}, {"^X ", K_PREFIX}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        size_t length = strlen(flags[i].name);
        if (n <= length || memcmp(name, flags[i].name, length)) continue;
        uint32_t key = key_named(name + length, n - length);
        bool letter = key >= 'a' && key <= 'z' && flags[i].flag == K_CTRL;
        return letter ? CTRL(key) : key ? key | flags[i].flag : 0;
    }
    return plain_key(name, n);
}

/* ---- changes --------------------------------------------------------------------------------- */

struct change {
    const char *from, *to;
    size_t n_from, n_to;
    uint32_t from_key, to_key;
};
enum { CHANGES_MAX = 64 };

static int parse(const char *list, struct change *out, int *n, struct err *e)
{
    for (*n = 0; *list; ++*n) {
        /* '=' and ',' may be keys themselves: they are the character between two separators */
        size_t from = 1 + strcspn(list + (*list != 0), "="), to = 0;
        if (list[from] == '=' && list[from + 1]) to = 1 + strcspn(list + from + 2, ",");
        struct change c = {list, list + from + 1, from, to, 0, 0};
        if (to) c.from_key = key_named(c.from, from);
        if (to) c.to_key = key_named(c.to, to);
        if (!c.from_key || !c.to_key || *n == CHANGES_MAX)
            return err_set(e, ERR_USAGE,
                           "keys: %.40s: expected KEY=NEW,… with names as in the help, such as "
                           "F9, ^K, Alt-x, Ctrl-Left or n",
                           list);
        out[*n] = c;
        list = c.to + to;
        list += *list == ',';
    }
    return 0;
}

/* The label with the name of the new key. */
static void relabel(char out[KEYMAP_LABEL_MAX], const char *label, const struct change *c)
{
    const char *at = label;
    while (at && *at) { /* a label may name two keys: "n N" */
        size_t n = strcspn(at, " ");
        if (n == c->n_from && !memcmp(at, c->from, n)) break;
        at = at[n] ? at + n + 1 : NULL;
    }
    if (c->n_from == strlen(label)) at = label;
    if (!at || !*at)
        snprintf(out, KEYMAP_LABEL_MAX, "%s", label);
    else
        snprintf(out, KEYMAP_LABEL_MAX, "%.*s%.*s%s", (int)(at - label), label, (int)c->n_to, c->to,
                 at + c->n_from);
}

static const struct change *change_of(const struct change *changes, int n, uint32_t key)
{
    for (int i = 0; i < n; i++)
        if (changes[i].from_key == key) return &changes[i];
    return NULL;
}

static int check(const struct change *changes, int n, struct err *e)
{
    for (int i = 0; i < n; i++) {
        const struct change *c = &changes[i];
        unsigned views = 0;
        bool text = c->to_key >= ' ' && c->to_key < KEY_BASE && c->to_key != 127;
        for (const struct binding *b = key_table; b->views; b++)
            if (b->key == c->from_key) views |= b->views;
        if (!views)
            return err_set(e, ERR_USAGE, "keys: %.*s has no function", (int)c->n_from, c->from);
        if (text && (views & IN(VIEW_CHAT)))
            return err_set(e, ERR_USAGE, "keys: %.*s=%.*s: that key writes text in the chat",
                           (int)c->n_from, c->from, (int)c->n_to, c->to);
        for (const struct binding *b = key_table; b->views; b++)
            if (b->key == c->to_key && (b->views & views) && !change_of(changes, n, b->key))
                return err_set(e, ERR_USAGE,
                               "keys: %.*s is taken: move its function away with %.*s=…",
                               (int)c->n_to, c->to, (int)c->n_to, c->to);
        for (int k = 0; k < i; k++)
            if (changes[k].from_key == c->from_key || changes[k].to_key == c->to_key)
                return err_set(e, ERR_USAGE, "keys: %.*s=%.*s: a key occurs twice", (int)c->n_from,
                               c->from, (int)c->n_to, c->to);
    }
    return 0;
}

int keymap_open(struct keymap *m, const char *changes, struct err *e)
{
    struct change list[CHANGES_MAX];
    int n = 0, n_rows = 0;
    int rc = parse(changes ? changes : "", list, &n, e);
    if (!rc) rc = check(list, n, e);
    if (rc) return rc;
    while (key_table[n_rows++].views) continue;
    m->rows = memory_new((size_t)n_rows, sizeof *m->rows);
    m->labels = memory_new((size_t)n_rows, sizeof *m->labels);
    for (int i = 0; i < n_rows; i++) {
        const struct change *c = change_of(list, n, key_table[i].key);
        m->rows[i] = key_table[i];
        if (!c || !key_table[i].views) continue;
        m->rows[i].key = c->to_key;
        if (!key_table[i].label) continue;
        relabel(m->labels[i], key_table[i].label, c);
        m->rows[i].label = m->labels[i];
    }
    return 0;
}

void keymap_release(struct keymap *m)
{
    free(m->rows);
    free(m->labels);
    *m = (struct keymap){0};
}

enum key_request keymap_request(const struct keymap *m, enum view view, uint32_t key)
{
    for (const struct binding *b = m->rows; b->views; b++)
        if ((b->views & IN(view)) && b->key == key) return b->request;
    return REQ_NONE;
}
