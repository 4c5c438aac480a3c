/* A conversation that another program has open can't be opened. The previous one is reopened, and
 * settings changed meanwhile stay. */

#include "cli/control/control.h"
#include "runtime/save/conversations.h"
#include "tests/unit/engine_kit.h"

struct seen {
    int n_failed, n_opened, n_tokens;
    char opened[STORE_NAME_MAX]; /* the last one */
};

static void take(void *ctx, const struct event *ev)
{
    struct seen *s = ctx;
    if (ev->kind == EVENT_FAILED) s->n_failed++;
    if (ev->kind == EVENT_FATAL) fail_msg("%.*s", (int)ev->n_text, ev->text);
    if (ev->kind == EVENT_ANSWER) s->n_tokens = 0;
    if (ev->kind == EVENT_TOKENS) s->n_tokens += ev->tokens.n;
    if (ev->kind != EVENT_OPENED) return;
    s->n_opened++;
    snprintf(s->opened, sizeof s->opened, "%.*s", (int)ev->n_text, ev->text);
}

static bool never(void *ctx)
{
    return false;
}

static void run(struct control *c, enum slash command, const char *name, const char *text,
                struct seen *s)
{
    struct events events = {s, take, never};
    struct request r = {.command = command};
    snprintf(r.name, sizeof r.name, "%s", name);
    str_puts(&r.text, text);
    assert_int_equal(control_run(c, &r, &events), 0);
    request_release(&r);
}

TEST(settings_survive_a_failed_switch)
{
    const char *path = path_in(folder_new(), "retain.db");
    AUTO_LIBRARY *other;
    AUTO_SESSION *held;
    struct options o;
    struct seen seen = {0};
    struct events events = {&seen, take, never};
    struct control c = {.parts.engine = engine};
    options_init(&o);
    o.session.sampling.temperature = 0;
    o.session.sampling.seed = 1;
    o.session.max_tokens = 5;
    o.session.conversation = "busy";
    ok(conversations_open(&other, path, NULL, &err));
    ok(session_open(&held, engine, other, &o.session, NULL, &err));

    o.session.conversation = "mine";
    c.options = o;
    ok(conversations_open(&c.parts.library, path, NULL, &err));
    ok(control_begin(&c, &events, &err));
    run(&c, SLASH_SAY, "", "Tell me a story.", &seen);
    ok(options_set(&o, OPTIONS_SAMPLING, "max-tokens", "3", &err));
    ok(options_set(&o, OPTIONS_SAMPLING, "temp", "0.25", &err));
    control_set(&c, &o);
    assert_int_equal(seen.n_failed, 0);
    run(&c, SLASH_OPEN, "busy", "", &seen);
    assert_int_equal(seen.n_failed, 1);
    assert_int_equal(seen.n_opened, 2);
    assert_string_equal(seen.opened, "mine");
    assert_true(c.options.session.sampling.temperature == 0.25f);
    run(&c, SLASH_SAY, "", "Tell me a story.", &seen);
    assert_int_equal(seen.n_tokens, 3);

    c.parts.engine = NULL; /* other tests use it */
    control_close(&c);
}

AROUND_TESTS(engine_set_up, engine_tear_down)
