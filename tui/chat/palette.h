/* palette: a list of everything that can be done or chosen, filtered by typing: keys and commands
 * of the view below it, settings, conversations, models; or one kind of these; or the turns of the
 * conversation. */
#ifndef RETAIN_TUI_CHAT_PALETTE_H
#define RETAIN_TUI_CHAT_PALETTE_H

#include <stdbool.h>

#include "cli/control/keys.h"
#include "cli/control/slash.h"
#include "tui/text/edit.h"

struct app;

enum palette_kind { PALETTE_ALL, PALETTE_SETTINGS, PALETTE_MODELS, PALETTE_TURNS };

struct palette_item {
    enum { PALETTE_REQUEST, PALETTE_RUN, PALETTE_DRAFT, PALETTE_TURN } does;
    int request;    /* of PALETTE_REQUEST */
    int message;    /* of PALETTE_TURN */
    char line[160]; /* the command to run or to put into the draft */
    char name[64], key[40], text[200];
};

struct palette {
    enum palette_kind kind;
    enum view of; /* the view it lies on */
    struct edit filter;
    struct palette_item *items;
    int n;
    size_t cap;
    int *shown; /* [n_shown] items that pass the filter */
    int n_shown, selected, top, page;
    bool fresh; /* to be filled */
};

void palette_release(struct palette *p);
/* Opens the palette over the present view. */
void palette_open(struct app *a, enum palette_kind kind);
void palette_fill(struct app *a);
/* Filters again, after the filter has changed. */
void palette_filter(struct palette *p);
/* Closes it and does what the selected item says. */
void palette_choose(struct app *a);

/* The names that a typed command may be completed with (slash_complete). */
slash_names palette_name;

#endif
