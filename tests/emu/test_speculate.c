/* Speculation on the emulated GPU, and on one that has only some layers: no bit changes
 * (try_kit.h). */

#include "tests/unit/try_kit.h"

enum { BEGIN = 60, END = 68 }; /* over a page of 64 */

static struct engine *open_gpu(const char *model, int n_layers)
{
    struct options o = options_of("sink", "f16", 0);
    struct engine *g;
    ok(options_set(&o, OPTIONS_MODEL, "device", "cuda", &err));
    o.engine.model = model;
    o.engine.threads = 1;
    o.engine.gpu_layers = n_layers;
    ok(engine_open(&g, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
    return g;
}

TEST(demo)
{
    AUTO_ENGINE *g = open_gpu(NULL, 0);
    compare_tries(g, "keeper", "q4", BEGIN, END);
    compare_tries(g, "random:stabilizers=0", "q8:q4", BEGIN, END);
}

TEST(split)
{
    AUTO_ENGINE *g = open_gpu(NULL, 2);
    compare_tries(g, "keeper", "q4", BEGIN, END);
}

static void family(const char *path, int n_layers)
{
    AUTO_ENGINE *g = open_gpu(path, n_layers);
    compare_tries(g, "sink", "f16", BEGIN, END);
}

/* Windows and capped logits; experts; recurrent layers; latent rows. */
TEST(families)
{
    family("build/golden/families/gemma2.gguf", 0);
    family("build/golden/families/qwen3moe.gguf", 0);
    family("build/golden/families/qwen35.gguf", 0);
    family("build/golden/families/qwen35.gguf", 2);
    family("build/golden/families/falcon-h1.gguf", 0);
    family("build/golden/families/deepseek2-joined.gguf", 0);
}
