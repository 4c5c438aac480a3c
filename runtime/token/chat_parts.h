/* chat_parts: shared by the files of chat_template: a message as spans of text. */
#ifndef RETAIN_RUNTIME_TOKEN_CHAT_PARTS_H
#define RETAIN_RUNTIME_TOKEN_CHAT_PARTS_H

#include "runtime/template/template.h"
#include "runtime/token/chat_template.h"

struct chat_template {
    const char *name;
    struct template *program;
    struct str bos, eos;
    bool takes_system;
    bool numbers_turns;   /* the text in front of a message depends on how many there were */
    bool changes_answers; /* a past answer is not written as it was generated */
    struct str before_user, before_user_system, before_answer; /* chat_before */
    struct str opening;                                        /* opens the assistant's turn */
    int32_t closing; /* the token that closes an assistant's turn; -1 = it is not one token */
    struct cJSON *think[CHAT_THINKS]; /* the variables for each; NULL = not known */
};

struct chat_parts {
    struct tokenizer_span *spans;
    size_t n, cap;
    /* spans before this one close the previous assistant's turn and open the user's */
    size_t n_close;
    struct template_prompt prompt; /* the memory that a program's spans point into */
};
void chat_parts_add(struct chat_parts *p, const char *text, size_t n, bool trusted);

int chat_program_parts(const struct chat_template *c, const struct chat_turn *m,
                       struct chat_parts *p, struct err *e);
int chat_program_render(const struct chat_template *c, const struct template_input *in,
                        struct chat_parts *p, struct err *e);
/* The past turn up to the end of its answer's text, as written in front of a later message; no
 * parts when the template refuses it or alters the answer. */
int chat_program_past(const struct chat_template *c, const struct chat_past *past,
                      struct chat_parts *p, struct err *e);

/* Runs the program; now, bos and eos of `in` are set here. */
int chat_program_run(const struct chat_template *c, const struct template_input *in,
                     struct template_prompt *out, struct err *e);
/* The variables for it, NULL = none; an effort that the template does not know: those for on. */
const struct cJSON *chat_think_of(const struct chat_template *c, enum chat_think think);
/* Finds the variables with which a program asks for thinking (chat_think.c). */
void chat_think_learn(struct chat_template *c);

#endif
