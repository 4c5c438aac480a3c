#include "cli/control/control_parts.h"

#include "cli/print/num.h"
#include "runtime/forward/engine.h"
#include "runtime/session/session.h"

static void memory_line(const struct options *o, const struct session_stats *st, struct str *out)
{
    static const char *const by[] = {[OPTIONS_DEFAULT] = "the default",
                                     [OPTIONS_CONFIG] = "your configuration",
                                     [OPTIONS_CONVERSATION] = "saved with the conversation",
                                     [OPTIONS_GIVEN] = "given"};
    char units[NUM_MAX], bytes[NUM_MAX];
    str_printf(out, "budget: %s tokens word for word, %s of cache (%s; --budget, --memory)\n",
               num_exact(st->budget, units), num_bytes(st->cache_bytes, bytes),
               by[options_from(o, "budget")]);
}

void why_lines(const struct options *o, const struct cli_session *parts, struct str *out)
{
    const struct engine *g = parts->engine;
    struct session_stats st;
    session_stats(parts->session, &st);
    memory_line(o, &st, out);
    str_printf(out, "policy: %s, %s (--policy)\n", st.policy,
               st.scored ? "with retaining heads"
                         : "as there are no retaining heads; they remember more: retain heads "
                           "fit makes them in about a minute, --heads FILE uses them");
    str_printf(out, "sampling: temp %g, top-k %d, top-p %g, min-p %g, %s (/set)\n",
               (double)g->sampling.temperature, g->sampling.top_k, (double)g->sampling.top_p,
               (double)g->sampling.min_p, g->sampling_source);
    str_printf(out, "chat format: %s%s%s (--template)\n", chat_template_name(g->template),
               *g->notice ? "; " : "", g->notice);
    if (*g->device_notice) str_printf(out, "device: %s (--device)\n", g->device_notice);
    out->data[--out->n] = 0;
}
