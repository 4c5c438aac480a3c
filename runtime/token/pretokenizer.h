/* pretokenizer: cuts a text into the pieces inside which BPE merges, by the patterns that belong to
 * the name in tokenizer.ggml.pre. Several patterns are applied one after the other, each to the
 * pieces the former left; what a pattern doesn't match is a piece too, as in llama.cpp. */
#ifndef RETAIN_RUNTIME_TOKEN_PRETOKENIZER_H
#define RETAIN_RUNTIME_TOKEN_PRETOKENIZER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct pretokenizer;

/* `name` of n bytes, NULL when the file has none. ERR_FORMAT, with those known, for any other. */
int pretokenizer_open(struct pretokenizer **out, const char *name, size_t n, struct err *e);
void pretokenizer_close(struct pretokenizer *p);

/* A piece that is a token is taken whole, whatever the merges say (Llama 3). */
bool pretokenizer_takes_whole(const struct pretokenizer *p);
/* BOS is wanted when the file doesn't say. */
bool pretokenizer_adds_bos(const struct pretokenizer *p);

/* Calls piece() for each piece of the text in order. Any bytes: a run of invalid ones is a piece.
 */
int pretokenizer_split(const struct pretokenizer *p, const char *text, size_t n,
                       void (*piece)(void *ctx, const char *text, size_t n), void *ctx,
                       struct err *e);

#endif
