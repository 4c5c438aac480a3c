/* The MTP layer on the emulated GPU: its logits next to the CPU's, which test_mtp of tests/unit
 * compares with an independent implementation. Weights are expanded to floats, and units are halves
 * as in test_layers. */
#include "tests/emu/side.h"
#include "tests/unit/session_kit.h"

enum { TOKENS_MAX = 600, TOKENS_FEW = 69 };

static void side_open(struct side *s, const char *model, const char *device, int n_layers,
                      const char *units)
{
    struct options o = options_of("full:context=640", units, 0);
    ok(options_set(&o, OPTIONS_MODEL, "device", device, &err));
    o.engine.model = model;
    o.engine.gpu_layers = n_layers;
    o.engine.threads = 1;
    o.engine.weights = ENGINE_WEIGHTS_F32;
    o.session.plan.chunk = 64;
    ok(side_open_with(s, &o, 2, &err));
    assert_true(mtp_is_open(&s->x.mtp));
    assert_int_equal(s->x.mtp.gpu != NULL, !strcmp(device, "cuda") && n_layers == 0);
}

/* The logits of the last guess; its token is that of the largest. */
static const float *logits_of(struct side *s, const struct mtp_guess *guess)
{
    static float out[1024];
    struct mtp *p = &s->x.mtp;
    double probability;
    const float *logits = p->gpu ? out : p->forward.logits;
    if (p->gpu) ok(cuda_logits(p->gpu, 0, out, &err));
    assert_int_equal(guess->id, sampler_likeliest(logits, p->model.n_vocab, &probability));
    assert_true(guess->p >= probability * 0.999 && guess->p < probability + 0.1);
    return logits;
}

static const float *read_next(struct side *s, int32_t id)
{
    struct mtp_guess out;
    ok(mtp_read(&s->x.mtp, &s->x.cache, id, &out, &err));
    return logits_of(s, &out);
}

static const float *read_proposal(struct side *s, int32_t id)
{
    struct mtp_guess out;
    ok(mtp_read_proposal(&s->x.mtp, id, &out, &err));
    return logits_of(s, &out);
}

/* Runs n tokens, two of them as a token and an accepted proposal. */
static void run(struct side *s, const int32_t *ids, int n)
{
    if (n == 2) {
        ok(context_try(&s->x, ids, 2, &err));
        context_accept(&s->x);
    } else {
        ok(context_run(&s->x, ids, n, 1, &err));
    }
}

/* The largest distances of the GPU's logits from the CPU's with units of halves, and of these from
 * the CPU's with units of floats. */
static void compare_next(struct side s[3], const int32_t *ids, int n, double worst[2])
{
    const int n_vocab = s->engine->model->n_vocab;
    for (int k = 0; k < n; k++) {
        const float *row[3];
        for (int i = 0; i < 3; i++)
            row[i] = k ? read_proposal(&s[i], ids[k]) : read_next(&s[i], ids[k]);
        for (int i = 0; i < 2; i++)
            worst[i] = fmax(worst[i], relative(row[i], row[i + 1], (size_t)n_vocab));
    }
}

/* Chunks, single tokens and tries, with proposals after them. Of 600 tokens, which are more than
 * its cache holds, 200 are once unread. The layer's own units are halves on the GPU only. */
static void compare(const char *name, int n_layers, int n_tokens)
{
    struct side s[3];
    double worst[2] = {0};
    int32_t ids[TOKENS_MAX + 8];
    char path[96];
    snprintf(path, sizeof path, "build/golden/families/%s.gguf", name);
    side_open(&s[0], path, "cuda", n_layers, "f16");
    side_open(&s[1], path, "cpu", 0, "f16");
    side_open(&s[2], path, "cpu", 0, "f32");
    for (int i = 0; i < n_tokens + 8; i++)
        ids[i] = (i * 37 + i / 7 * 11 + 5) % s->engine->model->n_vocab;
    for (int at = 0, n, round = 0; at < n_tokens; at += n, round++) {
        n = round % 5 == 0 && n_tokens - at >= 64 ? 64 : 1 + round % 2;
        for (int i = 0; i < 3; i++) run(&s[i], ids + at, n);
        if (round < 4 || round > 16) compare_next(s, ids + at + n, 1 + round % 3, worst);
    }
    printf("%s: logits differ by %.1e of their size, halves make %.1e\n", name, worst[0], worst[1]);
    assert_true(worst[0] < 1e-3 + 4 * worst[1] && worst[1] < 0.01);
    for (int i = 0; i < 3; i++) side_close(&s[i]);
}

/* With an embedding, an output and a norm of its own, and experts; gated attention after recurrent
 * layers; nothing of its own; latent attention. */
TEST(logits)
{
    compare("glm4moe", 0, TOKENS_MAX);
    compare("qwen35", 0, TOKENS_FEW);
    compare("qwen35moe", 0, TOKENS_FEW);
    compare("deepseek3", 0, TOKENS_FEW);
}

/* The last layers and the MTP layer on the CPU. */
TEST(split)
{
    compare("glm4moe", 1, TOKENS_FEW);
    compare("qwen35", 2, TOKENS_FEW);
    compare("deepseek3", 2, TOKENS_FEW);
}
