/* chat_think: asks a chat template for thinking, more of it or none. Templates have different
 * variables for it; those that change the prompt are the template's. */
#include <cjson/cJSON.h>
#include <stddef.h>
#include <string.h>

#include "runtime/token/chat_parts.h"

/* A variable with its values. on, off: the model should think or not; off NULL: it does not turn
 * thinking off; on NULL: it thinks without the variable. */
struct variable {
    const char *name;
    const char *on, *off, *efforts[3]; /* in JSON; efforts: low, medium, high */
};

static const struct variable variables[] = {
    {"enable_thinking", "true", "false", {NULL}},
    {"thinking", "true", "false", {NULL}},
    {"thinking_mode", "\"enabled\"", "\"disabled\"", {NULL}},
    {"thinking_mode", "\"thinking\"", "\"chat\"", {NULL}},
    {"skip_thinking", "false", "true", {NULL}},
    {"reasoning_effort", NULL, NULL, {"\"low\"", "\"medium\"", "\"high\""}},
    {"thinking_effort", NULL, NULL, {"\"low\"", "\"medium\"", "\"high\""}},
    {"thinking_budget", NULL, "0", {"512", "2048", "8192"}},
};

static struct cJSON *with(const struct cJSON *base, const char *name, const char *value)
{
    cJSON *o = base ? cJSON_Duplicate(base, true) : cJSON_CreateObject();
    cJSON *v = cJSON_Parse(value);
    if (!v || !cJSON_AddItemToObject(o, name, v)) cJSON_Delete(v);
    return o;
}

/* The prompt of one message with a value for the variable, NULL = without it. false: refused. */
static bool render(const struct chat_template *c, const char *name, const char *value,
                   struct template_prompt *out)
{
    const struct template_message hi = {.role = "user", .text = "Hi", .n = 2};
    cJSON *o = value ? with(NULL, name, value) : NULL;
    struct template_input in = {
        .messages = &hi, .n_messages = 1, .add_generation_prompt = true, .variables = o};
    bool ok = !chat_template_run(c, &in, out, NULL);
    cJSON_Delete(o);
    return ok;
}

static bool differ(const struct chat_template *c, const char *name, const char *one,
                   const char *other)
{
    struct template_prompt a, b = {0};
    bool ok = render(c, name, one, &a) && render(c, name, other, &b);
    bool differs = ok && (a.n != b.n || memcmp(a.text, b.text, a.n));
    template_prompt_release(&a);
    template_prompt_release(&b);
    return differs;
}

static void learn_switch(struct chat_template *c, const struct variable *v)
{
    if (!v->off || !differ(c, v->name, v->on, v->off)) return;
    c->think[CHAT_THINK_ON] = v->on ? with(NULL, v->name, v->on) : cJSON_CreateObject();
    c->think[CHAT_THINK_OFF] = with(NULL, v->name, v->off);
}

static void learn_efforts(struct chat_template *c, const struct variable *v)
{
    struct template_prompt p;
    if (!v->efforts[0] || c->think[CHAT_THINK_LOW]) return;
    if (!differ(c, v->name, v->efforts[0], v->efforts[2])) return;
    for (int i = 0; i < 3; i++) {
        bool ok = render(c, v->name, v->efforts[i], &p);
        template_prompt_release(&p);
        if (ok)
            c->think[CHAT_THINK_LOW + i] = with(c->think[CHAT_THINK_ON], v->name, v->efforts[i]);
    }
}

void chat_think_learn(struct chat_template *c)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (!c->think[CHAT_THINK_OFF]) learn_switch(c, &variables[i]);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        learn_efforts(c, &variables[i]);
}

const struct cJSON *chat_think_of(const struct chat_template *c, enum chat_think think)
{
    return think > CHAT_THINK_OFF && !c->think[think] ? c->think[CHAT_THINK_ON] : c->think[think];
}

const char *chat_unknown_think(const struct chat_template *c, enum chat_think think)
{
    if (think > CHAT_THINK_OFF && c->think[CHAT_THINK_ON])
        return "the chat template knows no effort of thinking: --think only turns it on";
    return "the chat template cannot turn thinking on or off: --think changes nothing";
}

bool chat_knows(const struct chat_template *c, enum chat_think think)
{
    return think == CHAT_THINK_AUTO || c->think[think];
}

void chat_think_variables(const struct chat_template *c, enum chat_think think, struct cJSON *out)
{
    const cJSON *v;
    cJSON_ArrayForEach(v, chat_think_of(c, think))
    {
        cJSON_AddItemToObject(out, v->string, cJSON_Duplicate(v, true));
    }
}
