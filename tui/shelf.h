/* shelf: what the screen asks of the library, carried out: lists, searches, renaming, deleting. */
#ifndef RETAIN_TUI_SHELF_H
#define RETAIN_TUI_SHELF_H

#include <stdbool.h>

#include "tui/app.h"

/* false: the act is not one for the library. l NULL: nothing is saved. */
bool shelf_act(struct app *a, struct library *l, const struct act_row *row);

void shelf_list(struct app *a, struct library *l); /* fills app.list */

#endif
