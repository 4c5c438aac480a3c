/* Every system call and every allocation of the commands that read and write fails once, or the
 * program is killed there. A command that can't do its work ends with one line and a status;
 * everything saved before is still there, every checksum is right, and what a command that
 * succeeded has acknowledged is there, too. After a kill the command is given again, or its answer
 * continued: then the texts and files are those of a run that was not killed.
 *
 * A run counts the calls (failing.c); then each number is tried in a fresh copy of the files.
 * CALLS=N tries N numbers of each command and kind; CALLS=0, as in `make calls`, all of them,
 * of allocations a thousand. KILLS=N: N kills of each command, and nothing else. JOBS processes
 * share the work. */
#include "tests/test.h"

#include <limits.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/str.h"
#include "store/store.h"
#include "tests/fault/failing.h"
#include "tests/fault/program_kit.h"

#define HANGS_S         600 /* on a busy machine */
#define JOBS_MAX        64
#define ALLOCATIONS_MAX 1000 /* of a command: most of them are SQLite's, preparing statements */

enum action { FAIL_MEMORY, FAIL_SYSTEM, KILL, ACTIONS };

static const char *const action_names[ACTIONS] = {"allocations", "system calls", "kills"};

struct scenario {
    const char *name;
    const char *args;  /* words; the program runs in the folder with the files */
    const char *input; /* of a chat */
    const char *said;  /* a text that is in the database if the command succeeded; NULL = none */
    const char *made;  /* a file that is then as in a run without failures; NULL = none */
    enum { NOTHING, LATER, ANSWER } removes; /* from "kept": all but two messages, the answer */
};

#define CHAT "chat --plain --db db --threads 1 --temp 0 --seed 1 -n 6 --cache-quota 64M "

static const struct scenario scenarios[] = {
    {"start", "chat --plain --db new --threads 1 -n 4", "Hello\n", NULL, NULL, NOTHING},
    {"turn", CHAT "-c kept", "The garden gate is green.\n", "The garden gate is green.", NULL,
     NOTHING},
    {"load", CHAT "-c long --budget 48", "/stats\n", NULL, NULL, NOTHING},
    {"back", CHAT "-c kept", "/rewind 1\nThe garden gate is green.\n", "The garden gate is green.",
     NULL, LATER},
    {"edit", CHAT "-c kept", "/answer The gate is blue.\n", "The gate is blue.", NULL, LATER},
    {"message", CHAT "-c kept", "/edit 2\nThe gate is red.\n", "The gate is red.", NULL, LATER},
    {"branch", CHAT "-c kept", "/branch twig\n/rename trunk\n/tag rose\n/rename kept\n", NULL, NULL,
     NOTHING},
    {"recall", CHAT "-c long --budget 48 --recall words", "What is my locker code?\n",
     "What is my locker code?", NULL, NOTHING},
    {"import", "import talk.json imported --db db", NULL, NULL, NULL, NOTHING},
    {"import database", "import other.db second --db db", NULL, NULL, NULL, NOTHING},
    {"export", "export kept --json --db db", NULL, NULL, "out", NOTHING},
    {"export cache", "export kept --with-cache out.db --db db", NULL, NULL, NULL, NOTHING},
    {"compact", "compact --db db", NULL, NULL, NULL, NOTHING},
    {"delete", "delete spare --db db", NULL, NULL, NULL, NOTHING},
    {"restore", "restore gone --db db", NULL, NULL, NULL, NOTHING},
    {"drop", "delete long --cache-only --db db", NULL, NULL, NULL, NOTHING},
    {"rename", "rename spare other --db db", NULL, NULL, NULL, NOTHING},
    {"tag", "tag kept rose --db db", NULL, NULL, NULL, NOTHING},
    {"search", "search locker --db db", NULL, NULL, NULL, NOTHING},
    {"check", "check --db db", NULL, NULL, NULL, NOTHING},
    {"marks", CHAT "-c long --budget 128 --recall words", "/pin 1\n/forget 2\n/unpin 1\n", NULL,
     NULL, NOTHING},
    {"again", CHAT "-c kept --temp 1", "/regenerate\n", NULL, NULL, ANSWER},
    {"archive", CHAT "-c long --budget 48 --archive 8K", "The shed is brown.\n",
     "The shed is brown.", NULL, NOTHING},
    {"quantize", "quantize model.gguf out.gguf --type q8", NULL, NULL, "out.gguf", NOTHING},
    {"train",
     "heads train --data rows --length 128 --hidden 4 --steps 2 --rate .01 --threads 1 "
     "--out out.heads",
     NULL, NULL, "out.heads", NOTHING},
    {"pull", "pull hf:normal/demo:Q8_0", NULL, NULL,
     "DATA/retain/models/normal/demo/tiny-Q8_0.gguf", NOTHING},
};

enum { N_SCENARIOS = sizeof scenarios / sizeof *scenarios };

static const char *folder;
static char program[PATH_MAX], library[512];
static pid_t hub; /* tests/cli/hub.c */
static bool has_curl;
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
    uint64_t all;    /* of names and texts of all conversations, in any order: FNV-1a */
    bool found;
};

/* One line for a message and one for its answer, which is several messages if it was continued. */
static int note(void *ctx, const struct store_message *m)
{
    struct str *text = &((struct seen *)ctx)->text;
    if (text->n && m->role == CHAT_USER) str_puts(text, "\n");
    str_append(text, m->text, m->n_text);
    if (m->role == CHAT_USER) str_puts(text, "\n");
    return 0;
}

#define FNV 14695981039346656037u

static uint64_t hash(const char *bytes, size_t n, uint64_t from)
{
    for (size_t i = 0; i < n; i++) from = (from ^ (unsigned char)bytes[i]) * 1099511628211u;
    return from;
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
    l->seen->all += hash(c->name, strlen(c->name), hash(str_get(&one.text), one.text.n, FNV));
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
    str_clear(&seen->text);
    seen->all = 0;
    int rc = store_open(&l.store, path, NULL, e);
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
    snprintf(path, sizeof path, "%s/err", dir);
    if (file_read(path, FILE_DATA, &text, &err)) return "no standard error";
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
    snprintf(a, sizeof a, "%s/%s", dir, name);
    snprintf(b, sizeof b, "%s/done/%s", folder, name);
    bool same = !file_read(a, FILE_DATA, &x, &err) && !file_read(b, FILE_DATA, &y, &err) &&
                x.n == y.n && !memcmp(str_get(&x), str_get(&y), x.n);
    str_release(&x);
    str_release(&y);
    return same;
}

/* How "files" is before the command, and how "done" is after it. */
static struct seen before, after;

/* What is left to do: the command again, or its answer continues, or nothing. */
static const char *rest_of(const struct scenario *c, const struct seen *now)
{
    if (now->all == after.all) return "/stats\n";
    bool begun = c->said ? now->found : now->all != before.all;
    return begun ? "/continue\n" : c->input;
}

/* The rest leads to the same texts and files as if nothing had happened. An answer that failed is
 * over: continued, it is longer. */
static const char *go_on(const char *dir, const struct scenario *c, struct seen *now)
{
    static struct err e;
    struct failing f;
    struct scenario rest = *c;
    bool answers = c->said || c->removes != NOTHING;
    if (c->input) rest.input = answers ? rest_of(c, now) : "/stats\n";
    int status = run(dir, &rest, FAIL_SYSTEM, 0, &f);
    if (status && c->input) return "it does not resume";
    const char *why = inspect(dir, now, &e);
    if (why) return why;
    if (c->made && !same_file(dir, c->made)) return "another file, later";
    bool same = now->all == after.all || (c->input && !answers);
    if (!same && c->removes == ANSWER)
        same = !strncmp(str_get(&now->text), after.text.data, after.text.n);
    return same ? NULL : "it does not go on as if nothing had happened";
}

static const char *judge(const char *dir, const struct scenario *c, enum action action, int status)
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
    const char *why = inspect(dir, &seen, &e), *old = before.text.data;
    size_t n =
        c->removes == LATER ? (size_t)(strchr(strchr(old, '\n') + 1, '\n') - old) : before.text.n;
    bool lost = !why && strncmp(str_get(&seen.text), old, n);
    if (lost && c->removes != ANSWER) why = "a saved message is lost";
    if (!why && !status && c->said && !seen.found) why = "an acknowledged text is lost";
    if (!why && !status && c->made && !same_file(dir, c->made)) why = "another file";
    if (!why && (killed || lost)) why = go_on(dir, c, &seen);
    str_release(&seen.text);
    return why;
}

/* ---- the numbers ----------------------------------------------------------------------------- */

static void try(const char *dir, const struct scenario *c, enum action action, long at)
{
    struct failing f;
    shell("rm -rf %s; cp -r %s/files %s", dir, folder, dir);
    int status = run(dir, c, action, at, &f);
    const char *why = judge(dir, c, action, status);
    __atomic_add_fetch(&tally->n_tried, 1, __ATOMIC_RELAXED);
    if (status) __atomic_add_fetch(&tally->n_refused, 1, __ATOMIC_RELAXED);
    if (!why) return;
    __atomic_add_fetch(&tally->n_failed, 1, __ATOMIC_RELAXED);
    printf("%s, %s %ld (%s): status %x: %s\n", c->name, action_names[action], at, f.name, status,
           why);
    fflush(stdout);
}

static long n_wanted(enum action action, long n_calls)
{
    const char *kills = getenv("KILLS"), *calls = kills ? kills : getenv("CALLS");
    if (kills && action != KILL) return 0;
    long n = calls ? atol(calls) : 1;
    if (n == 0) n = action == FAIL_MEMORY ? ALLOCATIONS_MAX : n_calls;
    return n < n_calls ? n : n_calls;
}

static void try_all(const struct scenario *c, enum action action, long n_calls)
{
    const char *jobs = getenv("JOBS");
    long n_tried = n_wanted(action, n_calls), n_jobs = jobs ? atol(jobs) : 1;
    pid_t pids[JOBS_MAX];
    if (n_jobs > JOBS_MAX) n_jobs = JOBS_MAX;
    for (long j = 0; j < n_jobs; j++) {
        if ((pids[j] = fork()) != 0) continue;
        char dir[96];
        snprintf(dir, sizeof dir, "%s/try%ld", folder, j);
        for (long i = j; i < n_tried; i += n_jobs)
            try(dir, c, action, 1 + (2 * i + 1) * n_calls / (2 * n_tried));
        _exit(0);
    }
    for (long j = 0; j < n_jobs; j++) waitpid(pids[j], NULL, 0);
}

/* Runs the command without failures; returns the number of its calls. */
static long count(const struct scenario *c, enum action action)
{
    char done[96];
    struct failing f;
    snprintf(done, sizeof done, "%s/done", folder);
    shell("rm -rf %s; cp -r %s/files %s", done, folder, done);
    int status = run(done, c, action, 0, &f);
    if (status) fail_msg("%s: status %x: %s", c->name, status, bad_line(done));
    const char *why = inspect(done, &after, &err);
    if (why) fail_msg("%s: %s", c->name, why);
    return f.n_calls;
}

/* The number of calls after which something did not hold. */
static int run_scenario(const struct scenario *c)
{
    int n_wrong = 0;
    long n_calls = 0;
    for (enum action action = 0; action < ACTIONS; action++) {
        *tally = (struct tally){0};
        if (action != KILL) n_calls = count(c, action); /* a kill is at a system call */
        try_all(c, action, n_calls);
        print_message("%s: %d of %ld %s: %d commands failed, %d in a wrong way\n", c->name,
                      tally->n_tried, n_calls, action_names[action], tally->n_refused,
                      tally->n_failed);
        n_wrong += tally->n_failed;
    }
    return n_wrong;
}

TEST(every_call)
{
    const char *only = getenv("SCENARIO");
    int n_wrong = 0;
    char files[96];
    snprintf(files, sizeof files, "%s/files", folder);
    const char *why = inspect(files, &before, &err);
    if (why) fail_msg("%s", why);
    for (int i = 0; i < N_SCENARIOS; i++) {
        bool pulls = !strncmp(scenarios[i].args, "pull", 4);
        if (pulls && !has_curl) print_message("skip: libcurl is missing\n");
        if (pulls && !has_curl) continue;
        if (!only || !strcmp(only, scenarios[i].name)) n_wrong += run_scenario(&scenarios[i]);
    }
    str_release(&before.text);
    str_release(&after.text);
    assert_int_equal(n_wrong, 0);
}

/* ---- the files ------------------------------------------------------------------------------- */

/* Serves the folder "hub" to retain pull. */
static void start_hub(const char *here)
{
    char path[PATH_MAX + 1200], dir[96], log[96], said[64] = "";
    int out[2];
    snprintf(path, sizeof path, "%s/../hub", here);
    snprintf(dir, sizeof dir, "%s/hub", folder);
    snprintf(log, sizeof log, "%s/log", folder);
    if (pipe(out) || (hub = fork()) < 0) abort();
    if (hub == 0) {
        dup2(out[1], 1);
        execl(path, path, dir, log, NULL);
        _exit(98);
    }
    close(out[1]);
    if (read(out[0], said, sizeof said - 1) <= 0) abort();
    close(out[0]);
    snprintf(path, sizeof path, "http://127.0.0.1:%d/", atoi(said));
    setenv("HF_ENDPOINT", path, 1);
    snprintf(path, sizeof path,
             "XDG_DATA_HOME=%s/here %s pull hf:normal/demo 2>&1 | grep -q libcurl", folder,
             program);
    has_curl = system(path) != 0;
}

static int setup(void **state)
{
    char *here = realpath("/proc/self/exe", NULL), *slash = here ? strrchr(here, '/') : NULL;
    const char *retain = getenv("RETAIN");
    if (!slash || !retain || !realpath(retain, program)) return -1;
    snprintf(library, sizeof library, "%.*s/failing.so", (int)(slash - here), here);
    tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    folder = folder_new();
    if (tally == MAP_FAILED) return -1;
    shell("mkdir %s/files %s/hub; for f in files/model hub/tiny-Q8_0; do "
          "cp build/golden/families/llama3.gguf %s/$f.gguf; done",
          folder, folder, folder);
    *slash = 0;
    start_hub(here);
    free(here);
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
    kill(hub, SIGTERM);
    return 0;
}

AROUND_TESTS(setup, teardown)
