/* svg: a recording (record.h) as a picture: of its last frame, or of all frames in time (SMIL, as
 * browsers play it in a page's image). Understands the sequences that a recording has. Blocks
 * become lines as high as a cell, so that they have no gaps. */
#ifndef RETAIN_TUI_TERM_SVG_H
#define RETAIN_TUI_TERM_SVG_H

#include <stdbool.h>

#include "base/str.h"

struct svg;

/* moving: keeps all frames. light: text without a colour is dark on light. */
struct svg *svg_new(int w, int h, bool light, bool moving);
void svg_free(struct svg *s);

/* The text of an "o" line, and the size in an "r" line. */
void svg_feed(struct svg *s, double at_s, const char *text);
void svg_resize(struct svg *s, double at_s, int w, int h);

/* The picture; a moving one begins again after its last frame was shown for two seconds. */
void svg_write(struct svg *s, struct str *out);

#endif
