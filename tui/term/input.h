/* input: bytes from the terminal to keys. A pure module: fed bytes, asked for keys.
 *
 * It knows xterm's sequences (and all terminals that follow them), and is told others from
 * terminfo. A paste (mode 2004) is one event, ESC inside it is data. Sequences nobody knows are
 * eaten, so that a terminal's late reply is never typed into a message. Three and more equal arrows
 * up or down that come at once are a wheel: most terminals send them for it where the mouse is left
 * alone (mode 1007). */
#ifndef RETAIN_TUI_TERM_INPUT_H
#define RETAIN_TUI_TERM_INPUT_H

#include <stdbool.h>

#include "base/str.h"
#include "cli/keys.h"

enum { INPUT_EXTRA_MAX = 32 };

struct input {
    struct str bytes; /* read and not yet decoded */
    size_t at;
    struct str paste;
    bool in_paste;
    char text[64]; /* of a reply */
    int n_wheel;   /* arrows to come that are of a wheel */
    struct {
        char sequence[16];
        uint32_t key;
    } extra[INPUT_EXTRA_MAX];
    int n_extra;
};

void input_release(struct input *in);
void input_add(struct input *in, const char *sequence, uint32_t key); /* from terminfo */
void input_feed(struct input *in, const char *bytes, size_t n);

/* The next key; false when more bytes are needed. `late`: no byte came for a while, so that an
 * ESC that stands alone is the key, and an unfinished sequence is dropped. */
bool input_next(struct input *in, bool late, struct key_event *ev);

/* Something waits for more bytes: ask again soon with late = true. */
bool input_waiting(const struct input *in);

/* A paste was begun and its end did not come in time: what is there is the paste. */
void input_end_paste(struct input *in);

#endif
