/* vocab: the texts of a model file's tokens, their kinds and scores, and text to id.
 *
 * Ids from n_vocab on are no tokens: a BPE merge list may pass through texts that the vocabulary
 * lacks, and these need a number too. */
#ifndef RETAIN_RUNTIME_TOKEN_VOCAB_H
#define RETAIN_RUNTIME_TOKEN_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct gguf;

/* Numbered as in tokenizer.ggml.token_type. */
enum vocab_kind {
    VOCAB_NORMAL = 1,
    VOCAB_UNKNOWN = 2,
    VOCAB_CONTROL = 3, /* marks of a template: never made from a person's text */
    VOCAB_USER = 4,    /* taken whole before anything else is done to a text */
    VOCAB_UNUSED = 5,
    VOCAB_BYTE = 6,
};

struct vocab {
    int32_t n_vocab;
    int32_t n;       /* with the texts that are no tokens */
    struct str text; /* of all, end to end */
    uint32_t *at;    /* [n + 1] into text */
    uint8_t *kind;   /* [n_vocab] enum vocab_kind */
    float *score;    /* [n_vocab] or NULL */
    size_t longest;  /* bytes of the longest text in the map */
    size_t cap;      /* of at */
    int32_t *slots;  /* open addressing, -1 = free */
    size_t n_slots;  /* a power of two */
    size_t n_used;
    bool repeats; /* two that can come from text have the same one */
};

int vocab_init(struct vocab *v, const struct gguf *g, struct err *e);
void vocab_release(struct vocab *v);

/* Kinds are settled: builds the map from text to id over the tokens that text can become (not
 * control, unknown and byte tokens); of equal texts the last counts. */
int vocab_index(struct vocab *v, struct err *e);

const char *vocab_text(const struct vocab *v, int32_t id, size_t *n);
bool vocab_is(const struct vocab *v, int32_t id, const char *text);
int32_t vocab_find(const struct vocab *v, const char *text, size_t n); /* -1: not there */

/* vocab_find of left and right together is `id`; false may also mean that it is not known. */
bool vocab_is_joined(const struct vocab *v, int32_t id, const char *left, size_t n_left,
                     const char *right, size_t n_right);

/* vocab_find, or a new number from n_vocab on. */
int32_t vocab_intern(struct vocab *v, const char *text, size_t n);

#endif
