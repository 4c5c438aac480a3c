/* vocab: the texts of a model file's tokens, their kinds and scores, and the map from text to id.
 *
 * Ids from n_vocab on are not tokens: a BPE merge list may pass through texts that are missing in
 * the vocabulary, and these need a number too. */
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
    VOCAB_CONTROL = 3, /* template marks: never made from the user's text */
    VOCAB_USER = 4,    /* matched whole before any other step */
    VOCAB_UNUSED = 5,
    VOCAB_BYTE = 6,
};

struct vocab {
    int32_t n_vocab;
    int32_t n;       /* including the texts that are not tokens */
    struct str text; /* all texts, concatenated */
    uint32_t *at;    /* [n + 1] offsets into text */
    uint8_t *kind;   /* [n_vocab] enum vocab_kind */
    float *score;    /* [n_vocab] or NULL */
    size_t longest;  /* bytes of the longest text in the map */
    size_t cap;      /* allocated entries of `at` */
    int32_t *slots;  /* open addressing, -1 = free */
    size_t n_slots;  /* a power of two */
    size_t n_used;
    bool repeats; /* two tokens that can come from text have equal texts */
};

int vocab_init(struct vocab *v, const struct gguf *g, struct err *e);
void vocab_release(struct vocab *v);

/* Call when the kinds are final: builds the map from text to id over the tokens that text can
 * become (not control, unknown and byte tokens); the last of equal texts counts. */
void vocab_index(struct vocab *v);

const char *vocab_text(const struct vocab *v, int32_t id, size_t *n);
bool vocab_is(const struct vocab *v, int32_t id, const char *text);
int32_t vocab_find(const struct vocab *v, const char *text, size_t n); /* -1: not found */

/* Whether vocab_find of left and right concatenated is `id`; false may also mean unknown. */
bool vocab_is_joined(const struct vocab *v, int32_t id, const char *left, size_t n_left,
                     const char *right, size_t n_right);

/* vocab_find, or a new number from n_vocab on; -1: the texts are too large for memory. */
int32_t vocab_intern(struct vocab *v, const char *text, size_t n);

#endif
