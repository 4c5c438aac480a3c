/* options: the command line, the configuration file and --help, all from one table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/options.h"

#define CHAT (OPTIONS_MODEL | OPTIONS_MEMORY | OPTIONS_SAMPLING | OPTIONS_STORE | OPTIONS_CHAT)
#define GENERATE                                                                           \
    (OPTIONS_MODEL | OPTIONS_MEMORY | OPTIONS_SAMPLING | OPTIONS_GENERATE | OPTIONS_TEXT | \
     OPTIONS_JSON)
#define EVAL (OPTIONS_MODEL | OPTIONS_MEMORY | OPTIONS_EVAL | OPTIONS_JSON)

static struct err err;

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

static void values_of_every_kind(void **state)
{
    (void)state;
    struct options o;
    assert_int_equal(parse(&o, CHAT,
                           "-m a.gguf --heads=h.gguf --memory 6G --threads 3 --temp 0.25 --seed "
                           "18446744073709551615 --plain -n 7 --context 128K extra --kv=q8:q4"),
                     0);
    assert_string_equal(o.model, "a.gguf");
    assert_string_equal(o.heads, "h.gguf");
    assert_int_equal(o.memory, 6LL << 30);
    assert_int_equal(o.threads, 3);
    assert_true(o.sampling.temperature == 0.25f);
    assert_true(o.sampling.seed == UINT64_MAX);
    assert_true(o.plain);
    assert_false(o.private_mode);
    assert_int_equal(o.n_predict, 7);
    assert_int_equal(o.context, 131072);
    assert_string_equal(o.kv, "q8:q4");
    assert_int_equal(o.n_args, 1);
    assert_string_equal(o.args[0], "extra");
}

static void defaults(void **state)
{
    (void)state;
    struct options o;
    assert_int_equal(parse(&o, CHAT, ""), 0);
    assert_null(o.model);
    assert_string_equal(o.device, "auto");
    assert_string_equal(o.weights, "file");
    assert_int_equal(o.stabilizers, -1);
    assert_int_equal(o.sinks, -1);
    assert_int_equal(o.reserve, -1);
    assert_true(o.sampling.top_k == sampling_default().top_k);
    assert_false(o.greedy);
}

static void short_forms(void **state)
{
    (void)state;
    struct options o;
    assert_int_equal(parse(&o, GENERATE, "-n5 -mx.gguf -f -"), 0);
    assert_int_equal(o.n_predict, 5);
    assert_string_equal(o.model, "x.gguf");
    assert_string_equal(o.file, "-");
    assert_int_equal(parse(&o, GENERATE, "-h"), 0);
    assert_true(o.help);
    assert_int_equal(parse(&o, GENERATE, "-"), 0);
    assert_int_equal(o.n_args, 1);
    assert_string_equal(o.args[0], "-");
    assert_refused(GENERATE, "-z", "unknown option -z");
    assert_refused(GENERATE, "-hx", "unknown option -hx");
    assert_refused(GENERATE, "-model x", "did you mean --model?");
}

static void dashes_end_options(void **state)
{
    (void)state;
    struct options o;
    assert_int_equal(parse(&o, CHAT, "--plain -- --new -m"), 0);
    assert_false(o.new_conversation);
    assert_int_equal(o.n_args, 2);
    assert_string_equal(o.args[0], "--new");
    assert_string_equal(o.args[1], "-m");
}

static void misspelt_options_are_guessed(void **state)
{
    (void)state;
    assert_refused(CHAT, "--buget 5", "unknown option --buget; did you mean --budget?");
    assert_refused(CHAT, "--tmep 0", "did you mean --temp?");
    assert_refused(CHAT, "--temperature=0", "did you mean --temp?");
    assert_refused(CHAT, "--thread 2", "did you mean --threads?");
    assert_refused(CHAT, "--topk 2", "did you mean --top-k?");
    assert_refused(CHAT, "--xylophone", "unknown option --xylophone; --help lists all");
}

static void options_of_other_commands(void **state)
{
    (void)state;
    assert_refused(CHAT, "--depths 3", "--depths does not apply to this command");
    assert_refused(CHAT, "--depths 3", "eval");
    assert_refused(OPTIONS_STORE, "--temp 0", "chat and generate");
    struct options o;
    assert_int_equal(parse(&o, OPTIONS_STORE, "--help"), 0); /* every command takes it */
}

static void missing_values(void **state)
{
    (void)state;
    assert_refused(CHAT, "--model", "--model needs a value: --model FILE");
    assert_refused(CHAT, "-m --plain", "--model needs a value");
    struct options o;
    assert_int_equal(parse(&o, GENERATE, "--prompt=--raw"), 0);
    assert_string_equal(o.prompt, "--raw");
    assert_false(o.raw);
    /* looks like an option, but is none of ours */
    assert_int_equal(parse(&o, GENERATE, "-p -5"), 0);
    assert_string_equal(o.prompt, "-5");
}

static void numbers_out_of_range(void **state)
{
    (void)state;
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
    assert_refused(CHAT, "a b c d e f g h i j k l m n o p q", "too many arguments at 'q'");
}

static void greedy_and_temperature(void **state)
{
    (void)state;
    struct options o;
    assert_int_equal(parse(&o, CHAT, "--temp 0"), 0);
    assert_true(o.greedy);
    assert_int_equal(parse(&o, CHAT, "--greedy"), 0);
    assert_true(o.sampling.temperature == 0);
    assert_int_equal(parse(&o, CHAT, "--greedy --temp 0.7"), 0);
    assert_false(o.greedy);
    assert_int_equal(parse(&o, CHAT, "--temp 0 --greedy=no"), 0);
    assert_true(o.sampling.temperature == OPTIONS_TEMPERATURE_OF_MODEL);
}

static void contradictions(void **state)
{
    (void)state;
    assert_refused(CHAT, "--new --continue", "--new and --continue");
    assert_refused(CHAT, "-c work --continue", "--conversation and --continue");
    assert_refused(CHAT, "-c work --private", "--private and --conversation");
    assert_refused(CHAT, "--private --continue", "--private and --continue");
    assert_refused(CHAT, "--private --read-only", "--private and --read-only");
    assert_refused(GENERATE, "-p hi -f x", "--prompt and --file");
}

static void configuration(void **state)
{
    (void)state;
    struct options o;
    char text[] = "\xef\xbb\xbf# defaults\r\n"
                  "\n"
                  "  model = /models/my model.gguf   # the big one\r\n"
                  "threads=2\n"
                  "continue = yes\n"
                  "system = \"answer # briefly \"  # quoted\n"
                  "temp = 0\n"
                  "memory=1.5G\n"
                  "depths = 4";
    options_init(&o);
    assert_int_equal(options_parse_config(&o, text, "config", &err), 0);
    assert_string_equal(o.model, "/models/my model.gguf");
    assert_int_equal(o.threads, 2);
    assert_string_equal(o.system, "answer # briefly ");
    assert_true(o.greedy);
    assert_int_equal(o.memory, 3LL << 29);
    assert_int_equal(o.depths, 4);
    assert_true(o.continue_latest);
    char *argv[] = {"--new", "--threads", "1"}; /* the command line is valid */
    assert_int_equal(options_parse(&o, CHAT, 3, argv, &err), 0);
    assert_false(o.continue_latest);
    assert_int_equal(o.threads, 1);
}

static void assert_comes_back(const char *value)
{
    struct options o, again;
    struct str config = {0};
    options_init(&o);
    o.system = value;
    options_print_config(&o, &config);
    options_init(&again);
    if (options_parse_config(&again, config.data, "config", &err))
        fail_msg("%s:\n%s", err.text, config.data);
    assert_non_null(again.system);
    assert_string_equal(again.system, value);
    str_release(&config);
}

/* Any text that is set is printed unchanged. */
static void texts_come_back(void **state)
{
    static const char *const values[] = {
        "",          " ",        "#",     "a # b",  "a#b",        "\"",     "\"a\"",
        "say \"a\"", "\\",       "a\\n",  "\"\\\"", "two\nlines", "\n",     "\\\n\\",
        "a\\",       " \\ ",     "tab\t", "a = b",  "\r",         "a\r\nb", "# no comment",
        "\"# \\\"",  "\xff\xfe", "yes",
    };
    static const char letters[] = "ab \"\"\\\\\n\n##=\t\rn\x1b\xc3";
    uint32_t random = 1;
    (void)state;
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
    struct str config = {0};
    options_init(&o);
    options_print_config(&o, &config);
    assert_non_null(strstr(config.data, "\n# system = \n"));
    str_release(&config);
}

static void assert_config_refused(const char *line, const char *said)
{
    struct options o;
    char text[256];
    snprintf(text, sizeof text, "# one\n%s\nthreads = 1\n", line);
    options_init(&o);
    int rc = options_parse_config(&o, text, "/home/c", &err);
    if (rc != ERR_USAGE || strncmp(err.text, "/home/c:2: ", 11) || !strstr(err.text, said))
        fail_msg("'%s': %d \"%s\", expected \"%s\"", line, rc, err.text, said);
}

static void configuration_errors(void **state)
{
    (void)state;
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

/* The printed settings of an answer, and the output of --print-config, are read back as exactly the
 * same numbers. */
static void numbers_come_back(void **state)
{
    static const char *const values[] = {
        "0.8",         "0.333333333",      "0.00001",           "0.1", "0.95", "0.7500001", "1",
        "0.000000001", ".000000000000015", "0.0000000000123456"};
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct options o, again;
        char line[256];
        struct str text = {0}, config = {0};
        snprintf(line, sizeof line, "--temp %s --min-p %s --top-p %s", values[i], values[i],
                 values[i]);
        assert_int_equal(parse(&o, CHAT, line), 0);
        options_spell(&o, OPTIONS_SAMPLING, &text);
        if (parse(&again, CHAT, text.data)) fail_msg("%s: %s", text.data, err.text);
        assert_memory_equal(&again.sampling, &o.sampling, sizeof o.sampling);
        options_print_config(&o, &config);
        options_init(&again);
        if (options_parse_config(&again, config.data, "config", &err)) fail_msg("%s", err.text);
        assert_memory_equal(&again.sampling, &o.sampling, sizeof o.sampling);
        str_release(&text);
        str_release(&config);
    }
}

static void help_fits_80_columns(void **state)
{
    (void)state;
    static const unsigned groups[] = {CHAT, GENERATE, EVAL, OPTIONS_STORE, ~0U};
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        struct str s = {0};
        options_help(groups[i], &s);
        for (const char *p = str_get(&s); *p;) {
            size_t n = strcspn(p, "\n"), wide = 0;
            for (size_t j = 0; j < n; j++) wide += ((unsigned char)p[j] & 0xc0) != 0x80;
            assert_true(n > 0 && wide <= 80 && p[n - 1] != ' ');
            p += n + 1;
        }
        assert_non_null(strstr(str_get(&s), "-h, --help"));
        str_release(&s);
    }
    struct str s = {0};
    options_help(OPTIONS_STORE, &s);
    assert_non_null(strstr(str_get(&s), "      --db FILE             where"));
    assert_null(strstr(str_get(&s), "--model"));
    str_release(&s);
}

static void sizes(void **state)
{
    (void)state;
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

static void lists(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_every_kind),
        cmocka_unit_test(defaults),
        cmocka_unit_test(short_forms),
        cmocka_unit_test(dashes_end_options),
        cmocka_unit_test(misspelt_options_are_guessed),
        cmocka_unit_test(options_of_other_commands),
        cmocka_unit_test(missing_values),
        cmocka_unit_test(numbers_out_of_range),
        cmocka_unit_test(greedy_and_temperature),
        cmocka_unit_test(contradictions),
        cmocka_unit_test(configuration),
        cmocka_unit_test(texts_come_back),
        cmocka_unit_test(configuration_errors),
        cmocka_unit_test(numbers_come_back),
        cmocka_unit_test(help_fits_80_columns),
        cmocka_unit_test(sizes),
        cmocka_unit_test(lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
