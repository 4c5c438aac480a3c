#include "runtime/save/messages.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static char *copy_bytes(const void *p, size_t n)
{
    char *out = memory_grow(NULL, n + 1, 1);
    if (n) memcpy(out, p, n);
    out[n] = 0;
    return out;
}

int messages_add(void *ctx, const struct store_message *m)
{
    struct messages *l = ctx;
    l->all = memory_grow(l->all, l->n + 1, sizeof *l->all);
    struct message *k = &l->all[l->n++];
    *k = (struct message){.m = *m, .text = copy_bytes(m->text, m->n_text)};
    if (m->thought.text) k->thought = copy_bytes(m->thought.text, m->thought.n);
    if (m->settings) k->settings = copy_bytes(m->settings, strlen(m->settings));
    k->tokens = (int32_t *)(void *)copy_bytes(m->tokens, m->n_tokens * sizeof *m->tokens);
    k->m.text = k->text;
    k->m.thought.text = k->thought;
    k->m.settings = k->settings;
    k->m.tokens = k->tokens;
    return 0;
}

void messages_release(struct messages *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->all[i].text);
        free(l->all[i].thought);
        free(l->all[i].settings);
        free(l->all[i].tokens);
    }
    free(l->all);
    *l = (struct messages){0};
}
