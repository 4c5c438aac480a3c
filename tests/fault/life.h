/* life: the conversation that faults and kills interrupt. */
#ifndef RETAIN_TESTS_LIFE_H
#define RETAIN_TESTS_LIFE_H

#include "cli/options/options.h"

static inline struct options life_options(int budget, int max_tokens, float temperature)
{
    struct options o;
    options_init(&o);
    o.session.plan.policy = policy_choice("random");
    o.session.plan.budget = budget;
    o.session.plan.chunk = 16;
    o.session.plan.policy.reserve = 48; /* room for passages that return */
    o.session.rewind = 1;               /* compaction after every turn */
    o.session.max_tokens = max_tokens;
    o.engine.threads = 1;
    o.session.ignore_end = true;
    o.session.conversation = "life";
    o.session.sampling.temperature = temperature;
    o.session.sampling.seed = 3;
    return o;
}

#endif
