/* make_model: model files in the shape of real ones, with random weights drawn from a hash. Their
 * vocabularies hold real words, and the role names are ordinary words of them, as in the files that
 * people download. An answer is some words from the same list, in random order, and ends: the
 * newest token decides which ones may be next, the 18 to 30 layers add a little noise.
 *
 *   chatml  SmolLM2: family llama, 30 layers, 3 KV heads, the largest vocabulary
 *   llama3  Llama 3: family llama, 16 layers, 8 KV heads, the smallest vocabulary
 *   gemma   Gemma 3: family gemma3, 18 layers of 1 KV head, 15 of them with windows
 *   base    the same without a template and without marks
 *   mtp     GLM-4.5 without experts: family glm4moe, 2 layers and an MTP layer, which proposes a
 * word that may follow the newest token */
#ifndef RETAIN_TESTS_MAKE_MODEL_H
#define RETAIN_TESTS_MAKE_MODEL_H

#include <math.h>
#include <stdio.h>

#include "base/random.h"
#include "tests/unit/make_vocab.h"

enum { MODEL_EMBD = 96, MODEL_FF = 64, MODEL_DIM = 32, MODEL_VOCAB_MAX = 1024, MODEL_NEXT = 4 };

struct model_kind {
    const char *name, *arch, *title, *pre, *chat; /* pre: NULL for sentencepiece */
    int n_layer, n_head, n_kv, n_words;
    const char
        *marks[6]; /* control tokens, from id 0; the second begins a text, the last ends it */
};

static const struct model_kind model_kinds[] = {
    {.name = "chatml",
     .arch = "llama",
     .title = "Random 2M 8k Lc1K Mix1 Ep2",
     .pre = "smollm",
     .chat =
         "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
         "{{ '<|im_start|>system\nYou are a helpful AI assistant<|im_end|>\n' }}{% endif %}"
         "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
         "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
     .n_layer = 30,
     .n_head = 9,
     .n_kv = 3,
     .n_words = 96,
     .marks = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}},
    {.name = "llama3",
     .arch = "llama",
     .title = "Random Llama 3",
     .pre = "llama-bpe",
     .chat = "{% for message in messages %}{% set content = '<|start_header_id|>' + "
             "message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>'"
             " %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}"
             "{{ content }}{% endfor %}{% if add_generation_prompt %}"
             "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
     .n_layer = 16,
     .n_head = 8,
     .n_kv = 8,
     .n_words = 48,
     .marks = {"<|end_of_text|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
               "<|eot_id|>"}},
    {.name = "gemma",
     .arch = "gemma3",
     .title = "Random Gemma",
     .chat = "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'assistant' %}"
             "{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}"
             "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}"
             "{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}",
     .n_layer = 18,
     .n_head = 4,
     .n_kv = 1,
     .n_words = 80,
     .marks = {"<pad>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"}},
    {.name = "base",
     .arch = "gemma3",
     .title = "Random Base",
     .n_layer = 18,
     .n_head = 4,
     .n_kv = 1,
     .n_words = 80,
     .marks = {"<pad>", "<bos>", "<unk>", "<eos>"}},
    {.name = "mtp",
     .arch = "glm4moe",
     .title = "Random GLM",
     .pre = "smollm",
     .chat =
         "{% for message in messages %}{{ '<|' + message['role'] + '|>\n' + message['content'] }}"
         "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}",
     .n_layer = 2,
     .n_head = 2,
     .n_kv = 1,
     .n_words = 96,
     .marks = {"<|endoftext|>", "<|assistant|>", "<|user|>"}},
};
#define N_MODEL_KINDS (sizeof model_kinds / sizeof *model_kinds)

/* Answers are made of these. */
static const char *const model_words[] = {
    "the",   "is",   "my",    "name",  "I",     "you",    "it",    "and",   "in",   "a",
    "to",    "of",   "that",  "was",   "for",   "on",     "are",   "with",  "they", "be",
    "at",    "one",  "have",  "this",  "from",  "by",     "hot",   "word",  "what", "some",
    "we",    "can",  "out",   "other", "were",  "all",    "there", "when",  "up",   "use",
    "your",  "how",  "said",  "each",  "she",   "which",  "do",    "their", "time", "if",
    "will",  "way",  "about", "many",  "then",  "them",   "write", "would", "like", "so",
    "these", "her",  "long",  "make",  "thing", "see",    "him",   "two",   "has",  "look",
    "more",  "day",  "could", "go",    "come",  "did",    "sound", "no",    "most", "people",
    "over",  "know", "water", "than",  "call",  "first",  "who",   "may",   "down", "side",
    "been",  "now",  "find",  "cat",   "dog",   "garden",
};
/* Role names as templates write them, and what the user types first: without a space. */
static const char *const model_roles[] = {"user", "assistant", "system", "model", "My", "What"};

struct model_vocab {
    char text[MODEL_VOCAB_MAX][24];
    int32_t type[MODEL_VOCAB_MAX];
    int n, n_merges, words[128]; /* words: ids of model_words */
    char merges[MODEL_VOCAB_MAX][32];
};

static inline int vocab_find(const struct model_vocab *v, const char *text)
{
    for (int i = 0; i < v->n; i++)
        if (!strcmp(v->text[i], text)) return i;
    return -1;
}

static inline int vocab_add(struct model_vocab *v, const char *text, int32_t type)
{
    int at = vocab_find(v, text);
    if (at >= 0) return at;
    snprintf(v->text[v->n], sizeof *v->text, "%s", text);
    v->type[v->n] = type;
    return v->n++;
}

/* A word as tokens that grow from its left, letter by letter: "t", "th", "the". */
static inline int vocab_word(struct model_vocab *v, const char *space, const char *word)
{
    char left[24];
    int id = -1, n = snprintf(left, sizeof left, "%s", *space ? space : (char[]){*word, 0});
    for (const char *p = word + !*space; *p; p++) {
        left[n++] = *p;
        left[n] = 0;
        int before = v->n;
        id = vocab_add(v, left, 1);
        if (v->n > before)
            snprintf(v->merges[v->n_merges++], sizeof *v->merges, "%.*s %c", n - 1, left, *p);
    }
    return id;
}

static inline void vocab_fill(struct model_vocab *v, const struct model_kind *k)
{
    char text[8];
    for (int i = 0; i < 6 && k->marks[i]; i++) vocab_add(v, k->marks[i], i == 2 && !k->pre ? 2 : 3);
    for (int b = 0; b < 256; b++) {
        if (k->pre)
            write_byte(b, text);
        else
            snprintf(text, sizeof text, "<0x%02X>", b);
        vocab_add(v, text, k->pre ? 1 : 6);
    }
    if (!k->pre) vocab_add(v, "\xE2\x96\x81", 1);
    for (int b = 32; b < 127 && !k->pre; b++) vocab_add(v, (char[]){(char)b, 0}, 1);
    vocab_add(v, k->pre ? "\xC4\x8A" : "\n", 1);
    if (k->pre) {
        vocab_add(v, "\xC4\x8A\xC4\x8A", 1);
        snprintf(v->merges[v->n_merges++], sizeof *v->merges, "\xC4\x8A \xC4\x8A");
    }
    for (int i = 0; i < k->n_words; i++)
        v->words[i] = vocab_word(v, k->pre ? "\xC4\xA0" : "\xE2\x96\x81", model_words[i]);
    for (size_t i = 0; i < sizeof model_roles / sizeof *model_roles; i++)
        vocab_word(v, "", model_roles[i]);
}

/* The last mark ends an answer. */
static inline int model_end(const struct model_kind *k)
{
    int end = 0;
    while (k->marks[end + 1]) end++;
    return end;
}

static inline void vocab_write(struct maker *m, const struct model_vocab *v,
                               const struct model_kind *k)
{
    static struct word words[MODEL_VOCAB_MAX];
    for (int i = 0; i < v->n; i++) words[i] = (struct word){v->text[i], v->type[i], (float)-i};
    maker_str(m, "tokenizer.ggml.model", k->pre ? "gpt2" : "llama");
    maker_str(m, "tokenizer.ggml.pre", k->pre ? k->pre : "default");
    maker_words(m, words, (size_t)v->n);
    if (k->pre) maker_array(m, "tokenizer.ggml.merges", GGUF_STRING, (uint64_t)v->n_merges);
    for (int i = 0; k->pre && i < v->n_merges; i++)
        put_text(&m->keys, v->merges[i], strlen(v->merges[i]));
    maker_u32(m, "tokenizer.ggml.bos_token_id", 1);
    maker_u32(m, "tokenizer.ggml.eos_token_id", (uint32_t)model_end(k));
    if (!k->pre) maker_u32(m, "tokenizer.ggml.unknown_token_id", 2);
    maker_bool(m, "tokenizer.ggml.add_bos_token", strcmp(k->name, "chatml") != 0);
    maker_bool(m, "tokenizer.ggml.add_space_prefix", false);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* [n_out][n_in], uniform with a standard deviation of about gain / sqrt(n_in). */
static inline void maker_random(struct maker *m, const char *name, int n_in, int n_out, double gain)
{
    const uint64_t tensor = m->n_tensors;
    const int power = (int)lround(log2(gain * 0.23 / sqrt(n_in)));
    const uint16_t head[2] = {(uint16_t)((power + 15) << 10),
                              (uint16_t)((power + 18) << 10 | 0x8000)};
    uint8_t block[20]; /* Q4_1: d, m = -8 d, nibbles */
    maker_data(m, name, GGUF_T_Q4_1, n_in, n_out);
    memcpy(block, head, 4);
    for (uint64_t i = 0; i < (uint64_t)n_in * (uint64_t)n_out / 32; i++) {
        for (uint64_t j = 0; j < 16; j++)
            block[4 + j] = (uint8_t)(256 * random_at(1, tensor, i * 16 + j));
        str_append(&m->data, block, sizeof block);
    }
}

static inline void maker_vector(struct maker *m, const char *name, int n, float value)
{
    maker_data(m, name, GGUF_T_F32, n, 1);
    for (int i = 0; i < n; i++) str_append(&m->data, &value, sizeof value);
}

/* What an answer may begin after: the end of a line, or of "Assistant:". */
static inline bool model_is_line(const struct model_vocab *v, int id)
{
    const char *text = v->text[id];
    return *text == '\n' || *text == ':' || !strncmp(text, "\xC4\x8A", 2);
}

static inline bool model_is_word(const struct model_vocab *v, const struct model_kind *k, int id)
{
    for (int i = 0; i < k->n_words; i++)
        if (v->words[i] == id) return true;
    return false;
}

/* Token id's embedding. Its first number says that an answer may end after it. */
static inline void model_embed_row(const struct model_vocab *v, const struct model_kind *k, int id,
                                   float out[MODEL_EMBD])
{
    for (uint64_t i = 0; i < MODEL_EMBD; i++)
        out[i] = (float)(3.4 * (random_at(2, (uint64_t)id, i) - 0.5));
    out[0] = model_is_line(v, id) || (model_is_word(v, k, id) && id % 3) ? 0.0f : 4.0f;
}

/* Adds an embedding to the output rows of the words that may be next. */
static inline void model_next(const struct model_vocab *v, const struct model_kind *k, int id,
                              const float *embedding, float *output)
{
    for (uint64_t i = 0; i < MODEL_NEXT; i++) {
        int word = (int)(k->n_words * random_at(3, (uint64_t)id, i));
        float *row = output + (size_t)v->words[word] * MODEL_EMBD;
        for (int j = 1; j < MODEL_EMBD; j++) row[j] += 0.1f * embedding[j];
    }
}

static inline void model_words_write(struct maker *m, const struct model_vocab *v,
                                     const struct model_kind *k)
{
    static float output[MODEL_VOCAB_MAX * MODEL_EMBD];
    float e[MODEL_EMBD];
    memset(output, 0, sizeof output);
    maker_data(m, "token_embd.weight", GGUF_T_Q8_0, MODEL_EMBD, v->n);
    for (int id = 0; id < v->n; id++) {
        model_embed_row(v, k, id, e);
        for (int i = 0; i < MODEL_EMBD; i++) {
            const uint16_t d = 11 << 10; /* 2^-4 */
            int8_t q = (int8_t)lroundf(e[i] * 16);
            if (i % 32 == 0) str_append(&m->data, &d, 2);
            str_append(&m->data, &q, 1);
        }
        if (model_is_line(v, id) || model_is_word(v, k, id)) model_next(v, k, id, e, output);
    }
    output[model_end(k) * MODEL_EMBD] = 2.4f;
    maker_data(m, "output.weight", GGUF_T_F32, MODEL_EMBD, v->n);
    str_append(&m->data, output, (size_t)v->n * MODEL_EMBD * sizeof *output);
}

static inline void model_layer_write(struct maker *m, const struct model_kind *k, int i)
{
    const bool gemma = !strcmp(k->arch, "gemma3");
    const int q = k->n_head * MODEL_DIM, kv = k->n_kv * MODEL_DIM;
    const struct {
        const char *name;
        int n_in, n_out;
        double gain; /* 0: a vector of ones; below 0: of that small factor, Gemma's alone */
    } all[] = {
        {"attn_norm", MODEL_EMBD, 1, 0},          {"attn_q", MODEL_EMBD, q, 1.3},
        {"attn_k", MODEL_EMBD, kv, 1.3},          {"attn_v", MODEL_EMBD, kv, 1},
        {"attn_output", q, MODEL_EMBD, 0.05},     {"ffn_norm", MODEL_EMBD, 1, 0},
        {"ffn_gate", MODEL_EMBD, MODEL_FF, 1},    {"ffn_up", MODEL_EMBD, MODEL_FF, 1},
        {"ffn_down", MODEL_FF, MODEL_EMBD, 0.05}, {"attn_q_norm", MODEL_DIM, 1, -1},
        {"attn_k_norm", MODEL_DIM, 1, -1},        {"post_attention_norm", MODEL_EMBD, 1, -0.3},
        {"post_ffw_norm", MODEL_EMBD, 1, -0.3},
    };
    char name[64];
    for (size_t j = 0; j < sizeof all / sizeof *all; j++) {
        snprintf(name, sizeof name, "blk.%d.%s.weight", i, all[j].name);
        if (all[j].gain > 0)
            maker_random(m, name, all[j].n_in, all[j].n_out, all[j].gain);
        else if (all[j].gain == 0)
            maker_vector(m, name, all[j].n_in, 1);
        else if (gemma)
            maker_vector(m, name, all[j].n_in, (float)-all[j].gain);
    }
}

static inline bool model_has_mtp(const struct model_kind *k)
{
    return !strcmp(k->name, "mtp");
}

/* The layer reads the normed embedding; the rest of its input has a small part. */
static inline void model_mtp_write(struct maker *m, const struct model_kind *k)
{
    static const char *const norms[] = {"enorm", "hnorm", "shared_head_norm"};
    static float project[MODEL_EMBD][2 * MODEL_EMBD];
    char name[64];
    for (size_t i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "blk.%d.nextn.%s.weight", k->n_layer, norms[i]);
        maker_vector(m, name, MODEL_EMBD, 1);
    }
    for (uint64_t i = 0; i < MODEL_EMBD; i++)
        for (uint64_t j = 0; j < 2 * MODEL_EMBD; j++)
            project[i][j] = (i == j) + (float)(0.02 * (random_at(4, i, j) - 0.5));
    snprintf(name, sizeof name, "blk.%d.nextn.eh_proj.weight", k->n_layer);
    maker_data(m, name, GGUF_T_F32, 2 * MODEL_EMBD, MODEL_EMBD);
    str_append(&m->data, project, sizeof project);
    model_layer_write(m, k, k->n_layer);
}

static inline void model_keys(struct maker *m, const struct model_kind *k)
{
    const struct {
        const char *key;
        int value;
    } numbers[] = {{"block_count", k->n_layer + model_has_mtp(k)},
                   {"context_length", 8192},
                   {"embedding_length", MODEL_EMBD},
                   {"feed_forward_length", MODEL_FF},
                   {"attention.head_count", k->n_head},
                   {"attention.head_count_kv", k->n_kv},
                   {"attention.key_length", MODEL_DIM},
                   {"attention.value_length", MODEL_DIM},
                   {"rope.dimension_count", MODEL_DIM},
                   {model_has_mtp(k) ? "nextn_predict_layers" : "attention.sliding_window",
                    model_has_mtp(k) ? 1 : 64}}; /* the last one is not Llama's */
    const size_t n = sizeof numbers / sizeof *numbers - !strcmp(k->arch, "llama");
    const float eps = 1e-5f;
    char key[64];
    maker_str(m, "general.architecture", k->arch);
    maker_str(m, "general.name", k->title);
    maker_u32(m, "general.file_type", 3); /* mostly Q4_1 */
    for (size_t i = 0; i < n; i++) {
        snprintf(key, sizeof key, "%s.%s", k->arch, numbers[i].key);
        maker_u32(m, key, (uint32_t)numbers[i].value);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", k->arch);
    maker_value(m, key, GGUF_F32, &eps, sizeof eps);
    if (k->chat) maker_str(m, "tokenizer.chat_template", k->chat);
}

static inline void make_kind(struct maker *m, const struct model_kind *k)
{
    static struct model_vocab v;
    memset(&v, 0, sizeof v);
    *m = (struct maker){0};
    vocab_fill(&v, k);
    model_keys(m, k);
    vocab_write(m, &v, k);
    model_words_write(m, &v, k);
    maker_vector(m, "output_norm.weight", MODEL_EMBD, 1);
    for (int i = 0; i < k->n_layer; i++) model_layer_write(m, k, i);
    if (model_has_mtp(k)) model_mtp_write(m, k);
    maker_end(m);
}

/* False if no kind has that name. */
static inline bool make_model(struct maker *m, const char *name)
{
    const struct model_kind *k = model_kinds;
    while (k < model_kinds + N_MODEL_KINDS && strcmp(k->name, name) != 0) k++;
    if (k == model_kinds + N_MODEL_KINDS) return false;
    make_kind(m, k);
    return true;
}

#endif
