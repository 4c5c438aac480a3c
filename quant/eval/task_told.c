/* Facts told to a model that cannot hold a conversation: the first words of each answer are given,
 * "Your sister lives in", and the value is right if each of its tokens is the most likely one
 * (eval_run.c). The facts are told at even depths of the first four fifths of one message, between
 * small talk or, with -f FILE, sentences of a text.
 *
 * Kinds and values alternate between "told", which things may be chosen by, and "told-heldout". */
#include <string.h>

#include "quant/eval/task.h"
#include "quant/eval/task_words.h"

#define ASKED_SHARE 0.8 /* facts are told in this part of the text */

static const char *const places[] = {"Lisbon", "Oslo",   "Nairobi", "Dublin", "Toronto",  "Kyoto",
                                     "Warsaw", "Lima",   "Geneva",  "Hanoi",  "Budapest", "Chicago",
                                     "Naples", "Tehran", "Glasgow", "Havana", "Perth",    "Bergen"};
static const char *const persons[] = {"Martha", "Victor",  "Helen",  "Oscar",  "Irene",  "Felix",
                                      "Diana",  "Hugo",    "Clara",  "Boris",  "Nadia",  "Conrad",
                                      "Linda",  "Stanley", "Monica", "Gerald", "Teresa", "Rupert"};
static const char *const trades[] = {"carpenter", "dentist",   "pilot",      "baker",
                                     "plumber",   "librarian", "journalist", "gardener",
                                     "architect", "policeman", "musician",   "nurse"};
static const char *const things[] = {
    "violin", "lantern", "bicycle", "telescope", "blanket", "umbrella", "carpet", "camera",
    "kettle", "ladder",  "piano",   "mirror",    "hammer",  "canoe",    "guitar", "basket"};
static const char *const colours[] = {"purple", "green", "yellow", "orange",
                                      "brown",  "pink",  "silver", "grey"};
static const char *const animals[] = {"rabbit", "parrot", "turtle", "horse", "goat",
                                      "snake",  "ferret", "donkey", "owl",   "duck"};
static const char *const foods[] = {"mushroom soup", "apple pie",    "fried rice", "onion tart",
                                    "lamb stew",     "potato salad", "fish curry", "lemon cake",
                                    "bean chili",    "peach jam"};
static const char *const months[] = {"March", "June",      "October",  "January", "August",
                                     "April", "September", "February", "July",    "November"};
static const char *const spots[] = {"under the blue sofa",       "behind the water tank",
                                    "inside the old clock",      "on top of the fridge",
                                    "beneath the wooden stairs", "next to the green lamp",
                                    "in the bottom drawer",      "above the kitchen door"};
static const char *const goods[] = {"rope",   "candles", "eggs",  "nails", "soap",   "pepper",
                                    "stamps", "oranges", "flour", "tea",   "butter", "batteries",
                                    "onions", "paint",   "salt",  "honey"};

#define WORDS(table) .words = table, .n_words = sizeof(table) / sizeof *(table)
#define TWO(table)   WORDS(table), .list = true

/* clang-format off */
/* Where the value comes from: a list, or so many digits, or two of a list. */
static const struct kind {
    const char *told, *question, *first; /* told has %s for the value */
    const char *const *words;
    size_t n_words;
    int n_digits;
    bool list;
} kinds[] = {
    {"My sister lives in %s.", "Where does my sister live?", "Your sister lives in", WORDS(places)},
    {"My uncle moved to %s.", "Where did my uncle move?", "Your uncle moved to", WORDS(places)},
    {"I was born in %s.", "Where was I born?", "You were born in", WORDS(places)},
    {"The meeting will be held in %s.", "Where will the meeting be held?", "The meeting will be held in", WORDS(places)},
    {"My door code is %s.", "What is my door code?", "Your door code is", .n_digits = 4},
    {"The locker number is %s.", "What is the locker number?", "The locker number is", .n_digits = 3},
    {"My flight number is %s.", "What is my flight number?", "Your flight number is", .n_digits = 5},
    {"The ticket number is %s.", "What is the ticket number?", "The ticket number is", .n_digits = 6},
    {"My teacher's name is %s.", "What is my teacher's name?", "Your teacher's name is", WORDS(persons)},
    {"My dentist is called %s.", "What is my dentist called?", "Your dentist is called", WORDS(persons)},
    {"The captain of the ship is %s.", "Who is the captain of the ship?", "The captain of the ship is", WORDS(persons)},
    {"My neighbour's name is %s.", "What is my neighbour's name?", "Your neighbour's name is", WORDS(persons)},
    {"My brother works as a %s.", "What does my brother work as?", "Your brother works as a", WORDS(trades)},
    {"My cousin wants to become a %s.", "What does my cousin want to become?", "Your cousin wants to become a", WORDS(trades)},
    {"For my birthday I got a %s.", "What did I get for my birthday?", "For your birthday you got a", WORDS(things)},
    {"Yesterday I lost my %s.", "What did I lose yesterday?", "Yesterday you lost your", WORDS(things)},
    {"The colour of my car is %s.", "What is the colour of my car?", "The colour of your car is", WORDS(colours)},
    {"We painted the kitchen %s.", "Which colour did we paint the kitchen?", "You painted the kitchen", WORDS(colours)},
    {"My daughter's pet is a %s.", "What is my daughter's pet?", "Your daughter's pet is a", WORDS(animals)},
    {"My favourite animal is the %s.", "What is my favourite animal?", "Your favourite animal is the", WORDS(animals)},
    {"Tonight we will eat %s.", "What will we eat tonight?", "Tonight you will eat", WORDS(foods)},
    {"My grandmother's best dish is %s.", "What is my grandmother's best dish?", "Your grandmother's best dish is", WORDS(foods)},
    {"Our wedding will be in %s.", "When will our wedding be?", "Your wedding will be in", WORDS(months)},
    {"The exam takes place in %s.", "When does the exam take place?", "The exam takes place in", WORDS(months)},
    {"I hid the key %s.", "Where did I hide the key?", "You hid the key", WORDS(spots)},
    {"The passport lies %s.", "Where does the passport lie?", "The passport lies", WORDS(spots)},
    {"My shopping list is %s.", "What is my shopping list?", "Your shopping list is", TWO(goods)},
    {"The box in the cellar contains %s.", "What does the box in the cellar contain?", "The box in the cellar contains", TWO(goods)},
    {"The two winners were %s.", "Who were the two winners?", "The two winners were", TWO(persons)},
    {"The guests on Sunday are %s.", "Who are the guests on Sunday?", "The guests on Sunday are", TWO(persons)},
    {"The train to %s is the one that I take.", "Which train do I take?", "You take the train to", WORDS(places)},
    {"My boss comes from %s.", "Where does my boss come from?", "Your boss comes from", WORDS(places)},
    {"My bank card ends with %s.", "What does my bank card end with?", "Your bank card ends with", .n_digits = 4},
    {"The alarm code is %s.", "What is the alarm code?", "The alarm code is", .n_digits = 5},
};
/* clang-format on */

enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* heldout: from the other half of the words. */
static void draw_value(struct task_run *s, const struct kind *k, bool heldout, struct str *out)
{
    if (k->n_digits) task_digits(s, k->n_digits, out);
    for (int i = 0, n = 0; k->words && n < (k->list ? 2 : 1); i++) {
        const char *word = k->words[2 * task_below(s, k->n_words / 2) + heldout];
        if (out->n && strstr(str_get(out), word)) continue;
        str_printf(out, "%s%s", n == 0 ? "" : " and ", word);
        n++;
    }
}

/* The i-th of the n kinds that remain, which moves after them. */
static int take_kind(int *order, int n, size_t i)
{
    const int kind = order[i];
    memmove(order + i, order + i + 1, ((size_t)n - i - 1) * sizeof *order);
    return kind;
}

static const char *fill(struct task_run *s)
{
    const struct words_turn *talk = s->args.essay ? NULL : words_filler(s->recall);
    if (talk)
        str_printf(&s->user, "%s %s", talk->user, talk->assistant);
    else
        task_sentence(s, &s->user);
    return "";
}

static void write_told(struct task_run *s, bool heldout)
{
    int order[N_KINDS / 2], n_facts = s->args.n_facts;
    if (n_facts > N_KINDS / 2) n_facts = N_KINDS / 2;
    for (int i = 0; i < N_KINDS / 2; i++) order[i] = 2 * i + heldout;
    s->filler = fill;
    for (int i = 0; i < n_facts; i++) {
        const int left = N_KINDS / 2 - i;
        const struct kind *k = &kinds[take_kind(order, left, task_below(s, (size_t)left))];
        struct task_turn *t = task_tell(s, ASKED_SHARE * i / n_facts, "");
        struct task_question *q = task_ask(s);
        struct str *value = task_value(q);
        draw_value(s, k, heldout, value);
        str_printf(&t->user, k->told, str_get(value));
        str_puts(&q->text, k->question);
        str_puts(&q->first, k->first);
    }
}

void task_write_told(struct task_run *s)
{
    write_told(s, false);
}

void task_write_told_heldout(struct task_run *s)
{
    write_told(s, true);
}
