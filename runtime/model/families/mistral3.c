/* Family "mistral3" (Mistral Small 3.1 and later, Ministral 3): a Llama. Ministral 3 scales queries
 * beyond the context that YaRN extended. */
#include "runtime/model/family.h"

static int bind(struct model *m, struct err *e)
{
    int rc = model_get_scale(m, "attention.temperature_scale", &m->query_growth, e);
    return rc ? rc : family_bind(m, e);
}

const struct model_family family_mistral3 = {.arch = "mistral3", .rope_pairs = true, .bind = bind};
