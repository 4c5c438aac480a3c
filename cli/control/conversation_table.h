/* conversation_table: saved conversations as lines, for `retain list` and for /list in plain mode.
 */
#ifndef RETAIN_CLI_CONTROL_CONVERSATION_TABLE_H
#define RETAIN_CLI_CONTROL_CONVERSATION_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/save/conversations.h"

struct conversation_table {
    int64_t now_ms; /* ages are counted from here */
    int64_t n;      /* lines printed */
    bool aside;     /* to stderr, in a chat */
};

struct conversation_table conversation_table_begin(bool aside);

/* ctx: a conversation_table. A line for one conversation, after a heading before the first. */
int conversation_table_row(void *ctx, const struct conversations_entry *c);

/* Prints all conversations to stderr. */
int conversation_table_print(struct conversations *l, struct err *e);

#endif
