#include "cli/plain.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/answer.h"
#include "cli/cli_session.h"
#include "cli/clipboard.h"
#include "cli/conversations.h"
#include "cli/external.h"
#include "cli/num.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/session_print.h"
#include "cli/slash.h"
#include "runtime/session/conversations.h"

struct plain {
    struct options options; /* changed by /set */
    struct str *settings;   /* texts that options points to */
    int n_settings;
    struct cli_session talk;
    struct str edited; /* the message that /edit took back, for /editor */
    struct str last;   /* the last answer, for /copy */
    char deleted[128]; /* by the last /delete */
    struct answer answer;
    struct str input; /* read and not yet used */
    bool interactive; /* a person types: prompts and role words are printed */
    bool stopped;     /* Ctrl-C ended the last answer, or was pressed at this prompt */
};

enum { PASTE_MS = 20 };

enum line_end { LINE_READ, LINE_EOF, LINE_INTERRUPTED };

/* Takes a line out of what was read; false when there is no whole one. */
static bool take_line(struct plain *p, size_t searched, struct str *line)
{
    if (p->input.n <= searched) return false;
    char *start = p->input.data;
    char *newline = memchr(start + searched, '\n', p->input.n - searched);
    if (!newline) return false;
    size_t n = (size_t)(newline - start);
    str_append(line, start, n && start[n - 1] == '\r' ? n - 1 : n);
    p->input.n -= n + 1;
    memmove(start, newline + 1, p->input.n);
    return true;
}

static bool readable(int ms)
{
    struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&fd, 1, ms) > 0;
}

/* The next line without its end. Reads with read(2): stdio would hide the interrupted call. */
static enum line_end read_line(struct plain *p, struct str *line)
{
    char buffer[65536];
    size_t searched = 0;
    str_clear(line);
    while (!take_line(p, searched, line)) {
        searched = p->input.n;
        if (report_interrupted()) return LINE_INTERRUPTED;
        ssize_t n = read(STDIN_FILENO, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n > 0) {
            str_append(&p->input, buffer, (size_t)n);
            continue;
        }
        if (p->input.n == 0) return LINE_EOF;
        str_append(line, p->input.data, p->input.n);
        str_clear(&p->input);
        break;
    }
    return LINE_READ;
}

/* What is typed at the prompt, and lines that come at once after it: nobody types that fast, so it
 * is a paste, which is one message. What waited before the prompt was typed ahead, line by line. */
static enum line_end read_message(struct plain *p, struct str *text)
{
    bool ahead = !p->interactive || p->input.n > 0 || readable(0);
    enum line_end end = read_line(p, text);
    struct str line = {0};
    int n_lines = 1;
    while (!ahead && end == LINE_READ && readable(PASTE_MS)) {
        if (read_line(p, &line) != LINE_READ) break;
        str_puts(text, "\n");
        str_append(text, str_get(&line), line.n);
        n_lines++;
    }
    str_release(&line);
    if (n_lines > 1) report_note("%d lines as one message", n_lines);
    return end;
}

/* Costs and losses are agreed to by a person; a pipe knows what it asks for. */
static bool agreed(struct plain *p, const char *question)
{
    struct str line = {0};
    if (!p->interactive) return true;
    report_note("%s  y or n", question);
    bool yes = read_line(p, &line) == LINE_READ && line.n == 1 && line.data[0] == 'y';
    str_release(&line);
    if (!yes) report_note("nothing was done");
    return yes;
}

static void on_text(void *ctx, const char *utf8, size_t n)
{
    struct plain *p = ctx;
    str_append(&p->last, utf8, n);
    answer_write(&p->answer, utf8, n);
}

static bool on_stop(void *ctx)
{
    struct plain *p = ctx;
    return report_interrupted() || p->answer.error != 0;
}

static void on_replay(void *ctx, int64_t done, int64_t total)
{
    struct plain *p = ctx;
    char count[NUM_MAX];
    if (p->interactive && done == 0) report_note("reading %s tokens", num_count(total, count));
}

static const struct session_sink *sink_of(struct plain *p, struct session_sink *sink)
{
    *sink =
        (struct session_sink){.ctx = p, .progress = on_replay, .text = on_text, .stop = on_stop};
    return sink;
}

static void note_end(struct plain *p, enum session_end end)
{
    if (end == SESSION_FULL) report_note("the cache is full and policy full evicts nothing");
    if (end == SESSION_REPETITION) report_note("the answer went in a circle and was stopped");
    if (!p->interactive) return;
    if (end == SESSION_STOPPED) report_note("stopped; /continue goes on");
    if (end == SESSION_LENGTH) report_note("cut at the token limit; /continue goes on");
}

/* One answer: to the text, or by SLASH_CONTINUE or SLASH_REGENERATE. What it returns ends the chat;
 * a turn that failed does not, unless it is a pipe's. */
static int answer_turn(struct plain *p, enum slash how, const char *text, size_t n, struct err *e)
{
    struct session_sink sink;
    enum session_end end = SESSION_TURN_END;
    sink_of(p, &sink);
    report_clear_interrupt();
    if (p->interactive) report_aside("llm> ");
    if (how != SLASH_CONTINUE) str_clear(&p->last);
    struct session *session = p->talk.session;
    int rc = how == SLASH_CONTINUE     ? session_continue(session, &sink, &end, e)
             : how == SLASH_REGENERATE ? session_regenerate(session, &sink, &end, e)
                                       : session_say(session, text, n, &sink, &end, e);
    answer_end(&p->answer);
    p->stopped = report_interrupted();
    if (rc && p->interactive) {
        report_error(e);
        return 0;
    }
    if (rc) return rc;
    rc = answer_check(&p->answer, e);
    if (rc) return rc;
    note_end(p, end);
    if (p->stopped && !p->interactive) return err_set(e, ERR_STOP, "interrupted");
    report_clear_interrupt();
    return 0;
}

static void print_help(void)
{
    for (const struct slash_row *row = slash_table; row->name; row++)
        if (!row->screen_only)
            report_aside("  /%s%s%-*s %s\n", row->name, row->usage[0] ? " " : "",
                         (int)(24 - strlen(row->name) - (row->usage[0] != 0)), row->usage,
                         row->help);
    report_aside("  //text                   sends /text\n"
                 "  Ctrl-C                   stops an answer and keeps it\n");
}

/* ---- going back ----------------------------------------------------------------------------- */

static int64_t n_turns(const struct plain *p)
{
    struct session_stats st;
    session_stats(p->talk.session, &st);
    return st.n_turns;
}

static int regenerate(struct plain *p, struct err *e)
{
    char question[128], count[NUM_MAX];
    int64_t cost = session_regenerate_cost(p->talk.session);
    snprintf(question, sizeof question, "another answer: %s tokens to read again",
             num_exact(cost, count));
    if (cost > 0 && !agreed(p, question)) return 0;
    return answer_turn(p, SLASH_REGENERATE, "", 0, e);
}

struct pick {
    int64_t turn;
    struct str *out;
};

static int pick_turn(void *ctx, const struct conversations_message *m)
{
    struct pick *k = ctx;
    if (m->role != CHAT_USER || --k->turn != 0) return 0;
    str_append(k->out, m->text, m->n_text);
    return 1;
}

static int take_back(struct plain *p, enum slash what, const char *argument, struct err *e)
{
    char question[160], count[NUM_MAX];
    int64_t turn, last = n_turns(p);
    const char *rest;
    struct session_sink sink;
    if (!slash_turn(argument, last, &turn, &rest) || rest[0] || (what == SLASH_EDIT && !turn))
        return err_set(e, ERR_USAGE, "no such turn; this conversation has %lld", (long long)last);
    if (what == SLASH_REWIND && !argument[0]) turn = last > 0 ? last - 1 : 0;
    int64_t to = what == SLASH_EDIT ? turn - 1 : turn;
    snprintf(
        question, sizeof question,
        "back to the end of turn %lld: %lld after it cut off for good, %s tokens to read again",
        (long long)to, (long long)(last - to),
        num_exact(session_rewind_cost(p->talk.session, to), count));
    if (to < last && !agreed(p, question)) return 0;
    str_clear(&p->edited);
    struct pick pick = {turn, &p->edited};
    if (what == SLASH_EDIT && p->talk.library)
        conversations_messages(p->talk.library, session_name(p->talk.session), pick_turn, &pick, e);
    sink_of(p, &sink);
    report_clear_interrupt();
    int rc = session_rewind(p->talk.session, to, &sink, e);
    if (rc) return rc;
    if (p->edited.n) report_note("turn %lld was: %s", (long long)turn, p->edited.data);
    report_note("at the end of turn %lld; %s", (long long)n_turns(p),
                p->edited.n ? "say it anew, or change it with /editor" : "go on from there");
    return 0;
}

/* Without a text the last answer goes through the person's editor. */
static int amend(struct plain *p, const char *text, struct err *e)
{
    struct session_sink sink;
    struct str answer = {0};
    int rc = 0;
    str_puts(&answer, text);
    if (answer.n == 0 && !p->interactive) rc = err_set(e, ERR_USAGE, "/answer TEXT");
    if (!rc && answer.n == 0) {
        str_append(&answer, str_get(&p->last), p->last.n);
        rc = external_edit(&answer, -1, -1, e);
    }
    report_clear_interrupt();
    if (!rc) rc = session_amend(p->talk.session, str_get(&answer), answer.n, sink_of(p, &sink), e);
    if (!rc) {
        str_clear(&p->last);
        str_append(&p->last, answer.data, answer.n);
        report_note("the answer was changed; /continue goes on from it");
    }
    str_release(&answer);
    return rc;
}

static int branch(struct plain *p, const char *argument, struct err *e)
{
    int64_t turn = n_turns(p);
    char made[128];
    const char *name = argument;
    bool numbered = argument[0] == '-' || (argument[0] >= '0' && argument[0] <= '9');
    if (numbered && !slash_turn(argument, turn, &turn, &name))
        return err_set(e, ERR_USAGE, "no such turn; this conversation has %lld",
                       (long long)n_turns(p));
    int rc = session_branch(p->talk.session, turn, name, made, e);
    if (!rc) report_note("branch %s was made; /open %s goes there", made, made);
    return rc;
}

/* ---- conversations -------------------------------------------------------------------------- */

static int open_session(struct plain *p, const char *name, struct err *e)
{
    struct session_sink sink = {.ctx = p, .progress = on_replay, .stop = on_stop};
    struct options o = p->options;
    o.continue_latest = false;
    o.new_conversation = name == NULL;
    o.conversation = name;
    report_clear_interrupt();
    int rc = session_open(&p->talk.session, p->talk.engine, p->talk.library, &o, &sink, e);
    if (rc) return rc;
    if (session_notice(p->talk.session)[0]) report_note("%s", session_notice(p->talk.session));
    if (p->interactive) report_note("conversation %s", session_name(p->talk.session));
    return 0;
}

/* Another conversation, or the same with `changed` settings; when that fails, back to this one. */
static int switch_to(struct plain *p, const char *name, const struct options *changed,
                     struct err *e)
{
    struct options before = p->options;
    struct err second;
    char here[128];
    snprintf(here, sizeof here, "%s", session_name(p->talk.session));
    session_close(p->talk.session);
    p->talk.session = NULL;
    if (changed) p->options = *changed;
    int rc = open_session(p, name, e);
    if (!rc) return 0;
    p->options = before;
    if (open_session(p, here[0] ? here : NULL, &second) == 0) return rc;
    *e = second;
    return rc;
}

static int is_named(void *ctx, const struct conversations_entry *c)
{
    return strcmp(c->name, ctx) == 0;
}

static int open_named(struct plain *p, const char *name, struct err *e)
{
    char copied[128];
    snprintf(copied, sizeof copied, "%s", name);
    int found = p->talk.library ? conversations_list(p->talk.library, is_named, copied, e) : 0;
    if (found < 0) return found;
    if (!found) return err_set(e, ERR_FAIL, "no conversation %.100s; /list shows them", name);
    return switch_to(p, copied, NULL, e);
}

static int print_hit(void *ctx, const struct conversations_hit *h)
{
    struct str line = {0};
    (void)ctx;
    str_printf(&line, "%s: ", h->name);
    for (const char *c = h->snippet; *c; c++)
        if (*c != '\2' && *c != '\3') str_append(&line, *c == '\n' ? " " : c, 1);
    report_note("%s", str_get(&line));
    str_release(&line);
    return 0;
}

static int on_library(struct plain *p, enum slash command, const char *name, struct err *e)
{
    struct conversations *l = p->talk.library;
    if (!l || p->options.private_mode)
        return err_set(e, ERR_USAGE, "a private conversation has no library");
    if (command != SLASH_RESTORE && !name[0]) return err_set(e, ERR_USAGE, "a name is missing");
    int rc = 0;
    switch (command) {
    case SLASH_FIND: return conversations_search(l, name, print_hit, NULL, e);
    case SLASH_RENAME:
        rc = conversations_rename(l, session_name(p->talk.session), name, e);
        if (!rc) rc = switch_to(p, name, NULL, e); /* the session knows its name from opening */
        return rc;
    case SLASH_TAG: return conversations_retag(l, session_name(p->talk.session), name, e);
    case SLASH_DELETE:
        if (strcmp(name, session_name(p->talk.session)) == 0)
            return err_set(e, ERR_USAGE, "%s is open; open another one first", name);
        rc = conversations_delete(l, name, e);
        if (!rc) snprintf(p->deleted, sizeof p->deleted, "%s", name);
        if (!rc) report_note("%s was deleted; /restore brings it back", name);
        return rc;
    case SLASH_RESTORE:
        rc = conversations_restore(l, name[0] ? name : p->deleted, NULL, e);
        if (!rc) report_note("%s is back", name[0] ? name : p->deleted);
        return rc;
    default:
        rc = conversations_drop_cache(l, name, e);
        if (!rc) report_note("the cache of %s is gone, its text stays", name);
        return rc;
    }
}

/* ---- settings ------------------------------------------------------------------------------- */

static void print_settings(const struct plain *p, const char *only)
{
    struct option_fact f;
    struct err e;
    for (int i = 0; options_fact(SLASH_SET_NOW | SLASH_SET_OPEN, i, &f); i++) {
        struct str value = {0};
        if (only[0] && strcmp(only, f.name) != 0) continue;
        options_get(&p->options, SLASH_SET_NOW | SLASH_SET_OPEN, f.name, &value, &e);
        report_aside("  %-15s %-10s %s\n", f.name, value.n ? value.data : "default", f.help);
        str_release(&value);
    }
}

static int change_setting(struct plain *p, const struct option_fact *f, const char *value,
                          struct err *e)
{
    char here[128];
    struct options changed = p->options;
    struct str *kept = realloc(p->settings, sizeof *kept * (size_t)(p->n_settings + 1));
    if (!kept) abort();
    p->settings = kept;
    kept += p->n_settings++;
    *kept = (struct str){0};
    str_puts(kept, value); /* options point to it */
    int rc = options_set(&changed, f->groups, f->name, kept->data, e);
    if (rc) return rc;
    if (f->groups & SLASH_SET_NOW) {
        p->options = changed;
        session_set(p->talk.session, &changed);
        return 0;
    }
    if (p->options.private_mode)
        return err_set(e, ERR_USAGE, "%s is set when a conversation is opened; this one is private",
                       f->name);
    snprintf(here, sizeof here, "%s", session_name(p->talk.session));
    return switch_to(p, here, &changed, e);
}

static int set(struct plain *p, const char *argument, struct err *e)
{
    char name[64];
    size_t n = strcspn(argument, " =");
    struct option_fact f;
    snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), argument);
    if (n > 0 && !slash_setting(name, &f, e)) return ERR_USAGE;
    const char *value = argument + n + strspn(argument + n, " =");
    if (n > 0 && value[0]) return change_setting(p, &f, value, e);
    print_settings(p, name);
    return 0;
}

/* ---- text ----------------------------------------------------------------------------------- */

static int copy(struct plain *p, const char *what, struct err *e)
{
    struct str text = {0};
    char how[256];
    size_t from = 0, n = p->last.n;
    int rc = 0;
    if (strcmp(what, "all") == 0)
        rc = conversations_export(p->talk.library, session_name(p->talk.session), true, &text, NULL,
                                  e);
    else if (strcmp(what, "code") == 0 && !talk_code(&p->last, &from, &n))
        rc = err_set(e, ERR_FAIL, "the last answer has no code block");
    else if (n == 0)
        rc = err_set(e, ERR_FAIL, "there is no answer to copy");
    else
        str_append(&text, p->last.data + from, n);
    if (!rc) rc = clipboard_copy(str_get(&text), text.n, -1, how, e);
    if (!rc) report_note("copied %zu bytes %s", text.n, how);
    str_release(&text);
    return rc;
}

static int save(struct plain *p, const char *path, struct err *e)
{
    struct str text = {0};
    if (!path[0]) return err_set(e, ERR_USAGE, "/save FILE");
    int rc =
        conversations_export(p->talk.library, session_name(p->talk.session), true, &text, NULL, e);
    if (!rc) rc = external_save(path, str_get(&text), text.n, e);
    if (!rc) report_note("saved as %s", path);
    str_release(&text);
    return rc;
}

static int say_edited(struct plain *p, struct err *e)
{
    if (!p->interactive) return err_set(e, ERR_USAGE, "there is no terminal for an editor");
    int rc = external_edit(&p->edited, -1, -1, e);
    if (!rc && p->edited.n) rc = answer_turn(p, SLASH_SAY, p->edited.data, p->edited.n, e);
    if (!rc) str_clear(&p->edited);
    return rc;
}

/* ---- lines ---------------------------------------------------------------------------------- */

static int run_command(struct plain *p, enum slash command, const char *argument, struct err *e)
{
    switch (command) {
    case SLASH_CONTINUE:
        if (session_can_continue(p->talk.session)) return answer_turn(p, SLASH_CONTINUE, "", 0, e);
        report_note("there is no answer to continue");
        return 0;
    case SLASH_REGENERATE: return regenerate(p, e);
    case SLASH_EDIT:
    case SLASH_REWIND: return take_back(p, command, argument, e);
    case SLASH_ANSWER: return amend(p, argument, e);
    case SLASH_BRANCH: return branch(p, argument, e);
    case SLASH_SET: return set(p, argument, e);
    case SLASH_EDITOR: return say_edited(p, e);
    case SLASH_LIST: return conversations_print(p->talk.library, e);
    case SLASH_OPEN: return open_named(p, argument, e);
    case SLASH_NEW: return switch_to(p, NULL, NULL, e);
    case SLASH_FIND:
    case SLASH_RENAME:
    case SLASH_TAG:
    case SLASH_DELETE:
    case SLASH_RESTORE:
    case SLASH_DROP: return on_library(p, command, argument, e);
    case SLASH_COPY: return copy(p, argument, e);
    case SLASH_SAVE: return save(p, argument, e);
    case SLASH_HELP: print_help(); break;
    case SLASH_MAP: session_print_map(p->talk.session); break;
    case SLASH_TINT: return session_print_tint(p->talk.library, p->talk.session, e);
    case SLASH_STATS: session_print_stats(p->talk.session); break;
    default: break; /* for the screen only */
    }
    return 0;
}

static bool on_screen_only(const struct str *line)
{
    for (const struct slash_row *row = slash_table; row->name; row++)
        if (row->screen_only && strncmp(row->name, str_get(line) + 1, strlen(row->name)) == 0)
            return true;
    return false;
}

/* false: the chat is over. *rc is what it ends with: a command that failed does not end it. */
static bool run_line(struct plain *p, const struct str *line, int *rc, struct err *e)
{
    const char *rest;
    size_t n_rest;
    enum slash command = slash_parse(str_get(line), line->n, &rest, &n_rest);
    struct str argument = {0};
    switch (command) {
    case SLASH_SAY:
        if (n_rest > 0) *rc = answer_turn(p, SLASH_SAY, rest, n_rest, e);
        return *rc == 0 && p->answer.error == 0;
    case SLASH_QUIT: return false;
    case SLASH_NOW:
    case SLASH_RAW:
    case SLASH_LOG:
    case SLASH_UNKNOWN:
        if (on_screen_only(line))
            report_note("that is for the screen; --plain has none");
        else
            report_note("%s", slash_advice(str_get(line), line->n, (char[SLASH_ADVICE_MAX]){0}));
        return true;
    default: break;
    }
    str_append(&argument, rest, n_rest);
    *rc = run_command(p, command, str_get(&argument), e);
    str_release(&argument);
    if (*rc && p->talk.session && *rc != ERR_STOP) {
        report_error(e);
        *rc = 0;
    }
    return *rc == 0 && p->talk.session && p->answer.error == 0;
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
        switch (read_message(p, &line)) {
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
    struct plain p = {.options = *o};
    struct err e = {0};
    p.interactive = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    answer_init(&p.answer, STDOUT_FILENO);
    report_catch_interrupts();
    struct session_sink sink = {.ctx = &p, .progress = on_replay, .stop = on_stop};
    int rc = cli_session_open(&p.talk, o, true, &sink, &e);
    if (!rc) {
        if (session_notice(p.talk.session)[0]) report_note("%s", session_notice(p.talk.session));
        if (p.interactive)
            report_note("conversation %s; /help for help", session_name(p.talk.session));
        rc = chat_loop(&p, &e);
        if (p.interactive) report_aside("\n");
    }
    cli_session_close(&p.talk);
    answer_release(&p.answer);
    str_release(&p.input);
    str_release(&p.edited);
    str_release(&p.last);
    for (int i = 0; i < p.n_settings; i++) str_release(&p.settings[i]);
    free(p.settings);
    return rc == ERR_STOP ? err_exit_status(rc) : rc ? report_error(&e) : 0;
}
