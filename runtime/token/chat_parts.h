/* chat_parts: shared by the files of chat_template. */
#ifndef RETAIN_RUNTIME_TOKEN_CHAT_PARTS_H
#define RETAIN_RUNTIME_TOKEN_CHAT_PARTS_H

#include "runtime/template/template.h"
#include "runtime/token/chat_template.h"

struct chat_template {
    const char *name;
    struct template *program;
    struct str bos, eos;
    bool takes_system;
    bool numbers_turns;   /* the text before a message depends on how many there were */
    bool changes_answers; /* a past answer is not written as it was generated */
    struct str before_user, before_user_system, before_answer; /* chat_before */
    struct str opening;                                        /* opens the assistant's turn */
    int32_t closing; /* the token that closes an assistant's turn; -1 = it is not one token */
    struct cJSON *think[CHAT_THINKS]; /* the variables for each; NULL = not known */
};

/* Runs the program; now, bos and eos of `in` are set here. */
int chat_template_run(const struct chat_template *c, const struct template_input *in,
                      struct template_prompt *out, struct err *e);
/* The variables for it, NULL = none; an effort that the template does not know: those for on. */
const struct cJSON *chat_think_of(const struct chat_template *c, enum chat_think think);
/* Finds the variables with which a program asks for thinking (chat_think.c). */
void chat_think_learn(struct chat_template *c);

#endif
