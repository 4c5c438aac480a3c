/* Thoughts are told from answers, however their tokens divide the marks; the same characters in
 * other tokens are text. Expected texts are written by hand. */

#include "tests/test.h"

#include "runtime/token/thought.h"
#include "tests/unit/tokenizer_kit.h"

/* Marks that are tokens of the vocabulary: 3 control tokens, 4 user-defined ones. */
static const struct word marks[] = {
    {"<think>", 4, 0},          {"</think>", 4, 0},           {"<|channel|>", 3, 0},
    {"<|message|>", 3, 0},      {"<|start|>", 3, 0},          {"<|end|>", 3, 0},
    {"<|return|>", 3, 0},       {"<|channel>", 3, 0},         {"<channel|>", 3, 0},
    {"[THINK]", 3, 0},          {"[/THINK]", 3, 0},           {"<|START_THINKING|>", 3, 0},
    {"<|END_THINKING|>", 3, 0}, {"<|START_RESPONSE|>", 3, 0},
};
enum { N_MARKS = sizeof marks / sizeof *marks };

static struct tokenizer *open_marks(int n_marks)
{
    static struct word words[N_MARKS + 256];
    struct maker m = {0};
    memcpy(words, marks, (size_t)n_marks * sizeof *marks);
    byte_words(words + n_marks);
    maker_str(&m, "tokenizer.ggml.model", "gpt2");
    maker_str(&m, "tokenizer.ggml.pre", "gpt-2");
    maker_words(&m, words, (size_t)n_marks + 256);
    maker_array(&m, "tokenizer.ggml.merges", GGUF_STRING, 1);
    put_text(&m.keys, "t h", 3);
    return open_made(&m);
}

static void encode(const struct tokenizer *t, const char *text, bool trusted, struct tokens *ids)
{
    struct tokenizer_span span = {text, strlen(text), trusted};
    ok(tokenizer_encode(t, &span, 1, false, ids, &err));
}

static void take(struct thought_reader *r, int32_t id, struct str *thought, struct str *answer)
{
    size_t n;
    const char *bytes = tokenizer_bytes(r->tokenizer, id, false, &n);
    thought_take(r, id, bytes, n, thought, answer);
}

#define AUTO_READER __attribute__((cleanup(thought_release))) struct thought_reader

/* ---- telling --------------------------------------------------------------------------------- */

struct example {
    const char *source; /* of the template: tells which marks the model uses */
    const char *prompt, *generated;
    const char *thought, *answer;
};

#define THINK   "<think></think>"
#define HARMONY "<|channel|>analysis<|message|> <|end|>"
#define GEMMA   "<|channel>thought <channel|>"

static const struct example examples[] = {
    {THINK, "hi", "<think>\nSo it is.\n</think>\n\nYes.", "So it is.", "Yes."},
    {THINK, "hi<think>\n", "So it is.\n</think>\n\nYes.", "So it is.", "Yes."},
    {THINK, "hi<think>\n\n</think>\n\n", "Yes.", "", "Yes."},
    {THINK, "hi", "Yes, <think>no</think>.", "", "Yes, <think>no</think>."},
    {THINK, "hi", "\n  Yes.", "", "\n  Yes."},
    {THINK, "hi", "<think>\n\n</think>\n\nYes.", "", "Yes."},
    {THINK, "hi", "<think>a < b </ c\n\n d</think>e", "a < b </ c\n\n d", "e"},
    {THINK, "hi", "<think>never ends ", "never ends", ""},
    {THINK, "hi", "<thin", "", "<thin"},
    {THINK, "hi", "", "", ""},
    {THINK, "hi", "<think>a</think><response>b", "a", "b"},
    {HARMONY, "hi<|start|>assistant",
     "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
     "Hm.", "Yes."},
    {HARMONY, "hi<|start|>assistant", "<|channel|>final<|message|>Yes.", "", "Yes."},
    {HARMONY, "hi<|start|>assistant",
     "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary<|message|>b"
     "<|end|><|start|>assistant<|channel|>final<|message|>c",
     "ab", "c"},
    {GEMMA, "hi", "<|channel>thought\nHm.\n<channel|>Yes.", "Hm.", "Yes."},
    {"[THINK][/THINK]", "hi", "[THINK]Hm.[/THINK]Yes.", "Hm.", "Yes."},
    {"<|START_THINKING|><|END_THINKING|>", "hi",
     "<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>Yes.", "Hm.", "Yes."},
    {"no marks", "hi", "plain", "", "plain"},
};

/* With marks that are single tokens, or, n_marks 0, that are text in several. */
static void tell(const struct tokenizer *t, const struct example *x)
{
    const struct thought_format *f = thought_format_find(x->source, strlen(x->source), t);
    AUTO_READER r = {0};
    AUTO_TOKENS prompt = {0}, ids = {0};
    AUTO_STR thought = {0}, answer = {0};
    encode(t, x->prompt, true, &prompt);
    encode(t, x->generated, true, &ids);
    thought_begin(&r, f, t, prompt.ids, prompt.n);
    for (size_t i = 0; i < ids.n; i++) take(&r, ids.ids[i], &thought, &answer);
    thought_end(&r, &thought, &answer);
    if (strcmp(str_get(&thought), x->thought) || strcmp(str_get(&answer), x->answer))
        fail_msg("%s\n thought: '%s'\n answer: '%s'", x->generated, str_get(&thought),
                 str_get(&answer));
}

TEST(tells_thoughts_from_answers)
{
    for (int n_marks = 0; n_marks <= N_MARKS; n_marks += N_MARKS) {
        AUTO_TOKENIZER *t = open_marks(n_marks);
        for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) tell(t, &examples[i]);
    }
}

/* The vocabulary has the marks as tokens, and the model writes the characters in others. */
TEST(characters_are_no_marks)
{
    AUTO_TOKENIZER *t = open_marks(N_MARKS);
    AUTO_READER r = {0};
    AUTO_TOKENS ids = {0};
    AUTO_STR thought = {0}, answer = {0};
    const struct thought_format *f = thought_format_find(NULL, 0, t);
    assert_non_null(f);
    f = thought_format_find(THINK, strlen(THINK), t);
    encode(t, "<think>", true, &ids);
    encode(t, "a</think>b", false, &ids);
    encode(t, "</think>", true, &ids);
    encode(t, "c", true, &ids);
    thought_begin(&r, f, t, NULL, 0);
    for (size_t i = 0; i < ids.n; i++) take(&r, ids.ids[i], &thought, &answer);
    assert_string_equal(str_get(&thought), "a</think>b");
    assert_string_equal(str_get(&answer), "c");
}

/* Text is passed on as soon as it cannot be part of a mark. */
TEST(holds_little_back)
{
    static const char generated[] = "<think>one </thin two</think>";
    AUTO_TOKENIZER *t = open_marks(0);
    AUTO_READER r = {0};
    AUTO_TOKENS ids = {0};
    AUTO_STR thought = {0}, answer = {0};
    thought_begin(&r, thought_format_find(THINK, strlen(THINK), t), t, NULL, 0);
    encode(t, generated, true, &ids);
    for (size_t i = 0; i < ids.n; i++) {
        take(&r, ids.ids[i], &thought, &answer);
        if (i == 9) assert_string_equal(str_get(&thought), "one");
        if (i == 16) assert_string_equal(str_get(&thought), "one");
        if (i == 18) assert_string_equal(str_get(&thought), "one </thin t");
    }
    assert_int_equal(r.state, THOUGHT_OVER);
}
