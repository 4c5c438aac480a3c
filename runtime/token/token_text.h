/* pieces: which bytes of a message's text each of its tokens stands for, so that a screen can lead
 * from a token to its word and back. */
#ifndef RETAIN_RUNTIME_TOKEN_TOKEN_TEXT_H
#define RETAIN_RUNTIME_TOKEN_TOKEN_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/token/tokenizer.h"

/* n_bytes[n_ids]: bytes of `text` that each id stands for, in order; 0 for what the template adds.
 * White space that the template trimmed off goes with the first of them. `before`: what stands
 * right in front of the text (chat_before), "" = nothing. False, and all 0, when the ids do not
 * spell the text. */
bool token_text_align(const struct tokenizer *t, const int32_t *ids, size_t n_ids,
                      const char *before, const char *text, size_t n_text, uint16_t *n_bytes);

#endif
