/* picture: which units a conversation has kept, as an SVG: one row for each layer and KV head, time
 * from left to right, the darker the more of a place's units are kept. */
#ifndef RETAIN_QUANT_EVAL_PICTURE_H
#define RETAIN_QUANT_EVAL_PICTURE_H

#include "base/err.h"

struct session;

/* Writes or replaces the file. `title`: a line above the picture. */
int picture_write(const char *path, const struct session *s, const char *title, struct err *e);

#endif
