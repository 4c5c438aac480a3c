#include "quant/files/wide.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/memory.h"
#include "base/utf8.h"

enum { REPLACEMENT = 0xFFFD };

void wide_read(struct wide *w, const char *utf8)
{
    size_t n = strlen(utf8);
    w->c = memory_grow(w->c, n + 1, sizeof *w->c);
    w->n = 0;
    for (size_t i = 0; i < n;) {
        int length = utf8_length(utf8 + i, n - i);
        w->c[w->n++] = length > 0 ? utf8_decode(utf8 + i, length) : REPLACEMENT;
        i += length > 0 ? (size_t)length : 1;
    }
}

void wide_release(struct wide *w)
{
    free(w->c);
    *w = (struct wide){0};
}

/* ---- characters ------------------------------------------------------------------------------ */

static utf8proc_category_t category(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c);
}

bool wide_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

static bool is_letter(uint32_t c)
{
    utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool wide_is_digit(uint32_t c)
{
    return category(c) == UTF8PROC_CATEGORY_ND;
}

bool wide_is_word(uint32_t c)
{
    utf8proc_category_t k = category(c);
    return c == '_' || is_letter(c) || (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO);
}

bool wide_is_punctuation(uint32_t c)
{
    return c > 0 && c < 128 && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", (int)c);
}

/* ---- changes --------------------------------------------------------------------------------- */

/* A capital sigma at the end of a word has its own small letter. */
static bool is_final_sigma(const struct wide *w, size_t i)
{
    return i > 0 && is_letter(w->c[i - 1]) && (i + 1 == w->n || !is_letter(w->c[i + 1]));
}

void wide_lower(struct wide *w)
{
    struct wide out = {memory_new(2 * w->n + 1, sizeof *w->c), 0};
    for (size_t i = 0; i < w->n; i++) {
        uint32_t c = w->c[i];
        if (c == 0x3A3)
            out.c[out.n++] = is_final_sigma(w, i) ? 0x3C2 : 0x3C3;
        else
            out.c[out.n++] = c == 0x130 ? 'i' : (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
        if (c == 0x130) out.c[out.n++] = 0x307;
    }
    wide_release(w);
    *w = out;
}

void wide_upper(struct wide *w)
{
    struct wide out = {memory_new(2 * w->n + 1, sizeof *w->c), 0};
    for (size_t i = 0; i < w->n; i++) {
        uint32_t c = w->c[i];
        out.c[out.n++] = c == 0xDF ? 'S' : (uint32_t)utf8proc_toupper((utf8proc_int32_t)c);
        if (c == 0xDF) out.c[out.n++] = 'S';
    }
    wide_release(w);
    *w = out;
}

void wide_cut(struct wide *w, size_t from, size_t end)
{
    if (end > w->n) end = w->n;
    if (from > end) from = end;
    if (from < end) memmove(w->c, w->c + from, (end - from) * sizeof *w->c);
    w->n = end - from;
}

void wide_strip(struct wide *w)
{
    size_t from = 0, end = w->n;
    while (from < end && wide_is_space(w->c[from])) from++;
    while (end > from && wide_is_space(w->c[end - 1])) end--;
    wide_cut(w, from, end);
}

void wide_remove(struct wide *w, bool (*is)(uint32_t c))
{
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++)
        if (!is(w->c[i])) w->c[n++] = w->c[i];
    w->n = n;
}

void wide_replace(struct wide *w, const char *characters, uint32_t by)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->c[i] && w->c[i] < 128 && strchr(characters, (int)w->c[i])) w->c[i] = by;
}

static bool is_at(const struct wide *w, size_t at, const char *ascii)
{
    size_t n = strlen(ascii);
    if (at > w->n || n > w->n - at) return false;
    for (size_t i = 0; i < n; i++)
        if (w->c[at + i] != (unsigned char)ascii[i]) return false;
    return true;
}

/* Whether one of the words is between at and end. */
static bool is_one_of(const struct wide *w, size_t at, size_t end, const char *const *words)
{
    for (; *words; words++)
        if (strlen(*words) == end - at && is_at(w, at, *words)) return true;
    return false;
}

void wide_blank_words(struct wide *w, const char *const *words)
{
    size_t n = 0;
    for (size_t i = 0, end; i < w->n; i = end) {
        bool word = wide_is_word(w->c[i]);
        for (end = i + 1; end < w->n && word && wide_is_word(w->c[end]);) end++;
        if (word && is_one_of(w, i, end, words))
            w->c[n++] = ' ';
        else
            for (size_t k = i; k < end; k++) w->c[n++] = w->c[k];
    }
    w->n = n;
}

/* ---- searches -------------------------------------------------------------------------------- */

size_t wide_find(const struct wide *w, size_t from, const char *ascii)
{
    for (size_t i = from; i < w->n; i++)
        if (is_at(w, i, ascii)) return i;
    return w->n;
}

bool wide_starts(const struct wide *w, size_t from, const struct wide *start)
{
    if (from > w->n || start->n > w->n - from) return false;
    return !start->n || !memcmp(w->c + from, start->c, start->n * sizeof *w->c);
}

bool wide_contains(const struct wide *w, const struct wide *part)
{
    for (size_t i = 0; i + part->n <= w->n; i++)
        if (wide_starts(w, i, part)) return true;
    return false;
}

bool wide_equal(const struct wide *a, const struct wide *b)
{
    return a->n == b->n && wide_starts(a, 0, b);
}

/* ---- words ----------------------------------------------------------------------------------- */

void words_release(struct words *w)
{
    free(w->item);
    *w = (struct words){0};
}

void words_add(struct words *w, const struct wide *text, size_t at, size_t n)
{
    if (w->n == w->max) {
        w->max = w->max ? 2 * w->max : 64;
        w->item = memory_grow(w->item, w->max, sizeof *w->item);
    }
    w->text = text;
    w->item[w->n++] = (struct word){.at = at, .n = n};
}

void words_split(struct words *w, const struct wide *text)
{
    for (size_t i = 0, end; i < text->n; i = end) {
        bool space = wide_is_space(text->c[i]);
        for (end = i + 1; end < text->n && wide_is_space(text->c[end]) == space;) end++;
        if (!space) words_add(w, text, i, end - i);
    }
}

void words_characters(struct words *w, const struct wide *text)
{
    for (size_t i = 0; i < text->n; i++) words_add(w, text, i, 1);
}

bool words_is(const struct words *w, size_t i, const struct wide *word)
{
    return w->item[i].n == word->n && wide_starts(w->text, w->item[i].at, word);
}

/* A word to be sorted. */
struct entry {
    const uint32_t *c;
    size_t n;
    uint32_t *id;
};

static int compare(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    for (size_t i = 0; i < x->n && i < y->n; i++)
        if (x->c[i] != y->c[i]) return x->c[i] < y->c[i] ? -1 : 1;
    return (x->n > y->n) - (x->n < y->n);
}

void words_number(struct words *a, struct words *b)
{
    struct words *lists[] = {a, b};
    struct entry *all = memory_new(a->n + b->n + 1, sizeof *all);
    size_t n = 0;
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < lists[k]->n; i++) {
            struct word *w = &lists[k]->item[i];
            all[n++] = (struct entry){lists[k]->text->c + w->at, w->n, &w->id};
        }
    qsort(all, n, sizeof *all, compare);
    uint32_t id = 0;
    for (size_t i = 0; i < n; i++) {
        if (i && compare(&all[i - 1], &all[i])) id++;
        *all[i].id = id;
    }
    free(all);
}

size_t words_common(const struct words *a, const struct words *b)
{
    size_t *left = memory_new(a->n + b->n + 1, sizeof *left), n = 0;
    for (size_t i = 0; i < b->n; i++) left[b->item[i].id]++;
    for (size_t i = 0; i < a->n; i++)
        if (left[a->item[i].id]) left[a->item[i].id]--, n++;
    free(left);
    return n;
}

double words_f1(const struct words *prediction, const struct words *answer)
{
    size_t common = words_common(prediction, answer);
    if (!common) return 0;
    double precision = (double)common / (double)prediction->n;
    double recall = (double)common / (double)answer->n;
    return 2 * precision * recall / (precision + recall);
}
