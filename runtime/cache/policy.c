#include "runtime/cache/policy.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/random.h"

/* Sinks: StreamingLLM keeps 4. Locret's code has none, because its heads learn them; four have no
 * measurable cost and protect against a head that did not.
 * Stabilizers: Locret keeps 2500 of 6000 (42 %) or of 16384 (15 %); here an eighth
 * (quant/eval/notes/keeper.md). KeyDiff has none because it evicts once, after the whole prompt; if
 * eviction happens between chunks, the newest units must be protected. For keydiff+global these are
 * a quarter of the budget: with an eighth the perplexity of running text is a tenth higher, with a
 * half facts are forgotten (quant/eval/notes). */
static const struct policy table[] = {
    {.name = "full",
     .scorer = POLICY_KEEP_ALL,
     .about = "keep everything until the context is full"},
    {.name = "locret",
     .scorer = POLICY_CIS,
     .sinks = 4,
     .stabilizer_pct = 12,
     .about = "trained retaining heads (Locret)"},
    {.name = "keeper",
     .scorer = POLICY_CIS,
     .shared = true,
     .sinks = 4,
     .stabilizer_pct = 12,
     .near_duplicates = true,
     .recency = 256,
     .floor_pct = POLICY_FLOOR_PCT,
     .about = "retaining heads; all heads share one budget, near-duplicate units one score (ours)"},
    {.name = "keydiff",
     .scorer = POLICY_KEYS,
     .sinks = 4,
     .stabilizer_pct = 12,
     .about = "keys that differ most from the others (KeyDiff)"},
    {.name = "keydiff+global",
     .scorer = POLICY_KEYS,
     .shared = true,
     .sinks = 4,
     .stabilizer_pct = 25,
     .floor_pct = POLICY_FLOOR_PCT,
     .about = "keydiff; all heads of the model share one budget"},
    {.name = "sink",
     .scorer = POLICY_POSITION,
     .sinks = 4,
     .about = "first and newest units (StreamingLLM)"},
    {.name = "random",
     .scorer = POLICY_RANDOM,
     .sinks = 4,
     .stabilizer_pct = 12,
     .about = "random units: the baseline"},
};

enum { N_POLICIES = sizeof table / sizeof *table };

const struct policy *policy_at(int i)
{
    return i >= 0 && i < N_POLICIES ? &table[i] : NULL;
}

const struct policy *policy_named(const char *name)
{
    for (int i = 0; i < N_POLICIES; i++)
        if (!strcmp(table[i].name, name)) return &table[i];
    return NULL;
}

void policy_names(struct str *out)
{
    for (int i = 0; i < N_POLICIES; i++) str_printf(out, "%s%s", i ? ", " : "", table[i].name);
}

struct policy_choice policy_choice(const char *name)
{
    return (struct policy_choice){
        .row = name ? policy_named(name) : NULL,
        .sinks = -1,
        .stabilizers = -1,
        .reserve = -1,
        .context = -1,
        .floor = -1,
        .recency = -1,
    };
}

const char *policy_default(bool has_heads, bool comparable)
{
    if (has_heads) return comparable ? "keeper" : "locret";
    return "keydiff+global";
}

float policy_score(const struct policy *p, uint64_t seed, int head, int64_t position)
{
    switch (p->scorer) {
    case POLICY_POSITION: return (float)position;
    case POLICY_RANDOM: return (float)random_at(seed, (uint64_t)head + 1, (uint64_t)position);
    default: return 0.0f;
    }
}
