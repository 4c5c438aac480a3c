#include "quant/eval/task.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "quant/eval/task_words.h"

static const struct task table[] = {
    {"recall", 8, 0, 64, task_write_recall,
     .about = "facts told at the start of a conversation, small talk or -f FILE, questions"},
    {"scatter", 10, 0, 64, task_write_scatter,
     .about = "facts told at even depths of a repetitive text"},
    {"passkey", 1, 0, 32, task_write_passkey,
     .about =
         "a number in a repetitive text (InfiniteBench); with facts=N that many, at even depths"},
    {"kv", 8, 0, 64, task_write_kv, .about = "values of keys in a long list (InfiniteBench)"},
    {"niah", 1, 5, 32, task_write_niah,
     .about = "a needle in an essay, depth by depth: -f FILE, or made-up sentences"},
    {"talk", 1, 0, 64, task_write_talk,
     .about =
         "conversations from a file, -f FILE, one for each seed, with small talk between messages"},
    {"told", 12, 0, 0, task_write_told,
     .about = "facts told in small talk or -f FILE; the first words of the answers are given",
     .forced = true},
    {"told-heldout", 12, 0, 0, task_write_told_heldout,
     .about = "the same with other facts: nothing may be chosen by these", .forced = true},
};

const struct task *task_at(int i)
{
    return i >= 0 && i < (int)(sizeof table / sizeof *table) ? &table[i] : NULL;
}

const struct task *task_named(const char *name)
{
    for (int i = 0; task_at(i); i++)
        if (!strcmp(table[i].name, name)) return &table[i];
    return NULL;
}

void task_names(struct str *out)
{
    for (int i = 0; task_at(i); i++) str_printf(out, "%s%s", i ? ", " : "", table[i].name);
}

/* ---- chance ---------------------------------------------------------------------------------- */

size_t task_below(struct task_run *s, size_t n)
{
    return (size_t)(random_at(s->args.seed, 77, s->n_random++) * (double)n);
}

void task_digits(struct task_run *s, int n, struct str *out)
{
    for (int i = 0; i < n; i++) str_printf(out, "%zu", task_below(s, 10));
}

void task_word(struct task_run *s, struct str *out)
{
    for (int i = 0; i < 3; i++) {
        char c = "bdfgklmnprstvz"[task_below(s, 14)], v = "aeiou"[task_below(s, 5)];
        str_printf(out, "%c%c", c, v);
    }
}

/* ---- turns and questions --------------------------------------------------------------------- */

double task_depth(const struct task_run *s, int i)
{
    if (s->args.n_facts == 1) return s->args.depth;
    return (i + 0.5) / s->args.n_facts;
}

struct task_turn *task_tell(struct task_run *s, double depth, const char *assistant)
{
    struct task_turn *t = &s->turns[s->n_turns++];
    t->depth = depth;
    t->question = -1;
    str_puts(&t->assistant, assistant);
    return t;
}

struct task_question *task_ask(struct task_run *s)
{
    return &s->questions[s->n_questions++];
}

struct task_question *task_ask_early(struct task_run *s, double depth)
{
    task_tell(s, depth, "")->question = s->n_questions;
    s->n_early = s->n_questions + 1;
    return task_ask(s);
}

struct str *task_value(struct task_question *q)
{
    return &q->values[q->n_values++];
}

static void question_step(const struct task_run *s, int i, struct task_step *out)
{
    const struct task_question *q = &s->questions[i];
    *out = (struct task_step){str_get(&q->text), NULL, q->list, q->n_values, str_get(&q->first)};
}

bool task_any_question(const struct task_run *s, int i, struct task_step *out)
{
    if (i < 0 || i >= s->n_questions) return false;
    question_step(s, i, out);
    return true;
}

bool task_next(struct task_run *s, int64_t n_tokens, struct task_step *out)
{
    const struct task_turn *t = s->n_told < s->n_turns ? &s->turns[s->n_told] : NULL;
    if (t &&
        (n_tokens >= s->args.length || (double)n_tokens >= t->depth * (double)s->args.length)) {
        s->n_told++;
        if (t->question >= 0)
            question_step(s, t->question, out);
        else
            *out =
                (struct task_step){.user = str_get(&t->user), .assistant = str_get(&t->assistant)};
        return true;
    }
    if (n_tokens < s->args.length) {
        str_clear(&s->user);
        const char *reply = s->filler(s);
        *out = (struct task_step){.user = str_get(&s->user), .assistant = reply};
        return true;
    }
    return task_any_question(s, s->n_early + s->n_asked++, out);
}

/* ---- documents ------------------------------------------------------------------------------- */

/* The noise of InfiniteBench and RULER, about 25 tokens. */
static const char noise[] =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.";

enum { LINE_TOKENS = 25, SENTENCE_TOKENS = 12, DOCUMENT_TOKENS = 400 };

/* Lines of `line_tokens` tokens per document: a sixteenth of the length, 400 tokens at most. */
static int n_lines(const struct task_run *s, int line_tokens)
{
    int64_t n = s->args.length / 16;
    if (n > DOCUMENT_TOKENS) n = DOCUMENT_TOKENS;
    return n < 2 * line_tokens ? 2 : (int)(n / line_tokens);
}

void task_sentence(struct task_run *s, struct str *out)
{
    const char *text = s->args.essay;
    size_t at = s->essay_at + strspn(text + s->essay_at, " \t\r\n");
    if (!text[at]) at = strspn(text, " \t\r\n");
    for (bool end = false; text[at] && !end; at++) {
        char c = text[at] == '\n' || text[at] == '\r' ? ' ' : text[at];
        str_append(out, &c, 1);
        end = strchr(".!?", text[at]) && (!text[at + 1] || strchr(" \n\r", text[at + 1]));
    }
    s->essay_at = at;
}

/* Of noise, or of an essay; the needle, if there is one, is in its middle. */
static const char *put_document(struct task_run *s, bool essay, const char *needle, struct str *out)
{
    const char *text = s->args.essay;
    const bool given = text && text[strspn(text, " \t\r\n")];
    const int n = n_lines(s, essay ? SENTENCE_TOKENS : LINE_TOKENS);
    str_puts(out, "Read this text:");
    for (int i = 0; i < n; i++) {
        if (needle && i == n / 2) str_printf(out, " %s", needle);
        str_puts(out, " ");
        if (essay && given)
            task_sentence(s, out);
        else
            str_puts(out, essay ? words_sentence(s->recall) : noise);
    }
    return "Okay, I have read it.";
}

const char *task_fill_noise(struct task_run *s)
{
    return put_document(s, false, NULL, &s->user);
}

const char *task_fill_essay(struct task_run *s)
{
    return put_document(s, true, NULL, &s->user);
}

void task_hide(struct task_run *s, const char *needle)
{
    struct task_turn *t = task_tell(s, task_depth(s, 0), "");
    str_puts(&t->assistant, put_document(s, s->filler == task_fill_essay, needle, &t->user));
}

/* ---- opening --------------------------------------------------------------------------------- */

struct task_run *task_open(const struct task *t, const struct task_args *args)
{
    struct task_run *s = memory_new(1, sizeof *s);
    s->args = *args;
    s->recall = words_open(args->seed, args->n_facts);
    if (args->essay) { /* each seed starts at a different sentence */
        size_t n = strlen(args->essay);
        s->essay_at = n ? task_below(s, n) : 0;
        s->essay_at += strcspn(args->essay + s->essay_at, ".");
        s->essay_at += args->essay[s->essay_at] == '.';
    }
    t->write(s);
    for (int q = 0; q < s->n_questions; q++)
        for (int i = 0; i < s->questions[q].n_values; i++)
            s->questions[q].list[i] = str_get(&s->questions[q].values[i]);
    return s;
}

void task_close(struct task_run *s)
{
    if (!s) return;
    for (int i = 0; i < s->n_turns; i++) {
        str_release(&s->turns[i].user);
        str_release(&s->turns[i].assistant);
    }
    for (int q = 0; q < s->n_questions; q++) {
        str_release(&s->questions[q].text);
        str_release(&s->questions[q].first);
        for (int i = 0; i < s->questions[q].n_values; i++) str_release(&s->questions[q].values[i]);
    }
    str_release(&s->user);
    words_close(s->recall);
    free(s);
}
