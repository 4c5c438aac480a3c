/* map_film: the map of a saved conversation as a recording: how the picture came about, eviction by
 * eviction, then the waterfall. Opens the conversation for reading only, with its model, which
 * reads nothing. */
#ifndef RETAIN_TUI_CHAT_MAP_FILM_H
#define RETAIN_TUI_CHAT_MAP_FILM_H

#include "base/err.h"

struct options;
struct record;

/* ERR_FAIL: there is no such conversation, or it has no saved cache. */
int map_film(const struct options *o, const char *name, int w, int h, struct record *r,
             struct err *e);

#endif
