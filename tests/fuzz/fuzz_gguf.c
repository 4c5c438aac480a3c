/* fuzz: bytes as a GGUF file, as a model's vocabulary and as a model. They must not cause a crash,
 * a leak, or memory use out of proportion to the input. */
#include <stddef.h>
#include <stdint.h>

#include "runtime/model/blocks.h"
#include "runtime/model/gguf.h"
#include "runtime/model/model.h"
#include "runtime/token/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* Reads every byte of every tensor with a readable type. */
static void touch(const struct gguf *g)
{
    float out[256];
    volatile float sum = 0;
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        const struct gguf_tensor_type *type = gguf_tensor_type(t->type);
        if (!t->data || !blocks_readable(t->type)) continue;
        for (size_t at = 0; at < t->bytes; at += (size_t)type->block_bytes) {
            blocks_to_float(out, t->type, (const char *)t->data + at, (size_t)type->block);
            sum = sum + out[0];
        }
    }
}

static void walk(const struct gguf *g)
{
    struct gguf_str key, s;
    struct gguf_array value;
    bool is_array;
    volatile size_t sum = 0;
    for (size_t i = 0; gguf_key_at(g, i, &key, &value, &is_array); i++) {
        sum = sum + key.n + (key.n ? (size_t)key.data[key.n - 1] : 0);
        for (size_t k = 0; k < value.n && k < 64; k++)
            sum = sum + (size_t)gguf_array_i32(&value, k) + (gguf_array_f32(&value, k) > 0);
        for (size_t cursor = 0; gguf_array_next_str(&value, &cursor, &s);)
            sum = sum + (s.n ? (size_t)s.data[s.n - 1] : 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct gguf *g;
    struct tokenizer *t;
    struct model *m;
    struct err e;
    if (gguf_open_bytes(&g, bytes, n, "fuzz", &e)) return 0;
    walk(g);
    touch(g);
    if (!tokenizer_open(&t, g, &e)) tokenizer_close(t);
    /* the model always takes ownership of the file */
    if (!model_open(&m, g, n % 2, &e)) model_close(m);
    return 0;
}
