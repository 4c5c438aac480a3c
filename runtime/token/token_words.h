/* token_words: the word of each token of a vocabulary, so that texts can be compared word by word
 * without decoding them. " Code", "code" and "CODE" are one word; tokens without a letter or digit,
 * and control tokens, have none. */
#ifndef RETAIN_RUNTIME_TOKEN_TOKEN_WORDS_H
#define RETAIN_RUNTIME_TOKEN_TOKEN_WORDS_H

#include <stdint.h>

#include "base/err.h"

struct tokenizer;

struct token_words {
    int n_vocab, n_words; /* words are numbered 1 … n_words - 1 */
    uint32_t *word;       /* [n_vocab] 0 = no word */
    uint8_t *asks;        /* [n_vocab] 1 = the token holds a question mark */
    uint8_t *ends;        /* [n_vocab] 1 = it ends a sentence, a line or a message */
};

/* ERR_FAIL = out of memory; token_words_close frees a partial result. */
int token_words_open(struct token_words *w, const struct tokenizer *t, struct err *e);
void token_words_close(struct token_words *w);

#endif
