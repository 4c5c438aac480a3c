/* By meaning: for each word of the message, the archived words whose input embeddings are like its
 * own, as late interaction compares texts (ColBERT, arXiv 2004.12832). Embeddings are centred and
 * of length 1. Only tokens that are whole words are compared: pieces of words mean nothing alone.
 * Nothing is kept for a window, and the choice depends on the tokens alone. */
#include <math.h>
#include <string.h>

#include "runtime/cache/recall_choosers.h"

#define CENTRE_ROWS 1024  /* rows of the vocabulary whose mean is the centre */
#define LEAST_NEAR  0.35f /* cosine */

static void normalize(float *v, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++) sum += v[i] * v[i];
    const float scale = sum > 0 ? 1 / sqrtf(sum) : 0;
    for (int i = 0; i < n; i++) v[i] *= scale;
}

/* The embedding of a token, centred and of length 1. */
static void embed(const struct archive *x, int32_t id, float *out)
{
    const struct archive_compare *o = &x->opts.compare;
    o->embed(o->ctx, id, out);
    for (int i = 0; i < o->n_embd; i++) out[i] -= x->centre[i];
    normalize(out, o->n_embd);
}

static void find_centre(struct archive *x)
{
    const struct archive_compare *o = &x->opts.compare;
    const int n = o->n_embd, step = x->opts.n_vocab / CENTRE_ROWS + 1;
    int n_rows = 0;
    memset(x->centre, 0, (size_t)n * sizeof *x->centre);
    for (int id = 0; id < x->opts.n_vocab; id += step, n_rows++) {
        o->embed(o->ctx, id, x->row);
        for (int i = 0; i < n; i++) x->centre[i] += x->row[i];
    }
    for (int i = 0; i < n; i++) x->centre[i] /= (float)n_rows;
    x->has_centre = true;
}

static float product(const float *a, const float *b, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

int recall_find_near(struct archive *x, struct recall_term *t, int n,
                     struct recall_near near[RECALL_NEAR])
{
    const int n_embd = x->opts.compare.n_embd;
    int term[ARCHIVE_VECTORS], n_terms = 0, n_near = 0;
    if (!x->has_centre) find_centre(x);
    for (int i = 0; i < n && n_terms < ARCHIVE_VECTORS; i++) {
        if (t[i].before || t[i].id < 0) continue;
        embed(x, t[i].id, x->vectors + n_terms * n_embd);
        term[n_terms++] = i;
    }
    for (int32_t id = 0; id < x->opts.n_vocab; id++) {
        if (!x->seen[id]) continue;
        embed(x, id, x->row);
        for (int k = 0; k < n_terms && n_near < RECALL_NEAR; k++) {
            const float match = product(x->row, x->vectors + k * n_embd, n_embd);
            if (match < LEAST_NEAR) continue;
            near[n_near] = (struct recall_near){(uint16_t)term[k], x->near[id], match};
            x->near[id] = (uint16_t)++n_near;
        }
    }
    return n_near;
}

void recall_forget_near(struct archive *x)
{
    memset(x->near, 0, (size_t)x->opts.n_vocab * sizeof *x->near);
}
