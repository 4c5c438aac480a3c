/* sampler: logits to the next token.
 *
 * The chain is llama.cpp's in its usual order: repetition penalty, top-k, top-p, min-p,
 * temperature, then one draw. The draw's random number is a hash of (seed, position): it needs no
 * saved state, and a resumed conversation draws the same tokens as an uninterrupted one. */
#ifndef RETAIN_RUNTIME_TOKEN_SAMPLER_H
#define RETAIN_RUNTIME_TOKEN_SAMPLER_H

#include <stdint.h>

struct sampling {
    float temperature;    /* 0 = greedy: the first of the largest logits */
    int top_k;            /* 0 = off */
    float top_p;          /* 1 = off */
    float min_p;          /* 0 = off */
    float repeat_penalty; /* 1 = off (CTRL, arXiv 1909.05858: logits > 0 are divided, others
                             multiplied) */
    int repeat_last;      /* how many of the last ids it looks at; at most SAMPLER_HISTORY */
    uint64_t seed;
};

#define SAMPLER_HISTORY 256

/* temperature 0.8, top_k 40, top_p 0.95, min_p 0.05, repeat_penalty 1, repeat_last 64,
 * seed 0. */
struct sampling sampling_default(void);

/* Settings of which none is set: SAMPLING_UNSET everywhere, seed 0. */
#define SAMPLING_UNSET (-1)
struct sampling sampling_unset(void);
/* Takes what is not set, apart from the seed, from `own`. */
void sampling_complete(struct sampling *s, const struct sampling *own);

/* The settings for a model when the user sets none: general.sampling.* of its file, as its makers
 * meant it to be used, else defaults that suit its size. The keys are those that llama.cpp reads,
 * of any number type, with its meaning of values outside the range: top_k below 0 is off,
 * penalty_last_n below 0 is the longest. `source`: a phrase for the user, such as "temp and top-k
 * from the file; its xtc_probability is not supported". */
#define SAMPLING_SOURCE_MAX 256
struct gguf;
struct sampling sampling_of_file(const struct gguf *file, char source[SAMPLING_SOURCE_MAX]);

/* Scratch that the caller owns: n_vocab entries. */
struct sampler_entry {
    float logit; /* after the chain: a probability */
    int32_t id;
};

/* Applies the chain to logits (modified by the penalty) and returns the number of candidates
 * in `scratch`, most likely first, with their probabilities in `logit`. `recent`: the last n_recent
 * ids. Greedy gives one candidate. */
int sampler_candidates(const struct sampling *s, float *logits, int n_vocab, const int32_t *recent,
                       int n_recent, struct sampler_entry *scratch);

/* The token for `position` of the conversation. */
int32_t sampler_draw(const struct sampling *s, float *logits, int n_vocab, const int32_t *recent,
                     int n_recent, uint64_t position, struct sampler_entry *scratch);

/* The same from the s->top_k candidates that the chain begins with, largest logit first, on ties
 * the lower id first; or, if s is greedy, from the best one. n >= 1; `sorted` is modified. */
int32_t sampler_draw_sorted(const struct sampling *s, struct sampler_entry *sorted, int n,
                            uint64_t position);

/* The token of the largest of n logits; *p = its probability, without any setting. */
int32_t sampler_likeliest(const float *logits, int n, double *p);

/* -log p of a token under n logits, without any setting. */
double sampler_nats(const float *logits, int n, int32_t id);

#endif
