/* scripted: the real session, store and demo model with scripted answers, for tests of tui/. The
 * program is linked with --wrap, so that the tokens of an answer are drawn from a script.
 *
 * A prompt may contain: "long" 4000 tokens, "words N" N tokens, "unicode", "code", "evil" (control
 * bytes), "ponder" (a thought), "fail" (an error), "empty". Any other prompt gets a few sentences.
 */
#ifndef RETAIN_TESTS_TUI_SCRIPTED_H
#define RETAIN_TESTS_TUI_SCRIPTED_H

#include <stdint.h>

struct scripted {
    const char *model;      /* opened in place of one that does not exist; NULL = the demo */
    double tok_s;           /* 0 = as fast as possible */
    int load_ms;            /* loading the model takes this long */
    const char *fail_load;  /* error text, NULL = none */
    const char *fail_model; /* a file that is no model */
    const char *fail_open;  /* name of a conversation that cannot be opened; "*" = any */
};
extern struct scripted scripted;

#define SCRIPTED_OTHER "build/golden/families/qwen3.gguf" /* another model in the list */

/* Writes a database of three conversations, which are `now_ms` and older. */
void scripted_library(const char *path, int64_t now_ms);

#endif
