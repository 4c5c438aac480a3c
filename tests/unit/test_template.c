/* Chat templates: equal to jinja2's output (tests/golden/make_templates.py), text from messages
 * stays marked, and a hostile template is refused quickly. */

#include "tests/test.h"

#include <time.h>

#include "runtime/template/template.h"
#include "tests/unit/json_kit.h"

/* As in make_templates.py: 4 July 2025, a Friday, 13:05:09. */
static const struct tm now = {.tm_year = 125,
                              .tm_mon = 6,
                              .tm_mday = 4,
                              .tm_hour = 13,
                              .tm_min = 5,
                              .tm_sec = 9,
                              .tm_wday = 5,
                              .tm_yday = 184};

static int render(const char *source, const struct template_input *in, struct template_prompt *out,
                  struct err *e)
{
    struct template *t;
    int rc = template_open(&t, source, strlen(source), e);
    if (!rc) rc = template_render(t, in, out, e);
    template_close(t);
    return rc;
}

/* Compares with the golden `expected`, or expects an error; returns whether it matches. */
static bool agrees(const cJSON *golden, const char *source, const cJSON *variables)
{
    struct template_input in = {.variables = variables, .now = now};
    struct template_prompt got = {0};
    const cJSON *expected = cJSON_GetObjectItem(golden, "expected");
    int rc = render(source, &in, &got, &err);
    bool same = expected ? !rc && !strcmp(got.text, expected->valuestring) : rc != 0;
    if (!same)
        print_error("%s\n expected: %s\n got:      %s\n", source,
                    expected ? expected->valuestring : "a fault", rc ? err.text : got.text);
    template_prompt_release(&got);
    return same;
}

TEST(renders_as_jinja_does)
{
    AUTO_JSON *o = read_json("tests/golden/templates.json");
    const cJSON *variables = cJSON_GetObjectItem(o, "variables"), *k;
    int n = 0, n_wrong = 0;
    cJSON_ArrayForEach(k, cJSON_GetObjectItem(o, "features"))
    {
        n++;
        n_wrong += !agrees(k, json_text(k, "template"), variables);
    }
    assert_int_equal(n_wrong, 0);
    assert_true(n >= 80);
}

static const char *source_of(const cJSON *public, const char *name)
{
    const cJSON *k;
    cJSON_ArrayForEach(k, cJSON_GetObjectItem(public, "cases"))
    {
        if (!strcmp(json_text(k, "name"), name)) return json_text(k, "template");
    }
    fail_msg("no template %s", name);
    return NULL;
}

/* The public templates, or the stand-ins where they are missing. */
TEST(renders_templates_as_jinja_does)
{
    AUTO_JSON *public = read_templates(), *o = read_json("tests/golden/templates.json");
    bool stands = cJSON_HasObjectItem(public, "stand_ins");
    const cJSON *golden = cJSON_GetObjectItem(o, stands ? "stand_ins" : "public"), *k;
    const cJSON *talks = cJSON_GetObjectItem(golden, "conversations");
    int n = 0, n_wrong = 0;
    cJSON_ArrayForEach(k, cJSON_GetObjectItem(golden, "rendered"))
    {
        const char *name = json_text(k, "template");
        const char *talk = json_text(k, "conversation");
        n++;
        n_wrong += !agrees(k, source_of(public, name), cJSON_GetObjectItem(talks, talk));
    }
    assert_int_equal(n_wrong, 0);
    assert_true(n >= 100);
}

/* ---- provenance ------------------------------------------------------------------------------ */

#define TYPED "a<|im_end|>Z" /* no template below contains upper-case letters or this mark */

static void check_marks(const char *source, const char *expected)
{
    struct template_message m = {.role = "user", .text = TYPED, .n = strlen(TYPED)};
    struct template_input in = {.messages = &m, .n_messages = 1};
    AUTO_PROMPT got;
    char shown[256] = "";
    ok(render(source, &in, &got, &err));
    for (size_t i = 0, n = 0; i < got.n && n + 3 < sizeof shown; i++) {
        bool begins = got.origin[i] && (i == 0 || !got.origin[i - 1]);
        bool ends = !got.origin[i] && i > 0 && got.origin[i - 1];
        if (begins || ends) shown[n++] = begins ? '[' : ']';
        shown[n++] = got.text[i];
        if (i + 1 == got.n && got.origin[i]) shown[n++] = ']';
    }
    assert_string_equal(shown, expected);
}

TEST(marks_what_a_message_said)
{
    check_marks("<s>{{ messages[0].content }}<e>", "<s>[a<|im_end|>Z]<e>");
    check_marks("<s>{{ '<u>' + messages[0].content + '<e>' }}", "<s><u>[a<|im_end|>Z]<e>");
    check_marks("{{ messages[0]['role'] }}:{{ messages[0]['content'][1:-1] }}",
                "user:[<|im_end|>]");
    check_marks("{{ ('  ' ~ messages[0].content ~ ' ')|trim ~ '.' }}", "[a<|im_end|>Z].");
    check_marks("{{ messages[0].content.replace('im_end', 'xx') }}", "[a<|]xx[|>Z]");
    check_marks("{{ 'ab'.replace('b', messages[0].content) }}", "a[a<|im_end|>Z]");
    check_marks("{{ messages[0].content.split('|')|join('!') }}", "[a<]![im_end]![>Z]");
    check_marks("{{ messages[0].content|upper }}<", "[A<|IM_END|>Z]<");
    check_marks("{% set x %}<{{ messages[0].content }}>{% endset %}{{ x * 2 }}",
                "<[a<|im_end|>Z]><[a<|im_end|>Z]>");
    check_marks("{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(messages[0].content)|trim }}",
                "<[a<|im_end|>Z]>");
    check_marks("{{ messages[0]|tojson }}",
                "{\"role\": \"user\", \"content\": \"[a<|im_end|>Z]\"}");
    check_marks("{{ '%s.'|format(messages[0].content) }}", "[a<|im_end|>Z].");
    check_marks("{% for c in messages[0].content[:2] %}{{ c }}.{% endfor %}", "[a].[<].");
    check_marks("{{ messages[0].content|indent(1, true) }}", " [a<|im_end|>Z]");
    check_marks("{{ messages[::-1]|map(attribute='content')|first }}", "[a<|im_end|>Z]");
}

/* ---- messages and variables ------------------------------------------------------------------ */

TEST(knows_the_usual_variables)
{
    struct template_message m[] = {{.role = "system", .text = "S", .n = 1},
                                   {.role = "user", .text = "U\0V", .n = 3}};
    AUTO_JSON *variables = cJSON_Parse("{\"enable_thinking\": false, \"n\": 1.5}");
    struct template_input in = {.messages = m,
                                .n_messages = 2,
                                .add_generation_prompt = true,
                                .bos = "<s>",
                                .variables = variables};
    struct template_prompt got;
    const char *source = "{{ bos_token }}{{ eos_token is defined }}{% for m in messages %}"
                         "{{ m.role }}{{ m['content']|length }}{% endfor %}{{ tools is none }}"
                         "{{ add_generation_prompt }}{{ enable_thinking }}{{ n }}";
    ok(render(source, &in, &got, &err));
    assert_string_equal(got.text, "<s>Falsesystem1user3TrueTrueFalse1.5");
    template_prompt_release(&got);
}

TEST(refuses_in_its_own_words)
{
    struct template_input in = {0};
    AUTO_PROMPT got;
    refused(render("{{ raise_exception('roles must alternate') }}", &in, &got, &err), ERR_USAGE,
            "roles must alternate");
    assert_int_equal(render("a\n{{ x.y }}", &in, &got, &err), ERR_FORMAT);
    assert_string_equal(err.text, "line 2 of the chat template: 'x' is undefined");
    assert_int_equal(render("\n\n{% include 'x' %}", &in, &got, &err), ERR_FORMAT);
    assert_string_equal(err.text, "line 3 of the chat template: the tag 'include' is not known");
    ok(render("{% if false %}{{ 1|shout }}{% endif %}ok", &in, &got, &err));
}

/* ---- limits ---------------------------------------------------------------------------------- */

static const char *const hostile[] = {
    "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
    "{{ 'x' * 10000000000 }}",
    "{{ 'xxxxxxxxxx' * 1000000 * 1000 }}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}"
    "{% endfor %}",
    "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}"
    "{% endfor %}",
    "{% set ns = namespace(s=[]) %}{% for i in range(100000) %}{% set ns.s = [ns.s] %}"
    "{% endfor %}{{ ns.s }}",
    "{% set l = [] %}{{ l.append(l) }}{{ l }}",
    "{% set l = [] %}{{ l.append(l) }}{{ l|tojson }}",
    "{{ ('b' * 1000000).replace('b', 'b' * 1000000) }}",
    "{% for i in range(100000) %}{{ 'x' * 100000 }}{% endfor %}",
    "{% set d = {} %}{% for i in range(100000) %}{{ d.update({i: i}) }}{% endfor %}",
    "{{ range(100000)|map('string')|unique|list|length }}",
    "{{ range(100000)|list|tojson(indent=100000) }}",
    "{{ 'x'|indent(1000000000000) }}",
    "{{ ('a,' * 1000000).split(',')|length }}",
    "{{ ('a' * 1000000).strip('b' * 1000000 + 'a') }}",
    "{{ ((range(100000)|list) * 100)|sort|length }}",
    "{% for i in range(100000) %}{{ ('a' * 9999)|upper|lower|title|length }}{% endfor %}",
};

/* CPU time: other programs may be busy. */
static double cpu_ms(void)
{
    return 1000.0 * (double)clock() / CLOCKS_PER_SEC;
}

/* Whether this build is fast: optimised, without sanitizers, not emulated (make CROSS=…). */
static bool is_fast(void)
{
    const char *emulator = getenv("RUN");
#if defined __SANITIZE_ADDRESS__ || !defined __OPTIMIZE__
    return false;
#endif
    return !emulator || !*emulator;
}

static void check_hostile(const char *source)
{
    struct template_input in = {0};
    struct template_prompt got;
    struct err e = {0};
    double before = cpu_ms();
    int rc = render(source, &in, &got, &e);
    double ms = cpu_ms() - before;
    if (rc != ERR_FORMAT || strchr(e.text, '\n') || !*e.text)
        fail_msg("%.60s: %d %s", source, rc, e.text);
    if (is_fast() && ms > 100) fail_msg("%.60s: %.0f ms", source, ms);
}

TEST(refuses_hostile_templates_soon)
{
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) check_hostile(hostile[i]);
}

/* What jinja2 refuses: a list of another length than its names, brackets that do not match, and the
 * name of the loop's own facts. */
TEST(refuses_what_jinja_does)
{
    static const char *const wrong[] = {
        "{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}",
        "{% for a, b in [[1]] %}{{ a }}{% endfor %}",
        "{% set a, b = [1, 2, 3] %}",
        "{{ (1] }}",
        "{{ [1) }}",
        "{{ {1: 2) }}",
        "{% for loop in [1] %}{{ loop }}{% endfor %}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) check_hostile(wrong[i]);
}

/* `what` n times between two ends. */
static void check_repeated(const char *begin, const char *what, int n, const char *end)
{
    size_t length = strlen(what);
    char *source = calloc(1, strlen(begin) + length * (size_t)n + strlen(end) + 1), *at = source;
    at = stpcpy(at, begin);
    for (int i = 0; i < n; i++) at = stpcpy(at, what);
    strcpy(at, end);
    check_hostile(source);
    free(source);
}

TEST(refuses_deep_sources)
{
    check_repeated("{{ ", "(", 100000, "");
    check_repeated("{{ ", "-", 100000, "1 }}");
    check_repeated("{{ ", "not ", 100000, "1 }}");
    check_repeated("{{ 1", " + 1", 50000, " }}");
    check_repeated("{{ x", ".x", 50000, " }}");
    check_repeated("{{ x", "|upper", 50000, " }}");
    check_repeated("", "{% if 1 %}", 50000, "");
    check_repeated("{{ ", "1 if 0 else ", 50000, "2 }}");
}

TEST(long_conversations_have_room)
{
    enum { N = 20000 };
    AUTO_FREE struct template_message *m = calloc(N, sizeof *m);
    AUTO_PROMPT got;
    for (int i = 0; i < N; i++)
        m[i] = (struct template_message){
            .role = i % 2 ? "assistant" : "user", .text = "Hello there, friend.", .n = 20};
    struct template_input in = {.messages = m, .n_messages = N};
    const char *source = "{% for m in messages %}{% if m.role == 'user' and not loop.last %}"
                         "{{ '<|' + m['role'] + '|>' + m.content|trim }}{% else %}"
                         "{{ m.content.split('</think>')[-1].strip() }}{% endif %}{% endfor %}";
    ok(render(source, &in, &got, &err));
    assert_int_equal(got.n, N / 2 * (8 + 20) + N / 2 * 20);
}
