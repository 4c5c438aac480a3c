/* heads_watch: collects the training data of retaining heads. Runs a text through the model with
 * the product's own forward pass, evicts nothing, and keeps per layer
 *
 *   x      [n][n_in]       q, k, v of each token of the context, as a head will read them
 *   label  [n][n_kv_head]  how much attention later queries give the token's unit: the maximum
 *                          over the asking tokens and the query heads of the group of
 *                            LOGIT  the scaled logit q · k (Locret's CIS)
 *                            SHARE  the softmax's weight (KVzip's score) + HEADS_SHARE_NOISE,
 *                                   as a logarithm: it means the same in every head and layer
 *
 * Contexts are appended until heads_watch_clear, so that several make a batch. */
#ifndef RETAIN_QUANT_HEADS_HEADS_WATCH_H
#define RETAIN_QUANT_HEADS_HEADS_WATCH_H

#include <stdint.h>

#include "runtime/forward/context.h"

enum heads_label { HEADS_LOGIT, HEADS_SHARE };

/* The weight that any unit may get by chance. Without it, a unit that few questions need, but with
 * their full weight, would be labelled with the mean of 0 and of logarithms like -15: less than a
 * unit that all questions give a little weight. */
#define HEADS_SHARE_NOISE (1.0f / 1024)

struct heads_watch {
    struct engine *engine;
    struct context context;
    struct arena arena;
    enum heads_label kind;
    int n_text, n_max;              /* at most: tokens of one text, rows of all texts */
    int n;                          /* rows present */
    float *x;                       /* [n_layer][n_max][n_in] */
    float *label;                   /* [n_layer][n_max][n_kv_head] */
    uint8_t *next;                  /* [n_max]: is row t + 1 the token after row t? */
    float *keys, *queries, *logits; /* scratch of the labels, [n_threads] each */
    int at;                         /* tokens of the current text that x holds */
};

/* For texts of at most n_text tokens, n_texts at a time. */
int heads_watch_open(struct heads_watch *w, struct engine *g, enum heads_label kind, int n_text,
                     int n_texts, struct err *e);
void heads_watch_close(struct heads_watch *w);

void heads_watch_clear(struct heads_watch *w);

/* Adds the first n_context rows of a text. asks[t]: whether token t asks. */
void heads_watch_run(struct heads_watch *w, const int32_t *ids, const uint8_t *asks, int n,
                     int n_context);

static inline int heads_watch_n_in(const struct model *m)
{
    return (m->n_head + 2 * m->n_kv_head) * m->head_dim;
}

static inline float *heads_watch_x(const struct heads_watch *w, int layer)
{
    const struct model *m = w->context.forward.model;
    return w->x + (size_t)layer * (size_t)w->n_max * (size_t)heads_watch_n_in(m);
}

static inline float *heads_watch_label(const struct heads_watch *w, int layer)
{
    const struct model *m = w->context.forward.model;
    return w->label + (size_t)layer * (size_t)w->n_max * (size_t)m->n_kv_head;
}

#endif
