/* svg: the last frame of a recording (record.h) as a picture. Understands the sequences that a
 * recording has. Blocks become lines as high as a cell, so that they have no gaps. */
#ifndef RETAIN_TUI_TERM_SVG_H
#define RETAIN_TUI_TERM_SVG_H

#include <stdbool.h>

#include "base/str.h"

struct svg;

/* light: text without a colour is dark on light. */
struct svg *svg_new(int w, int h, bool light);
void svg_free(struct svg *s);

/* The text of an "o" line, and the size in an "r" line. */
void svg_feed(struct svg *s, const char *text);
void svg_resize(struct svg *s, int w, int h);

void svg_write(const struct svg *s, struct str *out);

#endif
