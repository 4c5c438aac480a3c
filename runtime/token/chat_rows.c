/* One table; each row gives, as plain strings, the marks around each role's text. For files without
 * a template, or with one that cannot be run. Rendering and encoding walk the same list of spans,
 * so that the tests compare exactly the text that the model reads.
 *
 * Formats: the models' own templates; where llama.cpp has a renderer for a family, its output. */
#include <ctype.h>
#include <string.h>

#include "runtime/token/chat_parts.h"

#define USERS    "<\xE7\x94\xA8\xE6\x88\xB7>"            /* MiniCPM's mark, "user" in Chinese */
#define BAR      "\xEF\xBD\x9C"                          /* DeepSeek's wide bar … */
#define SENTENCE "end\xE2\x96\x81of\xE2\x96\x81sentence" /* … and blanks */

/* Order matters: the first row whose signs all occur is taken. */
static const struct chat_template rows[] = {
    {.name = "retain",
     .signs = {"'|> ' + message['content'] + '<|end|>'"},
     .system = {"<|system|> ", "<|end|>"},
     .user = {"<|user|> ", "<|end|>"},
     .generation = "<|assistant|>",
     .lead = " ",
     .end = "<|end|>"},
    {.name = "phi4",
     .signs = {"<|im_start|>", "<|im_sep|>"},
     .system = {"<|im_start|>system<|im_sep|>", "<|im_end|>"},
     .user = {"<|im_start|>user<|im_sep|>", "<|im_end|>"},
     .generation = "<|im_start|>assistant<|im_sep|>",
     .end = "<|im_end|>"},
    {.name = "chatml",
     .signs = {"<|im_start|>"},
     .system = {"<|im_start|>system\n", "<|im_end|>\n"},
     .user = {"<|im_start|>user\n", "<|im_end|>\n"},
     .generation = "<|im_start|>assistant\n",
     .end = "<|im_end|>",
     .after = "\n"},
    {.name = "mistral-v7",
     .signs = {"[INST]", "[SYSTEM_PROMPT]"},
     .system = {"[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]"},
     .user = {"[INST] ", "[/INST]"},
     .lead = " ",
     .end = "</s>"},
    {.name = "mistral-v1",
     .signs = {"' [INST] ' + system_message"},
     .system = {"", "\n\n"},
     .system_inside = true,
     .user = {" [INST] ", " [/INST]"},
     .lead = " ",
     .end = "</s>"},
    {.name = "mistral-v3-tekken",
     .signs = {"[AVAILABLE_TOOLS]", "\"[INST]\""},
     .system = {"", "\n\n"},
     .system_inside = true,
     .user = {"[INST]", "[/INST]"},
     .end = "</s>"},
    {.name = "mistral-v3",
     .signs = {"[AVAILABLE_TOOLS]"},
     .system = {"", "\n\n"},
     .system_inside = true,
     .user = {"[INST] ", "[/INST]"},
     .lead = " ",
     .end = "</s>",
     .trim = TRIM_ASSISTANT},
    {.name = "llama2",
     .signs = {"[INST]", "<<SYS>>", "strip()"},
     .system = {"<<SYS>>\n", "\n<</SYS>>\n\n"},
     .system_inside = true,
     .again = "<s>",
     .user = {"[INST] ", " [/INST]"},
     .lead = " ",
     .end = " </s>",
     .trim = TRIM_ALL},
    {.name = "llama2-untrimmed",
     .signs = {"[INST]", "<<SYS>>"},
     .system = {"<<SYS>>\n", "\n<</SYS>>\n\n"},
     .system_inside = true,
     .again = "<s>",
     .user = {"[INST] ", " [/INST]"},
     .lead = " ",
     .end = " </s>"},
    {.name = "mistral",
     .signs = {"[INST]"},
     .system = {"", "\n"},
     .system_inside = true,
     .user = {"[INST] ", " [/INST]"},
     .end = "</s>"},
    {.name = "phi3",
     .signs = {"<|assistant|>", "<|end|>"},
     .system = {"<|system|>\n", "<|end|>\n"},
     .user = {"<|user|>\n", "<|end|>\n"},
     .generation = "<|assistant|>\n",
     .end = "<|end|>",
     .after = "\n"},
    {.name = "chatglm4",
     .signs = {"[gMASK]<sop>"},
     .begin = "[gMASK]<sop>",
     .system = {"<|system|>\n", ""},
     .user = {"<|user|>\n", ""},
     .generation = "<|assistant|>\n"},
    {.name = "stablelm",
     .signs = {"<|user|>", "<|endoftext|>"},
     .system = {"<|system|>\n", "<|endoftext|>\n"},
     .user = {"<|user|>\n", "<|endoftext|>\n"},
     .generation = "<|assistant|>\n",
     .end = "<|endoftext|>",
     .after = "\n"},
    {.name = "olmo2", /* and Tulu */
     .signs = {"<|user|>", "<|assistant|>", "message['content'] + '"},
     .system = {"<|system|>\n", "\n"},
     .user = {"<|user|>\n", "\n"},
     .generation = "<|assistant|>\n",
     .end = "<|endoftext|>",
     .after = "\n"},
    {.name = "zephyr", /* and TinyLlama */
     .signs = {"<|user|>", "<|assistant|>", "eos_token"},
     .system = {"<|system|>\n", "</s>\n"},
     .user = {"<|user|>\n", "</s>\n"},
     .generation = "<|assistant|>\n",
     .end = "</s>",
     .after = "\n"},
    {.name = "gemma",
     .signs = {"<start_of_turn>"},
     .system = {"", "\n\n"},
     .system_inside = true,
     .user = {"<start_of_turn>user\n", "<end_of_turn>\n"},
     .generation = "<start_of_turn>model\n",
     .end = "<end_of_turn>",
     .after = "\n",
     .trim = TRIM_ALL},
    {.name = "openchat",
     .signs = {"GPT4 Correct "},
     .system = {"", "<|end_of_turn|>"},
     .user = {"GPT4 Correct User: ", "<|end_of_turn|>"},
     .generation = "GPT4 Correct Assistant:",
     .lead = " ",
     .end = "<|end_of_turn|>"},
    {.name = "vicuna",
     .signs = {"USER: ", "ASSISTANT: "},
     .system = {"", "\n\n"},
     .user = {"USER: ", "\n"},
     .generation = "ASSISTANT:",
     .lead = " ",
     .end = "</s>",
     .after = "\n"},
    {.name = "deepseek-coder",
     .signs = {"### Instruction:", "<|EOT|>"},
     .user = {"### Instruction:\n", "\n"},
     .generation = "### Response:\n",
     .end = "\n<|EOT|>",
     .after = "\n"},
    {.name = "command-r",
     .signs = {"<|START_OF_TURN_TOKEN|>", "<|USER_TOKEN|>"},
     .system = {"<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>", "<|END_OF_TURN_TOKEN|>"},
     .user = {"<|START_OF_TURN_TOKEN|><|USER_TOKEN|>", "<|END_OF_TURN_TOKEN|>"},
     .generation = "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
     .end = "<|END_OF_TURN_TOKEN|>",
     .trim = TRIM_ALL},
    {.name = "llama3",
     .signs = {"<|start_header_id|>", "<|end_header_id|>"},
     .system = {"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>"},
     .user = {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"},
     .generation = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .end = "<|eot_id|>",
     .trim = TRIM_ALL},
    {.name = "minicpm",
     .signs = {USERS},
     .user = {USERS, ""},
     .generation = "<AI>",
     .trim = TRIM_ALL},
    {.name = "deepseek-v3",
     .signs = {"<" BAR "Assistant" BAR ">", "<" BAR "User" BAR ">"},
     .system = {"", "\n\n"},
     .user = {"<" BAR "User" BAR ">", ""},
     .generation = "<" BAR "Assistant" BAR ">",
     .end = "<" BAR SENTENCE BAR ">"},
    {.name = "granite",
     .signs = {"<|start_of_role|>"},
     .system = {"<|start_of_role|>system<|end_of_role|>", "<|end_of_text|>\n"},
     .user = {"<|start_of_role|>user<|end_of_role|>", "<|end_of_text|>\n"},
     .generation = "<|start_of_role|>assistant<|end_of_role|>",
     .end = "<|end_of_text|>",
     .after = "\n"},
};
#define N_ROWS (sizeof rows / sizeof *rows)

const char *chat_template_names(void)
{
    return "retain, chatml, llama3, llama2, llama2-untrimmed, mistral, mistral-v1, mistral-v3, "
           "mistral-v3-tekken, mistral-v7, phi3, phi4, zephyr, stablelm, gemma, openchat, vicuna, "
           "deepseek-coder, deepseek-v3, command-r, minicpm, chatglm4, granite, olmo2";
}

const struct chat_template *chat_template_named(const char *name)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (!strcmp(rows[i].name, name)) return &rows[i];
    return NULL;
}

static bool fits(const struct chat_template *c, const char *source, size_t n)
{
    for (size_t i = 0; i < sizeof c->signs / sizeof *c->signs && c->signs[i]; i++)
        if (!memmem(source, n, c->signs[i], strlen(c->signs[i]))) return false;
    return true;
}

const struct chat_template *chat_template_nearest(const char *source, size_t n, bool *guessed)
{
    *guessed = false;
    for (size_t i = 0; i < N_ROWS; i++)
        if (n > 0 && fits(&rows[i], source, n)) return &rows[i];
    *guessed = true;
    return chat_template_named("chatml");
}

const char *chat_row_before(const struct chat_template *c, enum chat_role role, bool with_system)
{
    const char *mark = role == CHAT_ASSISTANT            ? c->lead
                       : with_system && c->system_inside ? c->system[1]
                                                         : c->user[0];
    return mark ? mark : "";
}

/* ---- a message as spans ---------------------------------------------------------------------- */

static void add_mark(struct chat_parts *p, const char *text)
{
    if (text) chat_parts_add(p, text, strlen(text), true);
}

static void add_text(struct chat_parts *p, const char *text, size_t n, bool trim)
{
    while (trim && n > 0 && isspace((unsigned char)text[n - 1])) n--;
    for (; trim && n > 0 && isspace((unsigned char)*text); n--) text++;
    chat_parts_add(p, text, n, false);
}

static void add_system(struct chat_parts *p, const struct chat_template *c, const char *text)
{
    add_mark(p, c->system[0]);
    add_text(p, text, strlen(text), c->trim == TRIM_ALL);
    add_mark(p, c->system[1]);
}

/* A user's message without the generation prompt, an assistant's without its end. */
static void add_message(struct chat_parts *p, const struct chat_template *c,
                        const struct chat_turn *m)
{
    if (m->first) add_mark(p, c->begin);
    if (m->role == CHAT_ASSISTANT) {
        add_mark(p, c->lead);
        add_text(p, m->text, m->n, c->trim != TRIM_NONE);
        return;
    }
    if (m->first && m->system && !c->system_inside) add_system(p, c, m->system);
    if (!m->first) add_mark(p, c->again);
    add_mark(p, c->user[0]);
    if (m->first && m->system && c->system_inside) add_system(p, c, m->system);
    add_text(p, m->text, m->n, c->trim == TRIM_ALL);
    add_mark(p, c->user[1]);
}

void chat_row_parts(const struct chat_template *c, const struct chat_turn *m, struct chat_parts *p)
{
    if (m->role == CHAT_USER && !m->first) {
        add_mark(p, c->end);
        add_mark(p, c->after);
        p->n_close = p->n;
    }
    add_message(p, c, m);
    if (m->role == CHAT_USER) add_mark(p, c->generation);
}

const char *chat_row_generation(const struct chat_template *c)
{
    return c->generation ? c->generation : "";
}

/* ---- a whole conversation -------------------------------------------------------------------- */

void chat_row_render(const struct chat_template *c, const struct chat_message *messages, size_t n,
                     bool add_generation_prompt, struct chat_parts *p)
{
    const char *system = NULL;
    /* first: no message yet; opened: the assistant's turn is open */
    bool first = true, opened = false;
    for (size_t i = 0; i < n; i++) {
        const struct chat_message *m = &messages[i];
        if (m->role == CHAT_SYSTEM) {
            system = m->text;
            continue;
        }
        struct chat_turn turn = {.role = m->role,
                                 .text = m->text,
                                 .n = strlen(m->text),
                                 .system = system,
                                 .first = first,
                                 .last = -1};
        if (m->role == CHAT_ASSISTANT && !opened) add_mark(p, c->generation);
        add_message(p, c, &turn);
        if (m->role == CHAT_ASSISTANT) {
            add_mark(p, c->end);
            add_mark(p, c->after);
        }
        bool wanted = i + 1 < n ? messages[i + 1].role == CHAT_ASSISTANT : add_generation_prompt;
        opened = m->role == CHAT_USER && wanted;
        if (opened) add_mark(p, c->generation);
        system = NULL;
        first = false;
    }
}
