#include "tui/chat/app.h"

#include <string.h>

static const char *const prompts[] = {
    "My locker code is 48213.",
    "Tell me a story about a fox.",
    "What can you do?",
};
enum { N_PROMPTS = sizeof prompts / sizeof prompts[0] };

/* Memory, address, size of the file; the README has the same. */
static const char *const real[] = {
    "   4 GB  hf:HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF:Q4_K_M  1.1 GB",
    "   8 GB  hf:Qwen/Qwen3-8B-GGUF:Q4_K_M                        5.0 GB",
    "  24 GB  hf:Qwen/Qwen3-14B-GGUF:Q4_K_M                       9.0 GB",
};

static bool is_demo(const struct app *a)
{
    return !a->o->engine.model;
}

static void draw_demo(const struct app *a, struct pane p, int x)
{
    int y = 1;
    pane_puts(p, x, y++, ATTR_TEXT,
              "The demo: a toy model of 2.3 MiB. It knows little and remembers");
    pane_puts(p, x, y++, ATTR_TEXT,
              "what you tell it, in a memory that never grows. Try a key, then Enter:");
    for (int i = 0; i < N_PROMPTS; i++, y++) {
        pane_printf(p, x + 2, y, ATTR_KEY, "%d", i + 1);
        pane_puts(p, x + 4, y, ATTR_BOLD, prompts[i]);
    }
    pane_puts(p, x, y++, ATTR_DIM,
              "Chat on, then ask for it. The memory line shows how much is kept.");
    if (a->offered.n) {
        pane_printf(p, x + 2, y, ATTR_KEY, "%d", N_PROMPTS + 1);
        pane_printf(p, x + 4, y, ATTR_BOLD, "/model %.60s", str_get(&a->offered));
        pane_puts(p, x, y + 1, ATTR_DIM,
                  "chats with the model that you downloaded. F1 shows all keys.");
        return;
    }
    pane_puts(p, x, y++, ATTR_DIM,
              "Real models, by memory: retain pull ADDRESS. F1 shows all keys.");
    for (size_t i = 0; i < sizeof real / sizeof *real; i++) pane_puts(p, x, y++, ATTR_DIM, real[i]);
}

void welcome_draw(const struct app *a, struct pane p, int x)
{
    static const char *const lines[] = {
        "A conversation with a memory of fixed size: it never ends, never grows,",
        "and the memory line below shows which words are still kept.",
        "",
        "Type a message and press Enter. F1 shows all keys.",
    };
    if (p.w < 40) return;
    if (is_demo(a)) {
        draw_demo(a, p, x);
        return;
    }
    for (int i = 0; i < 4; i++) pane_puts(p, x, i + 1, ATTR_DIM, lines[i]);
}

/* The prompt that is in the editor; -1 = another text. */
static int written(const struct app *a)
{
    for (int i = 0; i < N_PROMPTS; i++)
        if (!strcmp(str_get(&a->edit.text), prompts[i])) return i;
    return -1;
}

static bool is_letter(uint32_t key)
{
    return key >= 0x80 || ((key | 32) >= 'a' && (key | 32) <= 'z');
}

bool welcome_key(struct app *a, const struct key_event *ev)
{
    int digit = (int)ev->key - '1', at = written(a);
    bool printable = ev->key >= 0x20 && ev->key < 0x110000 && ev->key != 127;
    if (!is_demo(a) || a->talk.n > 0 || !printable) return false;
    if (at >= 0) { /* a letter begins another message; what else follows a digit, a number */
        char first = (char)('1' + at);
        edit_set(&a->edit, &first, is_letter(ev->key) ? 0 : 1);
        return false;
    }
    if (a->edit.text.n == 0 && digit == N_PROMPTS && a->offered.n) {
        struct str line = {0};
        str_printf(&line, "/model %s", str_get(&a->offered));
        edit_set(&a->edit, str_get(&line), line.n);
        str_release(&line);
        return true;
    }
    if (a->edit.text.n > 0 || digit < 0 || digit >= N_PROMPTS) return false;
    edit_set(&a->edit, prompts[digit], strlen(prompts[digit]));
    return true;
}
