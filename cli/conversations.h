/* conversations: the commands on saved conversations (list, show, search, export, …), and the table
 * that /list prints without a screen. */
#ifndef RETAIN_CLI_CONVERSATIONS_H
#define RETAIN_CLI_CONVERSATIONS_H

#include "base/err.h"

struct conversations;

/* Prints to stderr. */
int conversations_print(struct conversations *l, struct err *e);

#endif
