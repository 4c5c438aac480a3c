#include "base/word.h"

#include <utf8proc.h>

#include "base/utf8.h"

enum kind { OTHER, LETTER, ALONE, QUOTE };

#define FNV_BEGIN 0xcbf29ce484222325u
#define FNV_PRIME 0x100000001b3u

/* Scripts without spaces: Thai to Burmese, Khmer, kana and ideographs. */
static bool is_alone(uint32_t c)
{
    return (c >= 0x0e00 && c < 0x10a0) || (c >= 0x1780 && c < 0x1800) ||
           (c >= 0x3040 && c < 0xa000) || (c >= 0xf900 && c < 0xfb00) || c >= 0x20000;
}

static enum kind kind_of(uint32_t c)
{
    if (c < 0x80) {
        const uint32_t small = c | 32;
        if ((small >= 'a' && small <= 'z') || (c >= '0' && c <= '9')) return LETTER;
        return c == '\'' ? QUOTE : OTHER;
    }
    if (c == 0x2019) return QUOTE;
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    if (k < UTF8PROC_CATEGORY_LU || k > UTF8PROC_CATEGORY_NO) return OTHER;
    return is_alone(c) ? ALONE : LETTER;
}

static uint32_t lower(uint32_t c)
{
    if (c < 0x80) return c >= 'A' && c <= 'Z' ? c | 32 : c;
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
}

static uint64_t hash_text(const char *s)
{
    uint64_t hash = FNV_BEGIN;
    for (; *s; s++) hash = (hash ^ (unsigned char)*s) * FNV_PRIME;
    return hash;
}

/* The word that was read so far, in full; 0 = none. */
static uint32_t word_of(const struct word_reader *r)
{
    static const char *const pairs[][2] = {{"m", "am"},    {"re", "are"}, {"ve", "have"},
                                           {"ll", "will"}, {"s", NULL},   {"t", NULL},
                                           {"d", NULL}};
    uint64_t hash = r->stem;
    for (size_t i = 0; r->quoted && i < sizeof pairs / sizeof *pairs; i++) {
        if (r->hash != hash_text(pairs[i][0])) continue;
        if (!pairs[i][1]) return 0;
        hash = hash_text(pairs[i][1]);
    }
    const uint32_t word = (uint32_t)(hash ^ hash >> 32);
    return word ? word : 1;
}

static void add_letter(struct word_reader *r, uint32_t c)
{
    const uint64_t before = r->hash;
    const bool ends = c == 's' && r->n_letters >= 3 && r->last >= 'a' && r->last <= 'z' &&
                      r->last != 's' && r->last != 'i' && r->last != 'u';
    r->hash = (r->hash ^ c) * FNV_PRIME;
    r->stem = ends ? before : r->hash;
    r->last = c;
    r->n_letters++;
}

/* Adds a character; alone: the one before it in this piece was of a script without spaces. Returns
 * its kind. */
static enum kind add(struct word_reader *r, uint32_t c, bool alone)
{
    const enum kind kind = kind_of(c);
    if (kind == LETTER || kind == ALONE) {
        if (kind == LETTER ? !r->open : !alone) {
            r->hash = FNV_BEGIN;
            r->quoted = r->quote;
            r->n_letters = 0;
        }
        add_letter(r, lower(c));
    }
    r->quote = kind == QUOTE && r->open;
    r->open = kind == LETTER;
    return kind;
}

struct word_piece word_read(struct word_reader *r, const char *bytes, size_t n)
{
    struct word_piece out = {0};
    bool first = true, alone = false;
    for (size_t i = 0; i < n; i++) {
        r->partial[r->n_partial++] = bytes[i];
        const int length = utf8_length(r->partial, (size_t)r->n_partial);
        if (length == 0) continue;
        const uint32_t c = length > 0 ? utf8_decode(r->partial, length) : 0xfffd;
        const bool was_open = r->open;
        const enum kind kind = add(r, c, alone);
        r->n_partial = 0;
        out.joins = out.joins || (first && was_open && kind == LETTER);
        if (kind == LETTER || kind == ALONE) out.word = word_of(r);
        first = false;
        alone = kind == ALONE;
    }
    return out;
}

bool word_next(struct word_reader *r, const char *text, size_t n, size_t *at, size_t *from,
               uint32_t *word)
{
    enum kind kind = OTHER;
    *word = 0;
    for (int length; *at < n && kind != ALONE; *at += (size_t)length) {
        length = utf8_length(text + *at, n - *at);
        const uint32_t c = length > 0 ? utf8_decode(text + *at, length) : 0xfffd;
        if (length <= 0) length = length < 0 ? -length : 1;
        if (*word && kind_of(c) != LETTER) return true;
        if (!r->open) *from = *at;
        kind = add(r, c, false);
        *word = kind == LETTER || kind == ALONE ? word_of(r) : 0;
    }
    return *word != 0;
}
