#include "quant/files/metric.h"

#include <stdint.h>
#include <string.h>

#include <utf8proc.h>

#include "base/utf8.h"

/* ---- text, as Python's str sees it ----------------------------------------------------------- */

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

static bool contains(const char *prediction, const char *answer)
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
    {"contains", false, "the answer is in the prediction (RULER: string_match_part)"},
    {"contains-all", true, "the share of the answers in the prediction (RULER: string_match_all)"},
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
    int n = 0;
    for (int i = 0; i < n_answers; i++) n += contains(prediction, answers[i]);
    return m->all ? (double)n / n_answers : n > 0;
}
