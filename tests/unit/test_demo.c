/* The shipped model against its PyTorch reference in float32 (quant/demo/golden.json): the ids of a
 * rendered conversation, the five largest logits and 32 greedy ids. */
#include "tests/test.h"

#include <math.h>

#include "cli/options/options.h"
#include "runtime/forward/context.h"
#include "runtime/forward/engine.h"
#include "tests/unit/json_kit.h"

#define GOLDEN "quant/demo/golden.json"

static enum chat_role role_of(const char *name)
{
    return !strcmp(name, "user") ? CHAT_USER : CHAT_ASSISTANT;
}

/* Renders and encodes message by message, as a session does. */
static void encode(const struct engine *g, const cJSON *messages, struct tokens *ids)
{
    const cJSON *m;
    bool first = true;
    cJSON_ArrayForEach(m, messages)
    {
        enum chat_role role = role_of(cJSON_GetStringValue(cJSON_GetArrayItem(m, 0)));
        const char *text = cJSON_GetStringValue(cJSON_GetArrayItem(m, 1));
        struct chat_turn turn = {.role = role,
                                 .text = text,
                                 .n = strlen(text),
                                 .first = first,
                                 .last = ids->n ? ids->ids[ids->n - 1] : -1};
        ok(chat_encode(g->template, g->tokenizer, &turn, ids, &err));
        first = false;
    }
}

static void check(struct engine *g, const struct options *o, const cJSON *golden)
{
    AUTO_TOKENS ids = {0};
    AUTO_CONTEXT x;
    const cJSON *expected;
    encode(g, json_at(golden, "messages"), &ids);
    assert_int_equal(ids.n, cJSON_GetArraySize(json_at(golden, "ids")));
    for (size_t i = 0; i < ids.n; i++)
        assert_int_equal(ids.ids[i], cJSON_GetArrayItem(json_at(golden, "ids"), (int)i)->valueint);

    ok(context_open(&x, g, &o->session.plan, o->session.sampling.seed, 1, &err));
    forward_run(&x.forward, &x.cache, ids.ids, (int)ids.n, 1);
    cJSON_ArrayForEach(expected, json_at(golden, "top5"))
    {
        int id = cJSON_GetArrayItem(expected, 0)->valueint;
        double logit = cJSON_GetArrayItem(expected, 1)->valuedouble;
        assert_true(fabs((double)x.forward.logits[id] - logit) < 2e-3);
    }
    cJSON_ArrayForEach(expected, json_at(golden, "greedy"))
    {
        int32_t id = likeliest(x.forward.logits, g->model->n_vocab);
        assert_int_equal(id, expected->valueint);
        forward_run(&x.forward, &x.cache, &id, 1, 1);
    }
}

TEST(test_golden)
{
    struct options o;
    AUTO_ENGINE *g;
    const cJSON *golden;
    options_init(&o);
    o.engine.weights = ENGINE_WEIGHTS_F32;
    plan_kv_named("f32", &o.session.plan.kv);
    o.session.plan.policy = policy_choice("full");
    ok(engine_open(&g, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
    AUTO_JSON *all = read_json(GOLDEN);
    cJSON_ArrayForEach(golden, all) check(g, &o, golden);
}

/* The greedy answer to a conversation, up to its end token, in the shipped configuration: int4
 * weights and a 4-bit cache. */
static void answer(struct tokens *out, const char *isa, const cJSON *golden)
{
    AUTO_TOKENS ids = {0};
    struct options o;
    AUTO_ENGINE *g;
    AUTO_CONTEXT x;
    options_init(&o);
    o.engine.isa = isa;
    ok(engine_open(&g, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
    ok(context_open(&x, g, &o.session.plan, o.session.sampling.seed, 1, &err));
    encode(g, json_at(golden, "messages"), &ids);
    forward_run(&x.forward, &x.cache, ids.ids, (int)ids.n, 1);
    do {
        int32_t id = likeliest(x.forward.logits, g->model->n_vocab);
        tokens_push(out, id);
        forward_run(&x.forward, &x.cache, &id, 1, 1);
    } while (out->n < 64 && !tokenizer_is_end(g->tokenizer, out->ids[out->n - 1]));
}

TEST(test_instruction_sets)
{
    const cJSON *golden;
    AUTO_JSON *all = read_json(GOLDEN);
    cJSON_ArrayForEach(golden, all)
    {
        AUTO_TOKENS ref = {0};
        answer(&ref, "ref", golden);
        assert_true(ref.n > 1 && ref.n < 64);
        for (const char *const *isa = kn_isa_list(); *isa; isa++) {
            AUTO_TOKENS other = {0};
            answer(&other, *isa, golden);
            if (other.n != ref.n || memcmp(ref.ids, other.ids, ref.n * sizeof *ref.ids))
                fail_msg("%s says something else than ref", *isa);
        }
    }
}
