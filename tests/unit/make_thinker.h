/* make_thinker: a model file of two layers that always answers the same: it thinks N_HM words
 * between <think> and </think>, then says N_YES words and ends. Without a template it is a base
 * model, which after a colon says the words, then "\n\nUser:". The newest token alone decides which
 * one is next; attention adds a little to the logits, so that they tell what is in the cache.
 */
#ifndef RETAIN_TESTS_MAKE_THINKER_H
#define RETAIN_TESTS_MAKE_THINKER_H

#include "base/random.h"
#include "tests/unit/make_vocab.h"

enum {
    N_HM = 40,
    N_YES = 6,
    THINK = BPE_BYTES + 256,
    THOUGHT,
    LINES, /* "\n\n" */
    HM,
    YES = HM + N_HM,
    THINKER_VOCAB = 320,
    THINKER_HEADS = 5,
    THINKER_LAYERS = 2,
};
#define THINKER_ANSWER  "yes0 yes1 yes2 yes3 yes4 yes5"
#define THINKER_THOUGHT "hm0 hm1 " /* its beginning */

static bool thinker_is_base;

static inline void thinker_words(struct maker *m)
{
    static const char *const marks[BPE_BYTES] = {
        "<|bos|>",      "<|user|>",   "<|assistant|>",  "<|system|>", "<|end|>",
        "<|im_start|>", "<|im_end|>", "<|end|><|end|>", "    ",       "<|mark|>",
    };
    static struct word words[THINKER_VOCAB];
    static char texts[THINKER_VOCAB][16];
    for (int i = 0; i < THINKER_VOCAB; i++) {
        char *out = texts[i];
        int type = 1;
        if (i < BPE_BYTES) {
            bool hidden = thinker_is_base && i == BPE_IM_START;
            snprintf(out, 16, "%s", hidden ? "<|begin|>" : marks[i]);
            type = i == BPE_SPACES ? 4 : 3;
        } else if (i < THINK) {
            write_byte(i - BPE_BYTES, out);
        } else if (i < LINES) {
            snprintf(out, 16, "%s", i == THINK ? "<think>" : "</think>");
            type = 4;
        } else if (i == LINES) {
            snprintf(out, 16, "\xC4\x8A\xC4\x8A");
        } else if (i < YES + N_YES) {
            bool hm = i < YES;
            int n = i - (hm ? HM : YES);
            snprintf(out, 16, "%s%s%d", n ? "\xC4\xA0" : "", hm ? "hm" : "yes", n);
        } else {
            snprintf(out, 16, "unused%d", i);
        }
        words[i] = (struct word){out, type, 0};
    }
    maker_words(m, words, THINKER_VOCAB);
    maker_array(m, "tokenizer.ggml.merges", GGUF_STRING, 1);
    put_text(&m->keys, "\xC4\x8A \xC4\x8A", 5);
}

static inline int32_t base_next(int32_t id)
{
    static const char role[] = "User: ";
    const char *at = id >= BPE_BYTES && id < THINK ? strchr(role, id - BPE_BYTES) : NULL;
    if (id == YES + N_YES - 1) return LINES;
    if (id == LINES) return BPE_BYTES + role[0];
    if (at && at[0] && at[1]) return BPE_BYTES + at[1];
    return id == BPE_BYTES + ' ' ? YES : id + 1 < THINKER_VOCAB ? id + 1 : 0;
}

static inline int32_t thinker_next(int32_t id)
{
    if (thinker_is_base) return base_next(id);
    if (id == BPE_ASSISTANT) return THINK;
    if (id == THINK) return HM;
    if (id == YES - 1) return THOUGHT;
    if (id == THOUGHT) return LINES;
    if (id == LINES) return YES;
    if (id == YES + N_YES - 1) return BPE_END;
    return id + 1 < THINKER_VOCAB ? id + 1 : 0;
}

static inline void thinker_tensor(struct maker *m, const char *name, int64_t rows, int64_t columns)
{
    int64_t ne[2] = {columns, rows};
    maker_tensor(m, name, GGUF_T_F32, rows > 1 ? 2 : 1, ne, (uint64_t)(rows * columns) * 4);
}

/* The tensors' names and shapes in the order of the file; a scale of 0: all values are 1. */
struct thinker_shape {
    const char *name;
    int64_t rows, columns;
    float scale;
};
static const struct thinker_shape thinker_layer[] = {
    {"attn_norm", 1, THINKER_VOCAB, 0},
    {"attn_q", THINKER_VOCAB, THINKER_VOCAB, 1},
    {"attn_k", THINKER_VOCAB, THINKER_VOCAB, 1},
    {"attn_v", THINKER_VOCAB, THINKER_VOCAB, 1},
    {"attn_output", THINKER_VOCAB, THINKER_VOCAB, 0.001f},
    {"ffn_norm", 1, THINKER_VOCAB, 0},
    {"ffn_gate", 32, THINKER_VOCAB, 0.1f},
    {"ffn_up", 32, THINKER_VOCAB, 0.1f},
    {"ffn_down", THINKER_VOCAB, 32, 0.001f},
};
#define N_THINKER_LAYER (sizeof thinker_layer / sizeof *thinker_layer)

static inline void thinker_values(float *out, int64_t n, float scale, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = scale > 0 ? scale * (float)(random_at(seed, 7, (uint64_t)i) - 0.5) : 1;
}

static inline void thinker_fill(struct maker *m)
{
    float *at = (float *)(void *)(m->file.data + m->data_at);
    const int64_t n = (int64_t)THINKER_VOCAB * THINKER_VOCAB;
    memset(at, 0, (size_t)(2 * n) * sizeof *at);
    for (int i = 0; i < THINKER_VOCAB; i++) {
        at[i * THINKER_VOCAB + i] = 1;                    /* token_embd: one dimension each */
        at[n + thinker_next(i) * THINKER_VOCAB + i] = 10; /* output */
    }
    at += 2 * n;
    thinker_values(at, THINKER_VOCAB, 0, 0);
    at += THINKER_VOCAB;
    for (int layer = 0; layer < THINKER_LAYERS; layer++)
        for (size_t i = 0; i < N_THINKER_LAYER; i++) {
            const struct thinker_shape *s = &thinker_layer[i];
            thinker_values(at, s->rows * s->columns, s->scale, (uint64_t)layer * 100 + i + 1);
            at += s->rows * s->columns;
        }
}

static inline void make_thinker(struct maker *m, const char *chat_template)
{
    static const struct {
        const char *key;
        uint32_t value;
    } numbers[] = {{"llama.block_count", THINKER_LAYERS},
                   {"llama.context_length", 4096},
                   {"llama.embedding_length", THINKER_VOCAB},
                   {"llama.feed_forward_length", 32},
                   {"llama.attention.head_count", THINKER_HEADS},
                   {"llama.attention.head_count_kv", THINKER_HEADS},
                   {"tokenizer.ggml.bos_token_id", BPE_BOS},
                   {"tokenizer.ggml.eos_token_id", BPE_END}};
    const float eps = 1e-5f;
    char name[64];
    *m = (struct maker){0};
    thinker_is_base = !chat_template;
    maker_str(m, "general.architecture", "llama");
    maker_str(m, "general.name", "thinker");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        maker_u32(m, numbers[i].key, numbers[i].value);
    maker_value(m, "llama.attention.layer_norm_rms_epsilon", GGUF_F32, &eps, sizeof eps);
    maker_str(m, "tokenizer.ggml.model", "gpt2");
    maker_str(m, "tokenizer.ggml.pre", "gpt-2");
    maker_bool(m, "tokenizer.ggml.add_bos_token", true);
    if (chat_template) maker_str(m, "tokenizer.chat_template", chat_template);
    thinker_words(m);
    thinker_tensor(m, "token_embd.weight", THINKER_VOCAB, THINKER_VOCAB);
    thinker_tensor(m, "output.weight", THINKER_VOCAB, THINKER_VOCAB);
    thinker_tensor(m, "output_norm.weight", 1, THINKER_VOCAB);
    for (int layer = 0; layer < THINKER_LAYERS; layer++)
        for (size_t i = 0; i < N_THINKER_LAYER; i++) {
            const struct thinker_shape *s = &thinker_layer[i];
            snprintf(name, sizeof name, "blk.%d.%s.weight", layer, s->name);
            thinker_tensor(m, name, s->rows, s->columns);
        }
    maker_end(m);
    thinker_fill(m);
}

#endif
