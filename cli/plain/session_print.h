/* session_print: /map, /tint, /turns and /stats as lines of text, for a chat without a screen. They
 * go to stderr. */
#ifndef RETAIN_CLI_CONTROL_SESSION_PRINT_H
#define RETAIN_CLI_CONTROL_SESSION_PRINT_H

#include "runtime/session/session.h"

struct conversations;

/* The newest retention snapshot by tokens and layers, and the shares kept earlier, in words. */
void session_print_map(const struct session *s);

/* Every line of the conversation, with the share of its units that is still in the cache. */
int session_print_tint(struct conversations *l, const char *name, const struct session *s,
                       struct err *e);

/* A line for every turn: the share of its units that is still in the cache, and the first line of
 * its message. */
int session_print_turns(struct conversations *l, const char *name, const struct session *s,
                        struct err *e);

void session_print_stats(const struct session *s);

#endif
