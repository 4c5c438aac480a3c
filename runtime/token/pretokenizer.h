/* pretokenizer: splits a text into the pieces within which BPE merges, by the patterns for the name
 * in tokenizer.ggml.pre. Several patterns are applied in sequence, each to the pieces of the
 * previous one; text that a pattern doesn't match is a piece too, as in llama.cpp. */
#ifndef RETAIN_RUNTIME_TOKEN_PRETOKENIZER_H
#define RETAIN_RUNTIME_TOKEN_PRETOKENIZER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct pretokenizer;

/* `name` of n bytes, NULL when the file has none. ERR_FORMAT for an unknown name, listing the known
 * ones. */
int pretokenizer_open(struct pretokenizer **out, const char *name, size_t n, struct err *e);
void pretokenizer_close(struct pretokenizer *p);

/* A piece that is itself a token is taken whole, without merges (Llama 3). */
bool pretokenizer_takes_whole(const struct pretokenizer *p);
/* Whether BOS is added when the file doesn't say. */
bool pretokenizer_adds_bos(const struct pretokenizer *p);

/* Calls piece() for each piece of the text in order. Any bytes are allowed: a run of invalid UTF-8
 * is one piece. */
int pretokenizer_split(const struct pretokenizer *p, const char *text, size_t n,
                       void (*piece)(void *ctx, const char *text, size_t n), void *ctx,
                       struct err *e);

#endif
