/* The cost of the store and the saved cache: lists and searches over 10,000 conversations, a save
 * per turn by the size of the cache, loading compared with reading the same bytes from a file. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system.h"
#include "runtime/save/save.h"
#include "store/store.h"
#include "tests/unit/cache_kit.h"

static struct err err;
static char folder[64] = "/tmp/retain_bench_XXXXXX", path[128];

static void ok(int rc)
{
    if (rc >= 0) return;
    fprintf(stderr, "bench_store: %s\n", err.text);
    exit(1);
}

static double now_ms(void)
{
    return (double)system_clock_ns() / 1e6;
}

/* The best of several runs: other programs use this machine too. */
static double best_of(int n, void (*run)(void *ctx), void *ctx)
{
    double best = 1e30;
    for (int i = 0; i < n; i++) {
        double t = now_ms();
        run(ctx);
        t = now_ms() - t;
        if (t < best) best = t;
    }
    return best;
}

static void remove_files(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'/*", folder);
    if (system(command)) exit(1);
}

/* ---- 10,000 conversations -------------------------------------------------------------------- */

static const char *const words[] = {"garden", "engine", "letter", "winter", "coffee", "planet",
                                    "silver", "travel", "bridge", "number", "forest", "recipe",
                                    "market", "window", "doctor", "music"};

static struct store *filled(const struct store_key *key)
{
    struct store *s;
    struct store_conversation c;
    ok(store_open(&s, path, key, &err));
    ok(store_begin(s, &err));
    for (unsigned i = 0; i < 10000; i++) {
        char text[600];
        snprintf(text, sizeof text, "talk %u", i);
        ok(store_conversation_create(s, text, &c, &err));
        for (unsigned j = 0; j < 10; j++) {
            int n = snprintf(text, sizeof text, "%s", j % 2 ? "Well, " : "Tell me ");
            for (unsigned k = 0; k < 40; k++)
                n += snprintf(text + n, sizeof text - (size_t)n, "%s ",
                              words[((i * 2654435761u >> (k % 13)) + (j * k)) & 15]);
            if (i % 1000 == 17 && j == 4) n += snprintf(text + n, 20, "hippopotamus");
            struct store_message m = {
                .role = j % 2 ? CHAT_ASSISTANT : CHAT_USER, .text = text, .n_text = (size_t)n};
            ok(store_message_add(s, c.id, &m, &err));
        }
    }
    ok(store_commit(s, &err));
    return s;
}

static int count_conversation(void *ctx, const struct store_conversation *c)
{
    *(int64_t *)ctx += c->id > 0;
    return 0;
}

static void list(void *ctx)
{
    int64_t n = 0;
    ok(store_conversation_list(ctx, count_conversation, &n, &err));
    if (n != 10000) exit(1);
}

struct search {
    struct store *s;
    const char *text;
    int n, limit;
};

static int count_hit(void *ctx, const struct store_hit *h)
{
    struct search *q = ctx;
    return ++q->n == q->limit || !h->snippet;
}

static void search(void *ctx)
{
    struct search *q = ctx;
    q->n = 0;
    ok(store_search(q->s, q->text, count_hit, q, &err));
}

static void bench_search(struct store *s, const char *what, const char *text, int limit)
{
    struct search q = {s, text, 0, limit};
    double ms = best_of(5, search, &q);
    printf("  %-44s %8.1f ms, %d found\n", what, ms, q.n);
}

static int passphrase(void *ctx, bool fresh, char *out, struct err *e)
{
    strcpy(out, "bench");
    return 0;
}

static void bench_many(const char *title, const struct store_key *key)
{
    struct store *s = filled(key);
    printf("%s\n", title);
    printf("  %-44s %8.1f ms\n", "list", best_of(5, list, s));
    bench_search(s, "search: a word in 10 messages", "hippopotamus", 0);
    bench_search(s, "search: a word in most messages, first 50", "garden", 50);
    bench_search(s, "search: three words, first 50", "silver forest mus", 50);
    bench_search(s, "search: a part of a word, read through", "ippopot+", 0);
    store_close(s);
    remove_files();
}

/* ---- a save per turn, and loading ------------------------------------------------------------ */

/* A model of the 1B shape: 16 layers, 8 KV heads of 64, 4 bits. */
static struct cache_shape shape_1b = {
    .n_layer = 16, .n_head = 8, .head_dim = 64, .k_type = KN_KV_Q4, .v_type = KN_KV_Q4};

static int64_t file_bytes(const char *suffix)
{
    char name[160];
    struct stat st;
    snprintf(name, sizeof name, "%s%s", path, suffix);
    return stat(name, &st) ? 0 : (int64_t)st.st_size;
}

static int64_t cache_bytes(struct store *s)
{
    struct store_conversation c;
    ok(store_conversation_latest(s, &c, &err));
    return c.cache_bytes;
}

struct turn {
    struct units *b;
    int budget;
    double evict_ms; /* not part of the save */
};

static void evict_turn(void *ctx)
{
    struct turn *t = ctx;
    struct evict_rule rule = {.budget = t->budget, .stabilizers = t->budget / 10};
    double begin = now_ms();
    units_cut(t->b, &rule);
    t->evict_ms += now_ms() - begin;
}

static double read_file(void)
{
    static char buffer[1 << 20];
    double t = now_ms();
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (read(fd, buffer, sizeof buffer) > 0) continue;
    close(fd);
    return now_ms() - t;
}

static void bench_load(struct store *s, int64_t id, struct units *b, const struct save_state *state)
{
    double best = 1e30, plain = 1e30;
    int64_t units = cache_units(&b->c);
    for (int i = 0; i < 3; i++) {
        struct save *save;
        struct save_loaded loaded;
        ok(save_open(&save, s, id, 64 << 20, &err));
        double t = now_ms();
        int rc = save_load(save, &b->c, state, &loaded, &err);
        t = now_ms() - t;
        ok(rc);
        if (!loaded.usable || cache_units(&b->c) != units) {
            fprintf(stderr, "bench_store: not loaded: %s\n", str_get(&loaded.why));
            exit(1);
        }
        if (t < best) best = t;
        t = read_file();
        if (t < plain) plain = t;
        save_close(save);
        str_release(&loaded.why);
    }
    double mb = (double)file_bytes("") / 1e6;
    printf("  load %.0f MB of file: %.0f ms (%.0f MB/s); reading the file: %.0f ms (%.0f MB/s)\n",
           mb, best, mb / best * 1e3, plain, mb / plain * 1e3);
}

static void bench_save(int n_units)
{
    enum { CHUNK = 512, TURN = 256, TURNS = 20 };
    struct units b;
    struct store *s;
    struct store_conversation c;
    struct save *save;
    struct save_state state = {.model = "m", .kv = "q4", .policy = "random"};
    static char text[] = "answer";
    shape_1b.capacity = n_units + CHUNK;
    units_open(&b, &shape_1b);
    ok(store_open(&s, path, NULL, &err));
    ok(store_conversation_create(s, "bench", &c, &err));
    ok(save_open(&save, s, c.id, 64 << 20, &err));
    double fill = now_ms();
    while (b.c.n_pos < n_units) {
        cache_kit_append(&b.c, CHUNK);
        state.n_run = b.c.n_pos;
        ok(save_units(save, &b.c, &state, NULL, &err));
    }
    fill = now_ms() - fill;
    struct turn turn = {&b, n_units, 0};
    double ms = 0, worst = 0, compact = 0;
    int64_t before = cache_bytes(s);
    for (int i = 0; i < TURNS; i++) {
        cache_kit_append(&b.c, TURN);
        state.n_run = b.c.n_pos;
        turn.evict_ms = 0;
        double t = now_ms();
        const struct store_message m = {.role = CHAT_ASSISTANT, .text = text, .n_text = 6};
        ok(save_answer(save, &b.c, &state, &m, evict_turn, &turn, &err));
        t = now_ms() - t - turn.evict_ms;
        ms += t;
        if (t > worst) worst = t;
        t = now_ms();
        save_compact(save, &b.c);
        compact += now_ms() - t;
    }
    printf("%d units per head (%.0f MB of cache)\n", n_units,
           (double)cache_units(&b.c) * (double)(b.c.k_bytes + b.c.v_bytes + 8) / 1e6);
    printf("  chunk of %d tokens: %.1f ms; turn of %d tokens with eviction: %.1f ms (worst %.1f), "
           "%.2f MB; compaction: %.1f ms per turn\n",
           CHUNK, fill / (n_units / CHUNK), TURN, ms / TURNS, worst,
           (double)(cache_bytes(s) - before) / 1e6 / TURNS, compact / TURNS);
    save_close(save);
    store_close(s); /* copies the log into the file */
    ok(store_open(&s, path, NULL, &err));
    bench_load(s, c.id, &b, &state);
    store_close(s);
    units_release(&b);
    remove_files();
}

int main(int argc, char **argv)
{
    struct store_key key = {passphrase, NULL, true};
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s/retain.db", folder);
    bench_many("10,000 conversations of 10 messages", NULL);
    bench_many("the same, encrypted", &key);
    ok(pool_open(&pool, 0, &err));
    bench_save(2048);
    bench_save(8192);
    bench_save(32768);
    if (argc > 1 && !strcmp(argv[1], "--long")) bench_save(131072);
    pool_close(pool);
    rmdir(folder);
    return 0;
}
