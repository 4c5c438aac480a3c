#include "runtime/session/session.h"

#include <string.h>

#include "runtime/forward/engine.h"

struct session_opts session_opts_default(void)
{
    return (struct session_opts){
        .plan = plan_opts_default(),
        .sampling = sampling_unset(),
        .recall = {.chooser = RECALL_WORDS, .n_windows = RECALL_WINDOWS_DEFAULT},
        .rewind = SESSION_REWIND_DEFAULT,
    };
}

int session_question_first(struct session_opts *o, const struct engine *g, const char *question,
                           int64_t *n, struct err *e)
{
    struct chat_turn turn = {.role = CHAT_USER,
                             .text = question,
                             .n = strlen(question),
                             .system = o->system,
                             .first = true,
                             .last = -1};
    struct policy_choice *c = &o->plan.policy;
    struct tokens ids = {0};
    int rc = o->raw ? tokenizer_encode_text(g->tokenizer, question, turn.n, true, &ids, e)
                    : chat_encode(g->template, g->tokenizer, &turn, &ids, e);
    *n = (int64_t)ids.n;
    if (!rc && c->row && c->row->query_first && c->window < 0) c->window = (int)ids.n;
    tokens_release(&ids);
    return rc;
}
