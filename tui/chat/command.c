/* Runs slash commands (and the keys for them) on the screen. */
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "cli/control/conversation_table.h"
#include "cli/control/external.h"
#include "tui/chat/app.h"

/* ---- the queue ------------------------------------------------------------------------------- */

static bool send_now(struct app *a)
{
    if (a->n_queue == 0) {
        app_flash(a, "nothing is queued");
    } else if (app_busy(a)) {
        a->stop = STOP_TO_SEND;
        app_act(a, ACT_STOP, "", 0);
    }
    return true;
}

/* ---- settings ------------------------------------------------------------------------------- */

/* "temp 0.8, 0 to 100: …" */
static void show_setting(struct app *a, const struct option *f)
{
    struct str value = {0}, text = {0};
    settings_value(&a->settings, a->have_stats ? &a->stats : NULL, f, &value);
    str_printf(&text, "%s %s: %s", f->name, str_get(&value), f->help);
    app_note(a, text.data, text.n);
    str_release(&value);
    str_release(&text);
}

static bool change_setting(struct app *a, const struct option *f, const char *value)
{
    struct err e = {0};
    bool now = (f->groups & SLASH_SET_NOW) != 0;
    if (!now && !app_ready(a)) return false;
    if (settings_change(&a->settings, f, value, &e)) {
        app_flash(a, "%s", e.text);
        return false;
    }
    app_act(a, ACT_SET, "", 0);
    if (now)
        app_event(a, "%s %s from the next token on", f->name, value);
    else
        app_event(a, "the conversation is being reopened with another %s", f->name);
    if (!now) snprintf(a->changed, sizeof a->changed, "%s %s", f->name, value);
    if (!now) app_run_on(a, SLASH_OPEN, a->name, "");
    return true;
}

static bool set(struct app *a, const char *argument)
{
    const struct option *f;
    struct err e = {0};
    const char *value;
    int ask = settings_parse(&a->settings, argument, &f, &value, &e);
    if (ask < 0) {
        app_flash(a, "%s", e.text);
        return false;
    }
    if (ask != SETTINGS_SHOW) return change_setting(a, f, value);
    if (f)
        show_setting(a, f);
    else
        palette_open(a, PALETTE_SETTINGS);
    return true;
}

/* ---- conversations -------------------------------------------------------------------------- */

static const char *nearest_name(const struct app *a, const char *name)
{
    struct nearest near = nearest_to(name, strlen(name));
    for (int i = 0; i < a->list.n; i++) nearest_offer(&near, a->list.rows[i].name);
    return near.name;
}

/* Whether a conversation is saved and closed; if not, flashes the reason. */
static bool is_other(struct app *a, const char *name)
{
    int i = 0;
    while (i < a->list.n && strcmp(a->list.rows[i].name, name) != 0) i++;
    if (i == a->list.n) {
        const char *near = nearest_name(a, name);
        app_flash(a, "no conversation %.40s%s%.40s", name, near ? "; nearest: " : "",
                  near ? near : "");
        return false;
    }
    if (strcmp(name, a->name) != 0) return true;
    app_flash(a, "%.40s is open", name);
    return false;
}

static bool find(struct app *a, const char *text)
{
    app_show(a, VIEW_LIST);
    edit_set(&a->list.filter, text, strlen(text));
    a->list.mode = LIST_FIND;
    app_act(a, ACT_SEARCH, text, strlen(text));
    return true;
}

/* ---- requests -------------------------------------------------------------------------------- */

static const struct message *last_answer(const struct app *a)
{
    for (int i = a->talk.n - 1; i >= 0; i--)
        if (a->talk.messages[i].role == CHAT_ASSISTANT) return &a->talk.messages[i];
    return NULL;
}

/* Without a text the answer is put into the editor, to be sent as "/answer …". */
static void amend(struct app *a, const struct request *r)
{
    const struct message *m = last_answer(a);
    struct str line = {0};
    if (r->text.n > 0) {
        app_amend(a, r->text.data, r->text.n);
        return;
    }
    str_puts(&line, "/answer ");
    str_append(&line, str_get(&m->raw), m->raw.n);
    edit_set(&a->edit, line.data, line.n);
    str_release(&line);
}

/* Whether the request may run now; else shows why not. */
static bool may_run(struct app *a, const struct request *r)
{
    switch (r->command) {
    case SLASH_OPEN: return is_other(a, r->name) && app_ready(a);
    case SLASH_DELETE:
    case SLASH_DROP: return is_other(a, r->name);
    case SLASH_CONTINUE:
        if (a->phase == PHASE_READY && a->can_continue) return true;
        app_flash(a, "there is no answer to continue");
        return false;
    case SLASH_RESTORE:
    case SLASH_TAG: return true;
    default: return app_ready(a);
    }
}

static bool run_request(struct app *a, enum slash command, const char *argument)
{
    struct control_facts facts = {.n_turns = app_turns(a),
                                  .private_mode = a->o->session.private_mode,
                                  .has_answer = last_answer(a) != NULL,
                                  .name = a->name,
                                  .deleted = a->list.deleted};
    struct request r = {0};
    struct err e = {0};
    bool parsed = control_parse(&r, command, argument, &facts, &e) == 0;
    if (!parsed) app_flash(a, "%s", e.text);
    if (parsed && command == SLASH_OPEN && strcmp(r.name, a->name) == 0) {
        app_flash(a, "%.40s is open", r.name);
        request_release(&r);
        return true;
    }
    if (!parsed || !may_run(a, &r)) {
        request_release(&r);
        return false;
    }
    if (command == SLASH_EDIT || command == SLASH_REWIND || command == SLASH_REGENERATE ||
        command == SLASH_FORGET)
        a->question = (struct question){.what = command, .turn = r.turn};
    if (command == SLASH_CONTINUE) app_wait(a, PHASE_ANSWERING);
    if (command == SLASH_DELETE) { /* asks first, as the list does */
        a->question = (struct question){.what = SLASH_DELETE, .open = true};
        snprintf(a->question.name, sizeof a->question.name, "%s", r.name);
        snprintf(a->question.text, sizeof a->question.text, "delete %s? /restore brings it back",
                 r.name);
    } else if (command == SLASH_ANSWER)
        amend(a, &r);
    else
        app_run(a, &r);
    request_release(&r);
    return true;
}

/* /model NAME, /system TEXT: asks, because the conversation is read again. */
static bool reopen(struct app *a, enum slash command, const char *text)
{
    struct request r = {.command = command};
    if (!app_ready(a)) return false;
    str_puts(&r.text, text);
    str_clear(&a->asked);
    str_puts(&a->asked, text);
    a->question = (struct question){.what = command, .turn = app_turns(a)};
    app_run(a, &r);
    request_release(&r);
    return true;
}

/* ---- copying text ---------------------------------------------------------------------------- */

static void put_talk(const struct app *a, struct str *out)
{
    for (int i = 0; i < a->talk.n; i++) {
        const struct message *m = &a->talk.messages[i];
        if (m->role >= CHAT_ROLES) continue;
        conversation_heading(out, (enum chat_role)m->role, "");
        str_append(out, str_get(&m->raw), m->raw.n);
    }
    if (out->n && out->data[out->n - 1] != '\n') str_puts(out, "\n");
}

static bool copy(struct app *a, const char *what)
{
    struct str text = {0};
    struct err e = {0};
    const struct message *m = last_answer(a);
    int rc = 0;
    if (strcmp(what, "all") == 0)
        put_talk(a, &text);
    else
        rc = control_copied(m ? &m->raw : NULL, what, &text, &e);
    if (rc)
        app_flash(a, "%s", e.text);
    else
        app_act(a, ACT_COPY, str_get(&text), text.n);
    str_release(&text);
    return !rc;
}

static bool save(struct app *a, const char *path)
{
    struct str text = {0};
    if (!path[0] || strchr(path, '\n')) {
        app_flash(a, "/save FILE");
        return false;
    }
    str_printf(&text, "%s\n", path);
    put_talk(a, &text);
    app_act(a, ACT_SAVE, text.data, text.n);
    str_release(&text);
    return true;
}

static bool attach(struct app *a, const char *argument)
{
    struct str text = {0};
    struct err e;
    bool sent = false;
    if (external_attach(argument, &text, &e))
        app_flash(a, "%s", e.text);
    else
        sent = app_post(a, str_get(&text), text.n);
    if (sent) app_send_next(a);
    str_release(&text);
    return sent;
}

/* ---- the table ------------------------------------------------------------------------------ */

static void toggle(struct app *a, enum view view)
{
    app_show(a, a->view == view ? VIEW_CHAT : view);
}

static bool run(struct app *a, enum slash command, const char *argument)
{
    switch (command) {
    case SLASH_HELP: toggle(a, VIEW_HELP); break;
    case SLASH_LIST: toggle(a, VIEW_LIST); break;
    case SLASH_MAP: toggle(a, VIEW_MAP); break;
    case SLASH_TINT: toggle(a, VIEW_TINT); break;
    case SLASH_LOG: app_show(a, VIEW_LOG); break;
    case SLASH_STATS: toggle(a, VIEW_DASH); break;
    case SLASH_MESSAGES: app_show(a, VIEW_READ); break;
    case SLASH_MOUSE:
        a->mouse = !a->mouse;
        app_act(a, ACT_MOUSE, "", 0);
        app_flash(a, a->mouse ? "the mouse scrolls and clicks; hold Shift to select text"
                              : "the mouse is the terminal's");
        break;
    case SLASH_TURNS: palette_open(a, PALETTE_TURNS); break;
    case SLASH_MODEL:
        if (argument[0]) return reopen(a, command, argument);
        palette_open(a, PALETTE_MODELS);
        break;
    case SLASH_SYSTEM: return reopen(a, command, argument);
    case SLASH_SET: return set(a, argument);
    case SLASH_NOW: return send_now(a);
    case SLASH_EDITOR: app_act(a, ACT_EDITOR, "", 0); break;
    case SLASH_FIND: return find(a, argument);
    case SLASH_COPY: return copy(a, argument);
    case SLASH_FILE: return attach(a, argument);
    case SLASH_SAVE: return save(a, argument);
    case SLASH_RAW:
        a->talk.raw = !a->talk.raw;
        app_flash(a, a->talk.raw ? "Markdown as the model wrote it" : "Markdown drawn");
        break;
    case SLASH_THOUGHT: a->talk.unfolded = !a->talk.unfolded; break;
    case SLASH_QUIT: app_act(a, ACT_QUIT, "", 0); break;
    case SLASH_SAY:
    case SLASH_UNKNOWN: return false;
    default: return run_request(a, command, argument);
    }
    return true;
}

bool command_run(struct app *a, enum slash command, const char *argument, size_t n)
{
    struct str copied = {0}; /* ends where the argument does */
    str_append(&copied, argument, n);
    bool ran = run(a, command, str_get(&copied));
    str_release(&copied);
    return ran;
}
