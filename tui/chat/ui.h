/* ui: the loop of the screen: the terminal, the worker's events, signals and the clock in; frames
 * and requests out. The main thread runs it, and all drawing happens there. */
#ifndef RETAIN_TUI_CHAT_UI_H
#define RETAIN_TUI_CHAT_UI_H

#include <stdbool.h>

struct options;
struct script;

/* The exit status in *status; false: this terminal cannot show a screen, nothing was done. A script
 * with steps types until the user presses a key; then nothing typed is remembered, and its
 * SCRIPT_KILL kills the process. */
bool ui_run(const struct options *o, const struct script *script, int *status);

#endif
