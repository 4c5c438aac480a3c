/* options_parts: the kinds of options, and how their values are read. For options_*.c only. */
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

extern const struct option options_table[];
extern const size_t options_table_n;

/* Reads a value of a layer, and checks one that a later layer has set already; NULL: a flag that
 * was given. ERR_USAGE names the expected values. */
int option_read(struct options *o, enum options_layer layer, const struct option *d,
                const char *text, struct err *e);
/* Appends the value in the form of option_read; nothing when it is not set. */
void option_print(const struct options *o, const struct option *d, struct str *out);

const struct option *option_named(const char *name, size_t n);
#endif
