#include "quant/files/stem.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* A word being cut; no rule makes it longer than it was by more than two letters. */
struct stem {
    uint32_t *c;
    size_t n;
};

/* ---- conditions of the paper ----------------------------------------------------------------- */

static bool is_vowel_letter(uint32_t c)
{
    return c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u';
}

/* A y after a consonant is a vowel. */
static bool is_consonant(const struct stem *s, size_t i)
{
    bool negate = false;
    if (is_vowel_letter(s->c[i])) return false;
    for (; i > 0 && s->c[i] == 'y'; i--) negate = !negate;
    return !is_vowel_letter(s->c[i]) != negate;
}

/* m: how often a consonant follows a vowel, of the first n letters. */
static int measure(const struct stem *s, size_t n)
{
    int m = 0;
    bool before = true; /* a consonant */
    for (size_t i = 0; i < n; i++) {
        bool consonant = s->c[i] == 'y' ? i == 0 || !before : !is_vowel_letter(s->c[i]);
        m += consonant && i > 0 && !before;
        before = consonant;
    }
    return m;
}

/* *v* */
static bool has_vowel(const struct stem *s, size_t n)
{
    bool before = true;
    for (size_t i = 0; i < n; i++) {
        before = s->c[i] == 'y' ? i == 0 || !before : !is_vowel_letter(s->c[i]);
        if (!before) return true;
    }
    return false;
}

/* *d */
static bool ends_double(const struct stem *s)
{
    return s->n >= 2 && s->c[s->n - 1] == s->c[s->n - 2] && is_consonant(s, s->n - 1);
}

/* *o, of the first n letters; NLTK: two letters, a vowel and a consonant, end so, too. */
static bool ends_cvc(const struct stem *s, size_t n)
{
    if (n == 2) return !is_consonant(s, 0) && is_consonant(s, 1);
    if (n < 3) return false;
    uint32_t last = s->c[n - 1];
    return is_consonant(s, n - 3) && !is_consonant(s, n - 2) && is_consonant(s, n - 1) &&
           last != 'w' && last != 'x' && last != 'y';
}

static bool ends(const struct stem *s, const char *suffix)
{
    size_t n = strlen(suffix);
    if (n > s->n) return false;
    for (size_t i = 0; i < n; i++)
        if (s->c[s->n - n + i] != (unsigned char)suffix[i]) return false;
    return true;
}

static void put_end(struct stem *s, size_t n, const char *end)
{
    for (s->n = n; *end; end++) s->c[s->n++] = (unsigned char)*end;
}

/* ---- rules ----------------------------------------------------------------------------------- */

struct rule {
    const char *suffix, *by;
    enum { ALWAYS, M_OVER_0, M_OVER_1, M_OVER_1_ST, M_OVER_0_LESS_3 } when;
};

static bool holds(const struct stem *s, const struct rule *r, size_t n)
{
    switch (r->when) {
    case ALWAYS: return true;
    case M_OVER_0: return measure(s, n) > 0;
    case M_OVER_1: return measure(s, n) > 1;
    case M_OVER_1_ST: return measure(s, n) > 1 && (s->c[n - 1] == 's' || s->c[n - 1] == 't');
    case M_OVER_0_LESS_3: return measure(s, s->n - 3) > 0;
    }
    return false;
}

/* The first rule with this suffix decides, whether its condition holds or not. */
static void apply(struct stem *s, const struct rule *rules, size_t n_rules)
{
    for (size_t i = 0; i < n_rules; i++) {
        if (!ends(s, rules[i].suffix)) continue;
        size_t n = s->n - strlen(rules[i].suffix);
        if (holds(s, &rules[i], n)) put_end(s, n, rules[i].by);
        return;
    }
}

#define APPLY(s, rules) apply((s), (rules), sizeof(rules) / sizeof *(rules))

static void plurals(struct stem *s)
{
    static const struct rule rules[] = {
        {"sses", "ss", ALWAYS}, {"ies", "i", ALWAYS}, {"ss", "ss", ALWAYS}, {"s", "", ALWAYS}};
    if (s->n == 4 && ends(s, "ies"))
        put_end(s, 1, "ie");
    else
        APPLY(s, rules);
}

/* After -ed or -ing was removed. */
static void repair(struct stem *s)
{
    uint32_t last = s->c[s->n - 1];
    if (ends(s, "at") || ends(s, "bl") || ends(s, "iz"))
        put_end(s, s->n, "e");
    else if (ends_double(s))
        s->n -= last != 'l' && last != 's' && last != 'z';
    else if (measure(s, s->n) == 1 && ends_cvc(s, s->n))
        put_end(s, s->n, "e");
}

static void past_and_ing(struct stem *s)
{
    if (ends(s, "ied")) {
        put_end(s, s->n - 3, s->n == 4 ? "ie" : "i");
    } else if (ends(s, "eed")) {
        if (measure(s, s->n - 3) > 0) s->n--;
    } else {
        size_t cut = ends(s, "ed") ? 2 : ends(s, "ing") ? 3 : 0;
        if (!cut || !has_vowel(s, s->n - cut)) return;
        s->n -= cut;
        repair(s);
    }
}

static void long_suffixes(struct stem *s)
{
    static const struct rule rules[] = {
        {"ational", "ate", M_OVER_0},    {"tional", "tion", M_OVER_0}, {"enci", "ence", M_OVER_0},
        {"anci", "ance", M_OVER_0},      {"izer", "ize", M_OVER_0},    {"bli", "ble", M_OVER_0},
        {"alli", "al", M_OVER_0},        {"entli", "ent", M_OVER_0},   {"eli", "e", M_OVER_0},
        {"ousli", "ous", M_OVER_0},      {"ization", "ize", M_OVER_0}, {"ation", "ate", M_OVER_0},
        {"ator", "ate", M_OVER_0},       {"alism", "al", M_OVER_0},    {"iveness", "ive", M_OVER_0},
        {"fulness", "ful", M_OVER_0},    {"ousness", "ous", M_OVER_0}, {"aliti", "al", M_OVER_0},
        {"iviti", "ive", M_OVER_0},      {"biliti", "ble", M_OVER_0},  {"fulli", "ful", M_OVER_0},
        {"logi", "log", M_OVER_0_LESS_3}};
    while (ends(s, "alli") && measure(s, s->n - 4) > 0) s->n -= 2;
    APPLY(s, rules);
}

static void short_suffixes(struct stem *s)
{
    static const struct rule third[] = {{"icate", "ic", M_OVER_0}, {"ative", "", M_OVER_0},
                                        {"alize", "al", M_OVER_0}, {"iciti", "ic", M_OVER_0},
                                        {"ical", "ic", M_OVER_0},  {"ful", "", M_OVER_0},
                                        {"ness", "", M_OVER_0}};
    static const struct rule fourth[] = {
        {"al", "", M_OVER_1},   {"ance", "", M_OVER_1}, {"ence", "", M_OVER_1},
        {"er", "", M_OVER_1},   {"ic", "", M_OVER_1},   {"able", "", M_OVER_1},
        {"ible", "", M_OVER_1}, {"ant", "", M_OVER_1},  {"ement", "", M_OVER_1},
        {"ment", "", M_OVER_1}, {"ent", "", M_OVER_1},  {"ion", "", M_OVER_1_ST},
        {"ou", "", M_OVER_1},   {"ism", "", M_OVER_1},  {"ate", "", M_OVER_1},
        {"iti", "", M_OVER_1},  {"ous", "", M_OVER_1},  {"ive", "", M_OVER_1},
        {"ize", "", M_OVER_1}};
    APPLY(s, third);
    APPLY(s, fourth);
}

static void last_letters(struct stem *s)
{
    if (ends(s, "e")) {
        int m = measure(s, s->n - 1);
        s->n -= m > 1 || (m == 1 && !ends_cvc(s, s->n - 1));
    }
    if (ends(s, "ll") && measure(s, s->n - 1) > 1) s->n--;
}

/* ---- words ----------------------------------------------------------------------------------- */

static const char *exception(const struct stem *s)
{
    static const char *const pairs[][2] = {
        {"sky", "sky"},        {"skies", "sky"},        {"dying", "die"},
        {"lying", "lie"},      {"tying", "tie"},        {"news", "news"},
        {"innings", "inning"}, {"inning", "inning"},    {"outings", "outing"},
        {"outing", "outing"},  {"cannings", "canning"}, {"canning", "canning"},
        {"howe", "howe"},      {"proceed", "proceed"},  {"exceed", "exceed"},
        {"succeed", "succeed"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (strlen(pairs[i][0]) == s->n && ends(s, pairs[i][0])) return pairs[i][1];
    return NULL;
}

void stem_word(struct wide *text, struct words *w, size_t i)
{
    struct word *word = &w->item[i];
    struct stem s = {memory_new(word->n + 3, sizeof *s.c), word->n};
    if (word->n) memcpy(s.c, text->c + word->at, word->n * sizeof *s.c);
    const char *other = exception(&s);
    if (other) {
        put_end(&s, 0, other);
    } else if (s.n > 2) {
        plurals(&s);
        past_and_ing(&s);
        if (ends(&s, "y") && s.n > 2 && is_consonant(&s, s.n - 2)) s.c[s.n - 1] = 'i';
        long_suffixes(&s);
        short_suffixes(&s);
        last_letters(&s);
    }
    word->n = s.n <= word->n ? s.n : word->n; /* a stem is never longer than its word */
    memcpy(text->c + word->at, s.c, word->n * sizeof *s.c);
    free(s.c);
}
