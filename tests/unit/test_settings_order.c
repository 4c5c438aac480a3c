/* Where a setting comes from: the command line, the conversation (what was given for it, then what
 * it ran with), the configuration file, in this order, whichever of them are there and in whatever
 * order they are read. The rule is docs/DESIGN.md's, "The way of a setting". */

#include "tests/test.h"

#include "cli/options/options.h"

#define CHAT (OPTIONS_MODEL | OPTIONS_MEMORY | OPTIONS_SAMPLING | OPTIONS_CHAT)

/* A value for each layer: 0 = the default, then from the configuration file to the command line. */
static const struct {
    const char *name, *value[5];
} settings[] = {
    {"budget", {"", "101", "103", "104", "105"}},
    {"policy", {"", "sink", "keydiff:sinks=8", "keydiff+global:reserve=64", "full"}},
    {"heads", {"", "a.gguf", "none", "d.gguf", "e.gguf"}},
    {"recall", {"", "words", "off", "words", "off"}},
    {"temp", {"", "0.1", "0.3", "0.4", "0.5"}},
    {"template", {"", "chatml", "gemma", "retain", "phi3"}},
    {"think", {"auto", "on", "low", "high", "medium"}},
    {"kv", {"", "q4", "f16", "q8:q4", "f32"}},
};
enum { N = sizeof settings / sizeof *settings };

static void read_layer(struct options *o, int layer, int i, char text[64])
{
    const char *value = settings[i].value[layer];
    int rc;
    if (layer == OPTIONS_GIVEN) {
        char *argv[] = {text};
        snprintf(text, 64, "--%s=%s", settings[i].name, value);
        rc = options_parse(o, CHAT, 1, argv, &err);
    } else {
        snprintf(text, 64, "%s = %s\n", settings[i].name, value);
        rc = options_parse_layer(o, (enum options_layer)layer, text, "settings", &err);
    }
    if (rc) fail_msg("%s in layer %d: %s", settings[i].name, layer, err.text);
}

static void check(const struct options *o, int layer, int i, int subset)
{
    AUTO_STR value = {0};
    ok(options_get(o, CHAT, settings[i].name, &value, &err));
    bool unset = layer == OPTIONS_DEFAULT && i != 6;
    if (!unset && strcmp(str_get(&value), settings[i].value[layer]) != 0)
        fail_msg("%s with layers %x is %s, expected %s", settings[i].name, (unsigned)subset,
                 str_get(&value), settings[i].value[layer]);
    assert_int_equal(options_from(o, settings[i].name), layer);
}

/* All subsets of the layers, read upwards and downwards. */
TEST(a_later_layer_counts)
{
    for (int i = 0; i < N; i++)
        for (int subset = 0; subset < 16; subset++)
            for (int down = 0; down < 2; down++) {
                char text[4][64];
                struct options o;
                int highest = 0;
                options_init(&o);
                for (int k = 0; k < 4; k++) {
                    int layer = down ? 4 - k : k + 1;
                    if (!(subset >> (layer - 1) & 1)) continue;
                    read_layer(&o, layer, i, text[k]);
                    if (layer > highest) highest = layer;
                }
                check(&o, highest, i, subset);
            }
}

/* What was given, now or when the conversation was opened before, is kept with it; values of the
 * configuration file are not, nor is what concerns one start only. */
TEST(a_conversation_keeps_what_was_given)
{
    struct options o;
    AUTO_STR kept = {0};
    char config[] = "temp = 0.9\ntop-k = 3\nthreads = 2\nbudget = 700\nmin-p = 0.5\n";
    char saved[] = "temp = 0.2\npolicy = sink\nno-such = 1\nthreads = 7\nbudget = lots\nkv = q8\n";
    char *argv[] = {(char[]){"--think=off"}, (char[]){"--kv=f16"}, (char[]){"--seed=4"}};
    options_init(&o);
    ok(options_parse_layer(&o, OPTIONS_CONFIG, config, "config", &err));
    ok(options_parse(&o, CHAT, 3, argv, &err));
    ok(options_parse_layer(&o, OPTIONS_CONVERSATION, saved, "talk", &err));
    assert_int_equal(o.engine.threads, 2);
    assert_int_equal(o.session.plan.budget, 700);
    options_print_kept(&o, &kept);
    assert_string_equal(str_get(&kept), "policy = sink\nkv = f16\ntemp = 0.2\nthink = off\n");
    options_unset(&o, "policy");
    assert_null(o.session.plan.policy.row);
}

/* /set in a chat changes a copy; what it gave goes to others that have other layers. */
TEST(given_values_are_copied)
{
    struct options o, front;
    char config[] = "budget = 700\n";
    options_init(&o);
    front = o;
    ok(options_set(&front, OPTIONS_SAMPLING, "temp", "0.7", &err));
    ok(options_parse_layer(&o, OPTIONS_CONFIG, config, "config", &err));
    options_give(&o, &front);
    assert_true(o.session.sampling.temperature == 0.7f);
    assert_int_equal(o.session.plan.budget, 700);
    ok(options_set(&front, OPTIONS_MEMORY, "budget", "96", &err));
    options_give(&o, &front);
    assert_int_equal(o.session.plan.budget, 96);
}
