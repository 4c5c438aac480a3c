#include "runtime/session/session.h"

struct session_opts session_opts_default(void)
{
    struct session_opts o = {
        .plan = plan_opts_default(),
        .sampling = sampling_default(),
        .recall = {.chooser = RECALL_WORDS, .n_windows = RECALL_WINDOWS_DEFAULT},
        .rewind = SESSION_REWIND_DEFAULT,
    };
    o.sampling.temperature = SESSION_TEMPERATURE_OF_MODEL;
    return o;
}
