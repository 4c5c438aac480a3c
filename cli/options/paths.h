/* paths: the files and folders of the program, by XDG. */
#ifndef RETAIN_CLI_OPTIONS_PATHS_H
#define RETAIN_CLI_OPTIONS_PATHS_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct options;

/* The database: o->store.db, or $XDG_DATA_HOME/retain/retain.db; opening it creates its folders. */
int path_database(const struct options *o, struct str *out, struct err *e);

enum path_folder { PATH_CONFIG, PATH_DATA, PATH_STATE, PATH_CACHE };

/* $XDG_CONFIG_HOME/retain/NAME and so on: "config"; the data's "models" of `retain pull`; the
 * state's "history" and "heads"; the cache's "packed". path_make creates its folders. */
int path_find(enum path_folder folder, const char *name, struct str *out, struct err *e);
int path_make(enum path_folder folder, const char *name, struct str *out, struct err *e);

/* Calls back with each file below `folder`, as deep as `retain pull` places models. */
void path_walk(const char *folder, void (*each)(void *ctx, const char *path, int64_t size),
               void *ctx);

/* Prints all of them, one per line; creates no folder. */
void paths_print(const struct options *o);

#endif
