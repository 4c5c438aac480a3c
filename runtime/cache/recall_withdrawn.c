/* Withdrawals: the passage that takes back what a chosen window says ("Forget that.", "It is no
 * longer Oslo."). It often shares no word with the question, so the question alone finds only what
 * it withdraws. It is a sentence of the user, after the window, no question, that
 *
 *   - has a word of the list below and shares words with the window: the sum of their cubed
 *     rarities is at least SHARED of that of the window's rarest word. Of several the one with the
 *     largest sum counts, on ties the newest; or else
 *   - has a word of the list that needs no object, and is one of the NEXT sentences of the user.
 *
 * The list is English. Where other languages withdraw with the words of the question, the rule of
 * the newest windows (recall_choose) finds the withdrawal. */
#include <string.h>

#include "base/word.h"
#include "runtime/cache/recall_choosers.h"

#define SHARED 0.4f
#define NEXT   3

/* `second` follows in the same sentence. */
static const struct phrase {
    const char *first, *second;
    bool alone; /* it says enough without naming what it withdraws */
} phrases[] = {
    {"forget", NULL, true},     {"scrap", NULL, true},    {"ignore", NULL, true},
    {"disregard", NULL, true},  {"cancel", NULL, true},   {"correction", NULL, true},
    {"mistake", NULL, true},    {"wrong", NULL, true},    {"meant", NULL, true},
    {"never", "mind", true},    {"not", "but", true},     {"instead", NULL, true},
    {"any", "more", false},     {"anymore", NULL, false}, {"no", "longer", false},
    {"used", "to", false},      {"not", NULL, false},     {"isn", NULL, false},
    {"don", NULL, false},       {"doesn", NULL, false},   {"changed", NULL, false},
    {"cancelled", NULL, false}, {"now", NULL, false},
};

enum { N_PHRASES = sizeof phrases / sizeof *phrases, IN_WINDOW = 1, IN_LIST = 2 };

struct search {
    uint32_t first[N_PHRASES], second[N_PHRASES];
    uint32_t words[RECALL_SPAN]; /* [n] of the window */
    float weights[RECALL_SPAN];
    int n;
    float least;
    uint8_t in[4096]; /* where a word with these last 12 bits may be: IN_WINDOW, IN_LIST or both */
};

static uint32_t word_named(const char *text)
{
    struct word_reader r = {0};
    return text ? word_read(&r, text, strlen(text)).word : 0;
}

static void read_window(const struct archive *x, int at, int n, struct search *s)
{
    for (int i = at; i < at + n && i < x->n; i++) {
        const float rarity = archive_rarity(x, x->word[i]);
        bool again = !x->word[i];
        for (int k = 0; k < s->n; k++) again |= s->words[k] == x->word[i];
        if (again) continue;
        s->words[s->n] = x->word[i];
        s->weights[s->n] = rarity * rarity * rarity;
        if (SHARED * s->weights[s->n] > s->least) s->least = SHARED * s->weights[s->n];
        s->in[s->words[s->n++] % sizeof s->in] |= IN_WINDOW;
    }
    for (int k = 0; k < N_PHRASES; k++) {
        s->first[k] = word_named(phrases[k].first);
        s->second[k] = word_named(phrases[k].second);
        s->in[s->first[k] % sizeof s->in] |= IN_LIST;
        if (s->second[k]) s->in[s->second[k] % sizeof s->in] |= IN_LIST;
    }
}

/* What the sentence [from, end) shares with the window; 0 if it withdraws nothing. *alone: it needs
 * no object. */
static float weigh(const struct archive *x, int from, int end, const struct search *s, bool *alone)
{
    bool begun[N_PHRASES] = {false}, shared[RECALL_SPAN] = {false}, withdraws = false;
    float sum = 0;
    *alone = false;
    for (int i = from; i < end; i++) {
        const uint32_t word = x->word[i];
        const uint8_t in = s->in[word % sizeof s->in];
        if (!word || !in) continue; /* nearly always */
        for (int k = 0; in & IN_WINDOW && k < s->n; k++) {
            if (s->words[k] != word || shared[k]) continue;
            shared[k] = true;
            sum += s->weights[k];
        }
        for (int k = 0; in & IN_LIST && k < N_PHRASES; k++) {
            const bool whole =
                s->second[k] ? begun[k] && word == s->second[k] : word == s->first[k];
            begun[k] |= word == s->first[k];
            withdraws |= whole;
            *alone |= whole && phrases[k].alone;
        }
    }
    return withdraws ? sum : 0;
}

/* The first sentence from index `from` on that may have a word of the list. */
static int next_listed(const struct archive *x, int from, const struct search *s)
{
    int i = from, end;
    while (i < x->n && !(s->in[x->word[i] % sizeof s->in] & IN_LIST)) i++;
    const int word = i;
    while (i > from && i < x->n && !(x->flags[i - 1] & ARCHIVE_ENDS) &&
           x->pos[i] == x->pos[i - 1] + 1)
        i--;
    while (i < x->n && (end = recall_sentence_end(x, i)) <= word) i = end; /* a part of it */
    return i;
}

int recall_withdrawal(const struct archive *x, int at, int n)
{
    struct search s = {.n = 0};
    float most = 0;
    int found = -1, next = 0;
    read_window(x, at, n, &s);
    for (int i = at + n, end; i < x->n; i = end) {
        bool alone;
        if (next >= NEXT) i = next_listed(x, i, &s);
        if (i == x->n) break;
        end = recall_sentence_end(x, i);
        if (x->id[i] < 0 || x->flags[i] & (ARCHIVE_ANSWER | ARCHIVE_ASKS)) continue;
        const float sum = weigh(x, i, end, &s, &alone);
        const bool follows = next++ < NEXT && alone && found < 0;
        if (!follows && (sum < s.least || sum < most)) continue;
        found = i;
        most = sum > s.least ? sum : s.least;
    }
    return found;
}
