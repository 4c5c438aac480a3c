/* paths: the files and folders of the program, by XDG. */
#ifndef RETAIN_CLI_OPTIONS_PATHS_H
#define RETAIN_CLI_OPTIONS_PATHS_H

#include "base/err.h"
#include "base/str.h"

struct options;

/* The database: o->store.db, or $XDG_DATA_HOME/retain/retain.db; opening it creates its folders. */
int path_database(const struct options *o, struct str *out, struct err *e);

/* $XDG_CONFIG_HOME/retain/config; creates its folder. */
int path_config(struct str *out, struct err *e);
/* The same; no folder is made. */
int path_config_find(struct str *out, struct err *e);

/* $XDG_CONFIG_HOME/retain/models/NAME.conf; makes no folder. */
int path_model_settings(const char *name, struct str *out, struct err *e);

/* $XDG_STATE_HOME/retain/NAME, for example "history"; creates its folders. */
int path_state(const char *name, struct str *out, struct err *e);
/* The same; no folder is made. */
int path_state_find(const char *name, struct str *out, struct err *e);

/* The folder $XDG_CACHE_HOME/retain/packed, which is not created. */
int path_packed(struct str *out, struct err *e);

/* The folder $XDG_DATA_HOME/retain/models of `retain pull`, which is not created. */
int path_models(struct str *out, struct err *e);

/* Makes the folders of a path, up to its last slash. */
int path_make_folders(char *path, struct err *e);

/* Prints all of them, one per line; creates no folder. */
void paths_print(const struct options *o);

#endif
