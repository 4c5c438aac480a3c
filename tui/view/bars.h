/* bars: lines shared by several views. Each function draws row y of a pane. */
#ifndef RETAIN_TUI_VIEW_BARS_H
#define RETAIN_TUI_VIEW_BARS_H

#include "tui/term/grid.h"

struct app;
struct edit;

void bar_title(struct app *a, struct pane p, int y);
void bar_status(struct app *a, struct pane p, int y, int rows_below);
/* ribbon.c: "memory ███ 64 of 253 kept  budget 64"; rows 2: turns and the budget below it */
void bar_ribbon(struct app *a, struct pane p, int y, int rows);
void bar_memory(struct app *a, struct pane p, int y); /* "memory […] 6.4 MiB of …" */
void bar_event(struct app *a, struct pane p, int y);
void bar_hints(struct app *a, struct pane p, int y); /* from the key table */
void bar_rule(struct pane p, int y, const char *label);
void pane_separator(struct pane p, int x, int y, int h); /* a vertical line */

void bar_sensors(struct app *a, struct pane p, int y); /* load, temperature, power, evictions */

/* A ramp cell, and one with two levels, upper and lower; -1 = nothing. */
void pane_ramp(struct pane p, int x, int y, int level);
void pane_half(struct pane p, int x, int y, int up, int down);
/* Text from outside on one line, with an ellipsis where the pane ends; returns the column
 * after it. */
int pane_clean(const struct app *a, struct pane p, int x, int y, enum attr attr, const char *text);
/* The same, cut at the end of a word if it does not fit. */
int pane_words(const struct app *a, struct pane p, int x, int y, enum attr attr, const char *text);
/* A label and an input field, with the cursor in it; returns the column where the field begins. */
int bar_field(struct app *a, struct pane p, int y, const char *label, struct edit *field);
/* " # all = most : some . few   gone ", and what came back; without blanks after the signs if
 * there is no room for them. Returns the column after it. */
int bar_legend(const struct app *a, struct pane p, int x, int y);
int bar_legend_columns(const struct app *a); /* with a blank on each side */

#endif
