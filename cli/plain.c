#include "cli/plain.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/answer.h"
#include "cli/clipboard.h"
#include "cli/control.h"
#include "cli/conversations.h"
#include "cli/external.h"
#include "cli/line_reader.h"
#include "cli/num.h"
#include "cli/report.h"
#include "cli/session_print.h"
#include "cli/settings.h"
#include "runtime/session/conversations.h"

struct plain {
    struct control control;
    struct settings settings;
    struct line_reader in;
    struct answer answer;
    struct str edited;              /* the message that /edit took back, for /editor */
    struct str last;                /* the last answer, for /copy */
    char deleted[CONTROL_NAME_MAX]; /* by the last /delete */
    bool interactive;               /* a person types: prompts and role words are printed */
    bool stopped; /* Ctrl-C ended the last answer, or was pressed at this prompt */
    bool greeted; /* the first conversation was named */
    /* of the running request */
    enum session_end end;
    struct event question;
    struct err error; /* code 0: it has not failed */
};

/* ---- events ---------------------------------------------------------------------------------- */

static void on_done(struct plain *p, enum slash command, const char *name)
{
    if (command == SLASH_DELETE) {
        snprintf(p->deleted, sizeof p->deleted, "%s", name);
        report_note("%s was deleted; /restore brings it back", name);
    } else if (command == SLASH_RESTORE) {
        report_note("%s is back", name);
    } else if (command == SLASH_DROP) {
        report_note("the cache of %s was deleted, its text stays", name);
    }
}

static void on_opened(struct plain *p, const char *name)
{
    settings_opened(&p->settings);
    if (p->interactive)
        report_note("conversation %s%s", name, p->greeted ? "" : "; /help for help");
    p->greeted = true;
}

static void print_hit(const struct conversations_hit *h)
{
    struct str line = {0};
    str_printf(&line, "%s: ", h->name);
    for (const char *c = h->snippet; *c; c++)
        if (*c != '\2' && *c != '\3') str_append(&line, *c == '\n' ? " " : c, 1);
    report_note("%s", str_get(&line));
    str_release(&line);
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
    case EVENT_END: p->end = ev->end.how; break;
    case EVENT_QUESTION: p->question = *ev; break;
    case EVENT_TAKEN:
        str_clear(&p->edited);
        str_append(&p->edited, ev->text, ev->n_text);
        break;
    case EVENT_BRANCHED:
        report_note("branch %.*s was made; /open %.*s goes there", n, ev->text, n, ev->text);
        break;
    case EVENT_RENAMED: on_opened(p, ev->text); break;
    case EVENT_DONE: on_done(p, ev->done.command, ev->done.name); break;
    case EVENT_FOUND: print_hit(ev->hit); break;
    case EVENT_NOTICE:
    case EVENT_NOTE: report_note("%.*s", n, ev->text); break;
    case EVENT_FAILED:
    case EVENT_FATAL: err_set(&p->error, ev->code, "%.*s", n, ev->text); break;
    default: break; /* for a screen */
    }
}

static bool on_stop(void *ctx)
{
    struct plain *p = ctx;
    return report_interrupted() || p->answer.error != 0;
}

static int run(struct plain *p, const struct request *q, struct err *e)
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

/* ---- turns ----------------------------------------------------------------------------------- */

static void note_end(const struct plain *p)
{
    if (p->end == SESSION_FULL) report_note("the cache is full and policy full evicts nothing");
    if (p->end == SESSION_REPETITION) report_note("the answer went in a circle and was stopped");
    if (!p->interactive) return;
    if (p->end == SESSION_STOPPED) report_note("stopped; /continue goes on");
    if (p->end == SESSION_LENGTH) report_note("cut at the token limit; /continue goes on");
}

/* One answer. What it returns ends the chat; a turn that failed does not, unless it is a pipe's. */
static int answer_turn(struct plain *p, const struct request *q, struct err *e)
{
    if (p->interactive) report_aside("llm> ");
    if (q->command != SLASH_CONTINUE) str_clear(&p->last);
    int rc = run(p, q, e);
    answer_end(&p->answer);
    p->stopped = report_interrupted();
    if (rc && p->interactive) {
        report_error(e);
        return 0;
    }
    if (!rc) rc = answer_check(&p->answer, e);
    if (rc) return rc;
    note_end(p);
    if (p->stopped && !p->interactive) return err_set(e, ERR_STOP, "interrupted");
    report_clear_interrupt();
    return 0;
}

static int say(struct plain *p, const char *text, size_t n, struct err *e)
{
    struct request q = {.command = SLASH_SAY};
    str_append(&q.text, text, n);
    int rc = answer_turn(p, &q, e);
    request_release(&q);
    return rc;
}

/* ---- commands -------------------------------------------------------------------------------- */

static int64_t n_turns(const struct plain *p)
{
    struct session_stats st;
    session_stats(p->control.parts.session, &st);
    return st.n_turns;
}

/* Costs and losses are agreed to by a person; a pipe knows what it asks for. */
static bool agreed(struct plain *p, const char *question)
{
    struct str line = {0};
    if (!p->interactive) return true;
    report_note("%s  y or n", question);
    bool yes = line_reader_line(&p->in, &line) == LINE_READ && line.n == 1 && line.data[0] == 'y';
    str_release(&line);
    if (!yes) report_note("nothing was done");
    return yes;
}

/* /edit, /rewind and /regenerate: asks what it costs, then whether that is meant. */
static int take_back(struct plain *p, struct request *q, struct err *e)
{
    char question[160], cost[NUM_MAX];
    int rc = run(p, q, e);
    if (rc) return rc;
    const struct event *ev = &p->question;
    num_exact(ev->cost.tokens, cost);
    if (q->command == SLASH_REGENERATE)
        snprintf(question, sizeof question, "another answer: %s tokens to read again", cost);
    else
        snprintf(question, sizeof question,
                 "back to the end of turn %lld: %lld after it cut off for good, %s tokens to read "
                 "again",
                 (long long)ev->cost.turn, (long long)(n_turns(p) - ev->cost.turn), cost);
    if (ev->cost.ask && !agreed(p, question)) return 0;
    q->agreed = true;
    if (q->command == SLASH_REGENERATE) return answer_turn(p, q, e);
    str_clear(&p->edited);
    rc = run(p, q, e);
    if (rc) return rc;
    if (p->edited.n) report_note("turn %lld was: %s", (long long)q->turn, p->edited.data);
    report_note("at the end of turn %lld; %s", (long long)n_turns(p),
                p->edited.n ? "say it anew, or change it with /editor" : "go on from there");
    return 0;
}

/* Without a text the last answer goes through the person's editor. */
static int amend(struct plain *p, struct request *q, struct err *e)
{
    int rc = 0;
    if (q->text.n == 0 && !p->interactive) return err_set(e, ERR_USAGE, "/answer TEXT");
    if (q->text.n == 0) {
        str_append(&q->text, str_get(&p->last), p->last.n);
        rc = external_edit(&q->text, -1, -1, e);
    }
    if (!rc) rc = run(p, q, e);
    if (rc) return rc;
    str_clear(&p->last);
    str_append(&p->last, str_get(&q->text), q->text.n);
    report_note("the answer was changed; /continue goes on from it");
    return 0;
}

static int run_request(struct plain *p, enum slash command, const char *argument, struct err *e)
{
    struct control_facts facts = {.n_turns = n_turns(p),
                                  .private_mode = p->settings.options.session.private_mode,
                                  .has_answer = n_turns(p) > 0,
                                  .name = p->control.name,
                                  .deleted = p->deleted};
    struct request q = {0};
    int rc = control_parse(&q, command, argument, &facts, e);
    if (!rc) switch (command) {
        case SLASH_CONTINUE:
            if (session_can_continue(p->control.parts.session))
                rc = answer_turn(p, &q, e);
            else
                report_note("there is no answer to continue");
            break;
        case SLASH_REGENERATE:
        case SLASH_EDIT:
        case SLASH_REWIND: rc = take_back(p, &q, e); break;
        case SLASH_ANSWER: rc = amend(p, &q, e); break;
        default: rc = run(p, &q, e);
        }
    request_release(&q);
    return rc;
}

static void print_settings(const struct plain *p, const char *only)
{
    struct option_fact f;
    struct err e;
    for (int i = 0; options_fact(SLASH_SET_NOW | SLASH_SET_OPEN, i, &f); i++) {
        struct str value = {0};
        if (only && strcmp(only, f.name) != 0) continue;
        options_get(&p->settings.options, SLASH_SET_NOW | SLASH_SET_OPEN, f.name, &value, &e);
        report_aside("  %-15s %-10s %s\n", f.name, value.n ? value.data : "default", f.help);
        str_release(&value);
    }
}

static int set(struct plain *p, const char *argument, struct err *e)
{
    struct option_fact f;
    const char *value;
    struct request again = {.command = SLASH_OPEN};
    int ask = settings_parse(&p->settings, argument, &f, &value, e);
    if (ask == SETTINGS_SHOW) print_settings(p, f.name);
    if (ask == SETTINGS_SHOW || ask < 0) return ask < 0 ? ask : 0;
    int rc = settings_change(&p->settings, &f, value, e);
    if (rc) return rc;
    control_set(&p->control, &p->settings.options);
    if (ask == SETTINGS_NOW) return 0;
    snprintf(again.name, sizeof again.name, "%s", p->control.name);
    rc = run(p, &again, e);
    if (rc) settings_failed(&p->settings);
    return rc;
}

static int export_talk(struct plain *p, struct str *out, struct err *e)
{
    return conversations_export(p->control.parts.library, p->control.name, true, out, NULL, e);
}

static int copy(struct plain *p, const char *what, struct err *e)
{
    struct str text = {0};
    char how[256];
    int rc = strcmp(what, "all") == 0 ? export_talk(p, &text, e)
                                      : control_copied(&p->last, what, &text, e);
    if (!rc) rc = clipboard_copy(str_get(&text), text.n, -1, how, e);
    if (!rc) report_note("copied %zu bytes %s", text.n, how);
    str_release(&text);
    return rc;
}

static int save(struct plain *p, const char *path, struct err *e)
{
    struct str text = {0};
    if (!path[0]) return err_set(e, ERR_USAGE, "/save FILE");
    int rc = export_talk(p, &text, e);
    if (!rc) rc = external_save(path, str_get(&text), text.n, e);
    if (!rc) report_note("saved as %s", path);
    str_release(&text);
    return rc;
}

static int say_edited(struct plain *p, struct err *e)
{
    if (!p->interactive) return err_set(e, ERR_USAGE, "there is no terminal for an editor");
    int rc = external_edit(&p->edited, -1, -1, e);
    if (!rc && p->edited.n) rc = say(p, p->edited.data, p->edited.n, e);
    if (!rc) str_clear(&p->edited);
    return rc;
}

static void print_help(void)
{
    for (const struct slash_row *row = slash_table; row->name; row++)
        if (row->place != SLASH_AT_SCREEN)
            report_aside("  /%s%s%-*s %s\n", row->name, row->usage[0] ? " " : "",
                         (int)(24 - strlen(row->name) - (row->usage[0] != 0)), row->usage,
                         row->help);
    report_aside("  //text                   sends /text\n"
                 "  Ctrl-C                   stops an answer and keeps it\n");
}

static int run_command(struct plain *p, enum slash command, const char *argument, struct err *e)
{
    struct control *c = &p->control;
    switch (command) {
    case SLASH_HELP: print_help(); return 0;
    case SLASH_SET: return set(p, argument, e);
    case SLASH_EDITOR: return say_edited(p, e);
    case SLASH_LIST: return conversations_print(c->parts.library, e);
    case SLASH_COPY: return copy(p, argument, e);
    case SLASH_SAVE: return save(p, argument, e);
    case SLASH_MAP: session_print_map(c->parts.session); return 0;
    case SLASH_TINT: return session_print_tint(c->parts.library, c->name, c->parts.session, e);
    case SLASH_STATS: session_print_stats(c->parts.session); return 0;
    default: return run_request(p, command, argument, e);
    }
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void advise(const struct str *line)
{
    for (const struct slash_row *row = slash_table; row->name; row++)
        if (row->place == SLASH_AT_SCREEN &&
            strncmp(row->name, str_get(line) + 1, strlen(row->name)) == 0) {
            report_note("that is for the screen; --plain has none");
            return;
        }
    report_note("%s", slash_advice(str_get(line), line->n, (char[SLASH_ADVICE_MAX]){0}));
}

/* false: the chat is over. *rc is what it ends with: a command that failed does not end it. */
static bool run_line(struct plain *p, const struct str *line, int *rc, struct err *e)
{
    const char *rest;
    size_t n_rest;
    enum slash command = slash_parse(str_get(line), line->n, &rest, &n_rest);
    struct str argument = {0};
    if (command == SLASH_QUIT) return false;
    if (command == SLASH_UNKNOWN || slash_place(command) == SLASH_AT_SCREEN) {
        advise(line);
        return true;
    }
    if (command == SLASH_SAY) {
        if (n_rest > 0) *rc = say(p, rest, n_rest, e);
        return *rc == 0 && p->answer.error == 0;
    }
    str_append(&argument, rest, n_rest);
    *rc = run_command(p, command, str_get(&argument), e);
    str_release(&argument);
    bool open = p->control.parts.session != NULL;
    if (*rc && open && *rc != ERR_STOP) {
        report_error(e);
        *rc = 0;
    }
    return *rc == 0 && open && p->answer.error == 0;
}

/* Ctrl-C at the prompt: the second in a row leaves. */
static bool leave_on_interrupt(struct plain *p)
{
    report_clear_interrupt();
    if (!p->interactive || p->stopped) return true;
    p->stopped = true;
    report_aside("\n");
    report_note("Ctrl-C again or Ctrl-D leaves");
    return false;
}

static int chat_loop(struct plain *p, struct err *e)
{
    struct str line = {0};
    int rc = 0;
    for (bool more = true; more;) {
        if (p->interactive) report_aside("you> ");
        switch (line_reader_message(&p->in, &line)) {
        case LINE_READ: more = run_line(p, &line, &rc, e); break;
        case LINE_EOF: more = false; break;
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
    answer_init(&p.answer, STDOUT_FILENO);
    report_catch_interrupts();
    int rc = control_open(&p.control, o, &events, &e);
    if (!rc) {
        rc = chat_loop(&p, &e);
        if (p.interactive) report_aside("\n");
    }
    control_close(&p.control);
    line_reader_release(&p.in);
    answer_release(&p.answer);
    str_release(&p.edited);
    str_release(&p.last);
    return rc == ERR_STOP ? err_exit_status(rc) : rc ? report_error(&e) : 0;
}
