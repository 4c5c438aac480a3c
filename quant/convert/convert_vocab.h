/* convert_vocab: a Hugging Face tokenizer as GGUF keys (tokenizer.ggml.*), as llama.cpp writes
 * them.
 *
 * Reads tokenizer.json of the byte-level BPE kind, whose pre-tokenizer is recognised by its
 * pattern, or tokenizer.model (SentencePiece). Special tokens and the chat template come from
 * tokenizer_config.json. An unknown tokenizer is refused, and the error names it: a vocabulary that
 * splits text differently than in training silently makes a model worse. */
#ifndef RETAIN_QUANT_CONVERT_CONVERT_VOCAB_H
#define RETAIN_QUANT_CONVERT_CONVERT_VOCAB_H

#include <cjson/cJSON.h>

#include "quant/convert/gguf_write.h"

/* n_vocab: rows of the embedding; ids the tokenizer doesn't use are padded. */
int convert_vocab(struct gguf_keys *k, const char *folder, const cJSON *config, int n_vocab,
                  struct err *e);

/* Its parts, on bytes: for fuzzing and tests. */
int convert_vocab_bpe(struct gguf_keys *k, const cJSON *tokenizer, int n_vocab, const char *name,
                      struct err *e);
int convert_vocab_spm(struct gguf_keys *k, const void *model, size_t n, const cJSON *tokenizer,
                      int n_vocab, const char *name, struct err *e);

#endif
