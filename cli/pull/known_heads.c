#include "cli/pull/known_heads.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Locret, arXiv 2410.01805. */
static const struct known_heads table[] = {
    {"llama-3.1-8b-instruct", 32, 4096, "hf:hyx21/Locret-llama-3.1-8B-instruct"},
    {"phi-3-mini-128k", 32, 3072, "hf:hyx21/Locret-phi-3-mini-128K"},
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

const struct known_heads *known_heads_for(const char *name, int n_layer, int n_embd)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].n_layer == n_layer && table[i].n_embd == n_embd &&
            has_words(name, table[i].model))
            return &table[i];
    return NULL;
}
