#include "cli/commands/manual.h"
#include "cli/control/model_list.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/control/keys.h"
#include "cli/control/slash.h"
#include "cli/options/options.h"
#include "cli/options/options_policy.h"
#include "cli/options/paths.h"
#include "cli/print/report.h"
#include "runtime/cache/policy.h"
#include "runtime/save/conversations.h"

/* ---- the manual page ------------------------------------------------------------------------- */

/* Text for man(7), with characters escaped that begin a macro or an escape. */
static void put(struct str *out, const char *text)
{
    if (*text == '.' || *text == '\'') str_puts(out, "\\&");
    for (; *text; text++) {
        if (*text == '\\')
            str_puts(out, "\\e");
        else if (*text == '-')
            str_puts(out, "\\-");
        else if (*text == '^')
            str_puts(out, "\\(ha");
        else
            str_append(out, text, 1);
    }
}

static void item(struct str *out, const char *name, const char *args, const char *about)
{
    str_puts(out, ".TP\n\\fB");
    put(out, name);
    str_puts(out, "\\fR");
    if (args && *args) {
        str_puts(out, " \\fI");
        put(out, args);
        str_puts(out, "\\fR");
    }
    str_puts(out, "\n");
    put(out, about);
    str_puts(out, "\n");
}

static void put_options(struct str *out)
{
    const struct option *d;
    for (size_t i = 0; (d = options_row(i)); i++) {
        char name[64];
        if (!d->groups) str_printf(out, ".SS %s\n", d->name);
        if (!options_listed(d)) continue;
        if (d->letter)
            snprintf(name, sizeof name, "-%c, --%s", d->letter, d->name);
        else
            snprintf(name, sizeof name, "--%s", d->name);
        item(out, name, d->value, d->help);
    }
}

static void put_display(struct str *out)
{
    const struct option *d;
    str_puts(out,
             ".SH CONFIGURATION\nThe file ~/.config/retain/config has defaults of options, and "
             "these settings of the screen:\n");
    for (size_t i = 0; (d = options_row(i)); i++)
        if (d->display) item(out, d->name, d->value ? d->value : "yes|no", d->help);
}

static void put_policy_keys(struct str *out)
{
    struct options_policy_key key;
    str_puts(out,
             ".SH KEYS OF A POLICY\n\\fB\\-\\-policy keydiff:sinks=4,stabilizers=64\\fR changes "
             "these of a policy; \\fBauto:\\fR changes them of the default one.\n");
    for (int i = 0; options_policy_key(i, &key); i++) item(out, key.name, NULL, key.help);
}

static void put_keys(struct str *out)
{
    static const char *const titles[VIEWS] = {
        [VIEW_CHAT] = "In the chat",     [VIEW_MAP] = "In the map",
        [VIEW_TINT] = "In the tint",     [VIEW_LIST] = "In the list",
        [VIEW_READ] = "In the messages", [VIEW_HELP] = "In help and in log"};
    str_puts(out, ".SS Everywhere\n");
    for (const struct binding *b = key_table; b->views; b++)
        if (b->label && b->views == IN_ALL) item(out, b->label, NULL, b->help);
    for (int view = 0; view < VIEWS; view++) {
        if (!titles[view]) continue;
        str_printf(out, ".SS %s\n", titles[view]);
        for (const struct binding *b = key_table; b->views; b++)
            if (b->label && b->views != IN_ALL && (b->views & IN(view)))
                item(out, b->label, NULL, b->help);
    }
}

static const char before[] =
    ".SH NAME\nretain \\- chat with a language model inside a fixed memory budget\n.SH "
    "SYNOPSIS\n.B retain\n[\\fICOMMAND\\fR] [\\fIOPTION\\fR...] [\\fIARGUMENT\\fR...]\n.SH "
    "DESCRIPTION\nA conversation with a language model in the terminal that never ends, never "
    "slows down and never\ngrows: retain runs a quantized model with a 4\\-bit KV cache of fixed "
    "size and permanently evicts\nthe cache entries that a trained retaining head scores lowest. "
    "Conversations are saved token by\ntoken and resume without a replay; a map shows live which "
    "tokens are still retained.\nWithout a command retain chats; without a model it uses its "
    "built\\-in demo model.\n";

static const char after[] =
    ".SH FILES\n.TP\n.I $XDG_CONFIG_HOME/retain/config\nDefaults for options, one per line: "
    "\\fIname\\fR = \\fIvalue\\fR, # begins a comment. Usually\n~/.config/retain/config. "
    "\\fBretain \\-\\-print\\-config\\fR prints one to begin with.\n.TP\n.I "
    "$XDG_DATA_HOME/retain/retain.db\nConversations, their caches and registered model files. "
    "Usually ~/.local/share/retain.\n.TP\n.I $XDG_DATA_HOME/retain/models/\nModels that "
    "\\fBretain pull\\fR downloaded.\n.TP\n.I $XDG_STATE_HOME/retain/\nInput history, drafts, and "
    "in heads/ the fitted retaining heads. Usually ~/.local/state/retain.\n.TP\n.I "
    "$XDG_CACHE_HOME/retain/packed/\nWeights in the format "
    "used in memory, so that a model starts at once; may be deleted at any\ntime. Usually "
    "~/.cache/retain/packed.\n.SH ENVIRONMENT\n.TP\n.B NO_COLOR\nNo colours on the "
    "screen.\n.TP\n.BR LC_ALL ,\\  LC_CTYPE ,\\  LANG\nOther than UTF\\-8: the screen is drawn in "
    "ASCII.\n";

static const struct {
    int code; /* of struct err */
    const char *about;
} exits[] = {
    {0, "done"},
    {ERR_FAIL, "the command failed; search: nothing was found"},
    {ERR_USAGE, "invalid usage"},
    {ERR_FORMAT, "a bad, damaged or unsupported file"},
    {ERR_FIT, "does not fit into the memory allowed"},
    {ERR_STOP, "interrupted"},
};

static const char examples[] =
    ".SH EXAMPLES\n.nf\nretain                                        # the demo model\nretain "
    "chat \\-m model.gguf \\-\\-memory 6G         # the largest cache that fits\nretain chat "
    "\\-\\-continue                        # the latest conversation again\nretain generate \\-p "
    "'Why is the sky blue?'      # one answer to standard output\nretain search locker             "
    "             # find a word in all messages\nretain plan \\-m model.gguf                      "
    "# the memory it would need\n.fi\n.SH SEE ALSO\nLocret, arXiv 2410.01805, which introduced "
    "retaining heads.\n";

void manual_print(const struct command *commands, struct str *out)
{
    str_puts(out, ".TH RETAIN 1 \"\" \"retain " RETAIN_VERSION "\"\n");
    str_puts(out, before);
    str_puts(out, ".SH COMMANDS\n");
    for (const struct command *c = commands; c->name; c++) item(out, c->name, c->args, c->about);
    str_puts(out, ".SH OPTIONS\nEach command takes some of these options; \\fBretain\\fR "
                  "\\fICOMMAND\\fR\n\\fB\\-\\-help\\fR lists them; \\fBretain "
                  "\\-\\-print\\-config\\fR prints their defaults.\n");
    put_options(out);
    put_display(out);
    str_puts(out,
             ".SH POLICIES\nWhich cache units stay when a head is full (\\fB\\-\\-policy\\fR).\n");
    for (int i = 0; policy_at(i); i++) item(out, policy_at(i)->name, NULL, policy_at(i)->about);
    put_policy_keys(out);
    str_puts(out, ".SH KEYS\n");
    put_keys(out);
    str_puts(
        out,
        ".SH WORDS IN THE CHAT\nA line that begins with one of these is not sent to the model.\n");
    for (const struct slash_row *row = slash_table; row->name; row++) {
        char name[32];
        snprintf(name, sizeof name, "/%s", row->name);
        item(out, name, row->usage[0] ? row->usage : NULL, row->help);
    }
    item(out, "//", "text", "sends /text");
    str_puts(out, after);
    str_puts(out, ".SH EXIT STATUS\n");
    for (size_t i = 0; i < sizeof exits / sizeof exits[0]; i++) {
        char status[8];
        snprintf(status, sizeof status, "%d", err_exit_status(exits[i].code));
        item(out, status, NULL, exits[i].about);
    }
    str_puts(out, examples);
}

/* ---- completion ------------------------------------------------------------------------------ */

struct complete {
    const char *start; /* the typed part of the word */
};

static void offer(const struct complete *c, const char *dashes, const char *word, const char *about)
{
    size_t n = strlen(dashes);
    size_t typed = strlen(c->start);
    if (strncmp(c->start, dashes, typed < n ? typed : n)) return;
    if (typed > n && strncmp(c->start + n, word, typed - n)) return;
    report_line("%s%s\t%s", dashes, word, about);
}

static int offer_conversation(void *ctx, const struct conversations_entry *entry)
{
    offer(ctx, "", entry->name, "");
    return 0;
}

static void offer_models(struct complete *c, struct conversations *l, const struct options *o)
{
    struct model_list models;
    model_list_rows(&models, o, l, NULL);
    for (int i = 0; i < models.n; i++) offer(c, "", models.rows[i].name, "");
    model_list_release(&models);
}

/* Never asks for a passphrase or creates a file: an encrypted or missing database offers no
 * names. */
static void offer_saved(struct complete *c, bool models)
{
    struct options o;
    struct str path = {0};
    struct conversations *l = NULL;
    options_init(&o);
    if (path_database(&o, &path, NULL) || access(str_get(&path), R_OK) ||
        conversations_open(&l, str_get(&path), NULL, NULL))
        l = NULL;
    if (models)
        offer_models(c, l, &o);
    else if (l)
        conversations_list(l, NULL, offer_conversation, c, NULL);
    conversations_close(l);
    str_release(&path);
}

const struct command *command_named(const struct command *commands, const char *name)
{
    for (const struct command *c = commands; c->name; c++)
        if (!strcmp(c->name, name)) return c;
    return NULL;
}

/* Finds the option that takes the next word as its value, if there is one. */
static const struct option *wants_value(const char *word)
{
    const struct option *d;
    for (size_t i = 0; (d = options_row(i)); i++) {
        if (!d->value) continue;
        if (word[0] == '-' && word[1] == '-' && !strcmp(word + 2, d->name)) break;
        if (word[0] == '-' && d->letter && word[1] == d->letter && !word[2]) break;
    }
    return d;
}

static bool offer_values(struct complete *c, const struct option *row)
{
    char word[32];
    if (!strcmp(row->name, "conversation")) return offer_saved(c, false), true;
    if (!strcmp(row->name, "model")) offer_saved(c, true);
    if (!strcmp(row->name, "policy"))
        for (int i = 0; policy_at(i); i++) offer(c, "", policy_at(i)->name, policy_at(i)->about);
    for (int i = 0; options_list_item(row->choices, i, word, sizeof word); i++)
        offer(c, "", word, "");
    return row->choices || !strcmp(row->name, "policy");
}

bool manual_complete(const struct command *commands, int n, char *const *words)
{
    const struct option *d = n > 1 ? wants_value(words[n - 2]) : NULL;
    const struct command *command = n > 1 ? command_named(commands, words[0]) : NULL;
    struct complete c = {n > 0 ? words[n - 1] : ""};
    if (d) return offer_values(&c, d);
    if (c.start[0] == '-') {
        for (size_t i = 0; (d = options_row(i)); i++)
            if (options_listed(d) & (command ? command : commands)->groups)
                offer(&c, "--", d->name, d->help);
        return true;
    }
    if (n <= 1) {
        for (const struct command *k = commands; k->name; k++) offer(&c, "", k->name, k->about);
        return true;
    }
    if (command && !strcmp(command->name, "models") && n > 2) return offer_saved(&c, true), true;
    if (!command || strncmp(command->args, "NAME", 4)) return false;
    offer_saved(&c, false);
    return true;
}
