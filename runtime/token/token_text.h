/* token_text: maps each token of a message to its bytes of the text, so that a screen can find the
 * word of a token and the token of a word. */
#ifndef RETAIN_RUNTIME_TOKEN_TOKEN_TEXT_H
#define RETAIN_RUNTIME_TOKEN_TOKEN_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/token/tokenizer.h"

/* n_bytes[n_ids]: bytes of `text` that each id stands for, in order; 0 for marks that the template
 * adds. White space that the template trimmed off belongs to the first of them. `before`: the text
 * directly before the message's text (chat_before), "" = none. False, and all 0, when the ids do
 * not spell the text. */
bool token_text_align(const struct tokenizer *t, const int32_t *ids, size_t n_ids,
                      const char *before, const char *text, size_t n_text, uint16_t *n_bytes);

#endif
