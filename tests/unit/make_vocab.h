/* make_vocab: two small vocabularies in memory, one of each kind, for tests without model files. */
#ifndef RETAIN_TESTS_MAKE_VOCAB_H
#define RETAIN_TESTS_MAKE_VOCAB_H

#include <stdio.h>

#include "tests/unit/make_gguf.h"

struct word {
    const char *text;
    int32_t type;
    float score;
};

static inline void maker_words(struct maker *m, const struct word *words, size_t n)
{
    maker_array(m, "tokenizer.ggml.tokens", GGUF_STRING, n);
    for (size_t i = 0; i < n; i++) put_text(&m->keys, words[i].text, strlen(words[i].text));
    maker_array(m, "tokenizer.ggml.token_type", GGUF_I32, n);
    for (size_t i = 0; i < n; i++) str_append(&m->keys, &words[i].type, 4);
    maker_array(m, "tokenizer.ggml.scores", GGUF_F32, n);
    for (size_t i = 0; i < n; i++) str_append(&m->keys, &words[i].score, 4);
}

/* A byte as GPT-2 writes it: U+0100 onwards for bytes that don't print. */
static inline void write_byte(int byte, char out[3])
{
    int c = byte, n = 0;
    bool prints = (byte > 32 && byte < 127) || (byte > 160 && byte < 173) || byte > 173;
    if (!prints) {
        for (int b = c = 0; b < byte; b++)
            c += !((b > 32 && b < 127) || (b > 160 && b < 173) || b > 173);
        c += 256;
    }
    if (c >= 128) out[n++] = (char)(0xC0 | c >> 6);
    out[n++] = (char)(c < 128 ? c : 0x80 | (c & 63));
    out[n] = 0;
}

/* The 256 bytes, as tokens. */
static inline void byte_words(struct word out[256])
{
    static char text[256][3];
    for (int b = 0; b < 256; b++) {
        write_byte(b, text[b]);
        out[b] = (struct word){text[b], 1, 0};
    }
}

/* Ids: 0-9 special tokens as below, 10-265 bytes, then the results of merges. */
enum {
    BPE_BOS,
    BPE_USER,
    BPE_ASSISTANT,
    BPE_SYSTEM,
    BPE_END,
    BPE_IM_START,
    BPE_IM_END,
    BPE_ENDS,
    BPE_SPACES,
    BPE_USER_MARK,
    BPE_BYTES,
};
#define BPE_HELLO 270 /* " hello", by way of he ll hell hello */

static const struct word bpe_marks[BPE_BYTES] = {
    {"<|bos|>", 3, 0}, {"<|user|>", 3, 0},     {"<|assistant|>", 3, 0}, {"<|system|>", 3, 0},
    {"<|end|>", 3, 0}, {"<|im_start|>", 3, 0}, {"<|im_end|>", 3, 0},    {"<|end|><|end|>", 3, 0},
    {"    ", 4, 0},    {"<|mark|>", 4, 0},
};

/* Without BOS and EOS. */
static inline void make_bpe_plain(struct maker *m, const char *pre)
{
    static const char *const joined[] = {"he", "ll", "hell", "hello", "\xC4\xA0hello", "ab", "12"};
    static const char *const merges[] = {"h e",  "l l", "he ll",   "hell o", "\xC4\xA0 hello",
                                         "a b",  "1 2", "< |",     "<| end", "e n",
                                         "en d", "| >", "<|end |>"};
    static struct word words[BPE_BYTES + 256 + 7];
    memcpy(words, bpe_marks, sizeof bpe_marks);
    byte_words(words + BPE_BYTES);
    for (int i = 0; i < 7; i++) words[BPE_BYTES + 256 + i] = (struct word){joined[i], 1, 0};
    *m = (struct maker){0};
    maker_str(m, "tokenizer.ggml.model", "gpt2");
    if (pre) maker_str(m, "tokenizer.ggml.pre", pre);
    maker_words(m, words, sizeof words / sizeof *words);
    maker_array(m, "tokenizer.ggml.merges", GGUF_STRING, sizeof merges / sizeof *merges);
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++)
        put_text(&m->keys, merges[i], strlen(merges[i]));
}

static inline void make_bpe(struct maker *m, const char *pre)
{
    make_bpe_plain(m, pre);
    maker_u32(m, "tokenizer.ggml.bos_token_id", BPE_BOS);
    maker_u32(m, "tokenizer.ggml.eos_token_id", BPE_END);
    maker_bool(m, "tokenizer.ggml.add_bos_token", true);
}

/* Ids: 0 <unk>, 1 <s>, 2 </s>, 3-258 bytes, then these. */
enum {
    SPM_BYTES = 3,
    SPM_BLANK = 259,
    SPM_A,
    SPM_B,
    SPM_C,
    SPM_AB,
    SPM_BC,
    SPM_BLANK_A,
    SPM_BLANKS,
    SPM_THINK,
    SPM_WORDS
};

static inline void make_spm_named(struct maker *m, const char *model)
{
    static const struct word tail[] = {
        {"\xE2\x96\x81", 1, -9},
        {"a", 1, -9},
        {"b", 1, -9},
        {"c", 1, -9},
        {"ab", 1, -3},
        {"bc", 1, -2},
        {"\xE2\x96\x81"
         "a",
         1, -4},
        {"\xE2\x96\x81\xE2\x96\x81", 1, -1},
        {"</think>", 4, 0},
    };
    static struct word words[SPM_WORDS];
    static char bytes[256][8];
    words[0] = (struct word){"<unk>", 2, 0};
    words[1] = (struct word){"<s>", 3, 0};
    words[2] = (struct word){"</s>", 3, 0};
    for (int b = 0; b < 256; b++) {
        snprintf(bytes[b], sizeof bytes[b], "<0x%02X>", b);
        words[SPM_BYTES + b] = (struct word){bytes[b], 6, 0};
    }
    memcpy(words + SPM_BLANK, tail, sizeof tail);
    *m = (struct maker){0};
    maker_str(m, "tokenizer.ggml.model", model);
    maker_words(m, words, SPM_WORDS);
    maker_u32(m, "tokenizer.ggml.bos_token_id", 1);
    maker_u32(m, "tokenizer.ggml.eos_token_id", 2);
    maker_u32(m, "tokenizer.ggml.unknown_token_id", 0);
}

static inline void make_spm(struct maker *m)
{
    make_spm_named(m, "llama");
}

/* As Gemma 4: merges, whose order is not that of the scores, instead of these. */
static inline void make_spm_merges(struct maker *m)
{
    static const char *const merges[] = {"a b", "b c", "\xE2\x96\x81 a"};
    make_spm_named(m, "gemma4");
    maker_array(m, "tokenizer.ggml.merges", GGUF_STRING, 3);
    for (int i = 0; i < 3; i++) put_text(&m->keys, merges[i], strlen(merges[i]));
}

#endif
