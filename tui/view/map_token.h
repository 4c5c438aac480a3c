/* map_token: the token under the map's cursor, and the text around it. */
#ifndef RETAIN_TUI_VIEW_MAP_TOKEN_H
#define RETAIN_TUI_VIEW_MAP_TOKEN_H

#include "tui/chat/app.h"
#include "tui/chat/picture.h"

enum { MAP_LABEL = 7 }; /* columns left of the picture */

/* The cursor's layer, counted in layers with units; the nearest before it, if it has none. */
int map_kv_layer(const struct app *a, const struct retention *r);

/* The token, and how many heads hold it. */
void map_draw_token(struct app *a, struct pane p);
/* "turn 3 llm, tokens 57-58", and a mark at the cursor's cell. */
void map_draw_lens_rule(struct app *a, struct pane p, const struct picture *pic);
/* The lines of text around the cursor, with the tokens of its cell highlighted. */
void map_draw_lens(struct app *a, struct pane p, const struct picture *pic);

#endif
