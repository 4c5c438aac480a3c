/* logits MODEL DEVICE UNITS CHUNK N CONTEXT: reads N token ids, 32 bits each, and writes their
 * logits, with weights as floats; for quant/eval/families.py. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/options/options.h"
#include "runtime/forward/context.h"
#include "runtime/forward/engine.h"

static struct err err;

static void ok(int rc)
{
    if (!rc) return;
    fprintf(stderr, "%s\n", err.text);
    exit(1);
}

int main(int argc, char **argv)
{
    static int32_t ids[1024];
    struct options o;
    struct engine *g;
    struct context x;
    if (argc != 7) return 2;
    const int chunk = atoi(argv[4]), n_ids = (int)fread(ids, sizeof *ids, 1024, stdin);
    const int n = atoi(argv[5]) < n_ids ? atoi(argv[5]) : n_ids;
    options_init(&o);
    ok(options_set(&o, OPTIONS_MODEL, "device", argv[2], &err));
    o.engine.model = argv[1];
    o.engine.threads = 1;
    o.engine.weights = ENGINE_WEIGHTS_F32;
    o.session.plan.policy = policy_choice("full");
    o.session.plan.policy.context = atoi(argv[6]);
    o.session.plan.chunk = chunk;
    plan_kv_named(argv[3], &o.session.plan.kv);
    ok(engine_open(&g, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
    ok(context_open(&x, g, &o.session.plan, 1, chunk, &err));
    for (int at = 0; at < n; at += chunk) {
        const int rows = n - at < chunk ? n - at : chunk;
        float *logits;
        ok(context_run(&x, ids + at, rows, rows, &err));
        ok(context_logits(&x, &logits, &err));
        fwrite(logits, sizeof *logits, (size_t)rows * (size_t)g->model->n_vocab, stdout);
    }
    context_release(&x);
    engine_close(g);
    return 0;
}
