/* Slash commands in a chat without a screen. */
#include <stdio.h>
#include <string.h>

#include "cli/control/clipboard.h"
#include "cli/control/conversation_table.h"
#include "cli/control/external.h"
#include "cli/control/model_list.h"
#include "cli/control/secret.h"
#include "cli/plain/plain_parts.h"
#include "cli/print/report.h"
#include "runtime/save/conversations.h"

static int64_t n_turns(const struct plain *p)
{
    struct session_stats st;
    session_stats(p->control.parts.session, &st);
    return st.n_turns;
}

/* Asks the user, unless nothing is lost or read again. A pipe is not asked; for /model and /system
 * it is told the cost. */
static bool agreed(struct plain *p, const struct request *q)
{
    struct str line = {0};
    const bool reopens = q->command == SLASH_MODEL || q->command == SLASH_SYSTEM;
    if (!p->must_ask) return true;
    if (p->interactive || reopens)
        report_note("%s%s", str_get(&p->question), p->interactive ? "  y or n" : "");
    if (!p->interactive) return true;
    bool yes = line_reader_line(&p->in, &line) == LINE_READ && line.n == 1 && line.data[0] == 'y';
    str_release(&line);
    if (!yes) report_note("nothing was changed");
    return yes;
}

/* Runs a request that may ask first: /model NAME, /system [TEXT], /forget [TURN|undo], /regenerate,
 * /edit and /rewind. q->agreed: it asked, and the user has agreed. */
static int ask_and_run(struct plain *p, struct request *q, struct err *e)
{
    str_clear(&p->question);
    int rc = plain_run_request(p, q, e);
    if (rc || !p->question.n || !agreed(p, q)) return rc;
    q->agreed = true;
    if (q->command == SLASH_REGENERATE) return plain_answer(p, q, e);
    str_clear(&p->edited);
    return plain_run_request(p, q, e);
}

/* /edit and /rewind */
static int take_back(struct plain *p, struct request *q, struct err *e)
{
    int rc = ask_and_run(p, q, e);
    if (rc || !q->agreed) return rc;
    if (p->edited.n) report_note("turn %lld was: %s", (long long)q->turn, p->edited.data);
    report_note("at the end of turn %lld; %s", (long long)n_turns(p),
                p->edited.n ? "send it again, or change it with /editor" : "continue from there");
    return 0;
}

/* /model [NAME]: without a name it lists the models. */
static int choose_model(struct plain *p, struct request *q, struct err *e)
{
    if (q->text.n == 0) {
        struct model_list l;
        int rc = model_list_read(&l, &p->settings.options, p->control.parts.library, e);
        for (int i = 0; !rc && i < l.n; i++)
            report_note("%s%s%s", l.rows[i].path ? l.rows[i].path : "demo",
                        l.rows[i].problem[0] ? ": " : "", l.rows[i].problem);
        model_list_release(&l);
        return rc;
    }
    return ask_and_run(p, q, e);
}

static bool is_secret(const struct plain *p)
{
    return secret_talk(&p->settings.options, p->control.parts.library);
}

static void clear_last(struct plain *p)
{
    str_clear(&p->last);
    str_clear(&p->thought);
}

/* An answer that was continued has several messages. */
static int take_answer(void *ctx, const struct store_message *m)
{
    struct plain *p = ctx;
    if (m->role != CHAT_ASSISTANT) {
        clear_last(p);
        return 0;
    }
    str_append(&p->last, m->text, m->n_text);
    str_append(&p->thought, m->thought.text, m->thought.n);
    return 0;
}

/* The last answer and its thought as they are saved; a private conversation has only those that
 * were printed. */
static int read_last(struct plain *p, struct err *e)
{
    if (p->settings.options.session.private_mode) return 0;
    clear_last(p);
    return conversations_messages(p->control.parts.library, p->control.name, take_answer, p, e);
}

/* Without a text, the last answer is edited in $VISUAL or $EDITOR. */
static int amend(struct plain *p, struct request *q, struct err *e)
{
    int rc = 0;
    if (q->text.n == 0 && !p->interactive) return err_set(e, ERR_USAGE, "/answer TEXT");
    if (q->text.n == 0) {
        rc = read_last(p, e);
        str_append(&q->text, str_get(&p->last), p->last.n);
        if (!rc) rc = external_edit(&q->text, is_secret(p), -1, -1, e);
    }
    if (!rc) rc = plain_run_request(p, q, e);
    if (!rc) report_note("the answer was changed; /continue continues it");
    return rc;
}

static int run_parsed(struct plain *p, enum slash command, const char *argument, struct err *e)
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
                rc = plain_answer(p, &q, e);
            else
                report_note("there is no answer to continue");
            break;
        case SLASH_EDIT:
        case SLASH_REWIND: rc = take_back(p, &q, e); break;
        case SLASH_ANSWER: rc = amend(p, &q, e); break;
        case SLASH_MODEL: rc = choose_model(p, &q, e); break;
        case SLASH_REGENERATE:
        case SLASH_SYSTEM:
        case SLASH_FORGET: rc = ask_and_run(p, &q, e); break;
        default: rc = plain_run_request(p, &q, e);
        }
    request_release(&q);
    return rc;
}

/* only NULL: all. */
static void print_settings(const struct plain *p, const struct option *only)
{
    const struct option *f;
    struct session_stats st;
    session_stats(p->control.parts.session, &st);
    for (int i = 0; (f = options_setting(SLASH_SETTINGS, i)); i++) {
        struct str value = {0};
        if (only && only != f) continue;
        settings_value(&p->settings, &st, f, &value);
        report_aside("  %-15s %-10s %s\n", f->name, str_get(&value), f->help);
        str_release(&value);
    }
}

static int set(struct plain *p, const char *argument, struct err *e)
{
    const struct option *f;
    const char *value;
    struct request again = {.command = SLASH_OPEN};
    int ask = settings_parse(&p->settings, argument, &f, &value, e);
    if (ask == SETTINGS_SHOW) print_settings(p, f);
    if (ask == SETTINGS_SHOW || ask < 0) return ask < 0 ? ask : 0;
    int rc = settings_change(&p->settings, f, value, e);
    if (rc) return rc;
    control_set(&p->control, &p->settings.options);
    if (ask == SETTINGS_NOW) return 0;
    snprintf(again.name, sizeof again.name, "%s", p->control.name);
    rc = plain_run_request(p, &again, e);
    if (rc) settings_failed(&p->settings);
    if (!rc) print_settings(p, f);
    return rc;
}

static int copy(struct plain *p, const char *what, struct err *e)
{
    struct str text = {0};
    char how[256];
    bool all = strcmp(what, "all") == 0;
    int rc = all ? conversation_text(p->control.parts.library, p->control.name, &text, e)
                 : read_last(p, e);
    if (!rc && !all) rc = control_copied(&p->last, what, &text, e);
    const char *way = p->settings.options.session.private_mode ? "" : "; /save FILE does";
    if (!rc) rc = clipboard_copy(str_get(&text), text.n, is_secret(p) ? way : NULL, -1, how, e);
    if (!rc) report_note("copied %zu bytes %s", text.n, how);
    str_release(&text);
    return rc;
}

static int save(struct plain *p, const char *path, struct err *e)
{
    struct str text = {0};
    if (!path[0]) return err_set(e, ERR_USAGE, "/save FILE");
    int rc = conversation_text(p->control.parts.library, p->control.name, &text, e);
    if (!rc) rc = external_save(path, str_get(&text), text.n, e);
    if (!rc) report_note("saved as %s", path);
    str_release(&text);
    return rc;
}

static int say_file(struct plain *p, const char *argument, struct err *e)
{
    struct str text = {0};
    int rc = external_attach(argument, &text, e);
    if (!rc) rc = plain_say(p, str_get(&text), text.n, e);
    str_release(&text);
    return rc;
}

static int say_edited(struct plain *p, struct err *e)
{
    if (!p->interactive) return err_set(e, ERR_USAGE, "there is no terminal for an editor");
    int rc = external_edit(&p->edited, is_secret(p), -1, -1, e);
    if (!rc && p->edited.n) rc = plain_say(p, p->edited.data, p->edited.n, e);
    if (!rc) str_clear(&p->edited);
    return rc;
}

static int show_thought(struct plain *p, struct err *e)
{
    int rc = read_last(p, e);
    if (!rc && p->thought.n == 0)
        report_note("the model did not think before the last answer");
    else if (!rc)
        report_aside("%s\n", str_get(&p->thought));
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

int plain_command(struct plain *p, enum slash command, const char *argument, struct err *e)
{
    struct control *c = &p->control;
    switch (command) {
    case SLASH_HELP: print_help(); return 0;
    case SLASH_SET: return set(p, argument, e);
    case SLASH_EDITOR: return say_edited(p, e);
    case SLASH_LIST: return conversation_table_print(c->parts.library, e);
    case SLASH_COPY: return copy(p, argument, e);
    case SLASH_FILE: return say_file(p, argument, e);
    case SLASH_SAVE: return save(p, argument, e);
    case SLASH_THOUGHT: return show_thought(p, e);
    case SLASH_MAP: session_print_map(c->parts.session); return 0;
    case SLASH_TINT: return session_print_tint(c->parts.library, c->name, c->parts.session, e);
    case SLASH_TURNS: return session_print_turns(c->parts.library, c->name, c->parts.session, e);
    case SLASH_LOG: report_note("events are printed when they happen; they are above"); return 0;
    case SLASH_STATS: session_print_stats(c->parts.session); return 0;
    default: return run_parsed(p, command, argument, e);
    }
}
