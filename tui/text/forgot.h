/* forgot: the words that an eviction removed from all heads, as a sentence. */
#ifndef RETAIN_TUI_TEXT_FORGOT_H
#define RETAIN_TUI_TEXT_FORGOT_H

#include <stdint.h>

#include "runtime/cache/retention.h"
#include "tui/text/transcript.h"

/* Appends: forgot 9 words of turn 3: "…found a noisy cellar…". Columns of `r` that had units before
 * and have none now are forgotten. Returns the number of words; with 0 nothing is appended. */
int forgot_sentence(struct transcript *t, const struct retention *r,
                    const int64_t before[RETENTION_COLS], const int64_t now[RETENTION_COLS],
                    struct str *out);

#endif
