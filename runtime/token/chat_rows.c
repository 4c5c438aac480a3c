/* Chat templates for model files without one, or with one that cannot be run, as Jinja text: the
 * models' own templates without tools; where llama.cpp has a renderer for a family, its output. */
#include <string.h>

#include "runtime/token/chat_parts.h"

#define USERS    "<\xE7\x94\xA8\xE6\x88\xB7>"            /* MiniCPM's mark, "user" in Chinese */
#define BAR      "\xEF\xBD\x9C"                          /* DeepSeek's wide bar … */
#define SENTENCE "end\xE2\x96\x81of\xE2\x96\x81sentence" /* … and blanks */

#define TEXT    "{{ m.content }}"
#define TRIMMED "{{ m.content | trim }}"

/* Messages by role, then the opening of an answer. */
#define EACH(system, user, answer)                                                                 \
    "{% for m in messages %}{% if m.role == 'system' %}" system "{% elif m.role == 'user' %}" user \
    "{% else %}" answer "{% endif %}{% endfor %}"
#define OPEN(text)                        "{% if add_generation_prompt %}" text "{% endif %}"
#define TURNS(system, user, open, answer) EACH(system, user, open answer) OPEN(open)

/* The system text is inside the first user's message; again: before the other ones. */
#define INSIDE(again, begin, system, user, open, answer)                                      \
    TURNS(begin system,                                                                       \
          "{% if loop.first %}" begin "{% elif loop.previtem.role != 'system' %}" again begin \
          "{% endif %}" user,                                                                 \
          open, answer)

/* For models that only continue text. Two examples make a model of 270 million weights answer twice
 * as many questions as none, or a line that describes the conversation. */
#define EXAMPLES                                                                        \
    "User: What is the capital of Spain?\nAssistant: The capital of Spain is Madrid.\n" \
    "User: How many minutes are in an hour?\nAssistant: There are 60 minutes in an hour.\n"

struct row {
    const char *name;
    const char *signs[3]; /* a template's source must contain all of them */
    const char *source;
};

/* Order matters: the first row whose signs all occur is taken. */
static const struct row rows[] = {
    {"retain",
     {"'|> ' + message['content'] + '<|end|>'"},
     TURNS("<|system|> " TEXT "<|end|>", "<|user|> " TEXT "<|end|>", "<|assistant|>",
           " " TEXT "<|end|>")},
    {"phi4",
     {"<|im_start|>", "<|im_sep|>"},
     TURNS("<|im_start|>system<|im_sep|>" TEXT "<|im_end|>",
           "<|im_start|>user<|im_sep|>" TEXT "<|im_end|>", "<|im_start|>assistant<|im_sep|>",
           TEXT "<|im_end|>")},
    {"chatml",
     {"<|im_start|>"},
     TURNS("<|im_start|>system\n" TEXT "<|im_end|>\n", "<|im_start|>user\n" TEXT "<|im_end|>\n",
           "<|im_start|>assistant\n", TEXT "<|im_end|>\n")},
    {"mistral-v7",
     {"[INST]", "[SYSTEM_PROMPT]"},
     TURNS("[SYSTEM_PROMPT] " TEXT "[/SYSTEM_PROMPT]", "[INST] " TEXT "[/INST]", "",
           " " TEXT "</s>")},
    {"mistral-v1",
     {"' [INST] ' + system_message"},
     INSIDE("", " [INST] ", TEXT "\n\n", TEXT " [/INST]", "", " " TEXT "</s>")},
    {"mistral-v3-tekken",
     {"[AVAILABLE_TOOLS]", "\"[INST]\""},
     INSIDE("", "[INST]", TEXT "\n\n", TEXT "[/INST]", "", TEXT "</s>")},
    {"mistral-v3",
     {"[AVAILABLE_TOOLS]"},
     INSIDE("", "[INST] ", TEXT "\n\n", TEXT "[/INST]", "", " " TRIMMED "</s>")},
    {"llama2",
     {"[INST]", "<<SYS>>", "strip()"},
     INSIDE("<s>", "[INST] ", "<<SYS>>\n" TRIMMED "\n<</SYS>>\n\n", TRIMMED " [/INST]", "",
            " " TRIMMED " </s>")},
    {"llama2-untrimmed",
     {"[INST]", "<<SYS>>"},
     INSIDE("<s>", "[INST] ", "<<SYS>>\n" TEXT "\n<</SYS>>\n\n", TEXT " [/INST]", "",
            " " TEXT " </s>")},
    {"mistral", {"[INST]"}, INSIDE("", "[INST] ", TEXT "\n", TEXT " [/INST]", "", TEXT "</s>")},
    {"phi3",
     {"<|assistant|>", "<|end|>"},
     TURNS("<|system|>\n" TEXT "<|end|>\n", "<|user|>\n" TEXT "<|end|>\n", "<|assistant|>\n",
           TEXT "<|end|>\n")},
    {"chatglm4",
     {"[gMASK]<sop>"},
     "[gMASK]<sop>" TURNS("<|system|>\n" TEXT, "<|user|>\n" TEXT, "<|assistant|>\n", TEXT)},
    {"stablelm",
     {"<|user|>", "<|endoftext|>"},
     TURNS("<|system|>\n" TEXT "<|endoftext|>\n", "<|user|>\n" TEXT "<|endoftext|>\n",
           "<|assistant|>\n", TEXT "<|endoftext|>\n")},
    {"olmo2", /* and Tulu */
     {"<|user|>", "<|assistant|>", "message['content'] + '"},
     TURNS("<|system|>\n" TEXT "\n", "<|user|>\n" TEXT "\n", "<|assistant|>\n",
           TEXT "<|endoftext|>\n")},
    {"zephyr", /* and TinyLlama */
     {"<|user|>", "<|assistant|>", "eos_token"},
     TURNS("<|system|>\n" TEXT "</s>\n", "<|user|>\n" TEXT "</s>\n", "<|assistant|>\n",
           TEXT "</s>\n")},
    {"gemma",
     {"<start_of_turn>"},
     INSIDE("", "<start_of_turn>user\n", TRIMMED "\n\n", TRIMMED "<end_of_turn>\n",
            "<start_of_turn>model\n", TRIMMED "<end_of_turn>\n")},
    {"openchat",
     {"GPT4 Correct "},
     TURNS(TEXT "<|end_of_turn|>", "GPT4 Correct User: " TEXT "<|end_of_turn|>",
           "GPT4 Correct Assistant:", " " TEXT "<|end_of_turn|>")},
    {"vicuna",
     {"USER: ", "ASSISTANT: "},
     TURNS(TEXT "\n\n", "USER: " TEXT "\n", "ASSISTANT:", " " TEXT "</s>\n")},
    {"deepseek-coder",
     {"### Instruction:", "<|EOT|>"},
     TURNS(TEXT, "### Instruction:\n" TEXT "\n", "### Response:\n", TEXT "\n<|EOT|>\n")},
    {"command-r",
     {"<|START_OF_TURN_TOKEN|>", "<|USER_TOKEN|>"},
     TURNS("<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>" TRIMMED "<|END_OF_TURN_TOKEN|>",
           "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>" TRIMMED "<|END_OF_TURN_TOKEN|>",
           "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", TRIMMED "<|END_OF_TURN_TOKEN|>")},
    {"llama3",
     {"<|start_header_id|>", "<|end_header_id|>"},
     TURNS("<|start_header_id|>system<|end_header_id|>\n\n" TRIMMED "<|eot_id|>",
           "<|start_header_id|>user<|end_header_id|>\n\n" TRIMMED "<|eot_id|>",
           "<|start_header_id|>assistant<|end_header_id|>\n\n", TRIMMED "<|eot_id|>")},
    {"minicpm", {USERS}, TURNS(TRIMMED, USERS TRIMMED, "<AI>", TRIMMED)},
    {"deepseek-v3",
     {"<" BAR "Assistant" BAR ">", "<" BAR "User" BAR ">"},
     TURNS(TEXT "\n\n", "<" BAR "User" BAR ">" TEXT, "<" BAR "Assistant" BAR ">",
           TEXT "<" BAR SENTENCE BAR ">")},
    {"granite",
     {"<|start_of_role|>"},
     TURNS("<|start_of_role|>system<|end_of_role|>" TEXT "<|end_of_text|>\n",
           "<|start_of_role|>user<|end_of_role|>" TEXT "<|end_of_text|>\n",
           "<|start_of_role|>assistant<|end_of_role|>", TEXT "<|end_of_text|>\n")},
    {"plain",
     {0}, /* no file's template is like it */
     EXAMPLES TURNS(TRIMMED "\n\n", "User: " TRIMMED "\n", "Assistant:", " " TRIMMED "\n")},
};
#define N_ROWS (sizeof rows / sizeof *rows)

const char *chat_template_names(void)
{
    return "retain, chatml, llama3, llama2, llama2-untrimmed, mistral, mistral-v1, mistral-v3, "
           "mistral-v3-tekken, mistral-v7, phi3, phi4, zephyr, stablelm, gemma, openchat, vicuna, "
           "deepseek-coder, deepseek-v3, command-r, minicpm, chatglm4, granite, olmo2, plain";
}

static const struct row *find(const char *name)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (!strcmp(rows[i].name, name)) return &rows[i];
    return NULL;
}

bool chat_template_known(const char *name, struct err *e)
{
    if (find(name)) return true;
    err_set(e, ERR_USAGE, "--template %s is not known; known are: %s", name, chat_template_names());
    return false;
}

int chat_template_named(struct chat_template **out, const char *name, const struct tokenizer *t,
                        struct err *e)
{
    if (!chat_template_known(name, e)) return ERR_USAGE;
    const struct row *r = find(name);
    int rc = chat_template_open(out, r->source, strlen(r->source), t, e);
    if (!rc) (*out)->name = r->name;
    return rc;
}

static bool fits(const struct row *r, const char *source, size_t n)
{
    for (size_t i = 0; i < sizeof r->signs / sizeof *r->signs && r->signs[i]; i++)
        if (n == 0 || !memmem(source, n, r->signs[i], strlen(r->signs[i]))) return false;
    return true;
}

const char *chat_template_nearest(const char *source, size_t n)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (*rows[i].signs && fits(&rows[i], source, n)) return rows[i].name;
    return "chatml";
}
