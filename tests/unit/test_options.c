/* options: the command line, the configuration file and --help, all from one table. */

#include "tests/test.h"

#include "cli/options/options.h"
#include "cli/options/options_policy.h"

#define CHAT (OPTIONS_MODEL | OPTIONS_MEMORY | OPTIONS_SAMPLING | OPTIONS_STORE | OPTIONS_CHAT)
#define GENERATE                                                                           \
    (OPTIONS_MODEL | OPTIONS_MEMORY | OPTIONS_SAMPLING | OPTIONS_GENERATE | OPTIONS_TEXT | \
     OPTIONS_JSON)
#define EVAL (OPTIONS_MODEL | OPTIONS_MEMORY | OPTIONS_EVAL | OPTIONS_JSON)

/* Splits at blanks and parses. `line` is valid until the next call. */
static int parse(struct options *o, unsigned groups, const char *line)
{
    static char copy[1024];
    static char *argv[64];
    int argc = 0;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *w = strtok(copy, " "); w; w = strtok(NULL, " ")) argv[argc++] = w;
    argv[argc] = NULL;
    options_init(o);
    err.text[0] = 0;
    return options_parse(o, groups, argc, argv, &err);
}

static void assert_refused(unsigned groups, const char *line, const char *said)
{
    struct options o;
    int rc = parse(&o, groups, line);
    if (rc != ERR_USAGE || !strstr(err.text, said))
        fail_msg("'%s': %d \"%s\", expected \"%s\"", line, rc, err.text, said);
}

TEST(values_of_every_kind)
{
    struct options o;
    ok(parse(&o, CHAT,
             "-m a.gguf --heads=h.gguf --memory 6G --threads 3 --temp 0.25 --seed "
             "18446744073709551615 --plain -n 7 --policy full:context=128K extra --kv=q8:q4"));
    assert_string_equal(o.engine.model, "a.gguf");
    assert_string_equal(o.engine.heads.path, "h.gguf");
    assert_int_equal(o.session.plan.memory, 6LL << 30);
    assert_int_equal(o.engine.threads, 3);
    assert_true(o.session.sampling.temperature == 0.25f);
    assert_true(o.session.sampling.seed == UINT64_MAX);
    assert_true(o.chat.plain);
    assert_false(o.session.private_mode);
    assert_int_equal(o.session.max_tokens, 7);
    assert_int_equal(o.session.plan.policy.context, 131072);
    assert_true(o.session.plan.kv.given);
    assert_int_equal(o.session.plan.kv.k, KN_KV_Q8);
    assert_int_equal(o.session.plan.kv.v, KN_KV_Q4);
    assert_int_equal(o.n_args, 1);
    assert_string_equal(o.args[0], "extra");
}

TEST(defaults)
{
    struct options o;
    assert_int_equal(parse(&o, CHAT, ""), 0);
    assert_null(o.engine.model);
    assert_int_equal(o.engine.device.kind, ENGINE_DEVICE_AUTO);
    assert_int_equal(o.engine.weights, ENGINE_WEIGHTS_FILE);
    assert_int_equal(o.session.plan.policy.stabilizers, -1);
    assert_int_equal(o.session.plan.policy.sinks, -1);
    assert_int_equal(o.session.plan.policy.reserve, -1);
    assert_int_equal(o.session.sampling.top_k, SAMPLING_UNSET);
    assert_true(o.session.sampling.temperature == SAMPLING_UNSET);
}

TEST(short_forms)
{
    struct options o;
    assert_int_equal(parse(&o, GENERATE, "-n5 -mx.gguf -f -"), 0);
    assert_int_equal(o.session.max_tokens, 5);
    assert_string_equal(o.engine.model, "x.gguf");
    assert_string_equal(o.text.files.item[0], "-");
    assert_int_equal(parse(&o, GENERATE, "-h"), 0);
    assert_true(o.help);
    assert_int_equal(parse(&o, GENERATE, "-"), 0);
    assert_int_equal(o.n_args, 1);
    assert_string_equal(o.args[0], "-");
    assert_refused(GENERATE, "-z", "unknown option -z");
    assert_refused(GENERATE, "-hx", "unknown option -hx");
    assert_refused(GENERATE, "-model x", "did you mean --model?");
}

TEST(dashes_end_options)
{
    struct options o;
    assert_int_equal(parse(&o, CHAT, "--plain -- --new -m"), 0);
    assert_false(o.session.new_conversation);
    assert_int_equal(o.n_args, 2);
    assert_string_equal(o.args[0], "--new");
    assert_string_equal(o.args[1], "-m");
}

TEST(misspelt_options_are_guessed)
{
    assert_refused(CHAT, "--buget 5", "unknown option --buget; did you mean --budget?");
    assert_refused(CHAT, "--tmep 0", "did you mean --temp?");
    assert_refused(CHAT, "--temperature=0", "did you mean --temp?");
    assert_refused(CHAT, "--thread 2", "did you mean --threads?");
    assert_refused(CHAT, "--topk 2", "did you mean --top-k?");
    assert_refused(CHAT, "--xylophone", "unknown option --xylophone; --help lists all");
}

TEST(options_of_other_commands)
{
    assert_refused(CHAT, "--seeds 3", "--seeds does not apply to this command");
    assert_refused(OPTIONS_STORE, "--temp 0", "--temp does not apply to this command");
    struct options o;
    assert_int_equal(parse(&o, OPTIONS_STORE, "--help"), 0); /* every command takes it */
}

TEST(missing_values)
{
    assert_refused(CHAT, "--model", "--model needs a value: --model FILE");
    assert_refused(CHAT, "-m --plain", "--model needs a value");
    struct options o;
    assert_int_equal(parse(&o, GENERATE, "--prompt=--raw"), 0);
    assert_string_equal(o.text.prompt, "--raw");
    assert_false(o.session.raw);
    assert_int_equal(parse(&o, GENERATE, "-p -5"), 0); /* looks like an option, is none of ours */
    assert_string_equal(o.text.prompt, "-5");
}

TEST(numbers_out_of_range)
{
    assert_refused(CHAT, "--threads 5000",
                   "--threads 5000: expected a whole number from 0 to 1024");
    assert_refused(CHAT, "--threads -1", "-1");
    assert_refused(CHAT, "--threads 2.5", "2.5");
    assert_refused(CHAT, "--threads 3x", "3x");
    assert_refused(CHAT, "--threads=", "expected a whole number");
    assert_refused(CHAT, "--top-p 1.01", "from 0 to 1");
    assert_refused(CHAT, "--top-p ,5", ",5");
    assert_refused(CHAT, "--temp nan", "nan");
    assert_refused(CHAT, "--seed 18446744073709551616", "18446744073709551615");
    assert_refused(CHAT, "--seed -1", "-1");
    assert_refused(CHAT, "--memory 6X", "--memory 6X: expected a number, as 1048576, 512K or 6G");
    assert_refused(CHAT, "--memory 0", "--memory 0");
    assert_refused(CHAT, "-n 99999999999999999999", "99999999999999999999");
    assert_refused(CHAT, "--weights q4", "--weights q4: expected one of file,f32");
    assert_refused(CHAT, "--plain=maybe", "expected yes or no");
    assert_refused(CHAT, "a b c d e f g h i j k l m n o p q r s t u v w x y",
                   "too many arguments at 'y'");
}

/* ---- policies -------------------------------------------------------------------------------- */

#define LISTS (EVAL | OPTIONS_LISTS)

TEST(policies_with_keys)
{
    struct options o;
    assert_int_equal(parse(&o, CHAT, "--policy keydiff:stabilizers=64,sinks=4,reserve=9"), 0);
    const struct policy_choice *c = &o.session.plan.policy;
    assert_ptr_equal(c->row, policy_named("keydiff"));
    assert_int_equal(c->stabilizers, 64);
    assert_int_equal(c->sinks, 4);
    assert_int_equal(c->reserve, 9);
    assert_int_equal(c->floor, -1);
    assert_int_equal(parse(&o, CHAT, "--policy auto:reserve=16,floor=3,stabilizers=0"), 0);
    assert_null(c->row);
    assert_int_equal(c->reserve, 16);
    assert_int_equal(c->floor, 3);
    assert_int_equal(c->stabilizers, 0);
    assert_refused(CHAT, "--policy keydfif", "--policy keydfif is not known; did you mean keydiff");
    assert_refused(CHAT, "--policy foo", "--policy foo is not known; known are");
    assert_refused(CHAT, "--policy nobody", "known are: full, locret");
    assert_refused(CHAT, "--policy keydiff:sniks=3", "no key sniks; did you mean sinks?");
    assert_refused(CHAT, "--policy keydiff:qqqqqqqqqq=3", "no key qqqqqqqqqq");
    assert_refused(CHAT, "--policy keydiff:sinks=-1", "sinks=-1: expected a whole number");
    assert_refused(CHAT, "--policy keydiff:floor=101",
                   "floor=101: expected a whole number from 0 to 100");
    assert_refused(CHAT, "--policy keydiff:sinks", "expected key=value");
    assert_refused(CHAT, "--policy=", "expected a policy's name");
}

/* An item with '=' but no ':' belongs to the policy before it. */
TEST(keys_of_policies)
{
    struct options o;
    AUTO_STR text = {0};
    ok(parse(&o, LISTS,
             "--policy keydiff:reserve=8,sinks=0,keeper,locret:stabilizers=64,"
             "locret:floor=0"));
    ok(options_get(&o, LISTS, "policy", &text, &err));
    assert_string_equal(text.data, "keydiff:sinks=0,reserve=8,keeper,locret:stabilizers=64,"
                                   "locret:floor=0");
    assert_int_equal(parse(&o, LISTS, "--policy locret:sinks=0/4"), ERR_USAGE);
}

TEST(lists_of_values)
{
    struct options o;
    struct str text = {0};
    ok(parse(&o, LISTS,
             "--policy keydiff:sinks=4,stabilizers=64,keeper,sink:reserve=8 --budget 64,128 "
             "--kv q4,q8:q4 --length 300"));
    assert_int_equal(o.sweep.policies.n, 3);
    assert_int_equal(o.sweep.policies.item[0].sinks, 4);
    assert_ptr_equal(o.sweep.policies.item[1].row, policy_named("keeper"));
    assert_int_equal(o.sweep.policies.item[1].sinks, -1);
    assert_int_equal(o.sweep.policies.item[2].reserve, 8);
    assert_int_equal(o.sweep.budgets.n, 2);
    assert_int_equal(o.sweep.budgets.item[1], 128);
    assert_int_equal(o.sweep.kvs.n, 2);
    assert_int_equal(o.sweep.kvs.item[1].k, KN_KV_Q8);
    assert_int_equal(o.session.plan.budget, 64); /* the first of each */
    ok(options_get(&o, EVAL, "policy", &text, &err));
    assert_string_equal(text.data, "keydiff:sinks=4,stabilizers=64,keeper,sink:reserve=8");
    str_release(&text);
    assert_refused(CHAT, "--policy locret,keeper", "--policy: expected one value");
    assert_refused(CHAT, "--budget 64,128", "--budget: expected one value");
    assert_refused(CHAT, "--kv q4,q8", "--kv: expected one value");
    assert_refused(LISTS, "--budget 64,15", "--budget 15: expected a whole number from 16");
    assert_refused(LISTS, "--budget 64,", "expected a whole number");
    assert_refused(LISTS, "--kv q4,q6", "--kv q6: expected q4, q5, q8, f16, f32");
}

/* A list of one more than fits is refused. */
TEST(lists_have_an_end)
{
    static const struct {
        const char *option, *value, *said;
    } cases[] = {{"--policy", "sink", "--policy: more than 32 policies"},
                 {"--kv", "q4", "--kv: more than 32 values"},
                 {"--recall", "words", "--recall: more than 32 values"},
                 {"--budget", "64", "--budget: more than 32 values"}};
    assert_int_equal(OPTIONS_LIST_MAX, 32);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct options o;
        char line[512];
        for (int n = 32; n <= 33; n++) {
            int at = snprintf(line, sizeof line, "%s %s", cases[i].option, cases[i].value);
            for (int k = 1; k < n; k++)
                at += snprintf(line + at, sizeof line - (size_t)at, ",%s", cases[i].value);
            if (n == 32)
                assert_int_equal(parse(&o, LISTS, line), 0);
            else
                assert_refused(LISTS, line, cases[i].said);
        }
    }
}

/* A pair of formats is printed as a pair, and a number that is not set as nothing. */
TEST(settings_come_back)
{
    struct options o;
    AUTO_STR text = {0};
    assert_int_equal(parse(&o, CHAT, "--kv q8:q4"), 0);
    ok(options_get(&o, CHAT, "kv", &text, &err));
    assert_string_equal(text.data, "q8:q4");
    str_clear(&text);
    options_print_config(&o, &text);
    assert_non_null(strstr(text.data, "\nkv = q8:q4\n"));
    assert_non_null(strstr(text.data, "\n# budget = \n"));
    assert_non_null(strstr(text.data, "\n# memory = \n"));
}

/* Each policy and key that can be given is printed as it can be given again. */
TEST(policies_come_back)
{
    struct options_policy_key key;
    for (int i = 0; policy_at(i); i++)
        for (int k = 0; options_policy_key(k, &key); k++) {
            struct options o;
            AUTO_STR text = {0};
            char line[160], given[128];
            bool full = !strcmp(key.name, "context");
            const char *name = full ? "full" : policy_at(i)->name;
            snprintf(given, sizeof given, "%s:%s=7", name, key.name);
            snprintf(line, sizeof line, "--policy %s", given);
            assert_int_equal(parse(&o, CHAT, line), 0);
            ok(options_get(&o, CHAT, "policy", &text, &err));
            assert_string_equal(text.data, given);
        }
}

TEST(set_in_a_chat)
{
    struct options o;
    options_init(&o);
    ok(options_set(&o, OPTIONS_MEMORY, "policy", "keydiff:reserve=64", &err));
    assert_int_equal(o.session.plan.policy.reserve, 64);
    ok(options_set(&o, OPTIONS_MEMORY, "budget", "96", &err));
    assert_int_equal(o.session.plan.budget, 96);
    assert_ptr_equal(o.session.plan.policy.row, policy_named("keydiff"));
    assert_int_equal(options_set(&o, OPTIONS_MEMORY, "policy", "locret,keeper", &err), ERR_USAGE);
}

TEST(devices)
{
    struct options o;
    assert_int_equal(parse(&o, CHAT, "--device cpu"), 0);
    assert_int_equal(o.engine.device.kind, ENGINE_DEVICE_CPU);
    assert_int_equal(parse(&o, CHAT, "--device cuda"), 0);
    assert_int_equal(o.engine.device.kind, ENGINE_DEVICE_CUDA);
    assert_int_equal(o.engine.device.ordinal, 0);
    assert_int_equal(parse(&o, CHAT, "--device cuda:12"), 0);
    assert_int_equal(o.engine.device.ordinal, 12);
    static const char *const wrong[] = {"gpu",     "cuda:",   "cuda:x",
                                        "cuda:1x", "cuda:-1", "cuda:1024"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char line[32];
        snprintf(line, sizeof line, "--device %s", wrong[i]);
        assert_refused(CHAT, line, "expected auto, cpu, cuda or cuda:N");
    }
}

TEST(contradictions)
{
    assert_refused(CHAT, "--new --continue", "--new and --continue");
    assert_refused(CHAT, "-c work --continue", "--conversation and --continue");
    assert_refused(CHAT, "-c work --private", "--private and --conversation");
    assert_refused(CHAT, "--private --continue", "--private and --continue");
}

TEST(configuration)
{
    struct options o;
    char text[] = "\xef\xbb\xbf# defaults\r\n"
                  "\n"
                  "  model = /models/my model.gguf   # the big one\r\n"
                  "threads=2\n"
                  "continue = yes\n"
                  "system = \"answer # briefly \"  # quoted\n"
                  "temp = 0\n"
                  "memory=1.5G\n"
                  "policy = keydiff:reserve=9,sinks=2\n"
                  "budget = 77";
    options_init(&o);
    ok(options_parse_layer(&o, OPTIONS_CONFIG, text, "config", &err));
    assert_string_equal(o.engine.model, "/models/my model.gguf");
    assert_int_equal(o.engine.threads, 2);
    assert_string_equal(o.session.system, "answer # briefly ");
    assert_true(o.session.sampling.temperature == 0);
    assert_int_equal(o.session.plan.memory, 3LL << 29);
    assert_int_equal(o.session.plan.policy.sinks, 2);
    assert_int_equal(o.session.plan.budget, 77);
    assert_true(o.session.continue_latest);
    char *argv[] = {"--new", "--threads", "1"}; /* the command line is right */
    ok(options_parse(&o, CHAT, 3, argv, &err));
    assert_false(o.session.continue_latest);
    assert_int_equal(o.engine.threads, 1);
}

static void assert_comes_back(const char *value)
{
    struct options o, again;
    AUTO_STR config = {0};
    options_init(&o);
    o.session.system = value;
    options_print_config(&o, &config);
    options_init(&again);
    if (options_parse_layer(&again, OPTIONS_CONFIG, config.data, "config", &err))
        fail_msg("%s:\n%s", err.text, config.data);
    assert_non_null(again.session.system);
    assert_string_equal(again.session.system, value);
}

/* Any text that is set is printed unchanged. */
TEST(texts_come_back)
{
    static const char *const values[] = {
        "",          " ",        "#",     "a # b",  "a#b",        "\"",     "\"a\"",
        "say \"a\"", "\\",       "a\\n",  "\"\\\"", "two\nlines", "\n",     "\\\n\\",
        "a\\",       " \\ ",     "tab\t", "a = b",  "\r",         "a\r\nb", "# no comment",
        "\"# \\\"",  "\xff\xfe", "yes",
    };
    static const char letters[] = "ab \"\"\\\\\n\n##=\t\rn\x1b\xc3";
    uint32_t random = 1;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) assert_comes_back(values[i]);
    for (int i = 0; i < 5000; i++) {
        char value[12];
        int n = 0;
        for (; n < i % (int)sizeof value; n++) {
            random = random * 1664525u + 1013904223u;
            value[n] = letters[(random >> 16) % (sizeof letters - 1)];
        }
        value[n] = 0;
        assert_comes_back(value);
    }
    struct options o;
    AUTO_STR config = {0};
    options_init(&o);
    options_print_config(&o, &config);
    assert_non_null(strstr(config.data, "\n# system = \n"));
}

static void assert_config_refused(const char *line, const char *said)
{
    struct options o;
    char text[256];
    snprintf(text, sizeof text, "# one\n%s\nthreads = 1\n", line);
    options_init(&o);
    int rc = options_parse_layer(&o, OPTIONS_CONFIG, text, "/home/c", &err);
    if (rc != ERR_USAGE || strncmp(err.text, "/home/c:2: ", 11) || !strstr(err.text, said))
        fail_msg("'%s': %d \"%s\", expected \"%s\"", line, rc, err.text, said);
}

TEST(configuration_errors)
{
    assert_config_refused("nonsense", "expected key = value");
    assert_config_refused("thread = 2", "unknown key 'thread'; did you mean threads?");
    assert_config_refused("xylophone = 2", "unknown key 'xylophone'");
    assert_config_refused("threads = many", "--threads many: expected a whole number");
    assert_config_refused("threads =", "the value is missing");
    assert_config_refused("prompt = hi", "command line only");
    assert_config_refused("system = \"open", "quotes");
    assert_config_refused("system = \"open\\\"", "quotes");
    assert_config_refused("system = \"a\" b", "quotes");
    assert_config_refused("plain = maybe", "yes or no");
    assert_config_refused("= 5", "unknown key ''");
}

/* What --print-config prints is read back as the very same numbers. */
TEST(numbers_come_back)
{
    static const char *const values[] = {
        "0.8",         "0.333333333",      "0.00001",           "0.1", "0.95", "0.7500001", "1",
        "0.000000001", ".000000000000015", "0.0000000000123456"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct options o, again;
        char line[256];
        AUTO_STR config = {0};
        snprintf(line, sizeof line, "--temp %s --min-p %s --top-p %s", values[i], values[i],
                 values[i]);
        assert_int_equal(parse(&o, CHAT, line), 0);
        options_print_config(&o, &config);
        options_init(&again);
        ok(options_parse_layer(&again, OPTIONS_CONFIG, config.data, "config", &err));
        assert_memory_equal(&again.session.sampling, &o.session.sampling,
                            sizeof o.session.sampling);
    }
}

TEST(help_fits_80_columns)
{
    static const unsigned groups[] = {CHAT, GENERATE, EVAL, OPTIONS_STORE, ~0U};
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        AUTO_STR s = {0};
        options_help(groups[i], &s);
        for (const char *p = str_get(&s); *p;) {
            size_t n = strcspn(p, "\n"), wide = 0;
            for (size_t j = 0; j < n; j++) wide += ((unsigned char)p[j] & 0xc0) != 0x80;
            assert_true(n > 0 && wide <= 80 && p[n - 1] != ' ');
            p += n + 1;
        }
        assert_non_null(strstr(str_get(&s), "-h, --help"));
    }
    AUTO_STR s = {0};
    options_help(OPTIONS_STORE, &s);
    assert_non_null(strstr(str_get(&s), "      --db FILE             where"));
    assert_null(strstr(str_get(&s), "--model"));
}

TEST(sizes)
{
    static const struct {
        const char *text;
        int64_t bytes; /* -1 = none */
    } cases[] = {{"6G", 6LL << 30},
                 {"512M", 512LL << 20},
                 {"1048576", 1048576},
                 {"0", 0},
                 {"1.5k", 1536},
                 {"2T", 2LL << 40},
                 {"3GiB", 3LL << 30},
                 {"", -1},
                 {"G", -1},
                 {"-1", -1},
                 {"6GB", -1},
                 {"1.5", -1},
                 {"6 G", -1},
                 {"1e9", -1},
                 {".", -1},
                 {"99999999T", -1},
                 {"1..5G", -1},
                 {"9999999999999999", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t bytes = -1;
        bool ok = options_size(cases[i].text, &bytes);
        assert_int_equal(ok, cases[i].bytes >= 0);
        if (ok) assert_int_equal(bytes, cases[i].bytes);
    }
}

TEST(lists)
{
    char item[8];
    assert_true(options_list_item("a, bc ,d", 0, item, sizeof item));
    assert_string_equal(item, "a");
    assert_true(options_list_item("a, bc ,d", 1, item, sizeof item));
    assert_string_equal(item, "bc");
    assert_true(options_list_item("a, bc ,d", 2, item, sizeof item));
    assert_string_equal(item, "d");
    assert_false(options_list_item("a, bc ,d", 3, item, sizeof item));
    assert_false(options_list_item("", 0, item, sizeof item));
    assert_false(options_list_item(NULL, 0, item, sizeof item));
    assert_true(
        options_list_item("a,", 1, item, sizeof item)); /* empty, for the caller to refuse */
    assert_string_equal(item, "");
    assert_true(options_list_item("0123456789", 0, item, sizeof item));
    assert_string_equal(item, "0123456");
}
