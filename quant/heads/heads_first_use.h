/* heads_first_use: retaining heads whose scores do not compare, at their first use in a chat: they
 * are calibrated once (heads_calibrate) with the program's own manual page, so that policy keeper
 * runs. The calibrated copy is $XDG_STATE_HOME/retain/heads/DIGEST.gguf, with the digest of the
 * heads' file; later chats take it. */
#ifndef RETAIN_QUANT_HEADS_HEADS_FIRST_USE_H
#define RETAIN_QUANT_HEADS_HEADS_FIRST_USE_H

#include "base/str.h"

struct options;

/* Replaces the heads of o by such a copy, whose path is kept in `path`: where the heads are a file,
 * their scores do not compare, and the policy is keeper or not chosen. manual: appends the manual
 * page. A failure or Ctrl-C is a notice, and the heads are used as they are. */
void heads_first_use(struct options *o, void (*manual)(struct str *out), struct str *path);

#endif
