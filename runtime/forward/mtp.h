/* mtp: runs the MTP layer of a model (struct model_mtp), which proposes the tokens after a token
 * that was drawn but not run. It runs where the model's last layers run, on the CPU or on the GPU,
 * has a separate cache of its newest units, and follows the conversation by itself: it keeps the
 * newest tokens that the model ran, with their rows of the residual stream, and reads them when
 * proposals are wanted. After the conversation was loaded or rewound, its cache is empty. It only
 * makes proposals, and no answer depends on them, so nothing of it is saved. */
#ifndef RETAIN_RUNTIME_FORWARD_MTP_H
#define RETAIN_RUNTIME_FORWARD_MTP_H

#include "base/arena.h"
#include "runtime/cuda/cuda.h"
#include "runtime/forward/forward.h"

enum {
    MTP_WINDOW = 256, /* the newest tokens that it reads after others were skipped */
    MTP_CHUNK = 32,   /* tokens that it reads at once */
};

struct mtp {
    struct model model;     /* the MTP layer as a model of one layer; its output_norm ends a row */
    struct forward forward; /* used on the CPU */
    struct cuda_context *gpu; /* NULL = the CPU runs it */
    struct cuda_context *of;  /* then that of the model whose tokens it proposes */
    struct arena units;       /* of the cache, if a GPU runs it */
    struct cache cache;
    const float *model_norm; /* [n_embd] output_norm of the model whose tokens it proposes */
    /* the tokens that the model ran, of position p at p % MTP_WINDOW; NULL: there is no layer. Rows
     * are in the memory of the GPU that runs it. */
    float *rows;              /* [MTP_WINDOW][n_embd] */
    int32_t ids[MTP_WINDOW];  /* also of the token that was drawn */
    int64_t begin, end, next; /* first and last position + 1 of them; the next to read */
    int64_t n_loads;          /* of the model's cache, then */
    /* what is read now: */
    const float *before[MTP_CHUNK]; /* the row before each token, */
    const float *norm;              /* and the norm of these rows */
    float *last;                    /* [n_embd] the row of the newest token read */
    float *both;                    /* [MTP_CHUNK][2 n_embd], on the CPU */
    int n_newest;                   /* tokens that mtp_read read */
    int n_ran;                      /* proposals among the cache's units */
};

/* Takes the CPU's memory from `a`, backed or only planned; as for the model's forward pass. Must
 * not move then. */
void mtp_plan(struct mtp *p, const struct forward_opts *o, struct arena *a);

/* The same on a GPU that has all layers of model m; of: the model's context. */
struct mtp_bytes {
    size_t device, host;
};
struct mtp_bytes mtp_device_bytes(const struct cuda *g, const struct model *m);
int mtp_open_device(struct mtp *p, struct cuda *g, const struct model *m, struct cuda_context *of,
                    struct err *e);
void mtp_close(struct mtp *p);

static inline bool mtp_is_open(const struct mtp *p)
{
    return p->rows != NULL;
}

/* Call after n tokens were run and counted in the model's cache c: their rows x [n][n_embd]. */
void mtp_ran(struct mtp *p, const struct cache *c, const int32_t *ids, const float *x, int n);

/* The likeliest token, and its probability. On a GPU it is that among the MTP_LIKELY likeliest. */
struct mtp_guess {
    int32_t id; /* -1: no token before `id` is known */
    double p;
};
#define MTP_LIKELY 64

/* Guesses the token after `id`, which was drawn but not run. */
int mtp_read(struct mtp *p, const struct cache *c, int32_t id, struct mtp_guess *out,
             struct err *e);
/* The same after one more token, a proposal. The next mtp_read forgets it. */
int mtp_read_proposal(struct mtp *p, int32_t id, struct mtp_guess *out, struct err *e);

#endif
