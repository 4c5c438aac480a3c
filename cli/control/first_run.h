/* first_run: the first chat with a model proposes a budget and keeps it for the model's later
 * chats.
 *
 * The proposal is the plan's default, up to 8,192 units per head, or more where that costs little:
 * the largest of 16,384 and 32,768 that fits into memory and whose cache is at most a fifth of the
 * weights, because every token reads both. */
#ifndef RETAIN_CLI_CONTROL_FIRST_RUN_H
#define RETAIN_CLI_CONTROL_FIRST_RUN_H

#include "base/str.h"

struct engine;
struct options;

/* Sets the budget in *o, writes the model's settings (cli/options/model_settings.h) and appends a
 * sentence to *note. Does nothing for the demo, for a model that has settings, in private mode, and
 * if the user set budget or memory. */
void first_run(struct options *o, struct engine *g, struct str *note);

#endif
