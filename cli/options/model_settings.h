/* model_settings: a configuration file for one model,
 * $XDG_CONFIG_HOME/retain/models/FILE-XXXXXXXX.conf.
 *
 * The first chat with a model writes its budget there (cli/control/first_run.c); chat, generate and
 * plan read it after the configuration file and before the command line. The number in its name is
 * a digest of the model's path, because many models are called model.gguf. */
#ifndef RETAIN_CLI_OPTIONS_MODEL_SETTINGS_H
#define RETAIN_CLI_OPTIONS_MODEL_SETTINGS_H

#include "base/err.h"
#include "base/str.h"

/* The path of the model's file, which need not exist; makes no folder. */
int model_settings_path(const char *model, struct str *out, struct err *e);

/* Writes the file, with a line that names the model; `text`: lines "key = value". */
int model_settings_write(const char *model, const char *text, struct err *e);

/* The settings of the file; budget 0, heads NULL (else allocated): not set there. */
void model_settings_read(const char *model, int *budget, char **heads);

#endif
