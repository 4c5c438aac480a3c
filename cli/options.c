#include "cli/options.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/edit_distance.h"

enum kind { HEADING, FLAG, TEXT, INT, SIZE, SEED, DECIMAL };

struct option {
    const char *name; /* without "--"; a HEADING's title */
    char letter;      /* 0 = none */
    unsigned char kind;
    bool cli_only; /* what to do now, not how: makes no sense in the configuration file */
    unsigned short offset;
    unsigned groups;
    double min, max;     /* INT, SIZE, DECIMAL; both 0 = any that is not negative */
    const char *choices; /* TEXT: comma separated; NULL = any */
    const char *value;   /* what the value is called in --help */
    const char *help;
};

/* The field's own type decides how its value is read, so that table and struct cannot disagree. */
/* clang-format off */
#define AT(field) \
    .kind = _Generic(((struct options *)0)->field, bool: FLAG, const char *: TEXT, int: INT, \
                     int64_t: SIZE, uint64_t: SEED, float: DECIMAL), \
    .offset = offsetof(struct options, field)
/* clang-format on */

enum {
    MODEL = OPTIONS_MODEL,
    MEMORY = OPTIONS_MEMORY,
    SAMPLING = OPTIONS_SAMPLING,
    STORE = OPTIONS_STORE,
    CHAT = OPTIONS_CHAT,
    GENERATE = OPTIONS_GENERATE,
    EVAL = OPTIONS_EVAL,
    BENCH = OPTIONS_BENCH,
    TOKENIZE = OPTIONS_TOKENIZE,
    JSON = OPTIONS_JSON,
    TEXTS = OPTIONS_TEXT,
    QUANTIZE = OPTIONS_QUANTIZE,
    HEADS = OPTIONS_HEADS,
    EXPORT = OPTIONS_EXPORT,
    DELETE = OPTIONS_DELETE,
    LIST = OPTIONS_LIST,
    TAG = OPTIONS_TAG,
    FIND = OPTIONS_FIND,
    ALL = -1,
};

/* Shorter to read than 50 rows of full designators: the order is name, letter, field, groups. */
#define ROW(n, l, f, g) .name = n, .letter = l, AT(f), .groups = (unsigned)(g)

static const struct {
    unsigned group;
    const char *name;
} group_names[] = {
    {MODEL, "commands that open a model"},
    {MEMORY, "commands that run a model"},
    {SAMPLING, "chat and generate"},
    {STORE, "commands on saved conversations"},
    {CHAT, "chat"},
    {GENERATE, "generate"},
    {EVAL, "eval"},
    {BENCH, "bench"},
    {TOKENIZE, "tokenize"},
    {JSON, "commands with results for programs"},
    {TEXTS, "commands that read a text"},
    {QUANTIZE, "quantize"},
    {HEADS, "heads"},
    {EXPORT, "export"},
    {DELETE, "delete"},
    {LIST, "list"},
    {TAG, "tag"},
    {FIND, "search"},
};

/* clang-format off */
static const struct option table[] = {
    {.name = "Conversation"},
    {ROW("conversation", 'c', conversation, CHAT), .cli_only = true, .value = "NAME",
     .help = "go on with this conversation, or begin it"},
    {ROW("continue", 0, continue_latest, CHAT), .help = "go on with the latest conversation"},
    {ROW("new", 0, new_conversation, CHAT), .help = "begin a new conversation"},
    {ROW("read-only", 0, read_only, CHAT), .cli_only = true,
     .help = "look at a conversation, even while another retain has it open"},
    {ROW("plain", 0, plain, CHAT), .help = "lines instead of screens"},
    {ROW("color", 0, color, CHAT), .choices = "auto,never,16,256", .value = "auto|never|16|256",
     .help = "colours of the screen; auto: what the terminal has, none with NO_COLOR"},
    {ROW("background", 0, background, CHAT), .choices = "auto,dark,light",
     .value = "auto|dark|light", .help = "of the terminal; auto: it is asked"},
    {ROW("ascii", 0, ascii, CHAT), .help = "draw with ASCII characters only"},
    {ROW("reduced-motion", 0, reduced_motion, CHAT), .help = "nothing on the screen flashes"},
    {ROW("no-title", 0, no_title, CHAT), .help = "leave the window's title alone"},
    {ROW("alert", 0, alert, CHAT), .choices = "never,bell,osc9,osc777",
     .value = "never|bell|osc9|osc777",
     .help = "how an answer of over 10 s ends behind another window: bell, or a notification"},
    {ROW("progress", 0, progress, CHAT),
     .help = "show loading and reading in the window's frame (OSC 9;4), where terminals can"},
    {ROW("record", 0, record, CHAT), .cli_only = true, .value = "FILE",
     .help = "write down what the screen shows and what is typed; see retain replay"},
    {ROW("no-markdown", 0, no_markdown, CHAT),
     .help = "show answers as the model writes them, marks and all"},
    {ROW("system", 0, system, CHAT | GENERATE), .value = "TEXT",
     .help = "instructions for the model, before the first message"},
    {ROW("private", 0, private_mode, CHAT), .help = "save nothing"},
    {ROW("db", 0, db, STORE), .value = "FILE", .help = "where conversations are saved"},
    {ROW("encrypt", 0, encrypt, STORE), .help = "encrypt a new database with a passphrase"},
    {ROW("passphrase-file", 0, passphrase_file, STORE), .value = "FILE",
     .help = "read the passphrase from this file's first line"},
    {ROW("disk", 0, disk, CHAT), .max = 1e15, .value = "SIZE",
     .help = "keep at most this much saved cache; the text always stays"},
    {ROW("rewind", 0, rewind, CHAT), .max = 1e15, .value = "SIZE",
     .help = "evicted units kept on the disk for going back without reading again"},
    {ROW("markdown", 0, markdown, EXPORT), .cli_only = true, .help = "for people to read"},
    {ROW("with-cache", 0, with_cache, EXPORT), .cli_only = true, .value = "FILE",
     .help = "one file with text and saved cache"},
    {ROW("cache-only", 0, cache_only, DELETE), .cli_only = true,
     .help = "delete the saved cache, keep the text"},
    {ROW("tag", 0, tag, LIST), .cli_only = true, .value = "TAG", .help = "only those with this tag"},
    {ROW("remove", 0, remove, TAG), .cli_only = true, .help = "take the tags off"},
    {ROW("limit", 0, limit, FIND), .max = 1e9, .value = "N", .help = "most results; 0 = all"},

    {.name = "Text"},
    {ROW("prompt", 'p', prompt, TEXTS), .cli_only = true, .value = "TEXT",
     .help = "the text itself"},
    {ROW("file", 'f', file, TEXTS), .cli_only = true, .value = "FILE",
     .help = "a file with the text; - is standard input"},
    {ROW("raw", 0, raw, GENERATE), .cli_only = true,
     .help = "run the text as it is, without a chat template"},
    {ROW("ids", 0, ids, TOKENIZE), .cli_only = true, .help = "print token ids only, on one line"},
    {ROW("no-special", 0, no_special, TOKENIZE), .cli_only = true,
     .help = "add and recognise no special tokens"},

    {.name = "Model"},
    {ROW("model", 'm', model, MODEL), .value = "FILE",
     .help = "a GGUF file; `retain models default` chooses one for good"},
    {ROW("accept-model", 0, accept_model, MODEL), .cli_only = true,
     .help = "use a model file that changed since it was last seen"},
    {ROW("verify", 0, verify, MODEL), .choices = "full,sample,off", .value = "full|sample|off",
     .help = "read the whole model file and compare it with what is known of it; sample: only one "
             "that is new or looks changed; off: never"},
    {ROW("no-packed", 0, no_packed, MODEL),
     .help = "neither keep nor use a copy of the weights in the cache folder, from which the next "
             "start maps them"},
    {ROW("template", 0, template_name, CHAT | GENERATE | EVAL), .value = "NAME",
     .help = "the chat format, instead of the model file's own"},
    {ROW("weights", 0, weights, MODEL), .choices = "file,f32", .value = "file|f32",
     .help = "as stored, or expanded to float32: exact and slow"},
    {ROW("device", 0, device, MODEL), .value = "NAME", .help = "auto, cpu, cuda or cuda:N"},
    {ROW("threads", 0, threads, MODEL | QUANTIZE), .max = 1024, .value = "N",
     .help = "processor threads; 0 = all cores"},
    {ROW("isa", 0, isa, MODEL | QUANTIZE), .value = "NAME",
     .help = "instruction set: ref, avx2, avx512, neon, dotprod, i8mm; the best by default"},

    {.name = "Quantizing"},
    {ROW("type", 0, type, QUANTIZE), .choices = "q4,q8", .value = "q4|q8",
     .help = "int4 (Q4_0) or int8 (Q8_0)"},
    {ROW("calibrate", 0, calibrate, QUANTIZE), .cli_only = true, .value = "FILE",
     .help = "a text like those the model will see: what it uses most is rounded least"},
    {ROW("force", 0, force, QUANTIZE | HEADS), .cli_only = true, .help = "replace a file that is there"},

    {.name = "Retaining heads"},
    {ROW("data", 0, data, HEADS), .cli_only = true, .value = "FILE",
     .help = "what to learn from: a line per row, "
             "{\"document\": \"…\", \"question\": \"…\", \"answer\": \"…\"}; a document may be "
             "an array of messages, questions and answers arrays too"},
    {ROW("out", 0, out, HEADS), .cli_only = true, .value = "FILE", .help = "the file to write"},
    {ROW("labels", 0, labels, HEADS), .choices = "answer,repeat,both,logit", .value = "KIND",
     .help = "what a unit is worth: the share of attention that answers give it, or a repetition "
             "of the document, or one after the other; or Locret's logit of answers"},
    {ROW("steps", 0, steps, HEADS), .min = 1, .max = 1e7, .value = "N", .help = "training steps"},
    {ROW("batch", 0, batch, HEADS), .min = 1, .max = 1024, .value = "N", .help = "rows per step"},
    {ROW("rate", 0, rate, HEADS), .min = 0, .max = 1, .value = "X", .help = "learning rate"},
    {ROW("hidden", 0, hidden, HEADS), .min = 1, .max = 65536, .value = "N",
     .help = "width of the heads"},
    {ROW("smoothing", 0, smoothing, HEADS), .min = 0, .max = 100, .value = "X",
     .help = "how much neighbours' scores must agree"},

    {.name = "Memory"},
    {ROW("memory", 0, memory, MEMORY), .min = 1, .max = 1e15, .value = "SIZE",
     .help = "most bytes to use, as 6G or 512M; the budget is the largest that fits"},
    {ROW("budget", 0, budget, MEMORY), .value = "N",
     .help = "cache units per head; eval and bench take a list"},
    {ROW("policy", 0, policy, MEMORY), .value = "NAME",
     .help = "which units are kept when a head is full; eval takes a list"},
    {ROW("heads", 0, heads, MODEL), .value = "FILE",
     .help = "trained retaining heads; none = without"},
    {ROW("kv", 0, kv, MEMORY), .value = "FORMAT",
     .help = "cache format: q4, q8, f16, f32, or keys and values apart as q8:q4"},
    {ROW("chunk", 0, chunk, MEMORY), .max = 65536, .value = "N",
     .help = "tokens per prefill step; 0 = the default"},
    {ROW("allocator", 0, allocator, MEMORY), .choices = "uniform,pyramid,ada,ada-pyramid,global",
     .value = "NAME", .help = "how heads and layers share the budget, instead of the policy's way"},
    {ROW("window", 0, window, MEMORY), .max = 1 << 20, .value = "N",
     .help = "newest queries whose attention counts; 0 = all"},
    {ROW("pooling", 0, pooling, MEMORY), .max = 63, .value = "N",
     .help = "units next to a wanted one that are wanted as much: the width"},
    {ROW("stabilizers", 0, stabilizers, MEMORY), .max = 1 << 24, .value = "N",
     .help = "newest units that are always kept"},
    {ROW("sinks", 0, sinks, MEMORY), .max = 1 << 24, .value = "N",
     .help = "first units that are always kept"},
    {ROW("reserve", 0, reserve, MEMORY), .max = 1 << 24, .value = "N",
     .help = "units for an answer before eviction starts inside it"},
    {ROW("context", 0, context, MEMORY), .max = 4294967295.0, .value = "N",
     .help = "units for --policy full; 0 = the model's own"},

    {.name = "Sampling"},
    {ROW("temp", 0, sampling.temperature, SAMPLING), .max = 100, .value = "T",
     .help = "0 = always the most likely token"},
    {ROW("greedy", 0, greedy, SAMPLING), .help = "the same as --temp 0"},
    {ROW("top-k", 0, sampling.top_k, SAMPLING), .max = 1e6, .value = "N",
     .help = "keep the N most likely tokens; 0 = all"},
    {ROW("top-p", 0, sampling.top_p, SAMPLING), .max = 1, .value = "P",
     .help = "keep the likeliest tokens that add up to P; 1 = all"},
    {ROW("min-p", 0, sampling.min_p, SAMPLING), .max = 1, .value = "P",
     .help = "keep tokens at least P times as likely as the first; 0 = all"},
    {ROW("repeat-penalty", 0, sampling.repeat_penalty, SAMPLING), .min = 0.01, .max = 100,
     .value = "X", .help = "make tokens that were just used less likely; 1 = off"},
    {ROW("repeat-last", 0, sampling.repeat_last, SAMPLING), .max = SAMPLER_HISTORY, .value = "N",
     .help = "tokens that count as just used"},
    {ROW("seed", 0, sampling.seed, SAMPLING | EVAL | BENCH | HEADS), .value = "N",
     .help = "the same seed gives the same text"},
    {ROW("predict", 'n', n_predict, SAMPLING), .max = 1e9, .value = "N",
     .help = "most tokens per answer; 0 = until it ends"},
    {ROW("ignore-end", 0, ignore_end, SAMPLING), .help = "go on when the model ends its answer or goes in a circle"},

    {.name = "Measuring"},
    {ROW("length", 0, length, EVAL | HEADS), .value = "N,…", .help = "tokens of the tasks"},
    {ROW("seeds", 0, seeds, EVAL), .min = 1, .max = 10000, .value = "N",
     .help = "runs of each task, with other things in other places; 3 by default"},
    {ROW("compression", 0, compression, EVAL), .value = "N,…",
     .help = "budgets as a part of the length: 8 keeps an eighth"},
    {ROW("facts", 0, facts, EVAL), .min = 1, .max = 64, .value = "N",
     .help = "things to be remembered"},
    {ROW("depths", 0, depths, EVAL), .min = 1, .max = 1000, .value = "N",
     .help = "places of a single thing, from the beginning to the end; one row for each"},
    {ROW("wording", 0, wording, EVAL), .choices = "demo,papers", .value = "demo|papers",
     .help = "words that the demo model knows, or the papers' own"},
    {ROW("report", 0, report, EVAL), .cli_only = true, .max = 1e15, .value = "N",
     .help = "say speed and memory every N tokens"},
    {ROW("csv", 0, csv, EVAL), .cli_only = true, .help = "comma separated, for plots"},
    {ROW("depth", 0, depth, BENCH), .value = "N,…",
     .help = "tokens in the conversation before; random units with policy full"},
    {ROW("prefill", 0, prefill, BENCH), .min = 1, .max = 1e9, .value = "N",
     .help = "prompt tokens to time"},
    {ROW("decode", 0, decode, BENCH), .min = 1, .max = 1e9, .value = "N",
     .help = "generated tokens to time"},
    {ROW("repeat", 0, repeat, BENCH), .min = 1, .max = OPTIONS_REPEAT_MAX, .value = "N",
     .help = "runs of each measurement"},
    {ROW("vs", 0, vs, BENCH), .cli_only = true, .value = "CMD",
     .help = "run CMD in turns, $1 = the depth; it prints as llama-bench"},

    {.name = "Other"},
    {ROW("json", 0, json, JSON), .cli_only = true, .help = "one JSON object per line"},
    {ROW("safe", 0, safe, ALL), .cli_only = true,
     .help = "do not read the configuration file"},
    {ROW("print-config", 0, print_config, ALL), .cli_only = true,
     .help = "print the settings in force, as a configuration file"},
    {ROW("print-paths", 0, print_paths, ALL), .cli_only = true,
     .help = "print which files the program uses"},
    {ROW("help", 'h', help, ALL), .cli_only = true, .help = "this list"},
};
/* clang-format on */

#define N_OPTIONS (sizeof table / sizeof table[0])
_Static_assert(sizeof(struct options) <= USHRT_MAX, "offsets are kept in 16 bits");

void options_init(struct options *o)
{
    *o = (struct options){
        .color = "auto",
        .background = "auto",
        .alert = "bell",
        .device = "auto",
        .weights = "file",
        .verify = "sample",
        .stabilizers = -1,
        .sinks = -1,
        .reserve = -1,
        .window = -1,
        .pooling = -1,
        .rewind = 64 << 20,
        .smoothing = -1,
        .sampling = sampling_default(),
    };
    o->sampling.temperature = OPTIONS_TEMPERATURE_OF_MODEL;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Digits with at most one point, up to 15 from the first that is no zero: exact in a double. Not
 * strtod, which reads a comma for the point once the screens have set the person's locale. *end:
 * what follows. */
static bool decimal(const char *text, const char **end, double *out)
{
    double n = 0, scale = 1;
    int n_digits = 0, n_points = 0;
    bool any = false;
    for (; isdigit((unsigned char)*text) || (*text == '.' && n_points == 0); text++) {
        if (*text == '.') {
            n_points++;
            continue;
        }
        any = true;
        n = n * 10 + (*text - '0');
        if (n_points) scale *= 10;
        if (n > 0 && ++n_digits > 15) return false;
    }
    *end = text;
    *out = n / scale;
    return any;
}

/* As few digits as bring the same number back, for decimal(). */
static void print_decimal(struct str *out, float x)
{
    char text[64];
    for (int n = 0; n <= 54; n++) { /* the least float has its first digit at the 45th place */
        const char *end;
        double again;
        snprintf(text, sizeof text, "%.*f", n, (double)x);
        if (!decimal(text, &end, &again) || (float)again == x) break;
    }
    str_puts(out, text);
}

bool options_size(const char *text, int64_t *bytes)
{
    static const char units[] = "KMGT";
    const char *end;
    double n, unit = 1;
    if (!decimal(text, &end, &n)) return false;
    const char *u = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (u) {
        for (const char *p = units; p <= u; p++) unit *= 1024;
        end++;
        if (!strcmp(end, "iB")) end += 2;
    }
    if (*end || n * unit >= 9.2e18) return false;
    if (!u && strchr(text, '.')) return false; /* no half bytes */
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
    uint64_t n = 0;
    if (!*text) return false;
    for (; *text; text++) {
        if (!isdigit((unsigned char)*text)) return false;
        if (__builtin_mul_overflow(n, (uint64_t)10, &n)) return false;
        if (__builtin_add_overflow(n, (uint64_t)(*text - '0'), &n)) return false;
    }
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

static bool one_of(const char *list, const char *text)
{
    char item[32];
    for (int i = 0; options_list_item(list, i, item, sizeof item); i++)
        if (!strcmp(item, text)) return true;
    return false;
}

static int bad_number(const struct option *d, const char *text, const char *what, struct err *e)
{
    if (d->max > 0)
        return err_set(e, ERR_USAGE, "--%s %s: expected %s from %.15g to %.15g", d->name, text,
                       what, d->min, d->max);
    return err_set(e, ERR_USAGE, "--%s %s: expected %s, 0 or more", d->name, text, what);
}

static int set_number(const struct option *d, void *field, const char *text, struct err *e)
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
        if (!decimal(text, &end, &n) || *end || (whole_only && strchr(text, '.')))
            return bad_number(d, text, what, e);
    }
    if (n < d->min || (d->max > 0 && n > d->max)) return bad_number(d, text, what, e);
    if (d->kind == DECIMAL) *(float *)field = (float)n;
    if (d->kind == SIZE) *(int64_t *)field = bytes;
    if (d->kind == INT) *(int *)field = (int)n;
    return 0;
}

/* Greedy and temperature 0 say the same thing: whichever came last is right. */
static void settle_greedy(struct options *o, const struct option *d)
{
    if (d->offset == offsetof(struct options, sampling.temperature))
        o->greedy = !(o->sampling.temperature > 0);
    if (d->offset == offsetof(struct options, greedy)) {
        if (o->greedy)
            o->sampling.temperature = 0;
        else if (!(o->sampling.temperature > 0))
            o->sampling.temperature = OPTIONS_TEMPERATURE_OF_MODEL;
    }
}

/* `text` NULL: a flag that was named. */
static int set_value(struct options *o, const struct option *d, const char *text, struct err *e)
{
    void *field = (char *)o + d->offset;
    int rc = 0;
    switch (d->kind) {
    case FLAG:
        if (!text)
            *(bool *)field = true;
        else if (!truth(text, field))
            rc = err_set(e, ERR_USAGE, "--%s=%s: expected yes or no", d->name, text);
        break;
    case TEXT:
        if (d->choices && !one_of(d->choices, text))
            rc = err_set(e, ERR_USAGE, "--%s %s: expected one of %s", d->name, text, d->choices);
        else
            *(const char **)field = text;
        break;
    case SEED:
        if (!seed(text, field))
            rc = err_set(e, ERR_USAGE, "--%s %s: expected a whole number from 0 to %llu", d->name,
                         text, ~0ULL);
        break;
    default: rc = set_number(d, field, text, e);
    }
    if (rc == 0) settle_greedy(o, d);
    return rc;
}

/* ---- names ----------------------------------------------------------------------------------- */

static const struct option *find_name(const char *name, size_t n)
{
    for (const struct option *d = table; d < table + N_OPTIONS; d++)
        if (d->kind != HEADING && strlen(d->name) == n && !memcmp(d->name, name, n)) return d;
    return NULL;
}

static const struct option *find_letter(char letter)
{
    for (const struct option *d = table; d < table + N_OPTIONS; d++)
        if (d->kind != HEADING && d->letter && d->letter == letter) return d;
    return NULL;
}

/* NULL when nothing is near enough to be meant. */
static const struct option *nearest(unsigned groups, const char *name, size_t n)
{
    const struct option *best = NULL;
    int best_distance = n < 4 ? 2 : 3; /* one wrong letter, or two in a longer name */
    for (const struct option *d = table; d < table + N_OPTIONS; d++) {
        if (d->kind == HEADING || !(d->groups & groups)) continue;
        int k = edit_distance(name, n, d->name);
        size_t n_d = strlen(d->name);
        /* "--temperature" for --temp, "--threa" for --threads */
        if (n >= 3 && n_d >= 3 && !memcmp(name, d->name, n < n_d ? n : n_d) && k > 1) k = 1;
        if (k >= best_distance) continue;
        best = d;
        best_distance = k;
    }
    return best;
}

static int unknown(unsigned groups, const char *dashes, const char *name, size_t n, struct err *e)
{
    const struct option *d = nearest(groups, name, n);
    if (d)
        return err_set(e, ERR_USAGE, "unknown option %s%.*s; did you mean --%s?", dashes, (int)n,
                       name, d->name);
    return err_set(e, ERR_USAGE, "unknown option %s%.*s; --help lists all", dashes, (int)n, name);
}

static int not_taken(const struct option *d, struct err *e)
{
    struct str takers = {0};
    for (size_t i = 0; i < sizeof group_names / sizeof group_names[0]; i++)
        if (d->groups & group_names[i].group)
            str_printf(&takers, "%s%s", takers.n ? ", " : "", group_names[i].name);
    int rc = err_set(e, ERR_USAGE, "--%s does not apply to this command; it is for: %s", d->name,
                     str_get(&takers));
    str_release(&takers);
    return rc;
}

/* ---- command line ---------------------------------------------------------------------------- */

struct scan {
    unsigned groups;
    int argc, i; /* i: the argument being read */
    char *const *argv;
    bool given[N_OPTIONS]; /* table[i] was given */
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
        *d = find_name(name, n);
        if (!*d) return unknown(s->groups, "--", name, n, e);
        if (name[n] == '=') *value = name + n + 1;
        return 0;
    }
    if (a[2] && find_name(a + 1, strcspn(a + 1, "=")))
        return err_set(e, ERR_USAGE, "unknown option %s; did you mean -%s?", a, a);
    *d = find_letter(a[1]);
    if (!*d || (a[2] && (*d)->kind == FLAG))
        return unknown(s->groups, "-", a + 1, strlen(a + 1), e);
    if (a[2]) *value = a + 2; /* -n5 */
    return 0;
}

/* The value is the next argument, unless that is an option itself: "-m --json" forgot something. */
static const char *next_value(struct scan *s)
{
    if (s->i + 1 >= s->argc) return NULL;
    const char *next = s->argv[s->i + 1];
    if (next[0] == '-' && next[1] == '-' && find_name(next + 2, strcspn(next + 2, "=")))
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
    if (!(d->groups & s->groups)) return not_taken(d, e);
    if (!value && d->kind != FLAG) {
        value = next_value(s);
        if (!value)
            return err_set(e, ERR_USAGE, "--%s needs a value: --%s %s (%s)", d->name, d->name,
                           d->value, d->help);
    }
    s->given[d - table] = true;
    return set_value(o, d, value, e);
}

static bool given(const struct scan *s, const char *name)
{
    return s->given[find_name(name, strlen(name)) - table];
}

/* What can't be meant together. A default from the configuration file gives way silently. */
static int settle(struct options *o, const struct scan *s, struct err *e)
{
    static const char *const pairs[][2] = {{"new", "continue"},     {"conversation", "continue"},
                                           {"prompt", "file"},      {"private", "conversation"},
                                           {"private", "continue"}, {"private", "read-only"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (given(s, pairs[i][0]) && given(s, pairs[i][1]))
            return err_set(e, ERR_USAGE, "--%s and --%s can't both be meant; give one of them",
                           pairs[i][0], pairs[i][1]);
    if (given(s, "new") || given(s, "conversation")) o->continue_latest = false;
    if (given(s, "continue")) o->new_conversation = false;
    return 0;
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

/* What stands in quotes, where \", \\ and \n are what they are in C. NULL when they do not end, or
 * something but a comment follows. */
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

/* Takes a comment off, or the quotes; NULL when those are wrong. */
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

static int config_line(struct options *o, char *line, struct err *e)
{
    line = trim(line);
    if (!*line || *line == '#') return 0;
    char *value = strchr(line, '=');
    if (!value) return err_set(e, ERR_USAGE, "'%s': expected key = value", line);
    *value++ = 0;
    line = trim(line);
    const struct option *d = find_name(line, strlen(line));
    if (!d) {
        const struct option *near = nearest(~0U, line, strlen(line));
        return err_set(e, ERR_USAGE, "unknown key '%s'%s%s%s", line, near ? "; did you mean " : "",
                       near ? near->name : "", near ? "?" : "");
    }
    if (d->cli_only)
        return err_set(e, ERR_USAGE, "'%s' can be given on the command line only", line);
    value = bare_value(value);
    if (!value) return err_set(e, ERR_USAGE, "%s: expected one value in \"quotes\"", line);
    if (!*value && d->kind != TEXT) return err_set(e, ERR_USAGE, "%s: the value is missing", line);
    return set_value(o, d, value, e);
}

int options_parse_config(struct options *o, char *text, const char *file, struct err *e)
{
    if (!strncmp(text, "\xef\xbb\xbf", 3)) text += 3; /* a byte order mark, from some editors */
    for (int n_line = 1; text; n_line++) {
        char *line = text;
        text = strchr(line, '\n');
        if (text) *text++ = 0;
        struct err local;
        int rc = config_line(o, line, &local);
        if (rc) return err_set(e, rc, "%s:%d: %s", file, n_line, local.text);
    }
    return 0;
}

bool options_safe(int argc, char *const *argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "--safe")) return true;
    return false;
}

/* As bare_value reads it. What is not set is nothing, other than the empty text. */
static void print_text(struct str *out, const char *text)
{
    if (!text) return;
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

static void print_value(struct str *out, const struct option *d, const void *field)
{
    switch (d->kind) {
    case FLAG: str_puts(out, *(const bool *)field ? "yes" : "no"); break;
    case TEXT: print_text(out, *(const char *const *)field); break;
    case INT: str_printf(out, "%d", *(const int *)field); break;
    case SIZE: str_printf(out, "%lld", (long long)*(const int64_t *)field); break;
    case SEED: str_printf(out, "%llu", (unsigned long long)*(const uint64_t *)field); break;
    default: print_decimal(out, *(const float *)field);
    }
}

void options_print_config(const struct options *o, struct str *out)
{
    const struct option *heading = NULL;
    struct options fresh;
    options_init(&fresh);
    for (const struct option *d = table; d < table + N_OPTIONS; d++) {
        struct str now = {0}, before = {0};
        if (d->kind == HEADING) heading = d;
        if (d->cli_only || d->kind == HEADING) continue;
        if (heading) str_printf(out, "%s# %s\n", out->n ? "\n" : "", heading->name);
        heading = NULL;
        print_value(&now, d, (const char *)o + d->offset);
        print_value(&before, d, (const char *)&fresh + d->offset);
        bool same = !strcmp(str_get(&now), str_get(&before));
        /* What stands for "not set" is nothing that could be set: -1, 0 where 1 is the least. */
        bool unset = same && (now.n == 0 || *now.data == '-' || (d->min > 0 && *now.data == '0'));
        str_printf(out, "%s%s = %s\n", same ? "# " : "", d->name, unset ? "" : str_get(&now));
        str_release(&now);
        str_release(&before);
    }
}

bool options_row(size_t i, struct options_row *row)
{
    if (i >= N_OPTIONS) return false;
    const struct option *d = &table[i];
    *row = d->kind == HEADING ? (struct options_row){.heading = d->name}
                              : (struct options_row){NULL,       d->name, d->letter, d->value,
                                                     d->choices, d->help, d->groups};
    return true;
}

/* ---- one at a time --------------------------------------------------------------------------- */

static const struct option *find_in(unsigned groups, const char *name, struct err *e)
{
    const struct option *d = find_name(name, strlen(name));
    if (d && (d->groups & groups) && !d->cli_only) return d;
    const struct option *near = nearest(groups, name, strlen(name));
    if (near)
        err_set(e, ERR_USAGE, "no setting %s; did you mean %s?", name, near->name);
    else
        err_set(e, ERR_USAGE, "no setting %s", name);
    return NULL;
}

int options_set(struct options *o, unsigned groups, const char *name, const char *value,
                struct err *e)
{
    const struct option *d = find_in(groups, name, e);
    if (!d) return ERR_USAGE;
    if (!*value && d->kind != TEXT)
        return err_set(e, ERR_USAGE, "%s: the value is missing (%s)", name, d->help);
    return set_value(o, d, value, e);
}

int options_get(const struct options *o, unsigned groups, const char *name, struct str *out,
                struct err *e)
{
    const struct option *d = find_in(groups, name, e);
    if (!d) return ERR_USAGE;
    const void *field = (const char *)o + d->offset;
    const char *text;
    switch (d->kind) {
    case FLAG: str_puts(out, *(const bool *)field ? "yes" : "no"); break;
    case TEXT:
        memcpy(&text, field, sizeof text);
        str_puts(out, text ? text : "");
        break;
    case INT:
        if (*(const int *)field >= 0) str_printf(out, "%d", *(const int *)field);
        break;
    case SIZE:
        if ((double)*(const int64_t *)field >= d->min)
            str_printf(out, "%lld", (long long)*(const int64_t *)field);
        break;
    case SEED: str_printf(out, "%llu", (unsigned long long)*(const uint64_t *)field); break;
    case DECIMAL:
        if (*(const float *)field >= 0) print_decimal(out, *(const float *)field);
        break;
    default: break;
    }
    return 0;
}

void options_spell(const struct options *o, unsigned groups, struct str *out)
{
    struct option_fact f;
    struct str value = {0};
    struct err e;
    for (int i = 0; options_fact(groups, i, &f); i++) {
        str_clear(&value);
        if (options_get(o, groups, f.name, &value, &e) || value.n == 0) continue;
        if (strcmp(value.data, "no") == 0) continue;
        str_printf(out, "%s--%s", out->n ? " " : "", f.name);
        if (strcmp(value.data, "yes") != 0) str_printf(out, " %s", value.data);
    }
    str_release(&value);
}

bool options_fact(unsigned groups, int i, struct option_fact *out)
{
    for (const struct option *d = table; d < table + N_OPTIONS; d++) {
        if (d->kind == HEADING || d->cli_only || !(d->groups & groups) || i-- > 0) continue;
        *out = (struct option_fact){d->name, d->help, d->choices, d->groups};
        return true;
    }
    return false;
}

/* ---- help ------------------------------------------------------------------------------------ */

#define HELP_COLUMN 28 /* where explanations begin */
#define HELP_WIDTH  80

/* Columns of UTF-8 text without wide or combining characters, as the table has it. */
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
    if (column > HELP_COLUMN - 2) { /* no room beside it: the explanation begins below */
        str_puts(out, "\n");
        column = 0;
    }
    help_text(out, column, d->help);
}

void options_help(unsigned groups, struct str *out)
{
    const struct option *heading = NULL;
    for (const struct option *d = table; d < table + N_OPTIONS; d++) {
        if (d->kind == HEADING) heading = d;
        if (d->kind == HEADING || !(d->groups & groups)) continue;
        if (heading) str_printf(out, "%s:\n", heading->name);
        heading = NULL;
        help_option(out, d);
    }
}
