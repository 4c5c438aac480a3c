/* conversation_table: saved conversations as lines, for `retain list` and for /list in plain mode,
 * and the Markdown of one. */
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

/* The messages of a conversation, without thoughts. An answer in parts (stopped, then continued) is
 * one message. */
int conversation_text(struct conversations *l, const char *name, struct str *out, struct err *e);
/* Begins another message. */
void conversation_heading(struct str *out, enum chat_role role, const char *mark);

#endif
