#include "runtime/session/session.h"

struct session_opts session_opts_default(void)
{
    return (struct session_opts){
        .plan = plan_opts_default(),
        .sampling = sampling_unset(),
        .recall = {.chooser = RECALL_WORDS, .n_windows = RECALL_WINDOWS_DEFAULT},
        .rewind = SESSION_REWIND_DEFAULT,
    };
}
