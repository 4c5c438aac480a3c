/* forgot: the words that an eviction removed from all heads, as a sentence. */
#ifndef RETAIN_TUI_TEXT_FORGOT_H
#define RETAIN_TUI_TEXT_FORGOT_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/cache/retention.h"
#include "tui/text/transcript.h"

/* Appends: forgot 9 words of turn 3: "…found a noisy cellar…". A word is forgotten when no head
 * holds any of its tokens now, and one did before: before[n_before] heads for each position, later
 * ones were in the cache. `lost` gets the columns of `now` with such words. Returns the number of
 * words; with 0 nothing is appended. */
int forgot_sentence(struct transcript *t, const struct retention *now, const uint16_t *before,
                    int64_t n_before, bool lost[RETENTION_COLS], struct str *out);

#endif
