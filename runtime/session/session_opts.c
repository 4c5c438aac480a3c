#include "runtime/session/session.h"

struct session_opts session_opts_default(void)
{
    struct session_opts o = {
        .plan = plan_opts_default(),
        .sampling = sampling_default(),
        .rewind = SESSION_REWIND_DEFAULT,
    };
    o.sampling.temperature = SESSION_TEMPERATURE_OF_MODEL;
    return o;
}
