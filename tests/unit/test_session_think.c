/* Thoughts in a conversation, with a model that always thinks (make_thinker.h): the thought is told
 * from the answer and stored beside it, its units are evicted when the turn is over, and the cache
 * holds the tokens that the template writes for the history, also after resuming, replaying and
 * going back. */
#include <sys/wait.h>

#include "tests/unit/json_kit.h"
#include "tests/unit/make_thinker.h"
#include "tests/unit/session_kit.h"

#define TURNS(open)                                                                        \
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"            \
    "{% if add_generation_prompt %}<|assistant|>{% if enable_thinking is defined and not " \
    "enable_thinking %}<think></think>{% else %}" open "{% endif %}{% endif %}"
#define THINKS TURNS("")
#define OPENS  TURNS("<think>") /* the thought is opened by the prompt */
/* Past thoughts stay. */
#define KEEPS                                                                            \
    "{% for m in messages %}<|{{ m.role }}|>{% if m.reasoning_content %}<think>"         \
    "{{ m.reasoning_content }}</think>\n\n{% endif %}{{ m.content }}<|end|>{% endfor %}" \
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
/* An empty thought is written into the past, and the system text is in the newest message. */
#define MOVES                                                                              \
    "{% for m in messages if m.role != 'system' %}<|{{ m.role }}|>{% if loop.last and "    \
    "messages[0].role == 'system' %}{{ messages[0].content }} {% endif %}{% if m.role == " \
    "'assistant' %}<|mark|>{% endif %}{{ m.content }}<|end|>{% endfor %}"                  \
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
/* Answers end with a token that the model does not generate. */
#define ENDS                                                                             \
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|im_end|>{% endfor %}{% if " \
    "add_generation_prompt %}<|assistant|>{% endif %}"

struct heard {
    struct str text, thought;
    int64_t n_tokens;
    double ms;
    int n_ends, stop_after; /* pieces of the thought; 0 = never */
    bool die;
};

static void on_answer(void *ctx, const char *utf8, size_t n)
{
    str_append(&((struct heard *)ctx)->text, utf8, n);
}

static void on_thought(void *ctx, const char *utf8, size_t n, int64_t n_tokens, double ms)
{
    struct heard *h = ctx;
    str_append(&h->thought, utf8, n);
    if (h->stop_after) h->stop_after--;
    if (h->die && h->thought.n > 20) _exit(7);
    if (n) return;
    assert_int_equal(h->text.n, 0);
    h->n_tokens = n_tokens;
    h->ms = ms;
    h->n_ends++;
}

static bool on_stop_thinking(void *ctx)
{
    return ((struct heard *)ctx)->stop_after == 1;
}

static void release(struct heard *h)
{
    str_release(&h->text);
    str_release(&h->thought);
    *h = (struct heard){0};
}

#define AUTO_HEARD __attribute__((cleanup(release))) struct heard

static enum session_end hear(struct session *s, const char *text, struct heard *h)
{
    struct session_sink k = {
        .ctx = h, .text = on_answer, .thought = on_thought, .stop = on_stop_thinking};
    enum session_end end;
    ok(text ? session_say(s, text, strlen(text), &k, &end, &err)
            : session_continue(s, &k, &end, &err));
    return end;
}

/* ---- a model and its conversations ----------------------------------------------------------- */

struct fixture {
    const char *dir;
    struct conversations *library;
    struct session_opts opts;
};

static struct fixture fixture_of(const char *chat_template, int budget)
{
    struct fixture f = {.dir = folder_new()};
    struct options o;
    struct maker m;
    make_thinker(&m, chat_template);
    options_init(&o);
    o.engine.model = write_file(path_in(f.dir, "thinker.gguf"), m.file.data, m.file.n);
    maker_release(&m);
    o.engine.threads = 1;
    o.session.plan.budget = budget;
    o.session.plan.policy = policy_choice("sink");
    o.session.sampling.temperature = 0;
    o.session.sampling.seed = 5;
    ok(engine_open(&engine, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
    f.library = open_library(f.dir);
    f.opts = o.session;
    return f;
}

static void tear_down(struct fixture *f)
{
    conversations_close(f->library);
    engine_close(engine);
}

#define AUTO_FIXTURE __attribute__((cleanup(tear_down))) struct fixture

static struct session *start(struct fixture *f, const char *name)
{
    struct session_opts o = f->opts;
    struct session *s;
    o.conversation = name;
    o.private_mode = name == NULL;
    ok(session_open(&s, engine, f->library, &o, NULL, &err));
    return s;
}

/* ---- the cache against the template ---------------------------------------------------------- */

static void add(cJSON *all, const char *role, const char *text, bool thought)
{
    cJSON *o = add_message(all, role, text);
    AUTO_STR hm = {0};
    for (int i = 0; i < N_HM; i++) str_printf(&hm, "%shm%d", i ? " " : "", i);
    if (thought) cJSON_AddStringToObject(o, "reasoning_content", str_get(&hm));
}

/* The ids of n turns with these messages, and of one more message. */
static struct tokens rendered(const struct session_opts *o, const char *const *messages, int n,
                              bool thought)
{
    AUTO_JSON *all = cJSON_CreateArray(), *variables = cJSON_CreateObject();
    struct tokens ids = {0};
    if (o->system) add(all, "system", o->system, false);
    for (int i = 0; i <= n; i++) {
        add(all, "user", messages[i], false);
        if (i < n) add(all, "assistant", THINKER_ANSWER, thought);
    }
    chat_think_variables(engine->template, o->think, variables);
    ok(chat_render_json(engine->template, engine->tokenizer, all, variables, false, NULL, &ids,
                        &err));
    return ids;
}

static int take_ids(void *ctx, const struct store_message *m)
{
    for (size_t i = 0; i < m->n_tokens; i++) tokens_push(ctx, m->tokens[i]);
    return 0;
}

/* The tokens whose units every head has, in order; all heads must have the same. */
static struct tokens cached(const struct fixture *f, const struct session *s)
{
    const struct cache *c = session_cache(s);
    struct store *store = conversations_store(f->library);
    struct store_conversation found;
    struct tokens all = {0}, out = {0};
    assert_int_equal(store_conversation_find(store, session_name(s), &found, &err), 1);
    ok(store_message_each(store, found.id, take_ids, &all, &err));
    for (int i = 0; i < c->shape.n_layer * c->shape.n_head; i++) {
        const struct cache_head *h = &c->kv_heads[i];
        assert_int_equal(h->len, c->kv_heads[0].len);
        for (int k = 0; k < h->len; k++) assert_int_equal(h->pos[k], c->kv_heads[0].pos[k]);
    }
    for (int k = 0; k < c->kv_heads[0].len; k++) tokens_push(&out, all.ids[c->kv_heads[0].pos[k]]);
    tokens_release(&all);
    return out;
}

static const char *const messages[] = {"Hello there", "a </think> b <|end|>", "[INST] c", "d",
                                       "last"};

/* The text, with each mark as one byte: the model may divide a text otherwise than the
 * tokenizer. */
static struct str spelled(const struct tokens *ids)
{
    struct str out = {0};
    for (size_t i = 0; i < ids->n; i++) {
        size_t n;
        char mark = (char)(128 + ids->ids[i]);
        const char *bytes = tokenizer_bytes(engine->tokenizer, ids->ids[i], false, &n);
        if (n && ids->ids[i] != THINK && ids->ids[i] != THOUGHT)
            str_append(&out, bytes, n);
        else
            str_append(&out, &mark, 1);
    }
    return out;
}

/* After turn n the cache begins with what the template writes up to messages[n]. */
static void check_cache(const struct fixture *f, const struct session *s, int n, bool thought)
{
    AUTO_TOKENS have = cached(f, s), want = rendered(&f->opts, messages, n, thought);
    AUTO_STR a = spelled(&have), b = spelled(&want);
    if (a.n < b.n || memcmp(a.data, b.data, b.n))
        fail_msg("turn %d:\n%s\n---\n%s", n, a.data, b.data);
}

/* ---- hearing --------------------------------------------------------------------------------- */

TEST(tells_thoughts_from_answers)
{
    static const char *const templates[] = {THINKS, OPENS};
    for (int i = 0; i < 2; i++) {
        AUTO_FIXTURE f = fixture_of(templates[i], 2000);
        AUTO_HEARD h = {0};
        AUTO_SESSION *s = start(&f, NULL);
        assert_int_equal(hear(s, "Hello", &h), SESSION_TURN_END);
        assert_string_equal(str_get(&h.text), THINKER_ANSWER);
        assert_memory_equal(h.thought.data, THINKER_THOUGHT, strlen(THINKER_THOUGHT));
        assert_string_equal(h.thought.data + h.thought.n - 5, " hm39");
        assert_int_equal(h.n_ends, 1);
        assert_in_range(h.n_tokens, N_HM, N_HM + 2);
        assert_true(h.ms > 0);
        release(&h);
        session_close(s);
        f.opts.think = CHAT_THINK_OFF;
        s = start(&f, NULL);
        hear(s, "Hello", &h);
        assert_string_equal(str_get(&h.text), THINKER_ANSWER);
        assert_int_equal(h.thought.n + (size_t)h.n_ends, 0);
    }
}

static int is_stored(void *ctx, const struct store_message *m)
{
    int *n = ctx;
    if (m->role != CHAT_ASSISTANT) return 0;
    assert_string_equal(m->text, THINKER_ANSWER);
    assert_memory_equal(m->thought.text, THINKER_THOUGHT, strlen(THINKER_THOUGHT));
    assert_int_equal(m->thought.n, strlen(m->thought.text));
    assert_in_range(m->thought.n_tokens, N_HM, N_HM + 2);
    ++*n;
    return 0;
}

TEST(keeps_thoughts_in_the_transcript)
{
    AUTO_FIXTURE f = fixture_of(THINKS, 2000);
    AUTO_HEARD h = {0};
    AUTO_STR json = {0};
    int n = 0;
    AUTO_SESSION *s = start(&f, "deep");
    hear(s, "Hello", &h);
    session_close(s);
    ok(conversations_messages(f.library, "deep", is_stored, &n, &err));
    assert_int_equal(n, 1);
    ok(conversations_export(f.library, "deep", &json, NULL, &err));
    assert_non_null(strstr(json.data, "\"thought\":{\"text\":\"hm0 hm1 "));
    const char *path = write_file(path_in(f.dir, "deep.json"), json.data, json.n);
    ok(conversations_import(f.library, path, "again", NULL, NULL, &err));
    ok(conversations_messages(f.library, "again", is_stored, &n, &err));
    assert_int_equal(n, 2);
    s = start(&f, "again"); /* its ids spell its text and its thought */
    assert_null(strstr(session_notice(s), "did not spell"));
}

/* ---- the cache ------------------------------------------------------------------------------- */

TEST(holds_what_the_template_writes)
{
    static const struct {
        const char *source, *system;
        enum chat_think think;
        bool thought;
    } all[] = {
        {THINKS, NULL, CHAT_THINK_AUTO, false},      {OPENS, "Be kind.", CHAT_THINK_AUTO, false},
        {OPENS, NULL, CHAT_THINK_OFF, false},        {KEEPS, "Be kind.", CHAT_THINK_AUTO, true},
        {MOVES, "Be kind.", CHAT_THINK_AUTO, false}, {ENDS, NULL, CHAT_THINK_AUTO, false},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        AUTO_FIXTURE f = fixture_of(all[i].source, 3000);
        AUTO_HEARD h = {0};
        f.opts.system = all[i].system;
        f.opts.think = all[i].think;
        f.opts.new_conversation = true;
        AUTO_SESSION *s = start(&f, "one");
        for (int n = 0; n < 5; n++) {
            hear(s, messages[n], &h);
            release(&h);
            check_cache(&f, s, n, all[i].thought);
        }
        session_close(s);
        f.opts.new_conversation = false;
        ok(conversations_drop_cache(f.library, "one", &err));
        s = start(&f, "one"); /* replayed */
        check_cache(&f, s, 4, all[i].thought);
    }
}

static bool any_thought_left(const struct fixture *f, const struct session *s)
{
    AUTO_TOKENS have = cached(f, s);
    bool found = false;
    for (size_t i = 0; i < have.n; i++) found |= have.ids[i] >= HM && have.ids[i] < YES;
    return found;
}

TEST(evicts_the_thought_when_the_turn_is_over)
{
    static const char *const templates[] = {THINKS, OPENS, KEEPS};
    for (int i = 0; i < 3; i++)
        for (int keep = 0; keep < 2; keep++) {
            AUTO_FIXTURE f =
                fixture_of(templates[i], 64); /* shorter than the turn, with its thought */
            AUTO_HEARD h = {0};
            f.opts.keep_thoughts = keep;
            AUTO_SESSION *s = start(&f, "short");
            hear(s, "Hello there, how are you today?", &h);
            assert_int_equal(any_thought_left(&f, s), keep);
            AUTO_TOKENS have = cached(&f, s);
            AUTO_STR text = spelled(&have);
            assert_int_equal(strstr(text.data, "Hello there, how are you today?") != NULL, !keep);
            assert_non_null(strstr(text.data, THINKER_ANSWER));
        }
}

/* ---- again ----------------------------------------------------------------------------------- */

TEST(resumes_to_the_bit)
{
    static const char *const templates[] = {THINKS, KEEPS, MOVES};
    for (int i = 0; i < 3; i++)
        for (int budget = 64; budget <= 3000; budget += 2936) {
            AUTO_FIXTURE f = fixture_of(templates[i], budget);
            AUTO_LOG one = {0}, other = {0};
            f.opts.system = "Be kind.";
            AUTO_SESSION *a = start(&f, "whole"), *b = NULL;
            for (int n = 0; n < 5; n++) {
                b = start(&f, "parts");
                say(a, messages[n], &one);
                say(b, messages[n], &other);
                assert_int_equal(one.logits, other.logits);
                same_cache(a, b);
                session_close(b);
            }
            b = start(&f, "parts");
            same_cache(a, b);
        }
}

TEST(goes_back)
{
    AUTO_FIXTURE f = fixture_of(MOVES, 3000);
    AUTO_HEARD h = {0};
    AUTO_LOG log = {0};
    enum session_end end;
    f.opts.system = "Be kind.";
    AUTO_SESSION *a = start(&f, "a"), *b = start(&f, "b");
    for (int n = 0; n < 3; n++) say(a, messages[n], &log);
    for (int n = 0; n < 3; n++) say(b, messages[n == 2 ? 4 : n], &log);
    ok(session_rewind(b, 2, NULL, &err));
    say(b, messages[2], &log);
    check_cache(&f, b, 2, false);
    struct session_sink k = {.ctx = &h, .text = on_answer, .thought = on_thought};
    ok(session_regenerate(b, &k, &end, &err));
    assert_string_equal(str_get(&h.text), THINKER_ANSWER);
    same_cache(a, b);
}

/* ---- unfinished thoughts --------------------------------------------------------------------- */

static int count_thoughts(void *ctx, const struct store_message *m)
{
    struct heard *h = ctx;
    if (m->role != CHAT_ASSISTANT) return 0;
    h->n_ends++;
    str_append(&h->text, m->text, m->n_text);
    str_append(&h->thought, m->thought.text ? m->thought.text : "", m->thought.n);
    return 0;
}

TEST(continues_a_thought)
{
    AUTO_FIXTURE f = fixture_of(THINKS, 2000);
    AUTO_HEARD h = {.stop_after = 9}, stored = {0};
    AUTO_SESSION *s = start(&f, "halves");
    assert_int_equal(hear(s, messages[0], &h), SESSION_STOPPED);
    assert_int_equal(h.text.n, 0);
    assert_true(session_can_continue(s));
    assert_true(any_thought_left(&f, s));
    session_close(s);
    s = start(&f, "halves");
    h.stop_after = 0;
    assert_int_equal(hear(s, NULL, &h), SESSION_TURN_END);
    assert_string_equal(str_get(&h.text), THINKER_ANSWER);
    assert_false(any_thought_left(&f, s));
    release(&h);
    hear(s, messages[1], &h);
    check_cache(&f, s, 1, false);
    ok(conversations_messages(f.library, "halves", count_thoughts, &stored, &err));
    assert_int_equal(stored.n_ends, 3);
    assert_string_equal(stored.text.data, THINKER_ANSWER THINKER_ANSWER);
    assert_null(strstr(stored.thought.data, "think"));
}

TEST(recovers_a_thought)
{
    AUTO_FIXTURE f = fixture_of(THINKS, 2000);
    AUTO_HEARD h = {.die = true}, stored = {0};
    int status;
    pid_t child = fork();
    if (child == 0) {
        hear(start(&f, "crash"), messages[0], &h);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 7);
    AUTO_SESSION *s = start(&f, "crash");
    ok(conversations_messages(f.library, "crash", count_thoughts, &stored, &err));
    assert_int_equal(stored.text.n, 0);
    assert_memory_equal(stored.thought.data, THINKER_THOUGHT, strlen(THINKER_THOUGHT));
    h.die = false;
    assert_int_equal(hear(s, NULL, &h), SESSION_TURN_END);
    assert_string_equal(str_get(&h.text), THINKER_ANSWER);
    release(&h);
    hear(s, messages[1], &h);
    check_cache(&f, s, 1, false);
}

/* ---- a base model ---------------------------------------------------------------------------- */

/* Without a template or its marks the model is led by lines with roles, and its turn ends where it
 * begins the user's; that line is evicted. The same after reopening. */
TEST(test_base_model)
{
    AUTO_FIXTURE f = fixture_of(NULL, 256);
    AUTO_HEARD h = {0};
    struct session_stats st;
    uint16_t kept[8];
    assert_true(engine->is_base);
    AUTO_SESSION *s = start(&f, "talk");
    assert_non_null(strstr(session_notice(s), "is a base model"));
    for (int i = 0; i < 3; i++) {
        release(&h);
        assert_int_equal(hear(s, "Hello.", &h), SESSION_TURN_END);
        assert_string_equal(h.text.data, THINKER_ANSWER);
        assert_false(session_can_continue(s));
        session_stats(s, &st);
        session_kept(s, st.n_tokens - 7, 7, kept); /* yes5, "\n\n", U, s, e, r, : */
        assert_int_equal(kept[0], THINKER_HEADS * THINKER_LAYERS);
        for (int k = 1; k < 7; k++) assert_int_equal(kept[k], 0);
        session_close(s);
        s = start(&f, "talk");
        assert_false(session_can_continue(s));
    }
}

/* A line that may become a role is held back, and told when it does not. */
TEST(test_stops)
{
    static const struct {
        const char *text;
        size_t n;
        bool ended;
    } rows[] = {{"Yes.\nUser: x", 4, true},    {"Yes.\n\nUser:", 4, true},
                {"Yes.\nUs", 4, false},        {"Yes.\n\n", 4, false},
                {"Yes. User: x", 12, false},   {"Yes.\nUsers:", 11, false},
                {"A\nB\nAssistant:", 3, true}, {"", 0, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool ended;
        assert_int_equal(chat_stop(rows[i].text, strlen(rows[i].text), &ended), rows[i].n);
        assert_int_equal(ended, rows[i].ended);
    }
}
