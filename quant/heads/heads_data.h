/* heads_data: the rows of text that retaining heads are trained on or calibrated with.
 *
 * --data FILE: one JSON object per line,
 *
 *   {"document": "…", "question": "…", "answer": "…"}
 *
 * document is the first user message, with the question below it, or an array of messages written
 * by user and assistant in turn, the user first; question and answer may be arrays of the same
 * length, asked one after the other.
 *
 * --text FILE…: plain text in UTF-8. Each file is cut at white space into rows of equal size. */
#ifndef RETAIN_QUANT_HEADS_HEADS_DATA_H
#define RETAIN_QUANT_HEADS_HEADS_DATA_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

struct options;
struct tokenizer;

struct heads_data {
    struct str text;
    size_t *rows; /* byte offsets of rows; [n] is the end */
    int n;
    size_t n_max;
    const char *name; /* the file, or the first of several */
    bool plain;       /* rows of plain text */
};

/* Reads the file of --data, or that of --text and further ones in o->args from args[1] on: exactly
 * one of the options must be given (ERR_USAGE). Rows of plain text are whole files until they are
 * cut. Release with heads_data_close, after a failure too. */
int heads_data_open(struct heads_data *d, const struct options *o, struct err *e);
/* Adds a row of plain text. */
void heads_data_add(struct heads_data *d, const char *text, size_t n);
void heads_data_close(struct heads_data *d);

/* Tokens of a row at most: --length, or `usual` if the model's context has as many. */
int heads_data_length(const struct options *o, int n_ctx, int usual, int *out, struct err *e);

/* Cuts plain text into rows of about n_tokens tokens each, at most. ERR_FORMAT unless there are two
 * rows or more. */
int heads_data_cut(struct heads_data *d, const struct tokenizer *t, int n_tokens, struct err *e);

#endif
