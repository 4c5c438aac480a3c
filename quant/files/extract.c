#include "quant/files/extract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/files/wide.h"

/* A prediction and an answer, read and in words. */
struct pair {
    struct wide prediction, answer;
    struct words words; /* of the prediction */
};

static void pair_read(struct pair *p, const char *prediction, const char *answer)
{
    *p = (struct pair){0};
    wide_read(&p->prediction, prediction);
    wide_read(&p->answer, answer);
}

static void pair_release(struct pair *p)
{
    wide_release(&p->prediction);
    wide_release(&p->answer);
    words_release(&p->words);
}

/* ---- InfiniteBench --------------------------------------------------------------------------- */

double extract_first_number(const char *prediction, const char *answer)
{
    static const char digits[] = "0123456789";
    const char *at = prediction + strcspn(prediction, digits);
    size_t n = strspn(at, digits);
    return n == strlen(answer) && !strncmp(at, answer, n);
}

/* Whether one of the words of the prediction, split at these characters too, is the answer. */
static bool has_word(struct pair *p, const char *split_at)
{
    wide_replace(&p->prediction, split_at, ' ');
    words_split(&p->words, &p->prediction);
    for (size_t i = 0; i < p->words.n; i++)
        if (words_is(&p->words, i, &p->answer)) return true;
    return false;
}

static const char marks[] = "\n:\"'.,?!{}";

double extract_word(const char *prediction, const char *answer)
{
    struct pair p;
    pair_read(&p, prediction, answer);
    bool found = has_word(&p, marks);
    pair_release(&p);
    return found;
}

double extract_speaker(const char *prediction, const char *answer)
{
    struct pair p;
    pair_read(&p, prediction, answer);
    wide_upper(&p.prediction);
    bool found = has_word(&p, marks);
    pair_release(&p);
    return found;
}

/* Digits of a whole number without sign and leading zeros; false: it is none. */
static bool read_integer(const struct wide *w, size_t at, size_t n, bool *negative, struct str *out)
{
    size_t i = at, end = at + n;
    *negative = i < end && w->c[i] == '-';
    if (i < end && (w->c[i] == '-' || w->c[i] == '+')) i++;
    if (i == end) return false;
    str_clear(out);
    for (; i < end; i++) {
        if (w->c[i] < '0' || w->c[i] > '9') return false;
        if (out->n || w->c[i] != '0') str_printf(out, "%c", (int)w->c[i]);
    }
    if (!out->n) *negative = false;
    return true;
}

double extract_last_integer(const char *prediction, const char *answer)
{
    struct pair p;
    struct str said = {0}, right = {0};
    bool negative[2], same = false;
    pair_read(&p, prediction, answer);
    wide_replace(&p.prediction, "\n.`'\":", ' ');
    words_split(&p.words, &p.prediction);
    if (p.words.n) {
        const struct word *last = &p.words.item[p.words.n - 1];
        same = read_integer(&p.prediction, last->at, last->n, &negative[0], &said) &&
               read_integer(&p.answer, 0, p.answer.n, &negative[1], &right) &&
               negative[0] == negative[1] && !strcmp(str_get(&said), str_get(&right));
    }
    str_release(&said);
    str_release(&right);
    pair_release(&p);
    return same;
}

double extract_value(const char *prediction, const char *answer)
{
    static const char digits[] = "0123456789";
    const char *at = prediction + strcspn(prediction, digits);
    size_t n = strspn(at, digits), fraction = at[n] == '.' ? strspn(at + n + 1, digits) : 0;
    char number[512], *end;
    if (!n) return 0;
    if (fraction) n += 1 + fraction;
    snprintf(number, sizeof number, "%.*s", (int)(n < sizeof number ? n : sizeof number - 1), at);
    double right = strtod(answer, &end);
    return end != answer && strtod(number, NULL) == right;
}

/* ---- options --------------------------------------------------------------------------------- */

/* Whether w has this text at `from`; whole: and nothing after it before `end`. */
static bool has_at(const struct wide *w, size_t from, size_t end, const char *utf8, bool whole)
{
    struct wide text = {0};
    wide_read(&text, utf8);
    bool is =
        wide_starts(w, from, &text) && text.n <= end - from && (!whole || text.n == end - from);
    wide_release(&text);
    return is;
}

/* Whether [from, end) is, or begins with, one of the answers. */
static bool is_answer(const struct metric_input *in, const struct wide *w, size_t from, size_t end,
                      bool whole)
{
    for (int i = 0; i < in->n_answers; i++)
        if (has_at(w, from, end, in->answers[i], whole)) return true;
    return false;
}

static void join_spaces(struct wide *w)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++)
        if (w->c[i] != ' ' || !n || w->c[n - 1] != ' ') w->c[n++] = w->c[i];
    w->n = n;
}

/* The first of the phrases that the text has decides: 1 = what follows it and one more character
 * begins with an answer, 0 = it does not; -1 = the text has none of them. */
static int follows_phrase(const struct metric_input *in, const struct wide *w,
                          const char *const *phrases)
{
    for (; *phrases; phrases++) {
        size_t at = wide_find(w, 0, *phrases) + strlen(*phrases) + 1;
        if (at - strlen(*phrases) - 1 == w->n) continue;
        return at <= w->n && is_answer(in, w, at, w->n, false);
    }
    return -1;
}

static bool is_letter(uint32_t c)
{
    return c >= 'A' && c <= 'D';
}

/* Whether the word is a part of "ABCD". */
static bool is_letters(const struct wide *w, const struct word *word)
{
    for (size_t i = 0; i < word->n; i++)
        if (!is_letter(w->c[word->at + i]) || (i && w->c[word->at + i] != w->c[word->at] + i))
            return false;
    return true;
}

static bool choose(const struct metric_input *in, struct wide *w)
{
    static const char *const phrases[] = {"answer is:", "answer:", "answer is", "option is", NULL};
    struct words words = {0};
    bool right = false;
    wide_strip(w);
    if (!w->n) return false;
    if (is_letter(w->c[0])) return is_answer(in, w, 0, 1, true);
    if (is_answer(in, w, 0, w->n, true)) return true;
    wide_replace(w, "\n\"'.,?!{}", ' ');
    join_spaces(w);
    int follows = follows_phrase(in, w, phrases);
    if (follows >= 0) return follows;
    words_split(&words, w);
    for (size_t i = 0; i < words.n; i++) {
        const struct word *word = &words.item[i];
        if (!is_letters(w, word)) continue;
        right = is_answer(in, w, word->at, word->at + word->n, true);
        break;
    }
    words_release(&words);
    return right;
}

void extract_choice(const struct metric_input *in, struct metric_score *out)
{
    struct wide w = {0};
    wide_read(&w, in->prediction);
    out->value = choose(in, &w);
    wide_release(&w);
}

static void blank(struct wide *w, const char *word)
{
    for (size_t at = wide_find(w, 0, word); at < w->n; at = wide_find(w, at, word))
        for (size_t i = 0; word[i]; i++) w->c[at + i] = ' ';
}

void extract_function(const struct metric_input *in, struct metric_score *out)
{
    static const char *const phrases[] = {
        "answer is:", "is:", "answer:", "correct option is:", NULL};
    const char *letter = in->answers[in->n_answers - 1];
    struct wide w = {0};
    wide_read(&w, in->prediction);
    wide_strip(&w);
    if (w.n >= 2 && (w.c[1] == '.' || w.c[1] == ':') && has_at(&w, 0, 1, letter, true)) {
        out->value = 1;
    } else {
        wide_replace(&w, "\n`'\"-*", ' ');
        blank(&w, "Option");
        blank(&w, "option");
        join_spaces(&w);
        out->value = follows_phrase(in, &w, phrases) == 1;
    }
    wide_release(&w);
}

void extract_series(const struct metric_input *in, struct metric_score *out)
{
    static const char digits[] = "0123456789";
    const char *at = in->prediction;
    int n = 0;
    for (; n < in->n_answers; n++) {
        const char *right = in->answers[n];
        at += strcspn(at, digits);
        size_t length = strspn(at, digits);
        if (!length) break;
        while (length > 1 && *at == '0') at++, length--;
        if (strlen(right) != length || strncmp(at, right, length)) break;
        at += length;
    }
    out->value = (double)n / in->n_answers;
}

/* ---- LongBench ------------------------------------------------------------------------------- */

/* The share of the numbers in the prediction that are this one. */
static double share_of_numbers(const struct wide *prediction, const struct wide *number)
{
    size_t n = 0, right = 0;
    for (size_t i = 0, end; i < prediction->n; i = end) {
        bool digit = wide_is_digit(prediction->c[i]);
        for (end = i + 1; end < prediction->n && digit && wide_is_digit(prediction->c[end]);) end++;
        if (!digit) continue;
        n++;
        right += end - i == number->n && wide_starts(prediction, i, number);
    }
    return n ? (double)right / (double)n : 0;
}

double extract_count(const char *prediction, const char *answer)
{
    struct pair p;
    pair_read(&p, prediction, answer);
    double share = share_of_numbers(&p.prediction, &p.answer);
    pair_release(&p);
    return share;
}

double extract_paragraph(const char *prediction, const char *answer)
{
    static const char *const names[] = {"Paragraph ", "\xE6\xAE\xB5\xE8\x90\xBD"};
    double share = 0;
    for (int i = 0; i < 2; i++) {
        const char *name = strstr(answer, names[i]);
        if (!name) continue;
        struct pair p;
        pair_read(&p, prediction, name + strlen(names[i]));
        size_t n = 0;
        while (n < p.answer.n && wide_is_digit(p.answer.c[n])) n++;
        wide_cut(&p.answer, 0, n);
        share = n ? share_of_numbers(&p.prediction, &p.answer) : 0;
        pair_release(&p);
        break;
    }
    return share;
}

double extract_letter_v2(const char *prediction, const char *answer)
{
    static const char *const phrases[] = {"The correct answer is (", "The correct answer is "};
    struct str text = {0};
    char letter = 0;
    for (const char *s = prediction; *s; s++)
        if (*s != '*') str_append(&text, s, 1);
    for (int i = 0; i < 2 && !letter; i++) {
        const char *at = str_get(&text);
        while (!letter && (at = strstr(at, phrases[i]))) {
            at += strlen(phrases[i]);
            if (*at >= 'A' && *at <= 'D' && (i || at[1] == ')')) letter = *at;
        }
    }
    str_release(&text);
    return letter && answer[0] == letter && !answer[1];
}

/* The names of classes in the prediction, less those that are part of the right one; it is removed
 * from the list while that is walked, so that the one after a removed one stays, as in metrics.py.
 */
static double class_share(const struct metric_input *in, const char *answer)
{
    const char **found = calloc((size_t)in->n_classes + 1, sizeof *found);
    int n = 0, has = 0;
    if (!found) return 0;
    for (int i = 0; i < in->n_classes; i++)
        if (strstr(in->prediction, in->classes[i])) found[n++] = in->classes[i];
    for (int i = 0; i < n; i++) {
        if (!strstr(answer, found[i]) || !strcmp(answer, found[i])) continue;
        int first = 0;
        while (strcmp(found[first], found[i]) != 0) first++;
        memmove(found + first, found + first + 1, (size_t)(n - first - 1) * sizeof *found);
        n--;
    }
    for (int i = 0; i < n; i++) has |= !strcmp(found[i], answer);
    free(found);
    return has ? 1.0 / n : 0;
}

void extract_class(const struct metric_input *in, struct metric_score *out)
{
    for (int i = 0; i < in->n_answers; i++) {
        double share = class_share(in, in->answers[i]);
        if (share > out->value) out->value = share;
    }
}

/* ---- LoCoMo ---------------------------------------------------------------------------------- */

/* classes: the two options (a) and (b) of the question, if it has any. */
void extract_abstention(const struct metric_input *in, struct metric_score *out)
{
    struct wide w = {0};
    wide_read(&w, in->prediction);
    wide_lower(&w);
    struct wide letter = {0};
    wide_read(&letter, in->prediction);
    wide_strip(&letter);
    wide_lower(&letter);
    if (in->n_classes == 2 && (letter.n == 1 || letter.n == 3)) {
        bool first = wide_find(&letter, 0, letter.n == 1 ? "a" : "(a)") < letter.n;
        wide_read(&w, in->classes[first ? 0 : 1]);
        wide_lower(&w);
    }
    out->value = wide_find(&w, 0, "no information available") < w.n ||
                 wide_find(&w, 0, "not mentioned") < w.n;
    wide_release(&letter);
    wide_release(&w);
}
