/* fake_stage: a stage with the fake session. */
#ifndef RETAIN_TESTS_TUI_FAKE_STAGE_H
#define RETAIN_TESTS_TUI_FAKE_STAGE_H

#include "tests/tui/fake_session.h"
#include "tests/tui/stage.h"

/* An app at 2026-01-02 14:02:13 UTC whose model is still loading. */
static inline void stage_init(struct stage *s, bool ascii, bool private_mode)
{
    fake.now_ms = INT64_C(1767362533000);
    fake.tok_s = fake.prefill_tok_s = 0;
    fake_reset();
    stage_begin(s, ascii, private_mode ? NULL : "fake");
}

#endif
