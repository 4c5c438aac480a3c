/* GPT-2's byte-level BPE: a pattern splits the text into pieces, each piece starts as bytes, and
 * the neighbours whose merge comes first in the file's list are joined, again and again. The file
 * writes every byte as one printable character (a space as Ġ); here bytes stay bytes, merges are
 * pairs of ids, and the written form is needed only while loading. */
#include "runtime/token/tokenizer_parts.h"

#include <string.h>

#include "base/utf8.h"
#include "runtime/model/gguf.h"
#include "runtime/token/token_merge.h"

/* GPT-2's table: printable bytes map to themselves, the others (0 to 32, 127 to 160, 173) to U+0100
 * onwards, in order. */
static bool stands_for_itself(uint32_t byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

static uint32_t written_of(uint32_t byte)
{
    if (stands_for_itself(byte)) return byte;
    if (byte <= 32) return 256 + byte;
    return byte <= 160 ? 289 + byte - 127 : 323;
}

static int byte_of_written(uint32_t c)
{
    if (c < 256) return stands_for_itself(c) ? (int)c : -1;
    if (c < 289) return (int)c - 256;
    if (c < 323) return (int)c - 289 + 127;
    return c == 323 ? 173 : -1;
}

/* ---- merges ---------------------------------------------------------------------------------- */

static struct bpe_merge *slot_of(const struct bpe *b, int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15u;
    for (size_t i = (h >> 32) & (b->n_slots - 1);; i = (i + 1) & (b->n_slots - 1)) {
        struct bpe_merge *m = &b->merges[i];
        if (m->left < 0 || (m->left == left && m->right == right)) return m;
    }
}

struct reader {
    struct bpe *b;
    struct vocab *v;
    struct str joined;
    /* merge lists and vocabularies mostly have the same order: the likely next result */
    int32_t next;
};

/* vocab_intern of left and right together. */
static int32_t intern_joined(struct reader *r, struct gguf_str left, struct gguf_str right)
{
    if (vocab_is_joined(r->v, r->next, left.data, left.n, right.data, right.n)) return r->next;
    str_clear(&r->joined);
    str_append(&r->joined, left.data, left.n);
    str_append(&r->joined, right.data, right.n);
    return vocab_intern(r->v, r->joined.data, r->joined.n);
}

/* One line of the list, "left right"; the first of equal lines counts. */
static int add_merge(struct reader *r, struct gguf_str line, int32_t rank)
{
    const char *space = line.n > 1 ? memchr(line.data + 1, ' ', line.n - 1) : NULL;
    if (!space || space == line.data + line.n - 1) return -1;
    struct gguf_str left = {line.data, (size_t)(space - line.data)};
    struct gguf_str right = {space + 1, line.n - left.n - 1};
    int32_t left_id = vocab_intern(r->v, left.data, left.n);
    int32_t right_id = vocab_intern(r->v, right.data, right.n);
    int32_t both = intern_joined(r, left, right);
    if (left_id < 0 || right_id < 0 || both < 0) return -1;
    r->next = both + 1;
    struct bpe_merge *slot = slot_of(r->b, left_id, right_id);
    if (slot->left < 0) *slot = (struct bpe_merge){left_id, right_id, rank, both};
    return 0;
}

static int read_merges(struct bpe *b, struct vocab *v, const struct gguf *g, struct err *e)
{
    struct gguf_array list;
    struct gguf_str line;
    struct reader r = {.b = b, .v = v};
    if (!gguf_get_array(g, "tokenizer.ggml.merges", &list) || list.type != GGUF_STRING)
        return err_set(e, ERR_FORMAT, "%s: has no merges (tokenizer.ggml.merges)", gguf_name(g));
    if (list.n > INT32_MAX / 8)
        return err_set(e, ERR_FORMAT, "%s: has too many merges: %zu", gguf_name(g), list.n);
    for (b->n_slots = 1024; b->n_slots < list.n + list.n / 2;) b->n_slots *= 2;
    int rc = arena_init(&b->table, "merges", b->n_slots * sizeof *b->merges, e);
    if (rc) return rc;
    b->merges = arena_take(&b->table, b->n_slots, sizeof *b->merges);
    memset(b->merges, 0xFF, b->n_slots * sizeof *b->merges);
    int32_t rank = 0;
    for (size_t cursor = 0; !rc && gguf_array_next_str(&list, &cursor, &line); rank++)
        if (add_merge(&r, line, rank))
            rc = err_set(e, ERR_FORMAT, "%s: merge %d is not two texts with a space between",
                         gguf_name(g), rank);
    str_release(&r.joined);
    return rc;
}

int bpe_init(struct bpe *b, struct vocab *v, const struct gguf *g, struct err *e)
{
    struct gguf_str pre = {0};
    gguf_get_str(g, "tokenizer.ggml.pre", &pre);
    int rc = pretokenizer_open(&b->pre, pre.data, pre.n, e);
    if (rc) return e ? err_prefix(e, "%s", gguf_name(g)) : rc;
    for (uint32_t i = 0; i < 256; i++) {
        char written[4];
        b->byte_id[i] = vocab_intern(v, written, (size_t)utf8_encode(written_of(i), written));
        if (b->byte_id[i] < 0)
            return err_set(e, ERR_FORMAT, "%s: its vocabulary is too large", gguf_name(g));
    }
    return read_merges(b, v, g, e);
}

void bpe_release(struct bpe *b)
{
    pretokenizer_close(b->pre);
    arena_release(&b->table);
    *b = (struct bpe){0};
}

/* ---- encoding -------------------------------------------------------------------------------- */

struct encoder {
    const struct bpe *b;
    const struct vocab *v;
    struct token_merge m;
    struct str written;
    struct tokens *out;
};

static bool join(const void *ctx, const struct token_merge_symbol *left,
                 const struct token_merge_symbol *right, int32_t *id, double *priority)
{
    const struct bpe *b = ctx;
    const struct bpe_merge *m = slot_of(b, left->id, right->id);
    if (m->left < 0) return false;
    *id = m->joined;
    *priority = -(double)m->rank;
    return true;
}

/* A merge result that is not a token, which only an inconsistent file has: encoded character by
 * character. */
static void push_text(struct encoder *c, int32_t id)
{
    size_t n;
    const char *text = vocab_text(c->v, id, &n);
    for (size_t i = 0; i < n;) {
        int length = utf8_length(text + i, n - i);
        size_t step = length > 0 ? (size_t)length : 1;
        int32_t one = vocab_find(c->v, text + i, step);
        if (one >= 0 && one < c->v->n_vocab) tokens_push(c->out, one);
        i += step;
    }
}

/* The token that equals the whole piece, or -1. */
static int32_t find_whole(struct encoder *c, const char *text, size_t n)
{
    if (n > c->v->longest) return -1;
    str_clear(&c->written);
    for (size_t i = 0; i < n; i++) {
        size_t length;
        const char *t = vocab_text(c->v, c->b->byte_id[(unsigned char)text[i]], &length);
        str_append(&c->written, t, length);
    }
    int32_t id = vocab_find(c->v, str_get(&c->written), c->written.n);
    return id < c->v->n_vocab ? id : -1;
}

static void encode_piece(void *ctx, const char *text, size_t n)
{
    struct encoder *c = ctx;
    int32_t whole = pretokenizer_takes_whole(c->b->pre) ? find_whole(c, text, n) : -1;
    if (whole >= 0) {
        tokens_push(c->out, whole);
        return;
    }
    token_merge_clear(&c->m);
    for (size_t i = 0; i < n; i++)
        token_merge_push(&c->m, i, 1, c->b->byte_id[(unsigned char)text[i]]);
    token_merge_run(&c->m);
    for (int32_t i = n ? 0 : -1; i >= 0; i = c->m.symbols[i].next) {
        int32_t id = c->m.symbols[i].id;
        if (id < c->v->n_vocab)
            tokens_push(c->out, id);
        else
            push_text(c, id);
    }
}

int bpe_encode(const struct bpe *b, const struct vocab *v, const char *text, size_t n,
               struct tokens *out, struct err *e)
{
    struct encoder c = {.b = b, .v = v, .out = out, .m = {.join = join, .ctx = b}};
    int rc = pretokenizer_split(b->pre, text, n, encode_piece, &c, e);
    token_merge_release(&c.m);
    str_release(&c.written);
    return rc;
}

void bpe_piece(const struct vocab *v, int32_t id, struct str *out)
{
    size_t n;
    const char *text = vocab_text(v, id, &n);
    if (v->kind[id] != VOCAB_NORMAL && v->kind[id] != VOCAB_UNUSED) {
        str_append(out, text, n);
        return;
    }
    for (size_t i = 0; i < n;) {
        size_t plain = i;
        while (plain < n && text[plain] > ' ' && text[plain] <= '~') plain++;
        str_append(out, text + i, plain - i);
        i = plain;
        if (i == n) break;
        int length = utf8_length(text + i, n - i);
        size_t step = length > 0 ? (size_t)length : 1;
        int byte = length > 0 ? byte_of_written(utf8_decode(text + i, length)) : -1;
        char c = (char)byte;
        if (byte >= 0)
            str_append(out, &c, 1);
        else
            str_append(out, text + i, step);
        i += step;
    }
}
