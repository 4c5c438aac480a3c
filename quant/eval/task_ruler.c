/* RULER's thirteen tasks (arXiv 2404.06654, github.com/NVIDIA/RULER scripts/data/synthetic), and
 * the needle of `niah`. A text is generated while it is read, so the papers' counts become shares:
 * words are drawn with the same frequencies. Questions on documents (qa) use made-up documents in
 * place of SQuAD and HotpotQA. */
#include <string.h>

#include "quant/eval/task.h"
#include "quant/eval/task_words.h"

static const char have_read[] = "Okay, I have read it.";

static const char *const adjectives[] = {"rusty",  "golden", "silver", "tiny",    "quiet",
                                         "broken", "heavy",  "happy",  "old",     "new",
                                         "green",  "purple", "wooden", "strange", "bright",
                                         "warm",   "red",    "blue",   "yellow",  "black"};
static const char *const nouns[] = {
    "lamp",  "garden", "boat", "river", "stone",  "table", "window", "bridge", "key",    "door",
    "house", "ship",   "tree", "clock", "mirror", "box",   "wagon",  "candle", "basket", "ladder"};

enum kind { NUMBER, UUID };

/* ---- needles --------------------------------------------------------------------------------- */

static void make_key(struct task_run *s, enum kind kind, struct str *out)
{
    if (kind == UUID) {
        task_uuid(s, out);
        return;
    }
    const char *adjective = TASK_PICK(s, adjectives), *noun = TASK_PICK(s, nouns);
    str_printf(out, s->args.papers ? "%s-%s" : "%s %s", adjective, noun);
}

static void make_value(struct task_run *s, enum kind kind, struct str *out)
{
    if (kind == UUID)
        task_uuid(s, out);
    else
        task_digits(s, s->args.papers ? 7 : 5, out);
}

static void needle(const struct task_run *s, enum kind kind, const char *key, const char *value,
                   struct str *out)
{
    if (s->args.papers)
        str_printf(out, "One of the special magic %s for %s is: %s.",
                   kind == UUID ? "uuids" : "numbers", key, value);
    else
        str_printf(out, "My %s code is %s.", key, value);
}

static void ask_for(const struct task_run *s, const char *key, bool first, bool last, bool many,
                    struct str *out)
{
    if (!s->args.papers)
        str_printf(out, "%s my %s code%s",
                   first  ? many ? "What are" : "What is"
                   : last ? " and"
                          : ",",
                   key, last ? "?" : "");
    else
        str_printf(out, "%s %s%s",
                   first  ? many ? "What are all the special magic numbers for"
                                 : "What is the special magic number for"
                   : last ? ", and"
                          : ",",
                   key, last ? " mentioned in the provided text?" : "");
}

/* Adds the text that contains fact i. */
static void hide(struct task_run *s, int i, const struct str *needle_text)
{
    struct str *user = &task_tell(s, task_depth(s, i), have_read)->user;
    if (s->filler == task_fill_noise)
        task_noise(s, str_get(needle_text), user);
    else
        task_essay(s, str_get(needle_text), user);
}

struct needles {
    struct str keys[TASK_VALUES_MAX], values[TASK_VALUES_MAX];
    int n;
};

/* n facts under n_keys names (n_keys is n or 1), all names different. */
static void hide_all(struct task_run *s, enum kind key_kind, enum kind kind, int n, int n_keys,
                     struct needles *made)
{
    struct str text = {0};
    made->n = s->args.n_facts = n;
    for (int i = 0; i < n; i++) {
        bool again = i >= n_keys;
        if (again) str_puts(&made->keys[i], str_get(&made->keys[0]));
        while (!again) {
            str_clear(&made->keys[i]);
            make_key(s, key_kind, &made->keys[i]);
            for (int k = 0; k < i; k++)
                again = again || !strcmp(str_get(&made->keys[k]), str_get(&made->keys[i]));
            again = !again;
        }
        make_value(s, kind, &made->values[i]);
        str_clear(&text);
        needle(s, kind, str_get(&made->keys[i]), str_get(&made->values[i]), &text);
        hide(s, i, &text);
    }
    str_release(&text);
}

/* Asks for the first n_keys of them; the answer must contain all their values. */
static void ask_all(struct task_run *s, struct needles *made, int n_keys, int n_values)
{
    struct task_question *q = task_ask(s);
    for (int i = 0; i < n_keys; i++)
        ask_for(s, str_get(&made->keys[i]), i == 0, i == n_keys - 1, n_values > 1, &q->text);
    for (int i = 0; i < n_values; i++) str_puts(task_value(q), str_get(&made->values[i]));
    for (int i = 0; i < made->n; i++) {
        str_release(&made->keys[i]);
        str_release(&made->values[i]);
    }
}

static void find(struct task_run *s, enum kind key_kind, enum kind kind, int n, int n_keys,
                 int n_asked, int n_values)
{
    struct needles made = {0};
    hide_all(s, key_kind, kind, n, n_keys, &made);
    ask_all(s, &made, n_asked, n_values);
}

void task_write_niah(struct task_run *s)
{
    task_write_single_2(s);
}

void task_write_single_1(struct task_run *s)
{
    s->filler = task_fill_noise;
    find(s, NUMBER, NUMBER, 1, 1, 1, 1);
}

void task_write_single_2(struct task_run *s)
{
    s->filler = task_fill_essay;
    find(s, NUMBER, NUMBER, 1, 1, 1, 1);
}

void task_write_single_3(struct task_run *s)
{
    s->filler = task_fill_essay;
    find(s, NUMBER, UUID, 1, 1, 1, 1);
}

void task_write_multikey_1(struct task_run *s)
{
    s->filler = task_fill_essay;
    find(s, NUMBER, NUMBER, 4, 4, 1, 1);
}

void task_write_multivalue(struct task_run *s)
{
    s->filler = task_fill_essay;
    find(s, NUMBER, NUMBER, 4, 1, 1, 4);
}

void task_write_multiquery(struct task_run *s)
{
    s->filler = task_fill_essay;
    find(s, NUMBER, NUMBER, 4, 4, 4, 4);
}

/* ---- a haystack of needles ------------------------------------------------------------------- */

enum { NEEDLES = 8 }; /* needles per turn */

/* Needles with names that are not asked for. */
static void fill_needles(struct task_run *s, struct task_step *out, enum kind kind)
{
    for (int i = 0; i < NEEDLES; i++) {
        struct str key = {0}, value = {0};
        if (kind == UUID)
            task_uuid(s, &key);
        else { /* a made-up word: there are more of these than nouns */
            str_printf(&key, s->args.papers ? "%s-" : "%s ", TASK_PICK(s, adjectives));
            task_word(s, &key);
        }
        make_value(s, kind, &value);
        if (i) str_puts(&s->user, " ");
        needle(s, kind, str_get(&key), str_get(&value), &s->user);
        str_release(&key);
        str_release(&value);
    }
    out->user = str_get(&s->user);
    out->assistant = have_read;
}

static void fill_numbers(struct task_run *s, struct task_step *out)
{
    fill_needles(s, out, NUMBER);
}

static void fill_uuids(struct task_run *s, struct task_step *out)
{
    fill_needles(s, out, UUID);
}

static void find_among(struct task_run *s, enum kind kind)
{
    struct str key = {0}, value = {0};
    struct task_question *q = task_ask(s);
    make_key(s, kind, &key);
    make_value(s, kind, &value);
    needle(s, kind, str_get(&key), str_get(&value),
           &task_tell(s, task_depth(s, 0), have_read)->user);
    ask_for(s, str_get(&key), true, true, false, &q->text);
    str_puts(task_value(q), str_get(&value));
    str_release(&key);
    str_release(&value);
}

void task_write_multikey_2(struct task_run *s)
{
    s->filler = fill_numbers;
    s->args.n_facts = 1;
    find_among(s, NUMBER);
}

void task_write_multikey_3(struct task_run *s)
{
    s->filler = fill_uuids;
    s->args.n_facts = 1;
    find_among(s, UUID);
}

/* ---- variables ------------------------------------------------------------------------------- */

static void variable(struct task_run *s, struct str *out)
{
    for (int i = 0; i < 5; i++) str_printf(out, "%c", (char)('A' + task_below(s, 26)));
}

/* One chain of four hops: VAR A = 12345, VAR B = VAR A, … */
void task_write_vt(struct task_run *s)
{
    struct str value = {0}, line = {0};
    struct task_question *q = task_ask(s);
    s->filler = task_fill_noise;
    s->args.n_facts = 5;
    task_digits(s, 5, &value);
    for (int i = 0; i < 5; i++) {
        struct str *name = task_value(q);
        variable(s, name);
        str_clear(&line);
        str_printf(&line, "VAR %s = %s%s", str_get(name), i ? "VAR " : "",
                   i ? str_get(&q->values[i - 1]) : str_get(&value));
        hide(s, i, &line);
    }
    str_printf(&q->text, "Find all variables that are assigned the value %s in the text above.",
               str_get(&value));
    str_release(&value);
    str_release(&line);
}

/* ---- counting -------------------------------------------------------------------------------- */

enum { WORDS = 40 }; /* words per turn */

/* In the paper ten common words occur 30 times in a list and the others 3 times; as shares, every
 * second word is a common one (the list is half of the text at the paper's lengths). */
static void fill_common(struct task_run *s, struct task_step *out)
{
    const struct task_question *q = &s->questions[0];
    str_puts(&s->user, "Here is a list:");
    for (int i = 0; i < WORDS; i++) {
        str_printf(&s->user, " %d. ", ++s->last);
        if (task_uniform(s) < .5)
            str_puts(&s->user, str_get(&q->values[task_below(s, TASK_VALUES_MAX)]));
        else
            task_word(s, &s->user);
    }
    out->user = str_get(&s->user);
    out->assistant = "Noted.";
}

void task_write_cwe(struct task_run *s)
{
    struct task_question *q = task_ask(s);
    s->filler = fill_common;
    s->args.n_facts = TASK_VALUES_MAX;
    for (int i = 0; i < TASK_VALUES_MAX; i++) {
        const char *noun = nouns[(task_below(s, 2) + 2 * (size_t)i) % 20];
        str_puts(task_value(q), noun);
    }
    str_puts(&q->text, "What are the 10 most common words in the above list?");
}

/* Word number k of a fixed list has the share k^-2 / zeta(2); the first word is "...". */
static void fill_coded(struct task_run *s, struct task_step *out)
{
    enum { RANKS = 200 };
    const struct task_question *q = &s->questions[0];
    str_puts(&s->user, "Read this text:");
    for (int i = 0; i < WORDS; i++) {
        double x = task_uniform(s) * 1.6449340668;
        int k = 1;
        while (k < RANKS && x >= 1.0 / k / k) x -= 1.0 / k / k, k++;
        str_puts(&s->user, k == 1 ? " ..." : " ");
        if (k > 1 && k <= 4)
            str_puts(&s->user, str_get(&q->values[k - 2]));
        else if (k > 4)
            task_word(s, &s->user);
    }
    out->user = str_get(&s->user);
    out->assistant = have_read;
}

void task_write_fwe(struct task_run *s)
{
    struct task_question *q = task_ask(s);
    s->filler = fill_coded;
    s->args.n_facts = 3;
    for (int i = 0; i < 3; i++) task_word(s, task_value(q));
    str_puts(&q->text,
             "What are the three most frequently appeared words in the above coded text?");
}

/* ---- questions on documents ------------------------------------------------------------------ */

static const char *const people[] = {"Anna",  "Ben",  "Clara", "David", "Emma", "Felix",
                                     "Greta", "Hugo", "Jonas", "Karin", "Leo",  "Maria"};
static const char *const cities[] = {"Paris",  "London", "Berlin", "Madrid", "Rome",   "Vienna",
                                     "Prague", "Lisbon", "Dublin", "Oslo",   "Athens", "Tokyo"};

void task_write_qa_1(struct task_run *s)
{
    struct str line = {0};
    struct task_question *q = task_ask(s);
    const char *who = TASK_PICK(s, people), *city = TASK_PICK(s, cities);
    s->filler = task_fill_essay;
    s->args.n_facts = 1;
    str_printf(&line, "%s lives in %s.", who, city);
    hide(s, 0, &line);
    str_printf(&q->text, "Where does %s live?", who);
    str_puts(task_value(q), city);
    str_release(&line);
}

void task_write_qa_2(struct task_run *s)
{
    struct str line = {0};
    struct task_question *q = task_ask(s);
    size_t a = task_below(s, 12), b = (a + 1 + task_below(s, 11)) % 12;
    const char *city = TASK_PICK(s, cities);
    s->filler = task_fill_essay;
    s->args.n_facts = 2;
    str_printf(&line, "%s's best friend is %s.", people[a], people[b]);
    hide(s, 0, &line);
    str_clear(&line);
    str_printf(&line, "%s lives in %s.", people[b], city);
    hide(s, 1, &line);
    str_printf(&q->text, "Where does the best friend of %s live?", people[a]);
    str_puts(task_value(q), city);
    str_release(&line);
}
