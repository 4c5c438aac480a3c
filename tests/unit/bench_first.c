/* The steps from the start of a program to the first token of its answer: of a new conversation and
 * of a saved one, at the first start with a model, which packs the weights, and at a later one,
 * which maps the packed copy. Medians in milliseconds.
 *
 *   bench_first MODEL.gguf [TOKENS [BUDGET]]
 *
 * TOKENS (4,096): how long the saved conversation is. BUDGET (1,024): units per head, policy sink.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "base/system.h"
#include "runtime/cache/policy.h"
#include "runtime/forward/engine.h"
#include "runtime/session/session.h"

enum { N_STEPS = 4, RUNS = 7 };
static const char *const steps[N_STEPS] = {
    "open the database", "open the model: file, vocabulary, weights",
    "allocate the cache, load the conversation", "read the message, draw a token"};

static struct err err;
static char folder[64] = "/tmp/retain_bench_XXXXXX", database[96];

static void ok(int rc)
{
    if (!rc) return;
    fprintf(stderr, "bench_first: %s\n", err.text);
    exit(1);
}

static double now_ms(void)
{
    return (double)system_clock_ns() / 1e6;
}

/* *ctx: when the first piece of the answer came; 0 = not yet */
static void on_text(void *ctx, const char *utf8, size_t n)
{
    double *first = ctx;
    if (*first == 0) *first = now_ms();
}

static bool on_stop(void *ctx)
{
    return *(double *)ctx > 0;
}

static const char message[] = "The quick brown fox jumps over the lazy dog near the old river "
                              "bank. What does it see there?";

static int found(void *ctx, const struct weight_cache *copy)
{
    return 1;
}

/* Another thread writes the packed copy; closing the engine would abandon it. */
static void wait_for_copy(const struct engine *g)
{
    for (int i = 0; g->writer && i < 6000 && !weight_cache_list(folder, found, NULL); i++)
        usleep(10000);
}

/* The life of one program. feed > 0: it saves a text of about that many tokens instead of a
 * message. */
static void run(const char *file, int budget, bool resume, int64_t feed, double ms[N_STEPS])
{
    struct session_opts o = session_opts_default();
    o.plan.policy = policy_choice("sink");
    o.plan.budget = budget;
    o.sampling = (struct sampling){.seed = 1};
    o.ignore_end = true;
    o.conversation = "talk";
    o.private_mode = !resume && !feed;
    struct engine *g;
    struct conversations *l;
    struct session *s;
    enum session_end end;
    double times[N_STEPS + 1] = {now_ms()}, first = 0;
    struct session_sink sink = {.ctx = &first, .text = on_text, .stop = on_stop};
    ok(conversations_open(&l, database, NULL, &err));
    times[1] = now_ms();
    struct engine_opts eo = {.model = file,
                             .heads.none = true,
                             .registry = conversations_registry(l),
                             .weight_cache_dir = folder};
    ok(engine_open(&g, &eo, &o.plan, 1, NULL, NULL, &err));
    times[2] = now_ms();
    ok(session_open(&s, g, l, &o, NULL, &err));
    times[3] = now_ms();
    if (feed) {
        struct str text = {0};
        for (int64_t i = 0; i < feed / 2; i++) str_printf(&text, " %d", (int)(i % 10));
        struct chat_message m = {.role = CHAT_USER, .text = str_get(&text)};
        ok(session_feed(s, &m, 1, &(struct session_sink){0}, &err));
        str_release(&text);
    } else {
        ok(session_say(s, message, strlen(message), &sink, &end, &err));
    }
    times[4] = first;
    for (int i = 0; i < N_STEPS; i++) ms[i] = times[i + 1] - times[i];
    wait_for_copy(g);
    session_close(s);
    engine_close(g);
    conversations_close(l);
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *x)
{
    qsort(x, RUNS, sizeof *x, by_value);
    return x[RUNS / 2];
}

static void remove_files(const char *which)
{
    char command[128];
    snprintf(command, sizeof command, "find '%s' %s -delete", folder, which);
    if (system(command)) exit(1);
}

int main(int argc, char **argv)
{
    enum { FIRST, LATER, RESUMED, N_STARTS };
    static const char *const starts[N_STARTS] = {"first start", "later start", "saved talk"};
    double ms[N_STARTS][N_STEPS][RUNS], one[N_STEPS];
    if (argc < 2) return fprintf(stderr, "usage: bench_first MODEL.gguf [TOKENS [BUDGET]]\n"), 2;
    int64_t tokens = argc > 2 ? atoll(argv[2]) : 4096;
    int budget = argc > 3 ? atoi(argv[3]) : 1024;
    if (!mkdtemp(folder)) return perror(folder), 1;
    snprintf(database, sizeof database, "%s/talk.db", folder);
    run(argv[1], budget, false, tokens, one);
    for (int r = 0; r < RUNS; r++)
        for (int k = 0; k < N_STARTS; k++) {
            if (k == FIRST) remove_files("-type f ! -name 'talk.db*'");
            run(argv[1], budget, k == RESUMED, 0, one);
            for (int i = 0; i < N_STEPS; i++) ms[k][i][r] = one[i];
        }
    printf("%-44s", "ms, median of 7");
    for (int k = 0; k < N_STARTS; k++) printf("%14s", starts[k]);
    for (int i = 0; i < N_STEPS; i++) {
        printf("\n%-44s", steps[i]);
        for (int k = 0; k < N_STARTS; k++) printf("%14.1f", median(ms[k][i]));
    }
    printf("\n");
    remove_files("");
    return 0;
}
