/* secret: gets the passphrase: from a file, from earlier input, or from the terminal. */
#ifndef RETAIN_CLI_CONTROL_SECRET_H
#define RETAIN_CLI_CONTROL_SECRET_H

#include <stdbool.h>

#include "base/err.h"

struct conversations;
struct options;

/* Opens the conversations at `path` (NULL = private). Asks for a passphrase if the file is
 * encrypted or will be. Not while a screen has the terminal: see secret_prepare. */
int secret_open_library(struct conversations **out, const struct options *o, const char *path,
                        struct err *e);

/* The same for reading only: a missing file is an empty list, and is not created. */
int secret_open_reading(struct conversations **out, const struct options *o, const char *path,
                        struct err *e);

/* Whether the talk leaves no text on a disk: it is private, or the conversations are encrypted. */
bool secret_talk(const struct options *o, const struct conversations *l);

/* Call before a screen is opened: asks now if a passphrase will be needed, and sets
 * o->store.passphrase. The caller ends with secret_wipe. */
int secret_prepare(struct options *o, struct err *e);
void secret_wipe(struct options *o);

#endif
