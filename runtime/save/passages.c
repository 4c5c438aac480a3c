#include "runtime/save/passages.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/word.h"
#include "runtime/save/conversations.h"
#include "store/store.h"

#define WORDS_MAX  32    /* of a message, the first */
#define WORD_MAX   48    /* bytes of a word, with the NUL */
#define READ_MAX   1000  /* messages that are read for one message */
#define SHORT      200   /* bytes of a message that is taken whole, if it asks nothing */
#define LONG       400   /* bytes of a longer sentence that is left out */
#define LEAST      0.33f /* of the message's weight that a sentence must have, */
#define LEAST_BEST 0.5f  /* and of the best sentence's weight */

static const char mark[] = "From \"";

/* ---- words ----------------------------------------------------------------------------------- */

struct word {
    char text[WORD_MAX]; /* as the message spells it; a longer word is cut */
    uint32_t hash;
    int64_t n_messages; /* that contain it */
    float weight;       /* rarity, cubed, as recall_words.c does */
    bool stated;        /* a sentence that was read contains it */
};

struct words {
    struct word at[WORDS_MAX];
    int n;
};

static int find(const struct words *w, uint32_t hash)
{
    int i = 0;
    while (i < w->n && w->at[i].hash != hash) i++;
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
    struct word_reader r = {0};
    uint32_t hash;
    *w = (struct words){0};
    for (size_t at = 0, from; w->n < WORDS_MAX && word_next(&r, text, n, &at, &from, &hash);) {
        if (find(w, hash) >= 0) continue;
        struct word *word = &w->at[w->n++];
        word->hash = hash;
        snprintf(word->text, WORD_MAX, "%.*s", (int)(at - from), text + from);
    }
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
    char name[STORE_NAME_MAX];
    char text[LONG + 1];
    float weight;
    int message, order; /* the newest message is the first; sentences in the order of its text */
};

struct search {
    struct words *words;
    const char *from, *own;
    struct passage best[PASSAGES_MAX]; /* by weight, the newest first of equals */
    int n, message, order;
};

/* Of the words that message and text share; a single shared word ("are") says nothing. */
static float weight_of(struct words *w, const char *text, size_t n)
{
    bool seen[WORDS_MAX] = {false};
    struct word_reader r = {0};
    uint32_t hash;
    float sum = 0;
    int n_shared = 0;
    for (size_t at = 0, from; word_next(&r, text, n, &at, &from, &hash);) {
        int i = find(w, hash);
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
    p->message = s->message;
    p->order = s->order++;
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
    s->message++;
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
static int remove_known(void *ctx, const struct store_message *m)
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

static int by_time(const void *a, const void *b)
{
    const struct passage *x = a, *y = b;
    return x->message != y->message ? y->message - x->message : x->order - y->order;
}

/* In the order in which they were said: the last is what holds now. */
static void put(struct search *s, struct str *out)
{
    const float best = s->n ? s->best[0].weight : 0;
    const char *before = "";
    if (best < LEAST * weight_of_message(s->words)) return;
    qsort(s->best, (size_t)s->n, sizeof *s->best, by_time);
    for (int i = 0; i < s->n; i++) {
        const struct passage *p = &s->best[i];
        if (p->weight < LEAST_BEST * best) continue;
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

int passages_check(struct conversations *l, const char *from, struct err *e)
{
    char name[STORE_NAME_MAX];
    if (!l || !conversations_store(l))
        return err_set(e, ERR_USAGE, "--recall-from: a private chat reads no other conversation");
    if (conversations_is_encrypted(l))
        return err_set(e, ERR_USAGE,
                       "--recall-from: the database is encrypted and has no index of words");
    if (strcmp(from, "all") == 0) return 0;
    for (size_t n; *from; from += n + (from[n] == ',')) {
        n = strcspn(from, ",");
        snprintf(name, sizeof name, "%.*s", (int)n, from);
        int found = conversations_has(l, name, e);
        if (found < 0) return found;
        if (!found)
            return err_set(e, ERR_FAIL, "--recall-from: no conversation %.100s; /list shows them",
                           name);
    }
    return 0;
}
