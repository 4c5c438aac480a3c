/* One table; each row gives, as plain strings, the marks around each role's text. Rendering and
 * encoding walk the same list of spans, so that the tests compare exactly the text that the model
 * reads.
 *
 * Formats: the models' own templates; where llama.cpp has a renderer for a family, its output. */
#include "runtime/token/chat_template.h"

#include <ctype.h>
#include <string.h>

enum trim { TRIM_NONE, TRIM_ASSISTANT, TRIM_ALL };

struct chat_template {
    const char *name;
    const char *signs[3]; /* a template's source must contain all of them */
    const char *begin;    /* before the first message */
    const char *system[2];
    /* the system text is part of the first user message, in front of its text */
    bool system_inside;
    const char *again; /* before every user message but the first */
    const char *user[2];
    const char *generation; /* opens the assistant's turn */
    /* what the template puts before the model's text: a space, or nothing */
    const char *lead;
    const char *end;   /* closes the assistant's turn; the model generates it too */
    const char *after; /* added after that by the template, never by the model */
    enum trim trim;    /* how white space around texts is trimmed */
};

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

const char *chat_role_name(enum chat_role role)
{
    static const char *const names[CHAT_ROLES] = {"system", "user", "assistant"};
    return names[role];
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

const struct chat_template *chat_template_detect(const char *source, size_t n, bool *guessed)
{
    *guessed = false;
    for (size_t i = 0; i < N_ROWS; i++)
        if (n > 0 && fits(&rows[i], source, n)) return &rows[i];
    *guessed = true;
    return chat_template_named("chatml");
}

const char *chat_template_name(const struct chat_template *t)
{
    return t->name;
}

const char *chat_before(const struct chat_template *t, enum chat_role role, bool with_system)
{
    const char *mark = role == CHAT_SYSTEM               ? t->system[0]
                       : role == CHAT_ASSISTANT          ? t->lead
                       : with_system && t->system_inside ? t->system[1]
                                                         : t->user[0];
    return mark ? mark : "";
}

/* ---- a message as spans ---------------------------------------------------------------------- */

#define SPANS_MAX 12

struct parts {
    struct tokenizer_span spans[SPANS_MAX];
    size_t n;
};

static void add_mark(struct parts *p, const char *text)
{
    if (text && *text)
        p->spans[p->n++] =
            (struct tokenizer_span){.text = text, .n = strlen(text), .trusted = true};
}

static void add_text(struct parts *p, const char *text, size_t n, bool trim)
{
    while (trim && n > 0 && isspace((unsigned char)text[n - 1])) n--;
    for (; trim && n > 0 && isspace((unsigned char)*text); n--) text++;
    p->spans[p->n++] = (struct tokenizer_span){.text = text, .n = n, .trusted = false};
}

static void add_system(struct parts *p, const struct chat_template *c, const char *text)
{
    add_mark(p, c->system[0]);
    add_text(p, text, strlen(text), c->trim == TRIM_ALL);
    add_mark(p, c->system[1]);
}

/* Appends one message; a user's without the generation prompt, an assistant's without its end. */
static void add_message(struct parts *p, const struct chat_template *c, enum chat_role role,
                        const char *text, size_t n, const char *system, bool first)
{
    if (first) add_mark(p, c->begin);
    if (role == CHAT_SYSTEM) {
        add_mark(p, c->system[0]);
        add_text(p, text, n, c->trim == TRIM_ALL);
        add_mark(p, c->system[1]);
    } else if (role == CHAT_USER) {
        if (system && !c->system_inside) add_system(p, c, system);
        if (!first) add_mark(p, c->again);
        add_mark(p, c->user[0]);
        if (system && c->system_inside) add_system(p, c, system);
        add_text(p, text, n, c->trim == TRIM_ALL);
        add_mark(p, c->user[1]);
    } else {
        add_mark(p, c->lead);
        add_text(p, text, n, c->trim != TRIM_NONE);
    }
}

/* ---- encoding -------------------------------------------------------------------------------- */

/* Whether the text after these marks follows a special token: an SPM vocabulary then wants a space.
 * The tokenizer decides, because some tokens swallow the line break after them. */
static bool end_special(const struct tokenizer *t, const struct parts *marks)
{
    struct tokens ids = {0};
    size_t n_plain = 1, n = 0;
    if (!tokenizer_encode(t, marks->spans, marks->n, false, &ids, NULL) && ids.n > 0) {
        tokenizer_bytes(t, ids.ids[ids.n - 1], false, &n_plain);
        tokenizer_bytes(t, ids.ids[ids.n - 1], true, &n);
    }
    tokens_release(&ids);
    return n_plain == 0 && n > 0;
}

/* Whether the text of a message that isn't the first follows a special token directly. */
static bool follows_special(const struct chat_template *c, const struct tokenizer *t,
                            enum chat_role role)
{
    struct parts before = {0};
    if (role == CHAT_ASSISTANT) {
        add_mark(&before, c->generation);
    } else {
        add_mark(&before, c->end);
        add_mark(&before, c->after);
    }
    return end_special(t, &before);
}

int chat_encode(const struct chat_template *c, const struct tokenizer *t, enum chat_role role,
                const char *text, size_t n, const char *system, bool first, struct tokens *out,
                struct err *e)
{
    struct parts p = {0};
    if (role == CHAT_SYSTEM && c->system_inside)
        return err_set(e, ERR_USAGE,
                       "the %s format has no separate system message: pass its text together with "
                       "the first user message",
                       c->name);
    add_message(&p, c, role, text, n, system, first);
    if (role == CHAT_USER) add_mark(&p, c->generation);
    size_t before = out->n;
    if (first && tokenizer_add_bos(t)) tokens_push(out, tokenizer_bos(t));
    bool prefix = first || follows_special(c, t, role);
    int rc = tokenizer_encode(t, p.spans, p.n, prefix, out, e);
    if (rc) out->n = before;
    return rc;
}

int chat_close(const struct chat_template *c, const struct tokenizer *t, int32_t last,
               struct tokens *out, struct err *e)
{
    struct parts p = {0};
    struct tokens ids = {0};
    add_mark(&p, c->end);
    add_mark(&p, c->after);
    int rc = tokenizer_encode(t, p.spans, p.n, false, &ids, e);
    /* Encoded with the end token in front even if the conversation has it already: the tokens after
     * it may depend on it. */
    size_t from = 0;
    for (size_t i = 0; i < ids.n && tokenizer_is_end(t, last) && from == 0; i++)
        if (tokenizer_is_end(t, ids.ids[i])) from = i + 1;
    for (size_t i = from; !rc && i < ids.n; i++) tokens_push(out, ids.ids[i]);
    tokens_release(&ids);
    return rc;
}

/* ---- rendering ------------------------------------------------------------------------------- */

static void put(struct str *out, const struct parts *p)
{
    for (size_t i = 0; i < p->n; i++) str_append(out, p->spans[i].text, p->spans[i].n);
}

static void put_mark(struct str *out, const char *text)
{
    if (text) str_puts(out, text);
}

void chat_render(const struct chat_template *c, const struct chat_message *messages, size_t n,
                 bool add_generation_prompt, struct str *out)
{
    const char *system = NULL;
    /* first: no message yet; opened: the assistant's turn is open */
    bool first = true, opened = false;
    for (size_t i = 0; i < n; i++) {
        const struct chat_message *m = &messages[i];
        struct parts p = {0};
        if (m->role == CHAT_SYSTEM && c->system_inside) {
            system = m->text;
            continue;
        }
        if (m->role == CHAT_ASSISTANT && !opened) put_mark(out, c->generation);
        add_message(&p, c, m->role, m->text, strlen(m->text), system, first);
        put(out, &p);
        if (m->role == CHAT_ASSISTANT) {
            put_mark(out, c->end);
            put_mark(out, c->after);
        }
        bool wanted = i + 1 < n ? messages[i + 1].role == CHAT_ASSISTANT : add_generation_prompt;
        opened = m->role == CHAT_USER && wanted;
        if (opened) put_mark(out, c->generation);
        system = NULL;
        first = false;
    }
}
