/* Long on purpose: it stands for all of session.h and conversations.h, one short function for each
 * of theirs. */
#include "tests/tui/fake_session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/control/model_list.h"
#include "cli/options/options.h"
#include "runtime/save/conversations.h"
#include "runtime/save/passages.h"
#include "runtime/session/session.h"

struct fake fake = {.n_layer = 8, .n_head = 4, .budget = 128, .reserve = 32};

/* ---- library -------------------------------------------------------------------------------- */

enum { SAVED_MAX = 64, MESSAGES_MAX = 256 };

struct message {
    enum chat_role role;
    char *text;
    int64_t position, n_tokens;
    int partial;
    const char *thought;
};

struct conversation {
    struct conversations_entry entry;
    struct message messages[MESSAGES_MAX];
    int n_messages;
};

static struct conversation *saved[SAVED_MAX];
static int n_saved;
static int made;

struct conversations {
    int private_mode;
};

static int64_t clock_ms(void)
{
    struct timespec now;
    if (fake.now_ms) return fake.now_ms;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void fill(char *out, size_t n, const char *text)
{
    snprintf(out, n, "%.*s", (int)n - 1, text);
}

static struct message *add_message(struct conversation *c, enum chat_role role, const char *text,
                                   size_t n, int64_t n_tokens)
{
    if (c->n_messages == MESSAGES_MAX) abort();
    struct message *m = &c->messages[c->n_messages++];
    *m = (struct message){.role = role,
                          .text = strndup(text, n),
                          .position = c->entry.n_tokens,
                          .n_tokens = n_tokens};
    c->entry.n_tokens += n_tokens;
    if (role == CHAT_USER && c->entry.n_turns++ == 0) {
        char first[64];
        snprintf(first, sizeof first, "%.*s", (int)(n < 60 ? n : 60), text);
        fill(c->entry.title, sizeof c->entry.title, first);
        fill(c->entry.model, sizeof c->entry.model, "retain demo");
    }
    c->entry.updated_ms = clock_ms();
    return m;
}

static struct conversation *add_conversation(const char *name)
{
    struct conversation *c = calloc(1, sizeof *c);
    if (!c || n_saved == SAVED_MAX) abort();
    fill(c->entry.name, sizeof c->entry.name, name);
    c->entry.updated_ms = clock_ms();
    memmove(saved + 1, saved, sizeof saved[0] * (size_t)n_saved);
    saved[0] = c;
    n_saved++;
    return c;
}

static void free_conversation(struct conversation *c)
{
    for (int i = 0; i < c->n_messages; i++) free(c->messages[i].text);
    free(c);
}

static void add_turn(struct conversation *c, const char *user, const char *answer, int64_t n)
{
    add_message(c, CHAT_USER, user, strlen(user), 12);
    add_message(c, CHAT_ASSISTANT, answer, strlen(answer), n);
}

void fake_reset(void)
{
    for (int i = 0; i < n_saved; i++) free_conversation(saved[i]);
    n_saved = made = 0;
    struct conversation *c = add_conversation("tax-letter");
    add_turn(c, "How do I answer this letter from the tax office?", "Politely, and in time.", 30);
    c->entry.updated_ms -= INT64_C(3) * 86400 * 1000;
    c->entry.cache_bytes = 2200 * 1024;
    c = add_conversation("thesis-ch3");
    add_turn(c, "第三章的摘要怎么写?", "先写结论,再写方法。 Then the numbers. 🙂", 60);
    add_turn(c, "And \033]0;evil\007 the title?", "One line.\n\n    indented\nlast", 44);
    c->messages[3].partial = 1;
    c->entry.updated_ms -= 2 * 3600 * 1000;
    c->entry.cache_bytes = INT64_C(163) * 1024 * 1024;
    c = add_conversation("rust-notes");
    add_turn(c, "What did we decide about the arena allocator, and why did we drop the slab one?",
             "In turn 12 you picked the bump arena. Three reasons:\n\n"
             "1. peak stays under 48 MiB because the arena is reset every turn\n"
             "2. alignment is a compile-time constant (64)\n"
             "3. the slab version fragmented after ~900 turns\n\n"
             "   ```rust\n   pub fn reset(&mut self) { self.top = self.base; }\n   ```\n",
             210);
    add_turn(c, "Show me the failing case for the slab version.",
             "It was the 37-byte header case: two live objects of 64 + 37 bytes share a page.", 90);
    c->entry.updated_ms -= 20 * 1000;
    c->entry.cache_bytes = INT64_C(12) * 1024 * 1024;
}

static struct conversation *find(const char *name)
{
    for (int i = 0; i < n_saved; i++)
        if (strcmp(saved[i]->entry.name, name) == 0) return saved[i];
    return NULL;
}

static int missing(const char *name, struct err *e)
{
    return err_set(e, ERR_FAIL, "no conversation %s; the names that come nearest: %s", name,
                   n_saved ? saved[0]->entry.name : "none");
}

int conversations_open(struct conversations **out, const char *path, struct err *e)
{
    *out = calloc(1, sizeof **out);
    if (!*out) return err_set(e, ERR_FAIL, "out of memory");
    (*out)->private_mode = path == NULL;
    if (n_saved == 0 && made == 0) fake_reset();
    return 0;
}

void conversations_close(struct conversations *l)
{
    free(l);
}

struct store *conversations_store(struct conversations *l)
{
    (void)l;
    return NULL;
}

int conversations_list(struct conversations *l,
                       int (*each)(void *ctx, const struct conversations_entry *c), void *ctx,
                       struct err *e)
{
    (void)e;
    int rc = 0;
    for (int i = 0; !l->private_mode && i < n_saved && !rc; i++) rc = each(ctx, &saved[i]->entry);
    return rc;
}

int conversations_origin(struct conversations *l, const char *name,
                         struct conversations_origin *out, struct err *e)
{
    (void)l, (void)name, (void)out, (void)e;
    return 0;
}

int conversations_read_cost(struct conversations *l, const char *name, const char *digest,
                            int64_t *out, struct err *e)
{
    (void)l, (void)digest, (void)out;
    return missing(name, e); /* all of its tokens */
}

int conversations_list_tagged(struct conversations *l, const char *tag,
                              int (*each)(void *ctx, const struct conversations_entry *c),
                              void *ctx, struct err *e)
{
    (void)tag;
    return conversations_list(l, each, ctx, e);
}

int conversations_tag(struct conversations *l, const char *name, const char *tag, struct err *e)
{
    (void)tag;
    return l->private_mode || find(name) ? 0 : missing(name, e);
}

int conversations_retag(struct conversations *l, const char *name, const char *words, struct err *e)
{
    struct conversation *c = find(name);
    (void)l;
    if (!c) return missing(name, e);
    c->entry.tags[0] = 0; /* replaced by the new tags */
    for (words += strspn(words, " "); *words; words += strspn(words, " ")) {
        size_t n = strcspn(words, " "), at = strlen(c->entry.tags);
        if (*words != '-')
            snprintf(c->entry.tags + at, sizeof c->entry.tags - at, "%s#%.*s", at ? " " : "",
                     (int)n, words);
        words += n;
    }
    return 0;
}

int conversations_untag(struct conversations *l, const char *name, const char *tag, struct err *e)
{
    return conversations_tag(l, name, tag, e);
}

int conversations_messages(struct conversations *l, const char *name,
                           int (*each)(void *ctx, const struct conversations_message *m), void *ctx,
                           struct err *e)
{
    struct conversation *c = l->private_mode ? NULL : find(name);
    if (!c) return missing(name, e);
    int rc = 0;
    for (int i = 0; i < c->n_messages && !rc; i++) {
        const struct message *m = &c->messages[i];
        struct conversations_message copy = {.role = m->role,
                                             .text = m->text,
                                             .n_text = strlen(m->text),
                                             .position = m->position,
                                             .n_tokens = m->n_tokens,
                                             .partial = m->partial,
                                             .thought = m->thought};
        if (m->thought) {
            copy.n_thought = strlen(m->thought);
            copy.thought_tokens = 345;
            copy.thought_ms = 12340;
        }
        rc = each(ctx, &copy);
    }
    return rc;
}

int conversations_rename(struct conversations *l, const char *name, const char *new_name,
                         struct err *e)
{
    (void)l;
    struct conversation *c = find(name);
    if (!c) return missing(name, e);
    if (find(new_name)) return err_set(e, ERR_FAIL, "there is a conversation %s", new_name);
    fill(c->entry.name, sizeof c->entry.name, new_name);
    return 0;
}

static struct conversation *deleted; /* the last one */

int conversations_delete(struct conversations *l, const char *name, struct err *e)
{
    (void)l;
    for (int i = 0; i < n_saved; i++) {
        if (strcmp(saved[i]->entry.name, name) != 0) continue;
        if (deleted) free_conversation(deleted);
        deleted = saved[i];
        n_saved--;
        memmove(saved + i, saved + i + 1, sizeof saved[0] * (size_t)(n_saved - i));
        made = 1;
        return 0;
    }
    return missing(name, e);
}

const struct model_registry *conversations_registry(const struct conversations *l)
{
    (void)l;
    return NULL;
}

/* ---- engine --------------------------------------------------------------------------------- */

static void sleep_s(double s)
{
    struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
    if (s > 0) nanosleep(&t, NULL);
}

int engine_open(struct engine **out, const struct engine_opts *o, const struct plan_opts *plans,
                int n_plans, engine_progress *progress, void *ctx, struct err *e)
{
    (void)plans;
    (void)n_plans;
    *out = NULL;
    if (fake.fail_model && o->model && strcmp(o->model, fake.fail_model) == 0)
        return err_set(e, ERR_FORMAT, "%s is not a model", o->model);
    for (int i = 0; i <= 20; i++) {
        if (progress && progress(ctx, i * INT64_C(110000000), INT64_C(2200000000)))
            return err_set(e, ERR_STOP, "loading was interrupted");
        sleep_s(fake.load_ms / 20e3);
    }
    if (fake.fail_load) return err_set(e, ERR_FORMAT, "%s", fake.fail_load);
    *out = calloc(1, sizeof **out);
    return *out ? 0 : err_set(e, ERR_FAIL, "out of memory");
}

int engine_prepare(struct engine **out, const struct engine_opts *o, struct err *e)
{
    (void)out, (void)o;
    return err_set(e, ERR_FAIL, "not in this session");
}

bool engine_is_damaged(const struct engine *g, char why[256])
{
    (void)g;
    (void)why;
    return false;
}

void engine_close(struct engine *g)
{
    free(g);
}

/* ---- session -------------------------------------------------------------------------------- */

struct head {
    uint32_t *positions; /* positions of kept units, ascending */
    int n;
};

struct session {
    char *system;
    struct conversation *c;
    struct conversation *own; /* private: not in the list */
    struct head *heads;       /* [n_layer * n_head] */
    int n_layer, n_head, budget, reserve;
    int64_t n_tokens, n_evictions, units_evicted, n_reread;
    int n_predict;
    bool ignore_end;
    bool can_continue;
    int64_t pinned, forgotten; /* turns, 0 = none */
    double temperature;        /* set by session_set */
    double decode_tok_s, prefill_tok_s, first_token_ms;
    char notice[128];
    const char *tail; /* the rest of the interrupted answer */
};

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* Importance of a position for a head: islands that most heads prefer, and noise. */
static uint32_t score(int head, uint32_t pos)
{
    uint64_t island = mix(pos / 12 + 77) % 9 == 0 ? 60 : 0;
    return (uint32_t)(island + mix(((uint64_t)(unsigned)head << 32) ^ pos) % 100);
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void evict_head(struct session *s, int index)
{
    struct head *h = &s->heads[index];
    int over = h->n - s->budget;
    int first = 2, last = h->n - s->budget / 8; /* sinks and stabilizers stay */
    uint32_t *scores = malloc(sizeof *scores * (size_t)h->n);
    if (!scores || over <= 0) abort();
    for (int i = first; i < last; i++) scores[i - first] = score(index, h->positions[i]);
    qsort(scores, (size_t)(last - first), sizeof *scores, by_value);
    uint32_t limit = scores[over - 1];
    int at = first;
    for (int i = first; i < h->n; i++) {
        bool gone = i < last && over > 0 && score(index, h->positions[i]) <= limit;
        if (gone)
            over--;
        else
            h->positions[at++] = h->positions[i];
    }
    h->n = at;
    free(scores);
}

static void evict(struct session *s, const struct session_sink *sink)
{
    int64_t n = 0;
    for (int i = 0; i < s->n_layer * s->n_head; i++) {
        int before = s->heads[i].n;
        if (before > s->budget) evict_head(s, i);
        n += before - s->heads[i].n;
    }
    if (n == 0) return;
    s->n_evictions++;
    s->units_evicted += n;
    if (sink && sink->evicted) sink->evicted(sink->ctx, n, s->n_tokens);
}

static void append(struct session *s, const struct session_sink *sink)
{
    bool full = false; /* heads differ after a rewind */
    for (int i = 0; i < s->n_layer * s->n_head; i++) {
        struct head *h = &s->heads[i];
        h->positions[h->n++] = (uint32_t)s->n_tokens;
        full = full || h->n >= s->budget + s->reserve;
    }
    s->n_tokens++;
    if (full) evict(s, sink);
}

static int read_prompt(struct session *s, int64_t n, const struct session_sink *sink)
{
    for (int64_t i = 0; i <= n; i++) {
        if (i % 16 == 0 || i == n) {
            if (sink && sink->progress) sink->progress(sink->ctx, i, n);
            if (sink && sink->stop && i < n && sink->stop(sink->ctx)) return 1;
        }
        if (i == n) break;
        append(s, sink);
        if (fake.prefill_tok_s > 0) sleep_s(1 / fake.prefill_tok_s);
    }
    s->prefill_tok_s = fake.prefill_tok_s > 0 ? fake.prefill_tok_s : 5310;
    return 0;
}

int session_open(struct session **out, struct engine *g, struct conversations *l,
                 const struct session_opts *o, const struct session_sink *sink, struct err *e)
{
    (void)g;
    *out = NULL;
    const char *wanted = o->conversation ? o->conversation : "";
    if (fake.fail_open && (!strcmp(fake.fail_open, "*") || !strcmp(fake.fail_open, wanted)))
        return err_set(e, ERR_FAIL, "%s is open in another program", wanted);
    struct session *s = calloc(1, sizeof *s);
    if (!s) return err_set(e, ERR_FAIL, "out of memory");
    bool keep = l && !l->private_mode && !o->private_mode;
    if (keep && o->conversation && !o->new_conversation) s->c = find(o->conversation);
    if (keep && !s->c && o->continue_latest && n_saved > 0) s->c = saved[0];
    char name[32];
    snprintf(name, sizeof name, "talk-%d", ++made);
    if (!s->c && keep && n_saved < SAVED_MAX)
        s->c = add_conversation(o->conversation ? o->conversation : name);
    if (!s->c) s->c = s->own = calloc(1, sizeof *s->own);
    s->n_layer = fake.n_layer;
    s->n_head = fake.n_head;
    s->budget = o->plan.budget ? o->plan.budget : fake.budget;
    s->reserve = o->plan.policy.reserve > 0 ? o->plan.policy.reserve : fake.reserve;
    s->n_predict = o->max_tokens;
    if (o->system) s->system = strdup(o->system);
    s->ignore_end = o->ignore_end;
    s->heads = calloc((size_t)(s->n_layer * s->n_head), sizeof *s->heads);
    for (int i = 0; i < s->n_layer * s->n_head; i++)
        s->heads[i].positions = calloc((size_t)(s->budget + s->reserve + 1), sizeof(uint32_t));
    if (s->c->entry.n_tokens > 0) {
        s->n_reread = s->c->entry.n_tokens;
        fill(s->notice, sizeof s->notice, "the saved cache is of another model; read again");
        read_prompt(s, s->c->entry.n_tokens, sink);
        s->can_continue = s->c->messages[s->c->n_messages - 1].partial;
    }
    *out = s;
    return 0;
}

void session_close(struct session *s)
{
    if (!s) return;
    free(s->system);
    for (int i = 0; i < s->n_layer * s->n_head; i++) free(s->heads[i].positions);
    free(s->heads);
    if (s->own) free_conversation(s->own);
    free(s);
}

const char *session_name(const struct session *s)
{
    return s->own ? "private" : s->c->entry.name;
}

const char *session_notice(const struct session *s)
{
    return s->notice;
}

bool session_can_continue(const struct session *s)
{
    return s->can_continue;
}

enum session_end session_ended(const struct session *s)
{
    return s->can_continue ? SESSION_STOPPED : SESSION_TURN_END;
}

/* Two tokens of the template, then the words, then one of the template. */
static void tell_prompt(const struct session *s, const char *text, size_t n,
                        const struct session_sink *sink)
{
    uint16_t n_bytes[4096] = {0};
    int at = 2;
    for (size_t i = 0; i < n && at < 4094; i++) {
        n_bytes[at]++;
        if (text[i] == ' ') at++;
    }
    if (sink->tokens) sink->tokens(sink->ctx, s->n_tokens, at + 2, n_bytes);
}

static const char *const script =
    "The cache keeps what its heads ask for most. A unit is the key and the value of one token in "
    "one head of one layer, and only units with a low score leave. So the budget never grows, and "
    "the talk may go on for as long as you like.\n\nThe map shows which units are still there. ";

/* The answer's next token (a word with its space) or NULL at its end. */
static const char *next_token(const char *text, size_t *n)
{
    if (!*text) return NULL;
    *n = strcspn(text, " \n");
    while (text[*n] == ' ' || text[*n] == '\n') ++*n;
    return text;
}

static const char *answer_of(const char *prompt, int *n_tokens)
{
    *n_tokens = 0;
    const char *words = strstr(prompt, "words ");
    if (words) *n_tokens = atoi(words + 6) % 100000;
    if (strstr(prompt, "long")) *n_tokens = 4000;
    if (strstr(prompt, "empty")) return "";
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
    return script;
}

static enum session_end generate(struct session *s, struct message *m, const char *text,
                                 int n_tokens, const struct session_sink *sink)
{
    size_t n_text = strlen(m->text), n = 0;
    enum session_end end = SESSION_TURN_END;
    const char *at = text;
    for (int i = 0; n_tokens == 0 || i < n_tokens; i++) {
        if (sink->stop && sink->stop(sink->ctx)) {
            end = SESSION_STOPPED;
            break;
        }
        if (s->n_predict && i >= s->n_predict) {
            end = SESSION_LENGTH;
            break;
        }
        const char *token = next_token(at, &n);
        if (!token && (n_tokens > 0 || s->ignore_end)) token = next_token(at = script, &n);
        if (!token) break;
        sleep_s(fake.tok_s > 0 ? 1 / fake.tok_s : 0);
        at = token + n;
        char *grown = realloc(m->text, n_text + n + 1);
        if (!grown) abort();
        m->text = grown;
        memcpy(m->text + n_text, token, n);
        m->text[n_text += n] = 0;
        m->n_tokens++;
        s->c->entry.n_tokens++;
        uint16_t n_bytes = (uint16_t)n;
        if (sink->tokens) sink->tokens(sink->ctx, s->n_tokens, 1, &n_bytes);
        append(s, sink);
        if (sink->text) sink->text(sink->ctx, token, n);
    }
    s->decode_tok_s = fake.tok_s > 0 ? fake.tok_s : 312.4;
    s->first_token_ms = 31;
    m->partial = s->can_continue = end == SESSION_STOPPED || end == SESSION_LENGTH;
    s->tail = at;
    evict(s, sink);
    return end;
}

static void think(struct message *m, const struct session_sink *sink)
{
    m->thought = "Let me see.\nThey greet \033[2Jme.";
    for (const char *at = m->thought; *at && sink->thought; at++) {
        sink->thought(sink->ctx, at, 1, 0, 0);
        sleep_s(fake.tok_s > 0 ? 1 / fake.tok_s : 0);
    }
    if (sink->thought) sink->thought(sink->ctx, "", 0, 345, 12340);
}

int session_say(struct session *s, const char *text, size_t n, const struct session_sink *sink,
                enum session_end *end, struct err *e)
{
    char prompt[256];
    snprintf(prompt, sizeof prompt, "%.*s", (int)(n < 255 ? n : 255), text);
    int64_t n_prompt = 4;
    for (size_t i = 0; i < n; i++) n_prompt += text[i] == ' ';
    add_message(s->c, CHAT_USER, text, n, n_prompt);
    if (strstr(prompt, "fail")) return err_set(e, ERR_FAIL, "the script says that this turn fails");
    tell_prompt(s, text, n, sink);
    if (read_prompt(s, n_prompt, sink)) {
        *end = SESSION_STOPPED;
        return 0;
    }
    struct message *m = add_message(s->c, CHAT_ASSISTANT, "", 0, 0);
    if (strstr(prompt, "ponder")) think(m, sink);
    int n_tokens;
    const char *answer = answer_of(prompt, &n_tokens);
    *end = generate(s, m, answer, n_tokens, sink);
    return 0;
}

int session_feed(struct session *s, const struct chat_message *messages, size_t n,
                 const struct session_sink *sink, struct err *e)
{
    (void)e;
    for (size_t i = 0; i < n; i++) {
        const char *text = messages[i].text;
        int64_t n_tokens = 4;
        for (const char *at = text; *at; at++) n_tokens += *at == ' ';
        add_message(s->c, messages[i].role, text, strlen(text), n_tokens);
        tell_prompt(s, text, strlen(text), sink);
        read_prompt(s, n_tokens, sink);
    }
    return 0;
}

int session_continue(struct session *s, const struct session_sink *sink, enum session_end *end,
                     struct err *e)
{
    if (!s->can_continue) return err_set(e, ERR_USAGE, "there is no answer to continue");
    struct message *m = &s->c->messages[s->c->n_messages - 1];
    *end = generate(s, m, s->tail && *s->tail ? s->tail : script, 0, sink);
    return 0;
}

void session_set(struct session *s, const struct session_opts *o)
{
    s->n_predict = o->max_tokens;
    s->ignore_end = o->ignore_end;
    s->temperature = (double)o->sampling.temperature;
}

/* Turns before the last two need a replay. */
int64_t session_rewind_cost(const struct session *s, int64_t turn)
{
    return turn + 2 < s->c->entry.n_turns ? 40 * turn : 0;
}

int64_t session_regenerate_cost(const struct session *s)
{
    (void)s;
    return 0;
}

/* Keeps the first n messages. */
static void cut(struct session *s, int n)
{
    struct conversation *c = s->c;
    for (int i = n; i < c->n_messages; i++) {
        c->entry.n_turns -= c->messages[i].role == CHAT_USER;
        free(c->messages[i].text);
    }
    c->n_messages = n;
    c->entry.n_tokens = 0;
    for (int i = 0; i < n; i++) c->entry.n_tokens += c->messages[i].n_tokens;
    s->n_tokens = c->entry.n_tokens;
    s->can_continue = false;
    for (int i = 0; i < s->n_layer * s->n_head; i++)
        while (s->heads[i].n > 0 && s->heads[i].positions[s->heads[i].n - 1] >= s->n_tokens)
            s->heads[i].n--;
}

int session_rewind(struct session *s, int64_t turn, const struct session_sink *sink, struct err *e)
{
    int n = 0;
    (void)sink;
    if (turn < 0 || turn > s->c->entry.n_turns) return err_set(e, ERR_USAGE, "no such turn");
    for (int64_t left = turn; n < s->c->n_messages; n++)
        if (s->c->messages[n].role == CHAT_USER && left-- == 0) break;
    cut(s, n);
    return 0;
}

int session_can_rewind(const struct session *s, int64_t turn, struct err *e)
{
    if (turn < 0 || turn > s->c->entry.n_turns) return err_set(e, ERR_USAGE, "no such turn");
    return 0;
}

int64_t session_turn_end(const struct session *s, int64_t turn)
{
    int64_t n_tokens = 0;
    for (int i = 0; i < s->c->n_messages; i++) {
        if (s->c->messages[i].role == CHAT_USER && turn-- == 0) break;
        n_tokens += s->c->messages[i].n_tokens;
    }
    return n_tokens;
}

bool session_must_reopen(const struct session *s)
{
    (void)s;
    return false;
}

int session_replace(struct session *s, int64_t turn, const char *text, size_t n,
                    const struct session_sink *sink, enum session_end *end, struct err *e)
{
    int rc = session_rewind(s, turn, sink, e);
    return rc ? rc : session_say(s, text, n, sink, end, e);
}

int session_regenerate(struct session *s, const struct session_sink *sink, enum session_end *end,
                       struct err *e)
{
    int n = s->c->n_messages;
    while (n > 0 && s->c->messages[n - 1].role != CHAT_USER) n--;
    if (n == 0) return err_set(e, ERR_USAGE, "nothing was said yet");
    cut(s, n);
    struct message *m = add_message(s->c, CHAT_ASSISTANT, "", 0, 0);
    *end = generate(s, m, "Another answer.", 0, sink);
    return 0;
}

int session_amend(struct session *s, const char *text, size_t n, const struct session_sink *sink,
                  struct err *e)
{
    int k = s->c->n_messages;
    (void)sink;
    if (k == 0 || s->c->messages[k - 1].role != CHAT_ASSISTANT)
        return err_set(e, ERR_USAGE, "there is no answer to change");
    cut(s, k - 1);
    add_message(s->c, CHAT_ASSISTANT, text, n, 3)->partial = 1;
    for (int i = 0; i < 3; i++) append(s, NULL);
    s->can_continue = true;
    s->tail = "";
    return 0;
}

int session_branch(struct session *s, int64_t turn, const char *name,
                   char out[CONVERSATION_NAME_MAX], struct err *e)
{
    char made_name[32];
    if (n_saved == SAVED_MAX) return err_set(e, ERR_FAIL, "there are too many conversations");
    snprintf(made_name, sizeof made_name, "talk-%d", ++made);
    struct conversation *c = add_conversation(name && name[0] ? name : made_name);
    for (int i = 0; i < s->c->n_messages; i++) {
        const struct message *m = &s->c->messages[i];
        if (m->role == CHAT_USER && turn-- == 0) break;
        add_message(c, m->role, m->text, strlen(m->text), m->n_tokens);
    }
    fill(out, 128, c->entry.name);
    return 0;
}

/* A token a word. */
/* Always one passage of the first turn. */
static const struct session_recalled passage = {
    .n = 1,
    .windows = {{.position = 3, .n = 4, .turn = 1, .text = " My locker code is 48213."}},
    .n_units = 8,
    .ms = 0.3,
};

int session_recall(struct session *s, const char *words, size_t n, struct session_recalled *out,
                   struct err *e)
{
    (void)s;
    (void)words;
    (void)n;
    (void)e;
    *out = passage;
    return 0;
}

int session_recall_turn(struct session *s, int64_t turn, struct session_recalled *out,
                        struct err *e)
{
    (void)s;
    if (turn != 1) return err_set(e, ERR_USAGE, "there is no turn %lld", (long long)turn);
    *out = passage;
    return 0;
}

int session_pin(struct session *s, int64_t turn, const struct session_sink *k, struct err *e)
{
    (void)k;
    if (turn > 3) return err_set(e, ERR_FIT, "turn %lld is too long", (long long)turn);
    s->pinned = turn;
    return 0;
}

int session_unpin(struct session *s, int64_t turn, const struct session_sink *k, struct err *e)
{
    (void)k;
    if (s->pinned != turn) return err_set(e, ERR_USAGE, "turn %lld is not pinned", (long long)turn);
    s->pinned = 0;
    return 0;
}

bool session_is_pinned(const struct session *s, int64_t turn)
{
    return s->pinned == turn;
}

int session_forget(struct session *s, int64_t turn, const struct session_sink *k, struct err *e)
{
    (void)k;
    (void)e;
    s->forgotten = turn;
    return 0;
}

int session_unforget(struct session *s, const struct session_sink *k, struct err *e)
{
    (void)k;
    if (!s->forgotten) return err_set(e, ERR_USAGE, "no turn was forgotten since the last message");
    s->forgotten = 0;
    return 0;
}

bool session_is_forgotten(const struct session *s, int64_t turn)
{
    return s->forgotten == turn;
}

const struct session_recalled *session_recalled(const struct session *s)
{
    static const struct session_recalled none;
    return s->c->entry.n_turns > 1 ? &passage : &none;
}

int session_count_tokens(const struct session *s, const char *text, size_t n, int64_t *out,
                         struct err *e)
{
    (void)s;
    (void)e;
    *out = 0;
    for (size_t i = 0; i < n; i++) *out += text[i] != ' ' && (i == 0 || text[i - 1] == ' ');
    return 0;
}

void session_stats(const struct session *s, struct session_stats *out)
{
    int64_t heads = (int64_t)s->n_layer * s->n_head;
    *out = (struct session_stats){
        .model = "Fake-4B",
        .weights = "q4",
        .kv = "q4",
        .policy = "locret",
        .device = "cpu",
        .n_layer = s->n_layer,
        .n_kv_head = s->n_head,
        .budget = s->budget,
        .n_tokens = s->n_tokens,
        .n_turns = s->c->entry.n_turns,
        .n_reread = s->n_reread,
        .units_seen = s->n_tokens * heads,
        .units_evicted = s->units_evicted,
        .unit_bytes = 144,
        .weights_bytes = INT64_C(2373000000),
        .cache_bytes = INT64_C(171800000),
        .scratch_bytes = INT64_C(461700000),
        .process_bytes = INT64_C(3100000000),
        .process_peak_bytes = INT64_C(3150000000),
        .machine_bytes = INT64_C(25769803776),
        .decode_tok_s = s->decode_tok_s,
        .prefill_tok_s = s->prefill_tok_s,
        .first_token_ms = s->first_token_ms,
        .bytes_per_token = 2373000000,
    };
    for (int i = 0; i < heads; i++) out->units_kept += s->heads[i].n;
    out->cache_used_bytes = out->units_kept * out->unit_bytes;
}

struct retention *retention_new(const struct session *s)
{
    struct retention *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->n_layer = s->n_layer;
    r->n_head = s->n_head;
    r->kept = calloc((size_t)(s->n_layer * s->n_head) * RETENTION_COLS, sizeof *r->kept);
    return r;
}

void retention_free(struct retention *r)
{
    if (!r) return;
    free(r->kept);
    free(r->heads);
    free(r);
}

int session_past(const struct session *s, void (*each)(void *ctx, const struct retention *r),
                 void *ctx, struct err *e)
{
    (void)s, (void)each, (void)ctx, (void)e;
    return 0;
}

void session_retention(const struct session *s, struct retention *out)
{
    out->n_pos = s->n_tokens;
    out->n_evictions = s->n_evictions;
    out->n_sink = 2;
    out->n_stabilizer = s->budget / 8;
    for (out->col_width = 1; out->n_pos > out->col_width * RETENTION_COLS;) out->col_width *= 2;
    out->n_cols = (int)((out->n_pos + out->col_width - 1) / out->col_width);
    int each = fake.state_every + 1 + (fake.window > 0);
    out->n_all = each > 1 ? s->n_layer * each : 0;
    for (int i = 0; i < out->n_all; i++) {
        bool units = i % each == fake.state_every, state = i % each < fake.state_every;
        out->layers[i] = (struct retention_layer){.kind = units   ? RETENTION_UNITS
                                                          : state ? RETENTION_STATE
                                                                  : RETENTION_WINDOW,
                                                  .kv_layer = (int16_t)(units ? i / each : -1),
                                                  .window = fake.window};
    }
    memset(out->kept, 0, sizeof *out->kept * (size_t)(s->n_layer * s->n_head) * RETENTION_COLS);
    for (int i = 0; i < s->n_layer * s->n_head; i++)
        for (int k = 0; k < s->heads[i].n; k++)
            out->kept[i * RETENTION_COLS + s->heads[i].positions[k] / out->col_width]++;
    retention_reserve(out, out->n_pos);
    session_kept(s, 0, (int)out->n_pos, out->heads);
    retention_find_whole(out);
}

void session_kept(const struct session *s, int64_t pos, int n, uint16_t *out)
{
    memset(out, 0, sizeof *out * (size_t)n);
    for (int i = 0; i < s->n_layer * s->n_head; i++)
        for (int k = 0; k < s->heads[i].n; k++) {
            int64_t at = (int64_t)s->heads[i].positions[k] - pos;
            if (at >= 0 && at < n) out[at]++;
        }
}

void session_scores(const struct session *s, int64_t pos, float *out)
{
    for (int i = 0; i < s->n_layer * s->n_head; i++) {
        out[i] = NAN;
        for (int k = 0; k < s->heads[i].n; k++)
            if (s->heads[i].positions[k] == pos) out[i] = (float)score(i, (uint32_t)pos) / 160;
    }
}

/* ---- functions that the fake lacks ----------------------------------------------------------- */

static int not_here(struct err *e)
{
    return err_set(e, ERR_FAIL, "the fake library cannot do that");
}

int conversations_restore(struct conversations *l, const char *name, const char *new_name,
                          struct err *e)
{
    (void)l, (void)new_name;
    if (!deleted || strcmp(deleted->entry.name, name) != 0) return missing(name, e);
    if (n_saved == SAVED_MAX) abort();
    saved[n_saved++] = deleted;
    deleted = NULL;
    return 0;
}

int conversations_drop_cache(struct conversations *l, const char *name, struct err *e)
{
    (void)l;
    struct conversation *c = find(name);
    if (!c) return missing(name, e);
    c->entry.cache_bytes = 0;
    return 0;
}

int conversations_search(struct conversations *l, const char *text,
                         int (*each)(void *ctx, const struct conversations_hit *h), void *ctx,
                         struct err *e)
{
    (void)e;
    for (int i = 0; !l->private_mode && i < n_saved; i++)
        for (int k = 0; k < saved[i]->n_messages; k++) {
            const struct message *m = &saved[i]->messages[k];
            if (!strcasestr(m->text, text)) continue;
            struct conversations_hit h = {.name = saved[i]->entry.name,
                                          .title = saved[i]->entry.title,
                                          .message = k,
                                          .role = m->role,
                                          .snippet = m->text};
            int rc = each(ctx, &h);
            if (rc) return rc;
        }
    return 0;
}

int passages_check(struct conversations *l, const char *from, struct err *e)
{
    (void)l;
    return strcmp(from, "all") ? missing(from, e) : 0;
}

int passages_find(struct conversations *l, const char *from, const char *own, const char *message,
                  size_t n, struct str *out, struct err *e)
{
    (void)l, (void)from, (void)own, (void)n, (void)e;
    if (strstr(message, "locker")) str_puts(out, "From \"work\": My locker code is 40917.");
    return 0;
}

int conversations_export(struct conversations *l, const char *name, bool markdown, struct str *out,
                         int64_t *n_damaged, struct err *e)
{
    (void)markdown, (void)n_damaged;
    struct conversation *c = l->private_mode ? NULL : find(name);
    if (!c) return missing(name, e);
    for (int i = 0; i < c->n_messages; i++) str_printf(out, "%s\n", c->messages[i].text);
    return 0;
}

int conversations_export_cache(struct conversations *l, const char *name, const char *path,
                               struct err *e)
{
    (void)l, (void)name, (void)path;
    return not_here(e);
}

int conversations_import(struct conversations *l, const char *path, const char *new_name,
                         void (*each)(void *ctx, const char *name), void *ctx, struct err *e)
{
    (void)l, (void)path, (void)new_name, (void)each, (void)ctx;
    return not_here(e);
}

void conversations_watch(struct conversations *l,
                         int (*progress)(void *ctx, int64_t done, int64_t total), void *ctx)
{
    (void)l, (void)progress, (void)ctx;
}

int conversations_check(struct conversations *l, struct err *e)
{
    (void)l;
    return not_here(e);
}

int conversations_compact(struct conversations *l, struct conversations_size *out, struct err *e)
{
    (void)l, (void)out;
    return not_here(e);
}

void conversations_free_reserve(const char *path)
{
    (void)path;
}

int conversations_open_key(struct conversations **out, const char *path,
                           const struct conversations_key *k, struct err *e)
{
    (void)k;
    return conversations_open(out, path, e);
}

bool conversations_is_encrypted(const struct conversations *l)
{
    (void)l;
    return false;
}

bool conversations_is_missing(const char *path)
{
    (void)path;
    return false;
}

bool conversations_probe(const char *path, bool *fresh)
{
    (void)path;
    *fresh = false;
    return false;
}

char *conversations_secret_new(void)
{
    return calloc(1, CONVERSATIONS_PASSPHRASE_MAX);
}

void conversations_secret_free(char *secret)
{
    free(secret);
}

/* ---- models -----------------------------------------------------------------------------------
 */

int conversations_models(struct conversations *l, const char *packed,
                         int (*each)(void *ctx, const struct conversations_model *m), void *ctx,
                         struct err *e)
{
    (void)l, (void)packed, (void)each, (void)ctx, (void)e;
    return 0;
}

int model_list_read(struct model_list *out, const struct options *o, struct conversations *library,
                    struct err *e)
{
    static struct model_row rows[3];
    (void)o, (void)library, (void)e;
    rows[0] = (struct model_row){.size = 2500000, .budget = 3328, .standard = true};
    rows[1] = (struct model_row){.path = (char *)(uintptr_t) "/models/other-1b-q4_0.gguf",
                                 .size = 800000000,
                                 .budget = 65536};
    rows[2] = (struct model_row){.path = (char *)(uintptr_t) "/models/large-70b-q4_k.gguf",
                                 .size = INT64_C(40000000000)};
    fill(rows[0].name, sizeof rows[0].name, "demo");
    fill(rows[1].name, sizeof rows[1].name, "other-1b-q4_0");
    fill(rows[2].name, sizeof rows[2].name, "large-70b-q4_k");
    fill(rows[1].type, sizeof rows[1].type, "Q4_0");
    fill(rows[2].problem, sizeof rows[2].problem, "it needs 41 GiB of 24 GiB");
    *out = (struct model_list){rows, 3};
    return 0;
}

int model_find(const struct options *o, struct conversations *library, const char *name,
               struct str *out, struct err *e)
{
    struct model_list l;
    model_list_read(&l, o, library, e);
    for (int i = 0; i < l.n; i++)
        if (!strcmp(l.rows[i].name, name)) {
            str_puts(out, l.rows[i].path ? l.rows[i].path : "");
            return 0;
        }
    return err_set(e, ERR_USAGE, "no model %s", name);
}

void model_newest(const struct options *o, struct str *name)
{
    (void)o, (void)name;
}

void model_list_release(struct model_list *l)
{
    *l = (struct model_list){0};
}

const char *session_system(const struct session *s)
{
    return s->system;
}

int session_system_cost(struct session *s, const char *system, int64_t *out, struct err *e)
{
    (void)system;
    (void)e;
    *out = s->n_tokens;
    return 0;
}
