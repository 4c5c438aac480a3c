#include "runtime/token/token_words.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/utf8.h"
#include "runtime/token/tokenizer.h"

struct folded { /* a token's text, lower case, without the space before it */
    uint64_t hash;
    int32_t id;
};

static bool is_word_char(uint32_t c)
{
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_NO;
}

/* FNV-1a over code points. false: no letter or digit. Bytes that are a part of a character count as
 * letters: with the neighbouring tokens they may form one. */
static bool fold(const char *s, size_t n, uint64_t *hash)
{
    bool word = false;
    *hash = 0xcbf29ce484222325u;
    while (n && *s == ' ') s++, n--;
    while (n) {
        int length = utf8_length(s, n), step = length > 0 ? length : 1;
        uint32_t c = length > 0 ? utf8_decode(s, length) : 0x110000u + (unsigned char)*s;
        word = word || length <= 0 || is_word_char(c);
        if (length > 0) c = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
        *hash = (*hash ^ c) * 0x100000001b3u;
        s += step;
        n -= (size_t)step;
    }
    return word;
}

/* English contractions that vocabularies have as tokens, as the words that they stand for: "I'm
 * Ann." answers "Who am I?". Returns the token's text otherwise. 's may be a genitive. */
static const char *in_full(const char *s, size_t *n)
{
    static const char *const pairs[][2] = {
        {"'m", "am"}, {"'re", "are"}, {"'ve", "have"}, {"'ll", "will"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (*n != strlen(pairs[i][0]) || memcmp(s, pairs[i][0], *n)) continue;
        *n = strlen(pairs[i][1]);
        return pairs[i][1];
    }
    return s;
}

/* Control tokens have no bytes; they end messages. */
static bool ends_sentence(const char *s, size_t n)
{
    return n == 0 || memchr(s, '.', n) || memchr(s, '!', n) || memchr(s, '?', n) ||
           memchr(s, '\n', n);
}

static int by_hash(const void *a, const void *b)
{
    uint64_t x = ((const struct folded *)a)->hash, y = ((const struct folded *)b)->hash;
    return (x > y) - (x < y);
}

int token_words_open(struct token_words *w, const struct tokenizer *t, struct err *e)
{
    int n = tokenizer_n_vocab(t), n_folded = 0;
    struct folded *f = malloc((size_t)n * sizeof *f);
    *w = (struct token_words){.n_vocab = n, .n_words = 1};
    w->word = calloc((size_t)n, sizeof *w->word);
    w->asks = calloc((size_t)n, sizeof *w->asks);
    w->ends = calloc((size_t)n, sizeof *w->ends);
    if (!f || !w->word || !w->asks || !w->ends) {
        free(f);
        return err_set(e, ERR_FAIL, "out of memory for the words of %d tokens", n);
    }
    for (int id = 0; id < n; id++) {
        size_t n_bytes;
        const char *s = tokenizer_bytes(t, id, false, &n_bytes);
        w->asks[id] = n_bytes && memchr(s, '?', n_bytes);
        w->ends[id] = ends_sentence(s, n_bytes);
        s = in_full(s, &n_bytes);
        if (n_bytes && fold(s, n_bytes, &f[n_folded].hash)) f[n_folded++].id = id;
    }
    qsort(f, (size_t)n_folded, sizeof *f, by_hash);
    for (int i = 0; i < n_folded; i++) {
        if (i == 0 || f[i].hash != f[i - 1].hash) w->n_words++;
        w->word[f[i].id] = (uint32_t)w->n_words - 1;
    }
    free(f);
    return 0;
}

void token_words_close(struct token_words *w)
{
    free(w->word);
    free(w->asks);
    free(w->ends);
    *w = (struct token_words){0};
}
