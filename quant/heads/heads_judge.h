/* heads_judge: what heads are worth: how well a model predicts the answers about a text of which
 * most units were evicted by these heads (policy keeper). Labels of attention do not say: heads
 * that guess them better can keep fewer answers (quant/eval/notes/heads.md). */
#ifndef RETAIN_QUANT_HEADS_HEADS_JUDGE_H
#define RETAIN_QUANT_HEADS_HEADS_JUDGE_H

#include <stdint.h>

#include "quant/heads/heads_sample.h"
#include "runtime/forward/plan.h"

struct context;

/* The plan for rows of at most n_max tokens: about a twelfth of a row's text is kept. */
struct plan_opts heads_judge_plan(int n_max);
#define HEADS_JUDGE_LOGITS 64 /* rows of logits of the context */

struct heads_judged {
    double nats; /* -log p summed over the answers' tokens */
    int64_t n;   /* tokens */
};

/* Reads a row, evicting before each chunk as a chat does, and adds its answers. */
int heads_judge_row(struct context *x, const struct heads_sample *s, struct heads_judged *sum,
                    struct err *e);

#endif
