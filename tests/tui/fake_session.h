/* fake_session: session.h and conversations.h without a model, for tests of tui/: scripted answers
 * at a given speed, evictions, memory numbers, progress and errors, the same on every run.
 *
 * A prompt may contain: "long" 4000 tokens, "words N" N tokens, "unicode", "code", "evil" (control
 * bytes), "fail" (an error), "empty". Any other prompt gets a few sentences. */
#ifndef RETAIN_TESTS_TUI_FAKE_SESSION_H
#define RETAIN_TESTS_TUI_FAKE_SESSION_H

#include <stdint.h>

struct fake {
    int load_ms;          /* loading the model takes this long */
    double tok_s;         /* 0 = as fast as possible */
    double prefill_tok_s; /* the same for prompts and replays */
    int n_layer, n_head, budget, reserve;
    int state_every; /* the model has a layer with units after this many with a state; 0 = none */
    int window;      /* each layer with units is followed by one with such a window; 0 = none */
    int64_t now_ms;  /* clock of the saved conversations; 0 = the real one */
    const char *fail_load;  /* error text, NULL = none */
    const char *fail_model; /* a file that is no model */
    const char *fail_open;  /* name of a conversation that cannot be opened; "*" = any */
};
extern struct fake fake;

/* Restores the initial saved conversations. */
void fake_reset(void);

#endif
