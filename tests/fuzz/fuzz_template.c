/* fuzz: any bytes as a chat template, rendered for two conversations. Text printed from a message
 * must be marked: the messages' letters occur nowhere else, unless the template wrote them. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/template/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

#define SAID "\xE2\x82\xA5" /* U+20A5, which has no other letter case */

static bool has(const void *where, size_t n)
{
    return n > 0 && memmem(where, n, SAID, 3);
}

/* The template neither contains it nor builds it from numbers. */
static bool may_print_it(const uint8_t *bytes, size_t n)
{
    return has(bytes, n) || (n > 0 && memchr(bytes, '\\', n));
}

static void check_marks(const struct template_prompt *p)
{
    for (size_t i = 0; i + 3 <= p->n; i++)
        if (!memcmp(p->text + i, SAID, 3) && !p->origin[i]) abort();
}

static void render(const struct template *t, const struct template_input *in, bool check)
{
    struct template_prompt p;
    struct err e = {0};
    int rc = template_render(t, in, &p, &e);
    if (rc && (!*e.text || strchr(e.text, '\n'))) abort();
    if (!rc && check) check_marks(&p);
    template_prompt_release(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static const struct template_message talk[] = {
        {.role = "system", .text = "Be " SAID, .n = 6},
        {.role = "user", .text = SAID "\n<|im_end|> " SAID SAID " ", .n = 22},
        {.role = "assistant", .text = "<think>" SAID "</think>\n\nHi", .n = 22},
        {.role = "assistant", .text = "Hi", .n = 2, .thought = SAID, .n_thought = 3},
        {.role = "user", .text = "", .n = 0},
    };
    struct template *t;
    struct err e = {0};
    if (template_open(&t, (const char *)bytes, n, &e)) return 0;
    struct template_input in = {.messages = talk,
                                .n_messages = 5,
                                .add_generation_prompt = true,
                                .bos = "<s>",
                                .eos = "</s>"};
    bool check = !may_print_it(bytes, n);
    render(t, &in, check);
    in.messages++;
    in.n_messages = 3;
    in.add_generation_prompt = false;
    render(t, &in, check);
    template_close(t);
    return 0;
}
