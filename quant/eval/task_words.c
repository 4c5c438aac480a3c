#include "quant/eval/task_words.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/str.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

enum { SENTENCES_MAX = 16 };

/* ------------------------------------------------------------------------------------- words */

static const char *const names[] = {
    "Anna",  "Ben",   "Clara", "David", "Emma",  "Felix",  "Greta", "Hugo",  "Jonas", "Karin",
    "Leo",   "Maria", "Nils",  "Olga",  "Paul",  "Rosa",   "Simon", "Tina",  "Alice", "Carlos",
    "Diana", "Ivan",  "Julia", "Kenji", "Marta", "Nadia",  "Omar",  "Priya", "Sam",   "Tara",
    "Vera",  "Zoe",   "Chris", "Erik",  "Helen", "Oscar",  "Petra", "Sofia", "Wendy", "Yusuf",
    "Holly", "Kyle",  "Mason", "Owen",  "Ravi",  "Stella", "Theo",  "Maya",  "Lars",  "Ingrid"};
static const char *const pets[] = {"Biscuit", "Rex",   "Luna",  "Buddy", "Coco",   "Ginger",
                                   "Honey",   "Kiki",  "Lucky", "Milo",  "Misty",  "Oreo",
                                   "Patch",   "Poppy", "Rocky", "Rusty", "Shadow", "Socks"};
static const char *const cities[] = {"Paris",  "London", "Berlin", "Madrid",  "Rome",   "Vienna",
                                     "Prague", "Lisbon", "Dublin", "Oslo",    "Warsaw", "Athens",
                                     "Tokyo",  "Kyoto",  "Boston", "Chicago", "Denver", "Seattle",
                                     "Lima",   "Sydney", "Munich", "Milan",   "Porto",  "Seville"};
static const char *const colours[] = {"red",  "blue",   "green", "yellow", "purple",  "orange",
                                      "pink", "brown",  "black", "white",  "grey",    "turquoise",
                                      "teal", "violet", "gold",  "silver", "crimson", "olive"};
static const char *const foods[] = {"pizza", "pasta",    "sushi", "curry",   "soup",    "salad",
                                    "tacos", "pancakes", "stew",  "risotto", "burgers", "noodles"};
static const char *const fruits[] = {"apples",  "bananas", "cherries", "grapes", "mangoes",
                                     "oranges", "peaches", "pears",    "plums",  "lemons"};
static const char *const sports[] = {"football", "tennis", "hockey", "swimming", "running",
                                     "cycling",  "chess",  "rowing", "climbing", "skiing"};
static const char *const jobs[] = {"nurse",  "teacher", "baker",   "pilot",   "farmer",   "doctor",
                                   "lawyer", "writer",  "painter", "plumber", "engineer", "chef"};
static const char *const months[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};
static const char *const days[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                   "Friday", "Saturday", "Sunday"};
static const char *const numbers[] = {
    "zero",     "one",     "two",     "three",     "four",     "five",     "six",
    "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",   "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"};
static const char *const weather[] = {"sunny", "rainy",  "cloudy", "windy", "snowy",
                                      "foggy", "stormy", "cold",   "warm",  "hot"};
static const char *const adjectives[] = {
    "little", "old",    "big",    "quiet",  "bright", "small", "green",   "tall",
    "happy",  "broken", "wooden", "golden", "cold",   "warm",  "strange", "heavy",
    "lazy",   "clever", "brave",  "lonely", "hungry", "rusty", "shiny",   "gentle",
    "famous", "hidden", "narrow", "wide",   "noisy",  "dusty", "sleepy",  "curious"};
static const char *const nouns[] = {
    "house",  "river",  "garden",  "bridge",   "tower",   "market", "forest", "mountain",
    "boat",   "train",  "window",  "lamp",     "table",   "letter", "map",    "box",
    "clock",  "coat",   "bottle",  "basket",   "ladder",  "mirror", "candle", "engine",
    "wagon",  "bucket", "hammer",  "pillow",   "blanket", "kettle", "drum",   "flute",
    "violin", "ticket", "bicycle", "umbrella", "lantern", "rope",   "anchor", "feather",
    "stone",  "shell",  "coin",    "key",      "book",    "shelf",  "jar",    "cup",
    "plate",  "chair",  "door",    "fence",    "valley",  "island", "harbor", "village",
    "castle", "school", "station", "library",  "shop",    "cellar", "tunnel"};
static const char *const people[] = {"baker",  "king",     "farmer",  "sailor", "teacher",
                                     "doctor", "merchant", "painter", "knight", "miller",
                                     "queen",  "clerk",    "guard",   "pilot",  "captain"};
static const char *const verbs[] = {"walked", "ran",     "looked", "waited", "slept",  "danced",
                                    "sang",   "laughed", "worked", "rested", "played", "smiled"};
static const char *const verbs_object[] = {"found",   "carried", "opened",   "painted", "repaired",
                                           "lost",    "bought",  "sold",     "cleaned", "counted",
                                           "dropped", "watched", "followed", "moved",   "washed"};
static const char *const where[] = {"near the",    "behind the", "under the",  "in front of the",
                                    "next to the", "inside the", "beyond the", "by the"};
static const char *const when[] = {"in the morning", "in the evening", "at noon",     "at night",
                                   "every day",      "last week",      "in winter",   "in summer",
                                   "after lunch",    "before sunrise", "for a while", "once again"};
static const char *const containers[] = {
    "drawer", "box", "bag",      "cupboard", "shelf",  "basket",  "table",  "bed",     "sofa",
    "desk",   "car", "backpack", "cabinet",  "fridge", "kitchen", "garage", "hallway", "chair"};
static const char *const sides[] = {"in", "on", "under", "behind", "next to", "inside"};
static const char *const onsets[] = {"b",  "c",  "d",  "f",  "g",  "h",  "j", "k", "l",
                                     "m",  "n",  "p",  "r",  "s",  "t",  "v", "w", "z",
                                     "ch", "sh", "th", "br", "tr", "st", "kr"};
static const char *const vowels[] = {"a", "e", "i", "o", "u", "ai", "ee", "ou"};

static const struct animal {
    const char *one, *many, *eats, *lives, *kinds;
} animals[] = {
    {"a cow", "cows", "grass", "on a farm", "mammals"},
    {"a horse", "horses", "hay", "in a stable", "mammals"},
    {"a cat", "cats", "fish and mice", "in a house", "mammals"},
    {"a dog", "dogs", "meat", "in a house", "mammals"},
    {"a fox", "foxes", "mice and berries", "in the forest", "mammals"},
    {"a wolf", "wolves", "meat", "in the forest", "mammals"},
    {"a bear", "bears", "honey and fish", "in the mountains", "mammals"},
    {"a lion", "lions", "meat", "in the savanna", "mammals"},
    {"a duck", "ducks", "seeds", "on a pond", "birds"},
    {"an owl", "owls", "mice", "in the woods", "birds"},
    {"an eagle", "eagles", "fish", "in the mountains", "birds"},
    {"a penguin", "penguins", "fish", "in the Antarctic", "birds"},
    {"a frog", "frogs", "insects", "near a pond", "amphibians"},
    {"a snake", "snakes", "mice", "in the desert", "reptiles"},
    {"a turtle", "turtles", "plants", "in the sea", "reptiles"},
    {"a bee", "bees", "nectar", "in a hive", "insects"},
    {"a rabbit", "rabbits", "carrots", "in a burrow", "mammals"},
    {"an elephant", "elephants", "leaves", "in the savanna", "mammals"},
    {"a parrot", "parrots", "nuts", "in the jungle", "birds"},
    {"a whale", "whales", "krill", "in the ocean", "mammals"},
};
static const char *const capitals[][2] = {
    {"France", "Paris"},  {"England", "London"},   {"Germany", "Berlin"},   {"Spain", "Madrid"},
    {"Italy", "Rome"},    {"Austria", "Vienna"},   {"Portugal", "Lisbon"},  {"Ireland", "Dublin"},
    {"Norway", "Oslo"},   {"Finland", "Helsinki"}, {"Poland", "Warsaw"},    {"Greece", "Athens"},
    {"Egypt", "Cairo"},   {"Japan", "Tokyo"},      {"Peru", "Lima"},        {"Canada", "Ottawa"},
    {"China", "Beijing"}, {"India", "Delhi"},      {"Hungary", "Budapest"}, {"Kenya", "Nairobi"}};
static const char *const opposites[][2] = {
    {"hot", "cold"},   {"big", "small"},   {"fast", "slow"}, {"happy", "sad"},   {"old", "new"},
    {"high", "low"},   {"light", "dark"},  {"wet", "dry"},   {"hard", "soft"},   {"full", "empty"},
    {"early", "late"}, {"open", "closed"}, {"rich", "poor"}, {"strong", "weak"}, {"loud", "quiet"}};
static const struct words_turn small_talk[] = {
    {"Hello!", "Hello! How can I help you today?"},
    {"Hi there!", "Hello! How can I help you today?"},
    {"Good morning!", "Good morning! How are you?"},
    {"How are you?", "I am fine, thank you. How are you?"},
    {"I am fine, thanks.", "I am glad to hear that!"},
    {"Thank you!", "You are welcome!"},
    {"Who are you?", "I am a small chat assistant with a long memory."},
    {"What can you do?", "I can chat, tell stories, and remember what you tell me."},
    {"I am tired.", "You should get some rest."},
    {"I am happy today.", "That is wonderful!"},
    {"I am bored.", "Shall I tell you a story?"},
    {"I am hungry.", "You should eat something tasty."},
    {"I feel sad.", "I am sorry to hear that. I am here for you."},
    {"Tell me a joke.", "Why did the chicken cross the road? To get to the other side!"},
    {"Tell me another joke.", "What do you call a sleeping bull? A bulldozer!"},
    {"Okay.", "Is there anything else I can help with?"},
    {"Nice.", "I am glad you like it."},
    {"I went for a walk.", "That sounds nice. Where did you go?"},
    {"Please wait a moment.", "Sure, take your time."},
};
static const char *const read_this[] = {
    "Please read this: ", "Read this text: ", "Here is a document: ", "Look at this: "};
static const char *const have_read[] = {"Okay, I have read it.", "Thanks, I have read the text.",
                                        "Done reading."};
static const char *const acknowledge[] = {"Okay, I will remember that.",
                                          "Got it, thanks for telling me.", "Noted.",
                                          "Thanks, I will keep that in mind."};

/* ------------------------------------------------------------------------------------- facts */

enum value_kind {
    DIGITS_3,
    DIGITS_4,
    DIGITS_5,
    DIGITS_6,
    NAME,
    PET,
    CITY,
    COLOUR,
    FOOD,
    FRUIT,
    SPORT,
    JOB,
    DATE,
    PSEUDO,
    PASSWORD,
    PLACE
};

static const struct owner {
    const char *user, *user_cap, *reply; /* as the user says it; as it begins the answer */
} owners[] = {{"my", "My", "Your"},
              {"my sister's", "My sister's", "Your sister's"},
              {"my brother's", "My brother's", "Your brother's"},
              {"my mother's", "My mother's", "Your mother's"},
              {"my friend's", "My friend's", "Your friend's"},
              {"my boss's", "My boss's", "Your boss's"},
              {"my uncle's", "My uncle's", "Your uncle's"},
              {"my cousin's", "My cousin's", "Your cousin's"}};

/* The kinds of facts. Templates: $v the value, $o and $O the owner, $Y the owner in the answer.
 * noun: for facts that any noun can have; these share common templates. */
static const struct fact_kind {
    enum value_kind value;
    const char *noun, *tell, *ask, *answer;
} kinds[] = {
    {NAME, NULL, "I'm $v.", "Who am I?", "You are $v."},
    {CITY, NULL, "I live in $v.", "Where do I live?", "You live in $v."},
    {JOB, NULL, "I work as a $v.", "What do I do for a living?", "You work as a $v."},
    {PLACE, NULL, "I left my keys $v.", "Where are my keys?", "Your keys are $v."},
    {PLACE, NULL, "I put my wallet $v.", "Where is my wallet?", "Your wallet is $v."},
    {PLACE, NULL, "I left my umbrella $v.", "Where is my umbrella?", "Your umbrella is $v."},
    {PLACE, NULL, "I put my passport $v.", "Where is my passport?", "Your passport is $v."},
    {DIGITS_5, "locker code", NULL, NULL, NULL},
    {DIGITS_4, "pin code", NULL, NULL, NULL},
    {DIGITS_4, "gate code", NULL, NULL, NULL},
    {DIGITS_6, "door code", NULL, NULL, NULL},
    {DIGITS_6, "phone number", NULL, NULL, NULL},
    {DIGITS_6, "ticket number", NULL, NULL, NULL},
    {DIGITS_3, "room number", NULL, NULL, NULL},
    {DIGITS_5, "zip code", NULL, NULL, NULL},
    {PASSWORD, "wifi password", NULL, NULL, NULL},
    {PSEUDO, "secret word", NULL, NULL, NULL},
    {COLOUR, "favourite colour", NULL, NULL, NULL},
    {FOOD, "favourite food", NULL, NULL, NULL},
    {FRUIT, "favourite fruit", NULL, NULL, NULL},
    {SPORT, "favourite sport", NULL, NULL, NULL},
    {DATE, "birthday", NULL, NULL, NULL},
    {NAME, "best friend", NULL, NULL, NULL},
    {NAME, "teacher", NULL, NULL, NULL},
    {PET, "dog's name", NULL, NULL, NULL},
    {PET, "cat's name", NULL, NULL, NULL},
    {PET, "parrot's name", NULL, NULL, NULL},
    {CITY, "hometown", NULL, NULL, NULL},
};

struct fact {
    struct words_turn turn;
    size_t kind, owner;
    struct str tell, ask, answer, value;
};

struct recall {
    uint64_t state;
    int n_facts;
    struct fact facts[WORDS_FACTS_MAX];
    struct words_turn filler;
    struct str user, assistant; /* its texts */
};

/* ------------------------------------------------------------------------------- random choices */

/* splitmix64 (Steele, Lea, Flood 2014) */
static uint64_t random_next(struct recall *self)
{
    uint64_t z = self->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static size_t below(struct recall *self, size_t n)
{
    return (size_t)(random_next(self) % n);
}

static int percent(struct recall *self, size_t chance)
{
    return below(self, 100) < chance;
}

/* One draw per full expression: C does not define the order of a call's arguments, and the seed
 * must determine the text. */
#define PICK(self, table) ((table)[below((self), COUNT(table))])

/* --------------------------------------------------------------------------------------- values */

static void value_digits(struct recall *self, struct str *out, int n)
{
    for (int i = 0; i < n; i++) str_printf(out, "%zu", below(self, 10));
}

static void value_pseudo(struct recall *self, struct str *out)
{
    const char *a = PICK(self, onsets), *b = PICK(self, vowels);
    const char *c = PICK(self, onsets), *d = PICK(self, vowels);
    str_printf(out, "%s%s%s%s", a, b, c, d);
}

static void value_place(struct recall *self, struct str *out)
{
    const char *side = PICK(self, sides), *colour = PICK(self, colours);
    str_printf(out, "%s the %s %s", side, colour, PICK(self, containers));
}

static void value_date(struct recall *self, struct str *out)
{
    size_t day = below(self, 28) + 1;
    str_printf(out, "%s %zu", PICK(self, months), day);
}

static void value_make(struct recall *self, enum value_kind kind, struct str *out)
{
    switch (kind) {
    case DIGITS_3:
    case DIGITS_4:
    case DIGITS_5:
    case DIGITS_6: value_digits(self, out, 3 + (int)kind - DIGITS_3); return;
    case NAME: str_puts(out, PICK(self, names)); return;
    case PET: str_puts(out, PICK(self, pets)); return;
    case CITY: str_puts(out, PICK(self, cities)); return;
    case COLOUR: str_puts(out, PICK(self, colours)); return;
    case FOOD: str_puts(out, PICK(self, foods)); return;
    case FRUIT: str_puts(out, PICK(self, fruits)); return;
    case SPORT: str_puts(out, PICK(self, sports)); return;
    case JOB: str_puts(out, PICK(self, jobs)); return;
    case DATE: value_date(self, out); return;
    case PSEUDO: value_pseudo(self, out); return;
    case PASSWORD:
        value_pseudo(self, out);
        value_digits(self, out, 2);
        return;
    case PLACE: value_place(self, out); return;
    }
}

/* ---------------------------------------------------------------------------------------- facts */

static void expand(struct str *out, const char *template, const struct owner *owner,
                   const char *noun, const char *value)
{
    for (const char *p = template; *p; p++) {
        if (*p != '$') {
            str_append(out, p, 1);
            continue;
        }
        p++;
        str_puts(out, *p == 'v'   ? value
                      : *p == 'n' ? noun
                      : *p == 'o' ? owner->user
                      : *p == 'O' ? owner->user_cap
                                  : owner->reply);
    }
}

/* Whether the fact was told before. A noun is used again, with another owner, only when there are
 * more facts than nouns. */
static int fact_taken(const struct recall *self, int n_before, size_t kind, size_t owner)
{
    for (int i = 0; i < n_before; i++) {
        const struct fact *f = &self->facts[i];
        if (f->kind == kind && (f->owner == owner || n_before < (int)COUNT(kinds))) return 1;
    }
    return 0;
}

static void fact_make(struct recall *self, int i)
{
    struct fact *f = &self->facts[i];
    const struct fact_kind *kind;
    do {
        f->kind = below(self, COUNT(kinds));
        kind = &kinds[f->kind];
        f->owner = kind->noun && percent(self, 40) ? below(self, COUNT(owners)) : 0;
    } while (fact_taken(self, i, f->kind, f->owner));

    const struct owner *owner = &owners[f->owner];
    const char *noun = kind->noun;
    value_make(self, kind->value, &f->value);
    const char *value = str_get(&f->value);
    expand(&f->tell, noun ? "$O $n is $v." : kind->tell, owner, noun, value);
    expand(&f->ask, noun ? "What is $o $n?" : kind->ask, owner, noun, value);
    expand(&f->answer, noun ? "$Y $n is $v." : kind->answer, owner, noun, value);
    f->turn = (struct words_turn){str_get(&f->tell), PICK(self, acknowledge)};
}

struct recall *words_open(uint64_t seed, int n_facts)
{
    struct recall *self = memory_new(1, sizeof *self);
    assert(n_facts >= 1 && n_facts <= WORDS_FACTS_MAX);
    self->state = seed;
    self->n_facts = n_facts;
    for (int i = 0; i < n_facts; i++) fact_make(self, i);
    return self;
}

void words_close(struct recall *self)
{
    for (int i = 0; self && i < self->n_facts; i++) {
        struct fact *f = &self->facts[i];
        str_release(&f->tell);
        str_release(&f->ask);
        str_release(&f->answer);
        str_release(&f->value);
    }
    if (self) str_release(&self->user);
    if (self) str_release(&self->assistant);
    free(self);
}

const struct words_turn *words_fact(const struct recall *self, int i)
{
    return i < 0 || i >= self->n_facts ? NULL : &self->facts[i].turn;
}

int words_question(const struct recall *self, int i, const char **question, const char **answer,
                   const char **value)
{
    if (i < 0 || i >= self->n_facts) return -1;
    *question = str_get(&self->facts[i].ask);
    *answer = str_get(&self->facts[i].answer);
    *value = str_get(&self->facts[i].value);
    return 0;
}

/* --------------------------------------------------------------------------------------- filler */

static void capitalize(struct str *text, size_t at)
{
    char *c = &text->data[at];
    if (*c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
}

static void say_person(struct recall *self, struct str *text)
{
    if (percent(self, 40)) {
        str_printf(text, "%s", PICK(self, names));
        return;
    }
    const char *adjective = PICK(self, adjectives);
    str_printf(text, "the %s %s", adjective, PICK(self, people));
}

static void say_sentence(struct recall *self, struct str *text)
{
    size_t start = text->n, form = below(self, 4);
    const char *a = PICK(self, adjectives), *n = PICK(self, nouns), *w = PICK(self, where);
    if (form == 0) {
        say_person(self, text);
        str_printf(text, " %s %s %s", PICK(self, verbs), w, n);
    } else if (form == 1) {
        say_person(self, text);
        str_printf(text, " %s the %s", PICK(self, verbs_object), n);
    } else if (form == 2) {
        str_printf(text, "the %s was %s and %s", n, a, PICK(self, adjectives));
    } else {
        str_printf(text, "there was a %s %s %s %s", a, n, w, PICK(self, nouns));
    }
    if (percent(self, 30)) str_printf(text, " %s", PICK(self, when));
    str_printf(text, ".");
    capitalize(text, start);
}

static void filler_document(struct recall *self)
{
    size_t n = 4 + below(self, SENTENCES_MAX - 3);
    str_printf(&self->user, "%s", PICK(self, read_this));
    for (size_t i = 0; i < n; i++) {
        if (i) str_printf(&self->user, " ");
        say_sentence(self, &self->user);
    }
    str_printf(&self->assistant, "%s", PICK(self, have_read));
}

static void filler_diary(struct recall *self)
{
    size_t n = 2 + below(self, 6);
    str_printf(&self->user, "%s", PICK(self, read_this));
    for (size_t i = 0; i < n; i++) {
        const char *day = PICK(self, days), *sky = PICK(self, weather),
                   *later = PICK(self, weather);
        str_printf(&self->user, "%s%s: %s and %s, %zu degrees.", i ? " " : "", day, sky, later,
                   below(self, 36));
    }
    str_printf(&self->assistant, "%s", PICK(self, have_read));
}

static void filler_story(struct recall *self)
{
    const struct animal *animal = &PICK(self, animals);
    const char *bare = strchr(animal->one, ' ') + 1, *name = PICK(self, names),
               *place = PICK(self, nouns);
    const char *thing = PICK(self, nouns), *a = PICK(self, adjectives), *b = PICK(self, adjectives);
    str_printf(&self->user, "Tell me a story about %s.", animal->one);
    str_printf(&self->assistant,
               "Once upon a time there was a %s %s named %s. %s lived near a %s %s. ", a, bare,
               name, name, b, place);
    str_printf(&self->assistant, "One day %s found a %s %s. %s was very happy. ", name,
               PICK(self, adjectives), thing, name);
    str_printf(&self->assistant, "%s carried the %s home. In the end, %s and the %s were safe.",
               name, thing, name, thing);
}

static void filler_animal(struct recall *self)
{
    const struct animal *animal = &PICK(self, animals);
    size_t form = below(self, 3);
    if (form == 0) {
        str_printf(&self->user, "What does %s eat?", animal->one);
        str_printf(&self->assistant, "%s eats %s.", animal->one, animal->eats);
    } else if (form == 1) {
        str_printf(&self->user, "Where do %s live?", animal->many);
        str_printf(&self->assistant, "%s live %s.", animal->many, animal->lives);
    } else {
        str_printf(&self->user, "Tell me about %s.", animal->many);
        str_printf(&self->assistant, "%s are %s. They live %s and eat %s.", animal->many,
                   animal->kinds, animal->lives, animal->eats);
    }
    capitalize(&self->assistant, 0);
}

static void filler_arithmetic(struct recall *self)
{
    size_t a = below(self, 11), b = below(self, 11);
    str_printf(&self->user, "What is %s plus %s?", numbers[a], numbers[b]);
    str_printf(&self->assistant, "%s plus %s is %s.", numbers[a], numbers[b], numbers[a + b]);
    capitalize(&self->assistant, 0);
}

static void filler_knowledge(struct recall *self)
{
    if (percent(self, 60)) {
        const char *const *capital = PICK(self, capitals);
        str_printf(&self->user, "What is the capital of %s?", capital[0]);
        str_printf(&self->assistant, "The capital of %s is %s.", capital[0], capital[1]);
        return;
    }
    const char *const *pair = PICK(self, opposites);
    size_t first = below(self, 2);
    str_printf(&self->user, "What is the opposite of %s?", pair[first]);
    str_printf(&self->assistant, "The opposite of %s is %s.", pair[first], pair[1 - first]);
}

static void filler_small_talk(struct recall *self)
{
    const struct words_turn *turn = &PICK(self, small_talk);
    str_printf(&self->user, "%s", turn->user);
    str_printf(&self->assistant, "%s", turn->assistant);
}

const struct words_turn *words_filler(struct recall *self)
{
    static const struct {
        size_t share; /* of 100 */
        void (*make)(struct recall *self);
    } makers[] = {{30, filler_document},  {7, filler_diary},      {9, filler_story},
                  {16, filler_animal},    {8, filler_arithmetic}, {10, filler_knowledge},
                  {20, filler_small_talk}};
    size_t x = below(self, 100), i = 0;
    while (x >= makers[i].share) x -= makers[i++].share;
    str_clear(&self->user);
    str_clear(&self->assistant);
    makers[i].make(self);
    self->filler = (struct words_turn){str_get(&self->user), str_get(&self->assistant)};
    return &self->filler;
}

const char *words_sentence(struct recall *self)
{
    str_clear(&self->user);
    say_sentence(self, &self->user);
    return str_get(&self->user);
}
