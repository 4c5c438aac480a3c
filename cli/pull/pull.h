/* pull: downloads models into the folder of models (cli/options/paths.h), as
 * OWNER/REPO/FILE or HOST/FILE.
 *
 * The order of a pull: the list of the repository, the choice of a file, the first bytes of the
 * model, the plan, the room on the disk, then the rest. HF_ENDPOINT is another hub's address,
 * HF_TOKEN the token for gated repositories. */
#ifndef RETAIN_CLI_PULL_PULL_H
#define RETAIN_CLI_PULL_PULL_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

struct options;

/* Downloads the address's files, unless they are there, and appends the path of the first to *path;
 * *fresh: they were downloaded now. Prints the plan and the progress to stderr. ask: agree to the
 * download on a terminal first. ERR_FIT when the model would not fit into memory and --force is not
 * given. */
int pull_get(const struct options *o, const char *address, bool ask, struct str *path, bool *fresh,
             struct err *e);

/* The file of an address that was pulled before; without any contact. false: it is not there, and
 * *path is empty. */
bool pull_find(const char *address, struct str *path);

/* Replaces an address in *model by the path of its file, which `path` keeps; pulls it if it is not
 * there. Does nothing to NULL and to a path. */
int pull_model(const struct options *o, const char **model, struct str *path, struct err *e);

#endif
