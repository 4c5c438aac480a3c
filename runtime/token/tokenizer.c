/* Shared by both kinds: special tokens are cut out of the text first, the rest is passed to the
 * kind's encoder. Special tokens are kept in a sorted list; narrowing a range byte by byte finds
 * the longest one that begins at a place. */
#include "runtime/token/tokenizer.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/model/gguf.h"
#include "runtime/token/thought.h"
#include "runtime/token/tokenizer_parts.h"

#define ENDS_MAX 32

/* Texts that end a turn, whatever the file's eos is. Texts with no other meaning count as end
 * tokens even if the file calls them normal text. */
static const char *const end_texts[] = {
    "<|im_end|>",      "<|end|>",    "<|eot_id|>",    "<|end_of_text|>",       "<|endoftext|>",
    "<|end_of_turn|>", "<|eom_id|>", "<|endofturn|>", "<|END_OF_TURN_TOKEN|>", "<|return|>",
    "<end_of_turn>",   "<|EOT|>",    "</s>",          "[|endofturn|]",         "<end_of_utterance>",
};
#define N_END_TEXTS (sizeof end_texts / sizeof *end_texts)

struct specials {
    int32_t *ids; /* sorted by text */
    size_t n;
    bool starts[256]; /* some text begins with this byte */
};

enum kind { KIND_SPM, KIND_BPE };

struct tokenizer {
    enum kind kind;
    struct vocab vocab;
    struct spm spm;
    struct bpe bpe;
    int32_t bos, eos;
    bool add_bos;
    bool add_space_prefix;
    bool by_rank;          /* Gemma 4: SentencePiece with merges instead of scores */
    bool strips_right;     /* Phi-3: a special token also consumes the white space after it */
    struct specials marks; /* recognised in trusted text */
    /* recognised in any text: user-defined ones that are not template marks */
    struct specials plain;
    int32_t ends[ENDS_MAX];
    int n_ends;
    struct str pieces; /* the bytes of all tokens, end to end */
    size_t *piece_at;  /* [n_vocab + 1] */
};

/* ---- growable list --------------------------------------------------------------------------- */

void tokens_release(struct tokens *t)
{
    free(t->ids);
    *t = (struct tokens){0};
}

void tokens_reserve(struct tokens *t, size_t n)
{
    if (n <= t->cap) return;
    size_t cap = t->cap ? t->cap : 64;
    while (cap < n) cap *= 2;
    t->ids = memory_grow(t->ids, cap, sizeof *t->ids);
    t->cap = cap;
}

void tokens_push(struct tokens *t, int32_t id)
{
    tokens_reserve(t, t->n + 1);
    t->ids[t->n++] = id;
}

/* ---- special tokens -------------------------------------------------------------------------- */

static int compare_texts(const void *a, const void *b, void *ctx)
{
    const struct vocab *v = ctx;
    size_t n_a, n_b;
    const char *text_a = vocab_text(v, *(const int32_t *)a, &n_a);
    const char *text_b = vocab_text(v, *(const int32_t *)b, &n_b);
    int d = memcmp(text_a, text_b, n_a < n_b ? n_a : n_b);
    return d ? d : (n_a > n_b) - (n_a < n_b);
}

static bool is_mark(const struct vocab *v, int32_t id)
{
    return v->kind[id] == VOCAB_CONTROL || v->kind[id] == VOCAB_USER ||
           v->kind[id] == VOCAB_UNKNOWN;
}

/* User-defined tokens are text (runs of spaces, <tool_call>) unless they look like a turn mark or
 * are a thought's: a mark that the user typed is plain text. */
static bool is_plain(const struct vocab *v, int32_t id)
{
    size_t n;
    const char *text = vocab_text(v, id, &n);
    bool like_mark = n > 4 && ((!memcmp(text, "<|", 2) && !memcmp(text + n - 2, "|>", 2)) ||
                               !memcmp(text, "<\xEF\xBD\x9C", 4) || thought_is_mark(text, n));
    return v->kind[id] == VOCAB_USER && !like_mark;
}

static void specials_init(struct specials *s, struct vocab *v,
                          bool (*takes)(const struct vocab *v, int32_t id))
{
    size_t n;
    for (int32_t id = 0; id < v->n_vocab; id++) s->n += takes(v, id);
    s->ids = memory_new(s->n + 1, sizeof *s->ids);
    s->n = 0;
    for (int32_t id = 0; id < v->n_vocab; id++) {
        const char *text = vocab_text(v, id, &n);
        if (!takes(v, id) || n == 0) continue;
        s->ids[s->n++] = id;
        s->starts[(unsigned char)text[0]] = true;
    }
    qsort_r(s->ids, s->n, sizeof *s->ids, compare_texts, v);
}

/* First of ids[low … high) whose byte at `depth` is at least `byte`. All have equal bytes before; a
 * text that ends there sorts first. */
static size_t lower_bound(const struct specials *s, const struct vocab *v, size_t low, size_t high,
                          size_t depth, int byte)
{
    while (low < high) {
        size_t n, middle = low + (high - low) / 2;
        const char *text = vocab_text(v, s->ids[middle], &n);
        if (n <= depth || (unsigned char)text[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest special token at the beginning of text, or -1. */
static int32_t specials_match(const struct specials *s, const struct vocab *v, const char *text,
                              size_t n, size_t *length)
{
    int32_t found = -1;
    if (!s->starts[(unsigned char)text[0]]) return -1;
    for (size_t depth = 0, low = 0, high = s->n; depth < n; depth++) {
        int byte = (unsigned char)text[depth];
        size_t first = lower_bound(s, v, low, high, depth, byte);
        high = lower_bound(s, v, first, high, depth, byte + 1);
        low = first;
        if (low == high) break;
        size_t n_text;
        vocab_text(v, s->ids[low], &n_text);
        if (n_text == depth + 1) {
            found = s->ids[low];
            *length = n_text;
        }
    }
    return found;
}

int32_t tokenizer_special(const struct tokenizer *t, const char *text)
{
    size_t length = 0, n = strlen(text);
    int32_t id = n ? specials_match(&t->marks, &t->vocab, text, n, &length) : -1;
    return length == n ? id : -1;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int32_t id_of_key(const struct tokenizer *t, const struct gguf *g, const char *key,
                         int32_t otherwise)
{
    uint32_t id;
    if (gguf_get_u32(g, key, &id)) return id < (uint32_t)t->vocab.n_vocab ? (int32_t)id : -1;
    bool there =
        otherwise >= 0 && otherwise < t->vocab.n_vocab && t->vocab.kind[otherwise] == VOCAB_CONTROL;
    return there ? otherwise : -1;
}

static void add_end(struct tokenizer *t, int32_t id)
{
    if (id < 0 || tokenizer_is_end(t, id) || t->n_ends == ENDS_MAX) return;
    t->vocab.kind[id] = VOCAB_CONTROL;
    t->ends[t->n_ends++] = id;
}

/* Decides which tokens are control tokens; files differ in how carefully they mark them. */
static void find_ends(struct tokenizer *t, const struct gguf *g)
{
    bool spm = t->kind == KIND_SPM;
    t->bos = id_of_key(t, g, "tokenizer.ggml.bos_token_id", spm ? 1 : -1);
    t->eos = id_of_key(t, g, "tokenizer.ggml.eos_token_id", spm ? 2 : -1);
    if (t->bos >= 0) t->vocab.kind[t->bos] = VOCAB_CONTROL;
    add_end(t, t->eos);
    add_end(t, id_of_key(t, g, "tokenizer.ggml.eot_token_id", -1));
    for (int32_t id = 0; id < t->vocab.n_vocab; id++) {
        size_t n;
        const char *text = vocab_text(&t->vocab, id, &n);
        if (n < 4 || (text[0] != '<' && text[0] != '[')) continue;
        bool sure = t->vocab.kind[id] != VOCAB_NORMAL || !memcmp(text, "<|", 2);
        for (size_t k = 0; sure && k < N_END_TEXTS; k++)
            if (vocab_is(&t->vocab, id, end_texts[k])) add_end(t, id);
    }
}

/* llama.cpp recognises Phi-3 by its name: its tokens strip the white space after them, except for
 * these three. */
static bool name_has_phi3(const struct gguf *g)
{
    struct gguf_str name;
    if (!gguf_get_str(g, "general.name", &name)) return false;
    for (size_t i = 0; i + 4 <= name.n; i++) {
        if (!strncasecmp(name.data + i, "phi3", 4)) return true;
        if (i + 5 <= name.n && !strncasecmp(name.data + i, "phi-3", 5)) return true;
    }
    return false;
}

static bool strips_right(const struct tokenizer *t, int32_t id)
{
    return t->strips_right && !vocab_is(&t->vocab, id, "<unk>") &&
           !vocab_is(&t->vocab, id, "<s>") && !vocab_is(&t->vocab, id, "<|endoftext|>");
}

static void make_pieces(struct tokenizer *t)
{
    t->piece_at = memory_new((size_t)t->vocab.n_vocab + 1, sizeof *t->piece_at);
    for (int32_t id = 0; id < t->vocab.n_vocab; id++) {
        if (t->kind == KIND_SPM)
            spm_piece(&t->vocab, id, &t->pieces);
        else
            bpe_piece(&t->vocab, id, &t->pieces);
        t->piece_at[id + 1] = t->pieces.n;
    }
}

static int read_kind(struct tokenizer *t, const struct gguf *g, struct err *e)
{
    struct gguf_str model;
    if (!gguf_get_str(g, "tokenizer.ggml.model", &model))
        return err_set(e, ERR_FORMAT, "%s: has no vocabulary (tokenizer.ggml.model)", gguf_name(g));
    t->by_rank = model.n == 6 && !memcmp(model.data, "gemma4", 6);
    bool spm = t->by_rank || (model.n == 5 && !memcmp(model.data, "llama", 5));
    if (!spm && !(model.n == 4 && !memcmp(model.data, "gpt2", 4)))
        return err_set(
            e, ERR_FORMAT,
            "%s: unknown tokenizer '%s' (tokenizer.ggml.model); known are llama, gpt2, gemma4",
            gguf_name(g), gguf_show(model).text);
    t->kind = spm ? KIND_SPM : KIND_BPE;
    return 0;
}

static int load(struct tokenizer *t, const struct gguf *g, struct err *e)
{
    int rc = read_kind(t, g, e);
    if (!rc) rc = vocab_init(&t->vocab, g, e);
    if (rc) return rc;
    find_ends(t, g);
    t->strips_right = name_has_phi3(g);
    vocab_index(&t->vocab);
    specials_init(&t->marks, &t->vocab, is_mark);
    specials_init(&t->plain, &t->vocab, is_plain);
    if (t->by_rank) rc = spm_read_merges(&t->vocab, g, e);
    if (!rc && t->kind == KIND_BPE) rc = bpe_init(&t->bpe, &t->vocab, g, e);
    if (rc) return rc;
    t->add_bos = t->kind == KIND_SPM || pretokenizer_adds_bos(t->bpe.pre);
    gguf_get_bool(g, "tokenizer.ggml.add_bos_token", &t->add_bos);
    if (t->bos < 0) t->add_bos = false;
    if (t->kind == KIND_SPM) {
        t->add_space_prefix = true;
        gguf_get_bool(g, "tokenizer.ggml.add_space_prefix", &t->add_space_prefix);
        spm_init(&t->spm, &t->vocab, id_of_key(t, g, "tokenizer.ggml.unknown_token_id", -1));
    }
    make_pieces(t);
    return 0;
}

int tokenizer_open(struct tokenizer **out, const struct gguf *g, struct err *e)
{
    *out = NULL;
    struct tokenizer *t = memory_new(1, sizeof *t);
    int rc = load(t, g, e);
    if (rc) {
        tokenizer_close(t);
        return rc;
    }
    *out = t;
    return 0;
}

void tokenizer_close(struct tokenizer *t)
{
    if (!t) return;
    bpe_release(&t->bpe);
    vocab_release(&t->vocab);
    free(t->marks.ids);
    free(t->plain.ids);
    str_release(&t->pieces);
    free(t->piece_at);
    free(t);
}

static void *read_vocabulary(void *arg)
{
    struct tokenizer_thread *t = arg;
    t->rc = tokenizer_open(&t->tokenizer, t->file, &t->e);
    return NULL;
}

void tokenizer_thread_begin(struct tokenizer_thread *t, const struct gguf *file)
{
    *t = (struct tokenizer_thread){.file = file, .running = true};
    t->threaded = !pthread_create(&t->thread, NULL, read_vocabulary, t);
    if (!t->threaded) read_vocabulary(t);
}

int tokenizer_thread_end(struct tokenizer_thread *t, struct tokenizer **out, struct err *e)
{
    if (!t->running) return 0;
    if (t->threaded) pthread_join(t->thread, NULL);
    t->running = false;
    *out = t->tokenizer;
    return t->rc ? err_set(e, t->rc, "%s", t->e.text) : 0;
}

/* ---- questions ------------------------------------------------------------------------------- */

int tokenizer_n_vocab(const struct tokenizer *t)
{
    return t->vocab.n_vocab;
}

int32_t tokenizer_bos(const struct tokenizer *t)
{
    return t->bos;
}

int32_t tokenizer_eos(const struct tokenizer *t)
{
    return t->eos;
}

bool tokenizer_add_bos(const struct tokenizer *t)
{
    return t->add_bos;
}

bool tokenizer_is_end(const struct tokenizer *t, int32_t id)
{
    for (int i = 0; i < t->n_ends; i++)
        if (t->ends[i] == id) return true;
    return false;
}

const char *tokenizer_bytes(const struct tokenizer *t, int32_t id, bool special, size_t *n)
{
    *n = 0;
    if (id < 0 || id >= t->vocab.n_vocab) return "";
    uint8_t kind = t->vocab.kind[id];
    if (!special && (kind == VOCAB_CONTROL || kind == VOCAB_UNKNOWN)) return "";
    *n = t->piece_at[id + 1] - t->piece_at[id];
    return str_get(&t->pieces) + t->piece_at[id];
}

/* ---- encoding -------------------------------------------------------------------------------- */

struct reader {
    const struct tokenizer *t;
    const char *text;
    size_t n;
    bool prefix; /* the next piece begins the text or follows a special token */
    struct tokens *out;
    struct err *e;
};

/* Text without special tokens in it. */
static int encode_plain(struct reader *r, size_t start, size_t end)
{
    if (start == end) return 0;
    const struct tokenizer *t = r->t;
    bool prefix = r->prefix && t->add_space_prefix;
    r->prefix = false;
    if (t->kind == KIND_BPE)
        return bpe_encode(&t->bpe, &t->vocab, r->text + start, end - start, r->out, r->e);
    spm_encode(&t->spm, &t->vocab, r->text + start, end - start, prefix, r->out);
    return 0;
}

static int encode_spans(struct reader *r, const struct tokenizer_span *spans, size_t n_spans)
{
    size_t start = 0, at = 0, end = 0; /* start: of the plain text before `at`; end: of the span */
    for (size_t i = 0; i < n_spans; i++) {
        const struct specials *known = spans[i].trusted ? &r->t->marks : &r->t->plain;
        end += spans[i].n;
        while (at < end) {
            size_t length;
            int32_t id = specials_match(known, &r->t->vocab, r->text + at, end - at, &length);
            if (id < 0) {
                at++;
                continue;
            }
            int rc = encode_plain(r, start, at);
            if (rc) return rc;
            tokens_push(r->out, id);
            r->prefix = true;
            at += length;
            if (strips_right(r->t, id))
                while (at < r->n && isspace((unsigned char)r->text[at])) at++;
            start = at;
        }
    }
    return encode_plain(r, start, r->n);
}

int tokenizer_encode(const struct tokenizer *t, const struct tokenizer_span *spans, size_t n_spans,
                     bool add_prefix, struct tokens *out, struct err *e)
{
    struct str joined = {0};
    size_t n = 0;
    for (size_t i = 0; i < n_spans; i++)
        if (__builtin_add_overflow(n, spans[i].n, &n)) n = SIZE_MAX;
    if (n > INT32_MAX / 4)
        return err_set(e, ERR_USAGE, "the text has %zu bytes; at most %d can be read at once", n,
                       INT32_MAX / 4);
    for (size_t i = 0; i < n_spans; i++) str_append(&joined, spans[i].text, spans[i].n);
    struct reader r = {
        .t = t, .text = str_get(&joined), .n = n, .prefix = add_prefix, .out = out, .e = e};
    int rc = encode_spans(&r, spans, n_spans);
    str_release(&joined);
    return rc;
}

int tokenizer_encode_text(const struct tokenizer *t, const char *text, size_t n, bool plain,
                          struct tokens *out, struct err *e)
{
    struct tokenizer_span span = {text, n, !plain};
    if (!plain && t->add_bos) tokens_push(out, t->bos);
    return tokenizer_encode(t, &span, 1, true, out, e);
}
