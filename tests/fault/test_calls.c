/* Every system call and every allocation of the commands that read and write fails once, or the
 * program is killed there. A command that can't do its work ends with one line and a status;
 * everything saved before is still there, every checksum is right, and what a command that
 * succeeded has acknowledged is there, too.
 *
 * A run counts the calls (failing.c); then each number is tried in a fresh copy of the files.
 * CALLS=N tries N numbers of each command and kind; CALLS=0, as in `make calls`, all of them,
 * of allocations a thousand. JOBS processes share the work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/str.h"
#include "store/store.h"
#include "tests/fault/failing.h"
#include "tests/fault/program_kit.h"

#define HANGS_S         60   /* on a busy machine */
#define ALLOCATIONS_MAX 1000 /* of a command: most of them are SQLite's, preparing statements */

enum action { FAIL_SYSTEM, FAIL_MEMORY, KILL, ACTIONS };

static const char *const action_names[ACTIONS] = {"system calls", "allocations", "kills"};

struct scenario {
    const char *name;
    const char *args;  /* words; the program runs in the folder with the files */
    const char *input; /* of a chat */
    const char *said;  /* a text that is in the database if the command succeeded; NULL = none */
    const char *made;  /* a file that is then as in a run without failures; NULL = none */
    bool removes;      /* messages of the conversation "kept" but the first two */
};

#define CHAT "chat --plain --db db --threads 1 --temp 0 --seed 1 -n 6 --cache-quota 64M "

static const struct scenario scenarios[] = {
    {"start", "chat --plain --db new --threads 1 -n 4", "Hello\n", NULL, NULL, false},
    {"turn", CHAT "-c kept", "The garden gate is green.\n", "The garden gate is green.", NULL,
     false},
    {"load", CHAT "-c long --budget 48", "/stats\n", NULL, NULL, false},
    {"back", CHAT "-c kept", "/rewind 1\nThe garden gate is green.\n", NULL, NULL, true},
    {"edit", CHAT "-c kept", "/answer The gate is blue.\n", "The gate is blue.", NULL, true},
    {"branch", CHAT "-c kept", "/branch twig\n/rename trunk\n/tag rose\n/rename kept\n", NULL, NULL,
     false},
    {"recall", CHAT "-c long --budget 48 --recall words", "What is my locker code?\n",
     "What is my locker code?", NULL, false},
    {"import", "import talk.json imported --db db", NULL, NULL, NULL, false},
    {"import database", "import other.db second --db db", NULL, NULL, NULL, false},
    {"export", "export kept --json --db db", NULL, NULL, "out", false},
    {"export cache", "export kept --with-cache out.db --db db", NULL, NULL, NULL, false},
    {"compact", "compact --db db", NULL, NULL, NULL, false},
    {"delete", "delete spare --db db", NULL, NULL, NULL, false},
    {"restore", "restore gone --db db", NULL, NULL, NULL, false},
    {"drop", "delete long --cache-only --db db", NULL, NULL, NULL, false},
    {"rename", "rename spare other --db db", NULL, NULL, NULL, false},
    {"tag", "tag kept rose --db db", NULL, NULL, NULL, false},
    {"search", "search locker --db db", NULL, NULL, NULL, false},
    {"check", "check --db db", NULL, NULL, NULL, false},
    {"marks", CHAT "-c long --budget 128 --recall words", "/pin 1\n/forget 2\n/unpin 1\n", NULL,
     NULL, false},
    {"again", CHAT "-c kept", "/regenerate\n", NULL, NULL, true},
    {"archive", CHAT "-c long --budget 48 --archive 8K", "The shed is brown.\n",
     "The shed is brown.", NULL, false},
    {"quantize", "quantize model.gguf out.gguf --type q8", NULL, NULL, "out.gguf", false},
    {"train",
     "heads train --data rows --length 128 --hidden 4 --steps 2 --rate .01 --threads 1 "
     "--out out.heads",
     NULL, NULL, "out.heads", false},
};

enum { N_SCENARIOS = sizeof scenarios / sizeof *scenarios };

static char folder[64], program[512], library[512];
static struct tally {
    int n_tried, n_failed, n_refused;
} * tally;

/* ---- running --------------------------------------------------------------------------------- */

/* Runs the command in a folder where call number `at` fails; returns the status of waitpid. */
static int run(const char *dir, const struct scenario *c, enum action action, long at,
               struct failing *result)
{
    char path[128];
    int status;
    struct failing f = {.kind = action == FAIL_MEMORY ? FAILING_MEMORY : FAILING_SYSTEM,
                        .kills = action == KILL,
                        .at = at};
    snprintf(path, sizeof path, "%s/failing", dir);
    FILE *file = fopen(path, "w");
    if (!file || fwrite(&f, sizeof f, 1, file) != 1 || fclose(file)) abort();
    pid_t pid = fork();
    if (pid == 0) {
        setenv("RETAIN_FAILING", "failing", 1);
        alarm(HANGS_S);
        become(dir, program, c->args, c->input ? c->input : "", library);
    }
    while (waitpid(pid, &status, 0) < 0) continue;
    file = fopen(path, "r");
    if (!file || fread(result, sizeof *result, 1, file) != 1 || fclose(file)) abort();
    return status;
}

/* ---- what must hold -------------------------------------------------------------------------- */

struct seen {
    const char *said;
    struct str text; /* of the conversation "kept" */
    bool found;
};

static int note(void *ctx, const struct store_message *m)
{
    struct seen *s = ctx;
    str_append(&s->text, m->text, m->n_text);
    str_puts(&s->text, "\n");
    return 0;
}

struct look {
    struct store *store;
    struct seen *seen;
    struct err *err;
};

static int look_for(void *ctx, const struct store_conversation *c)
{
    struct look *l = ctx;
    struct seen one = {0};
    int rc = store_message_each(l->store, c->id, note, &one, l->err);
    const char *said = l->seen->said;
    if (!rc && said && strstr(str_get(&one.text), said)) l->seen->found = true;
    if (!rc && (!strcmp(c->name, "kept") || !strcmp(c->name, "trunk"))) {
        str_clear(&l->seen->text);
        str_append(&l->seen->text, one.text.data, one.text.n);
    }
    str_release(&one.text);
    return rc;
}

/* Why the database is not as it must be; NULL = it is. */
static const char *inspect(const char *dir, struct seen *seen, struct err *e)
{
    char path[128];
    struct look l = {.seen = seen, .err = e};
    snprintf(path, sizeof path, "%s/db", dir);
    int rc = store_open(&l.store, path, e);
    if (!rc) rc = store_check(l.store, e);
    if (!rc) rc = store_conversation_list(l.store, look_for, &l, e);
    store_close(l.store);
    return rc ? e->text : NULL;
}

/* What a command that was refused printed: ends with one line of ours. */
static const char *bad_line(const char *dir)
{
    static char last[400];
    char path[128];
    struct str text = {0};
    struct err e;
    snprintf(path, sizeof path, "%s/err", dir);
    if (file_read(path, &text, &e)) return "no standard error";
    while (text.n && text.data[text.n - 1] == '\n') text.data[--text.n] = 0;
    const char *line = strrchr(str_get(&text), '\n');
    snprintf(last, sizeof last, "%s", line ? line + 1 : str_get(&text));
    str_release(&text);
    /* a failure is not the file's */
    bool blames = strstr(last, "damaged") || strstr(last, "did not make");
    return !strncmp(last, "retain: ", 8) && strlen(last) > 16 && !blames ? NULL : last;
}

static bool same_file(const char *dir, const char *name)
{
    char a[128], b[128];
    struct str x = {0}, y = {0};
    struct err e;
    snprintf(a, sizeof a, "%s/%s", dir, name);
    snprintf(b, sizeof b, "%s/done/%s", folder, name);
    bool same = !file_read(a, &x, &e) && !file_read(b, &y, &e) && x.n == y.n &&
                !memcmp(str_get(&x), str_get(&y), x.n);
    str_release(&x);
    str_release(&y);
    return same;
}

static const char *judge(const char *dir, const struct scenario *c, enum action action, int status,
                         const char *before)
{
    struct seen seen = {.said = c->said};
    static struct err e;
    bool killed = action == KILL && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    int code = WEXITSTATUS(status);
    /* A list that can't grow ends the program with a line (base/memory.h). */
    bool ended = action == FAIL_MEMORY && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
    if (!killed && !ended && !WIFEXITED(status)) return "ended by a signal";
    if (!killed && (code == 2 || code > 4)) return "the exit status";
    if (!killed && status && bad_line(dir)) return bad_line(dir);
    const char *why = inspect(dir, &seen, &e);
    size_t n =
        c->removes ? (size_t)(strchr(strchr(before, '\n') + 1, '\n') + 1 - before) : strlen(before);
    if (!why && strncmp(str_get(&seen.text), before, n)) why = "a saved message is lost";
    if (!why && !status && c->said && !seen.found) why = "an acknowledged text is lost";
    if (!why && !status && c->made && !same_file(dir, c->made)) why = "another file";
    str_release(&seen.text);
    return why;
}

/* ---- the numbers ----------------------------------------------------------------------------- */

static void try(const char *dir, const struct scenario *c, enum action action, long at,
                const char *before)
{
    struct failing f;
    shell("rm -rf %s; cp -r %s/files %s", dir, folder, dir);
    int status = run(dir, c, action, at, &f);
    const char *why = judge(dir, c, action, status, before);
    __atomic_add_fetch(&tally->n_tried, 1, __ATOMIC_RELAXED);
    if (status) __atomic_add_fetch(&tally->n_refused, 1, __ATOMIC_RELAXED);
    if (!why) return;
    __atomic_add_fetch(&tally->n_failed, 1, __ATOMIC_RELAXED);
    printf("%s, %s %ld (%s): status %x: %s\n", c->name, action_names[action], at, f.name, status,
           why);
    fflush(stdout);
}

static void try_all(const struct scenario *c, enum action action, long n_calls, const char *before)
{
    const char *calls = getenv("CALLS"), *jobs = getenv("JOBS");
    long n_tried = calls ? atol(calls) : 1, n_jobs = jobs ? atol(jobs) : 1;
    if (n_tried == 0) n_tried = action == FAIL_MEMORY ? ALLOCATIONS_MAX : n_calls;
    if (n_tried > n_calls) n_tried = n_calls;
    for (long j = 0; j < n_jobs; j++) {
        if (fork()) continue;
        char dir[96];
        snprintf(dir, sizeof dir, "%s/try%ld", folder, j);
        for (long i = j; i < n_tried; i += n_jobs)
            try(dir, c, action, 1 + (2 * i + 1) * n_calls / (2 * n_tried), before);
        _exit(0);
    }
    while (wait(NULL) > 0) continue;
}

/* The number of calls after which something did not hold. */
static int run_scenario(const struct scenario *c)
{
    int n_wrong = 0;
    long n_calls[ACTIONS] = {0};
    char done[96];
    struct seen before = {0};
    struct err e;
    struct failing f;
    snprintf(done, sizeof done, "%s/files", folder);
    const char *why = inspect(done, &before, &e);
    if (why) fail_msg("%s", why);
    snprintf(done, sizeof done, "%s/done", folder);
    for (enum action action = 0; action < ACTIONS; action++) {
        *tally = (struct tally){0};
        shell("rm -rf %s; cp -r %s/files %s", done, folder, done);
        int status = action == KILL ? 0 : run(done, c, action, 0, &f);
        if (status) fail_msg("%s: status %x: %s", c->name, status, bad_line(done));
        n_calls[action] = action == KILL ? n_calls[FAIL_SYSTEM] : f.n_calls;
        try_all(c, action, n_calls[action], str_get(&before.text));
        print_message("%s: %d of %ld %s: %d commands failed, %d in a wrong way\n", c->name,
                      tally->n_tried, n_calls[action], action_names[action], tally->n_refused,
                      tally->n_failed);
        n_wrong += tally->n_failed;
    }
    str_release(&before.text);
    return n_wrong;
}

static void every_call(void **state)
{
    const char *only = getenv("SCENARIO");
    int n_wrong = 0;
    (void)state;
    for (int i = 0; i < N_SCENARIOS; i++)
        if (!only || !strcmp(only, scenarios[i].name)) n_wrong += run_scenario(&scenarios[i]);
    assert_int_equal(n_wrong, 0);
}

/* ---- the files ------------------------------------------------------------------------------- */

static int setup(void **state)
{
    char *here = realpath("/proc/self/exe", NULL), *slash = here ? strrchr(here, '/') : NULL;
    const char *retain = getenv("RETAIN");
    (void)state;
    if (!slash || !retain || !realpath(retain, program)) return -1;
    snprintf(library, sizeof library, "%.*s/failing.so", (int)(slash - here), here);
    free(here);
    tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf(folder, sizeof folder, "/tmp/retain_calls_XXXXXX");
    if (tally == MAP_FAILED || !mkdtemp(folder)) return -1;
    shell("mkdir %s/files; cp tests/golden/families/llama3.gguf %s/files/model.gguf", folder,
          folder);
    shell("cd %s/files; for n in Milo Rex; do printf '{\"document\": [\"My dog is called %%s.\", "
          "\"Noted.\", \"Tell me about foxes.\", \"Foxes are red.\", \"What is two plus two?\", "
          "\"Two plus two is four.\"], \"question\": [\"What is my dog called?\"], \"answer\": "
          "[\"%%s.\"]}\\n' "
          "$n $n; done >rows; export HOME=. XDG_STATE_HOME=state XDG_CACHE_HOME=cache "
          "XDG_CONFIG_HOME=config; chat='%s " CHAT "'; exec 2>/dev/null >/dev/null; "
          "printf 'My dog is called Biscuit.\\nHello\\n' | $chat -c kept; "
          "printf 'Hello\\n' | $chat -c spare; printf 'Hi\\n' | $chat -c gone; "
          "printf 'My locker code is 48213.\\nTell me a joke.\\nHow are you?\\n' | "
          "$chat -c long --budget 48; %s export kept --json --db db >talk.json; "
          "%s export long --with-cache other.db --db db; %s delete gone --db db",
          folder, program, program, program, program);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    shell("rm -r '%s'", folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_call)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
