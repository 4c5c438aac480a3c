#include "tui/chat/event_box.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct boxed_event {
    struct event event;
    size_t text; /* offset in event_box.text */
};

void event_box_release(struct event_box *b)
{
    free(b->rows);
    str_release(&b->text);
    memset(b, 0, sizeof *b);
}

static bool joins(const struct event *last, enum event_kind kind)
{
    return last->kind == kind && (kind == EVENT_TEXT || kind == EVENT_THOUGHT ||
                                  kind == EVENT_LOADING || kind == EVENT_READING);
}

void event_box_add(struct event_box *b, const struct event *ev)
{
    struct boxed_event *last = b->n ? &b->rows[b->n - 1] : NULL;
    size_t n_before = last && joins(&last->event, ev->kind) ? last->event.n_text : 0;
    if (!last || !joins(&last->event, ev->kind)) {
        b->rows = memory_more(b->rows, (size_t)b->n, &b->cap, sizeof *b->rows);
        last = &b->rows[b->n++];
        last->text = b->text.n;
    }
    last->event = *ev;
    last->event.n_text += n_before;
    str_append(&b->text, ev->text, ev->n_text);
}

struct event event_box_at(const struct event_box *b, int i)
{
    struct event ev = b->rows[i].event;
    ev.text = str_get(&b->text) + b->rows[i].text;
    return ev;
}

void event_box_clear(struct event_box *b)
{
    b->n = 0;
    str_clear(&b->text);
}
