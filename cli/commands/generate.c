/* generate: one prompt in, one answer out, nothing saved. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands/commands.h"
#include "cli/commands/input.h"
#include "cli/control/cli_session.h"
#include "cli/options/options.h"
#include "cli/print/answer.h"
#include "cli/print/report.h"
#include "runtime/forward/engine.h"

struct generate {
    const struct options *o;
    struct answer answer;
    struct str text; /* the whole answer, for --json */
    int64_t n_prompt;
};

/* The question, the document, or the document with the question below it. */
static int read_prompt(const struct options *o, struct str *out, struct err *e)
{
    int rc = input_document(o, out, e);
    if (o->text.prompt) str_printf(out, "%s%s", out->n ? "\n\n" : "", o->text.prompt);
    return rc;
}

static void on_text(void *ctx, const char *utf8, size_t n)
{
    struct generate *g = ctx;
    if (g->o->json)
        str_append(&g->text, utf8, n);
    else
        answer_write(&g->answer, utf8, n);
}

static void on_progress(void *ctx, int64_t done, int64_t total)
{
    struct generate *g = ctx;
    (void)done;
    g->n_prompt = total;
}

static bool on_stop(void *ctx)
{
    struct generate *g = ctx;
    return report_interrupted() || g->answer.error != 0;
}

static void print_json(struct generate *g, const struct session *s, enum session_end end)
{
    static const char *const ends[] = {"turn", "stopped", "length", "full", "looped"};
    struct session_stats st;
    session_stats(s, &st);
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "text", str_get(&g->text));
    cJSON_AddStringToObject(j, "end", ends[end]);
    cJSON_AddStringToObject(j, "model", st.model);
    cJSON_AddStringToObject(j, "weights", st.weights);
    cJSON_AddStringToObject(j, "kv", st.kv);
    cJSON_AddStringToObject(j, "policy", st.policy);
    cJSON_AddStringToObject(j, "device", st.device);
    cJSON_AddNumberToObject(j, "budget", st.budget);
    cJSON_AddNumberToObject(j, "n_prompt", (double)g->n_prompt);
    cJSON_AddNumberToObject(j, "n_tokens", (double)st.n_tokens);
    cJSON_AddNumberToObject(j, "units_kept", (double)st.units_kept);
    cJSON_AddNumberToObject(j, "units_seen", (double)st.units_seen);
    cJSON_AddNumberToObject(j, "units_evicted", (double)st.units_evicted);
    cJSON_AddNumberToObject(j, "units_returned", (double)st.units_returned);
    cJSON_AddNumberToObject(j, "cache_bytes", (double)st.cache_bytes);
    cJSON_AddNumberToObject(j, "state_bytes", (double)st.state_bytes);
    cJSON_AddNumberToObject(j, "process_peak_bytes", (double)st.process_peak_bytes);
    cJSON_AddNumberToObject(j, "first_token_ms", st.first_token_ms);
    cJSON_AddNumberToObject(j, "prefill_tok_s", st.prefill_tok_s);
    cJSON_AddNumberToObject(j, "decode_tok_s", st.decode_tok_s);
    cJSON_AddNumberToObject(j, "n_proposed", (double)st.n_proposed);
    cJSON_AddNumberToObject(j, "n_accepted", (double)st.n_accepted);
    char *line = cJSON_PrintUnformatted(j);
    if (line) answer_write(&g->answer, line, strlen(line));
    free(line);
    cJSON_Delete(j);
}

static int open_session(struct generate *g, struct cli_session *talk,
                        const struct session_sink *sink, struct err *e)
{
    struct session_opts s = g->o->session;
    int rc = cli_session_load(talk, g->o, false, cli_session_progress, NULL, e);
    if (!rc && talk->engine->is_base) s.raw = true;
    if (!rc) rc = session_open(&talk->session, talk->engine, NULL, &s, sink, e);
    if (rc) cli_session_close(talk);
    return rc;
}

static int generate_run(struct generate *g, const struct str *prompt, struct err *e)
{
    struct session_sink sink = {
        .ctx = g, .progress = on_progress, .text = on_text, .stop = on_stop};
    struct cli_session talk;
    char why[256];
    enum session_end end = SESSION_TURN_END;
    int rc = open_session(g, &talk, &sink, e);
    if (rc) return rc;
    if (*talk.engine->device_notice) report_note("%s", talk.engine->device_notice);
    rc = session_say(talk.session, str_get(prompt), prompt->n, &sink, &end, e);
    if (!rc && g->o->json) print_json(g, talk.session, end);
    if (!rc) answer_end(&g->answer);
    if (!rc) rc = answer_check(&g->answer, e);
    if (!rc && report_interrupted()) rc = err_set(e, ERR_STOP, "interrupted");
    if (engine_is_damaged(talk.engine, why)) report_note("%s", why);
    if (!rc && end == SESSION_FULL) report_note("the cache is full and policy full evicts nothing");
    if (!rc && end == SESSION_REPETITION) report_note("looped: the answer repeated itself");
    if (!rc && end == SESSION_LENGTH && !g->o->session.max_tokens)
        report_note("length limit: %d tokens; -n sets another", SESSION_ANSWER_MAX);
    cli_session_close(&talk);
    return rc;
}

int cmd_generate(const struct options *o)
{
    struct generate g = {.o = o};
    struct str prompt = {0};
    struct err e = {0};
    answer_init(&g.answer, STDOUT_FILENO);
    int rc = read_prompt(o, &prompt, &e);
    if (!rc && !prompt.n && !o->session.raw)
        rc = err_set(&e, ERR_USAGE, "the prompt is empty; give it with -p, -f or standard input");
    if (!rc) {
        report_catch_interrupts();
        rc = generate_run(&g, &prompt, &e);
    }
    str_release(&prompt);
    str_release(&g.text);
    answer_release(&g.answer);
    return rc == ERR_STOP ? err_exit_status(rc) : rc ? report_error(&e) : 0;
}
