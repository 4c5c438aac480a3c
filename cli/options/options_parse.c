#include "cli/options/options_parts.h"

#include <ctype.h>
#include <string.h>

#include "base/nearest.h"
#include "cli/print/report.h"

/* ---- names ----------------------------------------------------------------------------------- */

const struct option *option_named(const char *name, size_t n)
{
    for (const struct option *d = options_table; d < options_table + options_table_n; d++)
        if (d->kind != HEADING && strlen(d->name) == n && !memcmp(d->name, name, n)) return d;
    return NULL;
}

static const struct option *find_letter(char letter)
{
    for (const struct option *d = options_table; d < options_table + options_table_n; d++)
        if (d->kind != HEADING && d->letter && d->letter == letter) return d;
    return NULL;
}

/* NULL when no name is similar enough. */
static const char *option_nearest(unsigned groups, const char *name, size_t n)
{
    struct nearest near = nearest_to(name, n);
    for (const struct option *d = options_table; d < options_table + options_table_n; d++)
        if (d->kind != HEADING && d->groups & groups) nearest_offer(&near, d->name);
    return near.name;
}

static int unknown(unsigned groups, const char *dashes, const char *name, size_t n, struct err *e)
{
    const char *near = option_nearest(groups, name, n);
    if (near)
        return err_set(e, ERR_USAGE, "unknown option %s%.*s; did you mean --%s?", dashes, (int)n,
                       name, near);
    return err_set(e, ERR_USAGE, "unknown option %s%.*s; --help lists all", dashes, (int)n, name);
}

/* ---- command line ---------------------------------------------------------------------------- */

struct scan {
    unsigned groups;
    int argc, i; /* i: the argument being read */
    char *const *argv;
};

/* Sets *d and *value (NULL = not attached) from argv[i], which begins with '-'. */
static int split_argument(struct scan *s, const struct option **d, const char **value,
                          struct err *e)
{
    const char *a = s->argv[s->i];
    *value = NULL;
    if (a[1] == '-') {
        const char *name = a + 2;
        size_t n = strcspn(name, "=");
        *d = option_named(name, n);
        if (!*d) return unknown(s->groups, "--", name, n, e);
        if (name[n] == '=') *value = name + n + 1;
        return 0;
    }
    if (a[2] && option_named(a + 1, strcspn(a + 1, "=")))
        return err_set(e, ERR_USAGE, "unknown option %s; did you mean -%s?", a, a);
    *d = find_letter(a[1]);
    if (!*d || (a[2] && (*d)->kind == FLAG))
        return unknown(s->groups, "-", a + 1, strlen(a + 1), e);
    if (a[2]) *value = a + 2; /* -n5 */
    return 0;
}

/* The value is the next argument, unless that is an option: in "-m --json" the value is missing. */
static const char *next_value(struct scan *s)
{
    if (s->i + 1 >= s->argc) return NULL;
    const char *next = s->argv[s->i + 1];
    if (next[0] == '-' && next[1] == '-' && option_named(next + 2, strcspn(next + 2, "=")))
        return NULL;
    s->i++;
    return next;
}

static int parse_option(struct options *o, struct scan *s, struct err *e)
{
    const struct option *d = NULL;
    const char *value;
    int rc = split_argument(s, &d, &value, e);
    if (rc) return rc;
    if (!(d->groups & s->groups))
        return err_set(e, ERR_USAGE,
                       "--%s does not apply to this command; --help lists its options", d->name);
    if (d->display && s->groups & OPTIONS_ON_SCREEN)
        report_note("--%s is set in ~/.config/retain/config now", d->name);
    if (!value && d->kind != FLAG) {
        value = next_value(s);
        if (!value)
            return err_set(e, ERR_USAGE, "--%s needs a value: --%s %s (%s)", d->name, d->name,
                           d->value, d->help);
    }
    return option_read(o, OPTIONS_GIVEN, d, value, e);
}

static bool given(const struct options *o, const char *name)
{
    return options_from(o, name) == OPTIONS_GIVEN;
}

static bool is_list(const struct options *o, const struct option *d)
{
    const int *n = (const void *)((const char *)o + d->offset); /* of a list */
    return (d->kind == POLICIES || d->kind == FORMATS || d->kind == RECALLS ||
            d->kind == NUMBERS) &&
           *n > 1;
}

static int check_lists(const struct options *o, unsigned groups, struct err *e)
{
    const struct option *end = options_table + options_table_n;
    for (const struct option *d = options_table; d < end && !(groups & OPTIONS_LISTS); d++)
        if ((d->groups & groups) && is_list(o, d) && !(d->kind == FORMATS && groups & OPTIONS_EVAL))
            return err_set(e, ERR_USAGE, "--%s: expected one value; only eval and bench take lists",
                           d->name);
    return 0;
}

/* Refuses contradicting options. A default from the configuration file is overridden silently. */
static int settle(struct options *o, const struct scan *s, struct err *e)
{
    static const char *const pairs[][2] = {{"new", "continue"},
                                           {"conversation", "continue"},
                                           {"private", "conversation"},
                                           {"private", "continue"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (given(o, pairs[i][0]) && given(o, pairs[i][1]))
            return err_set(e, ERR_USAGE, "--%s and --%s exclude each other; give one of them",
                           pairs[i][0], pairs[i][1]);
    if (given(o, "new") || given(o, "conversation")) o->session.continue_latest = false;
    if (given(o, "continue")) o->session.new_conversation = false;
    return check_lists(o, s->groups, e);
}

int options_parse(struct options *o, unsigned groups, int argc, char *const *argv, struct err *e)
{
    struct scan s = {.groups = groups, .argc = argc, .argv = argv};
    const int args_max = (int)(sizeof o->args / sizeof o->args[0]);
    bool options_over = false;
    for (; s.i < argc; s.i++) {
        const char *a = argv[s.i];
        if (!options_over && !strcmp(a, "--")) {
            options_over = true;
        } else if (!options_over && a[0] == '-' && a[1]) {
            int rc = parse_option(o, &s, e);
            if (rc) return rc;
        } else if (o->n_args < args_max) {
            o->args[o->n_args++] = a;
        } else {
            return err_set(e, ERR_USAGE, "too many arguments at '%s'; at most %d are taken", a,
                           args_max);
        }
    }
    return settle(o, &s, e);
}

/* ---- configuration file ---------------------------------------------------------------------- */

static char *trim(char *text)
{
    while (isspace((unsigned char)*text)) text++;
    size_t n = strlen(text);
    while (n > 0 && isspace((unsigned char)text[n - 1])) n--;
    text[n] = 0;
    return text;
}

/* The text in quotes, with \", \\ and \n as in C. NULL when the quotes are not closed, or when more
 * than a comment follows. */
static char *quoted_value(char *text)
{
    char *p = text + 1, *to = text;
    for (; *p && *p != '"'; p++) {
        bool escaped = *p == '\\' && p[1] && strchr("\"\\n", p[1]);
        if (escaped) p++;
        *to++ = escaped && *p == 'n' ? '\n' : *p;
    }
    if (!*p) return NULL;
    p += 1 + strspn(p + 1, " \t");
    if (*p && *p != '#') return NULL;
    *to = 0;
    return text;
}

/* Removes a comment, or the quotes; NULL when the quotes are wrong. */
static char *bare_value(char *text)
{
    text = trim(text);
    if (*text == '"') return quoted_value(text);
    for (char *p = text; *p; p++) {
        if (*p != '#' || (p > text && !isspace((unsigned char)p[-1]))) continue;
        *p = 0;
        break;
    }
    return trim(text);
}

static bool is_saved(enum options_layer layer)
{
    return layer == OPTIONS_RAN || layer == OPTIONS_CONVERSATION;
}

static int config_line(struct options *o, enum options_layer layer, char *line, struct err *e)
{
    line = trim(line);
    if (!*line || *line == '#') return 0;
    char *value = strchr(line, '=');
    if (!value) return err_set(e, ERR_USAGE, "'%s': expected key = value", line);
    *value++ = 0;
    line = trim(line);
    const struct option *d = option_named(line, strlen(line));
    if (is_saved(layer) && (!d || !d->kept)) return 0;
    if (!d) {
        const char *near = option_nearest(~0U, line, strlen(line));
        return err_set(e, ERR_USAGE, "unknown key '%s'%s%s%s", line, near ? "; did you mean " : "",
                       near ? near : "", near ? "?" : "");
    }
    if (d->cli_only)
        return err_set(e, ERR_USAGE, "'%s' can be given on the command line only", line);
    value = bare_value(value);
    if (!value) return err_set(e, ERR_USAGE, "%s: expected one value in \"quotes\"", line);
    if (!*value && d->kind != TEXT) return err_set(e, ERR_USAGE, "%s: the value is missing", line);
    return option_read(o, layer, d, value, e);
}

int options_parse_layer(struct options *o, enum options_layer layer, char *text, const char *file,
                        struct err *e)
{
    if (!strncmp(text, "\xef\xbb\xbf", 3)) text += 3; /* a byte order mark, from some editors */
    for (int n_line = 1; text; n_line++) {
        char *line = text;
        text = strchr(line, '\n');
        if (text) *text++ = 0;
        struct err local;
        int rc = config_line(o, layer, line, &local);
        if (rc && !is_saved(layer)) return err_set(e, rc, "%s:%d: %s", file, n_line, local.text);
    }
    return 0;
}

bool options_safe(int argc, char *const *argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "--safe")) return true;
    return false;
}

/* ---- one at a time --------------------------------------------------------------------------- */

const struct option *options_named(unsigned groups, const char *name, struct err *e)
{
    const struct option *d = option_named(name, strlen(name));
    if (d && (d->groups & groups) && !d->cli_only) return d;
    const char *near = option_nearest(groups, name, strlen(name));
    if (near)
        err_set(e, ERR_USAGE, "no setting %s; did you mean %s?", name, near);
    else
        err_set(e, ERR_USAGE, "no setting %s", name);
    return NULL;
}

int options_set(struct options *o, unsigned groups, const char *name, const char *value,
                struct err *e)
{
    const struct option *d = options_named(groups, name, e);
    if (!d) return ERR_USAGE;
    if (!*value && d->kind != TEXT)
        return err_set(e, ERR_USAGE, "%s: the value is missing (%s)", name, d->help);
    int rc = option_read(o, OPTIONS_GIVEN, d, value, e);
    return rc ? rc : check_lists(o, groups, e);
}
