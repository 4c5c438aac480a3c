/* script: keys that type themselves, for `retain demo`. It knows the app alone: no terminal, no
 * clock. */
#ifndef RETAIN_TUI_CHAT_SCRIPT_H
#define RETAIN_TUI_CHAT_SCRIPT_H

#include <stddef.h>
#include <stdint.h>

#include "tui/chat/app.h"

enum script_kind {
    SCRIPT_SAY,  /* types the text and Enter, then waits for the whole answer */
    SCRIPT_KEY,  /* presses `key`, `ms` after the last step */
    SCRIPT_KILL, /* `ms` after an answer began: the program is to be killed */
    SCRIPT_END,
};

struct script_step {
    enum script_kind kind;
    const char *text;
    uint32_t key;
    int ms;
};

/* Zero-initialise but for `steps` and `hurry`; steps NULL: nothing is played. */
struct script {
    const struct script_step *steps; /* ends with SCRIPT_END */
    int at;
    size_t typed;   /* bytes of the step's text */
    int hurry;      /* pauses are divided by it */
    int64_t due_ms; /* when the next key is pressed; 0 = the step has not begun */
};

enum script_state { SCRIPT_OVER, SCRIPT_PLAYS, SCRIPT_KILLS };

/* Presses the keys that are due at a->now_ms. SCRIPT_KILLS: kill the program now. */
enum script_state script_run(struct script *s, struct app *a);

/* Milliseconds until script_run has something to do unless an event comes first; -1 = only then. */
int script_wait(const struct script *s, const struct app *a);

/* The user pressed a key: nothing more is played. */
void script_stop(struct script *s);

#endif
