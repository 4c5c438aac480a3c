/* options: everything that a user can set, from the configuration file and the command line.
 *
 * One table (options_table.c) gives name, kind, help and the commands that take it; parsing
 * (options_parse.c, options_value.c), `--help` and the configuration file (options_print.c) use it.
 * Values are parsed here into the types of their users: below cli no string means a number, a
 * choice or a list. Nothing here prints, opens a model or reads the environment: commands do.
 * Strings point into argv or into the options' own copy of the file. */
#ifndef RETAIN_CLI_OPTIONS_OPTIONS_H
#define RETAIN_CLI_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "runtime/forward/engine.h"
#include "runtime/forward/plan.h"
#include "runtime/session/session.h"

/* Which commands take an option: a bit set. */
enum option_group {
    OPTIONS_MODEL = 1 << 0,    /* commands that open a model */
    OPTIONS_MEMORY = 1 << 1,   /* policy, budget, cache */
    OPTIONS_SAMPLING = 1 << 2, /* how the next token is chosen */
    OPTIONS_STORE = 1 << 3,    /* the database */
    OPTIONS_CHAT = 1 << 4,
    OPTIONS_GENERATE = 1 << 5,
    OPTIONS_EVAL = 1 << 6,
    OPTIONS_BENCH = 1 << 7,
    OPTIONS_TOKENIZE = 1 << 8,
    OPTIONS_JSON = 1 << 9,
    OPTIONS_QUANTIZE = 1 << 11,
    OPTIONS_EXPORT = 1 << 12,
    OPTIONS_DELETE = 1 << 13,
    OPTIONS_FIND = 1 << 14,
    OPTIONS_LIST = 1 << 15,
    OPTIONS_TAG = 1 << 16,
    OPTIONS_HEADS = 1 << 17,
    OPTIONS_TEXT = 1 << 10, /* -p / -f: text from the command line, a file or standard input */
    OPTIONS_TEMPLATE = 1 << 19,
    OPTIONS_PULL = 1 << 20,
    OPTIONS_SCREEN = 1 << 21, /* how the screen is drawn */
    OPTIONS_REPLAY = 1 << 23,
    OPTIONS_LISTS = 1 << 18,  /* takes lists where other commands take one value */
    OPTIONS_MAKING = 1 << 24, /* for measuring and making: retain --help has only its name */
};

#define OPTIONS_ON_SCREEN (OPTIONS_CHAT | OPTIONS_SCREEN)

/* ---- lists: for commands with OPTIONS_LISTS ---- */

#define OPTIONS_LIST_MAX 32
#define OPTIONS_MAX      128 /* rows of the table */

/* Where a value comes from. A layer never replaces a value of a later one, so the layers of a chat
 * may be read in any order. */
enum options_layer {
    OPTIONS_DEFAULT,
    OPTIONS_CONFIG,       /* the configuration file */
    OPTIONS_RAN,          /* the budget and policy that the conversation ran with, given or not */
    OPTIONS_CONVERSATION, /* given for it earlier */
    OPTIONS_GIVEN,        /* the command line, /set */
};

struct options_numbers {
    int n; /* first, in each list */
    int64_t item[OPTIONS_LIST_MAX];
};
struct options_policies {
    int n;
    struct policy_choice item[OPTIONS_LIST_MAX];
};
struct options_kvs {
    int n;
    struct plan_kv item[OPTIONS_LIST_MAX];
};
#define OPTIONS_FILES_MAX 32

struct options_files {
    const char *item[OPTIONS_FILES_MAX];
    int n;
};
struct options_recalls {
    int n;
    enum recall_chooser item[OPTIONS_LIST_MAX];
};

/* ---- groups for cli, tui and quant only ---- */

struct chat_opts {
    bool plain, no_markdown, ascii, reduced_motion, contrast, mouse;
    bool no_title, no_bell, progress; /* of the window around the terminal */
    const char *color, *background;   /* auto, never, 16, 256, true; auto, dark, light */
    const char *record;               /* FILE */
    const char *recall_from;          /* NAME,… or all; NULL = no other conversation */
    int pace; /* tokens a second on the screen; 0 = no limit, -1 = that of the model */
};

struct store_opts {
    const char *db;              /* NULL = the default file */
    bool encrypt;                /* encrypt a new database */
    const char *passphrase_file; /* read from this file instead of asking */
    const char *passphrase;      /* already known, in locked memory; not an option */
    bool cache_only;
    const char *tag;        /* list: only conversations with this tag */
    bool remove;            /* tag: remove the tags */
    const char *with_cache; /* FILE */
    int limit;              /* maximum results of a search; 0 = all */
};

struct text_opts {
    const char *prompt;         /* -p */
    struct options_files files; /* each -f FILE, "-" = standard input */
    bool ids, no_special;
};

struct quantize_opts {
    const char *type; /* q4, q8; NULL = q4 */
};

struct training_opts {
    const char *data, *text, *out;
    int steps, batch, hidden;
    float rate;
};

/* Lists of policies, budgets, formats and choosers, of which eval runs all combinations; commands
 * that take one value use options.session.plan. */
struct sweep_opts {
    struct options_policies policies;
    struct options_kvs kvs;
    struct options_recalls recalls;
    struct options_numbers budgets, compressions, lengths, depths;
};

struct eval_opts {
    int seeds;
    bool answers;
    const char *results; /* a file of finished questions; NULL = none */
    enum { OPTIONS_AS_PROMPT, OPTIONS_AS_CONVERSATION } as;
    int items; /* of each task file; 0 = all */
};

struct pull_opts {
    const char *allow_host; /* comma separated; NULL = none */
};

struct bench_opts {
    int prefill, decode, repeat;
};

struct options {
    struct engine_opts engine;
    struct session_opts session; /* with plan and sampling */
    bool no_weight_cache;
    struct sweep_opts sweep;
    struct chat_opts chat;
    struct store_opts store;
    struct text_opts text;
    struct quantize_opts quantize;
    struct training_opts training;
    struct eval_opts eval;
    struct bench_opts bench;
    struct pull_opts pull;
    const char *svg; /* replay: a picture to draw; NULL = none */
    bool force;      /* replace an existing file; download a model that does not fit */
    bool yes;        /* the answer to each question of a command is yes */
    bool json;
    /* every command */
    bool help;
    bool safe; /* the configuration file is not read */
    bool print_config;
    const char *command; /* its name; NULL in a chat's own options */
    /* file names, tasks, conversation names */
    const char *args[24];
    int n_args;
    unsigned char from[OPTIONS_MAX]; /* enum options_layer of each row of the table */
    /* the same before the layers of model and conversation were added; NULL = there are none */
    const struct options *base;
};

#define OPTIONS_REPEAT_MAX 99

void options_init(struct options *o);

/* argv without program and command name. ERR_USAGE names the option, and the most similar one for
 * an unknown name. "--name=value" and "--name value" both work; "--" ends options. */
int options_parse(struct options *o, unsigned groups, int argc, char *const *argv, struct err *e);

/* "key = value" lines, '#' comments; errors start with FILE:LINE. `text` must outlive the options.
 * Of a conversation's lines, which may come from elsewhere, wrong ones are left out. */
int options_parse_layer(struct options *o, enum options_layer layer, char *text, const char *file,
                        struct err *e);

enum options_layer options_from(const struct options *o, const char *name);
/* Sets it to its default. */
void options_unset(struct options *o, const char *name);
/* Copies the given values of another one. */
void options_give(struct options *o, const struct options *given);
/* Appends the values that a conversation keeps, as lines of a configuration file: those given for
 * it, now or earlier, of the rows that are marked `kept`. */
void options_print_kept(const struct options *o, struct str *out);

/* Whether argv[0, argc) contains --safe. Needed before the configuration file is read. */
bool options_safe(int argc, char *const *argv);

/* ---- one at a time: /set in a running chat ---- */

/* Sets `name`, an option of `groups`, as the command line would; the text is not copied.
 * ERR_USAGE names the fault and the most similar option. */
int options_set(struct options *o, unsigned groups, const char *name, const char *value,
                struct err *e);
/* Appends the option's value in the form of options_set, "" when it is not set. */
int options_get(const struct options *o, unsigned groups, const char *name, struct str *out,
                struct err *e);

/* The lines of `--help` for the options of `groups`. */
void options_help(unsigned groups, struct str *out);

/* Prints a configuration file with every possible setting; settings with default values are
 * commented out. */
void options_print_config(const struct options *o, struct str *out);

/* ---- the table ------------------------------------------------------------------------------- */

struct option {
    const char *name;   /* without "--"; of a row without groups the title of those that follow */
    char letter;        /* 0 = none */
    unsigned char kind; /* enum option_kind */
    bool cli_only;      /* an action, not a setting: not allowed in the configuration file */
    bool kept;          /* a conversation keeps the value that was given for it */
    bool display; /* set in the configuration file; as an option of the chat accepted until 0.3.0 */
    bool rare;    /* not in chat --help; the manual page has it */
    unsigned short offset, size;
    unsigned groups;
    double min, max;     /* numbers; both 0 = any that is not negative */
    const char *choices; /* comma separated; NULL = any value */
    const char *value;   /* placeholder of the value in --help; NULL = a flag */
    const char *help;
};
const struct option *options_row(size_t i); /* NULL past the end */
/* The groups whose help and completion list it: of a display setting none that draws the screen. */
unsigned options_listed(const struct option *d);

/* The i-th setting of `groups`; NULL past the end. */
const struct option *options_setting(unsigned groups, int i);
/* By its name; NULL: the error names the most similar one. */
const struct option *options_named(unsigned groups, const char *name, struct err *e);

/* "6G", "512M", "1048576": bytes; false when invalid. */
bool options_size(const char *text, int64_t *bytes);

/* The i-th comma-separated part of a list, copied; false when there is none. */
bool options_list_item(const char *list, int i, char *out, size_t out_bytes);

#endif
