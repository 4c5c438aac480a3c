/* The candidates are always a prefix of the list sorted by logit, so top-k, top-p and min-p only
 * decide its length. With top-k (the default) k of n are selected by a heap of size k: nearly every
 * logit costs one comparison. Without top-k, candidates below min-p are never sorted. */
#include "runtime/token/sampler.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "runtime/model/gguf.h"

#define STREAM_DRAW 1 /* the stream for random_at */

struct sampling sampling_default(void)
{
    return (struct sampling){.temperature = 0.8f,
                             .top_k = 40,
                             .top_p = 0.95f,
                             .min_p = 0.05f,
                             .repeat_penalty = 1,
                             .repeat_last = 64};
}

/* The settings, all but the seed; keys of general.sampling. Numbers of a file outside the range are
 * moved to its end. */
static const struct field {
    const char *key, *name;
    bool is_int;
    size_t offset;
    float min, max;
} fields[] = {
    {"temp", "temp", false, offsetof(struct sampling, temperature), 0, 100},
    {"top_k", "top-k", true, offsetof(struct sampling, top_k), 0, 1e6f},
    {"top_p", "top-p", false, offsetof(struct sampling, top_p), 0, 1},
    {"min_p", "min-p", false, offsetof(struct sampling, min_p), 0, 1},
    {"penalty_repeat", "repeat-penalty", false, offsetof(struct sampling, repeat_penalty), .01f,
     100},
    {"penalty_last_n", "repeat-last", true, offsetof(struct sampling, repeat_last), 0,
     SAMPLER_HISTORY},
};
#define N_FIELDS (sizeof fields / sizeof *fields)

static double get(const struct sampling *s, const struct field *f)
{
    const void *at = (const char *)s + f->offset;
    return f->is_int ? *(const int *)at : (double)*(const float *)at;
}

static void set(struct sampling *s, const struct field *f, double v)
{
    void *at = (char *)s + f->offset;
    if (f->is_int)
        *(int *)at = (int)v;
    else
        *(float *)at = (float)v;
}

struct sampling sampling_unset(void)
{
    struct sampling s = {0};
    for (size_t i = 0; i < N_FIELDS; i++) set(&s, &fields[i], SAMPLING_UNSET);
    return s;
}

void sampling_complete(struct sampling *s, const struct sampling *own)
{
    for (size_t i = 0; i < N_FIELDS; i++)
        if (get(s, &fields[i]) < 0) set(s, &fields[i], get(own, &fields[i]));
}

/* ---- a file's settings ----------------------------------------------------------------------- */

#define PREFIX "general.sampling."

/* A small model is sure of few words: at the usual temperature it draws the others too often, and
 * at a lower one it repeats itself without a penalty that reaches back to its last list. With
 * SmolLM2-135M 60 of 60 answers to a question without an answer end, 55 with the last 64 tokens. */
#define SMALL_WEIGHTS     1000000000
#define SMALL_TEMPERATURE 0.3f
#define SMALL_PENALTY     1.1f

static const char *const unsupported[] = {"sequence", "xtc_probability", "mirostat"};

static bool get_number(const struct gguf *file, const char *key, float *out)
{
    char name[64];
    snprintf(name, sizeof name, PREFIX "%s", key);
    return gguf_get_f32(file, name, out) && *out == *out;
}

static void put(char *out, const char *word, const char *before)
{
    size_t n = strlen(out);
    snprintf(out + n, SAMPLING_SOURCE_MAX - n, "%s%s", n ? before : "", word);
}

static bool asks_for(const struct gguf *file, const char *key)
{
    struct gguf_str text;
    float number;
    char name[64];
    snprintf(name, sizeof name, PREFIX "%s", key);
    return gguf_get_str(file, name, &text) || (get_number(file, key, &number) && number > 0);
}

static double count_weights(const struct gguf *file)
{
    double n = 0;
    for (size_t i = 0; i < gguf_n_tensors(file); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(file, i);
        n += (double)t->ne[0] * (double)t->ne[1] * (double)t->ne[2] * (double)t->ne[3];
    }
    return n;
}

static bool read_field(const struct gguf *file, const struct field *f, struct sampling *s)
{
    float v;
    if (!get_number(file, f->key, &v)) return false;
    if (!f->is_int && v > 100) return false; /* it can't be meant */
    if (f->offset == offsetof(struct sampling, repeat_last) && v < 0) v = f->max;
    set(s, f, v < f->min ? f->min : v > f->max ? f->max : v);
    return true;
}

struct sampling sampling_of_file(const struct gguf *file, char source[SAMPLING_SOURCE_MAX])
{
    struct sampling s = sampling_default();
    bool small = count_weights(file) < SMALL_WEIGHTS;
    source[0] = 0;
    for (size_t i = 0; i < N_FIELDS; i++)
        if (read_field(file, &fields[i], &s)) put(source, fields[i].name, ", ");
    if (small && !*source) {
        s.temperature = SMALL_TEMPERATURE;
        s.repeat_penalty = SMALL_PENALTY;
        s.repeat_last = SAMPLER_HISTORY;
    }
    put(source,
        *source ? " from the file"
        : small ? "for models of less than a billion weights"
                : "the usual ones",
        "");
    const char *before = "; not supported: ";
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++) {
        if (!asks_for(file, unsupported[i])) continue;
        put(source, unsupported[i], before);
        before = ", ";
    }
    return s;
}

/* ---- order ----------------------------------------------------------------------------------- */

/* On ties the lower id comes first, so the order is the same everywhere. */
static bool above(struct sampler_entry a, struct sampler_entry b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static int compare(const void *a, const void *b)
{
    const struct sampler_entry *x = a, *y = b;
    return above(*x, *y) ? -1 : above(*y, *x);
}

/* Restores the heap, lowest on top, after its top was replaced. */
static void sift(struct sampler_entry *heap, int n, int i)
{
    struct sampler_entry moving = heap[i];
    for (int child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && above(heap[child], heap[child + 1])) child++;
        if (!above(moving, heap[child])) break;
        heap[i] = heap[child];
    }
    heap[i] = moving;
}

/* ---- the chain ------------------------------------------------------------------------------- */

static bool seen_before(const int32_t *ids, int i)
{
    for (int k = 0; k < i; k++)
        if (ids[k] == ids[i]) return true;
    return false;
}

static void penalize(const struct sampling *s, float *logits, int n_vocab, const int32_t *recent,
                     int n_recent)
{
    int n = s->repeat_last < SAMPLER_HISTORY ? s->repeat_last : SAMPLER_HISTORY;
    if (n > n_recent) n = n_recent;
    if (s->repeat_penalty == 1 || n <= 0) return;
    const int32_t *ids = recent + (n_recent - n);
    for (int i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= n_vocab || seen_before(ids, i)) continue;
        float *l = &logits[ids[i]];
        *l = *l > 0 ? *l / s->repeat_penalty : *l * s->repeat_penalty;
    }
}

/* The first of the largest; NaN is never larger. Eight independent maxima: with one, each
 * comparison would wait for the one before. */
static struct sampler_entry largest(const float *logits, int n)
{
    float max[8];
    for (int k = 0; k < 8; k++) max[k] = -INFINITY;
    int i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++) max[k] = logits[i + k] > max[k] ? logits[i + k] : max[k];
    for (; i < n; i++) max[0] = logits[i] > max[0] ? logits[i] : max[0];
    for (int k = 1; k < 8; k++) max[0] = max[k] > max[0] ? max[k] : max[0];
    for (i = 0; i < n && logits[i] != max[0]; i++) {
    }
    return (struct sampler_entry){max[0], i < n ? i : 0};
}

/* The k largest of the logits that are at least `floor` and not -inf, in any order; returns
 * how many. */
static int select_top(const float *logits, int n, int k, float floor, struct sampler_entry *out)
{
    int n_out = 0, i = 0;
    for (; i < n && n_out < k; i++)
        if (logits[i] >= floor && logits[i] != -INFINITY)
            out[n_out++] = (struct sampler_entry){logits[i], i};
    if (i == n) return n_out;
    for (int j = k / 2 - 1; j >= 0; j--) sift(out, k, j);
    for (; i < n; i++) {
        if (!(logits[i] > out[0].logit)) continue; /* on ties the lower id wins */
        out[0] = (struct sampler_entry){logits[i], i};
        sift(out, k, 0);
    }
    return n_out;
}

/* Sum of exp(logit - max) over the candidates after top-k: top-p's share refers to it. */
static double total(const struct sampling *s, const float *logits, int n_vocab, float max,
                    const struct sampler_entry *kept, int n)
{
    double sum = 0;
    if (s->top_k > 0)
        for (int i = 0; i < n; i++) sum += exp((double)(kept[i].logit - max));
    else
        for (int i = 0; i < n_vocab; i++)
            if (logits[i] == logits[i]) sum += exp((double)(logits[i] - max));
    return sum;
}

/* The number of sorted candidates that make up the share top_p; at least one. */
static int cut_top_p(const struct sampling *s, double sum, const struct sampler_entry *sorted,
                     int n)
{
    if (s->top_p >= 1) return n;
    double share = 0;
    for (int i = 0; i < n; i++) {
        share += exp((double)(sorted[i].logit - sorted[0].logit)) / sum;
        if (share >= (double)s->top_p) return i + 1;
    }
    return n;
}

static void to_probabilities(float temperature, struct sampler_entry *sorted, int n)
{
    double sum = 0;
    float max = sorted[0].logit;
    for (int i = 0; i < n; i++) {
        double p = exp((double)(sorted[i].logit - max) / (double)temperature);
        sum += p;
        sorted[i].logit = (float)p;
    }
    for (int i = 0; i < n; i++) sorted[i].logit = (float)(sorted[i].logit / sum);
}

static float floor_of(const struct sampling *s, float best)
{
    return s->min_p > 0 ? best + logf(s->min_p < 1 ? s->min_p : 1) : -INFINITY;
}

/* Applies top-p and min-p to sorted candidates and returns their number; sum as in total(). */
static int cut(const struct sampling *s, double sum, struct sampler_entry *sorted, int n)
{
    float floor = floor_of(s, sorted[0].logit);
    n = cut_top_p(s, sum, sorted, n);
    while (n > 1 && sorted[n - 1].logit < floor) n--;
    to_probabilities(s->temperature, sorted, n);
    return n;
}

int sampler_candidates(const struct sampling *s, float *logits, int n_vocab, const int32_t *recent,
                       int n_recent, struct sampler_entry *scratch)
{
    penalize(s, logits, n_vocab, recent, n_recent);
    struct sampler_entry best = largest(logits, n_vocab);
    if (s->temperature <= 0 || !isfinite(best.logit)) {
        scratch[0] = (struct sampler_entry){1, best.id};
        return 1;
    }
    /* min-p follows top-p, whose share refers to all candidates after top-k: with top-k on, no
     * candidate may be dropped early. */
    float floor = s->top_k > 0 ? -INFINITY : floor_of(s, best.logit);
    int k = s->top_k > 0 && s->top_k < n_vocab ? s->top_k : n_vocab;
    int n = select_top(logits, n_vocab, k, floor, scratch);
    qsort(scratch, (size_t)n, sizeof *scratch, compare);
    double sum = s->top_p < 1 ? total(s, logits, n_vocab, best.logit, scratch, n) : 0;
    return cut(s, sum, scratch, n);
}

static int32_t draw(const struct sampling *s, const struct sampler_entry *candidates, int n,
                    uint64_t position)
{
    double u = random_at(s->seed, STREAM_DRAW, position), sum = 0;
    for (int i = 0; i < n; i++) {
        sum += (double)candidates[i].logit;
        if (u < sum) return candidates[i].id;
    }
    return candidates[0].id; /* rounding: probabilities add up to a little less than 1 */
}

int32_t sampler_draw(const struct sampling *s, float *logits, int n_vocab, const int32_t *recent,
                     int n_recent, uint64_t position, struct sampler_entry *scratch)
{
    int n = sampler_candidates(s, logits, n_vocab, recent, n_recent, scratch);
    return draw(s, scratch, n, position);
}

int32_t sampler_draw_sorted(const struct sampling *s, struct sampler_entry *sorted, int n,
                            uint64_t position)
{
    if (s->temperature <= 0 || !isfinite(sorted[0].logit)) return sorted[0].id;
    double sum = s->top_p < 1 ? total(s, NULL, 0, sorted[0].logit, sorted, n) : 0;
    n = cut(s, sum, sorted, n);
    return draw(s, sorted, n, position);
}

/* Tokens less likely than e^-20 times the likeliest do not change its probability. */
#define SMALL 20.0f

int32_t sampler_likeliest(const float *logits, int n, double *p)
{
    int32_t best = 0;
    double sum = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    for (int i = 0; i < n; i++)
        if (logits[i] > logits[best] - SMALL) sum += exp((double)(logits[i] - logits[best]));
    *p = 1 / sum;
    return best;
}

double sampler_nats(const float *logits, int n, int32_t id)
{
    double max = logits[0], sum = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > max) max = logits[i];
    for (int i = 0; i < n; i++) sum += exp(logits[i] - max);
    return max + log(sum) - logits[id];
}
