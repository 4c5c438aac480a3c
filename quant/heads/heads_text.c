#include "quant/heads/heads_text.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "base/embed.h"
#include "base/random.h"

/* clang-format off */
/* Lewis Carroll, Alice's Adventures in Wonderland (1865); Arthur Conan Doyle, A Scandal in Bohemia
 * (1891); small talk; all sorts of things. A line each. */
EMBED(heads_passages, "quant/heads/passages.txt");
extern const char heads_passages[];
enum { N_PASSAGES = 4 };

/* What is told between the sentences of the passages, is asked at their end, and is answered; and
 * the part that has another value in other texts. */
static const char *const facts[][4] = {
    {"I grew up on a farm near Tralee.", "Where did I grow up?", "You grew up on a farm near Tralee.", "Tralee"},
    {"Our hotel room is 417.", "What is our hotel room?", "Your hotel room is 417.", "417"},
    {"The appointment at the clinic is at 9:45.", "When is the appointment at the clinic?", "The appointment at the clinic is at 9:45.", "9:45"},
    {"My niece plays the oboe.", "What does my niece play?", "Your niece plays the oboe.", "oboe"},
    {"The password of the printer is maple77.", "What is the password of the printer?", "The password of the printer is maple77.", "maple77"},
    {"My son is allergic to walnuts.", "What is my son allergic to?", "Your son is allergic to walnuts.", "walnuts"},
    {"Our old boat was called Seagull.", "What was our old boat called?", "Your old boat was called Seagull.", "Seagull"},
    {"The contract ends on 30 November.", "When does the contract end?", "The contract ends on 30 November.", "30"},
    {"My wife's maiden name is Kowalski.", "What is my wife's maiden name?", "Your wife's maiden name is Kowalski.", "Kowalski"},
    {"The recipe needs saffron, rice and mussels.", "What does the recipe need?", "The recipe needs saffron, rice and mussels.", "saffron"},
    {"The bus to the stadium is number 38.", "Which bus goes to the stadium?", "The bus to the stadium is number 38.", "38"},
    {"Dr. Okafor will look after the horses.", "Who will look after the horses?", "Dr. Okafor will look after the horses.", "Okafor"},
    {"The rent went up to 840 euros.", "How much is the rent?", "The rent went up to 840 euros.", "840"},
    {"Ingrid repairs clocks in Maidstone.", "What does Ingrid do?", "Ingrid repairs clocks in Maidstone.", "Maidstone"},
    {"Her postcode is TN23 4QX.", "What is her postcode?", "Her postcode is TN23 4QX.", "23"},
    {"The keys of the cabin are with Leopold.", "Who has the keys of the cabin?", "The keys of the cabin are with Leopold.", "Leopold"},
    {"My blood type is B negative.", "What is my blood type?", "Your blood type is B negative.", "negative"},
    {"The concert begins at 19:30.", "When does the concert begin?", "The concert begins at 19:30.", "19:30"},
    {"The invoice number is 80447.", "What is the invoice number?", "The invoice number is 80447.", "80447"},
    {"My roommate studies botany.", "What does my roommate study?", "Your roommate studies botany.", "botany"},
    {"Samuel ordered the pumpkin soup.", "What did Samuel order?", "Samuel ordered the pumpkin soup.", "pumpkin"},
    {"I used to drive a red Skoda.", "What did I use to drive?", "You used to drive a red Skoda.", "Skoda"},
    {"The map is hidden inside the globe.", "Where is the map hidden?", "The map is hidden inside the globe.", "globe"},
    {"The new manager is Mrs. Delgado.", "Who is the new manager?", "The new manager is Mrs. Delgado.", "Delgado"},
    {"My shoe size is 43.", "What is my shoe size?", "Your shoe size is 43.", "43"},
    {"The twins are named Ada and Bruno.", "What are the twins named?", "The twins are named Ada and Bruno.", "Bruno"},
    {"We will fly to Valparaiso with Iberia.", "Where will we fly?", "You will fly to Valparaiso with Iberia.", "Valparaiso"},
    {"The combination of the safe is 18-32-7.", "What is the combination of the safe?", "The combination of the safe is 18-32-7.", "18-32-7"},
    {"The horse that won was Thunderbolt.", "Which horse won?", "The horse that won was Thunderbolt.", "Thunderbolt"},
    {"I learned Danish at school.", "What did I learn at school?", "You learned Danish at school.", "Danish"},
    {"Her violin was made in Cremona.", "Where was her violin made?", "Her violin was made in Cremona.", "Cremona"},
    {"My doctor told me to eat more spinach.", "What did my doctor tell me to eat?", "Your doctor told you to eat more spinach.", "spinach"},
    {"The phone number of the garage is 558902.", "What is the phone number of the garage?", "The phone number of the garage is 558902.", "558902"},
    {"Please buy eleven lemons and a blue notebook.", "What should you buy?", "Eleven lemons and a blue notebook.", "lemons"},
    {"The tailor's shop is next to the fountain.", "Where is the tailor's shop?", "The tailor's shop is next to the fountain.", "fountain"},
    {"My favourite poet is Szymborska.", "Who is my favourite poet?", "Your favourite poet is Szymborska.", "Szymborska"},
    {"The lecture is about volcanoes.", "What is the lecture about?", "The lecture is about volcanoes.", "volcanoes"},
    {"The deposit for the flat was 1250 pounds.", "How much was the deposit for the flat?", "The deposit for the flat was 1250 pounds.", "1250"},
    {"Mr. Abernathy lives in the yellow house.", "Where does Mr. Abernathy live?", "Mr. Abernathy lives in the yellow house.", "yellow"},
    {"Our anniversary is on 9 July.", "When is our anniversary?", "Your anniversary is on 9 July.", "9"},
    {"I left the umbrella in the tram.", "Where did I leave the umbrella?", "You left the umbrella in the tram.", "tram"},
    {"The wifi is called bluebird5.", "What is the wifi called?", "The wifi is called bluebird5.", "bluebird5"},
    {"My aunt collects porcelain dolls.", "What does my aunt collect?", "Your aunt collects porcelain dolls.", "porcelain"},
    {"The ferry leaves from pier 4.", "Where does the ferry leave from?", "The ferry leaves from pier 4.", "4"},
    {"The museum is closed on Mondays.", "When is the museum closed?", "The museum is closed on Mondays.", "Mondays"},
    {"The parcel weighs nine pounds.", "How much does the parcel weigh?", "The parcel weighs nine pounds.", "nine"},
    {"I am afraid of spiders and thunder.", "What am I afraid of?", "You are afraid of spiders and thunder.", "spiders"},
    {"The order number of the sofa is 62-118.", "What is the order number of the sofa?", "The order number of the sofa is 62-118.", "62-118"},
};
/* clang-format on */

enum { N_FACTS = sizeof facts / sizeof *facts };

#define OWN_VALUE 3

/* The bytes of a text up to the end of a sentence, `least` or more. */
static size_t sentences(const char *text, size_t n, size_t least)
{
    while (least < n && !(strchr(".!?", text[least - 1]) && strchr(" \n", text[least]))) least++;
    return least < n ? least : n;
}

/* Appends a sentence of a fact with another value. */
static void put_fact(struct str *out, int kind, int column, const char *value)
{
    const char *text = facts[kind][column], *own = facts[kind][OWN_VALUE], *at = strstr(text, own);
    str_append(out, text, (size_t)(at - text));
    str_printf(out, "%s%s", value, at + strlen(own));
}

/* Facts that a row tells. */
struct telling {
    int n, kinds[HEADS_TEXT_FACTS];
    struct str values[HEADS_TEXT_FACTS];
};

static void telling_release(struct telling *t)
{
    for (int i = 0; i < t->n; i++) str_release(&t->values[i]);
}

/* Tells the facts at even distances between sentences of a text. */
static void put_document(const char *text, size_t n, const struct telling *t, struct str *out)
{
    size_t at = 0;
    for (int i = 0; i < t->n; i++) {
        const size_t end = sentences(text, n, at + n / (size_t)t->n);
        str_append(out, text + at, end - at);
        str_puts(out, " ");
        put_fact(out, t->kinds[i], 0, str_get(&t->values[i]));
        at = end;
    }
    str_append(out, text + at, n - at);
}

static int add_row(struct heads_data *d, const char *text, size_t n, const struct telling *t,
                   struct err *e)
{
    struct str document = {0}, answer = {0};
    cJSON *row = cJSON_CreateObject();
    put_document(text, n, t, &document);
    cJSON_AddStringToObject(row, "document", str_get(&document));
    cJSON *questions = cJSON_AddArrayToObject(row, "question");
    cJSON *answers = cJSON_AddArrayToObject(row, "answer");
    for (int i = 0; i < t->n; i++) {
        str_clear(&answer);
        put_fact(&answer, t->kinds[i], 2, str_get(&t->values[i]));
        cJSON_AddItemToArray(questions, cJSON_CreateString(facts[t->kinds[i]][1]));
        cJSON_AddItemToArray(answers, cJSON_CreateString(str_get(&answer)));
    }
    char *line = cJSON_PrintUnformatted(row);
    int rc = line ? 0 : err_set(e, ERR_FAIL, "out of memory for a row");
    if (line) heads_data_add(d, line, strlen(line));
    free(line);
    cJSON_Delete(row);
    str_release(&answer);
    str_release(&document);
    return rc;
}

/* ---- the built-in text ----------------------------------------------------------------------- */

/* Row i has the passage i, in turn, and every N_PASSAGES-th fact: in each turn others. */
#define TURNS 3

int heads_text_open(struct heads_data *d, struct err *e)
{
    int rc = 0;
    *d = (struct heads_data){.name = "the built-in text"};
    const char *text = heads_passages;
    for (int row = 0; !rc && row < TURNS * N_PASSAGES; row++) {
        if (row % N_PASSAGES == 0) text = heads_passages;
        const size_t n = strcspn(text, "\n");
        struct telling t = {.n = 0};
        for (int k = (row + row / N_PASSAGES) % N_PASSAGES; k < N_FACTS; k += N_PASSAGES) {
            str_puts(&t.values[t.n], facts[k][OWN_VALUE]);
            t.kinds[t.n++] = k;
        }
        rc = add_row(d, text, n, &t, e);
        telling_release(&t);
        text += n + 1;
    }
    return rc;
}

/* ---- other texts ----------------------------------------------------------------------------- */

#define FACT_TOKENS 128 /* one fact in so many tokens of a row */
#define HELD_BACK   4   /* one kind of fact in so many is told in rows held back, and only there */
#define SEARCH      65536 /* bytes of a text that are searched for a word */

static bool lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

/* Length of the word at byte `at`, if it can be a value: a name inside a sentence, or a long word
 * in small letters; else 0. */
static size_t word_at(const char *text, size_t n, size_t at, bool name)
{
    size_t end = at + 1;
    if (at < 2 || text[at - 1] != ' ' || !lower(text[at - 2])) return 0;
    if (name ? !upper(text[at]) : !lower(text[at])) return 0;
    while (end < n && lower(text[end])) end++;
    return end < n && strchr(" ,.", text[end]) && end - at >= (name ? 4 : 5) ? end - at : 0;
}

/* A value like a kind's own: other digits, or a word of the text. */
static void draw_value(const struct str *text, int kind, uint64_t seed, uint64_t stream,
                       struct str *out)
{
    const char *own = facts[kind][OWN_VALUE];
    const size_t from = (size_t)(random_at(seed, stream, 0) * (double)text->n);
    if (!strpbrk(own, "0123456789"))
        for (size_t at = from, n; at < text->n && at < from + SEARCH; at++)
            if ((n = word_at(text->data, text->n, at, upper(*own)))) {
                str_append(out, text->data + at, n);
                return;
            }
    for (size_t i = 0; own[i]; i++) {
        const char digit = (char)('0' + (int)(random_at(seed, stream, i + 1) * 10));
        str_append(out, own[i] >= '0' && own[i] <= '9' ? &digit : &own[i], 1);
    }
}

/* The kinds of a row, in random order: those of rows held back, or the others. */
static void draw_kinds(int out[N_FACTS], bool held_back, uint64_t seed, uint64_t stream)
{
    int n = 0;
    for (int k = 0; k < N_FACTS; k++)
        if ((k % HELD_BACK == 0) == held_back) {
            const int at = (int)(random_at(seed, stream, (uint64_t)k) * (n + 1));
            out[n++] = out[at];
            out[at] = k;
        }
}

int heads_text_weave(struct heads_data *out, const struct heads_data *d, int row, int n_max,
                     bool held_back, uint64_t seed, struct err *e)
{
    const int room = n_max / FACT_TOKENS;
    int kinds[N_FACTS] = {0};
    const uint64_t stream = (uint64_t)row * (HEADS_TEXT_FACTS + 1);
    draw_kinds(kinds, held_back, seed, stream);
    struct telling t = {.n = room < 1 ? 1 : room < HEADS_TEXT_FACTS ? room : HEADS_TEXT_FACTS};
    for (int i = 0; i < t.n; i++) {
        t.kinds[i] = kinds[i];
        draw_value(&d->text, kinds[i], seed, stream + (uint64_t)i + 1, &t.values[i]);
    }
    str_clear(&out->text);
    out->n = 0;
    out->name = d->name;
    int rc = add_row(out, d->text.data + d->rows[row], d->rows[row + 1] - d->rows[row], &t, e);
    telling_release(&t);
    return rc;
}
