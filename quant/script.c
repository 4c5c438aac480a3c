#include "quant/script.h"

#include <stdlib.h>
#include <string.h>

#include "quant/recall.h"
#include "runtime/sampler.h"

static const struct script_task table[] = {
    {"recall", 8, 0, 64, script_write_recall,
     "facts told at the start of a conversation, small talk, questions"},
    {"scatter", 10, 0, 64, script_write_scatter, "facts told at even depths of a repetitive text"},
    {"updates", 8, 0, 64, script_write_updates,
     "the same; asked at a third, half of them changed at two thirds, asked again"},
    {"passkey", 1, 0, 32, script_write_passkey,
     "a number in a repetitive text (InfiniteBench); with --facts N so many, at even depths"},
    {"number", 1, 0, 48, script_write_number,
     "ten digits, some of them repeated, in a repetitive text (InfiniteBench)"},
    {"kv", 8, 0, 64, script_write_kv, "values of keys in a long list (InfiniteBench)"},
    {"niah", 1, 5, 32, script_write_niah,
     "a needle in an essay, depth by depth: -f FILE, or made-up sentences"},
    {"game", 1, 0, 16, script_write_game,
     "rock, paper, scissors against somebody who prefers one of them (SirLLM)"},
    {"ruler-single-1", 1, 0, 48, script_write_single_1, "RULER: a number in noise"},
    {"ruler-single-2", 1, 0, 48, script_write_single_2, "RULER: a number in an essay"},
    {"ruler-single-3", 1, 0, 64, script_write_single_3, "RULER: a UUID in an essay"},
    {"ruler-multikey-1", 4, 0, 48, script_write_multikey_1,
     "RULER: one of four numbers in an essay"},
    {"ruler-multikey-2", 1, 0, 48, script_write_multikey_2,
     "RULER: one number among nothing but numbers"},
    {"ruler-multikey-3", 1, 0, 64, script_write_multikey_3, "RULER: the same with UUIDs"},
    {"ruler-multivalue", 4, 0, 96, script_write_multivalue,
     "RULER: four numbers under one name in an essay"},
    {"ruler-multiquery", 4, 0, 128, script_write_multiquery,
     "RULER: four numbers in an essay, asked for at once"},
    {"ruler-vt", 5, 0, 48, script_write_vt, "RULER: variables that have a value, by assignments"},
    {"ruler-cwe", 10, 0, 120, script_write_cwe, "RULER: the ten most common words of a list"},
    {"ruler-fwe", 3, 0, 50, script_write_fwe, "RULER: the three most frequent made-up words"},
    {"ruler-qa-1", 1, 0, 32, script_write_qa_1,
     "RULER: a question on one of many made-up documents"},
    {"ruler-qa-2", 1, 0, 32, script_write_qa_2, "RULER: a question on two of them together"},
    {"perplexity", 0, 0, 0, NULL,
     "how well a long text (-f FILE) is predicted, as one conversation"},
};

const struct script_task *script_task_at(int i)
{
    return i >= 0 && i < (int)(sizeof table / sizeof *table) ? &table[i] : NULL;
}

const struct script_task *script_task_named(const char *name, int i)
{
    size_t n = strlen(name);
    bool family = !strcmp(name, "ruler");
    for (int k = 0; script_task_at(k); k++) {
        const char *own = table[k].name;
        bool is = family ? !strncmp(own, name, n) && own[n] == '-' : !strcmp(own, name);
        if (is && i-- == 0) return &table[k];
    }
    return NULL;
}

/* ---- chance -----------------------------------------------------------------------------------
 */

double script_uniform(struct script *s)
{
    return random_at(s->args.seed, 77, s->n_random++);
}

size_t script_below(struct script *s, size_t n)
{
    return (size_t)(script_uniform(s) * (double)n);
}

void script_digits(struct script *s, int n, struct str *out)
{
    for (int i = 0; i < n; i++) str_printf(out, "%zu", script_below(s, 10));
}

void script_word(struct script *s, struct str *out)
{
    for (int i = 0; i < 3; i++) {
        char c = "bdfgklmnprstvz"[script_below(s, 14)], v = "aeiou"[script_below(s, 5)];
        str_printf(out, "%c%c", c, v);
    }
}

void script_uuid(struct script *s, struct str *out)
{
    for (int i = 0; i < 32; i++) {
        if (i == 8 || i == 12 || i == 16 || i == 20) str_puts(out, "-");
        str_printf(out, "%zx", script_below(s, 16));
    }
}

/* ---- turns and questions ----------------------------------------------------------------------
 */

double script_depth(const struct script *s, int i)
{
    if (s->args.n_facts == 1) return s->args.depth;
    return (i + 0.5) / s->args.n_facts;
}

struct script_turn *script_tell(struct script *s, double depth, const char *assistant)
{
    struct script_turn *t = &s->turns[s->n_turns++];
    t->depth = depth;
    t->question = -1;
    str_puts(&t->assistant, assistant);
    return t;
}

struct script_question *script_ask(struct script *s)
{
    return &s->questions[s->n_questions++];
}

struct script_question *script_ask_early(struct script *s, double depth)
{
    script_tell(s, depth, "")->question = s->n_questions;
    s->n_early = s->n_questions + 1;
    return script_ask(s);
}

struct str *script_value(struct script_question *q)
{
    return &q->values[q->n_values++];
}

static void question_step(const struct script *s, int i, struct script_step *out)
{
    const struct script_question *q = &s->questions[i];
    *out = (struct script_step){str_get(&q->text), NULL, q->list, q->n_values, NULL};
}

bool script_question(const struct script *s, int i, struct script_step *out)
{
    if (i < 0 || s->n_early + i >= s->n_questions) return false;
    question_step(s, s->n_early + i, out);
    return true;
}

bool script_next(struct script *s, int64_t n_tokens, struct script_step *out)
{
    const struct script_turn *t = s->n_told < s->n_turns ? &s->turns[s->n_told] : NULL;
    if (t &&
        (n_tokens >= s->args.length || (double)n_tokens >= t->depth * (double)s->args.length)) {
        s->n_told++;
        if (t->question >= 0)
            question_step(s, t->question, out);
        else
            *out = (struct script_step){str_get(&t->user), str_get(&t->assistant), NULL, 0, NULL};
        return true;
    }
    if (n_tokens < s->args.length) {
        str_clear(&s->user);
        str_clear(&s->assistant);
        *out = (struct script_step){0};
        s->filler(s, out);
        return true;
    }
    return script_question(s, s->n_asked++, out);
}

/* ---- documents --------------------------------------------------------------------------------
 */

/* InfiniteBench's and RULER's noise, about 25 tokens. */
static const char noise[] =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.";

enum { LINE_TOKENS = 25, SENTENCE_TOKENS = 12, DOCUMENT_TOKENS = 400 };

/* Lines of so many tokens that make a document: a sixteenth of the length, 400 tokens at most. */
static int n_lines(const struct script *s, int line_tokens)
{
    int64_t n = s->args.length / 16;
    if (n > DOCUMENT_TOKENS) n = DOCUMENT_TOKENS;
    return n < 2 * line_tokens ? 2 : (int)(n / line_tokens);
}

static void add_line(struct str *out, const char *line)
{
    str_printf(out, " %s", line);
}

void script_noise(struct script *s, const char *needle, struct str *out)
{
    int n = n_lines(s, LINE_TOKENS);
    str_puts(out, "Read this text:");
    for (int i = 0; i < n; i++) {
        if (needle && i == n / 2) add_line(out, needle);
        add_line(out, noise);
    }
}

/* The essay's next sentence, from the beginning again when it ends. */
static void essay_sentence(struct script *s, struct str *out)
{
    const char *text = s->args.essay;
    size_t at = s->essay_at + strspn(text + s->essay_at, " \t\r\n");
    if (!text[at]) at = strspn(text, " \t\r\n");
    str_puts(out, " ");
    for (bool end = false; text[at] && !end; at++) {
        char c = text[at] == '\n' || text[at] == '\r' ? ' ' : text[at];
        str_append(out, &c, 1);
        end = strchr(".!?", text[at]) && (!text[at + 1] || strchr(" \n\r", text[at + 1]));
    }
    s->essay_at = at;
}

void script_essay(struct script *s, const char *needle, struct str *out)
{
    int n = n_lines(s, SENTENCE_TOKENS);
    str_puts(out, "Read this text:");
    for (int i = 0; i < n; i++) {
        if (needle && i == n / 2) add_line(out, needle);
        if (s->args.essay && s->args.essay[strspn(s->args.essay, " \t\r\n")])
            essay_sentence(s, out);
        else
            add_line(out, recall_sentence(s->recall));
    }
}

void script_fill_noise(struct script *s, struct script_step *out)
{
    script_noise(s, NULL, &s->user);
    out->user = str_get(&s->user);
    out->assistant = "Okay, I have read it.";
}

void script_fill_essay(struct script *s, struct script_step *out)
{
    script_essay(s, NULL, &s->user);
    out->user = str_get(&s->user);
    out->assistant = "Okay, I have read it.";
}

/* ---- opening ----------------------------------------------------------------------------------
 */

struct script *script_open(const struct script_task *t, const struct script_args *args)
{
    struct script *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->args = *args;
    if (recall_open(&s->recall, args->seed, args->n_facts)) {
        free(s);
        return NULL;
    }
    if (args->essay) { /* seeds start at different places */
        size_t n = strlen(args->essay);
        s->essay_at = n ? (size_t)(script_uniform(s) * (double)n) : 0;
        s->essay_at += strcspn(args->essay + s->essay_at, ".");
        s->essay_at += args->essay[s->essay_at] == '.';
    }
    t->write(s);
    for (int q = 0; q < s->n_questions; q++)
        for (int i = 0; i < s->questions[q].n_values; i++)
            s->questions[q].list[i] = str_get(&s->questions[q].values[i]);
    return s;
}

void script_close(struct script *s)
{
    if (!s) return;
    for (int i = 0; i < s->n_turns; i++) {
        str_release(&s->turns[i].user);
        str_release(&s->turns[i].assistant);
    }
    for (int q = 0; q < s->n_questions; q++) {
        str_release(&s->questions[q].text);
        for (int i = 0; i < s->questions[q].n_values; i++) str_release(&s->questions[q].values[i]);
    }
    str_release(&s->user);
    str_release(&s->assistant);
    recall_close(s->recall);
    free(s);
}
