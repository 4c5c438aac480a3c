#include "cli/plain/plain.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8_width.h"
#include "cli/control/external.h"
#include "cli/plain/plain_parts.h"
#include "cli/print/num.h"
#include "cli/print/report.h"
#include "runtime/save/conversations.h"

/* ---- events ---------------------------------------------------------------------------------- */

static void on_opened(struct plain *p, const char *name)
{
    settings_opened(&p->settings);
    str_clear(&p->last);
    str_clear(&p->thought);
    if (p->interactive)
        report_note("conversation %s%s", name, p->greeted ? "" : "; /help for help");
    p->greeted = true;
}

static void print_hit(const struct store_hit *h)
{
    struct str line = {0};
    str_printf(&line, "%s: ", h->conversation->name);
    for (const char *c = h->snippet; *c; c++)
        if (*c != '\2' && *c != '\3') str_append(&line, *c == '\n' ? " " : c, 1);
    report_note("%s", str_get(&line));
    str_release(&line);
}

/* The thought itself is for /thought. */
static void on_thought(struct plain *p, const struct event *ev)
{
    char length[NUM_MAX];
    if (p->interactive && p->thought.n == 0) report_aside("thinking...");
    str_append(&p->thought, ev->text, ev->n_text);
    if (!p->interactive || ev->thought.n_tokens == 0) return;
    num_thought(ev->thought.n_tokens, ev->thought.ms, length);
    report_aside(" %s; /thought shows it\n", length);
}

static void on_event(void *ctx, const struct event *ev)
{
    struct plain *p = ctx;
    char count[NUM_MAX];
    int n = (int)ev->n_text;
    switch (ev->kind) {
    case EVENT_OPENING: report_clear_interrupt(); break;
    case EVENT_OPENED: on_opened(p, ev->text); break;
    case EVENT_READING:
        if (p->interactive && ev->progress.done == 0)
            report_note("reading %s tokens", num_count(ev->progress.total, count));
        break;
    case EVENT_TEXT:
        str_append(&p->last, ev->text, ev->n_text);
        answer_write(&p->answer, ev->text, ev->n_text);
        break;
    case EVENT_THOUGHT: on_thought(p, ev); break;
    case EVENT_END: p->end = ev->end.how; break;
    case EVENT_QUESTION:
        str_append(&p->question, ev->text, ev->n_text);
        p->must_ask = ev->cost.ask;
        break;
    case EVENT_TAKEN:
        str_clear(&p->edited);
        str_append(&p->edited, ev->text, ev->n_text);
        break;
    case EVENT_BRANCHED:
        report_note("branch %.*s was made; /open %.*s opens it", n, ev->text, n, ev->text);
        break;
    case EVENT_RENAMED: on_opened(p, ev->text); break;
    case EVENT_DONE:
        if (ev->done.command == SLASH_DELETE)
            snprintf(p->deleted, sizeof p->deleted, "%s", ev->done.name);
        if (n) report_note("%.*s", n, ev->text);
        break;
    case EVENT_FOUND: print_hit(ev->hit); break;
    case EVENT_PASSAGE:
    case EVENT_RECALLED:
        if (p->interactive) report_note("%.*s", n, ev->text);
        break;
    case EVENT_NOTICE:
    case EVENT_NOTE: report_note("%.*s", n, ev->text); break;
    case EVENT_FAILED:
    case EVENT_FATAL: err_set(&p->error, ev->code, "%.*s", n, ev->text); break;
    default: break; /* for the screen only */
    }
}

static bool on_stop(void *ctx)
{
    struct plain *p = ctx;
    return report_interrupted() || p->answer.error != 0;
}

int plain_run_request(struct plain *p, const struct request *q, struct err *e)
{
    struct events events = {p, on_event, on_stop};
    p->error = (struct err){0};
    p->end = SESSION_TURN_END;
    report_clear_interrupt();
    control_run(&p->control, q, &events);
    if (!p->error.code) return 0;
    *e = p->error;
    return e->code;
}

/* Heads are fitted and taken between lines. */
static int idle(struct plain *p, struct err *e)
{
    struct events events = {p, on_event, on_stop};
    int rc = control_idle(&p->control, &events);
    if (rc) *e = p->error;
    return rc;
}

/* ---- turns ----------------------------------------------------------------------------------- */

#define CONTINUES "; /continue continues it"

static void note_end(const struct plain *p)
{
    if (p->end == SESSION_FULL) report_note("the cache is full and policy full evicts nothing");
    if (p->end == SESSION_REPETITION)
        report_note("looped: the answer repeated itself%s", p->interactive ? CONTINUES : "");
    if (!p->interactive) return;
    if (p->end == SESSION_STOPPED) report_note("stopped" CONTINUES);
    if (p->end == SESSION_LENGTH) report_note("length limit" CONTINUES);
}

int plain_answer(struct plain *p, const struct request *q, struct err *e)
{
    if (p->interactive) report_aside("llm> ");
    if (q->command != SLASH_CONTINUE) str_clear(&p->last);
    if (q->command != SLASH_CONTINUE) str_clear(&p->thought);
    int rc = plain_run_request(p, q, e);
    answer_end(&p->answer);
    const bool stopped = report_interrupted();
    if (rc && p->interactive) {
        report_error(e);
        return 0;
    }
    if (!rc) rc = answer_check(&p->answer, e);
    if (rc) return rc;
    note_end(p);
    rc = idle(p, e);
    if (rc) return rc;
    if (stopped && !p->interactive) return err_set(e, ERR_STOP, "interrupted");
    report_clear_interrupt();
    return 0;
}

/* Says how long the files of the message are. */
static void note_files(const struct plain *p, const char *text, size_t n)
{
    struct attached file;
    for (size_t from = 0, at = 0; attached_next(text, n, &at, &file); from = at) {
        struct str label = {0};
        int64_t n_tokens = 0;
        session_count_tokens(p->control.parts.session, text + from, file.n, &n_tokens, NULL);
        external_label(&file, n_tokens, !utf8_locale(), &label);
        report_note("%s", str_get(&label));
        str_release(&label);
    }
}

int plain_say(struct plain *p, const char *text, size_t n, struct err *e)
{
    note_files(p, text, n);
    struct request q = {.command = SLASH_SAY};
    str_append(&q.text, text, n);
    int rc = plain_answer(p, &q, e);
    request_release(&q);
    return rc;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void advise(const struct str *line)
{
    for (const struct slash_row *row = slash_table; row->name; row++)
        if (row->place == SLASH_AT_SCREEN &&
            strncmp(row->name, str_get(line) + 1, strlen(row->name)) == 0) {
            report_note("this command needs the screen");
            return;
        }
    report_note("%s", slash_advice(str_get(line), line->n, (char[SLASH_ADVICE_MAX]){0}));
}

/* *said = false: a file of the message cannot be read; /editor has the message. */
static int say_line(struct plain *p, const char *text, size_t n, bool *said, struct err *e)
{
    struct str message = {0};
    int rc = external_message(text, n, &message, e);
    *said = !rc;
    if (!rc && n > 0) rc = plain_say(p, str_get(&message), message.n, e);
    if (!*said) {
        str_clear(&p->edited);
        str_append(&p->edited, text, n);
    }
    str_release(&message);
    return rc;
}

/* false: the chat is over, with *rc as its result: a failed command does not end it. */
static bool run_line(struct plain *p, const struct str *line, int *rc, struct err *e)
{
    const char *rest;
    size_t n_rest;
    enum slash command = slash_parse(str_get(line), line->n, &rest, &n_rest);
    struct str argument = {0};
    bool said;
    if (command == SLASH_QUIT) return false;
    *rc = idle(p, e);
    if (*rc) return false;
    if (command == SLASH_UNKNOWN || slash_row_of(command)->place == SLASH_AT_SCREEN) {
        advise(line);
        return true;
    }
    if (command == SLASH_SAY) {
        *rc = say_line(p, rest, n_rest, &said, e);
        if (said) return !*rc && p->answer.error == 0;
    } else {
        str_append(&argument, rest, n_rest);
        *rc = plain_command(p, command, str_get(&argument), e);
        str_release(&argument);
    }
    bool open = p->control.parts.session != NULL;
    if (*rc && open && *rc != ERR_STOP) {
        report_error(e);
        if (!p->interactive && !p->failed) p->failed = *rc;
        *rc = 0;
    }
    return !*rc && open && p->answer.error == 0;
}

/* Ctrl-C at the prompt: the second in a row quits. */
static bool leave_on_interrupt(struct plain *p)
{
    report_clear_interrupt();
    if (!p->interactive || p->warned) return true;
    p->warned = true;
    report_aside("\n");
    report_note("Ctrl-C again or Ctrl-D quits");
    return false;
}

static int chat_loop(struct plain *p, struct err *e)
{
    struct str line = {0};
    int rc = 0;
    for (bool more = true; more;) {
        if (p->interactive) report_aside("you> ");
        switch (line_reader_message(&p->in, &line)) {
        case LINE_READ:
            p->warned = false;
            more = run_line(p, &line, &rc, e);
            break;
        case LINE_EOF: more = false; break;
        case LINE_FAILED:
            more = false;
            rc = err_set(e, ERR_FAIL, "reading standard input: %s", strerror(p->in.error));
            break;
        case LINE_INTERRUPTED:
            more = !leave_on_interrupt(p);
            if (!more) rc = err_set(e, ERR_STOP, "interrupted");
            break;
        }
    }
    str_release(&line);
    return rc;
}

int plain_run(const struct options *o)
{
    struct plain p = {0};
    struct events events = {&p, on_event, on_stop};
    struct err e = {0};
    settings_init(&p.settings, o);
    p.interactive = p.in.interactive = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    p.control.interactive = p.interactive;
    p.control.plain = true;
    answer_init(&p.answer, STDOUT_FILENO);
    report_catch_interrupts();
    int rc = control_open(&p.control, o, &events, &e);
    if (!rc) {
        rc = chat_loop(&p, &e);
        if (p.interactive) report_aside("\n");
    }
    control_close(&p.control);
    str_release(&p.in.input);
    answer_release(&p.answer);
    str_release(&p.edited);
    str_release(&p.question);
    str_release(&p.last);
    str_release(&p.thought);
    if (rc && rc != ERR_STOP) return report_error(&e);
    return err_exit_status(rc ? rc : p.failed);
}
