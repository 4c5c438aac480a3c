/* edit: the draft. A pure module: no terminal, no clock.
 *
 * Every change is a replacement of a range, so undo is a list of ranges, and screen lines are
 * broken again only where the text changed: a megabyte is edited as fast as a word. Positions are
 * bytes and always between characters (combining marks stay with their base). A long paste is shown
 * in the text as a short label, its fold, until it is unfolded or sent. */
#ifndef RETAIN_TUI_TEXT_EDIT_H
#define RETAIN_TUI_TEXT_EDIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

enum edit_move {
    EDIT_LEFT,
    EDIT_RIGHT,
    EDIT_WORD_LEFT,
    EDIT_WORD_RIGHT,
    EDIT_LINE_START,
    EDIT_LINE_END,
    EDIT_START,
    EDIT_END,
    EDIT_UP, /* by screen lines */
    EDIT_DOWN,
};

struct edit_change {
    size_t at, n_new; /* the new range */
    char *old;        /* the old bytes */
    size_t n_old;
    size_t cursor; /* before the change */
    bool typed;    /* single characters: later ones join it */
};

struct edit_changes {
    struct edit_change *rows;
    int n;
    size_t cap;
};

/* "[paste 1: 10,000 lines, 412 KiB]" in the text, and the text that it represents. */
struct edit_fold {
    struct str label, text;
};

/* Beginnings of screen lines for a width of `width` columns; 0 = not computed. */
struct edit_wrap {
    size_t *starts;
    int n, width;
    size_t cap;
};

struct edit {
    struct str text; /* with labels of folds */
    struct edit_fold *folds;
    int n_folds;
    struct edit_wrap wrap;
    size_t cursor;
    int width;       /* columns of the input field, for EDIT_UP and EDIT_DOWN */
    int goal_column; /* -1, or the column that up and down aim for */
    struct str killed;
    struct edit_changes undo, redo;
};

void edit_init(struct edit *e);
void edit_release(struct edit *e);

/* Replaces the whole text, forgets undo, cursor at the end. A huge text becomes a fold. */
void edit_set(struct edit *e, const char *text, size_t n);

/* CRLF and CR become LF, NUL is dropped; all other bytes are kept, and sanitised when drawn. */
void edit_insert(struct edit *e, const char *bytes, size_t n);

/* The same, but a long text becomes a fold. */
void edit_paste(struct edit *e, const char *bytes, size_t n);
/* Unfolds the fold at (or before) the cursor; false: there is none. */
bool edit_unfold(struct edit *e);
/* Appends the text with every fold unfolded: for sending, saving and other editors. */
void edit_full(const struct edit *e, struct str *out);

bool edit_move(struct edit *e, enum edit_move move); /* false: the cursor cannot move there */
/* erases from the cursor to where `to` leads */
void edit_erase(struct edit *e, enum edit_move to);
void edit_kill(struct edit *e, enum edit_move to); /* the same, kept for edit_yank */
void edit_yank(struct edit *e);
bool edit_undo(struct edit *e);
bool edit_redo(struct edit *e);

/* Screen lines of the text in `width` columns, the line and column of the cursor. */
int edit_lines(struct edit *e, int width, int *cursor_line, int *cursor_column);
/* First byte of a line that edit_lines counted. */
size_t edit_line_start(const struct edit *e, int line);

#endif
