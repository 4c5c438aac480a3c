#include "cli/options/options_parts.h"

#include <ctype.h>
#include <string.h>

/* ---- configuration file ---------------------------------------------------------------------- */

/* Prints a value as a line of the file needs it: in quotes if it would be read differently
 * without. */
static void print_quoted(struct str *out, const char *text)
{
    size_t n = strlen(text);
    bool bare = n && *text != '"' && !strpbrk(text, "#\n") && !isspace((unsigned char)*text) &&
                !isspace((unsigned char)text[n - 1]);
    str_puts(out, bare ? text : "\"");
    for (; !bare && *text; text++) {
        if (strchr("\"\\\n", *text)) str_puts(out, "\\");
        str_append(out, *text == '\n' ? "n" : text, 1);
    }
    if (!bare) str_puts(out, "\"");
}

/* Prints nothing for an option that is not set; an empty text is set. */
static void print_setting(struct str *out, const struct options *o, const struct option *d)
{
    struct str value = {0};
    option_print(o, d, &value);
    const void *field = (const char *)o + d->offset;
    bool empty = d->kind == TEXT && *(const char *const *)field;
    if (value.n || empty) print_quoted(out, str_get(&value));
    str_release(&value);
}

void options_print_config(const struct options *o, struct str *out)
{
    const struct option *heading = NULL;
    struct options fresh;
    options_init(&fresh);
    for (const struct option *d = options_table; d < options_table + options_table_n; d++) {
        struct str now = {0}, before = {0};
        if (d->kind == HEADING) heading = d;
        if (d->cli_only || d->kind == HEADING) continue;
        if (heading) str_printf(out, "%s# %s\n", out->n ? "\n" : "", heading->name);
        heading = NULL;
        print_setting(&now, o, d);
        print_setting(&before, &fresh, d);
        bool same = !strcmp(str_get(&now), str_get(&before));
        str_printf(out, "%s%s = %s\n", same ? "# " : "", d->name, str_get(&now));
        str_release(&now);
        str_release(&before);
    }
}

void options_print_kept(const struct options *o, struct str *out)
{
    for (size_t i = 0; i < options_table_n; i++) {
        const struct option *d = &options_table[i];
        if (!d->kept || o->from[i] < OPTIONS_CONVERSATION) continue;
        str_printf(out, "%s = ", d->name);
        print_setting(out, o, d);
        str_puts(out, "\n");
    }
}

unsigned options_listed(const struct option *d)
{
    return d->display ? d->groups & ~(unsigned)OPTIONS_ON_SCREEN : d->groups;
}

const struct option *options_row(size_t i)
{
    return i < options_table_n ? &options_table[i] : NULL;
}

/* ---- rows ------------------------------------------------------------------------------------ */

int options_get(const struct options *o, unsigned groups, const char *name, struct str *out,
                struct err *e)
{
    const struct option *d = options_named(groups, name, e);
    if (!d) return ERR_USAGE;
    option_print(o, d, out);
    return 0;
}

const struct option *options_setting(unsigned groups, int i)
{
    for (const struct option *d = options_table; d < options_table + options_table_n; d++)
        if (!d->cli_only && d->groups & groups && i-- == 0) return d;
    return NULL;
}

/* ---- help ------------------------------------------------------------------------------------ */

#define HELP_COLUMN 28 /* column of the explanations */
#define HELP_WIDTH  80

/* Columns of UTF-8 text without wide or combining characters, as in the table. */
static size_t columns(const char *text, size_t n)
{
    size_t c = 0;
    for (size_t i = 0; i < n; i++) c += ((unsigned char)text[i] & 0xc0) != 0x80;
    return c;
}

static void help_text(struct str *out, size_t column, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, " ");
        size_t wide = columns(text, n);
        if (column < HELP_COLUMN || column + 1 + wide > HELP_WIDTH) {
            if (column >= HELP_COLUMN) {
                str_puts(out, "\n");
                column = 0;
            }
            str_printf(out, "%*s", (int)(HELP_COLUMN - column), "");
            column = HELP_COLUMN;
        } else {
            str_puts(out, " ");
            column++;
        }
        str_append(out, text, n);
        column += wide;
        text += n + strspn(text + n, " ");
    }
    str_puts(out, "\n");
}

static void help_option(struct str *out, const struct option *d)
{
    size_t start = out->n;
    if (d->letter)
        str_printf(out, "  -%c, --%s", d->letter, d->name);
    else
        str_printf(out, "      --%s", d->name);
    if (d->value) str_printf(out, " %s", d->value);
    size_t column = columns(str_get(out) + start, out->n - start);
    if (column > HELP_COLUMN - 2) { /* too long: the explanation begins on the next line */
        str_puts(out, "\n");
        column = 0;
    }
    help_text(out, column, d->help);
}

void options_help(unsigned groups, struct str *out)
{
    const struct option *heading = NULL;
    for (const struct option *d = options_table; d < options_table + options_table_n; d++) {
        if (d->kind == HEADING) heading = d;
        if (!(options_listed(d) & groups)) continue;
        if (d->rare && groups & OPTIONS_CHAT) continue;
        if (heading) str_printf(out, "%s:\n", heading->name);
        heading = NULL;
        help_option(out, d);
    }
}
