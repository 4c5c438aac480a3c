/* script: what a task of `retain eval` says to a model, step by step: turns to be told, filler up
 * to the wanted length, questions with the values a right answer holds.
 *
 * Text only: a script knows nothing of tokens, models or policies. It is made as it is read, so
 * that ten million tokens take no more memory than a thousand; and the same seed gives the same
 * script everywhere. Tasks are rows of one table (script_task_at); each family has a file of its
 * own (script_….c) that fills a script's turns, questions and filler. */
#ifndef RETAIN_QUANT_SCRIPT_H
#define RETAIN_QUANT_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/str.h"

#define SCRIPT_TURNS_MAX     256
#define SCRIPT_QUESTIONS_MAX 64
#define SCRIPT_VALUES_MAX    10

struct script;

struct script_args {
    uint64_t seed;
    int64_t length; /* tokens before the questions */
    int n_facts;    /* things hidden or told, 1 … SCRIPT_QUESTIONS_MAX */
    double depth;   /* of a single thing, 0 … 1 */
    bool papers;    /* as the papers word it, instead of words that the demo model was trained on */
    const char *essay; /* text to hide things in; NULL = made up */
};

struct script_task {
    const char *name;
    int n_facts;  /* unless the person says otherwise */
    int n_depths; /* one thing, hidden at so many depths in turn; 0 = not a grid */
    int n_predict;
    void (*write)(struct script *s);
    const char *about; /* one line for --help */
};

const struct script_task *script_task_at(int i); /* NULL past the end */

/* A row by its name, or for "ruler" the i-th of all rows "ruler-…"; NULL = there is none. */
const struct script_task *script_task_named(const char *name, int i);

struct script_step {
    const char *user;
    const char *assistant;     /* NULL: a question, the model answers */
    const char *const *values; /* what the answer must hold, as whole words */
    int n_values;
    const char *const *choices; /* NULL-terminated: the answer's first of these must be values[0] */
};

/* NULL = out of memory. `args` is copied, what it points to is not. */
struct script *script_open(const struct script_task *t, const struct script_args *args);
void script_close(struct script *s);

/* What comes next when the conversation has n_tokens so far; valid until the next call. false = the
 * end. */
bool script_next(struct script *s, int64_t n_tokens, struct script_step *out);

/* The questions that stand at the end, for policies that may see them first. */
bool script_question(const struct script *s, int i, struct script_step *out);

/* ---- for the files of the families ------------------------------------------------------------
 */

struct recall;

struct script_turn {
    double depth; /* told when this share of the length is reached */
    struct str user, assistant;
    int question; /* what is asked here instead; -1 = nothing */
};

struct script_question {
    struct str text;
    struct str values[SCRIPT_VALUES_MAX];
    const char *list[SCRIPT_VALUES_MAX];
    int n_values;
};

struct script {
    struct script_args args;
    uint64_t n_random;                          /* numbers drawn */
    struct script_turn turns[SCRIPT_TURNS_MAX]; /* in the order of their depths */
    int n_turns, n_told;
    struct script_question questions[SCRIPT_QUESTIONS_MAX];
    int n_early; /* of the questions: asked by turns */
    int n_questions, n_asked;
    void (*filler)(struct script *s, struct script_step *out);
    struct str user, assistant; /* of the filler */
    struct recall *recall;      /* small talk and sentences */
    size_t essay_at;
    int last; /* of a family: its last word, its last move */
};

size_t script_below(struct script *s, size_t n); /* 0 … n - 1 */
double script_uniform(struct script *s);         /* [0, 1) */
void script_digits(struct script *s, int n, struct str *out);
void script_word(struct script *s, struct str *out); /* a made-up word of six letters */
void script_uuid(struct script *s, struct str *out);

/* One PICK per full expression: C does not order a call's arguments, and the seed decides. */
#define SCRIPT_PICK(s, table) ((table)[script_below((s), sizeof(table) / sizeof *(table))])

/* The depth of thing i of n_facts: args.depth, or spread evenly. */
double script_depth(const struct script *s, int i);

/* A turn to be told, user text still empty; depths never fall from one call to the next. */
struct script_turn *script_tell(struct script *s, double depth, const char *assistant);

/* A question without text and values. early: asked at `depth`, not at the end; all early ones come
 * before the others. */
struct script_question *script_ask(struct script *s);
struct script_question *script_ask_early(struct script *s, double depth);
struct str *script_value(struct script_question *q);

/* Filler: documents of about a sixteenth of the length, of repeated noise or of an essay. `needle`
 * stands in the middle when it is not NULL. */
void script_noise(struct script *s, const char *needle, struct str *out);
void script_essay(struct script *s, const char *needle, struct str *out);
void script_fill_noise(struct script *s, struct script_step *out);
void script_fill_essay(struct script *s, struct script_step *out);

void script_write_recall(struct script *s);
void script_write_scatter(struct script *s);
void script_write_updates(struct script *s);
void script_write_game(struct script *s);
void script_write_passkey(struct script *s);
void script_write_number(struct script *s);
void script_write_kv(struct script *s);
void script_write_niah(struct script *s);
void script_write_single_1(struct script *s);
void script_write_single_2(struct script *s);
void script_write_single_3(struct script *s);
void script_write_multikey_1(struct script *s);
void script_write_multikey_2(struct script *s);
void script_write_multikey_3(struct script *s);
void script_write_multivalue(struct script *s);
void script_write_multiquery(struct script *s);
void script_write_vt(struct script *s);
void script_write_cwe(struct script *s);
void script_write_fwe(struct script *s);
void script_write_qa_1(struct script *s);
void script_write_qa_2(struct script *s);

#endif
