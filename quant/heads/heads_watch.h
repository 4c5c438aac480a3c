/* heads_watch: the training data of retaining heads, on the CPU. Runs a text through the model with
 * the product's own forward pass, evicts nothing, and hands over, layer by layer while it runs,
 *
 *   x      [n][n_in]       q, k, v of each token of the context, as a head will read them, or the
 *                          normed input of attention
 *   label  [n][n_kv_head]  how much attention later queries give the token's unit: the logarithm
 *                          of the largest weight (KVzip's score) in the softmax of an asking token
 *                          and a query head of the group, + HEADS_SHARE_NOISE. It means the same
 *                          in every head and layer
 *
 * A text is one chunk, so that a layer has all its tokens at once: memory grows with the tokens of
 * one text, but not with tokens times layers, except for the quantized cache. */
#ifndef RETAIN_QUANT_HEADS_HEADS_WATCH_H
#define RETAIN_QUANT_HEADS_HEADS_WATCH_H

#include <stdint.h>

#include "quant/heads/heads_net.h"
#include "runtime/forward/context.h"

struct heads_data;
struct heads_sample;

/* A share below this is of no use: which units have a large share counts, not which have a tiny one
 * (quant/eval/notes/heads.md). */
#define HEADS_SHARE_NOISE (1.0f / 128)

/* Gets a layer's rows, which it may change; they are valid until it returns. */
typedef void heads_visit(void *ctx, int layer, struct heads_rows *rows);

struct heads_watch {
    struct engine *engine;
    struct context context;
    struct arena arena;
    bool reads_hidden; /* x is the normed input of attention; false after heads_watch_open */
    int n_text;        /* tokens of a text at most */
    float *label;      /* [n_text][n_kv_head] of one layer */
    int *asked;        /* [n_text] the tokens that ask */
    float *keys;       /* [n_kv_head][n_text][head_dim], rotated */
    float *slices;     /* [n_kv_head][slices][n_text]: labels from some of the asking tokens */
    float *queries, *logits; /* scratch, [n_threads] each */
    /* of the text that runs */
    const struct heads_sample *sample;
    int n_asked;
    heads_visit *visit;
    void *visit_ctx;
};

/* The plan of the context: policy full, one chunk. */
struct plan_opts heads_watch_plan(int n_text, int64_t memory);
/* Bytes that heads_watch_open takes besides that context. */
size_t heads_watch_bytes(const struct engine *g, int n_text);

/* For texts of at most n_text tokens. */
int heads_watch_open(struct heads_watch *w, struct engine *g, int n_text, struct err *e);
void heads_watch_close(struct heads_watch *w);

/* Runs a text, and visits each layer of the cache. */
void heads_watch_run(struct heads_watch *w, const struct heads_sample *s, heads_visit *visit,
                     void *ctx);

/* Told after each row; anything but 0 stops (ERR_STOP). */
typedef int heads_show(void *ctx, int64_t done, int64_t total);

/* Runs at most n_rows rows, at even distances. ERR_FORMAT: all are too short. */
int heads_watch_rows(struct heads_watch *w, const struct heads_data *d, int n_rows,
                     heads_visit *visit, void *ctx, heads_show *show, void *show_ctx,
                     struct err *e);

#endif
