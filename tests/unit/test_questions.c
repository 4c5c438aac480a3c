/* Files of questions: every field is read, what is wrong is named with its line, and metrics score
 * as the benchmarks' own programs do. */
#include "tests/test.h"

#include <math.h>

#include "quant/files/questions.h"
#include "tests/unit/json_kit.h"
#include "tests/unit/tokenizer_kit.h"

/* ---- fields ---------------------------------------------------------------------------------- */

#define TURNS "{\"turns\": [\"Hi\", \"Hello\", \"Bye\"], \"question\": \"q\", \"answers\": 7}"
#define ALL                                                                                       \
    "{\"id\": 3, \"group\": \"g\", \"before\": \"Read. \", \"context\": \"The bo\\u00e9\","       \
    "\"question\": \"Who?\", \"answers\": [\"a\", \"\xC3\xA9\"], \"prefix\": \"It is\","          \
    "\"system\": \"Be brief.\", \"metric\": \"f1\", \"max_tokens\": 5, \"raw\": true, \"more\": " \
    "{}}"

TEST(every_field_is_read)
{
    struct questions q;
    struct item it = {0};
    const char *path = write_text(path_in(folder_new(), "all.of.jsonl"), "\n" ALL "\n \n" TURNS);
    ok(questions_open(&q, path, &err));
    assert_string_equal(str_get(&q.name), "all");
    assert_int_equal(questions_next(&q, &it, &err), 1);
    assert_string_equal(str_get(&it.id), "3");
    assert_string_equal(str_get(&it.group), "g");
    assert_string_equal(str_get(&it.before), "Read. ");
    assert_string_equal(str_get(&it.context), "The bo\xC3\xA9");
    assert_string_equal(str_get(&it.after), "\n\nWho?");
    assert_string_equal(str_get(&it.prefix), "It is");
    assert_string_equal(str_get(&it.system), "Be brief.");
    assert_int_equal(it.answers.n, 2);
    assert_string_equal(it.answers.item[1], "\xC3\xA9");
    assert_string_equal(it.metric->name, "f1");
    assert_int_equal(it.n_predict, 5);
    assert_true(it.raw);
    assert_int_equal(questions_next(&q, &it, &err), 1);
    assert_int_equal(it.number, 2);
    assert_int_equal(it.line, 4);
    assert_int_equal(it.turns.n, 4);
    assert_string_equal(it.turns.item[2], "Bye");
    assert_string_equal(it.turns.item[3], "");
    assert_string_equal(str_get(&it.context), "Hi\nHello\nBye\n");
    assert_string_equal(it.answers.item[0], "7");
    assert_string_equal(it.metric->name, "contains");
    assert_string_equal(str_get(&it.prefix), "");
    assert_false(it.raw);
    ok(questions_next(&q, &it, &err));
    questions_close(&q);
    item_release(&it);
}

/* ---- what is wrong --------------------------------------------------------------------------- */

#define GOOD "{\"context\": \"c\", \"question\": \"q\", \"answers\": [\"a\"]}\n"

static void refuse(const char *name, const char *text, const char *message)
{
    struct questions_size size;
    const char *path = write_text(path_in(folder_new(), name), text);
    int rc = questions_check(path, &size, &err);
    if (rc >= 0 || !strstr(err.text, message) || strchr(err.text, '\n'))
        print_message("%s: %d: %s\n", text, rc, err.text);
    assert_true(rc < 0);
    assert_non_null(strstr(err.text, message));
    assert_non_null(strstr(err.text, name));
    assert_null(strchr(err.text, '\n'));
}

TEST(wrong_lines_are_named)
{
    refuse("a.jsonl", "", "there is no JSON object");
    refuse("a.jsonl", "\n\n", "there is no JSON object");
    refuse("a.jsonl", GOOD GOOD "{\"context\": \"c\", \"ques\n" GOOD, "a.jsonl:3: expected a JSON");
    refuse("a.jsonl", GOOD "[1, 2]\n", "a.jsonl:2: expected a JSON object");
    refuse("a.jsonl", GOOD GOOD GOOD "{} x\n", "a.jsonl:4: ");
    refuse("a.jsonl", GOOD "{\"context\": \"\xff\"}\n",
           "a.jsonl:2: this byte of the line is not UTF-8: 14");
    refuse("a.jsonl", "[" GOOD "]", "a.jsonl:1: expected a JSON object");
}

#define Q "{\"context\": \"c\", \"question\": \"q\", "

TEST(wrong_fields_are_named)
{
    static const char *const rows[][2] = {
        {"{\"question\": \"q\", \"answers\": \"a\"}", "no field \"context\""},
        {"{\"context\": {}, \"question\": \"q\", \"answers\": \"a\"}",
         "\"context\": expected a text"},
        {"{\"context\": \"c\", \"answers\": \"a\"}", "there is no text \"question\""},
        {"{\"context\": \"c\", \"question\": [], \"answers\": \"a\"}", "no text \"question\""},
        {"{\"turns\": [1], \"question\": \"q\", \"answers\": \"a\"}", "\"turns\": expected a list"},
        {Q "\"turns\": [\"t\"], \"answers\": \"a\"}", "\"turns\": expected a list"},
        {Q "\"answers\": []}", "the list of answers is empty"},
        {Q "\"answers\": [{}]}", "an answer is no text and no number"},
        {Q "\"answer\": \"a\"}", "there is no field \"answers\""},
        {Q "\"answers\": \"a\", \"metric\": \"bleu\"}",
         "metric \"bleu\" is not known; known are: "},
        {Q "\"answers\": \"a\", \"metric\": 7}", "metric \"\" is not known"},
        {Q "\"answers\": \"a\", \"max_tokens\": 0}", "\"max_tokens\": expected a number"},
        {Q "\"answers\": \"a\", \"group\": true}", "\"group\": expected a text"},
        {Q "\"answers\": \"a\", \"options\": [\"a\"]}", "\"options\" is no field"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256], place[128];
        snprintf(text, sizeof text, GOOD "%s\n", rows[i][0]);
        refuse("a.jsonl", text, rows[i][1]);
        snprintf(place, sizeof place, "a.jsonl:2: ");
        refuse("a.jsonl", text, place);
    }
}

TEST(a_file_that_is_missing_is_an_error)
{
    struct questions f;
    assert_true(questions_open(&f, "/nowhere/x.jsonl", &err) < 0);
    assert_non_null(strstr(err.text, "/nowhere/x.jsonl"));
    assert_true(questions_open(&f, "/tmp", &err) < 0);
}

TEST(a_long_line_is_read)
{
    AUTO_STR text = {0};
    struct questions f;
    struct item item = {0};
    str_puts(&text, "{\"question\": \"q\", \"answers\": [\"a\"], \"context\": \"");
    str_reserve(&text, 11 << 20);
    while (text.n < 10 << 20) str_puts(&text, "All work and no play \\u00e9 \xC3\xA9\\n");
    str_puts(&text, "\"}\n");
    const char *path = write_file(path_in(folder_new(), "long.jsonl"), text.data, text.n);
    ok(questions_open(&f, path, &err));
    assert_int_equal(questions_next(&f, &item, &err), 1);
    assert_true(item.context.n > 8 << 20);
    ok(questions_next(&f, &item, &err));
    questions_close(&f);
    item_release(&item);
}

/* ---- cutting --------------------------------------------------------------------------------- */

TEST(a_long_prompt_loses_its_middle)
{
    AUTO_TOKENIZER *t = open_file("quant/demo/retain-demo.gguf");
    struct item it = {0};
    int64_t n;
    str_puts(&it.before, "Read this. ");
    str_puts(&it.after, " Now answer.");
    for (int i = 0; i < 300; i++) str_printf(&it.context, "w%d \xC3\xA9\xE2\x98\x95 ", i);
    ok(item_count(&it, t, &n, &err));
    assert_true(n > 600);
    ok(item_cut(&it, t, 400, &err));
    ok(item_count(&it, t, &n, &err));
    assert_in_range(n, 380, 420); /* borders may split a character's tokens */
    assert_non_null(strstr(it.context.data, "w1 "));
    assert_null(strstr(it.context.data, "w150 "));
    assert_non_null(strstr(it.context.data, "w299 "));
    item_release(&it);
    str_puts(&it.context, "short");
    ok(item_cut(&it, t, 400, &err));
    assert_string_equal(str_get(&it.context), "short");
    item_release(&it);
}

/* ---- metrics --------------------------------------------------------------------------------- */

enum { ANSWERS_MAX = 16 };

/* pair: [prediction, answers, scores]. Returns the number of scores that differ. */
static int compare_pair(const cJSON *pair)
{
    const char *answers[ANSWERS_MAX], *said = cJSON_GetArrayItem(pair, 0)->valuestring;
    const cJSON *scores = cJSON_GetArrayItem(pair, 2), *answer;
    int n = 0, n_wrong = 0;
    assert_in_range(cJSON_GetArraySize(cJSON_GetArrayItem(pair, 1)), 1, ANSWERS_MAX);
    cJSON_ArrayForEach(answer, cJSON_GetArrayItem(pair, 1)) answers[n++] = answer->valuestring;
    for (int i = 0; metric_at(i); i++) {
        double expected = cJSON_GetArrayItem(scores, i)->valuedouble;
        double got = metric_score(metric_at(i), said, answers, n);
        if (fabs(got - expected) <= 1e-6) continue;
        print_message("%s: %.9f, expected %.9f for \"%s\" and \"%s\"\n", metric_at(i)->name, got,
                      expected, said, answers[0]);
        n_wrong++;
    }
    return n_wrong;
}

TEST(every_metric_equals_the_program_it_is_from)
{
    AUTO_STR names = {0};
    AUTO_JSON *all = read_json("tests/golden/metrics.json");
    const cJSON *pair, *pairs = json_at(all, "pairs");
    int n_wrong = 0;
    metric_names(&names);
    assert_string_equal(str_get(&names), json_text(all, "metrics"));
    assert_int_equal(cJSON_GetArraySize(pairs), 250);
    cJSON_ArrayForEach(pair, pairs) n_wrong += compare_pair(pair);
    assert_int_equal(n_wrong, 0);
}
