#include "tui/chat/script.h"

enum { TYPE_MS = 35, READ_MS = 1500, ENTER_MS = 400 };

/* Whether the app is in the state that the step waits for; a fast answer is over before it is
 * killed. */
static bool is_time(const struct script_step *step, const struct app *a)
{
    return a->phase == PHASE_READY || (step->kind == SCRIPT_KILL && a->phase == PHASE_ANSWERING);
}

static void press(struct app *a, uint32_t key)
{
    struct key_event ev = {.key = key};
    app_key(a, &ev);
}

static void next_step(struct script *s)
{
    s->at++;
    s->typed = 0;
    s->due_ms = 0;
}

/* Types the next character, or Enter after the last one. */
static void type(struct script *s, struct app *a)
{
    const char *text = s->steps[s->at].text;
    if (!text[s->typed]) {
        press(a, '\r');
        next_step(s);
        return;
    }
    press(a, (unsigned char)text[s->typed++]); /* the texts are ASCII */
    s->due_ms = a->now_ms + (text[s->typed] ? TYPE_MS : ENTER_MS) / s->hurry;
}

enum script_state script_run(struct script *s, struct app *a)
{
    const struct script_step *step = s->steps ? &s->steps[s->at] : NULL;
    if (!step || step->kind == SCRIPT_END) return SCRIPT_OVER;
    if (!is_time(step, a)) return SCRIPT_PLAYS;
    int pause = step->kind == SCRIPT_SAY ? READ_MS : step->ms;
    if (s->due_ms == 0) s->due_ms = a->now_ms + pause / s->hurry;
    if (a->now_ms < s->due_ms) return SCRIPT_PLAYS;
    switch (step->kind) {
    case SCRIPT_SAY: type(s, a); break;
    case SCRIPT_KEY:
        press(a, step->key);
        next_step(s);
        break;
    case SCRIPT_KILL: return SCRIPT_KILLS;
    case SCRIPT_END: break;
    }
    return SCRIPT_PLAYS;
}

int script_wait(const struct script *s, const struct app *a)
{
    if (!s->steps || s->steps[s->at].kind == SCRIPT_END || !is_time(&s->steps[s->at], a)) return -1;
    return s->due_ms > a->now_ms ? (int)(s->due_ms - a->now_ms) : 0;
}

void script_stop(struct script *s)
{
    s->steps = NULL;
}
