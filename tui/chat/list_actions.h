/* list_actions: lists, searches and the commands on saved conversations, on the screen's thread. */
#ifndef RETAIN_TUI_CHAT_LIST_ACTIONS_H
#define RETAIN_TUI_CHAT_LIST_ACTIONS_H

#include <stdbool.h>

#include "tui/chat/app.h"

/* false: the act is not handled here. l NULL: private mode. */
bool list_act(struct app *a, struct conversations *l, const struct act_row *row);

void list_fill(struct app *a, struct conversations *l); /* fills app.list */

#endif
