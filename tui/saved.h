/* saved: the commands on saved conversations (list, show, search, export, …), and the table that
 * /list prints without a screen. */
#ifndef RETAIN_TUI_SAVED_H
#define RETAIN_TUI_SAVED_H

#include <stdio.h>

#include "runtime/base/err.h"

struct library;

int saved_print(struct library *l, FILE *out, struct err *e);

#endif
