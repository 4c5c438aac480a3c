#include "tui/chat/desktop.h"

#include <stdio.h>
#include <string.h>

#include "tui/chat/app.h"

enum { LONG_MS = 10000 }; /* after this time the user may be looking at another window */

void desktop_init(struct desktop *d, const struct options *o, bool windows)
{
    *d = (struct desktop){.percent = -1};
    const bool may = windows && !o->safe;
    d->title = may && !o->chat.no_title;
    d->bell = may && !o->chat.no_bell;
    d->progress = may && o->chat.progress;
    /* saves the title on the terminal's stack; 1004: it reports focus changes */
    snprintf(d->on, sizeof d->on, "%s%s", d->title ? "\033[22;2t" : "",
             d->bell ? "\033[?1004h" : "");
    snprintf(d->off, sizeof d->off, "%s%s%s", d->bell ? "\033[?1004l" : "",
             d->progress ? "\033]9;4;0\007" : "", d->title ? "\033[23;2t" : "");
}

void desktop_release(struct desktop *d)
{
    str_release(&d->shown_title);
}

bool desktop_key(struct desktop *d, const struct key_event *ev)
{
    if (ev->key != K_FOCUS_IN && ev->key != K_FOCUS_OUT) return false;
    d->away = ev->key == K_FOCUS_OUT;
    return true;
}

static void put_title(struct desktop *d, const struct app *a, struct str *out)
{
    struct str title = {0};
    str_puts(&title, a->name[0] ? "retain: " : "retain");
    sanitize(a->name, strlen(a->name), a->ascii, true, &title);
    if (strcmp(str_get(&title), str_get(&d->shown_title)) != 0) {
        str_printf(out, "\033]2;%s\007", str_get(&title));
        str_clear(&d->shown_title);
        str_puts(&d->shown_title, str_get(&title));
    }
    str_release(&title);
}

static void put_progress(struct desktop *d, const struct app *a, struct str *out)
{
    bool moves = a->phase != PHASE_READY && a->phase != PHASE_ANSWERING && a->total > 0;
    int percent = moves ? (int)(100 * a->done / a->total) : -1;
    if (percent == d->percent) return;
    if (percent < 0)
        str_puts(out, "\033]9;4;0\007");
    else
        str_printf(out, "\033]9;4;1;%d\007", percent);
    d->percent = percent;
}

void desktop_update(struct desktop *d, const struct app *a, struct str *out)
{
    bool busy = app_busy(a);
    if (busy && !d->busy) d->busy_ms = a->now_ms;
    bool was_long = d->busy && !busy && a->now_ms - d->busy_ms >= LONG_MS;
    if (was_long && d->away && d->bell) str_puts(out, "\007");
    d->busy = busy;
    if (d->title) put_title(d, a, out);
    if (d->progress) put_progress(d, a, out);
}

void desktop_forget(struct desktop *d)
{
    str_clear(&d->shown_title);
    d->percent = -1;
}
