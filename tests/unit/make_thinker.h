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
    static struct word words[THINKER_VOCAB];
    static char texts[THINKER_VOCAB][16];
    memcpy(words, bpe_marks, sizeof bpe_marks);
    if (thinker_is_base) words[BPE_IM_START].text = "<|begin|>";
    byte_words(words + BPE_BYTES);
    words[THINK] = (struct word){"<think>", 4, 0};
    words[THOUGHT] = (struct word){"</think>", 4, 0};
    words[LINES] = (struct word){"\xC4\x8A\xC4\x8A", 1, 0};
    for (int i = HM; i < THINKER_VOCAB; i++) {
        const char *word = i < YES ? "hm" : i < YES + N_YES ? "yes" : "unused";
        const int n = i - (i < YES ? HM : YES);
        snprintf(texts[i], sizeof texts[i], "%s%s%d", n ? "\xC4\xA0" : "", word, n);
        words[i] = (struct word){texts[i], 1, 0};
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

/* A scale of 0: all values are 1. */
static const struct {
    const char *name;
    int rows, columns;
    float scale;
} thinker_layer[] = {
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

static inline void thinker_tensor(struct maker *m, const char *name, int rows, int columns,
                                  float scale, uint64_t seed)
{
    maker_data(m, name, GGUF_T_F32, columns, rows);
    for (int i = 0; i < rows * columns; i++) {
        const float x = scale > 0 ? scale * (float)(random_at(seed, 7, (uint64_t)i) - 0.5) : 1;
        str_append(&m->data, &x, sizeof x);
    }
}

/* Each token has one dimension, its own or that of the one before it. */
static inline void thinker_ids(struct maker *m, const char *name, bool next, float value)
{
    const float zero = 0;
    maker_data(m, name, GGUF_T_F32, THINKER_VOCAB, THINKER_VOCAB);
    for (int row = 0; row < THINKER_VOCAB; row++)
        for (int i = 0; i < THINKER_VOCAB; i++)
            str_append(&m->data, (next ? thinker_next(i) : i) == row ? &value : &zero,
                       sizeof value);
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
    thinker_ids(m, "token_embd.weight", false, 1);
    thinker_ids(m, "output.weight", true, 10);
    thinker_tensor(m, "output_norm.weight", 1, THINKER_VOCAB, 0, 0);
    for (int layer = 0; layer < THINKER_LAYERS; layer++)
        for (size_t i = 0; i < N_THINKER_LAYER; i++) {
            snprintf(name, sizeof name, "blk.%d.%s.weight", layer, thinker_layer[i].name);
            thinker_tensor(m, name, thinker_layer[i].rows, thinker_layer[i].columns,
                           thinker_layer[i].scale, (uint64_t)layer * 100 + i + 1);
        }
    maker_end(m);
}

#endif
