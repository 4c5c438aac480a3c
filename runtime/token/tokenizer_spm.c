/* SentencePiece's BPE as llama.cpp does it: starts with characters, then joins the neighbours whose
 * joined text is the token with the best score, again and again; text that is not a token at the
 * end is encoded as bytes. */
#include "base/memory.h"
#include "runtime/token/tokenizer_parts.h"

#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "runtime/model/gguf.h"
#include "runtime/token/token_merge.h"

#define BLANK       "\xE2\x96\x81" /* U+2581, how a space is written in the vocabulary */
#define BLANK_BYTES 3

static bool is_blank(const char *s, size_t n)
{
    return n >= BLANK_BYTES && !memcmp(s, BLANK, BLANK_BYTES);
}

/* The byte that a text of the form <0xNN> stands for, or -1. */
static int byte_of(const char *text, size_t n)
{
    static const char digits[] = "0123456789ABCDEF";
    if (n != 6 || memcmp(text, "<0x", 3) || text[5] != '>') return -1;
    const char *high = memchr(digits, text[3], 16), *low = memchr(digits, text[4], 16);
    return high && low ? (int)((high - digits) * 16 + (low - digits)) : -1;
}

static bool has_inner_blank(const char *text, size_t n)
{
    for (size_t i = 1; i + BLANK_BYTES <= n; i++) {
        bool follows_blank = i >= BLANK_BYTES && is_blank(text + i - BLANK_BYTES, BLANK_BYTES);
        if (is_blank(text + i, n - i) && !follows_blank) return true;
    }
    return false;
}

void spm_init(struct spm *s, const struct vocab *v, int32_t unknown)
{
    s->splits = true;
    for (int b = 0; b < 256; b++) {
        char c = (char)b;
        int32_t id = vocab_find(v, &c, 1);
        s->byte_id[b] = id >= 0 ? id : unknown;
    }
    for (int32_t id = 0; id < v->n_vocab; id++) {
        size_t n;
        const char *text = vocab_text(v, id, &n);
        int b = byte_of(text, n);
        if (b >= 0) s->byte_id[b] = id;
        if (has_inner_blank(text, n)) s->splits = false;
    }
}

/* Gives the joined texts of a line, "left right", their scores. */
static void take_merge(struct vocab *v, struct str *joined, struct gguf_str line, float score)
{
    const char *space = line.n > 1 ? memchr(line.data + 1, ' ', line.n - 1) : NULL;
    if (!space) return;
    const size_t n = (size_t)(space - line.data);
    str_clear(joined);
    str_append(joined, line.data, n);
    str_append(joined, space + 1, line.n - n - 1);
    const int32_t id = vocab_find(v, str_get(joined), joined->n);
    if (id >= 0 && id < v->n_vocab && v->score[id] == -INFINITY) v->score[id] = score;
}

int spm_read_merges(struct vocab *v, const struct gguf *g, struct err *e)
{
    struct gguf_array list;
    struct gguf_str line;
    struct str joined = {0};
    if (!gguf_get_array(g, "tokenizer.ggml.merges", &list) || list.type != GGUF_STRING)
        return err_set(e, ERR_FORMAT, "%s: has no merges (tokenizer.ggml.merges)", gguf_name(g));
    if (list.n > 1 << 24) /* more ranks than a float holds */
        return err_set(e, ERR_FORMAT, "%s: has too many merges: %zu", gguf_name(g), list.n);
    if (!v->score) v->score = memory_new((size_t)v->n_vocab + 1, sizeof *v->score);
    for (int32_t id = 0; id < v->n_vocab; id++) v->score[id] = -INFINITY;
    float score = 0;
    for (size_t cursor = 0; gguf_array_next_str(&list, &cursor, &line); score--)
        take_merge(v, &joined, line, score);
    str_release(&joined);
    return 0;
}

struct words {
    const struct vocab *v;
    const char *text;
};

static bool join(const void *ctx, const struct token_merge_symbol *a,
                 const struct token_merge_symbol *b, int32_t *id, double *priority)
{
    const struct words *w = ctx;
    *id = vocab_find(w->v, w->text + a->at, (size_t)a->n + b->n);
    if (*id < 0) return false;
    *priority = w->v->score ? (double)w->v->score[*id] : 0;
    return *priority > -INFINITY; /* no merge gives it */
}

static void encode_word(const struct spm *s, struct token_merge *m, const struct words *w,
                        size_t start, size_t end, struct tokens *out)
{
    token_merge_clear(m);
    for (size_t at = start, n; at < end; at += n) {
        int length = utf8_length(w->text + at, end - at);
        /* invalid bytes stay separate, to be encoded unchanged */
        n = length > 0 ? (size_t)length : 1;
        token_merge_push(m, at, n, vocab_find(w->v, w->text + at, n));
    }
    token_merge_run(m);
    for (int32_t i = m->n ? 0 : -1; i >= 0; i = m->symbols[i].next) {
        const struct token_merge_symbol *symbol = &m->symbols[i];
        if (symbol->id >= 0) {
            tokens_push(out, symbol->id);
            continue;
        }
        for (size_t k = 0; k < symbol->n; k++) {
            int32_t id = s->byte_id[(unsigned char)w->text[symbol->at + k]];
            if (id >= 0) tokens_push(out, id);
        }
    }
}

/* The end of the word that begins at `at`: before the next blank that does not follow a blank. */
static size_t word_end(const char *text, size_t at, size_t n)
{
    while (at < n && is_blank(text + at, n - at)) at += BLANK_BYTES;
    while (at < n && !is_blank(text + at, n - at)) at++;
    return at;
}

void spm_encode(const struct spm *s, const struct vocab *v, const char *text, size_t n,
                bool add_prefix, struct tokens *out)
{
    struct str marked = {0};
    if (add_prefix) str_append(&marked, BLANK, BLANK_BYTES);
    for (size_t at = 0; at < n;) {
        const char *space = memchr(text + at, ' ', n - at);
        size_t run = space ? (size_t)(space - text) - at : n - at;
        str_append(&marked, text + at, run);
        if (space) str_append(&marked, BLANK, BLANK_BYTES);
        at += run + (space != NULL);
    }
    struct token_merge m = {.join = join};
    struct words w = {.v = v, .text = str_get(&marked)};
    m.ctx = &w;
    for (size_t at = 0, end; at < marked.n; at = end) {
        end = s->splits ? word_end(marked.data, at, marked.n) : marked.n;
        encode_word(s, &m, &w, at, end, out);
    }
    token_merge_release(&m);
    str_release(&marked);
}

void spm_piece(const struct vocab *v, int32_t id, struct str *out)
{
    size_t n;
    const char *text = vocab_text(v, id, &n);
    int byte = byte_of(text, n);
    if (v->kind[id] == VOCAB_BYTE && byte >= 0) {
        char c = (char)byte;
        str_append(out, &c, 1);
        return;
    }
    bool plain = v->kind[id] == VOCAB_NORMAL || v->kind[id] == VOCAB_UNUSED;
    for (size_t i = 0; i < n;) {
        bool blank = plain && is_blank(text + i, n - i);
        str_append(out, blank ? " " : text + i, 1);
        i += blank ? BLANK_BYTES : 1;
    }
}
