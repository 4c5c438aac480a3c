#include "runtime/token/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/model/gguf.h"

#define TEXT_MAX ((size_t)UINT32_MAX / 2)

static void add_text(struct vocab *v, const char *text, size_t n)
{
    v->at = memory_more(v->at, (size_t)v->n + 1, &v->cap, sizeof *v->at);
    v->at[v->n] = (uint32_t)v->text.n;
    str_append(&v->text, text, n);
    v->at[++v->n] = (uint32_t)v->text.n;
}

static int read_kinds(struct vocab *v, const struct gguf *g, struct err *e)
{
    struct gguf_array types;
    size_t n = (size_t)v->n_vocab;
    v->kind = memory_new(n + 1, 1);
    memset(v->kind, VOCAB_NORMAL, n);
    if (!gguf_get_array(g, "tokenizer.ggml.token_type", &types)) return 0;
    if (types.n < n)
        return err_set(e, ERR_FORMAT, "%s: has %zu tokens but %zu token types", gguf_name(g), n,
                       types.n);
    for (size_t i = 0; i < n; i++) {
        int32_t kind = gguf_array_i32(&types, i);
        if (kind >= VOCAB_NORMAL && kind <= VOCAB_BYTE) v->kind[i] = (uint8_t)kind;
    }
    return 0;
}

static int read_scores(struct vocab *v, const struct gguf *g, struct err *e)
{
    struct gguf_array scores;
    size_t n = (size_t)v->n_vocab;
    if (!gguf_get_array(g, "tokenizer.ggml.scores", &scores)) return 0;
    if (scores.n < n)
        return err_set(e, ERR_FORMAT, "%s: has %zu tokens but %zu scores", gguf_name(g), n,
                       scores.n);
    v->score = memory_new(n + 1, sizeof *v->score);
    for (size_t i = 0; i < n; i++) {
        float score = gguf_array_f32(&scores, i);
        v->score[i] = score == score ? score : 0; /* NaN cannot be ordered */
    }
    return 0;
}

int vocab_init(struct vocab *v, const struct gguf *g, struct err *e)
{
    struct gguf_array tokens;
    struct gguf_str s;
    *v = (struct vocab){0};
    if (!gguf_get_array(g, "tokenizer.ggml.tokens", &tokens) || tokens.type != GGUF_STRING ||
        tokens.n == 0)
        return err_set(e, ERR_FORMAT, "%s: has no vocabulary (tokenizer.ggml.tokens)",
                       gguf_name(g));
    if (tokens.n > INT32_MAX / 4 || tokens.bytes > TEXT_MAX)
        return err_set(e, ERR_FORMAT, "%s: its vocabulary of %zu tokens is too large", gguf_name(g),
                       tokens.n);
    for (size_t cursor = 0; gguf_array_next_str(&tokens, &cursor, &s);) add_text(v, s.data, s.n);
    v->n_vocab = v->n;
    int rc = read_kinds(v, g, e);
    if (!rc) rc = read_scores(v, g, e);
    if (rc) vocab_release(v);
    return rc;
}

void vocab_release(struct vocab *v)
{
    str_release(&v->text);
    free(v->at);
    free(v->kind);
    free(v->score);
    free(v->slots);
    *v = (struct vocab){0};
}

const char *vocab_text(const struct vocab *v, int32_t id, size_t *n)
{
    *n = v->at[id + 1] - v->at[id];
    return v->text.data + v->at[id];
}

bool vocab_is(const struct vocab *v, int32_t id, const char *text)
{
    size_t n;
    const char *t = vocab_text(v, id, &n);
    return n == strlen(text) && !memcmp(t, text, n);
}

/* ---- the map --------------------------------------------------------------------------------- */

static uint64_t load4(const char *s)
{
    uint32_t x;
    memcpy(&x, s, sizeof x);
    return x;
}

static uint64_t load8(const char *s)
{
    uint64_t x;
    memcpy(&x, s, sizeof x);
    return x;
}

static uint64_t mix(uint64_t h, uint64_t x)
{
    __extension__ unsigned __int128 product =
        (unsigned __int128)(h ^ x ^ 0xA0761D6478BD642Fu) * 0xE7037ED1A0B428DBu;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Eight bytes at a time; the last word overlaps the one before. */
static uint64_t hash(const char *s, size_t n)
{
    uint64_t h = n;
    if (n >= 8) {
        for (size_t i = 0; i + 8 < n; i += 8) h = mix(h, load8(s + i));
        return mix(h, load8(s + n - 8));
    }
    if (n >= 4) return mix(h, load4(s) | load4(s + n - 4) << 32);
    for (size_t i = 0; i < n; i++) h = h << 8 | (unsigned char)s[i];
    return mix(h, 0);
}

/* The slot that holds the text, or the free slot for it. */
static size_t slot_of(const struct vocab *v, const char *text, size_t n)
{
    size_t i = hash(text, n) & (v->n_slots - 1);
    for (; v->slots[i] >= 0; i = (i + 1) & (v->n_slots - 1)) {
        size_t length;
        const char *t = vocab_text(v, v->slots[i], &length);
        if (length == n && !memcmp(t, text, n)) break;
    }
    return i;
}

static bool can_come_from_text(const struct vocab *v, int32_t id)
{
    if (id >= v->n_vocab) return true;
    return v->kind[id] == VOCAB_NORMAL || v->kind[id] == VOCAB_USER || v->kind[id] == VOCAB_UNUSED;
}

static void put(struct vocab *v, int32_t id)
{
    size_t n;
    const char *text = vocab_text(v, id, &n);
    if (n == 0) return;
    size_t slot = slot_of(v, text, n);
    if (v->slots[slot] >= 0)
        v->repeats = true;
    else
        v->n_used++;
    v->slots[slot] = id;
    if (n > v->longest) v->longest = n;
}

static void rehash(struct vocab *v, size_t n_slots)
{
    v->slots = memory_grow(v->slots, n_slots, sizeof *v->slots);
    memset(v->slots, 0xFF, n_slots * sizeof *v->slots);
    v->n_slots = n_slots;
    v->n_used = 0;
    for (int32_t id = 0; id < v->n; id++)
        if (can_come_from_text(v, id)) put(v, id);
}

void vocab_index(struct vocab *v)
{
    size_t n_slots = 1024;
    while (n_slots < 2 * (size_t)v->n_vocab) n_slots *= 2;
    rehash(v, n_slots);
}

int32_t vocab_find(const struct vocab *v, const char *text, size_t n)
{
    return n == 0 || n > v->longest ? -1 : v->slots[slot_of(v, text, n)];
}

bool vocab_is_joined(const struct vocab *v, int32_t id, const char *left, size_t n_left,
                     const char *right, size_t n_right)
{
    size_t n;
    if (id < 0 || id >= v->n_vocab || v->repeats || !can_come_from_text(v, id)) return false;
    const char *text = vocab_text(v, id, &n);
    return n == n_left + n_right && !memcmp(text, left, n_left) &&
           !memcmp(text + n_left, right, n_right);
}

int32_t vocab_intern(struct vocab *v, const char *text, size_t n)
{
    int32_t id = vocab_find(v, text, n);
    if (id >= 0 || n == 0) return id;
    if (v->n >= INT32_MAX / 2 || v->text.n + n > TEXT_MAX) return -1;
    if (2 * v->n_used >= v->n_slots) rehash(v, 2 * v->n_slots);
    id = v->n;
    add_text(v, text, n);
    put(v, id);
    return id;
}
