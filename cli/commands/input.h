/* input: the text that several commands read. */
#ifndef RETAIN_CLI_COMMANDS_INPUT_H
#define RETAIN_CLI_COMMANDS_INPUT_H

#include "base/err.h"
#include "base/str.h"

struct options;

/* The text of -p or -f; ERR_USAGE when neither is given. */
int input_text(const struct options *o, struct str *out, struct err *e);

/* Everything that a prompt is about: standard input, if a pipe or a file is connected or nothing
 * else is given, then each -f FILE, preceded by its name if there are several texts. */
int input_document(const struct options *o, struct str *out, struct err *e);

#endif
