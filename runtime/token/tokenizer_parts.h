/* tokenizer_parts: shared by tokenizer.c and its two kinds; internal to them. */
#ifndef RETAIN_RUNTIME_TOKEN_TOKENIZER_PARTS_H
#define RETAIN_RUNTIME_TOKEN_TOKENIZER_PARTS_H

#include "base/arena.h"
#include "runtime/token/pretokenizer.h"
#include "runtime/token/tokenizer.h"
#include "runtime/token/vocab.h"

/* ---- SentencePiece-style, by score ----------------------------------------------------------- */

struct spm {
    int32_t byte_id[256]; /* <0x00> … <0xFF>, or a replacement; -1 = none */
    /* no token has a ▁ after another character, so words merge independently */
    bool splits;
};

void spm_init(struct spm *s, const struct vocab *v, int32_t unknown);

/* For files that list merges instead of scores (Gemma 4): the score of a token is the negative rank
 * of the first merge that gives it. */
int spm_read_merges(struct vocab *v, const struct gguf *g, struct err *e);

/* add_prefix: encodes as if the text began with a space. */
void spm_encode(const struct spm *s, const struct vocab *v, const char *text, size_t n,
                bool add_prefix, struct tokens *out);

/* Appends the bytes of a token. */
void spm_piece(const struct vocab *v, int32_t id, struct str *out);

/* ---- byte-level, by merge rank --------------------------------------------------------------- */

struct bpe_merge { /* open addressing; left < 0 = free */
    int32_t left, right;
    int32_t rank;
    int32_t joined;
};

struct bpe {
    struct pretokenizer *pre;
    int32_t byte_id[256];
    struct bpe_merge *merges; /* in large pages, because lookups are spread over the whole table */
    size_t n_slots;           /* a power of two */
    struct arena table;
};

int bpe_init(struct bpe *b, struct vocab *v, const struct gguf *g, struct err *e);
void bpe_release(struct bpe *b);

int bpe_encode(const struct bpe *b, const struct vocab *v, const char *text, size_t n,
               struct tokens *out, struct err *e);

void bpe_piece(const struct vocab *v, int32_t id, struct str *out);

#endif
