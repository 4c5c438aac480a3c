/* Recall by meaning, for vague questions (recall_choose): each archived sentence is compared with
 * the question. The weight of a sentence s for a question q is
 *
 *   sum over words w of q:  r(w)^4  max over words v of s:  like(w, v)
 *   ------------------------------------------------------------------  f(s)
 *                    max(number of words of s, 8)
 *
 *   like(w, v)  255 if the words are the same, else 255 max(0, e(w) . e(v)), rounded down
 *   e(w)        the input embedding of a word that is one token, minus the centre, minus its part
 *               along the first principal component, scaled to length 1
 *   r(w)        (archive_rarity + log(1 + id / 300)) / 2: the rarity in the conversation and in the
 *               language. The ids of a vocabulary come in order of frequency (Zipf's law)
 *   f(s)        0.2 if s is a question, times 0.5 if the model said it
 *
 * Taking the best v for each w is late interaction (ColBERT, arXiv 2004.12832). The division keeps
 * long sentences, in which every word finds something similar, from winning. The first principal
 * component tells how common a token is and not what it means ("All-but-the-Top", arXiv
 * 1702.01417). It is found by 8 steps of the power method on at most 1,024 rows of the vocabulary,
 * and the centre is the mean of these rows.
 *
 * q has its 8 heaviest words at most (ARCHIVE_VECTORS). A sentence has 24 positions at most
 * (RECALL_SPAN); a longer one is compared in parts. A word of several tokens is only ever the same
 * or different, because a piece of a word means nothing alone. Nothing is kept for a sentence, and
 * the choice depends on the tokens alone. */
#include <math.h>
#include <string.h>

#include "runtime/cache/recall_choosers.h"

#define SAMPLE_ROWS 1024  /* at most, of the vocabulary, for centre and component */
#define ITERATIONS  8     /* of the power method */
#define LEAST_WORDS 8     /* a shorter sentence is divided by this number */
#define COMMON_IDS  300   /* ids of the most common words */
#define RAREST_ID   60000 /* taken as the id of a word of several tokens */

enum { N_WORDS = ARCHIVE_VECTORS };

struct meant {
    uint32_t word;
    int32_t id;   /* -1 = a word of several tokens, which has no embedding */
    float weight; /* r(w)^4 */
};

struct question {
    struct meant words[N_WORDS]; /* [n] the heaviest first */
    int n;
    bool has[256]; /* whether a word has these last 8 bits: most words of the archive are none */
};

/* ---- embeddings ------------------------------------------------------------------------------ */

static float product(const float *a, const float *b, int n)
{
    enum { LANES = 8 }; /* so that the compiler multiplies several at once */
    float sums[LANES] = {0}, sum = 0;
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) sums[k] += a[i + k] * b[i + k];
    for (int k = 0; k < LANES; k++) sum += sums[k];
    for (; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static void normalize(float *v, int n)
{
    const float sum = product(v, v, n), scale = sum > 0 ? 1 / sqrtf(sum) : 0;
    for (int i = 0; i < n; i++) v[i] *= scale;
}

/* x->row = the token's embedding, centred and of length 1. */
static void read_row(const struct archive *x, int32_t id)
{
    const struct archive_compare *o = &x->opts.compare;
    o->embed(o->ctx, id, x->row);
    for (int i = 0; i < o->n_embd; i++) x->row[i] -= x->centre[i];
    normalize(x->row, o->n_embd);
}

/* x->row = e(id): the same without the first principal component. */
static void embed(const struct archive *x, int32_t id)
{
    const int n = x->opts.compare.n_embd;
    read_row(x, id);
    const float common = product(x->row, x->common, n);
    for (int i = 0; i < n; i++) x->row[i] -= common * x->common[i];
    normalize(x->row, n);
}

/* The mean of the sampled rows. */
static void find_centre(struct archive *x)
{
    const struct archive_compare *o = &x->opts.compare;
    const int n = o->n_embd, step = x->opts.n_vocab / SAMPLE_ROWS + 1;
    int n_rows = 0;
    memset(x->centre, 0, (size_t)n * sizeof *x->centre);
    for (int id = 0; id < x->opts.n_vocab; id += step, n_rows++) {
        o->embed(o->ctx, id, x->row);
        for (int i = 0; i < n; i++) x->centre[i] += x->row[i];
    }
    for (int i = 0; i < n; i++) x->centre[i] /= (float)n_rows;
}

/* The first principal component of the sampled rows. */
static void find_common(struct archive *x)
{
    const int n = x->opts.compare.n_embd, step = x->opts.n_vocab / SAMPLE_ROWS + 1;
    for (int i = 0; i < n; i++) x->common[i] = x->row[i];
    for (int t = 0; t < ITERATIONS; t++) {
        float *next = x->vectors;
        memset(next, 0, (size_t)n * sizeof *next);
        for (int id = 0; id < x->opts.n_vocab; id += step) {
            read_row(x, id);
            const float p = product(x->row, x->common, n);
            for (int i = 0; i < n; i++) next[i] += p * x->row[i];
        }
        normalize(next, n);
        memcpy(x->common, next, (size_t)n * sizeof *next);
    }
}

/* ---- words of the question ------------------------------------------------------------------- */

/* r(w)^4 */
static float weight_of(const struct archive *x, uint32_t word, int32_t id)
{
    const float language = logf(1 + (float)(id < 0 ? RAREST_ID : id) / COMMON_IDS);
    const float rarity = (archive_rarity(x, word) + language) / 2;
    return rarity * rarity * rarity * rarity;
}

/* Lists the heaviest words, once each. */
static void list_words(const struct archive *x, const struct recall_query *q, struct question *out)
{
    struct meant *w = out->words;
    int n = 0;
    for (int i = 0; i < q->n; i++) {
        const struct archive_token *t = &q->text[i];
        const bool goes_on = i + 1 < q->n && q->text[i + 1].joins;
        struct meant new = {t->word, t->joins ? -1 : t->id, 0};
        for (int k = 0; k < n; k++)
            if (w[k].word == new.word) new.word = 0;
        if (!new.word || goes_on) continue;
        new.weight = weight_of(x, new.word, new.id) * recall_part(q->text, q->n, i);
        int at = n < N_WORDS ? n++ : N_WORDS;
        for (; at > 0 && w[at - 1].weight < new.weight; at--)
            if (at < N_WORDS) w[at] = w[at - 1];
        if (at < N_WORDS) w[at] = new;
    }
    out->n = n;
    for (int k = 0; k < n; k++) out->has[w[k].word % 256] = true;
}

/* Sets x->match[id][k] = 255 max(0, e(id) . e(k)) for each token that was seen and each word k. */
static void match_tokens(struct archive *x, const struct question *q)
{
    const int n_embd = x->opts.compare.n_embd;
    memset(x->vectors, 0, (size_t)n_embd * N_WORDS * sizeof *x->vectors);
    for (int k = 0; k < q->n; k++) {
        if (q->words[k].id < 0) continue;
        embed(x, q->words[k].id);
        for (int i = 0; i < n_embd; i++) x->vectors[i * N_WORDS + k] = x->row[i];
    }
    for (int32_t id = 0; id < x->opts.n_vocab; id++) {
        float sum[N_WORDS] = {0};
        if (!x->seen[id]) continue;
        embed(x, id);
        for (int i = 0; i < n_embd; i++)
            for (int k = 0; k < N_WORDS; k++) sum[k] += x->row[i] * x->vectors[i * N_WORDS + k];
        for (int k = 0; k < N_WORDS; k++)
            x->match[id * N_WORDS + k] = (uint8_t)(sum[k] > 0 ? 255 * fminf(sum[k], 1) : 0);
    }
}

/* ---- sentences ------------------------------------------------------------------------------- */

int recall_sentence_end(const struct archive *x, int from)
{
    int i = from + 1;
    while (i < x->n && i < from + RECALL_SPAN && !(x->flags[i - 1] & ARCHIVE_ENDS) &&
           x->pos[i] == x->pos[i - 1] + 1)
        i++;
    return i;
}

static float weigh_sentence(const struct archive *x, int from, int end, const struct question *q)
{
    uint8_t best[N_WORDS] = {0};
    int n_words = 0;
    float sum = 0;
    for (int i = from; i < end; i++) {
        if (!x->word[i]) continue;
        n_words++;
        for (int k = 0; q->has[x->word[i] % 256] && k < q->n; k++)
            if (x->word[i] == q->words[k].word) best[k] = 255;
        if (x->flags[i] & ARCHIVE_JOINS) continue;
        const uint8_t *like = x->match + x->id[i] * N_WORDS;
        for (int k = 0; k < N_WORDS; k++) best[k] = like[k] > best[k] ? like[k] : best[k];
    }
    for (int k = 0; k < q->n; k++) sum += q->words[k].weight * (float)best[k];
    return archive_merit(x, from) * sum / (float)(n_words > LEAST_WORDS ? n_words : LEAST_WORDS);
}

void recall_weigh_meaning(struct archive *x, const struct recall_query *q)
{
    struct question words = {.n = 0};
    if (!x->has_common) find_centre(x);
    if (!x->has_common) find_common(x);
    x->has_common = true;
    list_words(x, q, &words);
    match_tokens(x, &words);
    memset(x->weight, 0, (size_t)x->n * sizeof *x->weight);
    for (int i = 0, end; i < x->n; i = end) {
        end = recall_sentence_end(x, i);
        x->weight[i] = weigh_sentence(x, i, end, &words);
    }
}
