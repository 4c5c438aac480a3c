/* tokenizer: text to token ids and back, as the model file defines it (tokenizer.ggml.*).
 *
 * Two kinds: "llama" = SentencePiece-style merging by score with byte fallback (SPM), and "gpt2" =
 * byte-level BPE by merge rank, whose pre-tokenizer pattern is chosen by tokenizer.ggml.pre from
 * one table. Encodes exactly as llama.cpp does for the same file; the tests hold vectors. Copies
 * all it needs: the gguf may be closed after tokenizer_open. */
#ifndef RETAIN_RUNTIME_TOKEN_TOKENIZER_H
#define RETAIN_RUNTIME_TOKEN_TOKENIZER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct gguf;
struct tokenizer;

/* ERR_FORMAT when the file has no vocabulary, or an unknown kind (the error names it and lists the
 * known ones). */
int tokenizer_open(struct tokenizer **out, const struct gguf *g, struct err *e);
void tokenizer_close(struct tokenizer *t);

int tokenizer_n_vocab(const struct tokenizer *t);
int32_t tokenizer_bos(const struct tokenizer *t); /* -1 when there is none */
int32_t tokenizer_eos(const struct tokenizer *t);
bool tokenizer_add_bos(const struct tokenizer *t);

/* Reads the vocabulary on a thread, because a large one takes as long as the weights. */
struct tokenizer_thread {
    pthread_t thread;
    bool running, threaded;
    const struct gguf *file;
    struct tokenizer *tokenizer;
    int rc;
    struct err e;
};

/* `file` must stay open until tokenizer_thread_end. */
void tokenizer_thread_begin(struct tokenizer_thread *t, const struct gguf *file);

/* As tokenizer_open. Must be called before the file is closed, also when opening fails; if nothing
 * was started, *out is unchanged. */
int tokenizer_thread_end(struct tokenizer_thread *t, struct tokenizer **out, struct err *e);

/* A part of a text; in `trusted` parts (from the template) special tokens such as <|im_end|> are
 * recognised; in the others (typed by the user) they are plain text. */
struct tokenizer_span {
    const char *text;
    size_t n;
    bool trusted;
};

/* A growable list of ids. Zero-initialise. */
struct tokens {
    int32_t *ids;
    size_t n;
    size_t cap;
};
void tokens_release(struct tokens *t);
void tokens_reserve(struct tokens *t, size_t n); /* room for n ids in all */
void tokens_push(struct tokens *t, int32_t id);

/* Appends the ids of the spans, read as one text (a merge may cross from one span into the next, a
 * special token may not). Any bytes are accepted: invalid UTF-8 is encoded byte by byte. No BOS or
 * EOS is added. add_prefix: puts a space before the text if the SPM vocabulary asks for it. */
int tokenizer_encode(const struct tokenizer *t, const struct tokenizer_span *spans, size_t n_spans,
                     bool add_prefix, struct tokens *out, struct err *e);

/* The ids of a whole text, with BOS and special tokens as for a prompt unless `plain`. */
int tokenizer_encode_text(const struct tokenizer *t, const char *text, size_t n, bool plain,
                          struct tokens *out, struct err *e);

/* Id of the special token with exactly this text, or -1. */
int32_t tokenizer_special(const struct tokenizer *t, const char *text);

/* The bytes of token `id`, their number in *n; control tokens have none unless `special`. The bytes
 * of one token may be a part of a character: utf8_join completes them. Never fails: an id outside
 * the vocabulary has no bytes. The pointer is valid as long as the tokenizer. */
const char *tokenizer_bytes(const struct tokenizer *t, int32_t id, bool special, size_t *n);

/* Whether the token ends a turn: EOS, EOT, <|im_end|>, <|end|> and the like. */
bool tokenizer_is_end(const struct tokenizer *t, int32_t id);

#endif
