/* Files of questions: every published format is recognised, prompts are those of the benchmarks'
 * own programs, and what is wrong is named with its line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "base/file.h"
#include "quant/files/benchmark.h"
#include "runtime/model/gguf.h"
#include "runtime/token/tokenizer.h"

enum { N_RECORDS = 20 };

static char folder[] = "/tmp/retain_benchmark_XXXXXX";

static const cJSON *member(const cJSON *o, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(o, name);
}

static const char *text_of(const cJSON *o, const char *name)
{
    const cJSON *node = member(o, name);
    return cJSON_IsString(node) ? node->valuestring : "";
}

/* Writes a file into the folder, and folders of its own; *path is valid until the next call. */
static const char *write_file(const char *name, const char *text, size_t n)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *s = path + strlen(folder) + 1; (s = strchr(s, '/')); s++) {
        *s = 0;
        mkdir(path, 0700);
        *s = '/';
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    fclose(f);
    return path;
}

static const char *write_text(const char *name, const char *text)
{
    return write_file(name, text, strlen(text));
}

/* ---- published formats ----------------------------------------------------------------------- */

/* The record again and again: lines, or for .json an array over several lines. */
static const char *write_records(const char *name, const cJSON *record)
{
    struct str text = {0};
    bool array = strstr(name, ".jsonl") == NULL;
    char *one = array ? cJSON_Print(record) : cJSON_PrintUnformatted(record);
    for (int i = 0; i < N_RECORDS; i++) {
        str_puts(&text, !array ? "" : i ? ",\n" : "[");
        str_puts(&text, one);
        if (!array) str_puts(&text, "\n");
    }
    if (array) str_puts(&text, "]");
    const char *path = write_file(name, text.data, text.n);
    str_release(&text);
    cJSON_free(one);
    return path;
}

static void compare_list(const cJSON *expected, const struct item_strings *got)
{
    assert_int_equal(got->n, cJSON_GetArraySize(expected));
    for (int i = 0; i < got->n; i++)
        assert_string_equal(got->item[i], cJSON_GetArrayItem(expected, i)->valuestring);
}

static void compare(const cJSON *expected, const struct item *got)
{
    struct str prompt = {0};
    str_puts(&prompt, str_get(&got->before));
    str_puts(&prompt, str_get(&got->context));
    str_puts(&prompt, str_get(&got->after));
    assert_string_equal(str_get(&prompt), text_of(expected, "prompt"));
    str_release(&prompt);
    compare_list(member(expected, "answers"), &got->answers);
    if (member(expected, "classes")) compare_list(member(expected, "classes"), &got->classes);
    if (member(expected, "turns")) compare_list(member(expected, "turns"), &got->turns);
    assert_int_equal(got->n_predict, member(expected, "n_predict")->valueint);
    assert_string_equal(str_get(&got->prefix), text_of(expected, "prefix"));
    assert_string_equal(got->system ? got->system : "", text_of(expected, "system"));
    assert_int_equal(got->raw, cJSON_IsTrue(member(expected, "raw")));
    assert_int_equal(got->first_line, cJSON_IsTrue(member(expected, "first_line")));
    if (member(expected, "group"))
        assert_string_equal(str_get(&got->group), text_of(expected, "group"));
    if (member(expected, "id")) assert_string_equal(str_get(&got->id), text_of(expected, "id"));
    if (member(expected, "metric"))
        assert_string_equal(got->metric->name, text_of(expected, "metric"));
    assert_true(item_score(got, got->answers.item[0]).value >= 0);
}

static void prompts_are_those_of_the_programs(void **state)
{
    (void)state;
    struct str text = {0};
    struct err e;
    assert_int_equal(file_read("tests/golden/benchmarks.json", &text, &e), 0);
    cJSON *all = cJSON_Parse(str_get(&text)), *one;
    assert_int_equal(cJSON_GetArraySize(all), 57);
    cJSON_ArrayForEach(one, all)
    {
        struct benchmark_file f;
        struct item item = {0};
        const cJSON *items = member(one, "items");
        const char *path = write_records(text_of(one, "path"), member(one, "record"));
        print_message("%s\n", text_of(one, "path"));
        assert_int_equal(benchmark_open(&f, path, NULL, &e), 0);
        int n = cJSON_GetArraySize(items);
        for (int i = 0; i < N_RECORDS * n; i++) {
            assert_int_equal(benchmark_next(&f, &item, &e), 1);
            assert_int_equal(item.number, i + 1);
            if (strstr(path, ".jsonl")) assert_int_equal(item.line, i / n + 1);
            compare(cJSON_GetArrayItem(items, i % n), &item);
        }
        assert_int_equal(benchmark_next(&f, &item, &e), 0);
        benchmark_close(&f);
        item_release(&item);
        unlink(path);
    }
    cJSON_Delete(all);
    str_release(&text);
}

/* ---- what is wrong --------------------------------------------------------------------------- */

#define GOOD "{\"context\": \"c\", \"question\": \"q\", \"answers\": [\"a\"]}\n"

static void refuse(const char *name, const char *text, const char *format, const char *message)
{
    struct err e = {0};
    struct benchmark_size size;
    const char *path = write_text(name, text);
    int rc = benchmark_check(path, format, &size, &e);
    if (rc >= 0 || !strstr(e.text, message) || strchr(e.text, '\n'))
        print_message("%s: %d: %s\n", text, rc, e.text);
    assert_true(rc < 0);
    assert_non_null(strstr(e.text, message));
    assert_true(strstr(e.text, name) || strstr(e.text, "--format"));
    assert_null(strchr(e.text, '\n'));
    unlink(path);
}

static void wrong_lines_are_named(void **state)
{
    (void)state;
    refuse("a.jsonl", "", NULL, "expected a file with JSON objects");
    refuse("a.jsonl", "\n\n", NULL, "there is no JSON object");
    refuse("a.jsonl", GOOD GOOD "{\"context\": \"c\", \"ques\n" GOOD, NULL,
           "a.jsonl:3: expected a JSON");
    refuse("a.jsonl", GOOD "[1, 2]\n", NULL, "a.jsonl:2: expected a JSON object");
    refuse("a.jsonl", GOOD GOOD GOOD "{} x\n", NULL, "a.jsonl:4: ");
    refuse("a.jsonl", GOOD "{\"context\": \"\xff\"}\n", NULL, "a.jsonl:2: byte 14 is not UTF-8");
    refuse("a.json", "[" GOOD ",\n" GOOD, NULL, "a.json:4: the file ends inside a list");
    refuse("a.json", "[\n" GOOD ",\n{\"context\": 1,\n\"question\"", NULL, "a.json:4: ");
    refuse("a.jsonl", "{\"a\": 1}\n", NULL, "a.jsonl:1: the fields are those of no known format");
    refuse("a.jsonl", "{\"a\": 1}\n" GOOD, "plain", "a.jsonl:1: there is no text \"context\"");
}

static void wrong_fields_are_named(void **state)
{
    (void)state;
    refuse("a.jsonl", GOOD "{\"context\": 7, \"answers\": [\"a\"]}\n", NULL,
           "a.jsonl:2: there is no text \"question\"");
    refuse("a.jsonl", GOOD "{\"context\": \"c\", \"question\": \"q\", \"answers\": []}\n", NULL,
           "a.jsonl:2: the list of answers is empty");
    refuse("a.jsonl", GOOD "{\"context\": \"c\", \"question\": \"q\", \"answers\": [{}]}\n", NULL,
           "a.jsonl:2: an answer is no text and no number");
    refuse("a.jsonl", GOOD "{\"context\": \"c\", \"question\": \"q\"}\n", NULL,
           "a.jsonl:2: there is no answer \"answers\"");
    refuse("a.jsonl",
           "{\"context\": \"c\", \"question\": \"q\", \"answers\": \"a\", \"metric\": \"bleu\"}\n",
           NULL, "a.jsonl:1: metric \"bleu\" is not known");
    refuse("code_debug.jsonl",
           "{\"context\": \"c\", \"input\": \"q\", \"answer\": \"x\", \"options\": [\"y\"]}\n",
           NULL, "code_debug.jsonl:1: \"options\" is no list of four texts");
    refuse("code_debug.jsonl",
           "{\"context\": \"\", \"input\": \"\", \"answer\": \"x\", \"options\": "
           "[\"\",\"\",\"\",\"\"]}",
           NULL, "code_debug.jsonl:1: the answer is none of the options");
    refuse("code_run.jsonl", "{\"context\": \"c\", \"input\": \"func_(1)\", \"answer\": [1]}\n",
           NULL, "code_run.jsonl:1: \"input\" has no call");
    refuse("math_find.jsonl", "{\"context\": \"c\", \"input\": \"Of all\", \"answer\": 1}\n", NULL,
           "math_find.jsonl:1: \"input\" does not say");
    refuse("other.jsonl", "{\"context\": \"c\", \"input\": \"q\", \"answer\": \"x\"}\n", NULL,
           "looks like infinitebench, but \"other\" is none of its tasks");
    refuse("a.jsonl", GOOD, "plane", "--format plane is not known");
    refuse("m.json",
           "{\"haystack_sessions\": [[{\"role\": \"user\"}]], \"haystack_dates\": [\"d\"]}", NULL,
           "m.json:1: session 1 of");
    refuse("m.json", "{\"haystack_sessions\": [], \"haystack_dates\": []}", NULL, "of one length");
    refuse("l.json", "{\"qa\": [{\"question\": \"q\", \"category\": 9}], \"session_1\": [{}]}",
           NULL, "l.json:1: ");
    refuse("l.json", "{\"qa\": []}", NULL, "no question in it has a metric");
}

/* Checks a file with a good record and a damaged one behind it: an error names the damaged one's
 * line. Returns whether there is one. */
static bool is_refused(const char *name, const cJSON *good, const char *damaged)
{
    const bool lines = strstr(name, ".jsonl") != NULL;
    struct str text = {0};
    struct err e = {0};
    struct benchmark_size size;
    char *first = cJSON_PrintUnformatted(good);
    str_printf(&text, lines ? "%s\n%s\n" : "[%s,\n%s]", first, damaged);
    const char *path = write_file(name, text.data, text.n);
    int rc = benchmark_check(path, NULL, &size, &e);
    const char *place = strstr(e.text, name);
    if (rc && (!place || strncmp(place + strlen(name), ":2: ", 4) || strchr(e.text, '\n')))
        fail_msg("%s, a damaged second line: %s", name, e.text);
    unlink(path);
    cJSON_free(first);
    str_release(&text);
    return rc != 0;
}

/* The number of fields that are refused when they are missing, or are an object. */
static int fields_refused(const char *name, const cJSON *record)
{
    int n_refused = 0;
    for (int i = 0; i < 2 * cJSON_GetArraySize(record); i++) {
        cJSON *copy = cJSON_Duplicate(record, true);
        if (i % 2)
            cJSON_ReplaceItemInObjectCaseSensitive(copy, cJSON_GetArrayItem(copy, i / 2)->string,
                                                   cJSON_CreateObject());
        else
            cJSON_DeleteItemFromArray(copy, i / 2);
        char *damaged = cJSON_PrintUnformatted(copy);
        n_refused += is_refused(name, record, damaged);
        cJSON_free(damaged);
        cJSON_Delete(copy);
    }
    return n_refused;
}

/* Every format needs two texts at least, LoCoMo its list of questions and answers. */
static void every_format_names_its_damaged_lines(void **state)
{
    (void)state;
    struct str text = {0};
    struct err e;
    assert_int_equal(file_read("tests/golden/benchmarks.json", &text, &e), 0);
    cJSON *all = cJSON_Parse(str_get(&text)), *one;
    cJSON_ArrayForEach(one, all)
    {
        const char *name = text_of(one, "path");
        char *cut = cJSON_PrintUnformatted(member(one, "record"));
        int n = fields_refused(name, member(one, "record"));
        if (n < (member(member(one, "record"), "qa") ? 2 : 4))
            fail_msg("%s: %d fields refused", name, n);
        cut[strlen(cut) / 2] = 0;
        assert_true(is_refused(name, member(one, "record"), cut));
        cJSON_free(cut);
    }
    cJSON_Delete(all);
    str_release(&text);
}

static void a_file_that_is_missing_is_an_error(void **state)
{
    (void)state;
    struct benchmark_file f;
    struct err e;
    assert_true(benchmark_open(&f, "/nowhere/x.jsonl", NULL, &e) < 0);
    assert_non_null(strstr(e.text, "/nowhere/x.jsonl"));
    assert_true(benchmark_open(&f, "/tmp", NULL, &e) < 0);
}

static void a_long_line_is_read(void **state)
{
    (void)state;
    struct str text = {0};
    struct benchmark_file f;
    struct item item = {0};
    struct err e;
    str_puts(&text, "{\"question\": \"q\", \"answers\": [\"a\"], \"context\": \"");
    str_reserve(&text, 11 << 20);
    while (text.n < 10 << 20) str_puts(&text, "All work and no play \\u00e9 \xC3\xA9\\n");
    str_puts(&text, "\"}\n");
    const char *path = write_file("long.jsonl", text.data, text.n);
    assert_int_equal(benchmark_open(&f, path, NULL, &e), 0);
    assert_int_equal(benchmark_next(&f, &item, &e), 1);
    assert_true(item.context.n > 8 << 20);
    assert_int_equal(benchmark_next(&f, &item, &e), 0);
    benchmark_close(&f);
    item_release(&item);
    unlink(path);
    str_release(&text);
}

/* ---- cutting --------------------------------------------------------------------------------- */

static struct tokenizer *open_tokenizer(void)
{
    struct gguf *g;
    struct tokenizer *t;
    struct err e;
    assert_int_equal(gguf_open(&g, "quant/demo/retain-demo.gguf", &e), 0);
    assert_int_equal(tokenizer_open(&t, g, &e), 0);
    gguf_close(g);
    return t;
}

static void set(struct item *it, enum item_cut cut, const char *context)
{
    item_clear(it);
    str_puts(&it->before, "Read this. ");
    str_puts(&it->context, context);
    str_puts(&it->after, " Now answer.");
    it->cut = cut;
}

static void a_long_prompt_is_cut_as_its_benchmark_does(void **state)
{
    (void)state;
    struct tokenizer *t = open_tokenizer();
    struct item it = {0};
    struct str text = {0};
    struct err e;
    int64_t n;
    for (int i = 0; i < 300; i++) str_printf(&text, "w%d \xC3\xA9\xE2\x98\x95 ", i);
    static const enum item_cut cuts[] = {ITEM_CUT_MIDDLE, ITEM_CUT_END, ITEM_CUT_WORDS,
                                         ITEM_CUT_FIRST_WORDS};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        set(&it, cuts[i], str_get(&text));
        assert_int_equal(item_count(&it, t, &n, &e), 0);
        assert_true(n > 600);
        assert_int_equal(item_cut(&it, t, 400, &e), 0);
        assert_int_equal(item_count(&it, t, &n, &e), 0);
        assert_in_range(n, 150, 420); /* L-Eval leaves the question out of account */
        const char *left = str_get(&it.context);
        bool first = strstr(left, "w1 ") != NULL, last = strstr(left, "w299 ") != NULL;
        assert_int_equal(first, cuts[i] != ITEM_CUT_FIRST_WORDS);
        assert_int_equal(last, cuts[i] == ITEM_CUT_MIDDLE || cuts[i] == ITEM_CUT_FIRST_WORDS);
    }
    set(&it, ITEM_CUT_MIDDLE, "short");
    assert_int_equal(item_cut(&it, t, 400, &e), 0);
    assert_string_equal(str_get(&it.context), "short");
    str_release(&text);
    item_release(&it);
    tokenizer_close(t);
}

static void the_oldest_turns_go_but_not_the_date(void **state)
{
    (void)state;
    struct tokenizer *t = open_tokenizer();
    struct item it = {0};
    struct err e;
    set(&it, ITEM_CUT_START,
        "DATE: 1 May\nCONVERSATION:\nA said, \"one\"\nDATE: 2 May\nCONVERSATION:\n"
        "A said, \"two two two two two two two\"\nB said, \"three\"\nA said, \"four\"\n");
    int64_t n;
    assert_int_equal(item_count(&it, t, &n, &e), 0);
    struct item last = {0};
    set(&last, ITEM_CUT_START, "B said, \"three\"\nA said, \"four\"\n");
    int64_t n_last;
    assert_int_equal(item_count(&last, t, &n_last, &e), 0);
    assert_int_equal(item_cut(&it, t, n_last + 2, &e), 0);
    assert_string_equal(str_get(&it.context), "DATE: 2 May\nCONVERSATION:\nB said, \"three\"\n"
                                              "A said, \"four\"\n");
    item_release(&it);
    item_release(&last);
    tokenizer_close(t);
}

int main(void)
{
    if (!mkdtemp(folder)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_are_those_of_the_programs),
        cmocka_unit_test(wrong_lines_are_named),
        cmocka_unit_test(wrong_fields_are_named),
        cmocka_unit_test(every_format_names_its_damaged_lines),
        cmocka_unit_test(a_file_that_is_missing_is_an_error),
        cmocka_unit_test(a_long_line_is_read),
        cmocka_unit_test(a_long_prompt_is_cut_as_its_benchmark_does),
        cmocka_unit_test(the_oldest_turns_go_but_not_the_date),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    static const char *const folders[] = {"niah_multivalue", "vt", "cwe", "qa_1", ""};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", folder, folders[i]);
        rmdir(path);
    }
    return failed;
}
