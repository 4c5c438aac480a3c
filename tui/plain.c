#include "tui/plain.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/options.h"
#include "tui/answer.h"
#include "tui/num.h"
#include "tui/saved.h"
#include "tui/slash.h"
#include "tui/talk.h"

struct plain {
    const struct options *o;
    struct talk talk;
    struct answer answer;
    struct str input; /* read and not yet used */
    bool interactive; /* a person types: prompts and role words on stderr */
    bool stopped;     /* Ctrl-C ended the last answer, or was pressed at this prompt */
};

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

/* The next line without its end. Reads with read(2): stdio would hide the interrupted call. */
static enum line_end read_line(struct plain *p, struct str *line)
{
    char buffer[65536];
    size_t searched = 0;
    str_clear(line);
    while (!take_line(p, searched, line)) {
        searched = p->input.n;
        if (interrupt_pending()) return LINE_INTERRUPTED;
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

static void on_text(void *ctx, const char *utf8, size_t n)
{
    struct plain *p = ctx;
    answer_write(&p->answer, utf8, n);
}

static bool on_stop(void *ctx)
{
    struct plain *p = ctx;
    return interrupt_pending() || p->answer.error != 0;
}

static void on_replay(void *ctx, int64_t done, int64_t total)
{
    struct plain *p = ctx;
    char count[NUM_MAX];
    if (p->interactive && done == 0) talk_note("reading %s tokens", num_count(total, count));
}

static const struct session_sink *sink_of(struct plain *p, struct session_sink *sink)
{
    *sink = (struct session_sink){.ctx = p, .text = on_text, .stop = on_stop};
    return sink;
}

static void note_end(struct plain *p, enum session_end end)
{
    if (end == SESSION_FULL) talk_note("the cache is full and policy full evicts nothing");
    if (!p->interactive) return;
    if (end == SESSION_STOPPED) talk_note("stopped; /continue goes on");
    if (end == SESSION_LENGTH) talk_note("cut at the token limit; /continue goes on");
}

/* One answer. What it returns ends the chat; a turn that failed does not, unless it is a pipe's. */
static int answer_turn(struct plain *p, const char *text, size_t n, bool go_on, struct err *e)
{
    struct session_sink sink;
    enum session_end end = SESSION_TURN_END;
    sink_of(p, &sink);
    interrupt_clear();
    if (p->interactive) fputs("llm> ", stderr);
    int rc = go_on ? session_continue(p->talk.session, &sink, &end, e)
                   : session_say(p->talk.session, text, n, &sink, &end, e);
    answer_end(&p->answer);
    p->stopped = interrupt_pending();
    if (rc && p->interactive) {
        talk_fail(e);
        return 0;
    }
    if (rc) return rc;
    rc = answer_check(&p->answer, e);
    if (rc) return rc;
    note_end(p, end);
    if (p->stopped && !p->interactive) return err_set(e, ERR_STOP, "interrupted");
    interrupt_clear();
    return 0;
}

static void print_help(void)
{
    for (const struct slash_row *row = slash_table; row->name; row++)
        if (!row->screen_only) fprintf(stderr, "  /%-10s %s\n", row->name, row->help);
    fputs("  //text      sends /text\n  Ctrl-C      stops an answer and keeps it\n", stderr);
}

/* false: the chat is over. *rc is what it ends with. */
static bool run_line(struct plain *p, const struct str *line, int *rc, struct err *e)
{
    const char *rest;
    size_t n_rest;
    switch (slash_parse(str_get(line), line->n, &rest, &n_rest)) {
    case SLASH_SAY:
        if (n_rest > 0) *rc = answer_turn(p, rest, n_rest, false, e);
        break;
    case SLASH_CONTINUE:
        if (session_can_continue(p->talk.session))
            *rc = answer_turn(p, NULL, 0, true, e);
        else
            talk_note("there is no answer to continue");
        break;
    case SLASH_QUIT: return false;
    case SLASH_HELP: print_help(); break;
    case SLASH_LIST: *rc = saved_print(p->talk.library, stderr, e); break;
    case SLASH_MAP: talk_print_map(p->talk.session); break;
    case SLASH_TINT: talk_note("/tint needs a screen; /map says what is left"); break;
    case SLASH_STATS: talk_print_stats(p->talk.session); break;
    case SLASH_LOG:
    case SLASH_UNKNOWN:
        talk_note("no command %.*s; nearest: /%s (//… sends a slash)",
                  (int)(line->n < 40 ? line->n : 40), str_get(line),
                  slash_nearest(str_get(line), line->n));
        break;
    }
    return *rc == 0 && p->answer.error == 0;
}

/* Ctrl-C at the prompt: the second in a row leaves. */
static bool leave_on_interrupt(struct plain *p)
{
    interrupt_clear();
    if (!p->interactive || p->stopped) return true;
    p->stopped = true;
    fputs("\n", stderr);
    talk_note("Ctrl-C again or Ctrl-D leaves");
    return false;
}

static int chat_loop(struct plain *p, struct err *e)
{
    struct str line = {0};
    int rc = 0;
    for (bool more = true; more;) {
        if (p->interactive) fputs("you> ", stderr);
        switch (read_line(p, &line)) {
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
    struct plain p = {.o = o};
    struct err e = {0};
    p.interactive = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    answer_init(&p.answer, STDOUT_FILENO);
    interrupt_init();
    struct session_sink sink = {.ctx = &p, .progress = on_replay, .stop = on_stop};
    int rc = talk_open(&p.talk, o, true, &sink, &e);
    if (!rc) {
        if (session_notice(p.talk.session)[0]) talk_note("%s", session_notice(p.talk.session));
        if (p.interactive)
            talk_note("conversation %s; /help for help", session_name(p.talk.session));
        rc = chat_loop(&p, &e);
        if (p.interactive) fputs("\n", stderr);
    }
    talk_close(&p.talk);
    answer_release(&p.answer);
    str_release(&p.input);
    return rc ? talk_fail(&e) : 0;
}
