/* While a model is loaded, its file's pages and the weights made of them are never both in memory:
 * a board with little more memory than the file has bytes can load it. */
#include "tests/test.h"

#include <sys/stat.h>

#include "cli/options/options.h"
#include "runtime/forward/engine.h"

#define MODEL "quant/demo/retain-demo.gguf"

/* KiB of a mapped file that are in this process's memory. */
static long resident(const char *file)
{
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[4096];
    long sum = 0, kib;
    bool inside = false;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (strchr(line, '-') && strchr(line, ':') > strchr(line, '-'))
            inside = strstr(line, file) != NULL;
        if (inside && sscanf(line, "Rss: %ld kB", &kib) == 1) sum += kib;
    }
    fclose(f);
    return sum;
}

static int on_progress(void *ctx, int64_t done, int64_t total)
{
    long *most = ctx, now = resident(MODEL);
    if (total && done && now > *most) *most = now;
    return 0;
}

TEST(test_the_file_leaves_memory_as_it_is_packed)
{
    struct options o;
    struct engine *g;
    struct stat file;
    long most = 0;
    assert_int_equal(stat(MODEL, &file), 0);
    options_init(&o);
    o.engine.model = MODEL;
    o.engine.device.kind = ENGINE_DEVICE_CPU;
    ok(engine_open(&g, &o.engine, &o.session.plan, 1, on_progress, &most, &err));
    engine_close(g);
    assert_true(most > 0); /* it was seen */
    assert_true(most * 1024 < file.st_size / 3);
}
