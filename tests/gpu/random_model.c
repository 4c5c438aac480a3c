/* Writes a Llama model of random 4-bit weights in the shape of a real one, to measure speed on
 * machines without model files. Usage: random_model 8B|3B|1B|Phi-3|SmolLM2|tiny FILE; tiny is for
 * dry runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/convert/gguf_write.h"

enum { F32 = 0, Q4_0 = 2, VOCABULARY = 128256, CONTEXT = 131072 };

static const struct shape {
    const char *name;
    int n_layer, n_embd, n_ff, n_head, n_kv_head, dim, n_vocab;
} shapes[] = {
    {"8B", 32, 4096, 14336, 32, 8, 128, VOCABULARY}, {"3B", 28, 3072, 8192, 24, 8, 128, VOCABULARY},
    {"1B", 16, 2048, 8192, 32, 8, 64, VOCABULARY},   {"Phi-3", 32, 3072, 8192, 32, 32, 96, 32064},
    {"SmolLM2", 30, 576, 1536, 9, 3, 64, 49152},     {"tiny", 2, 128, 256, 2, 1, 64, 512},
};

static struct err error;

static void check(int rc)
{
    if (!rc) return;
    fprintf(stderr, "random_model: %s\n", error.text);
    exit(1);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* 256 bytes, three marks, and words that occur in no text. */
static void write_vocabulary(struct gguf_keys *k, int n)
{
    enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, BYTE = 6 };
    static const char *const marks[] = {"<unk>", "<s>", "</s>"};
    static int32_t types[VOCABULARY];
    static float scores[VOCABULARY];
    struct str words = {0};
    char text[32];
    for (int i = 0; i < n; i++) {
        if (i < 3)
            snprintf(text, sizeof text, "%s", marks[i]);
        else if (i < 259)
            snprintf(text, sizeof text, "<0x%02X>", (unsigned)(i - 3));
        else
            snprintf(text, sizeof text, "~%d~", i);
        types[i] = i == 0 ? UNKNOWN : i < 3 ? CONTROL : i < 259 ? BYTE : NORMAL;
        scores[i] = (float)-i;
        gguf_keys_element(&words, text, strlen(text));
    }
    gguf_keys_str(k, "tokenizer.ggml.model", "llama");
    gguf_keys_array(k, "tokenizer.ggml.tokens", GGUF_STRING, (uint64_t)n, words.data, words.n);
    gguf_keys_array(k, "tokenizer.ggml.scores", GGUF_F32, (uint64_t)n, scores,
                    (size_t)n * sizeof *scores);
    gguf_keys_array(k, "tokenizer.ggml.token_type", GGUF_I32, (uint64_t)n, types,
                    (size_t)n * sizeof *types);
    gguf_keys_u32(k, "tokenizer.ggml.bos_token_id", 1);
    gguf_keys_u32(k, "tokenizer.ggml.eos_token_id", 2);
    str_release(&words);
}

static void write_keys(struct gguf_keys *k, const struct shape *s)
{
    char name[32];
    snprintf(name, sizeof name, "random %s", s->name);
    gguf_keys_str(k, "general.architecture", "llama");
    gguf_keys_str(k, "general.name", name);
    gguf_keys_u32(k, "llama.block_count", (uint32_t)s->n_layer);
    gguf_keys_u32(k, "llama.context_length", CONTEXT);
    gguf_keys_u32(k, "llama.embedding_length", (uint32_t)s->n_embd);
    gguf_keys_u32(k, "llama.feed_forward_length", (uint32_t)s->n_ff);
    gguf_keys_u32(k, "llama.attention.head_count", (uint32_t)s->n_head);
    gguf_keys_u32(k, "llama.attention.head_count_kv", (uint32_t)s->n_kv_head);
    gguf_keys_f32(k, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gguf_keys_f32(k, "llama.rope.freq_base", 500000.0f);
    gguf_keys_u32(k, "llama.rope.dimension_count", (uint32_t)s->dim);
    gguf_keys_u32(k, "llama.vocab_size", (uint32_t)s->n_vocab);
    write_vocabulary(k, s->n_vocab);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static struct gguf_writer *writer;
static bool writing; /* else: describing */

/* Blocks of 32 weights: a scale of 2^-9, and nibbles. */
static void write_matrix(int64_t n_weights)
{
    enum { BLOCKS = 4096, BLOCK = 18 };
    static unsigned char bytes[BLOCKS * BLOCK];
    static uint32_t seed = 1;
    for (size_t i = 0; i < sizeof bytes; i++) {
        seed = seed * 1664525u + 1013904223u;
        bytes[i] = i % BLOCK == 0 ? 0 : i % BLOCK == 1 ? 0x18 : (unsigned char)(seed >> 24);
    }
    for (int64_t at = 0; at < n_weights / 32; at += BLOCKS) {
        const int64_t n = n_weights / 32 - at < BLOCKS ? n_weights / 32 - at : BLOCKS;
        check(gguf_write_data(writer, bytes, (size_t)n * BLOCK, &error));
    }
}

static void tensor(const char *name, uint32_t type, int64_t n_in, int64_t n_out)
{
    static float ones[16384];
    const int64_t ne[] = {n_in, n_out};
    for (int i = 0; i < 16384; i++) ones[i] = 1.0f;
    if (!writing)
        check(gguf_write_tensor(writer, name, type, n_out > 1 ? 2 : 1, ne, &error));
    else if (type == F32)
        check(gguf_write_data(writer, ones, (size_t)n_in * sizeof *ones, &error));
    else
        write_matrix(n_in * n_out);
}

static void layer(int i, const struct shape *s)
{
    const int64_t n = s->n_embd, kv = (int64_t)s->n_kv_head * s->dim,
                  q = (int64_t)s->n_head * s->dim;
    const struct {
        const char *name;
        uint32_t type;
        int64_t n_in, n_out;
    } all[] = {
        {"attn_norm", F32, n, 1},       {"attn_q", Q4_0, n, q},
        {"attn_k", Q4_0, n, kv},        {"attn_v", Q4_0, n, kv},
        {"attn_output", Q4_0, q, n},    {"ffn_norm", F32, n, 1},
        {"ffn_gate", Q4_0, n, s->n_ff}, {"ffn_up", Q4_0, n, s->n_ff},
        {"ffn_down", Q4_0, s->n_ff, n},
    };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.%s.weight", i, all[k].name);
        tensor(name, all[k].type, all[k].n_in, all[k].n_out);
    }
}

static void tensors(const struct shape *s)
{
    tensor("token_embd.weight", Q4_0, s->n_embd, s->n_vocab);
    for (int i = 0; i < s->n_layer; i++) layer(i, s);
    tensor("output_norm.weight", F32, s->n_embd, 1);
}

int main(int argc, char **argv)
{
    const struct shape *s = shapes;
    struct gguf_keys keys = {0};
    char digest[65];
    const size_t n_shapes = sizeof shapes / sizeof *shapes;
    while (s < shapes + n_shapes && (argc < 3 || strcmp(s->name, argv[1]) != 0)) s++;
    if (s == shapes + n_shapes) {
        fprintf(stderr, "usage: random_model 8B|3B|1B|Phi-3|tiny FILE\n");
        return 2;
    }
    check(gguf_write_open(&writer, argv[2], true, &error));
    write_keys(&keys, s);
    tensors(s);
    check(gguf_write_begin(writer, &keys, &error));
    writing = true;
    tensors(s);
    check(gguf_write_commit(writer, digest, &error));
    gguf_write_close(writer);
    gguf_keys_release(&keys);
    return 0;
}
