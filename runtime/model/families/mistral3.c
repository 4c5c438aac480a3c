/* Family "mistral3" (Mistral Small 3.1 and later, Ministral 3): a Llama. Ministral 3 scales queries
 * beyond the context that YaRN extended. */
#include <math.h>

#include "runtime/model/family.h"

static int bind(struct model *m, struct err *e)
{
    float growth;
    if (model_get_float(m, "attention.temperature_scale", &growth)) {
        if (!isfinite(growth) || growth < 0.0f)
            return err_set(e, ERR_FORMAT,
                           "%s: mistral3.attention.temperature_scale is %g, expected 0 or more",
                           gguf_name(m->file), (double)growth);
        m->query_growth = growth;
    }
    return family_bind(m, e);
}

const struct model_family family_mistral3 = {.arch = "mistral3", .rope_pairs = true, .bind = bind};
