#include "runtime/template/template.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/template/eval.h"

/* For the program, in addition to the limit by the conversation's size. Of 631 public templates
 * none needs more than 100 KiB and 4,300 steps for ten messages; a template is rendered about
 * twenty times when it is opened. */
#define MEMORY_MAX ((size_t)4 << 20)
#define STEPS_MAX  ((size_t)1 << 17)
#define DEPTH_MAX  300

struct template
{
    struct heap heap;
    struct node *statements;
};

/* Calls setjmp in a function whose locals do not change. */
static int parse(struct template *t, const char *source, size_t n)
{
    int rc = setjmp(t->heap.fault);
    if (!rc) t->statements = parse_template(&t->heap, source, n);
    return rc;
}

int template_open(struct template **out, const char *source, size_t n, struct err *e)
{
    struct template *t = memory_new(1, sizeof *t);
    *out = NULL;
    t->heap = (struct heap){
        .used_max = MEMORY_MAX, .steps_max = STEPS_MAX, .depth_max = DEPTH_MAX, .e = e};
    int rc = parse(t, source, n);
    if (rc) {
        template_close(t);
        return rc;
    }
    *out = t;
    return 0;
}

void template_close(struct template *t)
{
    if (!t) return;
    heap_release(&t->heap);
    free(t);
}

/* ---- variables ------------------------------------------------------------------------------- */

static struct value text_from(struct run *r, const char *s, size_t n, uint8_t mark)
{
    char *data = heap_take(&r->heap, n, 1);
    struct text t = {.data = data, .n = n};
    if (n > 0) memcpy(data, s, n);
    if (mark) {
        uint8_t *marks = heap_take(&r->heap, n, 1);
        memset(marks, mark, n);
        t.marks = marks;
    }
    return value_text(t);
}

static struct value from_json(struct run *r, const cJSON *o, uint8_t mark);

static struct value dict_from(struct run *r, const cJSON *o, uint8_t mark)
{
    struct dict *d = dict_make(&r->heap);
    const cJSON *k;
    cJSON_ArrayForEach(k, o)
    {
        bool role = !strcmp(k->string, "role"); /* from the program, not from the user */
        dict_set(&r->heap, d, text_from(r, k->string, strlen(k->string), mark),
                 from_json(r, k, role ? 0 : mark));
    }
    return value_dict(d);
}

static struct value list_from(struct run *r, const cJSON *o, uint8_t mark)
{
    struct list *list = list_make(&r->heap, LIST);
    const cJSON *k;
    cJSON_ArrayForEach(k, o) list_push(&r->heap, list, from_json(r, k, mark));
    return value_list(list);
}

static struct value from_json(struct run *r, const cJSON *o, uint8_t mark)
{
    struct value v = value_none();
    heap_enter(&r->heap);
    if (cJSON_IsBool(o)) {
        v = value_bool(cJSON_IsTrue(o));
    } else if (cJSON_IsNumber(o)) {
        double x = o->valuedouble;
        v = fabs(x) < 9e15 && x == trunc(x) ? value_int((int64_t)x) : value_float(x);
    } else if (cJSON_IsString(o)) {
        v = text_from(r, o->valuestring, strlen(o->valuestring), mark);
    } else if (cJSON_IsArray(o)) {
        v = list_from(r, o, mark);
    } else if (cJSON_IsObject(o)) {
        v = dict_from(r, o, mark);
    }
    heap_leave(&r->heap);
    return v;
}

static void set_named(struct run *r, const char *name, struct value v)
{
    scope_set(r, r->globals, text_of(name), v);
}

static struct value make_message(struct run *r, const struct template_message *m, size_t i)
{
    static const char *const names[] = {"reasoning_content", "reasoning", "thinking"};
    struct dict *d = dict_make(&r->heap);
    uint8_t mark = (uint8_t)(i < 254 ? i + 1 : 255);
    dict_set(&r->heap, d, value_text(text_of("role")), text_from(r, m->role, strlen(m->role), 0));
    dict_set(&r->heap, d, value_text(text_of("content")), text_from(r, m->text, m->n, mark));
    for (size_t k = 0; m->n_thought && k < sizeof names / sizeof *names; k++)
        dict_set(&r->heap, d, value_text(text_of(names[k])),
                 text_from(r, m->thought, m->n_thought, mark));
    return value_dict(d);
}

static void set_variables(struct run *r, const struct template_input *in)
{
    struct list *messages = list_make(&r->heap, LIST);
    for (size_t i = 0; i < in->n_messages; i++)
        list_push(&r->heap, messages, make_message(r, &in->messages[i], i));
    set_named(r, "messages", value_list(messages));
    set_named(r, "tools", value_none());
    set_named(r, "documents", value_none());
    set_named(r, "add_generation_prompt", value_bool(in->add_generation_prompt));
    if (in->bos) set_named(r, "bos_token", text_from(r, in->bos, strlen(in->bos), 0));
    if (in->eos) set_named(r, "eos_token", text_from(r, in->eos, strlen(in->eos), 0));
    const cJSON *k;
    cJSON_ArrayForEach(k, in->variables)
    {
        bool said = !strcmp(k->string, "messages") || !strcmp(k->string, "tools") ||
                    !strcmp(k->string, "documents");
        scope_set(r, r->globals, text_from(r, k->string, strlen(k->string), 0).as.text,
                  from_json(r, k, said));
    }
}

/* ---- rendering ------------------------------------------------------------------------------- */

static size_t json_bytes(const cJSON *o)
{
    size_t n = 64 + (o && o->valuestring ? strlen(o->valuestring) : 0);
    const cJSON *k;
    cJSON_ArrayForEach(k, o) n += json_bytes(k);
    return n;
}

static size_t input_bytes(const struct template_input *in)
{
    size_t n = json_bytes(in->variables);
    for (size_t i = 0; i < in->n_messages; i++)
        n += 64 + in->messages[i].n + 3 * in->messages[i].n_thought;
    return n;
}

static void copy_out(struct text t, struct template_prompt *out)
{
    out->text = memory_new(t.n + 1, 1);
    out->origin = memory_new(t.n + 1, 1);
    memcpy(out->text, t.data, t.n);
    if (t.marks) memcpy(out->origin, t.marks, t.n);
    out->n = t.n;
}

static int render(struct run *r, const struct template *t, const struct template_input *in)
{
    int rc = setjmp(r->heap.fault);
    if (rc) return rc;
    r->globals = scope_make(r, NULL);
    set_variables(r, in);
    exec(r, r->globals, t->statements);
    return 0;
}

int template_render(const struct template *t, const struct template_input *in,
                    struct template_prompt *out, struct err *e)
{
    size_t n = input_bytes(in);
    struct run r = {.now = in->now, .piped = value_none()};
    struct builder b = {.heap = &r.heap};
    *out = (struct template_prompt){0};
    r.out = &b;
    r.heap = (struct heap){.used_max = MEMORY_MAX + 64 * n,
                           .steps_max = STEPS_MAX + 32 * n,
                           .depth_max = DEPTH_MAX,
                           .e = e};
    int rc = render(&r, t, in);
    if (!rc) copy_out(builder_end(&b), out);
    heap_release(&r.heap);
    return rc;
}

void template_prompt_release(struct template_prompt *p)
{
    free(p->text);
    free(p->origin);
    *p = (struct template_prompt){0};
}
