/* archive: the cache units of past positions, kept after their eviction so that recall (recall.h)
 * can return them. Outside the cache's budget, with a separate limit in bytes.
 *
 * Units are copied when they are new, before any eviction: all heads of all layers of a position,
 * in pieces of at most ARCHIVE_PIECE positions. A private conversation keeps them in memory, a
 * saved one in `struct archive_store`. The index (position, token, word) is in memory for both,
 * with one counter per word: the number of stretches of ARCHIVE_PIECE positions that contain it. A
 * full archive drops the stretches with the least information: those of the most common words, on
 * ties the older.
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
#define ARCHIVE_QUESTION 0.2f /* weight of a word in a question, relative to one in a statement */

/* The storage of a saved conversation's pieces: n positions from `pos` on, archive_position_bytes
 * each. Not called for archives in memory. */
struct archive_store {
    void *ctx;
    int (*put)(void *ctx, uint32_t pos, int n, const void *bytes, struct err *e);
    /* Reads into out[ARCHIVE_PIECE positions]. 1 = read; 0 = it is damaged or missing. */
    int (*get)(void *ctx, uint32_t pos, int n, void *out, struct err *e);
    int (*drop)(void *ctx, uint32_t pos, struct err *e);
};

/* For the chooser by meaning (recall.h). */
struct archive_compare {
    int n_embd;                                       /* 0 = nothing is chosen by meaning */
    void (*embed)(void *ctx, int32_t id, float *out); /* a token's input embedding, [n_embd] */
    void *ctx;
};

struct archive_opts {
    int64_t bytes;              /* maximum size of the units */
    struct archive_store store; /* put NULL = in memory */
    int n_returning;            /* positions that may return at once */
    /* of the vocabulary (token_words.h); tokens below 0 are marks: no word, the end of a sentence
     */
    int n_vocab, n_words;
    const uint32_t *word; /* [n_vocab] 0 = none */
    const uint8_t *asks;  /* [n_vocab] 1 = the token ends a question */
    const uint8_t *ends;  /* [n_vocab] 1 = it ends any sentence */
    struct archive_compare compare;
};

struct archive_piece {
    uint32_t pos; /* of its first position */
    uint16_t n;
    uint32_t first; /* its tokens: [first, first + n) */
};

struct archive {
    struct archive_opts opts;
    struct cache_shape shape;
    size_t position_bytes;
    int n_max;                    /* positions */
    int n;                        /* positions kept */
    uint32_t *pos;                /* [n] ascending */
    int32_t *id;                  /* [n] -1 = a mark, which nobody said */
    uint8_t *asks;                /* [n] 1 = part of a question */
    uint32_t *slot;               /* [n] in `units`; in memory only */
    struct archive_piece *pieces; /* [n_pieces] ascending */
    int n_pieces;
    uint32_t *free_slots; /* [n_free] */
    int n_free;
    uint8_t *units;      /* [n_max][position_bytes]; NULL = behind the store */
    uint8_t *piece;      /* buffer for one piece */
    uint8_t *returning;  /* [n_returning] positions about to return, for recall */
    uint32_t *n_with;    /* [n_words] number of stretches of positions that contain the word */
    uint32_t *last_with; /* [n_words] the newest such stretch, counted from 1 */
    int64_t n_seen;      /* positions counted */
    int64_t sentence;    /* first position of the sentence that they end in */
    const struct arena *memory; /* that holds all of this; outlives the archive */
    bool used;                  /* all of the memory is resident */
    float *weight;              /* [n_max] scratch */
    float *value;               /* [n_max] of pieces or windows, scratch */
    float *peak;                /* [n_max / ARCHIVE_BLOCK + 1] scratch */
    /* of recall_meaning.c; NULL = not used */
    float *centre, *message, *row; /* [n_embd] */
    float *similar;                /* [n_vocab] */
    bool has_centre;
};

/* Bytes of one position: of each layer and KV head the key, the value, then the score. */
size_t archive_position_bytes(const struct cache_shape *s);

/* Takes the archive's memory from `a`, backed or only planned. */
void archive_plan(struct archive *x, const struct archive_opts *o, const struct cache_shape *s,
                  struct arena *a);

/* Memory of a full archive whose units are in a store. */
size_t archive_index_bytes(const struct archive_opts *o, const struct cache_shape *s);

void archive_clear(struct archive *x);

static inline uint32_t archive_word(const struct archive *x, int32_t id)
{
    return id < 0 ? 0 : x->opts.word[id];
}

static inline bool archive_ends(const struct archive *x, int32_t id)
{
    return id < 0 || x->opts.ends[id];
}

static inline bool archive_asks(const struct archive *x, int32_t id)
{
    return id >= 0 && x->opts.asks[id];
}

/* Counts the words of the tokens of positions n_seen … n_seen + n - 1, after resuming. */
void archive_count(struct archive *x, const int32_t *ids, int n);

/* Counts and adds the newest n positions of the cache: ids are their tokens. If the archive is
 * full, others are dropped, where a stretch of ARCHIVE_PIECE positions begins. */
int archive_add(struct archive *x, const struct cache *c, const int32_t *ids, int n, struct err *e);

/* The number of pieces, from the i-th on, in the same stretch of ARCHIVE_PIECE positions: several
 * if the units were added at several times. They are dropped together, so that nothing
 * depends on those times. */
int archive_n_in_stretch(const struct archive *x, int i);

bool archive_holds(const struct archive *x, int64_t from, int64_t end);

/* The first index at or after a position. */
int archive_index(const struct archive *x, uint32_t pos);

/* Drops positions [from, end): they must not return. Pieces at the border are cut. */
int archive_forget(struct archive *x, int64_t from, int64_t end, struct err *e);

/* Call after resuming: the store has this piece; pieces come in order. ids: all n_ids tokens, which
 * must be counted already. false = it does not fit. */
bool archive_found(struct archive *x, uint32_t pos, int n, const int32_t *ids, int64_t n_ids);

/* Rarity of a word in this many stretches of positions (inverse document frequency): 0 if all
 * stretches contain it. */
float archive_idf(const struct archive *x, uint32_t n_with);

/* Copies the units of n kept positions, `index` … index + n - 1, to out[n][position_bytes]. 1 =
 * done; 0 = a piece is damaged or missing; negative = an error. */
int archive_get(struct archive *x, int index, int n, uint8_t *out, struct err *e);

#endif
