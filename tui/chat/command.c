#include "tui/chat/command.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/edit_distance.h"
#include "cli/cli_session.h"
#include "cli/num.h"
#include "tui/chat/app.h"

/* ---- numbers -------------------------------------------------------------------------------- */

static bool show_stats(struct app *a)
{
    const struct session_stats *st = &a->stats;
    char b[6][NUM_MAX];
    struct str s = {0};
    if (!a->have_stats) {
        app_flash(a, "no numbers before the model is loaded");
        return true;
    }
    str_printf(&s, "model %s, weights %s, kv %s, policy %s, on %s\n", st->model, st->weights,
               st->kv, st->policy, st->device);
    str_printf(&s, "%s tokens, %lld turn%s, %s re-read\n", num_exact(st->n_tokens, b[0]),
               (long long)st->n_turns, st->n_turns == 1 ? "" : "s", num_exact(st->n_reread, b[1]));
    str_printf(&s, "kept %s of %s units (%s), evicted %s since opened, budget %d per head\n",
               num_exact(st->units_kept, b[0]), num_exact(st->units_seen, b[1]),
               num_share(st->units_kept, st->units_seen, b[2]), num_exact(st->units_evicted, b[3]),
               st->budget);
    str_printf(&s, "weights %s, kv %s (%s in use), scratch %s, process %s, peak %s\n",
               num_bytes(st->weights_bytes, b[0]), num_bytes(st->cache_bytes, b[1]),
               num_bytes(st->cache_used_bytes, b[2]), num_bytes(st->scratch_bytes, b[3]),
               num_bytes(st->process_bytes, b[4]), num_bytes(st->process_peak_bytes, b[5]));
    str_printf(&s, "decode %s tok/s, prefill %s tok/s, first token %.0f ms",
               num_rate(st->decode_tok_s, b[0]), num_rate(st->prefill_tok_s, b[1]),
               st->first_token_ms);
    app_note(a, s.data, s.n);
    str_release(&s);
    return true;
}

/* ---- the talk ------------------------------------------------------------------------------- */

static bool go_on(struct app *a)
{
    if (a->phase != PHASE_READY || !a->can_continue) {
        app_flash(a, "there is no answer to continue");
        return true;
    }
    app_act(a, ACT_CONTINUE, "", 0);
    app_wait(a, PHASE_ANSWERING);
    return true;
}

/* Asks the session what it would cost; the answer asks the person, or goes on at once. */
static bool take_back(struct app *a, enum slash what, const char *argument)
{
    int64_t turn = 0, n_turns = app_turns(a);
    const char *rest;
    char text[32];
    if (!app_ready(a)) return false;
    if (a->o->private_mode) {
        app_flash(a, "a private conversation is not kept, so it cannot go back");
        return false;
    }
    if (!slash_turn(argument, n_turns, &turn, &rest) || rest[0] ||
        (what != SLASH_REWIND && !turn)) {
        app_flash(a, "no such turn; this conversation has %lld", (long long)n_turns);
        return false;
    }
    if (what == SLASH_REWIND && !argument[0]) turn = n_turns > 0 ? n_turns - 1 : 0;
    a->question = (struct question){.what = what, .turn = turn};
    int n = snprintf(text, sizeof text, "%lld", (long long)(what == SLASH_EDIT ? turn - 1 : turn));
    app_act(a, ACT_COST, text, what == SLASH_REGENERATE ? 0 : (size_t)n);
    return true;
}

static const struct message *last_answer(const struct app *a)
{
    for (int i = a->talk.n - 1; i >= 0; i--)
        if (a->talk.messages[i].role == CHAT_ASSISTANT) return &a->talk.messages[i];
    return NULL;
}

/* Without a text the answer comes into the editor, to be sent as "/answer …". */
static bool amend(struct app *a, const char *text, size_t n)
{
    const struct message *m = last_answer(a);
    struct str line = {0};
    if (!app_ready(a)) return false;
    if (a->o->private_mode || !m) {
        app_flash(a, m ? "a private conversation is not kept, so its answers stay"
                       : "there is no answer to change");
        return false;
    }
    if (n > 0) {
        app_amend(a, text, n);
        return true;
    }
    str_puts(&line, "/answer ");
    str_append(&line, str_get(&m->raw), m->raw.n);
    app_set_draft(a, line.data, line.n);
    str_release(&line);
    return true;
}

static bool branch(struct app *a, const char *argument)
{
    int64_t turn, n_turns = app_turns(a);
    const char *name = argument;
    struct str text = {0};
    if (!app_ready(a)) return false;
    if (argument[0] == '-' || (argument[0] >= '0' && argument[0] <= '9')) {
        if (!slash_turn(argument, n_turns, &turn, &name)) {
            app_flash(a, "no such turn; this conversation has %lld", (long long)n_turns);
            return false;
        }
    } else {
        turn = n_turns;
    }
    str_printf(&text, "%lld %s", (long long)turn, name);
    app_act(a, ACT_BRANCH, text.data, text.n);
    str_release(&text);
    return true;
}

static bool send_now(struct app *a)
{
    if (a->n_queue == 0) {
        app_flash(a, "nothing is queued");
    } else if (app_busy(a)) {
        a->send_now = a->stopping = true;
        app_act(a, ACT_STOP, "", 0);
    }
    return true;
}

/* ---- settings ------------------------------------------------------------------------------- */

/* Columns of the help of settings: all of it fits into the narrowest pane of a screen of 80. */
enum { HELP_FROM = 26, HELP_WIDE = 40 };

/* The text of the command line's help, as far as it is of a chat, in lines under each other. */
static void put_help(const char *text, struct str *out)
{
    const char *others = strstr(text, "; eval"), *end = others ? others : strchr(text, 0);
    while (end - text > HELP_WIDE) {
        int n = HELP_WIDE;
        while (n > 0 && text[n] != ' ') n--;
        if (n == 0) break; /* a word as long as a line */
        str_printf(out, "%.*s\n%*s", n, text, HELP_FROM, "");
        text += n + 1;
    }
    str_printf(out, "%.*s\n", (int)(end - text), text);
}

static void put_setting(const struct app *a, const struct option_fact *f, struct str *out)
{
    struct str value = {0};
    struct err e;
    if (options_get(a->o, SLASH_SET_NOW | SLASH_SET_OPEN, f->name, &value, &e) == 0) {
        str_printf(out, "%-15s %-9s ", f->name, value.n ? value.data : "default");
        put_help(f->help, out);
    }
    str_release(&value);
}

static bool show_settings(struct app *a)
{
    static const struct {
        unsigned groups;
        const char *title;
    } parts[] = {{SLASH_SET_NOW, "from the next token on:\n"},
                 {SLASH_SET_OPEN, "\nby opening the conversation again:\n"}};
    struct option_fact f;
    struct str s = {0};
    for (int k = 0; k < 2; k++) {
        str_puts(&s, parts[k].title);
        for (int i = 0; options_fact(parts[k].groups, i, &f); i++) put_setting(a, &f, &s);
    }
    str_puts(&s, "/set NAME VALUE changes one; Tab completes");
    app_note(a, s.data, s.n);
    str_release(&s);
    return true;
}

/* Options point to their texts: they live as long as the app. */
static const char *keep_text(struct app *a, const char *text)
{
    a->settings = realloc(a->settings, sizeof *a->settings * (size_t)(a->n_settings + 1));
    if (!a->settings) abort();
    struct str *s = &a->settings[a->n_settings++];
    *s = (struct str){0};
    str_puts(s, text);
    return str_get(s);
}

static bool change_setting(struct app *a, const struct option_fact *f, const char *value)
{
    struct err e = {0};
    struct options changed = a->options;
    bool now = (f->groups & SLASH_SET_NOW) != 0;
    if (options_set(&changed, f->groups, f->name, keep_text(a, value), &e)) {
        app_flash(a, "%s", e.text);
        return false;
    }
    if (!now && a->o->private_mode) {
        app_flash(a, "%s is set when a conversation is opened; this one is private", f->name);
        return false;
    }
    if (!now && !app_ready(a)) return false;
    a->options_before = a->options;
    a->options = changed;
    app_act(a, ACT_SET, "", 0);
    if (now) {
        app_event(a, "%s %s from the next token on", f->name, value);
    } else {
        a->reopening = true;
        app_act(a, ACT_OPEN, a->name, strlen(a->name));
    }
    return true;
}

static bool set(struct app *a, const char *argument)
{
    char name[64];
    size_t n = strcspn(argument, " =");
    struct option_fact f;
    struct err e = {0};
    if (n == 0) return show_settings(a);
    snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), argument);
    if (!slash_setting(name, &f, &e)) {
        app_flash(a, "%s", e.text);
        return false;
    }
    const char *value = argument + n + strspn(argument + n, " =");
    if (value[0]) return change_setting(a, &f, value);
    struct str s = {0};
    put_setting(a, &f, &s);
    app_note(a, str_get(&s), s.n ? s.n - 1 : 0);
    str_release(&s);
    return true;
}

/* ---- conversations -------------------------------------------------------------------------- */

static const char *nearest_name(const struct app *a, const char *name)
{
    const char *best = NULL;
    int best_distance = INT_MAX;
    for (int i = 0; i < a->list.n; i++) {
        int d = edit_distance(name, strlen(name), a->list.rows[i].name);
        if (d < best_distance) {
            best_distance = d;
            best = a->list.rows[i].name;
        }
    }
    return best;
}

static bool is_saved(const struct app *a, const char *name)
{
    for (int i = 0; i < a->list.n; i++)
        if (strcmp(a->list.rows[i].name, name) == 0) return true;
    return false;
}

/* An act on a saved conversation. */
static bool act_on(struct app *a, enum act act, const char *name)
{
    if (!is_saved(a, name)) {
        const char *near = nearest_name(a, name);
        app_flash(a, "no conversation %.40s%s%.40s", name, near ? "; nearest: " : "",
                  near ? near : "");
        return false;
    }
    if (strcmp(name, a->name) == 0) {
        app_flash(a, "%.40s is open", name);
        return act == ACT_OPEN;
    }
    if (act == ACT_OPEN && !app_ready(a)) return false;
    app_act(a, act, name, strlen(name));
    return true;
}

static bool restore(struct app *a, const char *name)
{
    if (!name[0]) name = a->list.deleted;
    if (!name[0]) {
        app_flash(a, "nothing was deleted in this run; /restore NAME");
        return false;
    }
    app_act(a, ACT_RESTORE, name, strlen(name));
    return true;
}

static bool rename_open(struct app *a, const char *name)
{
    if (!name[0] || !app_ready(a)) {
        if (!name[0]) app_flash(a, "/rename NEW");
        return false;
    }
    app_act(a, ACT_RENAME_OPEN, name, strlen(name));
    return true;
}

static bool tag_open(struct app *a, const char *words)
{
    struct str text = {0};
    if (!words[0] || a->o->private_mode) {
        app_flash(a, words[0] ? "a private conversation has no tags" : "/tag [-]TAG...");
        return false;
    }
    str_printf(&text, "%s\n%s", a->name, words);
    app_act(a, ACT_TAG, text.data, text.n);
    str_release(&text);
    return true;
}

static bool begin_new(struct app *a)
{
    if (!app_ready(a)) return false;
    app_act(a, ACT_OPEN, "", 0);
    return true;
}

static bool find(struct app *a, const char *text)
{
    app_show(a, VIEW_LIST);
    edit_set(&a->list.filter, text, strlen(text));
    a->list.mode = LIST_FIND;
    app_act(a, ACT_SEARCH, text, strlen(text));
    return true;
}

/* ---- taking text away ----------------------------------------------------------------------- */

static void put_talk(const struct app *a, struct str *out)
{
    static const char *const roles[] = {
        [CHAT_SYSTEM] = "system", [CHAT_USER] = "user", [CHAT_ASSISTANT] = "assistant"};
    for (int i = 0; i < a->talk.n; i++) {
        const struct message *m = &a->talk.messages[i];
        if (m->role == TRANSCRIPT_NOTE) continue;
        str_printf(out, "%s## %s\n\n", out->n ? "\n" : "", roles[m->role]);
        str_append(out, str_get(&m->raw), m->raw.n);
        if (m->raw.n == 0 || m->raw.data[m->raw.n - 1] != '\n') str_puts(out, "\n");
    }
}

static bool copy(struct app *a, const char *what)
{
    struct str all = {0};
    const struct message *m = last_answer(a);
    if (strcmp(what, "all") == 0) {
        put_talk(a, &all);
        app_act(a, ACT_COPY, str_get(&all), all.n);
        str_release(&all);
        return true;
    }
    size_t from = 0, n = m ? m->raw.n : 0;
    bool code = strcmp(what, "code") == 0;
    if (!m || n == 0) {
        app_flash(a, "there is no answer to copy");
    } else if (what[0] && !code) {
        app_flash(a, "/copy takes code or all");
    } else if (code && !talk_code(&m->raw, &from, &n)) {
        app_flash(a, "the last answer has no code block");
    } else {
        app_act(a, ACT_COPY, m->raw.data + from, n);
        return true;
    }
    return false;
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

/* ---- the table ------------------------------------------------------------------------------ */

static bool run(struct app *a, enum slash command, const char *argument, size_t n)
{
    switch (command) {
    case SLASH_HELP: app_show(a, VIEW_HELP); break;
    case SLASH_LIST: app_show(a, VIEW_LIST); break;
    case SLASH_MAP: app_show(a, VIEW_MAP); break;
    case SLASH_TINT: app_show(a, VIEW_TINT); break;
    case SLASH_LOG: app_show(a, VIEW_LOG); break;
    case SLASH_STATS: return show_stats(a);
    case SLASH_CONTINUE: return go_on(a);
    case SLASH_REGENERATE:
    case SLASH_EDIT:
    case SLASH_REWIND: return take_back(a, command, argument);
    case SLASH_ANSWER: return amend(a, argument, n);
    case SLASH_BRANCH: return branch(a, argument);
    case SLASH_SET: return set(a, argument);
    case SLASH_NOW: return send_now(a);
    case SLASH_EDITOR: app_act(a, ACT_EDITOR, "", 0); break;
    case SLASH_FIND: return find(a, argument);
    case SLASH_OPEN: return act_on(a, ACT_OPEN, argument);
    case SLASH_NEW: return begin_new(a);
    case SLASH_RENAME: return rename_open(a, argument);
    case SLASH_TAG: return tag_open(a, argument);
    case SLASH_DELETE: return act_on(a, ACT_DELETE, argument);
    case SLASH_RESTORE: return restore(a, argument);
    case SLASH_DROP: return act_on(a, ACT_DROP, argument);
    case SLASH_COPY: return copy(a, argument);
    case SLASH_SAVE: return save(a, argument);
    case SLASH_RAW:
        a->talk.raw = !a->talk.raw;
        app_flash(a, a->talk.raw ? "Markdown as the model wrote it" : "Markdown drawn");
        break;
    case SLASH_QUIT: app_act(a, ACT_QUIT, "", 0); break;
    case SLASH_SAY:
    case SLASH_UNKNOWN: return false;
    }
    return true;
}

bool command_run(struct app *a, enum slash command, const char *argument, size_t n)
{
    struct str copied = {0}; /* ends where the argument does */
    str_append(&copied, argument, n);
    bool ran = run(a, command, str_get(&copied), n);
    str_release(&copied);
    return ran;
}
