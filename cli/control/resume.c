#include "cli/control/resume.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "cli/control/secret.h"
#include "cli/options/options.h"
#include "cli/options/paths.h"
#include "cli/print/num.h"
#include "cli/print/report.h"
#include "runtime/cache/policy.h"
#include "runtime/forward/engine.h"
#include "runtime/model/demo.h"
#include "runtime/model/model.h"
#include "runtime/save/conversations.h"

#define DIGEST_SHOWN 12 /* hex digits of a digest that a message shows */

void resume_release(struct resume *r)
{
    str_release(&r->template_was);
    str_release(&r->ran);
    str_release(&r->conversation);
    str_release(&r->path);
    str_release(&r->change);
}

void resume_demo(struct options *o)
{
    enum { BUDGET = 96 };
    const float temperature = .3f; /* 0.8, the default, is too much for a model that small */
    o->session.first_budget = 0;
    if (o->engine.model) return;
    if (!o->session.plan.memory) o->session.first_budget = BUDGET;
    if (o->session.sampling.temperature < 0) o->session.sampling.temperature = temperature;
}

/* ---- the conversation's model ---------------------------------------------------------------- */

static void demo_digest(char hex[DIGEST_HEX])
{
    uint8_t digest[DIGEST_BYTES];
    digest_make(digest, demo_model, (size_t)(demo_model_end - demo_model));
    digest_hex(hex, digest);
}

/* Also of an older version. */
static bool is_demo(const struct conversations_origin *from)
{
    char digest[DIGEST_HEX];
    demo_digest(digest);
    return !strcmp(from->state.model, digest) || !strcmp(from->state.model_name, DEMO_MODEL_TITLE);
}

struct search {
    const char *digest, *path; /* one of them is looked for */
    struct str found;          /* a file with that digest, or the digest of that file */
    bool missing;
};

static int look_at(void *ctx, const struct conversations_model *m)
{
    struct search *s = ctx;
    bool here = m->state == MODEL_SAME;
    if (s->path && here && !strcmp(m->path, s->path)) str_puts(&s->found, m->digest);
    if (s->path || strcmp(m->digest, s->digest) != 0) return 0;
    if (s->found.n && !here) return 0;
    str_clear(&s->found);
    str_puts(&s->found, m->path);
    s->missing = m->state == MODEL_MISSING;
    return here; /* otherwise there may be a better one */
}

static int not_here(const struct conversations_origin *from, const char *last, struct err *e)
{
    return err_set(e, ERR_FAIL,
                   "%s was made with %s%s%s (digest %.*s), which is not here any more; retain -c "
                   "'%s' -m FILE opens it with that file, or with another model",
                   from->is.name, *from->state.model_name ? from->state.model_name : "a model",
                   *last ? ", last at " : "", last, DIGEST_SHOWN, from->state.model, from->is.name);
}

/* Sets the model to the conversation's. An unknown digest changes nothing, if the conversation was
 * saved before model names were. */
static int take_model(struct options *o, struct conversations *l,
                      const struct conversations_origin *from, struct resume *r, struct err *e)
{
    struct search s = {.digest = from->state.model};
    if (!*from->state.model) return 0;
    if (is_demo(from)) {
        o->engine.model = NULL;
        return 0;
    }
    int rc = conversations_models(l, NULL, look_at, &s, e);
    rc = rc < 0 ? rc : 0;
    if (!rc && (s.missing || (!s.found.n && *from->state.model_name)))
        rc = not_here(from, str_get(&s.found), e);
    if (!rc && s.found.n) {
        r->path = s.found;
        o->engine.model = str_get(&r->path);
        return 0;
    }
    str_release(&s.found);
    return rc;
}

/* The digest of a file that was not used yet; it is registered. */
static void read_digest(const struct options *o, struct conversations *l, struct str *out)
{
    struct engine_opts engine = o->engine;
    struct engine *g;
    engine.registry = conversations_registry(l);
    engine.heads = (struct engine_heads){.none = true};
    if (engine_prepare(&g, &engine, NULL)) return; /* opening it says why */
    str_puts(out, g->model_digest);
    engine_close(g);
}

/* Of the demo, or of a file that was used before; else nothing. */
static void known_digest(const char *model, struct conversations *l, struct str *out)
{
    char *real = model ? realpath(model, NULL) : NULL;
    struct search s = {.path = real};
    char demo[DIGEST_HEX] = "";
    if (!model) demo_digest(demo);
    str_puts(out, demo);
    if (real) conversations_models(l, NULL, look_at, &s, NULL);
    str_append(out, str_get(&s.found), s.found.n);
    free(real);
    str_release(&s.found);
}

/* Whether the model of o is the conversation's. A file that cannot be read counts as the same:
 * opening it says why. */
static bool is_same_model(const struct options *o, struct conversations *l,
                          const struct conversations_origin *from)
{
    struct str digest = {0};
    if (!o->engine.model) return is_demo(from);
    known_digest(o->engine.model, l, &digest);
    if (!digest.n) read_digest(o, l, &digest);
    bool same = !digest.n || !strcmp(str_get(&digest), from->state.model);
    str_release(&digest);
    return same;
}

int64_t resume_cost(struct conversations *l, const char *name, const char *model, int64_t n_tokens)
{
    struct str digest = {0};
    int64_t cost;
    known_digest(model, l, &digest);
    if (conversations_read_cost(l, name, str_get(&digest), &cost, NULL)) cost = n_tokens;
    str_release(&digest);
    return cost;
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* same: it has the model that it had. Values that this program does not know are left out. */
static void add_conversation(struct options *o, const struct conversations_origin *from, bool same,
                             struct resume *r)
{
    struct str *ran = &r->ran, *given = &r->conversation;
    if (same && from->state.budget > 0) str_printf(ran, "budget = %d\n", from->state.budget);
    if (same && *from->state.policy) str_printf(ran, "policy = %s\n", from->state.policy);
    if (ran->n) options_parse_layer(o, OPTIONS_RAN, ran->data, from->is.name, NULL);
    if (from->state.kept) str_puts(given, from->state.kept);
    if (given->n) options_parse_layer(o, OPTIONS_CONVERSATION, given->data, from->is.name, NULL);
    str_puts(&r->template_was, from->state.template_name);
    o->engine.template_was = same && r->template_was.n ? str_get(&r->template_was) : NULL;
    if (same) return;
    static const char *const own[] = {"heads", "template"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (options_from(o, own[i]) == OPTIONS_CONVERSATION) options_unset(o, own[i]);
}

static void tell_change(const struct options *o, struct conversations *l,
                        const struct conversations_origin *from, struct str *out)
{
    char all[NUM_MAX], cost[NUM_MAX], name[96] = DEMO_MODEL_SHORT;
    if (o->engine.model) model_stem(o->engine.model, name, sizeof name);
    int64_t n = resume_cost(l, from->is.name, o->engine.model, from->is.n_tokens);
    str_printf(out, "%s was made with %s; %s reads %s of its %s tokens again", from->is.name,
               *from->state.model_name ? from->state.model_name : "another model", name,
               num_exact(n, cost), num_exact(from->is.n_tokens, all));
}

int resume_options(struct options *o, struct conversations *l, const char *name, bool own_model,
                   struct resume *r, struct err *e)
{
    struct conversations_origin from = {0};
    bool same = true;
    o->engine.template_was = NULL;
    int found = l ? conversations_origin(l, name, &from, e) : 0;
    int rc = found < 0 ? found : 0;
    if (found > 0 && own_model) rc = take_model(o, l, &from, r, e);
    if (found > 0 && !own_model && *from.state.model) same = is_same_model(o, l, &from);
    if (!same) tell_change(o, l, &from, &r->change);
    if (found > 0 && !rc) add_conversation(o, &from, same, r);
    if (options_from(o, "policy") == OPTIONS_RAN &&
        !strcmp(from.state.policy, policy_default(false, false)))
        o->session.plan.policy.row = NULL; /* the session takes it, or that of newer heads */
    if (options_from(o, "memory") > options_from(o, "budget")) options_unset(o, "budget");
    save_state_release(&from.state);
    return rc;
}

/* ---- the command line ------------------------------------------------------------------------ */

static int agree(const struct options *o, const struct resume *r, struct err *e)
{
    char line[16] = "";
    if (!r->change.n || o->yes) return 0;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return err_set(e, ERR_USAGE, "%s; --yes agrees", str_get(&r->change));
    report_aside("%s. Continue with it? [y/N] ", str_get(&r->change));
    ssize_t n = read(STDIN_FILENO, line, sizeof line - 1);
    if (n > 0 && (*line == 'y' || *line == 'Y')) return 0;
    return err_set(e, ERR_STOP, "%s was not changed", r->change.n ? "the conversation" : "");
}

int resume_begin(struct options *o, struct resume *r, struct err *e)
{
    const struct session_opts *s = &o->session;
    const char *name = s->conversation;
    bool saved = !s->private_mode && !s->new_conversation && (name || s->continue_latest);
    struct conversations *l = NULL;
    struct str path = {0};
    int rc = saved ? path_database(o, &path, e) : 0;
    if (!rc && saved) rc = secret_prepare(o, e);
    if (!rc && saved) rc = secret_open_reading(&l, o, str_get(&path), e);
    if (!rc) rc = resume_options(o, l, name, options_from(o, "model") != OPTIONS_GIVEN, r, e);
    conversations_close(l);
    str_release(&path);
    return rc ? rc : agree(o, r, e);
}
