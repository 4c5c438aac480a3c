/* Carries out the app's acts: requests to the worker, the clipboard, files, editors. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/control/clipboard.h"
#include "cli/control/external.h"
#include "cli/control/secret.h"
#include "cli/print/sanitize.h"
#include "tui/chat/ui_parts.h"
#include "tui/term/term.h"

enum { LEAVE_MS = 2000 }; /* after this time a second quit does not wait for the worker */

void ui_save_draft(struct ui *u)
{
    struct str text = {0};
    uint64_t version = app_draft_version(&u->app);
    const char *talk = app_draft_owner(&u->app);
    if (draft_differs(&u->draft, talk, version)) {
        edit_full(&u->app.edit, &text);
        draft_save(&u->draft, talk, version, u->app.queue, u->app.n_queue, &text);
        str_release(&text);
    }
    u->draft_dirty = false;
    u->draft_ms = u->app.now_ms;
}

static void bring_back(void *app, const char *text, size_t n, bool queued)
{
    app_bring_back(app, text, n, queued);
}

void ui_open_draft(struct ui *u)
{
    const char *folder = u->draft_folder.n ? u->draft_folder.data : NULL;
    if (u->draft_open) return;
    draft_open(&u->draft, folder);
    draft_adopt(folder, app_draft_owner(&u->app), bring_back, &u->app);
    u->draft_open = true;
}

void ui_close_draft(struct ui *u)
{
    if (!u->draft_open) return;
    ui_save_draft(u);
    if (!u->draft.path) { /* no file: the texts are kept in the input history */
        app_unqueue(&u->app);
        app_put_draft_away(&u->app);
    }
    draft_close(&u->draft, app_clear_draft(&u->app));
    u->draft_open = false;
}

void ui_leave(struct ui *u, int status)
{
    if (u->app.leaving && u->app.now_ms - u->leave_ms > LEAVE_MS) {
        screen_close(&u->screen);
        _exit(status ? status : 130);
    }
    if (u->app.leaving) return;
    u->app.leaving = true;
    u->leave_ms = u->app.now_ms;
    if (!u->status) u->status = status;
    ui_save_draft(u);
    app_flash(&u->app, "leaving");
    worker_leave(u->worker);
}

void ui_show_log(struct ui *u)
{
    struct str raw = {0};
    term_log(&raw);
    str_clear(&u->app.log);
    sanitize(str_get(&raw), raw.n, u->app.ascii, false, &u->app.log);
    str_release(&raw);
}

static void copy_text(struct ui *u, const char *text, size_t n)
{
    char how[256];
    struct err e = {0};
    const char *way = secret_talk(u->o, u->library) ? "; /save FILE does" : NULL;
    if (clipboard_copy(text, n, way, term_out(), how, &e))
        app_flash(&u->app, "%.150s", e.text);
    else
        app_flash(&u->app, "copied %zu bytes %.100s", n, how);
}

/* text = path, newline, the file's content */
static void save_text(struct ui *u, const char *text)
{
    const char *body = strchr(text, '\n') + 1;
    struct err e = {0};
    struct str path = {0};
    str_append(&path, text, (size_t)(body - 1 - text));
    if (external_save(path.data, body, strlen(body), &e))
        app_flash(&u->app, "%.150s", e.text);
    else
        app_flash(&u->app, "saved as %.200s", path.data);
    str_release(&path);
}

void ui_suspend(struct ui *u)
{
    screen_suspend(&u->screen);
    desktop_forget(&u->desktop);
}

static void edit_outside(struct ui *u)
{
    struct str text = {0};
    struct err e = {0};
    edit_full(&u->app.edit, &text);
    screen_leave(&u->screen);
    int rc = external_edit(&text, secret_talk(u->o, u->library), term_in(), term_out(), &e);
    screen_return(&u->screen);
    desktop_forget(&u->desktop);
    if (rc)
        app_flash(&u->app, "%.150s", e.text);
    else
        edit_set(&u->app.edit, str_get(&text), text.n);
    str_release(&text);
}

static void read_models(struct ui *u)
{
    struct err e = {0};
    model_list_release(&u->app.models);
    if (model_list_read(&u->app.models, u->app.o, u->library, &e))
        app_flash(&u->app, "%.150s", e.text);
}

static void carry_out(struct ui *u, struct act_row *row)
{
    const char *text = str_get(&row->text);
    if (list_act(&u->app, u->library, row)) return;
    switch (row->act) {
    case ACT_RUN: worker_run(u->worker, &row->request); break;
    case ACT_SET: worker_set(u->worker, u->app.o); break;
    case ACT_STOP: worker_stop(u->worker); break;
    case ACT_MOUSE: term_mouse(u->app.mouse); break;
    case ACT_MODELS: read_models(u); break;
    case ACT_COPY: copy_text(u, text, row->text.n); break;
    case ACT_SAVE: save_text(u, text); break;
    case ACT_EDITOR: edit_outside(u); break;
    case ACT_LOG: ui_show_log(u); break;
    case ACT_REDRAW: u->screen.repaint = u->screen.clear = true; break;
    case ACT_SUSPEND: ui_suspend(u); break;
    case ACT_QUIT: ui_leave(u, 0); break;
    case ACT_LIST:
    case ACT_SEARCH: break; /* list_act did it */
    }
}

void ui_act_all(struct ui *u)
{
    for (int i = 0; i < u->app.n_acts; i++) {
        carry_out(u, &u->app.acts[i]);
        act_release(&u->app.acts[i]);
    }
    u->app.n_acts = 0;
}
