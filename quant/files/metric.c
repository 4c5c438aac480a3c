#include "quant/files/metric.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "quant/files/exam.h"
#include "quant/files/extract.h"
#include "quant/files/rouge.h"
#include "quant/files/stem.h"
#include "quant/files/wide.h"

/* ---- words ----------------------------------------------------------------------------------- */

static const char *const articles[] = {"a", "an", "the", NULL};
static const char *const articles_and[] = {"a", "an", "the", "and", NULL};

/* Lower case, no punctuation, no articles (SQuAD's normalize_answer), in words. */
static void read_words(const char *text, const char *const *without, struct wide *w,
                       struct words *out)
{
    wide_read(w, text);
    wide_lower(w);
    wide_remove(w, wide_is_punctuation);
    wide_blank_words(w, without);
    words_split(out, w);
}

/* A prediction and an answer in numbered words. */
struct pair {
    struct wide text[2];
    struct words words[2];
};

static void pair_release(struct pair *p)
{
    for (int i = 0; i < 2; i++) {
        wide_release(&p->text[i]);
        words_release(&p->words[i]);
    }
}

static void read_pair(struct pair *p, const char *prediction, const char *answer)
{
    *p = (struct pair){0};
    read_words(prediction, articles, &p->text[0], &p->words[0]);
    read_words(answer, articles, &p->text[1], &p->words[1]);
    words_number(&p->words[0], &p->words[1]);
}

static double f1(const char *prediction, const char *answer)
{
    struct pair p;
    read_pair(&p, prediction, answer);
    double f = words_f1(&p.words[0], &p.words[1]);
    pair_release(&p);
    return f;
}

/* Whether the words of the second are in a row in the first; same: and no other words. */
static bool has_words(const struct pair *p, bool same)
{
    const struct words *in = &p->words[0], *part = &p->words[1];
    if (same && in->n != part->n) return false;
    for (size_t i = 0; i + part->n <= in->n; i++) {
        size_t k = 0;
        while (k < part->n && in->item[i + k].id == part->item[k].id) k++;
        if (k == part->n) return true;
    }
    return false;
}

static double exact(const char *prediction, const char *answer)
{
    struct pair p;
    read_pair(&p, prediction, answer);
    bool same = has_words(&p, true);
    pair_release(&p);
    return same;
}

static double contains_words(const char *prediction, const char *answer)
{
    struct pair p;
    read_pair(&p, prediction, answer);
    bool has = has_words(&p, false);
    pair_release(&p);
    return has;
}

/* Punctuation of ASCII and of Chinese texts. */
static bool is_chinese_punctuation(uint32_t c)
{
    static const char list[] =
        "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､、〃》「」『』"
        "【】〔〕〖〗〘〙〚〛〜〝〞〟〰〾〿–—‘’‛“”„‟…‧﹏.";
    struct wide w = {0};
    bool is = wide_is_punctuation(c);
    if (is || c < 0x2013) return is;
    wide_read(&w, list);
    for (size_t i = 0; i < w.n && !is; i++) is = w.c[i] == c;
    wide_release(&w);
    return is;
}

static void read_characters(const char *text, struct wide *w, struct words *out)
{
    wide_read(w, text);
    wide_lower(w);
    wide_remove(w, is_chinese_punctuation);
    wide_remove(w, wide_is_space);
    words_characters(out, w);
}

static double f1_characters(const char *prediction, const char *answer)
{
    struct pair p = {0};
    read_characters(prediction, &p.text[0], &p.words[0]);
    read_characters(answer, &p.text[1], &p.words[1]);
    words_number(&p.words[0], &p.words[1]);
    double f = words_f1(&p.words[0], &p.words[1]);
    pair_release(&p);
    return f;
}

/* ---- LoCoMo ---------------------------------------------------------------------------------- */

static double f1_stems(const char *prediction, const char *answer)
{
    struct pair p = {0};
    read_words(prediction, articles_and, &p.text[0], &p.words[0]);
    read_words(answer, articles_and, &p.text[1], &p.words[1]);
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < p.words[k].n; i++) stem_word(&p.text[k], &p.words[k], i);
    words_number(&p.words[0], &p.words[1]);
    double f = words_f1(&p.words[0], &p.words[1]);
    pair_release(&p);
    return f;
}

/* The text between the commas from *at on; false at the end. */
static bool next_part(const char **at, struct str *out)
{
    if (!*at) return false;
    size_t n = strcspn(*at, ",");
    str_clear(out);
    str_append(out, *at, n);
    *at = (*at)[n] ? *at + n + 1 : NULL;
    return true;
}

/* Answers that are lists: for each part of the right one the best part of the prediction. */
static double f1_stem_lists(const char *prediction, const char *answer)
{
    struct str right = {0}, said = {0};
    double sum = 0;
    int n = 0;
    for (const char *at = answer; next_part(&at, &right); n++) {
        double best = 0;
        for (const char *from = prediction; next_part(&from, &said);) {
            double f = f1_stems(str_get(&said), str_get(&right));
            if (f > best) best = f;
        }
        sum += best;
    }
    str_release(&right);
    str_release(&said);
    return sum / n;
}

/* ---- substrings ------------------------------------------------------------------------------ */

static double contains(const char *prediction, const char *answer)
{
    struct wide p = {0}, a = {0};
    wide_read(&p, prediction);
    wide_read(&a, answer);
    wide_lower(&p);
    wide_lower(&a);
    bool has = wide_contains(&p, &a);
    wide_release(&p);
    wide_release(&a);
    return has;
}

/* RULER's string_match_all: the share of the answers. */
static void contains_all(const struct metric_input *in, struct metric_score *out)
{
    for (int i = 0; i < in->n_answers; i++)
        out->value += contains(in->prediction, in->answers[i]) / in->n_answers;
}

/* ---- summaries and code ---------------------------------------------------------------------- */

static double rouge_words(const char *prediction, const char *answer)
{
    return rouge_summary(prediction, answer, false);
}

static double rouge_characters(const char *prediction, const char *answer)
{
    return rouge_summary(prediction, answer, true);
}

static double rouge_1(const char *prediction, const char *answer)
{
    return rouge_n(prediction, answer, 1);
}

static void rouge_three(const struct metric_input *in, struct metric_score *out)
{
    out->n_parts = 3;
    for (int i = 0; i < in->n_answers; i++) {
        const char *p = in->prediction, *a = in->answers[i];
        double f[] = {rouge_n(p, a, 1), rouge_n(p, a, 2), rouge_l(p, a)};
        for (int k = 0; k < 3; k++)
            if (f[k] > out->parts[k]) out->parts[k] = f[k];
    }
    out->value = cbrt(out->parts[0] * out->parts[1] * out->parts[2]);
}

/* Twice the longest common subsequence by both lengths, in whole percent (fuzz.ratio). */
static double similarity(const struct wide *a, const struct wide *b)
{
    size_t *row = memory_new(b->n + 1, sizeof *row);
    for (size_t i = 0; i < a->n; i++)
        for (size_t j = 0, diagonal = 0; j < b->n; j++) {
            size_t up = row[j + 1];
            if (a->c[i] == b->c[j])
                row[j + 1] = diagonal + 1;
            else if (row[j] > up)
                row[j + 1] = row[j];
            diagonal = up;
        }
    double both = (double)(a->n + b->n), distance = both - 2 * (double)row[b->n];
    free(row);
    return nearbyint(100 * (1 - distance / both)) / 100;
}

static bool is_code(const char *line, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (line[i] == '`' || line[i] == '#' || (i + 1 < n && line[i] == '/' && line[i + 1] == '/'))
            return false;
    return true;
}

/* The first line that is no comment and no mark of Markdown. */
static double code_similarity(const char *prediction, const char *answer)
{
    struct wide p = {0}, a = {0};
    struct str line = {0};
    const char *at = prediction + strspn(prediction, "\n");
    for (size_t n; !line.n; at += n + 1) {
        n = strcspn(at, "\n");
        bool code = is_code(at, n);
        if (code) str_append(&line, at, n);
        if (code || !at[n]) break;
    }
    wide_read(&p, str_get(&line));
    wide_read(&a, answer);
    double score = wide_equal(&p, &a) ? 1 : p.n && a.n ? similarity(&p, &a) : 0;
    wide_release(&p);
    wide_release(&a);
    str_release(&line);
    return score;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct metric table[] = {
    {"contains", contains, NULL, "the answer is in the prediction (RULER: string_match_part)"},
    {"contains-all", NULL, contains_all,
     "the share of the answers in it (RULER: string_match_all)"},
    {"contains-words", contains_words, NULL, "the same without case, punctuation and articles"},
    {"exact", exact, NULL, "SQuAD's exact match"},
    {"f1", f1, NULL, "SQuAD's F1 of words (InfiniteBench, LongBench, L-Eval)"},
    {"f1-characters", f1_characters, NULL, "F1 of characters, for Chinese (InfiniteBench)"},
    {"f1-stems", f1_stems, NULL, "F1 of stems of words (LoCoMo)"},
    {"f1-stem-lists", f1_stem_lists, NULL, "the same for answers that are lists (LoCoMo)"},
    {"abstention", NULL, extract_abstention, "it says that there is no information (LoCoMo)"},
    {"rouge-l", rouge_words, NULL, "package rouge, rouge-l (LongBench)"},
    {"rouge-l-characters", rouge_characters, NULL, "the same of characters, for Chinese"},
    {"rouge-1", rouge_1, NULL, "package rouge_score, rouge1 (needle in a haystack)"},
    {"rouge-lsum", rouge_lsum, NULL, "package rouge_score, rougeLsum (InfiniteBench)"},
    {"rouge-123l", NULL, rouge_three, "geometric mean of rouge1, rouge2, rougeL (L-Eval)"},
    {"edit", code_similarity, NULL, "similarity of the first line of code (LongBench)"},
    {"class", NULL, extract_class, "the right one of the names of classes (LongBench)"},
    {"count", extract_count, NULL, "the share of numbers that are right (LongBench)"},
    {"paragraph", extract_paragraph, NULL, "the same for the number of a paragraph (LongBench)"},
    {"letter", extract_letter_v2, NULL, "\"The correct answer is (B)\" (LongBench v2)"},
    {"first-number", extract_first_number, NULL, "the first number (InfiniteBench)"},
    {"word", extract_word, NULL, "one of the words (InfiniteBench)"},
    {"speaker", extract_speaker, NULL, "one of the words, in capitals (InfiniteBench)"},
    {"last-integer", extract_last_integer, NULL, "the last word (InfiniteBench)"},
    {"value", extract_value, NULL, "the first number, as a number (InfiniteBench)"},
    {"choice", NULL, extract_choice, "the letter or text of an option (InfiniteBench)"},
    {"function", NULL, extract_function, "the letter or name of a function (InfiniteBench)"},
    {"series", NULL, extract_series, "the share of numbers before a wrong one (InfiniteBench)"},
    {"exam", exam_match, NULL, "L-Eval's exact match"},
    {"exam-option", exam_option, NULL, "L-Eval: one letter"},
    {"exam-options", exam_options, NULL, "L-Eval: letters (coursera)"},
    {"exam-math", exam_math, NULL, "L-Eval: the number (gsm100)"},
    {"exam-code", exam_code, NULL, "L-Eval: the output (codeU)"},
    {"exam-loyalty", exam_loyalty, NULL, "L-Eval: true or false (sci_fi)"},
    {"exam-fact", exam_fact, NULL, "L-Eval: true or false without the document (sci_fi)"},
};

const struct metric *metric_at(int i)
{
    return i >= 0 && i < (int)(sizeof table / sizeof *table) ? &table[i] : NULL;
}

const struct metric *metric_named(const char *name)
{
    for (int i = 0; metric_at(i); i++)
        if (!strcmp(table[i].name, name)) return &table[i];
    return NULL;
}

void metric_names(struct str *out)
{
    for (int i = 0; metric_at(i); i++) str_printf(out, "%s%s", i ? ", " : "", table[i].name);
}

struct metric_score metric_score(const struct metric *m, const struct metric_input *in)
{
    struct metric_score out = {0};
    if (m->all) {
        m->all(in, &out);
        return out;
    }
    for (int i = 0; i < in->n_answers; i++) {
        double score = m->pair(in->prediction, in->answers[i]);
        if (score > out.value) out.value = score;
    }
    return out;
}
