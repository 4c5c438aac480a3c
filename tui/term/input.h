/* input: bytes from the terminal to keys. A pure module: the caller feeds bytes and takes keys.
 *
 * It knows xterm's sequences (and so those of all compatible terminals); others are added from
 * terminfo. A paste (mode 2004) is one event, and ESC inside it is data. Unknown sequences are
 * dropped, so that a terminal's late reply is never typed into a message. Three or more equal
 * arrows up or down at once are a wheel: most terminals send these when the mouse is not captured
 * (mode 1007). */
#ifndef RETAIN_TUI_TERM_INPUT_H
#define RETAIN_TUI_TERM_INPUT_H

#include <stdbool.h>

#include "base/str.h"
#include "cli/control/keys.h"

enum { INPUT_EXTRA_MAX = 32 };

struct input {
    struct str bytes; /* bytes read and not yet decoded */
    size_t at;
    struct str paste;
    bool in_paste;
    char text[64]; /* of a terminal's reply */
    int n_wheel;   /* arrows still to come from the wheel */
    struct {
        char sequence[16];
        uint32_t key;
    } extra[INPUT_EXTRA_MAX];
    int n_extra;
};

void input_release(struct input *in);
void input_add(struct input *in, const char *sequence, uint32_t key); /* from terminfo */
void input_feed(struct input *in, const char *bytes, size_t n);

/* The next key; false when more bytes are needed. `late`: no byte arrived for a while, so a single
 * ESC is the key, and an unfinished sequence is dropped. */
bool input_next(struct input *in, bool late, struct key_event *ev);

/* More bytes are needed: ask again soon with late = true. */
bool input_waiting(const struct input *in);

/* A paste began and its end did not arrive in time: what arrived is the paste. */
void input_end_paste(struct input *in);

#endif
