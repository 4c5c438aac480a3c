/* fake_session: session.h and library.h without a model, for tests of tui/: scripted answers at a
 * set speed, evictions, memory numbers, progress and errors, the same on every run.
 *
 * What a prompt may hold: "long" 4000 tokens, "words N" N tokens, "unicode", "code", "evil"
 * (control bytes), "fail" (an error), "empty". Anything else is answered by a few sentences. */
#ifndef RETAIN_TESTS_TUI_FAKE_SESSION_H
#define RETAIN_TESTS_TUI_FAKE_SESSION_H

#include <stdint.h>

struct fake {
    int load_ms;          /* loading the model takes this long */
    double tok_s;         /* 0 = as fast as it goes */
    double prefill_tok_s; /* the same for prompts and replays */
    int n_layer, n_head, budget, reserve;
    int64_t now_ms;        /* clock of the saved conversations; 0 = the real one */
    const char *fail_load; /* error text, NULL = none */
};
extern struct fake fake;

/* The saved conversations as they were at the start. */
void fake_reset(void);

#endif
