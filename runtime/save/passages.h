/* passages: finds sentences of other conversations about a message; the session reads them as a
 * turn before it.
 *
 * The cache units of another conversation could return, too; a measurement found that text answers
 * as many questions and works with any model, format and device (quant/eval/notes/recall.md). Only
 * sentences that the user said are taken, no questions, and no passage read before. Words are
 * weighed as by recall_words.c: rarity, cubed. */
#ifndef RETAIN_RUNTIME_SAVE_PASSAGES_H
#define RETAIN_RUNTIME_SAVE_PASSAGES_H

#include "base/err.h"
#include "base/str.h"

struct conversations;

#define PASSAGES_MAX 3 /* sentences for one message */

/* What the model is made to answer to them. */
#define PASSAGES_ANSWER "Noted."

/* Whether `from`, "NAME,NAME,…" or "all", can be searched: ERR_USAGE if nothing is saved or the
 * database is encrypted and has no index of words, ERR_FAIL if a conversation does not exist. */
int passages_check(struct conversations *l, const char *from, struct err *e);

/* Appends `From "NAME": sentences` for the message [n] to `out`, in the order in which they
 * were said; nothing if no sentence has a third of the weight of the message's words. own: the
 * conversation that the message is in; what it contains already is left out. */
int passages_find(struct conversations *l, const char *from, const char *own, const char *message,
                  size_t n, struct str *out, struct err *e);

#endif
