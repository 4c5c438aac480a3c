#include "tests/tui/scripted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/control/model_list.h"
#include "cli/options/options.h"
#include "runtime/forward/engine.h"
#include "runtime/session/session.h"
#include "runtime/token/sampler.h"
#include "runtime/token/tokenizer.h"
#include "store/store.h"

struct scripted scripted;

static struct engine *engine; /* the last one */
static struct tokens script;  /* of the running answer; none: the model answers */
static int64_t begins = -1;   /* its first position; -1: not known yet */
static size_t drawn;          /* so many of them */

/* ---- answers --------------------------------------------------------------------------------- */

static const char sentences[] =
    "The cache keeps what its heads ask for most. A unit is the key and the value of one token in "
    "one head of one layer, and only units with a low score leave. So the budget never grows, and "
    "the talk may go on for as long as you like.\n\nThe map shows which units are still there. ";
static const char thought[] = "<think>Let me see.\nThey greet \033[2Jme.</think>\n\n";

static const char *answer_of(const char *prompt)
{
    if (strstr(prompt, "unicode"))
        return "日本語のテキストと漢字。 Emoji 🙂 👩‍👩‍👧 flags, "
               "e\xCC\x81 "
               "combining, "
               "עברית "
               "and ไทย.";
    if (strstr(prompt, "code"))
        return "Here it is:\n\n```c\nint main(void)\n{\n\treturn 0;\n}\n```\n\nThat is *all*.";
    if (strstr(prompt, "evil"))
        return "title \033]0;owned\007 clear \033[2J\033[H c1 \xC2\x9B"
               "31m bidi \xE2\x80\xAE"
               "txt end";
    return strstr(prompt, "empty") ? "" : sentences;
}

static int32_t end_of_turn(const struct tokenizer *t)
{
    int32_t id = 0;
    while (!tokenizer_is_end(t, id)) id++;
    return id;
}

/* n: so many tokens, of the text again and again; 0 = the text and the end of the turn. */
static void answer_with(const char *text, int n, bool thinks)
{
    struct tokens ids = {0};
    struct err e;
    const struct tokenizer_span spans[] = {{thought, strlen(thought), true},
                                           {text, strlen(text), false}};
    if (tokenizer_encode(engine->tokenizer, spans + !thinks, 1 + thinks, false, &ids, &e)) abort();
    script.n = 0;
    for (int i = 0; i < (n ? n : (int)ids.n); i++) tokens_push(&script, ids.ids[i % (int)ids.n]);
    tokens_push(&script, end_of_turn(engine->tokenizer));
    tokens_release(&ids);
    begins = -1;
    drawn = 0;
}

static void answer_to(const char *text, size_t n)
{
    char *prompt = strndup(text, n);
    const char *words = strstr(prompt, "words ");
    answer_with(answer_of(prompt),
                strstr(prompt, "long") ? 4000
                : words                ? atoi(words + 6) % 100000
                                       : 0,
                strstr(prompt, "ponder") != NULL);
    free(prompt);
}

static void sleep_s(double s)
{
    struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
    if (s > 0) nanosleep(&t, NULL);
}

/* ---- what is wrapped ------------------------------------------------------------------------- */

/* The linker calls them in place of the program's. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

int32_t __real_sampler_draw(const struct sampling *s, float *logits, int n_vocab,
                            const int32_t *recent, int n_recent, uint64_t position,
                            struct sampler_entry *scratch);
int32_t __wrap_sampler_draw(const struct sampling *s, float *logits, int n_vocab,
                            const int32_t *recent, int n_recent, uint64_t position,
                            struct sampler_entry *scratch)
{
    if (!script.n)
        return __real_sampler_draw(s, logits, n_vocab, recent, n_recent, position, scratch);
    if (begins < 0) begins = (int64_t)position;
    sleep_s(scripted.tok_s > 0 ? 1 / scripted.tok_s : 0);
    drawn = (size_t)((int64_t)position - begins) + 1;
    return script.ids[(drawn - 1) % script.n]; /* again, if ends are ignored */
}

int __real_session_say(struct session *s, const char *text, size_t n,
                       const struct session_sink *sink, enum session_end *end, struct err *e);
int __wrap_session_say(struct session *s, const char *text, size_t n,
                       const struct session_sink *sink, enum session_end *end, struct err *e)
{
    if (n >= 4 && memmem(text, n, "fail", 4))
        return err_set(e, ERR_FAIL, "the script says that this turn fails");
    answer_to(text, n);
    return __real_session_say(s, text, n, sink, end, e);
}

int __real_session_replace(struct session *s, int64_t turn, const char *text, size_t n,
                           const struct session_sink *sink, enum session_end *end, struct err *e);
int __wrap_session_replace(struct session *s, int64_t turn, const char *text, size_t n,
                           const struct session_sink *sink, enum session_end *end, struct err *e)
{
    answer_to(text, n);
    return __real_session_replace(s, turn, text, n, sink, end, e);
}

int __real_session_regenerate(struct session *s, const struct session_sink *sink,
                              enum session_end *end, struct err *e);
int __wrap_session_regenerate(struct session *s, const struct session_sink *sink,
                              enum session_end *end, struct err *e)
{
    answer_with("Another answer.", 0, false);
    return __real_session_regenerate(s, sink, end, e);
}

int __real_session_continue(struct session *s, const struct session_sink *sink,
                            enum session_end *end, struct err *e);
int __wrap_session_continue(struct session *s, const struct session_sink *sink,
                            enum session_end *end, struct err *e)
{
    answer_with(sentences, 0, false);
    return __real_session_continue(s, sink, end, e);
}

int __real_session_open(struct session **out, struct engine *g, struct conversations *l,
                        const struct session_opts *o, const struct session_sink *k, struct err *e);
int __wrap_session_open(struct session **out, struct engine *g, struct conversations *l,
                        const struct session_opts *o, const struct session_sink *k, struct err *e)
{
    const char *name = o->conversation ? o->conversation : "", *fail = scripted.fail_open;
    *out = NULL;
    if (fail && (!strcmp(fail, "*") || !strcmp(fail, name)))
        return err_set(e, ERR_FAIL, "%s is open in another program", name);
    return __real_session_open(out, g, l, o, k, e);
}

int __real_engine_open(struct engine **out, const struct engine_opts *o,
                       const struct plan_opts *plans, int n_plans, engine_progress *progress,
                       void *ctx, struct err *e);
int __wrap_engine_open(struct engine **out, const struct engine_opts *o,
                       const struct plan_opts *plans, int n_plans, engine_progress *progress,
                       void *ctx, struct err *e)
{
    struct engine_opts demo = *o;
    *out = NULL;
    if (scripted.fail_model && o->model && !strcmp(o->model, scripted.fail_model))
        return err_set(e, ERR_FORMAT, "%s is not a model", o->model);
    for (int i = 0; i <= 20; i++) {
        if (progress && progress(ctx, i * INT64_C(110000000), INT64_C(2200000000)))
            return err_set(e, ERR_STOP, "loading was interrupted");
        sleep_s(scripted.load_ms / 20e3);
    }
    if (scripted.fail_load) return err_set(e, ERR_FORMAT, "%s", scripted.fail_load);
    if (!o->model || access(o->model, R_OK)) demo.model = scripted.model;
    demo.threads = 1;
    int rc = __real_engine_open(out, &demo, plans, n_plans, NULL, NULL, e);
    engine = *out;
    return rc;
}

/* ---- models ---------------------------------------------------------------------------------- */

int __wrap_model_list_read(struct model_list *out, const struct options *o,
                           struct conversations *library, struct err *e)
{
    static const struct model_row rows[] = {
        {.name = "demo", .size = 2500000, .budget = 3328, .standard = true},
        {.name = "qwen3", .type = "F16", .size = 800000000, .budget = 65536},
        {.name = "large-70b-q4_k",
         .size = INT64_C(40000000000),
         .problem = "it needs 41 GiB of 24 GiB"},
    };
    *out = (struct model_list){malloc(sizeof rows), 3};
    if (!out->rows) abort();
    memcpy(out->rows, rows, sizeof rows);
    out->rows[1].path = strdup(SCRIPTED_OTHER);
    out->rows[2].path = strdup("/models/large-70b-q4_k.gguf");
    return 0;
}

int __wrap_model_find(const struct options *o, struct conversations *library, const char *name,
                      struct str *out, struct err *e)
{
    struct model_list l;
    bool found = false;
    __wrap_model_list_read(&l, o, library, e);
    for (int i = 0; i < l.n; i++)
        if (!strcmp(l.rows[i].name, name)) {
            str_puts(out, l.rows[i].path ? l.rows[i].path : "");
            found = true;
        }
    model_list_release(&l);
    return found ? 0 : err_set(e, ERR_USAGE, "no model %s", name);
}

/* ---- conversations --------------------------------------------------------------------------- */

static const struct {
    const char *name, *said[4];
    int64_t age_ms;
} talks[] = {
    {"tax-letter",
     {"How do I answer this letter from the tax office?", "Politely, and in time."},
     INT64_C(3) * 86400 * 1000},
    {"thesis-ch3",
     {"第三章的摘要怎么写?", "先写结论,再写方法。 Then the numbers. 🙂",
      "And \033]0;evil\007 the title?", "One line.\n\n    indented\nlast"},
     2 * 3600 * 1000},
    {"rust-notes",
     {"What did we decide about the arena allocator, and why did we drop the slab one?",
      "In turn 12 you picked the bump arena. Three reasons:\n\n"
      "1. peak stays under 48 MiB because the arena is reset every turn\n"
      "2. alignment is a compile-time constant (64)\n"
      "3. the slab version fragmented after ~900 turns\n\n"
      "   ```rust\n   pub fn reset(&mut self) { self.top = self.base; }\n   ```\n",
      "Show me the failing case for the slab version.",
      "It was the 37-byte header case: two live objects of 64 + 37 bytes share a page."},
     20 * 1000},
};

static void say(struct engine *g, struct conversations *l, size_t i, int k,
                const struct session_sink *sink)
{
    struct options o;
    struct session *s;
    struct err e;
    enum session_end end;
    options_init(&o);
    o.session.conversation = talks[i].name;
    if (__real_session_open(&s, g, l, &o.session, NULL, &e)) abort();
    answer_with(talks[i].said[k + 1], 0, false);
    if (__real_session_say(s, talks[i].said[k], strlen(talks[i].said[k]), sink, &end, &e)) abort();
    session_close(s);
}

static bool kill_at_end(void *ctx)
{
    if (drawn + 1 == script.n) _exit(0);
    return false;
}

/* A program that is killed leaves an unfinished answer. */
static void say_and_die(struct engine *g, const char *path, size_t i, int k)
{
    struct conversations *l;
    struct err e;
    int status;
    pid_t pid = fork();
    if (pid) {
        if (waitpid(pid, &status, 0) != pid || status) abort();
        return;
    }
    if (conversations_open(&l, path, NULL, &e)) abort();
    say(g, l, i, k, &(struct session_sink){.stop = kill_at_end});
    abort();
}

void scripted_library(const char *path, int64_t now_ms)
{
    struct options o;
    struct engine *g;
    struct conversations *l;
    struct store *s;
    struct err e;
    options_init(&o);
    if (engine_open(&g, &o.engine, &o.session.plan, 1, NULL, NULL, &e) ||
        conversations_open(&l, path, NULL, &e))
        abort();
    for (size_t i = 0; i < sizeof talks / sizeof *talks; i++)
        for (int k = 0; k < 4 && talks[i].said[k] && (i != 1 || k == 0); k += 2)
            say(g, l, i, k, &(struct session_sink){0});
    conversations_close(l);
    say_and_die(g, path, 1, 2);
    engine_close(g);
    if (store_open(&s, path, NULL, &e)) abort();
    for (size_t i = 0; i < sizeof talks / sizeof *talks; i++) {
        struct store_conversation c;
        const int64_t ms = now_ms - talks[i].age_ms;
        if (store_conversation_find(s, talks[i].name, &c, &e) != 1 ||
            store_conversation_times(s, c.id, ms, ms, &e))
            abort();
    }
    store_close(s);
}
