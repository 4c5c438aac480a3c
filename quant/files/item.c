#include "quant/files/item.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
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

static void strings_clear(struct item_strings *s)
{
    while (s->n) free((char *)(uintptr_t)s->item[--s->n]);
}

static void strings_release(struct item_strings *s)
{
    strings_clear(s);
    free(s->item);
    *s = (struct item_strings){0};
}

void item_clear(struct item *it)
{
    struct str *texts[] = {&it->id, &it->group, &it->before, &it->context, &it->after, &it->prefix};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) str_clear(texts[i]);
    strings_clear(&it->turns);
    strings_clear(&it->answers);
    strings_clear(&it->classes);
    it->system = NULL;
    it->metric = NULL;
    it->raw = it->first_line = false;
}

void item_release(struct item *it)
{
    item_clear(it);
    struct str *texts[] = {&it->id, &it->group, &it->before, &it->context, &it->after, &it->prefix};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) str_release(texts[i]);
    strings_release(&it->turns);
    strings_release(&it->answers);
    strings_release(&it->classes);
}

struct metric_score item_score(const struct item *it, const char *prediction)
{
    struct str line = {0};
    if (it->first_line) {
        prediction += strspn(prediction, "\n");
        str_append(&line, prediction, strcspn(prediction, "\n"));
        prediction = str_get(&line);
    }
    struct metric_input in = {prediction, it->answers.item, it->answers.n, it->classes.item,
                              it->classes.n};
    struct metric_score score = metric_score(it->metric, &in);
    str_release(&line);
    return score;
}

void item_question_first(struct item *it)
{
    struct str first = {0};
    const char *question = str_get(&it->after);
    str_puts(&first, question + strspn(question, " \n"));
    str_puts(&first, "\n\n");
    size_t n = first.n;
    str_append(&first, str_get(&it->before), it->before.n);
    str_release(&it->before);
    it->before = first;
    if (!it->turns.n) return;
    struct str turn = {0};
    str_append(&turn, str_get(&it->before), n);
    str_puts(&turn, it->turns.item[0]);
    free((char *)(uintptr_t)it->turns.item[0]);
    it->turns.item[0] = turn.data;
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
static int cut_middle(struct item *it, const struct tokenizer *t, size_t max, struct err *e)
{
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

/* The lines of a conversation from `at` on, with the last heading before them. */
static void keep_lines(struct str *s, size_t at)
{
    static const char heading[] = "DATE: ";
    struct str kept = {0};
    while (at < s->n && at && s->data[at - 1] != '\n') at++;
    size_t top = at;
    while (top && strncmp(s->data + top, heading, strlen(heading)) != 0)
        for (top--; top && s->data[top - 1] != '\n';) top--;
    if (top < at && !strncmp(s->data + top, heading, strlen(heading))) {
        const char *end = strchr(s->data + top, '\n');
        end = end ? strchr(end + 1, '\n') : NULL; /* the line CONVERSATION: */
        if (end && (size_t)(end + 1 - s->data) <= at)
            str_append(&kept, s->data + top, (size_t)(end + 1 - (s->data + top)));
    }
    str_append(&kept, s->data + at, s->n - at);
    str_release(s);
    *s = kept;
}

/* The first tokens of the context stay, or its last: as many as leave room for the rest. */
static int cut_side(struct item *it, const struct tokenizer *t, size_t max, struct err *e)
{
    struct tokens ids = {0};
    int64_t n = 0;
    int rc = item_count(it, t, &n, e);
    if (!rc) rc = encode(t, str_get(&it->context), it->context.n, &ids, e);
    if (!rc && (size_t)n > max) {
        size_t keep = less(ids.n, (size_t)n - max);
        if (it->cut == ITEM_CUT_END)
            remove_bytes(&it->context, count_bytes(t, &ids, 0, keep), it->context.n);
        else
            keep_lines(&it->context, border(&it->context, count_bytes(t, &ids, 0, ids.n - keep)));
    }
    tokens_release(&ids);
    return rc;
}

static size_t count_words(const struct str *s)
{
    size_t n = 1;
    for (size_t i = 0; i < s->n; i++) n += s->data[i] == ' ';
    return n;
}

/* Keeps n words between single spaces, the first or the last. */
static void keep_words(struct str *s, size_t n, bool last)
{
    size_t n_words = count_words(s), at = 0;
    if (n >= n_words) return;
    size_t border_word = last ? n_words - n : n;
    for (size_t words = 0; at < s->n && words < border_word; at++) words += s->data[at] == ' ';
    if (last)
        remove_bytes(s, 0, at);
    else
        remove_bytes(s, at ? at - 1 : 0, s->n);
}

/* First `max` words stay, then 250 fewer at each try; once that is less than none, as in Python,
 * that many fewer than there are. */
static int cut_words(struct item *it, const struct tokenizer *t, size_t max, struct err *e)
{
    struct tokens ids = {0};
    bool last = it->cut == ITEM_CUT_FIRST_WORDS;
    int rc = 0;
    for (size_t dropped = 0;; dropped += 250) {
        rc = encode(t, str_get(&it->context), it->context.n, &ids, e);
        if (rc || ids.n <= max || !it->context.n) break;
        size_t n = dropped < max
                       ? max - dropped
                       : less(count_words(&it->context), dropped - max + (dropped == max));
        keep_words(&it->context, n, last);
    }
    tokens_release(&ids);
    return rc;
}

int item_cut(struct item *it, const struct tokenizer *t, int64_t n_tokens, struct err *e)
{
    size_t max = (size_t)n_tokens;
    switch (it->cut) {
    case ITEM_CUT_MIDDLE: return cut_middle(it, t, max, e);
    case ITEM_CUT_END:
    case ITEM_CUT_START: return cut_side(it, t, max, e);
    case ITEM_CUT_WORDS:
    case ITEM_CUT_FIRST_WORDS: return cut_words(it, t, max, e);
    }
    return 0;
}
