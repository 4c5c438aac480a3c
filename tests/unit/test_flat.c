/* Flat: a conversation far beyond the budget takes no more memory than one that just filled it, not
 * even for a list of its messages, and a fact told at its start is still known. On the demo model,
 * with the text of `eval recall`. */
#include "tests/test.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "base/str.h"
#include "cli/options/options.h"
#include "quant/eval/task_words.h"
#include "runtime/session/session.h"

static void feed(struct session *s, const struct words_turn *t)
{
    const struct chat_message m[] = {{CHAT_USER, t->user}, {CHAT_ASSISTANT, t->assistant}};
    const struct session_sink silent = {0};
    ok(session_feed(s, m, 2, &silent, &err));
}

static struct session_stats grow_to(struct session *s, struct recall *r, int64_t n_tokens)
{
    struct session_stats st;
    for (session_stats(s, &st); st.n_tokens < n_tokens; session_stats(s, &st))
        feed(s, words_filler(r));
    return st;
}

static void take_text(void *ctx, const char *utf8, size_t n)
{
    str_append(ctx, utf8, n);
}

TEST(test_memory_is_flat_and_the_fact_is_known)
{
    struct options o;
    AUTO_ENGINE *g;
    AUTO_SESSION *s;
    struct recall *r = words_open(1, 1);
    options_init(&o);
    o.session.plan.policy = policy_choice("locret");
    o.session.plan.budget = 256;
    o.session.private_mode = true;
    o.session.recall.archive_bytes = 1 << 20; /* full long before the first measurement */
    o.session.sampling.temperature = 0;
    ok(engine_open(&g, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
    ok(session_open(&s, g, NULL, &o.session, NULL, &err));
    feed(s, words_fact(r, 0));

    struct session_stats early = grow_to(s, r, 4000);
    size_t heap = mallinfo2().uordblks;
    struct session_stats late = grow_to(s, r, 16000);
    /* A list of 16 bytes per message would take 24 KiB. */
    assert_true(mallinfo2().uordblks < heap + (8 << 10));
    assert_int_equal(early.cache_bytes, late.cache_bytes);
    assert_int_equal(early.units_kept, late.units_kept);
    assert_int_equal(early.units_kept, 256 * early.n_layer * early.n_kv_head);
    assert_true(late.process_peak_bytes > 0);
#ifndef __SANITIZE_ADDRESS__ /* the sanitizer delays freeing memory */
    /* Units that were not evicted would take 8 MiB. The kernel counts pages per core and sums them
     * late. */
    assert_true(late.process_peak_bytes - early.process_peak_bytes < 2 << 20);
#endif

    const char *question, *answer, *value;
    AUTO_STR text = {0};
    struct session_sink k = {.ctx = &text, .text = take_text};
    enum session_end end;
    words_question(r, 0, &question, &answer, &value);
    ok(session_say(s, question, strlen(question), &k, &end, &err));
    printf("%s -> %s (%s)\n", question, str_get(&text), value);
    assert_non_null(strstr(str_get(&text), value));
    words_close(r);
}

/* Whether the 8 whole pages from the one after p on are resident. */
static bool are_resident(const void *p)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    unsigned char in[8] = {0};
    size_t n = 0;
    if (mincore((void *)(((uintptr_t)p / page + 1) * page), sizeof in * page, in)) return false;
    for (size_t i = 0; i < sizeof in; i++) n += in[i] & 1;
    return n == sizeof in;
}

struct residence {
    bool stack_before, stack, heap;
};

/* A thread's stack and heap are new. */
static void *look(void *ctx)
{
    struct residence *r = ctx;
    const long ahead = 10 * sysconf(_SC_PAGESIZE);
    char mark, *here = &mark - ahead;
    r->stack_before = are_resident(here);
    memory_use_free();
    r->stack = are_resident(here);
    void *longer = malloc((size_t)ahead);
    r->heap = are_resident(longer);
    free(longer);
    return NULL;
}

TEST(test_a_longer_string_and_a_deeper_call_find_resident_pages)
{
    struct residence r = {0};
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, look, &r), 0);
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_false(r.stack_before);
    assert_true(r.stack);
#ifndef __SANITIZE_ADDRESS__ /* its malloc takes other pages */
    assert_true(r.heap);
#endif
}

/* Without malloc's caches per thread, which count freed blocks of each size as used. */
static int run_uncached(void **state)
{
    if (getenv("GLIBC_TUNABLES")) return 0;
    setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
    return execv("/proc/self/exe", test_argv);
}

AROUND_TESTS(run_uncached, NULL)
