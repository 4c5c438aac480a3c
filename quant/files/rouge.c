#include "quant/files/rouge.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "quant/files/wide.h"

/* A text in words and sentences; sentence i is words [ends[i - 1], ends[i]). */
struct prose {
    struct wide text;
    struct words words;
    size_t *ends, n, max;
};

static void end_sentence(struct prose *p)
{
    if (p->n == p->max) {
        p->max = p->max ? 2 * p->max : 16;
        p->ends = memory_grow(p->ends, p->max, sizeof *p->ends);
    }
    p->ends[p->n++] = p->words.n;
}

static size_t sentence_start(const struct prose *p, size_t i)
{
    return i ? p->ends[i - 1] : 0;
}

static void prose_release(struct prose *p)
{
    wide_release(&p->text);
    words_release(&p->words);
    free(p->ends);
}

/* ---- the longest common subsequence ---------------------------------------------------------- */

struct range {
    const struct word *item;
    size_t n;
};

static struct range sentence(const struct prose *p, size_t i)
{
    size_t from = sentence_start(p, i), n = p->ends[i] - from;
    return (struct range){n ? p->words.item + from : NULL, n}; /* without words there is no list */
}

/* Lengths of the longest common subsequences of all beginnings: [(x.n + 1)][(y.n + 1)]. The caller
 * frees it. */
static uint32_t *lcs_table(struct range x, struct range y)
{
    size_t width = y.n + 1;
    uint32_t *t = memory_new((x.n + 1) * width, sizeof *t);
    for (size_t i = 1; i <= x.n; i++)
        for (size_t j = 1; j <= y.n; j++) {
            uint32_t up = t[(i - 1) * width + j], left = t[i * width + j - 1];
            t[i * width + j] = x.item[i - 1].id == y.item[j - 1].id ? t[(i - 1) * width + j - 1] + 1
                                                                    : (up > left ? up : left);
        }
    return t;
}

static size_t lcs_length(struct range x, struct range y)
{
    uint32_t *row = memory_new(y.n + 1, sizeof *row);
    for (size_t i = 0; i < x.n; i++)
        for (size_t j = 0, diagonal = 0; j < y.n; j++) {
            uint32_t up = row[j + 1];
            if (x.item[i].id == y.item[j].id)
                row[j + 1] = (uint32_t)diagonal + 1;
            else if (row[j] > up)
                row[j + 1] = row[j];
            diagonal = up;
        }
    size_t n = row[y.n];
    free(row);
    return n;
}

/* Marks which words of x one longest common subsequence has. Where both ways are as long, it goes
 * back in y if up_on_tie is false, else in x: the packages differ. */
static void lcs_mark(struct range x, struct range y, bool up_on_tie, bool *marks)
{
    uint32_t *t = lcs_table(x, y);
    size_t width = y.n + 1;
    for (size_t i = x.n, j = y.n; i && j;) {
        uint32_t up = t[(i - 1) * width + j], left = t[i * width + j - 1];
        if (x.item[i - 1].id == y.item[j - 1].id)
            marks[--i] = true, j--;
        else if (up > left || (up == left && up_on_tie))
            i--;
        else
            j--;
    }
    free(t);
}

/* ---- package rouge --------------------------------------------------------------------------- */

/* An empty sentence is no sentence, but one of white space is the empty word; so is one between two
 * points where characters are words, because those are put apart by spaces first. */
static void read_summary(struct prose *p, const char *text, bool characters)
{
    wide_read(&p->text, text);
    for (size_t i = 0, end; i < p->text.n; i = end + 1) {
        size_t before = p->words.n;
        for (end = i; end < p->text.n && p->text.c[end] != '.';) end++;
        if (end == i && (!characters || i == 0)) continue;
        for (size_t k = i, stop; k < end; k = stop) {
            bool space = wide_is_space(p->text.c[k]);
            for (stop = k + 1;
                 !characters && stop < end && wide_is_space(p->text.c[stop]) == space;)
                stop++;
            if (!space) words_add(&p->words, &p->text, k, stop - k);
        }
        if (p->words.n == before) words_add(&p->words, &p->text, i, 0);
        end_sentence(p);
    }
}

static size_t count_marks(const bool *marks, size_t n)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += marks[i];
    return sum;
}

static size_t count_distinct(const struct words *w, size_t n_ids)
{
    bool *seen = memory_new(n_ids + 1, sizeof *seen);
    for (size_t i = 0; i < w->n; i++) seen[w->item[i].id] = true;
    size_t n = count_marks(seen, n_ids);
    free(seen);
    return n;
}

/* The number of distinct words that any sentence of the answer has in order in any sentence of the
 * prediction. */
static size_t count_union(const struct prose *prediction, const struct prose *answer, size_t n_ids)
{
    bool *found = memory_new(n_ids + 1, sizeof *found);
    bool *marks = memory_new(answer->words.n + 1, sizeof *marks);
    for (size_t r = 0; r < answer->n; r++) {
        struct range x = sentence(answer, r);
        for (size_t h = 0; h < prediction->n; h++) {
            memset(marks, 0, x.n * sizeof *marks);
            lcs_mark(x, sentence(prediction, h), false, marks);
            for (size_t i = 0; i < x.n; i++)
                if (marks[i]) found[x.item[i].id] = true;
        }
    }
    size_t n = count_marks(found, n_ids);
    free(found);
    free(marks);
    return n;
}

double rouge_summary(const char *prediction, const char *answer, bool characters)
{
    struct prose p = {0}, a = {0};
    double f = 0;
    read_summary(&p, prediction, characters);
    read_summary(&a, answer, characters);
    if (p.n && a.n) {
        size_t n_ids = p.words.n + a.words.n;
        words_number(&p.words, &a.words);
        double common = (double)count_union(&p, &a, n_ids);
        double precision = common / (double)count_distinct(&p.words, n_ids);
        double recall = common / (double)count_distinct(&a.words, n_ids);
        f = 2 * precision * recall / (precision + recall + 1e-8);
    }
    prose_release(&p);
    prose_release(&a);
    return f;
}

/* ---- package rouge_score --------------------------------------------------------------------- */

static bool is_token(uint32_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static void read_prose(struct prose *p, const char *text)
{
    wide_read(&p->text, text);
    wide_lower(&p->text);
    for (size_t i = 0, end; i <= p->text.n; i = end + 1) {
        for (end = i; end < p->text.n && p->text.c[end] != '\n';) end++;
        if (end == i) continue;
        for (size_t k = i, stop; k < end; k = stop) {
            bool token = is_token(p->text.c[k]);
            for (stop = k + 1; stop < end && is_token(p->text.c[stop]) == token;) stop++;
            if (token) words_add(&p->words, &p->text, k, stop - k);
        }
        end_sentence(p);
    }
}

static void read_both(struct prose *p, struct prose *a, const char *prediction, const char *answer)
{
    read_prose(p, prediction);
    read_prose(a, answer);
    words_number(&p->words, &a->words);
}

static double f_of(size_t common, size_t n_prediction, size_t n_answer)
{
    if (!common) return 0;
    double precision = (double)common / (double)n_prediction;
    double recall = (double)common / (double)n_answer;
    return 2 * precision * recall / (precision + recall);
}

/* Gives each pair of neighbours the id of its first word, so that words_common counts pairs: the
 * pairs become words of two code points, the ids. */
static void pair_up(struct words *w, struct wide *ids, struct words *pairs)
{
    ids->c = memory_new(2 * w->n + 1, sizeof *ids->c);
    for (size_t i = 0; i + 1 < w->n; i++) {
        ids->c[ids->n] = w->item[i].id;
        ids->c[ids->n + 1] = w->item[i + 1].id;
        words_add(pairs, ids, ids->n, 2);
        ids->n += 2;
    }
}

static double rouge_2(struct prose *p, struct prose *a)
{
    struct wide ids[2] = {{0}, {0}};
    struct words pairs[2] = {{0}, {0}};
    pair_up(&p->words, &ids[0], &pairs[0]);
    pair_up(&a->words, &ids[1], &pairs[1]);
    words_number(&pairs[0], &pairs[1]);
    double f = f_of(words_common(&pairs[0], &pairs[1]), pairs[0].n, pairs[1].n);
    for (int i = 0; i < 2; i++) {
        wide_release(&ids[i]);
        words_release(&pairs[i]);
    }
    return f;
}

double rouge_n(const char *prediction, const char *answer, int n)
{
    struct prose p = {0}, a = {0};
    read_both(&p, &a, prediction, answer);
    double f =
        n == 2 ? rouge_2(&p, &a) : f_of(words_common(&p.words, &a.words), p.words.n, a.words.n);
    prose_release(&p);
    prose_release(&a);
    return f;
}

double rouge_l(const char *prediction, const char *answer)
{
    struct prose p = {0}, a = {0};
    read_both(&p, &a, prediction, answer);
    struct range x = {a.words.item, a.words.n}, y = {p.words.item, p.words.n};
    double f = f_of(lcs_length(x, y), p.words.n, a.words.n);
    prose_release(&p);
    prose_release(&a);
    return f;
}

/* No word counts more often than both texts have it. */
static size_t count_hits(const struct prose *p, const struct prose *a)
{
    size_t n_ids = p->words.n + a->words.n, hits = 0;
    size_t *left_p = memory_new(n_ids + 1, sizeof *left_p);
    size_t *left_a = memory_new(n_ids + 1, sizeof *left_a);
    bool *marks = memory_new(a->words.n + 1, sizeof *marks);
    for (size_t i = 0; i < p->words.n; i++) left_p[p->words.item[i].id]++;
    for (size_t i = 0; i < a->words.n; i++) left_a[a->words.item[i].id]++;
    for (size_t r = 0; r < a->n; r++) {
        struct range x = sentence(a, r);
        memset(marks, 0, x.n * sizeof *marks);
        for (size_t h = 0; h < p->n; h++) lcs_mark(x, sentence(p, h), true, marks);
        for (size_t i = 0; i < x.n; i++) {
            uint32_t id = x.item[i].id;
            if (!marks[i] || !left_p[id] || !left_a[id]) continue;
            hits++;
            left_p[id]--;
            left_a[id]--;
        }
    }
    free(left_p);
    free(left_a);
    free(marks);
    return hits;
}

double rouge_lsum(const char *prediction, const char *answer)
{
    struct prose p = {0}, a = {0};
    read_both(&p, &a, prediction, answer);
    double f = f_of(count_hits(&p, &a), p.words.n, a.words.n);
    prose_release(&p);
    prose_release(&a);
    return f;
}
