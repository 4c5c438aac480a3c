/* A fact hidden in a long text: InfiniteBench's passkey and key-value retrieval, and the needle
 * in a haystack (github.com/gkamradt/LLMTest_NeedleInAHaystack). */
#include "quant/eval/task.h"

/* Up to 96 facts (eval.c allows 64), each with a different name and in a separate turn. */
static void tell_codes(struct task_run *s)
{
    static const struct {
        const char *name;
        int digits;
    } codes[] = {{"locker code", 5},    {"phone number", 6},   {"pin code", 4},
                 {"ticket number", 6},  {"room number", 3},    {"zip code", 5},
                 {"account number", 8}, {"door code", 6},      {"order number", 6},
                 {"alarm code", 4},     {"booking number", 6}, {"safe code", 5}};
    static const char *const owners[] = {"",          " sister's", " uncle's",  " boss's",
                                         " cousin's", " mother's", " friend's", " brother's"};
    enum { MANY = sizeof codes / sizeof *codes };
    for (int i = 0; i < s->args.n_facts; i++) {
        struct task_question *q = task_ask(s);
        struct str *value = task_value(q), *user;
        const char *owner = owners[i / MANY];
        task_digits(s, codes[i % MANY].digits, value);
        user = &task_tell(s, task_depth(s, i), "Okay, I will remember that.")->user;
        str_printf(user, "My%s %s is %s.", owner, codes[i % MANY].name, str_get(value));
        str_printf(&q->text, "What is my%s %s?", owner, codes[i % MANY].name);
    }
}

void task_write_passkey(struct task_run *s)
{
    s->filler = task_fill_noise;
    if (s->args.n_facts > 1) {
        tell_codes(s);
        return;
    }
    struct str needle = {0};
    struct task_question *q = task_ask(s);
    struct str *value = task_value(q);
    task_digits(s, 5, value);
    str_printf(&needle, "The pass key is %s. Remember it. %s is the pass key.", str_get(value),
               str_get(value));
    str_puts(&q->text, "What is the pass key?");
    task_hide(s, str_get(&needle));
    str_release(&needle);
}

/* A code in an essay. */
void task_write_niah(struct task_run *s)
{
    static const char *const adjectives[] = {"rusty",  "golden", "silver", "tiny",    "quiet",
                                             "broken", "heavy",  "happy",  "old",     "new",
                                             "green",  "purple", "wooden", "strange", "bright",
                                             "warm",   "red",    "blue",   "yellow",  "black"};
    static const char *const nouns[] = {"lamp",  "garden", "boat",   "river",  "stone",
                                        "table", "window", "bridge", "key",    "door",
                                        "house", "ship",   "tree",   "clock",  "mirror",
                                        "box",   "wagon",  "candle", "basket", "ladder"};
    struct str needle = {0};
    struct task_question *q = task_ask(s);
    const char *adjective = TASK_PICK(s, adjectives), *noun = TASK_PICK(s, nouns);
    struct str *value = task_value(q);
    s->filler = task_fill_essay;
    s->args.n_facts = 1;
    task_digits(s, 5, value);
    str_printf(&needle, "My %s %s code is %s.", adjective, noun, str_get(value));
    task_hide(s, str_get(&needle));
    str_printf(&q->text, "What is my %s %s code?", adjective, noun);
    str_release(&needle);
}

/* ---- keys and values ------------------------------------------------------------------------- */

enum { PAIRS = 8 }; /* pairs per turn */

static void make_pair(struct task_run *s, struct str *key, struct str *value)
{
    task_word(s, key);
    task_digits(s, 4, value);
}

/* A list of pairs; the pair in question, if any, is in its middle. */
static void list(struct task_run *s, const char *key, const char *value, struct str *out)
{
    for (int i = 0; i < PAIRS; i++) {
        struct str k = {0}, v = {0};
        bool asked = key && i == PAIRS / 2;
        make_pair(s, &k, &v);
        str_printf(out, "%s%s: %s", i ? ", " : "Here is a list: ", asked ? key : str_get(&k),
                   asked ? value : str_get(&v));
        str_release(&k);
        str_release(&v);
    }
}

static const char *fill_list(struct task_run *s)
{
    list(s, NULL, NULL, &s->user);
    return "Noted.";
}

void task_write_kv(struct task_run *s)
{
    s->filler = fill_list;
    for (int i = 0; i < s->args.n_facts; i++) {
        struct task_question *q = task_ask(s);
        struct str key = {0}, *value = task_value(q);
        make_pair(s, &key, value);
        list(s, str_get(&key), str_get(value), &task_tell(s, task_depth(s, i), "Noted.")->user);
        str_printf(&q->text, "What is the value of %s?", str_get(&key));
        str_release(&key);
    }
}
