/* welcome: the empty screen of a new conversation. With the demo model it says what that is, and
 * keys 1 to 3 write a message that shows what it can do. */
#ifndef RETAIN_TUI_VIEW_WELCOME_H
#define RETAIN_TUI_VIEW_WELCOME_H

#include <stdbool.h>

#include "tui/chat/app.h"

/* x: the column of the text. */
void welcome_draw(const struct app *a, struct pane p, int x);

/* True when the key wrote one of the messages; Enter sends it. A character after it begins the
 * user's own message: a letter without the digit, anything else behind it ("2 plus 2"). */
bool welcome_key(struct app *a, const struct key_event *ev);

#endif
