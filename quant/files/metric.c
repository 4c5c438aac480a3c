#include "quant/files/metric.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/memory.h"
#include "base/utf8.h"

/* ---- text, as Python's str and re see it ----------------------------------------------------- */

/* The character at *s, which moves past it; U+FFFD for a byte that is not UTF-8. */
static uint32_t next(const char **s)
{
    int n = utf8_length(*s, strlen(*s));
    uint32_t c = n > 0 ? utf8_decode(*s, n) : 0xFFFD;
    *s += n > 0 ? n : 1;
    return c;
}

static void put(struct str *out, uint32_t c)
{
    char utf8[4];
    str_append(out, utf8, (size_t)utf8_encode(c, utf8));
}

static bool is_letter(uint32_t c)
{
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

/* \w */
static bool is_word(uint32_t c)
{
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return c == '_' || is_letter(c) || (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO);
}

static bool is_punctuation(uint32_t c)
{
    return c > 0 && c < 128 && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", (int)c);
}

/* A capital sigma at the end of a word has its own small letter. */
static void lower(const char *s, struct str *out)
{
    for (uint32_t c, before = 0; *s; before = c) {
        c = next(&s);
        const char *behind = s;
        if (c == 0x3A3)
            put(out, is_letter(before) && !(*s && is_letter(next(&behind))) ? 0x3C2 : 0x3C3);
        else
            put(out, c == 0x130 ? 'i' : (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
        if (c == 0x130) put(out, 0x307);
    }
}

/* ---- words ----------------------------------------------------------------------------------- */

struct words {
    struct str text;   /* ends each word with a zero */
    const char **item; /* [n] */
    size_t n;
};

static bool is_article(const char *s)
{
    return !strcmp(s, "a") || !strcmp(s, "an") || !strcmp(s, "the");
}

/* Ends a run of word characters that began at `from`; an article becomes a space. */
static void end_run(struct str *text, size_t from)
{
    if (text->n == from || !is_article(text->data + from)) return;
    text->n = from;
    str_puts(text, " ");
}

/* Lower case, no punctuation, no articles (SQuAD's normalize_answer); white space becomes ' '. */
static void normalize(const char *s, struct str *out)
{
    struct str low = {0};
    size_t run = 0;
    lower(s, &low);
    for (const char *at = str_get(&low); *at;) {
        uint32_t c = next(&at);
        if (is_punctuation(c)) continue;
        if (!is_word(c)) end_run(out, run);
        put(out, utf8_is_space(c) ? ' ' : c);
        if (!is_word(c)) run = out->n;
    }
    end_run(out, run);
    str_release(&low);
}

static void read_words(const char *s, struct words *w)
{
    *w = (struct words){0};
    normalize(s, &w->text);
    w->item = memory_new(w->text.n + 1, sizeof *w->item);
    for (char *at = w->text.n ? w->text.data : NULL; at && *at;) {
        if (*at == ' ') {
            *at++ = 0;
            continue;
        }
        w->item[w->n++] = at;
        at += strcspn(at, " ");
    }
}

static void words_release(struct words *w)
{
    str_release(&w->text);
    free(w->item);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Words that both have, counted as often as in the one with fewer; sorts both. */
static size_t count_common(struct words *a, struct words *b)
{
    size_t n = 0;
    qsort(a->item, a->n, sizeof *a->item, by_text);
    qsort(b->item, b->n, sizeof *b->item, by_text);
    for (size_t i = 0, k = 0; i < a->n && k < b->n;) {
        int order = strcmp(a->item[i], b->item[k]);
        n += order == 0;
        i += order <= 0;
        k += order >= 0;
    }
    return n;
}

static double f1(const char *prediction, const char *answer)
{
    struct words p, a;
    read_words(prediction, &p);
    read_words(answer, &a);
    double common = (double)count_common(&p, &a), all = (double)(p.n + a.n);
    words_release(&p);
    words_release(&a);
    return common > 0 ? 2 * common / all : 0;
}

/* Whether the words of the answer follow each other in the prediction; same: and no others. */
static double has_words(const char *prediction, const char *answer, bool same)
{
    struct words p, a;
    bool has = false;
    read_words(prediction, &p);
    read_words(answer, &a);
    for (size_t i = 0; !has && i + a.n <= p.n && !(same && a.n != p.n); i++) {
        size_t k = 0;
        while (k < a.n && !strcmp(p.item[i + k], a.item[k])) k++;
        has = k == a.n;
    }
    words_release(&p);
    words_release(&a);
    return has;
}

static double exact(const char *prediction, const char *answer)
{
    return has_words(prediction, answer, true);
}

static double contains_words(const char *prediction, const char *answer)
{
    return has_words(prediction, answer, false);
}

static double contains(const char *prediction, const char *answer)
{
    struct str p = {0}, a = {0};
    lower(prediction, &p);
    lower(answer, &a);
    bool has = strstr(str_get(&p), str_get(&a)) != NULL;
    str_release(&p);
    str_release(&a);
    return has;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct metric table[] = {
    {"contains", contains, .about = "the answer is in the prediction (RULER: string_match_part)"},
    {"contains-all", contains, .all = true,
     .about = "the share of the answers in the prediction (RULER: string_match_all)"},
    {"contains-words", contains_words,
     .about = "the answer's words are in the prediction, without case, punctuation and articles"},
    {"exact", exact, .about = "SQuAD's exact match"},
    {"f1", f1, .about = "SQuAD's F1 of words"},
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

double metric_score(const struct metric *m, const char *prediction, const char *const *answers,
                    int n_answers)
{
    double best = 0, sum = 0;
    for (int i = 0; i < n_answers; i++) {
        double score = m->pair(prediction, answers[i]);
        if (score > best) best = score;
        sum += score;
    }
    return m->all ? sum / n_answers : best;
}
