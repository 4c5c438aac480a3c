/* Recall in conversations with the demo model: evicted units come back for the message that
 * needs them, and a conversation that is closed and resumed continues as if it had stayed open. */

#include "tests/unit/json_kit.h"
#include "tests/unit/session_kit.h"

/* A fact is evicted before the question about it. */
enum { SMALL = 24 };

static const char *const talk[] = {
    "My locker code is 48213.", "Tell me a story about a fox.",
    "Tell me about cats.",      "My sister's dog is called Rex.",
    "Tell me a joke.",          "Tell me a story about a king.",
    "What is my locker code?",  "How are you?",
    "Tell me about dogs.",      "What is my locker code?",
};
enum { N_TALK = sizeof talk / sizeof *talk, ASKED = 6 };

struct heard {
    struct log log;
    int n_windows;
    bool code;       /* a returned window holds the locker code */
    int64_t n_units; /* that came back for the last message with windows */
    const struct session *session;
    int64_t n_returned; /* units, when an eviction was told inside an answer; -1 = none since */
};

static void heard_end(struct heard *h)
{
    str_release(&h->log.text);
}
#define AUTO_HEARD __attribute__((cleanup(heard_end))) struct heard

static int64_t units_returned(const struct session *s)
{
    struct session_stats st;
    session_stats(s, &st);
    return st.units_returned;
}

static void on_told(void *ctx, int64_t n, int64_t n_tokens)
{
    struct heard *h = ctx;
    h->n_returned = h->log.text.n > 0 ? units_returned(h->session) : -1;
}

/* Nothing returns between an eviction inside an answer and the next text. */
static void on_piece(void *ctx, const char *utf8, size_t n)
{
    struct heard *h = ctx;
    on_text(ctx, utf8, n);
    if (h->n_returned >= 0) assert_int_equal(h->n_returned, units_returned(h->session));
    h->n_returned = -1;
}

static void on_recalled(void *ctx, const struct session_recalled *r)
{
    struct heard *h = ctx;
    assert_true(r->n >= 1 && r->n <= RECALL_MAX && r->n_units > 0);
    h->n_units = r->n_units;
    for (int i = 0; i < r->n; i++) {
        h->n_windows++;
        h->code = h->code || strstr(r->windows[i].text, "48213");
        assert_true(i == 0 || r->windows[i].position > r->windows[i - 1].position);
    }
}

static void ask(struct session *s, const char *text, struct heard *h)
{
    struct session_sink k = sink_of(&h->log);
    enum session_end end;
    k.recalled = on_recalled;
    k.evicted = on_told;
    k.text = on_piece;
    h->n_returned = -1;
    h->session = s;
    h->n_windows = 0;
    h->code = false;
    h->log.text.n = 0;
    ok(session_say(s, text, strlen(text), &k, &end, &err));
}

/* No other turn has more of a window's positions than the one it is credited to. */
static void credits_its_turn(const struct session *s, const struct session_window *w)
{
    int64_t most = 0, own = 0;
    assert_true(w->from < w->end && w->end <= strlen(w->text));
    for (int64_t turn = 1; turn <= ASKED; turn++) {
        int64_t from = session_turn_end(s, turn - 1), end = session_turn_end(s, turn);
        if (from < w->position) from = w->position;
        if (end > w->position + w->n) end = w->position + w->n;
        if (end - from > most) most = end - from;
        if (turn == w->turn) own = end - from;
    }
    assert_int_equal(own, most);
    assert_true(own < w->n || (w->from == 0 && w->end == strlen(w->text)));
}

/* An answer whose first words are given begins with what they recalled in the cache. */
TEST(test_begun_answer)
{
    struct options o = recalling("sink", RECALL_WORDS, SMALL);
    o.session.begin = "It is";
    AUTO_SESSION *s = open_session(NULL, o, false);
    AUTO_HEARD h = {0};
    for (int i = 0; i <= ASKED; i++) ask(s, talk[i], &h);
    assert_true(h.code);
}

static void remembers(const char *policy, enum recall_chooser chooser, bool saved)
{
    const char *dir = folder_new();
    AUTO_LIBRARY *l = saved ? open_library(dir) : NULL;
    for (int on = 0; on < 2; on++) {
        AUTO_SESSION *s =
            open_session(l, recalling(policy, on ? chooser : RECALL_OFF, SMALL), false);
        AUTO_HEARD h = {0};
        for (int i = 0; i <= ASKED; i++) ask(s, talk[i], &h);
        assert_int_equal(h.code, on);
        bool known = strstr(str_get(&h.log.text), "48213");
        assert_true(known || !on);
        assert_true(!known || on || strcmp(policy, "sink"));
        if (on && saved) assert_int_equal(session_recalled(s)->windows[0].turn, 1);
    }
}

TEST(test_a_fact_comes_back)
{
    remembers("sink", RECALL_WORDS, false);
    remembers("sink", RECALL_WORDS, true);
    remembers("random", RECALL_WORDS, true);
    remembers("keydiff+global", RECALL_WORDS, true);
}

/* Both conversations would read the same text again for a question; whether there is any. */
static bool same_passages(struct session *x, struct session *y, const char *question)
{
    struct str a = {0}, b = {0};
    ok(session_recall_text(x, question, strlen(question), &a, &err));
    ok(session_recall_text(y, question, strlen(question), &b, &err));
    assert_string_equal(str_get(&a), str_get(&b));
    const bool found = a.n > 0;
    str_release(&a);
    str_release(&b);
    return found;
}

/* y is closed and opened after every turn; returned units are in its log. Returns after how many
 * turns a fact would be read again as text. */
static int resumes(struct options o, int n_turns)
{
    int n_texts = 0;
    const char *dir_a = folder_new(), *dir_b = folder_new();
    AUTO_LIBRARY *a = open_library(dir_a), *b = open_library(dir_b);
    AUTO_SESSION *x = open_session(a, o, false), *y = open_session(b, o, false);
    AUTO_HEARD once = {0}, often = {0};
    for (int i = 0; i < n_turns; i++) {
        ask(x, talk[i % N_TALK], &once);
        ask(y, talk[i % N_TALK], &often);
        assert_string_equal(str_get(&once.log.text), str_get(&often.log.text));
        assert_int_equal(once.n_windows, often.n_windows);
        session_close(y);
        conversations_close(b);
        b = open_library(dir_b);
        y = open_session(b, o, true);
        assert_int_equal(reread(y), 0);
        same_cache(x, y);
        n_texts += same_passages(x, y, "What is my sister's dog called?");
    }
    assert_true(session_cache(x)->n_returns > 2);
    return n_texts;
}

static void resumes_policy(const char *policy, int64_t rewind)
{
    struct options o = recalling(policy, RECALL_WORDS, SMALL);
    o.session.rewind = rewind;
    resumes(o, 2 * N_TALK);
}

TEST(test_resume_equals_never_stopped)
{
    resumes_policy("sink", 64 << 20);
    resumes_policy("keeper", 64 << 20);
    /* no states are kept for /rewind, so the log is merged again and again */
    resumes_policy("sink", 1);
    resumes_policy("keydiff+global", 1);
}

/* An archive that drops pieces: what is compared is found again. */
TEST(test_full_archive)
{
    struct options o = recalling("sink", RECALL_WORDS, SMALL);
    o.session.recall.archive_bytes = 200 * 672;
    assert_int_equal(resumes(o, N_TALK + 4), 0);
    /* text stays: for good, or until it is too old */
    o.session.recall.archive_bytes = 64 * 672;
    o.session.recall.n_text = 1 << 20;
    const int n_kept = resumes(o, N_TALK + 4);
    o.session.recall.n_text = 160;
    const int n_short = resumes(o, N_TALK + 4);
    assert_true(n_short > 0 && n_short < n_kept);
}

/* A fact whose units left the archive is read again as whole sentences, once; not for a message
 * that does not ask; not after its turn was forgotten, even after a resume. */
TEST(test_reads_again_what_left_the_archive)
{
    static const char asked[] = "What is my sister's dog called?";
    const char *dir = folder_new();
    AUTO_LIBRARY *l = open_library(dir);
    struct options o = recalling("sink", RECALL_WORDS, SMALL);
    o.session.recall.archive_bytes = 32 * 672;
    o.session.recall.n_text = 1 << 20;
    AUTO_SESSION *s = open_session(l, o, false);
    AUTO_HEARD h = {0};
    AUTO_STR text = {0};
    for (int i = 0; i < 2 * N_TALK; i++) ask(s, talk[i % N_TALK], &h);
    ok(session_recall_text(s, "Tell me about my sister's dog.", 30, &text, &err));
    assert_int_equal(text.n, 0);
    ok(session_recall_text(s, asked, sizeof asked - 1, &text, &err));
    const char *found = strstr(str_get(&text), " I said: My sister's dog is called Rex.");
    assert_true(found && !strncmp(str_get(&text), "Earlier (2", 10));
    assert_null(strstr(strstr(found, "Rex") + 1, "Rex"));
    ok(session_forget(s, 4, NULL, &err));
    ok(session_forget(s, 4 + N_TALK, NULL, &err));
    for (int i = 0; i < 2; i++) {
        str_clear(&text);
        ok(session_recall_text(s, asked, sizeof asked - 1, &text, &err));
        assert_null(strstr(str_get(&text), "called Rex"));
        session_close(s);
        s = open_session(l, o, true);
    }
}

/* An archive that drops pieces holds the same in memory and on disk, where units are added at other
 * times. */
static void private_equals_saved(const char *policy, enum recall_chooser chooser, int n_positions)
{
    NEW_LIBRARY(l);
    struct options o = recalling(policy, chooser, SMALL);
    o.session.recall.archive_bytes = n_positions * 672;
    AUTO_SESSION *x = open_session(NULL, o, false), *y = open_session(l, o, false);
    AUTO_HEARD private = {0}, saved = {0};
    for (int i = 0; i < 2 * N_TALK; i++) {
        ask(x, talk[i % N_TALK], &private);
        ask(y, talk[i % N_TALK], &saved);
        assert_string_equal(str_get(&private.log.text), str_get(&saved.log.text));
        assert_int_equal(private.n_windows, saved.n_windows);
        same_cache(x, y);
    }
    assert_true(session_cache(x)->n_returns > 2);
}

TEST(test_private_equals_saved)
{
    private_equals_saved("sink", RECALL_WORDS, 200);
    private_equals_saved("keeper", RECALL_WORDS, 150);
    private_equals_saved("sink", RECALL_WORDS, 300);
}

/* An eviction inside an answer takes what returned for the message; it returns again, and is back
 * when the eviction is told. */
TEST(test_recall_inside_an_answer)
{
    struct options o = recalling("sink", RECALL_WORDS, SMALL);
    o.session.plan.policy.reserve = 16;
    resumes(o, N_TALK + 4);
    AUTO_SESSION *s = open_session(NULL, o, false);
    AUTO_HEARD h = {0};
    int n_returned = 0;
    for (int i = 0; i <= ASKED; i++) {
        ask(s, talk[i], &h);
        n_returned += h.n_windows;
        assert_int_equal(session_recalled(s)->n_units, h.n_units);
    }
    assert_true(session_cache(s)->n_returns > n_returned);
    assert_true(strstr(str_get(&h.log.text), "48213"));
}

/* Another answer is drawn from the same cache, with the same returned units. */
static void regenerates(enum recall_chooser chooser)
{
    NEW_LIBRARY(l);
    AUTO_SESSION *s = open_session(l, recalling("sink", chooser, SMALL), false);
    AUTO_HEARD h = {0};
    enum session_end end;
    for (int i = 0; i <= ASKED; i++) ask(s, talk[i], &h);
    AUTO_STR before = {0};
    str_puts(&before, str_get(&h.log.text));
    h.log.text.n = 0;
    struct session_sink k = sink_of(&h.log);
    ok(session_regenerate(s, &k, &end, &err));
    assert_string_equal(str_get(&h.log.text), str_get(&before));
    assert_int_equal(reread(s), 0);
    /* a branch from before the question: the question is asked there, too */
    char name[128];
    ok(session_branch(s, ASKED, NULL, name, &err));
    session_close(s);
    struct options o = recalling("sink", chooser, SMALL);
    o.session.conversation = name;
    ok(session_open(&s, engine, l, &o.session, NULL, &err));
    ask(s, talk[ASKED], &h);
    assert_true(h.code);
    assert_string_equal(str_get(&h.log.text), str_get(&before));
}

TEST(test_regenerate_keeps_what_came_back)
{
    regenerates(RECALL_WORDS);
}

/* Text that the user names comes back with the next message, even one about something else. */
TEST(test_by_hand)
{
    NEW_LIBRARY(l);
    AUTO_SESSION *s = open_session(l, recalling("sink", RECALL_WORDS, SMALL), false);
    struct session_recalled found;
    AUTO_HEARD h = {0};
    for (int i = 0; i < ASKED; i++) ask(s, talk[i], &h);
    for (int i = 0; i < 4; i++) { /* some windows begin at the end of the turn before */
        static const char *const about[] = {"48213 story fox", "remember that story", "joke king",
                                            "Rex joke"};
        ok(session_recall(s, about[i], strlen(about[i]), &found, &err));
        for (int j = 0; j < found.n; j++) credits_its_turn(s, &found.windows[j]);
    }
    ok(session_recall(s, "locker code", 11, &found, &err));
    assert_true(found.n >= 1 && strstr(found.windows[found.best].text, "48213"));
    assert_int_equal(session_recalled(s)->n, 0);
    ask(s, "How are you?", &h);
    assert_true(h.code);
    ask(s, "How are you?", &h);
    assert_false(h.code);
    ok(session_recall_turn(s, 1, &found, &err));
    assert_true(found.n >= 1 && strstr(found.windows[found.best].text, "48213"));
    for (int i = 0; i < found.n; i++) assert_int_equal(found.windows[i].turn, 1);
    ask(s, "How are you?", &h);
    assert_true(h.code);
    assert_int_equal(session_recall_turn(s, 0, &found, &err), ERR_USAGE);
    assert_int_equal(session_recall_turn(s, 100, &found, &err), ERR_USAGE);
    session_close(s);
    s = open_session(l, recalling("sink", RECALL_OFF, SMALL), false);
    assert_int_equal(session_recall(s, "locker code", 11, &found, &err), ERR_USAGE);
}

/* The same units return, to the bit, for any number of threads. */
TEST(test_threads)
{
    struct engine *shared = engine;
    struct engine *engines[3];
    struct session *sessions[3];
    struct heard heard[3] = {0};
    for (int i = 0; i < 3; i++) {
        struct options o = recalling("keeper", RECALL_WORDS, SMALL);
        o.engine.threads = 1 << i;
        ok(engine_open(&engine, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
        engines[i] = engine;
        struct session *s = sessions[i] = open_session(NULL, o, false);
        heard[i].log.session = s;
        for (int k = 0; k <= ASKED; k++) ask(s, talk[k], &heard[i]);
        assert_true(heard[i].code);
        assert_int_equal(heard[i].log.logits, heard[0].log.logits);
        same_cache(sessions[0], s);
    }
    for (int i = 0; i < 3; i++) {
        session_close(sessions[i]);
        engine_close(engines[i]);
        str_release(&heard[i].log.text);
    }
    engine = shared;
}

/* An encrypted archive recalls what a plain one does, also after the conversation was closed. */
TEST(test_encrypted)
{
    char find[320];
    struct heard heard[2] = {0};
    for (int i = 0; i < 2; i++) {
        struct conversations *l = NULL;
        const char *dir = folder_new(), *path = path_in(dir, "retain.db");
        for (int k = 0; k <= ASKED; k++) {
            if (k == 0 || k == ASKED) l = i ? open_encrypted(dir) : open_library(dir);
            struct session *s = open_session(l, recalling("sink", RECALL_WORDS, SMALL), k > 0);
            ask(s, talk[k], &heard[i]);
            session_close(s);
            if (k == ASKED - 1 || k == ASKED) conversations_close(l);
        }
        assert_true(heard[i].code);
        snprintf(find, sizeof find, "grep -qaF 48213 '%s' '%s-wal' 2>/dev/null", path, path);
        assert_int_equal(system(find) == 0, i == 0);
    }
    assert_string_equal(str_get(&heard[0].log.text), str_get(&heard[1].log.text));
    for (int i = 0; i < 2; i++) str_release(&heard[i].log.text);
}

/* The blocks that only the archive has. */
#define ARCHIVED                                                              \
    "(SELECT blob FROM segment WHERE kind IN (3, 9) AND blob NOT IN (SELECT " \
    "blob FROM segment WHERE kind IN (0, 6)))"

/* With a damaged or missing archive, only the units that it held are lost. */
TEST(test_damaged_archive)
{
    static const char *const damage[] = {
        "UPDATE blob SET bytes = substr(bytes, 1, 50) || x'00' || substr(bytes, 52) WHERE id "
        "IN " ARCHIVED,
        "UPDATE blob SET bytes = substr(bytes, 1, length(bytes) / 2) WHERE id IN " ARCHIVED,
        "UPDATE segment SET layer = layer + 100000 WHERE kind = 3 AND layer % 16 = 0 AND blob "
        "IN " ARCHIVED,
        "DELETE FROM segment WHERE kind = 3",
    };
    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
        const char *dir = folder_new();
        AUTO_LIBRARY *l = open_library(dir);
        struct options o = recalling("sink", RECALL_WORDS, SMALL);
        o.session.rewind = 1; /* so that the log lets go of blocks */
        AUTO_SESSION *s = open_session(l, o, false);
        AUTO_HEARD h = {0};
        for (int k = 0; k < ASKED; k++) ask(s, talk[k], &h);
        session_close(s);
        change_library(dir, damage[i]);
        s = open_session(l, o, true);
        assert_int_equal(reread(s), 0);
        for (int k = ASKED; k < N_TALK; k++) ask(s, talk[k], &h);
        reopen(&s, l, o);
        assert_int_equal(reread(s), 0);
    }
}

/* The talk is read, not generated, so nobody says a role name in it. */
static void feed(struct session *s)
{
    static const struct chat_message told[] = {
        {CHAT_USER, "My locker code is 48213."},    {CHAT_ASSISTANT, "Okay."},
        {CHAT_USER, "Tell me about the fox."},      {CHAT_ASSISTANT, "It is red and quick."},
        {CHAT_USER, "My sister lives in Lisbon."},  {CHAT_ASSISTANT, "That is a nice town."},
        {CHAT_USER, "The train leaves at seven."},  {CHAT_ASSISTANT, "Have a good trip."},
        {CHAT_USER, "We had soup and some bread."}, {CHAT_ASSISTANT, "That sounds tasty."},
    };
    const struct session_sink silent = {0};
    ok(session_feed(s, told, sizeof told / sizeof *told, &silent, &err));
}

static void no_marks(const struct session_recalled *r)
{
    static const char *const marks[] = {"user", "assistant", "model",  "system", "human", "<",
                                        ">",    "[",         "INST",   "|",      "Kind",  "USER",
                                        "###",  "helpful",   "Human:", "_start"};
    for (int i = 0; i < r->n; i++)
        for (size_t k = 0; k < sizeof marks / sizeof *marks; k++)
            if (strstr(r->windows[i].text, marks[k]))
                fail_msg("\"%s\" in \"%s\"", marks[k], r->windows[i].text);
}

/* A message none of whose words was said brings nothing back, whatever the template adds to it: the
 * demo model's vocabulary has its roles and marks as ordinary tokens. */
static void sees_no_marks(struct chat_template *t)
{
    struct chat_template *own = engine->template;
    struct options o = recalling("sink", RECALL_WORDS, SMALL);
    o.session.plan.chunk = 64;
    o.session.system = "Kind words.";
    o.session.max_tokens = 1;
    AUTO_HEARD h = {0};
    engine->template = t;
    struct session *s = open_session(NULL, o, false);
    feed(s);
    ask(s, "Zyxwvu.", &h);
    if (session_recalled(s)->n) fail_msg("came back: %s", session_recalled(s)->windows[0].text);
    ask(s, "My locker code?", &h);
    assert_true(h.code);
    no_marks(session_recalled(s));
    session_close(s);
    engine->template = own;
    chat_template_close(t);
}

TEST(test_marks_are_not_said)
{
    static const char *const rows[] = {"chatml", "llama3", "llama2", "mistral",
                                       "phi3",   "zephyr", "retain"};
    struct chat_template *t;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ok(chat_template_named(&t, rows[i], engine->tokenizer, &err));
        sees_no_marks(t);
    }
    AUTO_JSON *json = read_templates();
    const cJSON *k;
    int n = 0;
    cJSON_ArrayForEach(k, cJSON_GetObjectItem(json, "cases"))
    {
        const char *source = json_text(k, "template");
        if (chat_template_open(&t, source, strlen(source), engine->tokenizer, &err)) continue;
        sees_no_marks(t);
        n++;
    }
    assert_true(n >= 6);
}

AROUND_TESTS(engine_set_up, engine_tear_down)
