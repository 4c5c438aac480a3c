#include "runtime/session/passages.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "runtime/session/conversations.h"
#include "store/store.h"

#define WORDS_MAX  32    /* of a message, the first */
#define WORD_MAX   48    /* bytes of a word, with the NUL */
#define READ_MAX   1000  /* messages that are read for one message */
#define SHORT      200   /* bytes of a message that is taken whole, if it asks nothing */
#define LONG       400   /* bytes of a longer sentence that is left out */
#define LEAST      0.33f /* of the message's weight that a sentence must have, */
#define LEAST_BEST 0.8f  /* and of the best sentence's weight */

static const char mark[] = "From \"";

/* ---- words ----------------------------------------------------------------------------------- */

/* Bytes of the letter or digit that the text begins with, 0 = none. Beyond ASCII all characters are
 * letters but quotation marks, dashes and the like (U+2000 to U+206F). */
static int letter_length(const char *text, size_t n)
{
    const int length = utf8_length(text, n), c = *text | 32;
    if (length == 1) return (*text >= '0' && *text <= '9') || (c >= 'a' && c <= 'z');
    if (length < 1) return 0;
    const uint32_t wide = utf8_decode(text, length);
    return wide >= 0x2000 && wide < 0x2070 ? 0 : length;
}

/* The word at or after *at, in small letters; false: none is left. A longer word is cut. */
static bool next_word(const char *text, size_t n, size_t *at, char out[WORD_MAX])
{
    size_t i = *at, used = 0;
    while (i < n && !letter_length(text + i, n - i)) i++;
    for (int length; i < n && (length = letter_length(text + i, n - i)) > 0; i += (size_t)length)
        for (int k = 0; k < length && used + 1 < WORD_MAX; k++)
            out[used++] = (char)(length == 1 ? text[i] | 32 : text[i + (size_t)k]);
    out[used] = 0;
    *at = i;
    return used > 0;
}

struct word {
    char text[WORD_MAX];
    int64_t n_messages; /* that contain it */
    float weight;       /* rarity, cubed, as recall_words.c does */
    bool stated;        /* a sentence that was read contains it */
};

struct words {
    struct word at[WORDS_MAX];
    int n;
};

static int find(const struct words *w, const char *text)
{
    int i = 0;
    while (i < w->n && strcmp(w->at[i].text, text) != 0) i++;
    return i < w->n ? i : -1;
}

static int weigh(struct store *s, struct words *w, struct err *e)
{
    int64_t total;
    int rc = store_message_total(s, &total, e);
    for (int i = 0; !rc && i < w->n; i++) {
        struct word *word = &w->at[i];
        rc = store_word_count(s, word->text, &word->n_messages, e);
        double n = word->n_messages > 0 ? (double)word->n_messages : 1;
        word->weight = rc ? 0 : powf((float)log(1 + (double)total / n), 3);
    }
    return rc;
}

static int read_words(struct store *s, const char *text, size_t n, struct words *w, struct err *e)
{
    char word[WORD_MAX];
    *w = (struct words){0};
    for (size_t at = 0; w->n < WORDS_MAX && next_word(text, n, &at, word);)
        if (find(w, word) < 0) snprintf(w->at[w->n++].text, WORD_MAX, "%s", word);
    return weigh(s, w, e);
}

/* "one" OR "two": the rarest words, as long as READ_MAX messages hold them. */
static void rare_words(const struct words *w, struct str *out)
{
    bool used[WORDS_MAX] = {false};
    for (int64_t n = 0;;) {
        int rarest = -1;
        for (int i = 0; i < w->n; i++)
            if (!used[i] && w->at[i].n_messages &&
                (rarest < 0 || w->at[i].n_messages < w->at[rarest].n_messages))
                rarest = i;
        if (rarest < 0) return;
        n += w->at[rarest].n_messages;
        if (out->n && n > READ_MAX) return;
        str_printf(out, "%s\"%s\"", out->n ? " OR " : "", w->at[rarest].text);
        used[rarest] = true;
    }
}

/* ---- sentences ------------------------------------------------------------------------------- */

struct passage {
    char name[CONVERSATION_NAME_MAX];
    char text[LONG + 1];
    float weight;
};

struct search {
    struct words *words;
    const char *from, *own;
    struct passage best[PASSAGES_MAX]; /* by weight, the newest first of equals */
    int n;
};

/* Of the words that message and text share; a single shared word ("are") says nothing. */
static float weight_of(struct words *w, const char *text, size_t n)
{
    bool seen[WORDS_MAX] = {false};
    char word[WORD_MAX];
    float sum = 0;
    int n_shared = 0;
    for (size_t at = 0; next_word(text, n, &at, word);) {
        int i = find(w, word);
        if (i < 0 || seen[i]) continue;
        seen[i] = w->at[i].stated = true;
        sum += w->at[i].weight;
        n_shared++;
    }
    return n_shared > 1 || w->n == 1 ? sum : 0;
}

/* name NULL: the sentence shows only which words are stated. */
static void offer(struct search *s, const char *name, const char *text, size_t n)
{
    float weight = weight_of(s->words, text, n);
    int at = 0;
    if (!name || weight == 0 || n > LONG) return;
    for (int i = 0; i < s->n; i++)
        if (strlen(s->best[i].text) == n && !memcmp(s->best[i].text, text, n)) return;
    while (at < s->n && s->best[at].weight >= weight) at++;
    if (at == PASSAGES_MAX) return;
    if (s->n < PASSAGES_MAX) s->n++;
    memmove(s->best + at + 1, s->best + at, sizeof *s->best * (size_t)(s->n - at - 1));
    struct passage *p = &s->best[at];
    p->weight = weight;
    snprintf(p->name, sizeof p->name, "%s", name);
    snprintf(p->text, sizeof p->text, "%.*s", (int)n, text);
}

static size_t sentence_length(const char *text, size_t n)
{
    size_t i = 0;
    while (i < n && text[i] != '\n') {
        bool ends = strchr(".!?", text[i++]) != NULL;
        if (ends && (i == n || text[i] == ' ' || text[i] == '\n')) break;
    }
    return i;
}

/* Whether a list of names, or "all", contains this one. */
static bool is_from(const char *from, const char *name)
{
    size_t n = strlen(name);
    if (strcmp(from, "all") == 0) return true;
    for (const char *at = from; *at; at += *at == ',') {
        size_t length = strcspn(at, ",");
        if (length == n && !memcmp(at, name, n)) return true;
        at += length;
    }
    return false;
}

static int offer_message(void *ctx, const struct store_related *m)
{
    struct search *s = ctx;
    const char *text = m->text, *end = m->text + m->n_text, *name = m->conversation;
    if (!strcmp(name, s->own) || !is_from(s->from, name)) name = NULL;
    if (!strncmp(text, mark, sizeof mark - 1)) name = NULL;
    if (memchr(text, 0, m->n_text)) return 0;
    if (m->n_text <= SHORT && !strchr(text, '?')) {
        offer(s, name, text, m->n_text);
        return 0;
    }
    while (text < end) {
        size_t n = sentence_length(text, (size_t)(end - text));
        if (n && text[n - 1] != '?') offer(s, name, text, n);
        text += n;
        text += strspn(text, " \n");
    }
    return 0;
}

/* ---- the text -------------------------------------------------------------------------------- */

/* Removes passages that the conversation contains already. */
static int remove_known(void *ctx, const struct conversations_message *m)
{
    struct search *s = ctx;
    int n = 0;
    for (int i = 0; i < s->n; i++)
        if (m->role != CHAT_USER || !strstr(m->text, s->best[i].text)) s->best[n++] = s->best[i];
    s->n = n;
    return n == 0;
}

/* Of the message. Words that occur in questions and answers only ("where") ask and name nothing. */
static float weight_of_message(const struct words *w)
{
    float sum = 0;
    for (int i = 0; i < w->n; i++)
        if (w->at[i].stated || !w->at[i].n_messages) sum += w->at[i].weight;
    return sum;
}

static void put(const struct search *s, struct str *out)
{
    const char *before = "";
    if (!s->n || s->best[0].weight < LEAST * weight_of_message(s->words)) return;
    for (int i = s->n - 1; i >= 0; i--) {
        const struct passage *p = &s->best[i];
        if (p->weight < LEAST_BEST * s->best[0].weight) continue;
        if (strcmp(p->name, before) != 0)
            str_printf(out, "%s%s%s\":", out->n ? " " : "", mark, p->name);
        str_printf(out, " %s", p->text);
        before = p->name;
    }
}

int passages_find(struct conversations *l, const char *from, const char *own, const char *message,
                  size_t n, struct str *out, struct err *e)
{
    struct store *store = conversations_store(l);
    struct words words;
    struct str rare = {0};
    struct search s = {.words = &words, .from = from, .own = own};
    int rc = read_words(store, message, n, &words, e);
    if (!rc) rare_words(&words, &rare);
    if (!rc && rare.n) rc = store_related_each(store, &rare, READ_MAX, offer_message, &s, e);
    if (!rc && s.n) rc = conversations_messages(l, own, remove_known, &s, e);
    str_release(&rare);
    if (rc < 0) return rc;
    put(&s, out);
    return 0;
}

static int is_named(void *ctx, const struct conversations_entry *c)
{
    return strcmp(c->name, ctx) == 0;
}

int passages_check(struct conversations *l, const char *from, struct err *e)
{
    char name[CONVERSATION_NAME_MAX];
    if (!l || !conversations_store(l))
        return err_set(e, ERR_USAGE, "--recall-from: a private chat reads no other conversation");
    if (conversations_is_encrypted(l))
        return err_set(e, ERR_USAGE,
                       "--recall-from: the database is encrypted and has no index of words");
    if (strcmp(from, "all") == 0) return 0;
    for (size_t n; *from; from += n + (from[n] == ',')) {
        n = strcspn(from, ",");
        snprintf(name, sizeof name, "%.*s", (int)n, from);
        int found = conversations_list(l, is_named, name, e);
        if (found < 0) return found;
        if (!found)
            return err_set(e, ERR_FAIL, "--recall-from: no conversation %.100s; /list shows them",
                           name);
    }
    return 0;
}
