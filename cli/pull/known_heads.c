#include "cli/pull/known_heads.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Those of Locret (arXiv 2410.01805), KVzap (2601.07891) and Fast KVzip (2601.17668). */
#define KVZAP(model)             "hf:nvidia/KVzap-" model ":model.safetensors"
#define FAST_KVZIP(model, group) "hf:Jang-Hyun/Fast-KVzip:" model "/q" group "_dim16_sink16.pt"
static const struct known_heads table[] = {
    {"llama-3.1-8b-instruct", 32, 4096, "hf:hyx21/Locret-llama-3.1-8B-instruct"},
    {"llama-3.1-8b-instruct", 32, 4096, KVZAP("linear-Llama-3.1-8B-Instruct")},
    {"phi-3-mini-128k", 32, 3072, "hf:hyx21/Locret-phi-3-mini-128K"},
    {"qwen3-8b", 36, 4096, FAST_KVZIP("qwen3-8b", "4")},
    {"qwen3-8b", 36, 4096, KVZAP("mlp-Qwen3-8B")},
    {"qwen3-14b", 40, 5120, FAST_KVZIP("qwen3-14b", "5")},
    {"qwen3-32b", 64, 5120, KVZAP("linear-Qwen3-32B")},
    {"qwen3-4b-instruct-2507", 36, 2560, FAST_KVZIP("qwen3-4b-instruct-2507", "4")},
    {"qwen2.5-7b-instruct-1m", 28, 3584, FAST_KVZIP("qwen2.5-7b-instruct-1m", "7")},
    {"qwen2.5-14b-instruct-1m", 48, 5120, FAST_KVZIP("qwen2.5-14b-instruct-1m", "5")},
    {"gemma-3-12b-it", 48, 3840, FAST_KVZIP("gemma-3-12b-it", "2")},
};

/* "Meta Llama 3.1 8B Instruct" has the words of "llama-3.1-8b-instruct". */
static bool has_words(const char *name, const char *words)
{
    size_t n = strlen(words);
    for (; *name; name++) {
        size_t i = 0;
        while (i < n && name[i]) {
            int c = tolower((unsigned char)name[i]);
            if (c == ' ' || c == '_') c = '-';
            if (c != words[i]) break;
            i++;
        }
        if (i == n) return true;
    }
    return false;
}

const struct known_heads *known_heads_for(const char *name, int n_layer, int n_embd, int i)
{
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        if (table[k].n_layer == n_layer && table[k].n_embd == n_embd &&
            has_words(name, table[k].model) && i-- == 0)
            return &table[k];
    return NULL;
}
