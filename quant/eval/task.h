/* script: what a task of `retain eval` says to a model, step by step: turns to be told, filler up
 * to the wanted length, questions with the values a right answer holds.
 *
 * Text only: a script knows nothing of tokens, models or policies. It is made as it is read, so
 * that ten million tokens take no more memory than a thousand; and the same seed gives the same
 * script everywhere. Tasks are rows of one table (task_at); each family has a file of its
 * own (script_….c) that fills a script's turns, questions and filler. */
#ifndef RETAIN_QUANT_EVAL_TASK_H
#define RETAIN_QUANT_EVAL_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define TASK_TURNS_MAX     256
#define TASK_QUESTIONS_MAX 64
#define TASK_VALUES_MAX    10

struct task_run;

struct task_args {
    uint64_t seed;
    int64_t length; /* tokens before the questions */
    int n_facts;    /* things hidden or told, 1 … TASK_QUESTIONS_MAX */
    double depth;   /* of a single thing, 0 … 1 */
    bool papers;    /* as the papers word it, instead of words that the demo model was trained on */
    const char *essay; /* text to hide things in; NULL = made up */
};

struct task {
    const char *name;
    int n_facts;  /* unless the person says otherwise */
    int n_depths; /* one thing, hidden at so many depths in turn; 0 = not a grid */
    int n_predict;
    void (*write)(struct task_run *s);
    const char *about; /* one line for --help */
};

const struct task *task_at(int i); /* NULL past the end */

/* A row by its name, or for "ruler" the i-th of all rows "ruler-…"; NULL = there is none. */
const struct task *task_named(const char *name, int i);

struct task_step {
    const char *user;
    const char *assistant;     /* NULL: a question, the model answers */
    const char *const *values; /* what the answer must hold, as whole words */
    int n_values;
    const char *const *choices; /* NULL-terminated: the answer's first of these must be values[0] */
};

/* NULL = out of memory. `args` is copied, what it points to is not. */
struct task_run *task_open(const struct task *t, const struct task_args *args);
void task_close(struct task_run *s);

/* What comes next when the conversation has n_tokens so far; valid until the next call. false = the
 * end. */
bool task_next(struct task_run *s, int64_t n_tokens, struct task_step *out);

/* The questions that stand at the end, for policies that may see them first. */
bool task_question(const struct task_run *s, int i, struct task_step *out);

/* ---- for the files of the families ------------------------------------------------------------
 */

struct recall;

struct task_turn {
    double depth; /* told when this share of the length is reached */
    struct str user, assistant;
    int question; /* what is asked here instead; -1 = nothing */
};

struct task_question {
    struct str text;
    struct str values[TASK_VALUES_MAX];
    const char *list[TASK_VALUES_MAX];
    int n_values;
};

struct task_run {
    struct task_args args;
    uint64_t n_random;                      /* numbers drawn */
    struct task_turn turns[TASK_TURNS_MAX]; /* in the order of their depths */
    int n_turns, n_told;
    struct task_question questions[TASK_QUESTIONS_MAX];
    int n_early; /* of the questions: asked by turns */
    int n_questions, n_asked;
    void (*filler)(struct task_run *s, struct task_step *out);
    struct str user, assistant; /* of the filler */
    struct recall *recall;      /* small talk and sentences */
    size_t essay_at;
    int last; /* of a family: its last word, its last move */
};

size_t task_below(struct task_run *s, size_t n); /* 0 … n - 1 */
double task_uniform(struct task_run *s);         /* [0, 1) */
void task_digits(struct task_run *s, int n, struct str *out);
void task_word(struct task_run *s, struct str *out); /* a made-up word of six letters */
void task_uuid(struct task_run *s, struct str *out);

/* One PICK per full expression: C does not order a call's arguments, and the seed decides. */
#define TASK_PICK(s, table) ((table)[task_below((s), sizeof(table) / sizeof *(table))])

/* The depth of thing i of n_facts: args.depth, or spread evenly. */
double task_depth(const struct task_run *s, int i);

/* A turn to be told, user text still empty; depths never fall from one call to the next. */
struct task_turn *task_tell(struct task_run *s, double depth, const char *assistant);

/* A question without text and values. early: asked at `depth`, not at the end; all early ones come
 * before the others. */
struct task_question *task_ask(struct task_run *s);
struct task_question *task_ask_early(struct task_run *s, double depth);
struct str *task_value(struct task_question *q);

/* Filler: documents of about a sixteenth of the length, of repeated noise or of an essay. `needle`
 * stands in the middle when it is not NULL. */
void task_noise(struct task_run *s, const char *needle, struct str *out);
void task_essay(struct task_run *s, const char *needle, struct str *out);
void task_fill_noise(struct task_run *s, struct task_step *out);
void task_fill_essay(struct task_run *s, struct task_step *out);

void task_write_recall(struct task_run *s);
void task_write_scatter(struct task_run *s);
void task_write_updates(struct task_run *s);
void task_write_game(struct task_run *s);
void task_write_passkey(struct task_run *s);
void task_write_number(struct task_run *s);
void task_write_kv(struct task_run *s);
void task_write_niah(struct task_run *s);
void task_write_single_1(struct task_run *s);
void task_write_single_2(struct task_run *s);
void task_write_single_3(struct task_run *s);
void task_write_multikey_1(struct task_run *s);
void task_write_multikey_2(struct task_run *s);
void task_write_multikey_3(struct task_run *s);
void task_write_multivalue(struct task_run *s);
void task_write_multiquery(struct task_run *s);
void task_write_vt(struct task_run *s);
void task_write_cwe(struct task_run *s);
void task_write_fwe(struct task_run *s);
void task_write_qa_1(struct task_run *s);
void task_write_qa_2(struct task_run *s);

#endif
