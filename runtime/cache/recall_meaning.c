/* By meaning: windows whose words have embeddings like those of the message's words.
 *
 * The vector of a text is the sum of its words' input embeddings, centred and of length 1, times
 * their rarity. So the product of a window's vector with the message's is a sum over the window's
 * words, and one product for each word of the vocabulary, computed once per message, is enough: no
 * vectors are kept, and the choice depends on the tokens alone. */
#include "runtime/cache/recall_choosers.h"

#include <math.h>
#include <string.h>

#define CENTRE_ROWS 1024 /* rows of the vocabulary whose mean is the centre */

/* The embedding of a token, centred and of length 1. */
static void embed(const struct archive *x, int32_t id, float *out)
{
    const struct archive_compare *o = &x->opts.compare;
    const int n = o->n_embd;
    float sum = 0;
    o->embed(o->ctx, id, out);
    for (int i = 0; i < n; i++) {
        out[i] -= x->centre[i];
        sum += out[i] * out[i];
    }
    float scale = sum > 0 ? 1 / sqrtf(sum) : 0;
    for (int i = 0; i < n; i++) out[i] *= scale;
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

static float idf_of(const struct archive *x, int32_t id)
{
    uint32_t word = archive_word(x, id);
    return word ? archive_idf(x, x->n_with[word]) : 0;
}

static void add_message(struct archive *x, const int32_t *ids, int n, float weight)
{
    const int n_embd = x->opts.compare.n_embd;
    if (n > RECALL_MESSAGE) ids += n - RECALL_MESSAGE, n = RECALL_MESSAGE;
    for (int i = 0; i < n; i++) {
        float w = weight * recall_cube(idf_of(x, ids[i]));
        if (w <= 0) continue;
        embed(x, ids[i], x->row);
        for (int k = 0; k < n_embd; k++) x->message[k] += w * x->row[k];
    }
}

/* The product of a token's vector with the message's; NAN in `similar` = not computed yet. */
static float similar(struct archive *x, int32_t id)
{
    const int n = x->opts.compare.n_embd;
    if (!isnan(x->similar[id])) return x->similar[id];
    float sum = 0;
    embed(x, id, x->row);
    for (int i = 0; i < n; i++) sum += x->row[i] * x->message[i];
    return x->similar[id] = sum > 0 ? sum : 0;
}

void recall_weigh_meaning(struct archive *x, const struct recall_query *q)
{
    if (!x->has_centre) find_centre(x);
    memset(x->message, 0, (size_t)x->opts.compare.n_embd * sizeof *x->message);
    for (int i = 0; i < x->opts.n_vocab; i++) x->similar[i] = NAN;
    add_message(x, q->ids, q->n, 1);
    add_message(x, q->before, q->n_before, RECALL_BEFORE);
    for (int i = 0; i < x->n; i++) {
        float idf = idf_of(x, x->id[i]);
        if (idf <= 0) continue;
        float weight = idf * similar(x, x->id[i]) * (x->asks[i] ? ARCHIVE_QUESTION : 1);
        recall_add_weight(x, x->weight, i - (RECALL_LEAD + RECALL_CORE - 1), i - RECALL_LEAD, i,
                          weight);
    }
}
