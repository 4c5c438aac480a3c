/* options_parts: a row of the table of options. For options_*.c only. */
#ifndef RETAIN_CLI_OPTIONS_OPTIONS_PARTS_H
#define RETAIN_CLI_OPTIONS_OPTIONS_PARTS_H

#include "cli/options/options.h"

enum option_kind {
    HEADING,
    FLAG,
    TEXT,
    INT,
    SIZE,
    SEED,
    DECIMAL,
    CHOICE, /* an enum whose values are numbered as `choices` lists them */
    DEVICE,
    HEADS_FILE,
    POLICIES,
    FORMATS,
    RECALLS,
    SPECULATE,
    NUMBERS,
    FILES, /* may be given several times */
};

struct option {
    const char *name; /* without "--"; a HEADING's title */
    char letter;      /* 0 = none */
    unsigned char kind;
    bool cli_only; /* an action, not a setting: not allowed in the configuration file */
    bool kept;     /* a conversation keeps the value that was given for it */
    bool display; /* set in the configuration file; as an option of the chat accepted until 0.3.0 */
    bool rare;    /* not in chat --help; the manual page has it */
    unsigned short offset, size;
    unsigned groups;
    double min, max;     /* numbers; both 0 = any that is not negative */
    const char *choices; /* TEXT, CHOICE: comma separated; NULL = any */
    const char *value;   /* placeholder of the value in --help */
    const char *help;
};

extern const struct option options_table[];
extern const size_t options_table_n;

/* Reads a value of a layer, and checks one that a later layer has set already; NULL: a flag that
 * was given. ERR_USAGE names the expected values. */
int option_read(struct options *o, enum options_layer layer, const struct option *d,
                const char *text, struct err *e);
/* Appends the value in the form of option_read; nothing when it is not set. */
void option_print(const struct options *o, const struct option *d, struct str *out);

const struct option *option_named(const char *name, size_t n);
/* As option_named, but only for settings; the error names the most similar one. */
const struct option *option_setting(unsigned groups, const char *name, struct err *e);

#endif
