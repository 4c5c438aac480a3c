#include "tui/view/welcome.h"

#include <string.h>

#include "cli/print/num.h"

static const char *const prompts[] = {
    "My locker code is 48213.",
    "Tell me a story about a fox.",
    "What can you do?",
};
enum { N_PROMPTS = sizeof prompts / sizeof prompts[0] };

static bool is_demo(const struct app *a)
{
    return !a->o->engine.model;
}

static void draw_demo(const struct app *a, struct pane p, int x)
{
    char size[NUM_MAX] = "2.4 MB";
    int y = 1;
    if (a->have_stats) num_bytes(a->stats.weights_bytes, size);
    pane_printf(p, x, y++, ATTR_TEXT, "The demo: a toy model of %s. It knows little and remembers",
                size);
    pane_puts(p, x, y++, ATTR_TEXT,
              "what you tell it, in a memory that never grows. Try a key, then Enter:");
    for (int i = 0; i < N_PROMPTS; i++, y++) {
        pane_printf(p, x + 2, y, ATTR_KEY, "%d", i + 1);
        pane_puts(p, x + 4, y, ATTR_BOLD, prompts[i]);
    }
    pane_puts(p, x, y++, ATTR_DIM,
              "Chat on, then ask for it. The memory line shows how much is kept.");
    pane_puts(p, x, y, ATTR_DIM,
              "A real model: retain pull hf:OWNER/REPO:Q4_0. F1 shows all keys.");
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
    if (a->edit.text.n > 0 || digit < 0 || digit >= N_PROMPTS) return false;
    edit_set(&a->edit, prompts[digit], strlen(prompts[digit]));
    return true;
}
