/* task: the texts of `retain eval`, step by step: turns to read, filler up to the requested length,
 * and questions with the values of a right answer.
 *
 * Text only: independent of tokens, models and policies. The text is generated while it is read, so
 * that ten million tokens take no more memory than a thousand; the same seed gives the same text
 * everywhere. Tasks are rows of one table (task_at); each family has its own file (task_….c) that
 * fills turns, questions and filler. */
#ifndef RETAIN_QUANT_EVAL_TASK_H
#define RETAIN_QUANT_EVAL_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define TASK_TURNS_MAX     256
#define TASK_QUESTIONS_MAX 64
#define TASK_VALUES_MAX    10

struct task_run;

struct task_args {
    uint64_t seed;
    int64_t length; /* tokens before the questions */
    int n_facts;    /* facts to hide or tell, 1 … TASK_QUESTIONS_MAX */
    double depth;   /* depth of a single fact, 0 … 1 */
    /* text to hide facts in, NULL = generate it; the conversations of "talk", which are checked */
    const char *essay;
};

struct task {
    const char *name;
    int n_facts;  /* default of the key facts */
    int n_depths; /* one fact, hidden at this many depths in turn; 0 = not a grid */
    int n_predict;
    void (*write)(struct task_run *s);
    const char *about; /* one line for --help */
    bool forced;       /* the first words of the answers are given */
};

const struct task *task_at(int i); /* NULL past the end */

const struct task *task_named(const char *name); /* NULL = none */
void task_names(struct str *out);                /* comma-separated */

struct task_step {
    const char *user;
    const char *assistant;     /* NULL: a question that the model answers */
    const char *const *values; /* values that the answer must contain, as whole words */
    int n_values;
    const char *first; /* the answer's first words, which are given; "" = none */
};

/* `args` is copied, but not the data that it points to. */
struct task_run *task_open(const struct task *t, const struct task_args *args);
void task_close(struct task_run *s);

/* The next step of a conversation of n_tokens tokens; valid until the next call. false = the
 * end. */
bool task_next(struct task_run *s, int64_t n_tokens, struct task_step *out);

/* Whether this text is a file of conversations, as the task "talk" reads it (task_talk.c);
 * ERR_USAGE names the line that is wrong. */
int task_talk_check(const char *text, struct err *e);

/* Question i of all, in the order in which they are asked; false past the last one. */
bool task_any_question(const struct task_run *s, int i, struct task_step *out);

/* ---- for the task files ---------------------------------------------------------------------- */

struct recall;

struct task_turn {
    double depth; /* read when this share of the length is reached */
    struct str user, assistant;
    int question; /* question to ask here instead; -1 = none */
};

struct task_question {
    struct str text, first;
    struct str values[TASK_VALUES_MAX];
    const char *list[TASK_VALUES_MAX];
    int n_values;
};

struct task_run {
    struct task_args args;
    uint64_t n_random;                      /* random numbers drawn so far */
    struct task_turn turns[TASK_TURNS_MAX]; /* ordered by depth */
    int n_turns, n_told;
    struct task_question questions[TASK_QUESTIONS_MAX];
    int n_early; /* questions that are asked by turns */
    int n_questions, n_asked;
    const char *(*filler)(struct task_run *s); /* puts a turn into `user`; returns the reply */
    struct str user;
    struct recall *recall; /* source of small talk and sentences */
    size_t essay_at;
    int last; /* used by families: the last word, the last line */
};

size_t task_below(struct task_run *s, size_t n); /* 0 … n - 1, at random */
void task_digits(struct task_run *s, int n, struct str *out);
void task_word(struct task_run *s, struct str *out); /* a made-up word of six letters */

/* One PICK per full expression: C does not define the order of a call's arguments, and the seed
 * must determine the result. */
#define TASK_PICK(s, table) ((table)[task_below((s), sizeof(table) / sizeof *(table))])

/* The depth of fact i of n_facts: args.depth, or spread evenly. */
double task_depth(const struct task_run *s, int i);

/* Adds a turn to read, with empty user text; depths must not decrease from call to call. */
struct task_turn *task_tell(struct task_run *s, double depth, const char *assistant);

/* Adds a question without text and values. early: asked at `depth`, not at the end; all early ones
 * come before the others. */
struct task_question *task_ask(struct task_run *s);
struct task_question *task_ask_early(struct task_run *s, double depth);
struct str *task_value(struct task_question *q);

void task_sentence(struct task_run *s, struct str *out); /* of the essay, which begins again */

/* Filler: documents of about a sixteenth of the length, of repeated noise or of an essay; task_hide
 * tells one with a needle in its middle. */
void task_hide(struct task_run *s, const char *needle);
const char *task_fill_noise(struct task_run *s);
const char *task_fill_essay(struct task_run *s);
const char *task_fill_small_talk(struct task_run *s);

void task_write_recall(struct task_run *s);
void task_write_scatter(struct task_run *s);
void task_write_talk(struct task_run *s);
void task_write_told(struct task_run *s);
void task_write_told_heldout(struct task_run *s);
void task_write_passkey(struct task_run *s);
void task_write_kv(struct task_run *s);
void task_write_niah(struct task_run *s);

#endif
