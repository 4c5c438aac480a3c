/* retain: only the table of commands. */
#include <locale.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/nearest.h"
#include "base/file.h"
#include "cli/commands/commands.h"
#include "cli/commands/manual.h"
#include "cli/control/model_list.h"
#include "cli/control/resume.h"
#include "cli/options/options.h"
#include "cli/options/paths.h"
#include "cli/print/report.h"
#include "cli/print/target.h"
#include "cli/pull/pull.h"
#include "facts.h" /* made by the Makefile */

enum {
    RUN = OPTIONS_MODEL | OPTIONS_MEMORY,
    MAKE = OPTIONS_MAKING,
};

static const struct command commands[] = {
    {"chat", cmd_chat, RUN | OPTIONS_SAMPLING | OPTIONS_STORE | OPTIONS_CHAT, "",
     "chat with a model (the default command)"},
    {"demo", cmd_demo, OPTIONS_SCREEN, "", "watch the demo model in a chat; any key takes over"},
    {"generate", cmd_generate,
     RUN | OPTIONS_SAMPLING | OPTIONS_GENERATE | OPTIONS_TEXT | OPTIONS_JSON, "",
     "one prompt in, one answer out"},
    {"list", cmd_saved, OPTIONS_STORE | OPTIONS_JSON | OPTIONS_LIST, "", "saved conversations"},
    {"show", cmd_saved, OPTIONS_STORE | OPTIONS_JSON, "NAME", "the text of a conversation"},
    {"rename", cmd_saved, OPTIONS_STORE, "NAME NEW", "rename a conversation"},
    {"tag", cmd_saved, OPTIONS_STORE | OPTIONS_TAG, "NAME TAG...", "add tags to a conversation"},
    {"delete", cmd_saved, OPTIONS_STORE | OPTIONS_DELETE, "NAME...", "delete conversations"},
    {"restore", cmd_saved, OPTIONS_STORE, "NAME [NEW]", "restore a deleted conversation"},
    {"search", cmd_saved, OPTIONS_STORE | OPTIONS_JSON | OPTIONS_FIND, "TEXT...",
     "search in all messages"},
    {"export", cmd_saved, OPTIONS_STORE | OPTIONS_JSON | OPTIONS_EXPORT, "NAME...",
     "export conversations as text, or with their cache"},
    {"import", cmd_saved, OPTIONS_STORE, "FILE [NEW]", "import exported conversations"},
    {"compact", cmd_saved, OPTIONS_STORE, "",
     "shrink the database and purge deleted conversations"},
    {"models", cmd_models, OPTIONS_MODEL | OPTIONS_STORE | OPTIONS_JSON, "list|...",
     "model files: list, add, default, verify, unpack, remove"},
    {"pull", cmd_pull, OPTIONS_PULL | OPTIONS_MEMORY | OPTIONS_STORE, "ADDRESS...",
     "download a model: hf:OWNER/REPO[:Q4_K_M], https://…"},
    {"plan", cmd_plan, RUN | OPTIONS_JSON, "", "show the memory a model would need"},
    {"check", cmd_saved, MAKE | OPTIONS_STORE, "", "verify every checksum of the database"},
    {"replay", cmd_replay, MAKE | OPTIONS_REPLAY, "FILE", "replay a recorded chat (chat --record)"},
    {"info", cmd_info, MAKE | OPTIONS_MODEL, "", "devices, instruction sets, a model's facts"},
    {"verify", cmd_verify, MAKE | OPTIONS_MODEL, "",
     "read a whole model file and print its digest"},
    {"tokenize", cmd_tokenize, MAKE | OPTIONS_MODEL | OPTIONS_TOKENIZE | OPTIONS_TEXT, "",
     "text to token ids"},
    {"template", cmd_template, MAKE | OPTIONS_MODEL | OPTIONS_TEMPLATE, "MESSAGES",
     "messages (JSON) to the exact prompt"},
    {"perplexity", cmd_perplexity, MAKE | RUN | OPTIONS_EVAL | OPTIONS_TEXT | OPTIONS_JSON, "",
     "how well a model predicts a text; --kv f32,q4 compares cache formats with the first"},
    {"eval", cmd_eval,
     MAKE | RUN | OPTIONS_SAMPLING | OPTIONS_EVAL | OPTIONS_TEXT | OPTIONS_JSON | OPTIONS_LISTS,
     "TASK...", "measure how much a policy remembers"},
    {"quantize", cmd_quantize, MAKE | OPTIONS_QUANTIZE, "IN OUT",
     "a model file or a safetensors folder to an int4 or int8 file"},
    {"heads", cmd_heads, MAKE | OPTIONS_MODEL | OPTIONS_HEADS, "train|...",
     "retaining heads: fit, train, calibrate, import FILE, info"},
    {"bench", cmd_bench, MAKE | RUN | OPTIONS_BENCH | OPTIONS_JSON | OPTIONS_LISTS, "",
     "speed by depth"},
    {NULL, NULL, 0, NULL, NULL},
};

static int print(struct str *text)
{
    report_text(str_get(text), text->n);
    str_release(text);
    return 0;
}

static int help(void)
{
    struct str text = {0};
    str_puts(&text, "usage: retain [COMMAND] [OPTION...]\n\n");
    for (const struct command *c = commands; c->name; c++)
        if (!(c->groups & OPTIONS_MAKING))
            str_printf(&text, "  %-8s %-11s %s\n", c->name, c->args, c->about);
    str_puts(&text, "\nFor measuring and making:\n");
    for (const struct command *c = commands; c->name; c++)
        if (c->groups & OPTIONS_MAKING) str_printf(&text, " %s", c->name);
    str_puts(
        &text,
        "\n\nretain COMMAND --help; retain --version; man retain, or retain manual | man -l -\n");
    return print(&text);
}

static int command_help(const struct command *c)
{
    struct str text = {0};
    str_printf(&text, "usage: retain %s [OPTION...]%s%s\n%s\n\n", c->name, *c->args ? " " : "",
               c->args, c->about);
    if (c->run == cmd_eval) cmd_eval_help(&text);
    if (c->groups & OPTIONS_LISTS)
        str_puts(&text, "Lists give one run for each combination: --budget 256,1024 --kv q4,q8\n"
                        "--policy keeper,keeper:stabilizers=0,random --recall off,words\n");
    options_help(c->groups, &text);
    if (c->groups & OPTIONS_CHAT)
        str_puts(&text, "man retain has the other options, and the settings of the screen.\n");
    return print(&text);
}

static int manual(void)
{
    struct str text = {0};
    manual_print(commands, &text);
    return print(&text);
}

static int version(void)
{
    static const char text[] = "retain " RETAIN_VERSION "\n" RETAIN_FACTS "\n";
    report_text(text, sizeof text - 1);
    return 0;
}

/* Suggests the command that "retain caht" may mean, or "retain FILE". */
static int unknown_command(const char *name)
{
    struct nearest near = nearest_to(name, strlen(name));
    for (const struct command *c = commands; c->name; c++) nearest_offer(&near, c->name);
    struct err e;
    if (near.name)
        err_set(&e, ERR_USAGE, "there is no command \"%.100s\"; did you mean \"retain %s\"?", name,
                near.name);
    else if (!access(name, F_OK))
        err_set(&e, ERR_USAGE, "there is no command \"%.100s\"; give a model with -m FILE", name);
    else
        err_set(&e, ERR_USAGE, "there is no command \"%.100s\"; retain --help lists all", name);
    return report_error(&e);
}

/* The command named by argv[1]; chat when that is an option or absent. NULL = unknown. */
static const struct command *find(int argc, char **argv, int *n_used)
{
    *n_used = 1;
    if (argc > 2 && !strcmp(argv[1], "--safe") && argv[2][0] != '-') {
        const struct command *c = find(argc - 1, argv + 1, n_used); /* it may come first */
        ++*n_used;
        return c;
    }
    if (argc < 2 || argv[1][0] == '-') return &commands[0];
    *n_used = 2;
    return command_named(commands, argv[1]);
}

/* Refuses names for a command that takes none. */
static int check_names(const struct command *c, const struct options *o, struct err *e)
{
    if (*c->args || o->n_args == 0) return 0;
    const char *instead =
        (c->groups & OPTIONS_CHAT)   ? "; give a model with -m FILE, a conversation with -c NAME"
        : (c->groups & OPTIONS_TEXT) ? "; give a text with -p TEXT or -f FILE, a model with -m FILE"
        : (c->groups & OPTIONS_MODEL) ? "; give a model with -m FILE"
                                      : "";
    return err_set(e, ERR_USAGE, "%s takes no \"%.60s\"%s", c->name, o->args[0], instead);
}

static int print_config(const struct options *o)
{
    struct str text = {0};
    options_print_config(o, &text);
    return print(&text);
}

/* $XDG_CONFIG_HOME/retain/config, if it exists. Its text must outlive the options. */
static int read_config(struct options *o, struct str *text, struct err *e)
{
    struct str path = {0};
    struct err cause;
    int rc = 0;
    if (!path_find(PATH_CONFIG, "config", &path, NULL) && !access(str_get(&path), F_OK))
        rc = file_read(str_get(&path), FILE_SETTINGS, text, &cause);
    if (!rc && text->n)
        rc = options_parse_layer(o, OPTIONS_CONFIG, text->data, str_get(&path), &cause);
    if (rc) err_set(e, rc, "%s (--safe starts without this file)", cause.text);
    str_release(&path);
    return rc;
}

/* ---- options --------------------------------------------------------------------------------- */

/* The texts that the options point into. */
struct texts {
    struct str config, model;
    struct resume resume;
    struct options base;
};

static void texts_release(struct texts *t)
{
    str_release(&t->config);
    resume_release(&t->resume);
    str_release(&t->model);
}

struct line {
    const struct command *command;
    int argc; /* arguments after the command's name */
    char *const *argv;
    bool safe;
};

static int parse(struct options *o, struct texts *t, const struct line *l, struct err *e)
{
    options_init(o);
    o->command = l->command->name;
    int rc = l->safe ? 0 : read_config(o, &t->config, e);
    if (!rc) rc = options_parse(o, l->command->groups, l->argc, l->argv, e);
    return rc ? rc : check_names(l->command, o, e);
}

/* Only commands that run the model of a conversation take the settings of either. */
static int read_options(struct options *o, struct texts *t, const struct line *l, struct err *e)
{
    const unsigned groups = l->command->groups;
    int rc = parse(o, t, l, e);
    if (rc || o->help || o->print_config || !(groups & OPTIONS_MODEL)) return rc;
    rc = pull_model(o, &o->engine.model, &t->model, e);
    if (!rc) rc = model_named(o, &o->engine.model, &t->model, e);
    if (rc) return rc;
    t->base = *o;
    o->base = &t->base;
    if (groups & OPTIONS_CHAT) return resume_begin(o, &t->resume, e);
    bool runs = (groups & OPTIONS_GENERATE) || l->command->run == cmd_plan;
    return runs ? resume_options(o, NULL, NULL, false, &t->resume, e) : 0;
}

static bool asks_help(const char *word)
{
    return !strcmp(word, "help") || !strcmp(word, "--help") || !strcmp(word, "-h");
}

static int run(int argc, char **argv)
{
    struct options o;
    static struct texts texts; /* large */
    struct str packed = {0}, fitted = {0};
    struct err e = {0};
    int n_used;
    if (argc == 2 && asks_help(argv[1])) return help();
    if (argc == 2 && !strcmp(argv[1], "--version")) return version();
    if (argc == 2 && !strcmp(argv[1], "manual")) return manual();
    if (argc >= 2 && !strcmp(argv[1], "complete"))
        return manual_complete(commands, argc - 2, argv + 2) ? 0 : 1;
    /* "retain help chat" and "retain --help chat" are "retain chat --help" */
    const bool help_for =
        argc == 3 && asks_help(argv[1]) && (argv[1][0] != '-' || argv[2][0] != '-');
    const struct command *c =
        help_for ? command_named(commands, argv[2]) : find(argc, argv, &n_used);
    if (!c) return unknown_command(argv[help_for ? 2 : n_used - 1]);
    if (help_for) return command_help(c);
    const struct line l = {c, argc - n_used, argv + n_used, options_safe(argc, argv)};
    int rc = read_options(&o, &texts, &l, &e);
    if (!rc && !o.no_weight_cache && !path_find(PATH_CACHE, "packed", &packed, NULL))
        texts.base.engine.weight_cache_dir = o.engine.weight_cache_dir = packed.data;
    if (!rc && !path_find(PATH_STATE, "heads", &fitted, NULL))
        texts.base.engine.heads_dir = o.engine.heads_dir = fitted.data;
    int status = rc               ? report_error(&e)
                 : o.help         ? command_help(c)
                 : o.print_config ? print_config(&o)
                                  : c->run(&o);
    texts_release(&texts);
    str_release(&packed);
    str_release(&fitted);
    return status;
}

/* The buffers on the stack and the libraries need this much. */
#define STACK_MIN (512 << 10)

static bool has_stack(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_STACK, &r) || r.rlim_cur == RLIM_INFINITY || r.rlim_cur >= STACK_MIN)
        return true;
    struct err e;
    err_set(&e, ERR_FAIL, "the stack is limited to %lld KiB, and %d are needed; ulimit -s sets it",
            (long long)(r.rlim_cur >> 10), STACK_MIN >> 10);
    report_error(&e);
    return false;
}

int main(int argc, char **argv)
{
    if (!target_runs_here() || !has_stack()) return 1;
    memory_return_large();
    signal(SIGXFSZ,
           SIG_IGN);         /* a file that grows beyond the limit is a failed write, with a line */
    setlocale(LC_CTYPE, ""); /* report and the screen check whether the terminal supports UTF-8 */
    return report_finish(run(argc, argv));
}
