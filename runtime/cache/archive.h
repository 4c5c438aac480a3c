/* archive: the cache units of past positions, kept after their eviction so that recall (recall.h)
 * can return them. Outside the cache's budget, with a separate limit in bytes.
 *
 * Units are kept when they are new, before any eviction: all heads of all layers of a position, in
 * pieces of at most ARCHIVE_PIECE positions. A private conversation copies them in memory; a saved
 * one has them in its log, whose bytes `struct archive_store` keeps. The index (position, token,
 * word) is in memory for both, with counters of words: the number of stretches of ARCHIVE_PIECE
 * positions that contain one. A full archive drops the units of the stretches with the least
 * information: those of the most common words, on ties the older. Their index stays for the newest
 * n_text positions (ARCHIVE_TEXT), so that they are found and can be read again as text.
 *
 * The contents depend on the tokens alone, not on when they were added. So a resumed conversation,
 * or a private one, recalls the same units as one that was saved and never stopped. */
#ifndef RETAIN_RUNTIME_CACHE_ARCHIVE_H
#define RETAIN_RUNTIME_CACHE_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "runtime/cache/cache.h"

#define ARCHIVE_PIECE    16   /* positions */
#define ARCHIVE_BLOCK    1024 /* positions that recall.c compares as one */
#define ARCHIVE_VECTORS  8    /* words of a message that are compared by meaning */
#define ARCHIVE_WORDS    131072
#define ARCHIVE_ASKS     1    /* a position is part of a question */
#define ARCHIVE_ENDS     2    /* it ends a sentence */
#define ARCHIVE_JOINS    4    /* its word begins in a token before it */
#define ARCHIVE_ANSWER   8    /* the model said it */
#define ARCHIVE_TEXT     16   /* its units were dropped */
#define ARCHIVE_THOUGHT  32   /* of a thought: without units it is not kept */
#define ARCHIVE_FIRST    64   /* a piece begins here: its units up to the next piece or gap */
#define ARCHIVE_QUESTION 0.2f /* weight of a word in a question, relative to one in a statement */
#define ARCHIVE_SAID     0.5f /* of what the model said, relative to the user */

/* The storage of a saved conversation's pieces: n positions from `pos` on, archive_position_bytes
 * each. Not called for archives in memory. */
struct archive_store {
    void *ctx;
    int (*keep)(void *ctx, uint32_t pos, int n, struct err *e); /* a piece of the log */
    int (*put)(void *ctx, uint32_t pos, int n, const void *bytes, struct err *e);
    /* Reads into out[ARCHIVE_PIECE positions]. 1 = read; 0 = it is damaged or missing. */
    int (*get)(void *ctx, uint32_t pos, int n, void *out, struct err *e);
    int (*drop)(void *ctx, uint32_t pos, int n, struct err *e);
};

/* For recall by meaning (recall.h). */
struct archive_compare {
    int n_embd;                                       /* 0 = nothing is chosen by meaning */
    void (*embed)(void *ctx, int32_t id, float *out); /* a token's input embedding, [n_embd] */
    void *ctx;
};

struct archive_opts {
    int64_t bytes;              /* maximum size of the units */
    int n_text;                 /* newest positions in the index, with units or without; 0 = as many
                                   as have units */
    struct archive_store store; /* put NULL = in memory */
    int n_returning;            /* positions that may return at once */
    int n_vocab;
    struct archive_compare compare;
};

/* A token as recall sees it. A mark says nothing and ends a sentence. */
struct archive_token {
    int32_t id;    /* -1 = a mark */
    uint32_t word; /* that ends with the token, as far as is known (word.h); 0 = none */
    bool joins;    /* the word of the token before is a part of it */
    bool asks;     /* the token ends a question */
    bool ends;     /* it ends any sentence */
    bool answer;   /* the model said it */
    bool thought;  /* in a thought */
};

struct archive {
    struct archive_opts opts;
    struct cache_shape shape;
    size_t position_bytes;
    int n_max;            /* positions with units */
    int n_units;          /* positions with units, now */
    int n_index;          /* positions in the index, at most */
    int n;                /* positions in the index */
    uint32_t *pos;        /* [n] ascending */
    int32_t *id;          /* [n] -1 = a mark, which nobody said */
    uint32_t *word;       /* [n] the word that ends here, 0 = none */
    uint8_t *flags;       /* [n] ARCHIVE_ASKS … */
    uint32_t *slot;       /* [n] in `units`; in memory only */
    uint32_t *free_slots; /* [n_free] */
    int n_free;
    uint8_t *units;     /* [n_max][position_bytes]; NULL = in the store */
    uint8_t *piece;     /* buffer for one piece */
    uint8_t *returning; /* [n_returning] positions about to return, for recall */
    /* Of the words with the same last bits: the number of stretches of positions that contain one,
     * and the newest such stretch, counted from 1. [ARCHIVE_WORDS] */
    uint32_t *n_with, *last_with;
    uint32_t open;     /* the newest word, which the next token may continue: not counted yet */
    int64_t n_seen;    /* positions counted */
    int64_t text_from; /* the first position that may be kept without units */
    int64_t sentence;  /* first position of the sentence that they end in */
    const struct arena *memory; /* that holds all of this; outlives the archive */
    bool used;                  /* all of the memory is resident */
    float *weight;              /* [n_index] scratch */
    float *value;               /* [n_index] of stretches or windows, scratch */
    float *peak;                /* [n_index / ARCHIVE_BLOCK + 1] scratch */
    /* of recall_meaning.c; NULL = not used */
    float *centre, *common, *row; /* [n_embd] */
    float *vectors;               /* [n_embd][ARCHIVE_VECTORS] of the message's words */
    uint8_t *seen;                /* [n_vocab] 1 = a token that begins a word was counted */
    uint8_t *match; /* [n_vocab][ARCHIVE_VECTORS] cosine * 255 of seen tokens, scratch */
    bool has_common;
};

/* Bytes of one position: of each layer and KV head the key, the value, then the score. */
size_t archive_position_bytes(const struct cache_shape *s);

/* Takes the archive's memory from `a`, backed or only planned. */
void archive_plan(struct archive *x, const struct archive_opts *o, const struct cache_shape *s,
                  struct arena *a);

/* Memory of a full archive whose units are in a store. */
size_t archive_index_bytes(const struct archive_opts *o, const struct cache_shape *s);

void archive_check(const struct archive *x); /* asserts the invariants; for CHECK */
void archive_clear(struct archive *x);

/* Whether the sentence of token `at` ends with a question mark among the first n tokens. */
bool archive_asks(const struct archive_token *t, int64_t n, int64_t at);

/* Counts the words of the tokens of positions n_seen … n_seen + n - 1, after resuming. */
void archive_count(struct archive *x, const struct archive_token *t, int n);

/* Counts and adds the newest n positions of the cache and their tokens. If the archive is full,
 * others are dropped, where a stretch of ARCHIVE_PIECE positions begins. */
int archive_add(struct archive *x, const struct cache *c, const struct archive_token *t, int n,
                struct err *e);

/* Whether the index has any of these positions. */
bool archive_holds(const struct archive *x, int64_t from, int64_t end);

/* The first index at or after a position. */
int archive_index(const struct archive *x, uint32_t pos);

static inline bool archive_has_units(const struct archive *x, int index)
{
    return !(x->flags[index] & ARCHIVE_TEXT);
}

static inline float archive_merit(const struct archive *x, int index)
{
    return (x->flags[index] & ARCHIVE_ASKS ? ARCHIVE_QUESTION : 1) *
           (x->flags[index] & ARCHIVE_ANSWER ? ARCHIVE_SAID : 1);
}

/* Drops positions [from, end): they must not return. Pieces at the border are cut. */
int archive_forget(struct archive *x, int64_t from, int64_t end, struct err *e);

/* Call after resuming: the store has this piece; pieces come in order. t: all n_tokens, which must
 * be counted already. The units of the positions before it were dropped. n 0: those of the
 * positions from `pos` on, too. Ignored if it does not fit. */
void archive_found(struct archive *x, uint32_t pos, int n, const struct archive_token *t,
                   int64_t n_tokens);

/* Rarity of what is in this many stretches of positions (inverse document frequency): 0 if all
 * stretches contain it. Of a word: 0 if it is none. */
float archive_idf(const struct archive *x, uint32_t n_with);
float archive_rarity(const struct archive *x, uint32_t word);

/* Copies the units of n kept positions, `index` … index + n - 1, to out[n][position_bytes]. 1 =
 * done; 0 = a piece is damaged or missing; negative = an error. */
int archive_get(struct archive *x, int index, int n, uint8_t *out, struct err *e);

#endif
