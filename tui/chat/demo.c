/* demo: `retain demo` plays a conversation in the real screen: told, talked away, asked, recalled,
 * killed in the middle of an answer and resumed. Any key takes over. Without a terminal it prints
 * the same.
 *
 * Each part runs in a separate process, because the first one is really killed. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/commands/commands.h"
#include "cli/control/control.h"
#include "cli/control/keys.h"
#include "cli/print/answer.h"
#include "cli/print/num.h"
#include "cli/print/report.h"
#include "tui/chat/script.h"
#include "tui/chat/ui_parts.h"
#include "tui/term/term.h"

enum {
    PACE = 20,
    BUDGET = 64,
    LOOK_MS = 4000,
    KILL_MS = 1200,
    PAUSE_MS = 2000,
    KILL_PIECES = 24,
    HURRY = 5
};

static const struct script_step first_part[] = {
    {SCRIPT_SAY, "Hello! My name is Marta and my locker code is 48213.", 0, 0},
    {SCRIPT_SAY, "Tell me a story about a fox.", 0, 0},
    {SCRIPT_SAY, "Tell me about cats.", 0, 0},
    {SCRIPT_SAY, "What does an owl eat?", 0, 0},
    {SCRIPT_SAY, "What is my locker code?", 0, 0},
    {SCRIPT_KEY, NULL, K_F1 + 2, LOOK_MS}, /* the map */
    {SCRIPT_KEY, NULL, 'q', LOOK_MS},
    {SCRIPT_SAY, "Tell me a story about a lion.", 0, 0},
    {SCRIPT_KILL, NULL, 0, KILL_MS},
    {SCRIPT_END, NULL, 0, 0},
};

static const struct script_step second_part[] = {
    {SCRIPT_SAY, "What is my name?", 0, 0},
    {SCRIPT_SAY, "Thank you!", 0, 0},
    {SCRIPT_END, NULL, 0, 0},
};

/* ---- without a screen ------------------------------------------------------------------------ */

struct teller {
    struct answer answer;
    struct err error;
    int kill_after; /* pieces of the answer; 0 = never */
    int n_pieces;
    bool speaks; /* its answer has begun and not ended */
};

static void end_answer(struct teller *t)
{
    if (t->speaks) answer_end(&t->answer);
    t->speaks = false;
}

static void on_event(void *ctx, const struct event *ev)
{
    struct teller *t = ctx;
    char count[NUM_MAX];
    switch (ev->kind) {
    case EVENT_TEXT:
        if (!t->speaks) answer_write(&t->answer, "llm  ", 5);
        t->speaks = true;
        answer_write(&t->answer, ev->text, ev->n_text);
        if (t->kill_after && ++t->n_pieces == t->kill_after) raise(SIGKILL);
        break;
    case EVENT_PASSAGE:
    case EVENT_RECALLED: report_line("     (%.*s)", (int)ev->n_text, ev->text); break;
    case EVENT_EVICTED:
        end_answer(t);
        report_line("     (%s units were evicted)", num_exact(ev->evicted.n_units, count));
        break;
    case EVENT_FAILED:
    case EVENT_FATAL: err_set(&t->error, ev->code, "%.*s", (int)ev->n_text, ev->text); break;
    default: break;
    }
}

static bool on_stop(void *ctx)
{
    (void)ctx;
    return report_interrupted();
}

static int tell(const struct options *o, const struct script_step *steps, struct err *e)
{
    struct teller t = {0};
    struct control c = {0};
    struct events events = {&t, on_event, on_stop};
    answer_init(&t.answer, STDOUT_FILENO);
    report_catch_interrupts();
    int rc = control_open(&c, o, &events, e);
    for (; !rc && steps->kind != SCRIPT_END && !report_interrupted(); steps++) {
        struct request r = {.command = SLASH_SAY};
        if (steps->kind != SCRIPT_SAY) continue;
        t.kill_after = steps[1].kind == SCRIPT_KILL ? KILL_PIECES : 0;
        report_line("you  %s", steps->text);
        str_puts(&r.text, steps->text);
        control_run(&c, &r, &events);
        rc = t.error.code;
        if (rc) *e = t.error;
        end_answer(&t);
        request_release(&r);
    }
    control_close(&c);
    answer_release(&t.answer);
    return rc;
}

/* ---- the two processes ----------------------------------------------------------------------- */

static int play(const struct options *o, bool screen, const struct script_step *steps)
{
    struct err e = {0};
    int status = 0;
    struct script script = {.steps = steps, .hurry = o->chat.pace ? 1 : HURRY};
    if (screen && ui_run(o, &script, &status)) return status;
    return tell(o, steps, &e) ? report_error(&e) : 0;
}

static void take_signals(void (*how)(int))
{
    signal(SIGINT, how);
    signal(SIGQUIT, how);
    signal(SIGHUP, how);
}

/* Runs the part in a separate process; *killed: it killed itself. */
static int play_apart(const struct options *o, bool screen, const struct script_step *steps,
                      bool *killed)
{
    int status = 0;
    struct err e;
    *killed = false;
    pid_t pid = fork();
    if (pid < 0) {
        err_set(&e, ERR_FAIL, "cannot start a process: %s", strerror(errno));
        return report_error(&e);
    }
    if (pid == 0) {
        take_signals(SIG_DFL);
        exit(report_finish(play(o, screen, steps)));
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    *killed = WIFSIGNALED(status);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

static int play_both(struct options *o, bool screen)
{
    bool killed;
    screen = screen && term_remember();
    int status = play_apart(o, screen, first_part, &killed);
    if (!killed) return status; /* the user took over */
    if (screen) term_rescue();
    report_line("%s(the program was killed in the middle of an answer; it starts again)",
                screen ? "" : "\n     ");
    if (screen) nanosleep(&(struct timespec){PAUSE_MS / 1000, 0}, NULL);
    return play_apart(o, screen, second_part, &killed);
}

/* The demo model with other settings, and a database that is removed afterwards. */
static void choose(struct options *o, const struct options *user, const char *db)
{
    options_init(o);
    o->chat = user->chat;
    o->engine.threads = user->engine.threads;
    if (o->chat.pace < 0) o->chat.pace = PACE;
    o->store.db = db;
    o->session.conversation = "demo";
    o->session.plan.budget = BUDGET;
    o->session.sampling.temperature = 0;
}

int cmd_demo(const struct options *o)
{
    struct str folder = {0}, db = {0};
    struct options mine;
    struct err e;
    const char *term = getenv("TERM"), *tmp = getenv("TMPDIR");
    bool screen = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term && strcmp(term, "dumb");
    str_printf(&folder, "%s/retain-demo-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(folder.data)) {
        err_set(&e, ERR_FAIL, "cannot create %s: %s", folder.data, strerror(errno));
        str_release(&folder);
        return report_error(&e);
    }
    str_printf(&db, "%s/demo.db", folder.data);
    choose(&mine, o, db.data);
    take_signals(SIG_IGN); /* the process that plays takes them, and this one tidies up */
    int status = play_both(&mine, screen);
    store_remove_files(db.data);
    rmdir(folder.data);
    str_release(&folder);
    str_release(&db);
    return status;
}
