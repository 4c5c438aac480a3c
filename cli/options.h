/* options: everything a person can set, from the configuration file and the command line.
 *
 * One table gives name, kind, help and the commands that take it; parsing, `--help` and the
 * configuration file are made from it. Nothing here prints, opens a model or reads the environment:
 * commands do. Strings point into argv or into the options' own copy of the file. */
#ifndef RETAIN_CLI_OPTIONS_H
#define RETAIN_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "runtime/token/sampler.h"

/* Which commands take an option: a bit set. */
enum option_group {
    OPTIONS_OF_ALL = 1 << 30,  /* those that every command takes */
    OPTIONS_MODEL = 1 << 0,    /* anything that opens a model */
    OPTIONS_MEMORY = 1 << 1,   /* policy, budget, cache */
    OPTIONS_SAMPLING = 1 << 2, /* what chooses the next token */
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
};

struct options {
    /* model */
    const char *model;   /* NULL = the default one; the embedded demo when none is set */
    const char *heads;   /* NULL = those that belong to the model, if any; "none" = without */
    const char *device;  /* auto, cpu, cuda[:n] */
    const char *isa;     /* NULL = best */
    const char *weights; /* "file" = as stored, "f32" = expanded to float32: exact and slow */
    const char *template_name;
    int threads; /* 0 = all cores */
    bool accept_model;
    const char *verify; /* full, sample, off: whether the model file is read for its digest */
    const char *packed; /* folder of packed weights (packed.h), NULL = none; not an option */
    bool no_packed;
    /* memory */
    const char *policy; /* a row of the policy table, or for eval a list; NULL = best available */
    const char *budget; /* units per head; for eval and bench a list; NULL = plan chooses */
    const char *kv;     /* q4, q8, f16, or K,V apart as "q8:q4"; NULL = q4 where the shape allows */
    int64_t memory;     /* bytes, 0 = no limit */
    int chunk;          /* tokens per prefill step; 0 = default */
    const char *allocator; /* uniform, pyramid, ada, ada-pyramid, global; NULL = the policy's */
    int window;            /* queries that observe; -1 = the policy's */
    int pooling;           /* width of the maximum over neighbours' scores; -1 = the policy's */
    int stabilizers;       /* -1 = the policy's */
    int sinks;             /* -1 = the policy's */
    int reserve;           /* units for an answer before eviction starts inside it; -1 = default */
    int64_t context;       /* units for --policy full; 0 = the model's */
    /* sampling */
    struct sampling sampling;
    bool greedy;   /* --temp 0 or --greedy */
    int n_predict; /* tokens at most per answer; 0 = until the turn ends */
    bool ignore_end;
    /* store */
    const char *db; /* NULL = the default file */
    bool private_mode;
    bool encrypt;                /* make a new database an encrypted one */
    const char *passphrase_file; /* instead of asking for it */
    const char *passphrase;      /* known already, in locked memory; not an option */
    int64_t rewind;              /* bytes of evicted units kept to go back to earlier turns */
    int64_t disk;                /* bytes of saved caches that are kept; 0 = all */
    bool markdown, cache_only;
    const char *tag;        /* list: only conversations that have it */
    bool remove;            /* tag: take off */
    const char *with_cache; /* FILE */
    int limit;              /* results of a search; 0 = all */
    /* chat */
    const char *conversation; /* -c NAME */
    bool new_conversation, continue_latest, read_only;
    bool plain, no_markdown;
    const char *color, *background; /* auto, never, 16, 256; auto, dark, light */
    bool ascii, reduced_motion;
    bool no_title, progress;
    const char *alert;  /* "never", "bell", "osc9", "osc777" */
    const char *record; /* FILE */
    const char *system;
    /* text */
    const char *prompt; /* -p */
    const char *file;   /* -f FILE, "-" = standard input */
    bool raw;           /* no chat template */
    /* tokenize */
    bool ids, no_special;
    /* quantize */
    const char *type;      /* q4, q8; NULL = q4 */
    const char *calibrate; /* a text file */
    bool force;
    /* heads */
    const char *data, *out;
    const char *labels; /* answer, repeat, both, logit; NULL = answer */
    int steps, batch, hidden;
    float rate, smoothing;
    /* eval, bench */
    const char *length, *depth, *compression;
    const char *vs;      /* a rival's command */
    const char *wording; /* demo, papers; NULL = demo */
    int seeds, facts, depths;
    int64_t report;
    bool csv;
    int prefill, decode, repeat;
    bool json;
    /* every command */
    bool help;
    bool safe; /* the configuration file stays unread */
    bool print_config, print_paths;
    /* what was left: file names, tasks, conversation names */
    const char *args[16];
    int n_args;
};

/* sampling.temperature is this until somebody sets it: the model file's own
 * (general.sampling.temp), or 0.8. */
#define OPTIONS_TEMPERATURE_OF_MODEL (-1.0f)
#define OPTIONS_REPEAT_MAX           99

void options_init(struct options *o);

/* argv without program and command name. ERR_USAGE names the option, and the nearest one when it is
 * misspelt. "--name=value" and "--name value" both work; "--" ends options. */
int options_parse(struct options *o, unsigned groups, int argc, char *const *argv, struct err *e);

/* "key = value" lines, '#' comments; errors say FILE:LINE. `text` must outlive the options. */
int options_parse_config(struct options *o, char *text, const char *file, struct err *e);

/* Does argv[0, argc) say --safe? Asked before the configuration file is read. */
bool options_safe(int argc, char *const *argv);

/* ---- one at a time: /set in a running chat ---- */

/* Sets `name`, an option of `groups`, as the configuration file would; the text is not copied.
 * ERR_USAGE names what is wrong and the nearest option. */
int options_set(struct options *o, unsigned groups, const char *name, const char *value,
                struct err *e);
/* Appends the value of the option as options_set would take it, "" when none was given. */
int options_get(const struct options *o, unsigned groups, const char *name, struct str *out,
                struct err *e);

struct option_fact {
    const char *name, *help;
    const char *choices; /* comma separated; NULL = any value */
    unsigned groups;
};
/* The i-th option of `groups`; false past the end. */
/* All of these groups that are set, as they are written on a command line. */
void options_spell(const struct options *o, unsigned groups, struct str *out);
bool options_fact(unsigned groups, int i, struct option_fact *out);

/* The lines of `--help` for the options of `groups`. */
void options_help(unsigned groups, struct str *out);

/* All that a configuration file can set, as such a file; what is as options_init made it is
 * commented out. */
void options_print_config(const struct options *o, struct str *out);

/* A row of the table, for the manual page and for completion. */
struct options_row {
    const char *heading; /* the title of the rows that follow, all else empty; or NULL */
    const char *name;
    char letter;         /* 0 = none */
    const char *value;   /* what it is called; NULL = a flag */
    const char *choices; /* comma separated; NULL = any */
    const char *help;
    unsigned groups;
};
bool options_row(size_t i, struct options_row *row); /* false past the end */

/* "6G", "512M", "1048576": bytes; false when it is none. */
bool options_size(const char *text, int64_t *bytes);

/* The i-th comma-separated part of a list, copied; false when there is none. */
bool options_list_item(const char *list, int i, char *out, size_t out_bytes);

#endif
