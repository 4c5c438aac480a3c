#include "cli/control/control.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/control/edit_folder.h"
#include "cli/control/model_list.h"
#include "cli/control/resume.h"
#include "cli/control/control_parts.h"
#include "cli/print/num.h"
#include "runtime/cache/policy.h"
#include "runtime/save/conversations.h"
#include "runtime/save/passages.h"

/* ---- events ---------------------------------------------------------------------------------- */

/* A running request: the receiver of its events, and the turn they belong to. */
struct run {
    struct control *c;
    const struct events *ev;
    bool answering;
    bool renews; /* /system: the conversation is opened with this text, NULL = none */
    const char *system;
};

static void emit(const struct events *ev, struct event event)
{
    ev->event(ev->ctx, &event);
}

static void emit_text(const struct events *ev, enum event_kind kind, const char *text)
{
    emit(ev, (struct event){.kind = kind, .text = text, .n_text = strlen(text)});
}

/* Passes the text on, and releases it. */
static void emit_note(const struct events *ev, struct str *text)
{
    if (text->n) emit_text(ev, EVENT_NOTE, str_get(text));
    str_release(text);
}

static void emit_error(const struct events *ev, enum event_kind kind, const struct err *e)
{
    emit(ev,
         (struct event){.kind = kind, .text = e->text, .n_text = strlen(e->text), .code = e->code});
}

static int64_t n_tokens(const struct run *r)
{
    struct session_stats st;
    session_stats(r->c->parts.session, &st);
    return st.n_tokens;
}

static int on_load(void *ctx, int64_t done, int64_t total)
{
    const struct run *r = ctx;
    if (!total) emit_text(r->ev, EVENT_NOTICE, ENGINE_COMPILING);
    emit(r->ev, (struct event){.kind = EVENT_LOADING, .progress = {done, total}});
    return r->ev->stop(r->ev->ctx);
}

static void on_progress(void *ctx, int64_t done, int64_t total)
{
    const struct run *r = ctx;
    emit(r->ev, (struct event){.kind = EVENT_READING, .progress = {done, total}});
}

static void on_text(void *ctx, const char *utf8, size_t n)
{
    struct run *r = ctx;
    if (!r->answering) emit(r->ev, (struct event){.kind = EVENT_ANSWER, .position = n_tokens(r)});
    r->answering = true;
    emit(r->ev, (struct event){.kind = EVENT_TEXT, .text = utf8, .n_text = n});
}

static void on_thought(void *ctx, const char *utf8, size_t n, int64_t n_tokens_thought, double ms)
{
    const struct run *r = ctx;
    emit(r->ev,
         (struct event){
             .kind = EVENT_THOUGHT, .text = utf8, .n_text = n, .thought = {n_tokens_thought, ms}});
}

static void on_tokens(void *ctx, int64_t position, int n, const uint16_t *n_bytes)
{
    const struct run *r = ctx;
    emit(r->ev, (struct event){.kind = EVENT_TOKENS,
                               .text = (const char *)n_bytes,
                               .n_text = sizeof *n_bytes * (size_t)n,
                               .tokens = {position, n}});
}

static void on_evicted(void *ctx, int64_t n, int64_t length)
{
    const struct run *r = ctx;
    emit(r->ev, (struct event){.kind = EVENT_EVICTED, .evicted = {n, length}});
}

static void on_recalled(void *ctx, const struct session_recalled *recalled)
{
    const struct run *r = ctx;
    struct str text = {0};
    recalled_sentence(recalled, &text);
    struct event event = {.kind = EVENT_RECALLED,
                          .text = str_get(&text),
                          .n_text = text.n,
                          .recalled.n = recalled->n};
    for (int i = 0; i < recalled->n; i++) {
        event.recalled.spans[i].from = recalled->windows[i].position;
        event.recalled.spans[i].end = recalled->windows[i].position + recalled->windows[i].n;
    }
    emit(r->ev, event);
    str_release(&text);
}

static bool on_stop(void *ctx)
{
    const struct run *r = ctx;
    return r->ev->stop(r->ev->ctx);
}

static struct session_sink sink_of(struct run *r)
{
    return (struct session_sink){.ctx = r,
                                 .progress = on_progress,
                                 .text = on_text,
                                 .thought = on_thought,
                                 .tokens = on_tokens,
                                 .evicted = on_evicted,
                                 .recalled = on_recalled,
                                 .stop = on_stop};
}

/* ---- turns ----------------------------------------------------------------------------------- */

static void emit_end(struct run *r, int rc, enum session_end how, const struct err *e)
{
    const struct session *s = r->c->parts.session;
    if (rc)
        emit_error(r->ev, EVENT_FAILED, e);
    else
        emit(r->ev, (struct event){.kind = EVENT_END,
                                   .end = {how == SESSION_TURN_END ? session_ended(s) : how,
                                           n_tokens(r), session_can_continue(s)}});
}

static int change(struct run *r, const char *name, const char *model);

/* The message after /edit. */
static int replace(struct run *r, const struct request *q, const struct session_sink *sink,
                   enum session_end *end, struct err *e)
{
    struct session *s = r->c->parts.session;
    int64_t turn = r->c->edited - 1;
    emit(r->ev, (struct event){.kind = EVENT_BEGIN, .position = session_turn_end(s, turn)});
    int rc = session_replace(s, turn, str_get(&q->text), q->text.n, sink, end, e);
    if (!rc) r->c->edited = 0;
    return rc;
}

/* The session reads sentences about the message as a turn before it: its own sentences whose units
 * left the archive, and with --recall-from sentences of other conversations. */
static int read_passage(struct run *r, const struct request *q, const struct session_sink *sink,
                        struct err *e)
{
    struct control *c = r->c;
    const char *from = c->options.chat.recall_from;
    str_clear(&c->passage);
    int rc = session_recall_text(c->parts.session, str_get(&q->text), q->text.n, &c->passage, e);
    if (!rc && from)
        rc = passages_find(c->parts.library, from, c->name, str_get(&q->text), q->text.n,
                           &c->passage, e);
    if (rc || !c->passage.n) return rc;
    const struct chat_message turn[] = {{CHAT_USER, c->passage.data},
                                        {CHAT_ASSISTANT, PASSAGES_ANSWER}};
    rc = session_feed(c->parts.session, turn, 2, sink, e);
    emit(r->ev, (struct event){.kind = EVENT_PASSAGE,
                               .text = c->passage.data,
                               .n_text = c->passage.n,
                               .position = n_tokens(r)});
    return rc;
}

static int say(struct run *r, const struct request *q, const struct session_sink *sink,
               enum session_end *end, struct err *e)
{
    int rc = read_passage(r, q, sink, e);
    if (rc) return rc;
    emit(r->ev, (struct event){.kind = EVENT_BEGIN, .position = n_tokens(r)});
    return session_say(r->c->parts.session, str_get(&q->text), q->text.n, sink, end, e);
}

/* When a message or an answer cannot be replaced, the conversation is opened again as it was. */
static void run_turn(struct run *r, const struct request *q)
{
    struct session *s = r->c->parts.session;
    struct session_sink sink = sink_of(r);
    enum session_end end = SESSION_TURN_END;
    struct err e = {0};
    int rc;
    bool edits = q->command == SLASH_SAY && r->c->edited;
    if (q->command == SLASH_CONTINUE)
        emit(r->ev, (struct event){.kind = EVENT_BEGIN, .position = n_tokens(r)});
    if (edits)
        rc = replace(r, q, &sink, &end, &e);
    else if (q->command == SLASH_CONTINUE)
        rc = session_continue(s, &sink, &end, &e);
    else if (q->command == SLASH_REGENERATE)
        rc = session_regenerate(s, &sink, &end, &e);
    else
        rc = say(r, q, &sink, &end, &e);
    emit_end(r, rc, end, &e);
    if (session_must_reopen(s)) change(r, r->c->name, NULL);
}

static void amend(struct run *r, const struct request *q)
{
    struct session_sink sink = sink_of(r);
    struct err e = {0};
    int rc = session_amend(r->c->parts.session, str_get(&q->text), q->text.n, &sink, &e);
    emit_end(r, rc, SESSION_TURN_END, &e);
}

/* The last turn that is kept. */
static int64_t end_of(const struct request *q)
{
    return q->command == SLASH_EDIT ? q->turn - 1 : q->turn;
}

/* Describes the request and its cost in tokens. must: it waits for the user's consent. */
static void ask(const struct run *r, const struct request *q, int64_t tokens, bool must)
{
    struct session_stats st;
    struct str s = {0};
    char cost[NUM_MAX];
    const bool edits = q->command == SLASH_EDIT, goes_back = edits || q->command == SLASH_REWIND;
    session_stats(r->c->parts.session, &st);
    const int64_t lost = goes_back ? st.n_turns - q->turn : 0;
    switch (q->command) {
    case SLASH_FORGET: str_printf(&s, "forget turn %lld", (long long)q->turn); break;
    case SLASH_MODEL: str_printf(&s, "continue with %s: ", str_get(&q->text)); break;
    case SLASH_SYSTEM: str_puts(&s, "another system text: "); break;
    case SLASH_REGENERATE: str_puts(&s, "another answer: "); break;
    case SLASH_EDIT:
        str_printf(&s, "change turn %lld: deletes its answer", (long long)q->turn);
        break;
    default: str_printf(&s, "back to turn %lld: ", (long long)q->turn);
    }
    if (lost > 0)
        str_printf(&s, "%s%lld turn%s", edits ? " and " : "deletes ", (long long)lost,
                   lost == 1 ? "" : "s");
    if (edits || lost > 0) str_puts(&s, "; ");
    if (q->command == SLASH_FORGET)
        str_printf(&s, ", %s tokens, with your next message?", num_exact(tokens, cost));
    else
        str_puts(&s, num_replay(tokens, st.prefill_tok_s, cost));
    emit(r->ev,
         (struct event){
             .kind = EVENT_QUESTION, .text = str_get(&s), .n_text = s.n, .cost = {tokens, must}});
    str_release(&s);
}

/* /edit, /rewind and /regenerate: the user must agree because a message would be lost or tokens
 * would be replayed. */
static void ask_back(const struct run *r, const struct request *q)
{
    const struct session *s = r->c->parts.session;
    struct session_stats st;
    session_stats(s, &st);
    const bool again = q->command == SLASH_REGENERATE;
    const int64_t cost = again ? session_regenerate_cost(s) : session_rewind_cost(s, end_of(q));
    ask(r, q, cost, cost || (!again && end_of(q) < st.n_turns));
}

struct pick {
    const struct events *ev;
    int64_t turn;
};

static int take_message(void *ctx, const struct store_message *m)
{
    struct pick *k = ctx;
    if (m->role != CHAT_USER || --k->turn != 0) return 0;
    emit(k->ev, (struct event){.kind = EVENT_TAKEN, .text = m->text, .n_text = m->n_text});
    return 1;
}

/* /edit: hands the message out. Nothing is removed before the new one is sent (replace), so that a
 * user who leaves meanwhile has lost nothing. */
static void take_out(struct run *r, const struct request *q)
{
    struct session *s = r->c->parts.session;
    struct pick pick = {r->ev, q->turn};
    struct err e = {0};
    int rc = session_check_turn(s, q->turn - 1, 0, &e);
    if (!rc) rc = conversations_messages(r->c->parts.library, r->c->name, take_message, &pick, &e);
    if (rc >= 0) {
        r->c->edited = q->turn;
        emit(r->ev, (struct event){.kind = EVENT_CUT, .turn = q->turn - 1});
        emit(r->ev, (struct event){.kind = EVENT_END,
                                   .end = {SESSION_TURN_END, session_turn_end(s, q->turn - 1)}});
    } else {
        emit_end(r, rc, SESSION_TURN_END, &e);
    }
}

static void take_back(struct run *r, const struct request *q)
{
    struct session_sink sink = sink_of(r);
    struct err e = {0};
    int64_t turn = end_of(q);
    int rc = session_rewind(r->c->parts.session, turn, &sink, &e);
    if (!rc || rc == ERR_STOP) emit(r->ev, (struct event){.kind = EVENT_CUT, .turn = turn});
    emit_end(r, rc, SESSION_TURN_END, &e);
}

static int branch(struct run *r, const struct request *q, struct err *e)
{
    char made[STORE_NAME_MAX];
    int rc = session_branch(r->c->parts.session, q->turn, str_get(&q->text), made, e);
    if (!rc) emit_text(r->ev, EVENT_BRANCHED, made);
    return rc;
}

/* /recall WORDS, /recall turn N */
static int recall(struct run *r, const struct request *q, struct err *e)
{
    struct session *s = r->c->parts.session;
    const char *words = str_get(&q->text);
    struct session_recalled found;
    struct str text = {0};
    long long turn;
    int n = 0;
    if (q->text.n == 0) return err_set(e, ERR_USAGE, "/recall WORDS, or /recall turn N");
    bool by_turn = sscanf(words, "turn %lld%n", &turn, &n) == 1 && !words[n];
    int rc = by_turn ? session_recall_turn(s, turn, &found, e)
                     : session_recall(s, words, q->text.n, &found, e);
    if (rc) return rc;
    recalled_lines(&found, "comes back with your next message", &text);
    emit_note(r->ev, &text);
    return 0;
}

/* /recalled */
static void show_recalled(struct run *r)
{
    struct str text = {0};
    recalled_lines(session_recalled(r->c->parts.session), "came back for the last message", &text);
    if (r->c->passage.n) str_printf(&text, "\nread before it: %s", str_get(&r->c->passage));
    emit_note(r->ev, &text);
}

static void show_why(struct run *r)
{
    struct str text = {0};
    why_lines(&r->c->options, &r->c->parts, &text);
    emit_note(r->ev, &text);
}

/* /pin, /unpin, /forget [TURN] */
static int mark(struct run *r, const struct request *q, struct err *e)
{
    struct session *s = r->c->parts.session;
    const struct session_sink sink = sink_of(r);
    const char *what;
    struct str text = {0};
    int rc;
    if (q->command == SLASH_PIN) {
        rc = session_pin(s, q->turn, &sink, e);
        what = "stays in the cache; /unpin ends it";
    } else if (q->command == SLASH_UNPIN) {
        rc = session_unpin(s, q->turn, &sink, e);
        what = "may be evicted again";
    } else if (q->turn == 0) {
        rc = session_unforget(s, &sink, e);
        if (!rc)
            emit_text(r->ev, EVENT_NOTE, "taken back: no turn is forgotten since the last message");
        return rc;
    } else if (!q->agreed) {
        int64_t n = session_turn_end(s, q->turn) - session_turn_end(s, q->turn - 1);
        ask(r, q, n, true);
        return 0;
    } else {
        rc = session_forget(s, q->turn, &sink, e);
        what = "is forgotten; until your next message /forget undo takes that back";
    }
    if (rc) return rc;
    str_printf(&text, "turn %lld %s", (long long)q->turn, what);
    emit_note(r->ev, &text);
    return 0;
}

/* /tokens TEXT */
static int count_tokens(struct run *r, const struct request *q, struct err *e)
{
    struct str text = {0};
    int64_t n;
    if (q->text.n == 0) return err_set(e, ERR_USAGE, "/tokens TEXT");
    int rc = session_count_tokens(r->c->parts.session, str_get(&q->text), q->text.n, &n, e);
    if (rc) return rc;
    str_printf(&text, "%lld token%s, %zu bytes", (long long)n, n == 1 ? "" : "s", q->text.n);
    emit_note(r->ev, &text);
    return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Options that open `name`; "" = a new conversation, NULL = as they are. */
static struct session_opts opening(const struct session_opts *o, const char *name)
{
    struct session_opts to = *o;
    to.recall.n_text = RECALL_TEXT;
    if (!name) return to;
    to.continue_latest = false;
    to.new_conversation = name[0] == 0;
    to.conversation = name[0] ? name : NULL;
    return to;
}

/* Notes the settings that are saved with the conversation. */
static void keep(struct control *c)
{
    str_clear(&c->kept);
    options_print_kept(&c->options, &c->kept);
    c->options.session.kept = str_get(&c->kept);
}

static int begin(struct run *r, const char *name, struct err *e)
{
    struct control *c = r->c;
    struct session_sink sink = sink_of(r);
    struct cli_session *p = &c->parts;
    const char *from = c->options.chat.recall_from;
    keep(c);
    struct session_opts o = opening(&c->options.session, name);
    int rc = from ? passages_check(p->library, from, e) : 0;
    if (!rc) rc = session_open(&p->session, p->engine, p->library, &o, &sink, e);
    if (rc) return rc;
    str_clear(&c->passage);
    c->options.session.replace_system = false;
    c->opened = c->options;
    c->opened_base = c->base;
    c->edited = 0;
    control_name(c->name, session_name(p->session));
    emit(r->ev, (struct event){.kind = EVENT_OPENED,
                               .text = c->name,
                               .n_text = strlen(c->name),
                               .end = {.how = session_ended(p->session),
                                       .can_continue = session_can_continue(p->session)}});
    const char *notice = session_notice(p->session);
    if (notice[0]) emit_text(r->ev, EVENT_NOTICE, notice);
    return 0;
}

/* ---- another model --------------------------------------------------------------------------- */

static int load(struct run *r, struct err *e)
{
    struct cli_session *p = &r->c->parts;
    const struct options *o = &r->c->options;
    struct engine_opts engine = o->engine;
    engine.registry = conversations_registry(p->library);
    engine.leaves_no_copy = o->session.private_mode;
    emit(r->ev, (struct event){.kind = EVENT_LOADING, .progress = {0, 0}});
    int rc = engine_open(&p->engine, &engine, &o->session.plan, 1, on_load, r, e);
    if (!rc) emit_text(r->ev, EVENT_MODEL, o->engine.model ? o->engine.model : "");
    return rc;
}

static void tell_fit(struct run *r)
{
    struct str note = {0};
    fit_tell(&r->c->options, r->c->parts.engine, &note);
    if (note.n) emit_text(r->ev, EVENT_NOTICE, str_get(&note));
    str_release(&note);
}

/* Sets out->options for a conversation and a model: "" = the demo, NULL = the conversation's model,
 * or the open model for a new conversation. */
static int choose(struct control *c, const char *name, const char *model, struct chosen *out,
                  struct err *e)
{
    struct options *o = &out->options;
    const bool saved = name[0] && !c->base.session.private_mode;
    *out = (struct chosen){.options = c->base};
    const char *file = model && *model ? model : model ? NULL : c->options.engine.model;
    out->file = file ? strdup(file) : NULL;
    o->engine.model = out->file;
    if (!str_same(out->file, c->base.engine.model)) {
        options_unset(o, "heads"); /* heads and template were chosen for the other model */
        options_unset(o, "template");
    }
    int rc = resume_options(o, saved ? c->parts.library : NULL, name, !model, &out->resume, e);
    const struct policy *p = o->session.plan.policy.row;
    bool other = !str_same(o->engine.model, c->options.engine.model);
    if (!rc && other && p && p->scorer == POLICY_CIS && o->engine.model && !o->engine.heads.path)
        options_unset(o, "policy"); /* it was given for a model that has heads */
    if (!rc && c->interactive) resume_demo(o);
    return rc;
}

/* Sets the system text of /system. An empty conversation has not saved its system text, so it is
 * passed on here. */
static void choose_system(struct run *r, bool again, struct chosen *out)
{
    const struct session *s = r->c->parts.session;
    struct session_opts *o = &out->options.session;
    if (!r->renews && !(again && s && n_tokens(r) == 0)) return;
    const char *text = r->renews ? r->system : session_system(s);
    out->system = text ? strdup(text) : NULL;
    o->system = out->system;
    o->replace_system = true;
}

static void chosen_release(struct chosen *k)
{
    resume_release(&k->resume);
    free(k->file);
    free(k->system);
    *k = (struct chosen){0};
}

/* Opens a conversation as chosen. The old model is closed first where another one is needed,
 * because both may not fit. */
static int open_chosen(struct run *r, const char *name, struct err *e)
{
    struct cli_session *p = &r->c->parts;
    int rc = p->engine ? 0 : load(r, e);
    if (!rc && r->c->interactive) tell_fit(r);
    if (!rc) rc = begin(r, name, e);
    return rc;
}

/* Closes the session. session_close removes its conversation if it is empty and has no name from
 * the user. `last` is the conversation's name; it becomes "" if there is no such conversation now.
 */
static void close_session(struct control *c, char last[STORE_NAME_MAX])
{
    struct conversations *l = c->parts.library;
    session_close(c->parts.session);
    c->parts.session = NULL;
    if (c->options.session.private_mode || (l && !conversations_has(l, last, NULL))) last[0] = 0;
}

/* Closes the engine if another model is needed. */
static void close_for(struct control *c, const char *model)
{
    session_close(c->parts.session);
    c->parts.session = NULL;
    if (str_same(model, c->options.engine.model) && !c->fitted) return;
    engine_close(c->parts.engine);
    c->parts.engine = NULL;
    fit_stop(&c->fit);
    c->fitted = false;
}

/* Restores the options that the previous conversation was opened with, except the sampling
 * settings, which apply without an opening. */
static void take_back_memory(struct control *c)
{
    const struct options now = c->base;
    c->options = c->opened;
    c->base = c->opened_base;
    for (int i = 0; i < 2; i++) {
        struct options *o = i ? &c->options : &c->base;
        o->session.sampling = now.session.sampling;
        o->session.max_tokens = now.session.max_tokens;
        o->session.ignore_end = now.session.ignore_end;
    }
}

/* Opens another conversation, the same one with other settings, or with another model. When that
 * fails, reopens the previous one unchanged; ERR_* when that fails, too. */
static int change(struct run *r, const char *name, const char *model)
{
    struct control *c = r->c;
    struct err e = {0}, second = {0};
    struct chosen next, before = c->chosen;
    char wanted[STORE_NAME_MAX], last[STORE_NAME_MAX];
    control_name(wanted, name);
    control_name(last, c->name);
    const bool again = strcmp(wanted, last) == 0;
    int rc = choose(c, wanted, model, &next, &e);
    before.options = c->opened;
    if (rc) {
        take_back_memory(c);
        chosen_release(&next);
        emit_error(r->ev, EVENT_FAILED, &e);
        return 0;
    }
    choose_system(r, again, &next);
    close_session(c, last);
    if (again) control_name(wanted, last);
    emit_text(r->ev, EVENT_OPENING, wanted);
    close_for(c, next.options.engine.model);
    c->options = next.options;
    rc = open_chosen(r, wanted, &e);
    if (!rc) {
        c->chosen = next;
        chosen_release(&before);
        return 0;
    }
    close_for(c, before.options.engine.model);
    take_back_memory(c);
    chosen_release(&next);
    emit_text(r->ev, EVENT_OPENING, last);
    emit_error(r->ev, EVENT_FAILED, &e);
    rc = open_chosen(r, last, &second);
    if (rc) emit_error(r->ev, EVENT_FATAL, &second);
    return rc;
}

/* The tokens that the model would read, as the cost. */
static void ask_model(struct run *r, const struct request *q, const char *path, int64_t n_tokens)
{
    const struct control *c = r->c;
    int64_t cost = c->options.session.private_mode
                       ? 0
                       : resume_cost(c->parts.library, c->name, *path ? path : NULL, n_tokens);
    ask(r, q, cost, cost > 0);
}

static int run_model(struct run *r, const struct request *q)
{
    struct session_stats st;
    struct str path = {0};
    struct err e = {0};
    int rc = 0, private_mode = r->c->options.session.private_mode;
    session_stats(r->c->parts.session, &st);
    if (private_mode && st.n_turns > 0)
        err_set(&e, ERR_USAGE,
                "a private conversation is not saved, so no other model can read it");
    else
        model_find(&r->c->options, r->c->parts.library, str_get(&q->text), &path, &e);
    if (e.code)
        emit_error(r->ev, EVENT_FAILED, &e);
    else if (!q->agreed)
        ask_model(r, q, str_get(&path), st.n_tokens);
    else
        rc = change(r, r->c->options.session.private_mode ? "" : r->c->name, str_get(&path));
    str_release(&path);
    return rc;
}

/* ---- the system text ------------------------------------------------------------------------- */

static void show_system(struct run *r)
{
    const char *text = session_system(r->c->parts.session);
    struct str note = {0};
    str_printf(&note, text ? "system text: %s" : "no system text; /system TEXT sets one", text);
    emit_note(r->ev, &note);
}

/* /system [TEXT|none]: opens the conversation again, which reads its text again. */
static int run_system(struct run *r, const struct request *q)
{
    struct control *c = r->c;
    struct session *s = c->parts.session;
    const char *text = strcmp(str_get(&q->text), "none") ? str_get(&q->text) : NULL;
    const char *now = session_system(s);
    struct err e = {0};
    int64_t cost = 0;
    if (!q->text.n || str_same(now, text)) {
        show_system(r);
        return 0;
    }
    if (session_system_cost(s, text, &cost, &e)) {
        emit_error(r->ev, EVENT_FAILED, &e);
        return 0;
    }
    if (!q->agreed) {
        ask(r, q, cost, cost > 0);
        return 0;
    }
    r->renews = true;
    r->system = text;
    int rc = change(r, c->options.session.private_mode ? "" : c->name, NULL);
    if (!rc) show_system(r);
    return rc;
}

/* ---- damaged weights ------------------------------------------------------------------------- */

/* Names of conversations that were last open with the model, each with its NUL. */
struct damaged {
    const char *model;
    struct str names;
};

static int keep_name(void *ctx, const struct conversations_entry *c)
{
    struct damaged *d = ctx;
    if (!strcmp(c->model, d->model)) str_append(&d->names, c->name, strlen(c->name) + 1);
    return 0;
}

/* Removes the saved caches of the conversations with this model. Their texts stay, and opening one
 * reads its text again. */
static void drop_caches(struct conversations *l, const char *model)
{
    struct damaged d = {.model = model};
    /* another program has the conversation open, and checks its own copy */
    if (l) conversations_list(l, NULL, keep_name, &d, NULL);
    for (size_t at = 0; at < d.names.n; at += strlen(d.names.data + at) + 1)
        conversations_drop_cache(l, d.names.data + at, NULL);
    str_release(&d.names);
}

/* Loads the model again if the copy of its weights was found damaged. A private conversation goes
 * on with them: it would be lost. */
static int replace_damaged(struct run *r)
{
    struct control *c = r->c;
    struct cli_session *p = &c->parts;
    char why[256], model[96];
    if (c->told_damage || !p->engine || !engine_is_damaged(p->engine, why)) return 0;
    emit_text(r->ev, EVENT_NOTICE, why);
    c->told_damage = c->options.session.private_mode;
    if (c->told_damage) return 0;
    snprintf(model, sizeof model, "%s", p->engine->model->name);
    session_close(p->session);
    engine_close(p->engine);
    p->session = NULL;
    p->engine = NULL;
    drop_caches(p->library, model);
    return change(r, c->name, NULL);
}

/* ---- opening by name ------------------------------------------------------------------------- */

static int open_named(struct run *r, const char *name)
{
    struct err e = {0};
    int found = conversations_has(r->c->parts.library, name, &e);
    if (!found) err_set(&e, ERR_FAIL, "no conversation %.100s; /list shows them", name);
    if (found > 0) return change(r, name, NULL);
    emit_error(r->ev, EVENT_FAILED, &e);
    return 0;
}

int control_begin(struct control *c, const struct events *ev, struct err *e)
{
    struct run r = {.c = c, .ev = ev};
    c->base = c->options.base ? *c->options.base : c->options;
    emit(ev, (struct event){.kind = EVENT_LOADED});
    return begin(&r, NULL, e);
}

int control_open(struct control *c, const struct options *o, const struct events *ev, struct err *e)
{
    struct run r = {.c = c, .ev = ev};
    edit_folders_clean();
    c->options = *o;
    int rc = cli_session_load(&c->parts, o, true, on_load, &r, e);
    if (!rc && c->interactive) tell_fit(&r);
    if (!rc) rc = control_begin(c, ev, e);
    if (rc) emit_error(ev, EVENT_FATAL, e);
    return rc;
}

void control_close(struct control *c)
{
    cli_session_close(&c->parts);
    fit_stop(&c->fit);
    str_release(&c->passage);
    str_release(&c->kept);
    chosen_release(&c->chosen);
}

void control_set(struct control *c, const struct options *o)
{
    const struct engine_opts base = c->base.engine, now = c->options.engine;
    options_give(&c->base, o);
    options_give(&c->options, o);
    c->base.engine = base; /* /set does not change these, and o has another /model's */
    c->options.engine = now;
    keep(c);
    if (c->parts.session) session_set(c->parts.session, &c->options.session);
}

/* ---- saved conversations --------------------------------------------------------------------- */

static int emit_hit(void *ctx, const struct store_hit *h)
{
    emit(ctx, (struct event){.kind = EVENT_FOUND, .hit = h});
    return 0;
}

static int rename_to(struct run *r, const struct request *q, bool open, struct err *e)
{
    struct control *c = r->c;
    int rc = conversations_rename(c->parts.library, q->name, str_get(&q->text), e);
    if (rc || !open) return rc;
    control_name(c->name, str_get(&q->text));
    emit_text(r->ev, EVENT_RENAMED, c->name);
    return 0;
}

static void emit_done(const struct events *ev, const struct request *q)
{
    struct str said = {0};
    if (q->command == SLASH_DELETE)
        str_printf(&said, "%s was deleted; /restore brings it back", q->name);
    else if (q->command == SLASH_RESTORE)
        str_printf(&said, "%s was restored", q->name);
    else if (q->command == SLASH_DROP)
        str_printf(&said, "the cache of %s was deleted; its text is kept", q->name);
    else if (q->command == SLASH_TAG)
        str_puts(&said, "tags changed");
    struct event done = {.kind = EVENT_DONE,
                         .text = str_get(&said),
                         .n_text = said.n,
                         .done = {.command = q->command}};
    control_name(done.done.name, q->name);
    emit(ev, done);
    str_release(&said);
}

static int on_saved(struct run *r, const struct request *q, struct err *e)
{
    struct conversations *l = r->c->parts.library;
    bool open = r->c->parts.session && strcmp(q->name, r->c->name) == 0;
    int rc;
    if (!l || r->c->options.session.private_mode)
        return err_set(e, ERR_USAGE, "private mode has no saved conversations");
    switch (q->command) {
    case SLASH_FIND:
        rc = conversations_search(l, str_get(&q->text), emit_hit, (void *)(uintptr_t)r->ev, e);
        return rc < 0 ? rc : 0;
    case SLASH_RENAME: rc = rename_to(r, q, open, e); break;
    case SLASH_TAG: rc = conversations_retag(l, q->name, str_get(&q->text), e); break;
    case SLASH_RESTORE: rc = conversations_restore(l, q->name, NULL, e); break;
    default:
        if (open) return err_set(e, ERR_USAGE, "%s is open; open another one first", q->name);
        rc = q->command == SLASH_DELETE ? conversations_delete(l, q->name, e)
                                        : conversations_drop_cache(l, q->name, e);
    }
    if (rc || (q->command == SLASH_RENAME && open)) return rc;
    emit_done(r->ev, q);
    return 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* A new message replaces the edited one; a command that changes the conversation finds it as the
 * screen shows it: cut. */
static int settle_edit(struct run *r, const struct request *q, struct err *e)
{
    struct session_sink sink = sink_of(r);
    int64_t turn = r->c->edited - 1;
    if (!r->c->edited || q->command == SLASH_SAY || slash_row_of(q->command)->only_reads) return 0;
    r->c->edited = 0;
    return session_rewind(r->c->parts.session, turn, &sink, e);
}

static int on_session(struct run *r, const struct request *q, struct err *e)
{
    int rc = settle_edit(r, q, e);
    if (rc) return rc;
    bool asked =
        q->command == SLASH_EDIT || q->command == SLASH_REWIND || q->command == SLASH_REGENERATE;
    if (asked && !q->agreed) {
        ask_back(r, q);
        return 0;
    }
    switch (q->command) {
    case SLASH_SAY:
    case SLASH_CONTINUE:
    case SLASH_REGENERATE: run_turn(r, q); return 0;
    case SLASH_ANSWER: amend(r, q); return 0;
    case SLASH_EDIT: take_out(r, q); return 0;
    case SLASH_REWIND: take_back(r, q); return 0;
    case SLASH_BRANCH: return branch(r, q, e);
    case SLASH_TOKENS: return count_tokens(r, q, e);
    case SLASH_RECALL: return recall(r, q, e);
    case SLASH_RECALLED: show_recalled(r); return 0;
    case SLASH_WHY: show_why(r); return 0;
    case SLASH_PIN:
    case SLASH_UNPIN:
    case SLASH_FORGET: return mark(r, q, e);
    default: return err_set(e, ERR_USAGE, "this command is for the front end");
    }
}

/* ---- fitted heads ---------------------------------------------------------------------------- */

static void pass_failure(void *ctx, const struct event *ev)
{
    const struct events *out = ctx;
    if (ev->kind == EVENT_FAILED || ev->kind == EVENT_FATAL) out->event(out->ctx, ev);
}

static bool go_on(void *ctx)
{
    (void)ctx;
    return false;
}

bool control_waits(const struct control *c)
{
    return c->fit.pid > 0;
}

/* Begins to fit heads after the first frame or, in plain lines, after the first answer, so that
 * neither waits. Without a terminal it fits none: the output of a script must not depend on the
 * time that a fit takes. */
static void begin_fit(struct control *c, const struct events *ev)
{
    struct str note = {0};
    if (!c->interactive || !c->parts.session || (c->plain && !c->answered)) return;
    fit_begin(&c->fit, &c->options, c->parts.engine, &note);
    if (note.n) emit_text(ev, EVENT_NOTICE, str_get(&note));
    str_release(&note);
}

/* When the heads are fitted, opens the conversation again with them, without a change on the
 * screen. The heads score the units that are in the cache, so no text is read again. On a GPU they
 * cannot, and wait for the next conversation. */
int control_idle(struct control *c, const struct events *ev)
{
    const struct events quiet = {(void *)(uintptr_t)ev, pass_failure, go_on};
    struct run r = {.c = c, .ev = &quiet};
    begin_fit(c, ev);
    if (c->edited || !fit_done(&c->fit)) return 0;
    c->fitted = true;
    bool now = !c->parts.engine->gpu;
    int rc = now ? change(&r, c->name, NULL) : 0;
    if (rc) return rc;
    emit_text(ev, EVENT_NOTICE,
              now ? "retaining heads are ready: they choose what this conversation keeps"
                  : "retaining heads are ready: the next conversation that is opened uses them");
    return 0;
}

/* ---- one request ----------------------------------------------------------------------------- */

int control_run(struct control *c, const struct request *q, const struct events *ev)
{
    struct run r = {.c = c, .ev = ev};
    struct err e = {0};
    int rc;
    if (q->command == SLASH_NEW) return change(&r, "", NULL);
    if (q->command == SLASH_MODEL) return run_model(&r, q);
    if (q->command == SLASH_SYSTEM) return run_system(&r, q);
    if (q->command == SLASH_OPEN) return open_named(&r, q->name);
    if (slash_row_of(q->command)->place == SLASH_AT_SAVED) {
        rc = on_saved(&r, q, &e);
    } else {
        rc = replace_damaged(&r);
        if (rc) return rc;
        rc = on_session(&r, q, &e);
    }
    if (rc) emit_error(ev, EVENT_FAILED, &e);
    if (q->command == SLASH_SAY) c->answered = true;
    return replace_damaged(&r);
}
