/* ui_parts: the loop of the screen: the terminal, the worker's events, signals and the clock in;
 * frames and requests out. The main thread runs it, and all drawing happens there. */
#ifndef RETAIN_TUI_CHAT_UI_PARTS_H
#define RETAIN_TUI_CHAT_UI_PARTS_H

#include "tui/chat/app.h"
#include "tui/chat/desktop.h"
#include "tui/text/draft.h"
#include "tui/chat/script.h"
#include "tui/term/screen.h"

struct ui {
    const struct options *o;
    struct screen screen;
    struct desktop desktop;
    struct app app;
    struct grid grid;
    struct worker *worker;
    struct worker_box box;
    struct sensors *sensors;
    struct script script;
    struct draft draft;
    struct str draft_folder; /* "" = private */
    bool draft_dirty, draft_open;
    int64_t draft_ms;              /* when it was saved */
    struct conversations *library; /* used by this thread: for lists and transcripts */
    bool dirty, key_dirty, gone, hung_up;
    int64_t frame_ms, input_ms, leave_ms;
    int status;
    struct err error; /* why the screen ended, code 0 = normally */
};

/* The exit status in *status; false: this terminal cannot show a screen, nothing was done. A script
 * with steps types until the user presses a key; then nothing typed is remembered, and its
 * SCRIPT_KILL kills the process. */
bool ui_run(const struct options *o, const struct script *script, int *status);

/* ---- for ui*.c ---- */

/* Carries out the app's acts. */
void ui_act_all(struct ui *u);

/* Ends the worker; the loop ends when the worker has closed everything. A second call after some
 * time does not wait. */
void ui_leave(struct ui *u, int status);

void ui_save_draft(struct ui *u);
/* Call around opening another conversation: each conversation keeps its draft and queue. */
void ui_open_draft(struct ui *u);
void ui_close_draft(struct ui *u);
void ui_show_log(struct ui *u);
void ui_suspend(struct ui *u);

#endif
