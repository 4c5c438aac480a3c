#include "quant/files/exam.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "quant/files/wide.h"

static bool is_option(uint32_t c)
{
    return c >= 'A' && c <= 'D';
}

/* Without punctuation and articles, one space between words; capitals stay. */
static void normalize(struct wide *w)
{
    static const char *const articles[] = {"a", "an", "the", NULL};
    struct words words = {0};
    size_t n = 0;
    wide_remove(w, wide_is_punctuation);
    wide_blank_words(w, articles);
    words_split(&words, w);
    for (size_t i = 0; i < words.n; i++) {
        if (i) w->c[n++] = ' ';
        memmove(w->c + n, w->c + words.item[i].at, words.item[i].n * sizeof *w->c);
        n += words.item[i].n;
    }
    w->n = n;
    words_release(&words);
}

static bool has_all(const struct wide *of, const struct wide *in)
{
    for (size_t i = 0; i < of->n; i++) {
        size_t k = 0;
        while (k < in->n && in->c[k] != of->c[i]) k++;
        if (k == in->n) return false;
    }
    return true;
}

/* The number that the whole text is; false: it is none. Python's float(): no hexadecimal. */
static bool read_number(const struct wide *w, double *out)
{
    char text[64], *end;
    struct wide copy = {memory_new(w->n + 1, sizeof *w->c), w->n};
    for (size_t i = 0; i < w->n; i++) copy.c[i] = w->c[i];
    wide_strip(&copy);
    bool fits = copy.n > 0 && copy.n < sizeof text;
    for (size_t i = 0; fits && i < copy.n; i++) {
        fits = copy.c[i] < 128 && copy.c[i] && copy.c[i] != 'x' && copy.c[i] != 'X' &&
               copy.c[i] != '(' && copy.c[i] > ' ';
        text[i] = (char)copy.c[i];
    }
    if (fits) {
        text[copy.n] = 0;
        *out = strtod(text, &end);
        fits = end == text + copy.n;
    }
    wide_release(&copy);
    return fits;
}

static bool is_blank(uint32_t c)
{
    return c == ' ';
}

/* em.py's exact_match_score; both texts are changed. */
static double match(struct wide *prediction, struct wide *answer)
{
    struct wide letters = {memory_new(answer->n + 1, sizeof *answer->c), answer->n};
    double said, right, score;
    bool options = true;
    for (size_t i = 0; i < answer->n; i++) letters.c[i] = answer->c[i];
    normalize(&letters);
    for (size_t i = 0; i < letters.n; i++) options = options && is_option(letters.c[i]);
    if (options) {
        normalize(prediction);
        score = wide_equal(prediction, &letters) ? 1 : has_all(prediction, &letters) ? 0.25 : 0;
    } else if (read_number(prediction, &said) && read_number(answer, &right)) {
        score = said == right;
    } else {
        wide_lower(prediction);
        wide_lower(answer);
        wide_remove(prediction, is_blank);
        wide_remove(answer, is_blank);
        score = wide_contains(prediction, answer);
    }
    wide_release(&letters);
    return score;
}

/* What each task takes from the prediction and from the answer before they are compared. */
struct reading {
    void (*prediction)(struct wide *w, const struct wide *answer);
    void (*answer)(struct wide *w);
};

static double compare(const char *prediction, const char *answer, const struct reading *r)
{
    struct wide p = {0}, a = {0};
    wide_read(&p, prediction);
    wide_read(&a, answer);
    if (r->prediction) r->prediction(&p, &a);
    if (r->answer) r->answer(&a);
    double score = match(&p, &a);
    wide_release(&p);
    wide_release(&a);
    return score;
}

double exam_match(const char *prediction, const char *answer)
{
    return compare(prediction, answer, &(struct reading){NULL, NULL});
}

/* ---- letters --------------------------------------------------------------------------------- */

static void put(struct wide *w, const char *ascii)
{
    wide_read(w, ascii);
}

/* The letters A to D that are set, in order. */
static void put_letters(struct wide *w, unsigned set)
{
    char text[5];
    int n = 0;
    for (int i = 0; i < 4; i++)
        if (set & (1u << i)) text[n++] = (char)('A' + i);
    text[n] = 0;
    put(w, text);
}

static bool all_space(const struct wide *w)
{
    for (size_t i = 0; i < w->n; i++)
        if (!wide_is_space(w->c[i])) return false;
    return true;
}

/* Nothing but a part of "ABCD", which stays as it is. */
static bool is_part_of_abcd(const struct wide *w)
{
    for (size_t i = 0; i < w->n; i++)
        if (!is_option(w->c[i]) || w->c[i] != w->c[0] + i) return false;
    return true;
}

/* The letters in the first word of the answer. */
static void answer_letters(struct wide *w)
{
    size_t from = 0, n = 0;
    while (from < w->n && wide_is_space(w->c[from])) from++;
    for (size_t i = from; i < w->n && !wide_is_space(w->c[i]); i++)
        if (is_option(w->c[i])) w->c[n++] = w->c[i];
    w->n = n;
    if (!n) put(w, "A");
}

/* Letters behind which a space, a point or a bracket follows, before the word "Question". */
static unsigned marked_letters(const struct wide *w, size_t from)
{
    unsigned set = 0;
    size_t end = wide_find(w, from, "Question");
    for (size_t i = from; i + 1 < end; i++) {
        uint32_t next = w->c[i + 1];
        if (is_option(w->c[i]) && (wide_is_space(next) || next == '.' || next == ')'))
            set |= 1u << (w->c[i] - 'A');
    }
    return set;
}

/* The first letters in a row, in the order they have, with repetitions. */
static void put_first_row(struct wide *w, size_t from)
{
    size_t end = wide_find(w, from, "Question"), n = 0;
    while (from < end && !is_option(w->c[from])) from++;
    for (; from < end && is_option(w->c[from]); from++) w->c[n++] = w->c[from];
    w->n = n;
    if (!n) put(w, "A");
}

static void said_options(struct wide *w, const struct wide *answer)
{
    size_t n = 0;
    unsigned set = 0;
    (void)answer;
    if (all_space(w)) {
        put(w, "None");
        return;
    }
    if (is_part_of_abcd(w)) return;
    for (; n < w->n && is_option(w->c[n]); n++) set |= 1u << (w->c[n] - 'A');
    unsigned marked = n > 1 ? 0 : marked_letters(w, n);
    if (set | marked)
        put_letters(w, set | marked);
    else
        put_first_row(w, n);
}

static void said_option(struct wide *w, const struct wide *answer)
{
    if (!all_space(w) && !is_part_of_abcd(w))
        for (size_t i = 0; i < w->n; i++)
            if (is_option(w->c[i])) {
                wide_cut(w, i, i + 1);
                return;
            }
    said_options(w, answer);
}

double exam_option(const char *prediction, const char *answer)
{
    return compare(prediction, answer, &(struct reading){said_option, answer_letters});
}

double exam_options(const char *prediction, const char *answer)
{
    return compare(prediction, answer, &(struct reading){said_options, answer_letters});
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* The last word with a digit, words ending at single spaces, of the first paragraph. */
static void cut_last_number(struct wide *w)
{
    size_t end = wide_find(w, 0, "\n\n");
    wide_cut(w, 0, end);
    for (end = w->n;;) {
        size_t from = end;
        bool digit = false;
        while (from > 0 && w->c[from - 1] != ' ') from--, digit |= wide_is_digit(w->c[from]);
        if (digit) {
            wide_cut(w, from, end);
            return;
        }
        if (!from) break;
        end = from - 1;
    }
    w->n = 0;
}

/* The word after "The answer is ", else the last number; its digits up to a point. */
static void cut_math(struct wide *w)
{
    static const char phrase[] = "The answer is ";
    size_t at = wide_find(w, 0, phrase), n = 0;
    while (at < w->n && (at + strlen(phrase) == w->n || wide_is_space(w->c[at + strlen(phrase)])))
        at = wide_find(w, at + 1, phrase);
    if (at < w->n) {
        size_t end = at += strlen(phrase);
        while (end < w->n && !wide_is_space(w->c[end])) end++;
        wide_cut(w, at, end);
    } else {
        cut_last_number(w);
    }
    for (size_t i = 0; i < w->n && w->c[i] != '.'; i++)
        if (wide_is_digit(w->c[i])) w->c[n++] = w->c[i];
    w->n = n;
}

static void said_math(struct wide *w, const struct wide *answer)
{
    (void)answer;
    cut_math(w);
}

double exam_math(const char *prediction, const char *answer)
{
    return compare(prediction, answer, &(struct reading){said_math, cut_math});
}

/* ---- code ------------------------------------------------------------------------------------ */

/* Replaces an ASCII text by one that is not longer, from left to right. */
static void replace(struct wide *w, const char *text, const char *by)
{
    size_t n = 0, length = strlen(text);
    for (size_t i = 0, at; i < w->n;) {
        at = wide_find(w, i, text);
        while (i < at) w->c[n++] = w->c[i++];
        if (at >= w->n) break;
        for (const char *s = by; *s; s++) w->c[n++] = (unsigned char)*s;
        i = at + length;
    }
    w->n = n;
}

static void clean_code(struct wide *w)
{
    static const char *const replaced[][2] = {
        {",", ""}, {"'", ""}, {"\\", ""}, {".0", ""}, {"] [", "]["}, {"[ [", "[["}, {"] ]", "]]"}};
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++) {
        bool space = wide_is_space(w->c[i]);
        if (!space || !n || w->c[n - 1] != ' ') w->c[n++] = space ? ' ' : w->c[i];
    }
    w->n = n;
    for (size_t i = 0; i < sizeof replaced / sizeof *replaced; i++)
        replace(w, replaced[i][0], replaced[i][1]);
}

/* Words as re.split(r"\s+") gives them: white space at an end leaves an empty one. */
static void split_all(struct words *out, const struct wide *w)
{
    for (size_t i = 0, end;; i = end) {
        for (end = i; end < w->n && !wide_is_space(w->c[end]);) end++;
        words_add(out, w, i, end - i);
        if (end == w->n) return;
        while (end < w->n && wide_is_space(w->c[end])) end++;
    }
}

/* Keeps words [from, from + n), one space between them. */
static void keep_words(struct wide *w, const struct words *words, size_t from, size_t n)
{
    size_t to = 0;
    for (size_t i = from; i < words->n && i < from + n; i++) {
        if (i > from) w->c[to++] = ' ';
        memmove(w->c + to, w->c + words->item[i].at, words->item[i].n * sizeof *w->c);
        to += words->item[i].n;
    }
    w->n = to;
}

/* The words behind the last "the final output", else the last ones: three more than the answer
 * has. */
static void said_code(struct wide *w, const struct wide *answer)
{
    static const char *const fillers[] = {"will be",      "of the code",   "is",     "would be",
                                          "the value of", "the result of", "printed"};
    static const char phrase[] = "the final output";
    struct words words = {0}, right = {0};
    size_t after = 0;
    words_split(&right, answer);
    clean_code(w);
    for (size_t i = 0; i < sizeof fillers / sizeof *fillers; i++) replace(w, fillers[i], "");
    for (size_t at = wide_find(w, 0, phrase); at < w->n; at = wide_find(w, after, phrase))
        after = at + strlen(phrase);
    wide_cut(w, after, w->n);
    split_all(&words, w);
    size_t n = right.n + 3;
    keep_words(w, &words, after || words.n < n ? 0 : words.n - n, n);
    words_release(&words);
    words_release(&right);
}

double exam_code(const char *prediction, const char *answer)
{
    return compare(prediction, answer, &(struct reading){said_code, clean_code});
}

/* ---- true or false --------------------------------------------------------------------------- */

/* The first word of w that contains "true" or "false", as that word. */
static void said_truth(struct wide *w, const struct wide *answer)
{
    struct words words = {0};
    const char *said = "<error>";
    (void)answer;
    wide_lower(w);
    words_split(&words, w);
    for (size_t i = 0; i < words.n && *said == '<'; i++) {
        size_t end = words.item[i].at + words.item[i].n;
        if (wide_find(w, words.item[i].at, "true") + 4 <= end)
            said = "true";
        else if (wide_find(w, words.item[i].at, "false") + 5 <= end)
            said = "false";
    }
    put(w, said);
    words_release(&words);
}

static void right_loyalty(struct wide *w)
{
    wide_lower(w);
    wide_cut(w, 0, wide_find(w, 0, "[fact:"));
    wide_strip(w);
}

static void right_fact(struct wide *w)
{
    wide_lower(w);
    wide_cut(w, wide_find(w, 0, "[fact:") + 6, w->n);
    if (w->n) w->n--; /* the bracket */
    wide_strip(w);
}

double exam_loyalty(const char *prediction, const char *answer)
{
    return compare(prediction, answer, &(struct reading){said_truth, right_loyalty});
}

double exam_fact(const char *prediction, const char *answer)
{
    return compare(prediction, answer, &(struct reading){said_truth, right_fact});
}
