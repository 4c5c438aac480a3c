#include "quant/files/item.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/token/tokenizer.h"

void item_strings_add(struct item_strings *s, const char *text, size_t n)
{
    if (s->n == s->max) {
        s->max = s->max ? 2 * s->max : 16;
        s->item = memory_grow(s->item, (size_t)s->max, sizeof *s->item);
    }
    char *copy = memory_new(n + 1, 1);
    memcpy(copy, text, n);
    s->item[s->n++] = copy;
}

static void strings_release(struct item_strings *s)
{
    while (s->n) free((char *)(uintptr_t)s->item[--s->n]);
    free(s->item);
}

void item_release(struct item *it)
{
    struct str *texts[] = {&it->id,    &it->group,  &it->before, &it->context,
                           &it->after, &it->prefix, &it->system};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) str_release(texts[i]);
    strings_release(&it->turns);
    strings_release(&it->answers);
    *it = (struct item){0};
}

/* ---- cutting --------------------------------------------------------------------------------- */

static int encode(const struct tokenizer *t, const char *text, size_t n, struct tokens *out,
                  struct err *e)
{
    struct tokenizer_span span = {text, n, false};
    out->n = 0;
    return tokenizer_encode(t, &span, 1, false, out, e);
}

static void join(const struct item *it, struct str *out)
{
    str_append(out, str_get(&it->before), it->before.n);
    str_append(out, str_get(&it->context), it->context.n);
    str_append(out, str_get(&it->after), it->after.n);
}

int item_count(const struct item *it, const struct tokenizer *t, int64_t *out, struct err *e)
{
    struct str prompt = {0};
    struct tokens ids = {0};
    join(it, &prompt);
    int rc = encode(t, str_get(&prompt), prompt.n, &ids, e);
    *out = (int64_t)ids.n;
    str_release(&prompt);
    tokens_release(&ids);
    return rc;
}

/* Bytes of ids [from, end). */
static size_t count_bytes(const struct tokenizer *t, const struct tokens *ids, size_t from,
                          size_t end)
{
    size_t sum = 0;
    for (size_t i = from; i < end; i++) {
        size_t n;
        tokenizer_bytes(t, ids->ids[i], true, &n);
        sum += n;
    }
    return sum;
}

/* Moves a border to the right until it is between two characters. */
static size_t border(const struct str *s, size_t at)
{
    if (at > s->n) at = s->n;
    while (at < s->n && ((unsigned char)s->data[at] & 0xC0) == 0x80) at++;
    return at;
}

/* Keeps bytes [0, from) and [end, n) of the context. */
static void remove_bytes(struct str *s, size_t from, size_t end)
{
    from = border(s, from);
    end = border(s, end);
    if (from >= end) return;
    memmove(s->data + from, s->data + end, s->n - end);
    s->n -= end - from;
    s->data[s->n] = 0;
}

static size_t less(size_t a, size_t b)
{
    return a > b ? a - b : 0;
}

/* The first and the last half of the prompt's tokens stay. */
int item_cut(struct item *it, const struct tokenizer *t, int64_t n_tokens, struct err *e)
{
    size_t max = (size_t)n_tokens;
    struct str prompt = {0};
    struct tokens ids = {0};
    join(it, &prompt);
    int rc = encode(t, str_get(&prompt), prompt.n, &ids, e);
    if (!rc && ids.n > max) {
        size_t half = max / 2;
        size_t head = count_bytes(t, &ids, 0, half);
        size_t tail = count_bytes(t, &ids, ids.n - half, ids.n);
        remove_bytes(&it->context, less(head, it->before.n),
                     it->context.n - less(tail, it->after.n));
    }
    str_release(&prompt);
    tokens_release(&ids);
    return rc;
}
