/* fuzz: files of a Hugging Face folder: a safetensors file, tokenizer.json or tokenizer.model,
 * chosen by the first byte. */
#include <stddef.h>
#include <stdint.h>

#include "quant/convert/convert_vocab.h"
#include "quant/convert/json.h"
#include "quant/convert/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void safetensors(const uint8_t *bytes, size_t n)
{
    struct safetensors *s;
    struct err e;
    volatile unsigned sum = 0;
    if (safetensors_open_bytes(&s, bytes, n, "fuzz", &e)) return;
    for (size_t i = 0; i < safetensors_n(s); i++) {
        const struct safetensors_tensor *t = safetensors_at(s, i);
        const uint8_t *data = t->data;
        for (size_t k = 0; k < t->bytes; k++) sum = sum + data[k];
    }
    safetensors_close(s);
}

static void tokenizer(const uint8_t *bytes, size_t n)
{
    cJSON *o;
    struct gguf_keys k = {0};
    struct err e;
    if (json_parse(&o, (const char *)bytes, n, "fuzz", &e)) return;
    convert_vocab_bpe(&k, o, 300, "fuzz", &e);
    gguf_keys_release(&k);
    cJSON_Delete(o);
}

static void sentencepiece(const uint8_t *bytes, size_t n)
{
    struct gguf_keys k = {0};
    struct err e;
    convert_vocab_spm(&k, bytes, n, NULL, 40, "fuzz", &e);
    gguf_keys_release(&k);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n == 0) return 0;
    if (bytes[0] == 's')
        safetensors(bytes + 1, n - 1);
    else if (bytes[0] == 't')
        tokenizer(bytes + 1, n - 1);
    else if (bytes[0] == 'm')
        sentencepiece(bytes + 1, n - 1);
    return 0;
}
