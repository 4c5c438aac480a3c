/* Commands that need only a model file's vocabulary: tokenize, template. Weights may be missing
 * from the file, and its family unknown. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/commands/commands.h"
#include "cli/commands/input.h"
#include "cli/options/options.h"
#include "cli/print/report.h"
#include "runtime/model/demo.h"
#include "runtime/model/gguf.h"
#include "runtime/token/chat_template.h"
#include "runtime/token/tokenizer.h"

struct vocabulary {
    struct gguf *file;
    struct tokenizer *tokenizer;
};

static int vocabulary_open(struct vocabulary *v, const struct options *o, struct err *e)
{
    *v = (struct vocabulary){0};
    int rc = o->engine.model
                 ? gguf_open(&v->file, o->engine.model, e)
                 : gguf_open_bytes(&v->file, demo_model, (size_t)(demo_model_end - demo_model),
                                   DEMO_MODEL_NAME, e);
    return rc ? rc : tokenizer_open(&v->tokenizer, v->file, e);
}

static void vocabulary_close(struct vocabulary *v)
{
    tokenizer_close(v->tokenizer);
    gguf_close(v->file);
}

/* ---- tokenize -------------------------------------------------------------------------------- */

/* A control character, which a terminal would obey, or the second byte of one from U+0080 on. */
static bool obeyed(const char *bytes, size_t k)
{
    unsigned char c = (unsigned char)bytes[k];
    return c < 0x20 || c == 0x7f || (c < 0xa0 && c >= 0x80 && k > 0 && bytes[k - 1] == '\xc2');
}

static void print_token(const struct tokenizer *t, int32_t id)
{
    size_t n;
    const char *bytes = tokenizer_bytes(t, id, true, &n);
    struct str line = {0};
    str_printf(&line, "%6d  ", id);
    for (size_t k = 0; k < n; k++)
        if (obeyed(bytes, k))
            str_printf(&line, "\\x%02x", (unsigned char)bytes[k]);
        else
            str_append(&line, bytes + k, 1);
    str_puts(&line, "\n");
    report_text(line.data, line.n);
    str_release(&line);
}

static void print_ids(const struct tokens *ids)
{
    struct str line = {0};
    for (size_t i = 0; i < ids->n; i++) str_printf(&line, "%s%d", i ? " " : "", ids->ids[i]);
    report_line("%s", str_get(&line));
    str_release(&line);
}

static void print_tokens(const struct tokenizer *t, const struct tokens *ids, bool ids_only)
{
    if (ids_only) print_ids(ids);
    for (size_t i = 0; i < ids->n && !ids_only; i++) print_token(t, ids->ids[i]);
}

int cmd_tokenize(const struct options *o)
{
    struct vocabulary v = {0};
    struct str text = {0};
    struct tokens ids = {0};
    struct err e;
    int rc = input_text(o, &text, &e);
    if (!rc) rc = vocabulary_open(&v, o, &e);
    if (!rc)
        rc = tokenizer_encode_text(v.tokenizer, str_get(&text), text.n, o->text.no_special, &ids,
                                   &e);
    if (!rc) print_tokens(v.tokenizer, &ids, o->text.ids);
    tokens_release(&ids);
    str_release(&text);
    vocabulary_close(&v);
    return rc ? report_error(&e) : 0;
}

/* ---- template -------------------------------------------------------------------------------- */

/* The contents of MESSAGES.json: an array of messages, or an object of `messages` and variables. */
struct talk {
    cJSON *json, *messages, *variables;
    bool generate; /* the prompt ends with the opening of the assistant's turn */
};

static void talk_release(struct talk *t)
{
    cJSON_Delete(t->json);
    if (t->messages && t->json != t->messages) cJSON_Delete(t->messages);
    if (t->json != t->variables) cJSON_Delete(t->variables);
    *t = (struct talk){0};
}

static void add_system(cJSON *messages, const char *text)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "role", "system");
    cJSON_AddStringToObject(o, "content", text);
    cJSON_InsertItemInArray(messages, 0, o);
}

/* Opens the assistant's turn, unless the last message is the assistant's: the model continues that
 * one. `said`: add_generation_prompt in the file, which decides if present. */
static bool opens_turn(const cJSON *messages, const cJSON *said)
{
    const cJSON *last = cJSON_GetArrayItem(messages, cJSON_GetArraySize(messages) - 1);
    const char *role = cJSON_GetStringValue(cJSON_GetObjectItem(last, "role"));
    return said ? cJSON_IsTrue(said) : !role || strcmp(role, "assistant");
}

static int talk_read(struct talk *t, const struct options *o, struct err *e)
{
    struct str text = {0};
    int rc = file_read(o->args[0], FILE_MESSAGE, &text, e);
    if (rc) return rc;
    t->json = cJSON_ParseWithLength(str_get(&text), text.n);
    str_release(&text);
    if (cJSON_IsObject(t->json)) {
        t->messages = cJSON_DetachItemFromObject(t->json, "messages");
        t->variables = t->json;
    } else {
        t->messages = t->json;
        t->variables = cJSON_CreateObject();
    }
    if (!cJSON_IsArray(t->messages))
        return err_set(e, ERR_USAGE,
                       "%s: expected JSON, an array of messages such as [{\"role\": \"user\", "
                       "\"content\": \"Hello\"}], or an object with that array as messages",
                       o->args[0]);
    if (o->session.system) add_system(t->messages, o->session.system);
    cJSON *said = cJSON_DetachItemFromObject(t->variables, "add_generation_prompt");
    t->generate = opens_turn(t->messages, said);
    cJSON_Delete(said);
    return 0;
}

int cmd_template(const struct options *o)
{
    struct vocabulary v = {0};
    struct talk talk = {0};
    struct chat_choice choice = {0};
    struct str text = {0};
    struct tokens ids = {0};
    struct err e;
    int rc = o->n_args == 1 ? 0
                            : err_set(&e, ERR_USAGE,
                                      "retain template needs one file with messages, "
                                      "MESSAGES.json; - is standard input");
    if (!rc) rc = talk_read(&talk, o, &e);
    if (!rc) rc = vocabulary_open(&v, o, &e);
    if (!rc) rc = chat_choose(&choice, o->engine.template_name, NULL, v.file, v.tokenizer, &e);
    if (!rc && *choice.notice) report_note("%s", choice.notice);
    if (!rc && !chat_knows(choice.template, o->session.think))
        report_note("%s", chat_unknown_think(choice.template, o->session.think));
    if (!rc) chat_think_variables(choice.template, o->session.think, talk.variables);
    if (!rc)
        rc = chat_render_json(choice.template, v.tokenizer, talk.messages, talk.variables,
                              talk.generate, &text, &ids, &e);
    if (!rc && o->text.ids) print_ids(&ids);
    if (!rc && !o->text.ids) report_text(str_get(&text), text.n);
    tokens_release(&ids);
    str_release(&text);
    chat_template_close(choice.template);
    talk_release(&talk);
    vocabulary_close(&v);
    return rc ? report_error(&e) : 0;
}
