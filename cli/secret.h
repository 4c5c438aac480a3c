/* secret: where a passphrase comes from: a file, what was typed before, or the terminal. */
#ifndef RETAIN_CLI_SECRET_H
#define RETAIN_CLI_SECRET_H

#include "base/err.h"

struct conversations;
struct options;

/* Opens the library at `path` (NULL = private), asking for a passphrase when it is encrypted or
 * shall be. Not while curses has the terminal: see secret_prepare. */
int secret_open_library(struct conversations **out, const struct options *o, const char *path,
                        struct err *e);

/* The same for what only reads: a file that is not there is an empty library, and is not made. */
int secret_open_reading(struct conversations **out, const struct options *o, const char *path,
                        struct err *e);

/* Before a screen is opened: asks now if anything will, and sets o->store.passphrase. The caller
 * ends with secret_wipe. */
int secret_prepare(struct options *o, struct err *e);
void secret_wipe(struct options *o);

#endif
