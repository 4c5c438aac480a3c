/* Token ids that do not spell their message: another model's, or ids that came with an import and
 * say other words than the text that the user reads; the text is what counts. Such a message and
 * all later ones are encoded again, and the saved cache is dropped. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/forward/engine.h"
#include "runtime/save/readings.h"
#include "runtime/session/session_parts.h"
#include "runtime/token/token_text.h"

/* Visible bytes that a message may have besides its text and what the template adds: a template may
 * write the date, and another one may have been chosen. */
#define SURPLUS_BYTES 32

/* Bytes of the ids that are text, without control tokens. */
static int64_t visible_bytes(const struct tokenizer *t, const int32_t *ids, size_t n_ids)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n_ids; i++) {
        size_t n;
        tokenizer_bytes(t, ids[i], false, &n);
        sum += (int64_t)n;
    }
    return sum;
}

/* Whether the ids give the text, none of it by a control token. */
static bool gives_text(const struct session *s, const struct store_message *m)
{
    const struct engine *g = s->engine;
    struct store_message said = *m;
    said.role = m->role == CHAT_USER ? CHAT_USER : CHAT_ASSISTANT;
    if (strspn(m->text, " \t\r\n") >= m->n_text) return true;
    uint16_t *n_bytes = memory_new(m->n_tokens + 1, sizeof *n_bytes);
    bool good = token_text_align(g->tokenizer, m->tokens, m->n_tokens, session_before(s, &said),
                                 m->text, m->n_text, n_bytes);
    for (size_t i = 0; good && i < m->n_tokens; i++) {
        size_t n;
        tokenizer_bytes(g->tokenizer, m->tokens[i], false, &n);
        good = n > 0 || n_bytes[i] == 0;
    }
    free(n_bytes);
    return good;
}

static bool is_text(const struct str *bytes, size_t from, const char *text, size_t n)
{
    return bytes->n - from == n && !memcmp(str_get(bytes) + from, text, n);
}

/* Whether these are the text and the thought that the ids gave when they were generated. Bytes that
 * are no UTF-8 were replaced then, so the ids spell something else; but not yet in an answer that a
 * kill interrupted. */
static bool gave_answer(const struct session *s, const struct store_message *m)
{
    struct str heard[2] = {{0}}, text = {0}, thought = {0};
    struct thought_reader r = {0};
    if (m->role != CHAT_ASSISTANT || !session_turn_reader(s, &r)) return false;
    for (size_t i = 0; i < m->n_tokens; i++) {
        size_t n;
        const char *bytes = tokenizer_bytes(s->engine->tokenizer, m->tokens[i], false, &n);
        thought_take(&r, m->tokens[i], bytes, n, &heard[0], &heard[1]);
    }
    thought_end(&r, &heard[0], &heard[1]);
    session_join_characters(&heard[0], &thought);
    session_join_characters(&heard[1], &text);
    /* A space before the first word may not be part of the text. */
    bool space = text.n && text.data[0] == ' ', same = false;
    for (size_t from = 0; from <= space; from++)
        same = same || is_text(&text, from, m->text, m->n_text) ||
               is_text(&heard[1], from, m->text, m->n_text);
    same = same && is_text(&thought, 0, m->thought.text ? m->thought.text : "", m->thought.n);
    for (int i = 0; i < 2; i++) str_release(&heard[i]);
    str_release(&text);
    str_release(&thought);
    thought_release(&r);
    return same;
}

/* last: the id before the message, -1 = it is the first. */
static bool spells(const struct session *s, const struct store_message *m, int32_t last)
{
    const struct tokenizer *t = s->engine->tokenizer;
    if (m->n_tokens == 0) return m->role == CHAT_SYSTEM || m->n_text == 0;
    for (size_t i = 0; i < m->n_tokens; i++)
        if (m->tokens[i] < 0 || m->tokens[i] >= s->engine->model->n_vocab)
            return false; /* another model's */
    if (gave_answer(s, m)) return true;
    bool gives = gives_text(s, m);
    int64_t more = visible_bytes(t, m->tokens, m->n_tokens) - (int64_t)(m->n_text + m->thought.n);
    if (gives && (more <= SURPLUS_BYTES || s->opts.raw)) return true;
    struct tokens ids = {0};
    enum chat_role role = m->role == CHAT_USER ? CHAT_USER : CHAT_ASSISTANT;
    int rc = session_encode(s, role, m->text, m->n_text, last, &ids, NULL);
    int64_t expected = visible_bytes(t, ids.ids, ids.n) - (int64_t)m->n_text;
    /* A tokenizer that changes the text, to lower case for example, does not give it back. */
    bool same = ids.n == m->n_tokens && !memcmp(ids.ids, m->tokens, ids.n * sizeof *ids.ids);
    tokens_release(&ids);
    return rc || same || (gives && more <= expected + SURPLUS_BYTES);
}

/* The same for a message that follows the session's turn: its ids may begin with some of that turn
 * that were run again. */
static bool spells_after(const struct session *s, const struct store_message *m, int32_t last)
{
    struct session_change c = {0};
    struct store_message rest = *m;
    if (spells(s, m, last)) return true;
    bool again = m->role == CHAT_USER && !session_turn_change(s, &c, NULL) && c.again.n > 0 &&
                 c.again.n < m->n_tokens &&
                 !memcmp(m->tokens, c.again.ids, c.again.n * sizeof *m->tokens);
    rest.tokens += again ? c.again.n : 0;
    rest.n_tokens -= again ? c.again.n : 0;
    again = again && spells(s, &rest, c.last);
    tokens_release(&c.again);
    return again;
}

/* ---- collecting ------------------------------------------------------------------------------ */

/* The first message that is not spelled by its ids, and all after it. */
struct respell {
    struct session *s;
    bool all;         /* the first message is not, whatever its ids are */
    int32_t last;     /* the id before the first of them, or before the next message */
    int64_t n_kept;   /* messages before it */
    int64_t position; /* of the next message */
    struct messages rest;
};

static int collect(void *ctx, const struct store_message *m)
{
    struct respell *r = ctx;
    if (r->all || r->rest.n || !spells_after(r->s, m, r->last)) return messages_add(&r->rest, m);
    session_follow(r->s, m, &session_silent);
    r->position = m->position + (int64_t)m->n_tokens;
    r->n_kept++;
    if (m->n_tokens) r->last = m->tokens[m->n_tokens - 1];
    return 0;
}

int session_encode_saved(const struct session *s, const struct store_message *m, int32_t last,
                         struct tokens *ids, struct err *e)
{
    if (m->role == CHAT_SYSTEM || m->n_text == 0) return 0;
    int rc = session_encode(s, m->role, m->text, m->n_text, last, ids, e);
    int32_t end = m->n_tokens ? m->tokens[m->n_tokens - 1] : -1;
    bool ended = m->role == CHAT_ASSISTANT && !s->other_model &&
                 chat_ends(s->engine->template, s->engine->tokenizer, end);
    if (!rc && ended) tokens_push(ids, end);
    return rc;
}

static int add_again(struct respell *r, struct store *store, struct err *e)
{
    int32_t last = r->last;
    int rc = 0;
    for (size_t i = 0; !rc && i < r->rest.n; i++) {
        struct store_message m = r->rest.all[i].m;
        struct tokens ids = {0};
        rc = session_encode_saved(r->s, &m, last, &ids, e);
        m.tokens = ids.ids;
        m.n_tokens = ids.n;
        if (!rc) rc = store_message_add(store, r->s->id, &m, e);
        if (ids.n) last = ids.ids[ids.n - 1];
        tokens_release(&ids);
    }
    return rc;
}

/* Whether the saved cache ends before the first of these messages. */
static bool keeps_cache(const struct respell *r)
{
    struct save_state saved;
    bool found;
    if (save_state_of(save_store(r->s->save), r->s->id, &saved, &found, NULL)) return false;
    save_state_release(&saved);
    return found && saved.n_run <= r->position;
}

int session_respell(struct session *s, struct store *store, bool all, size_t *n, struct err *e)
{
    struct respell r = {.s = s, .all = all, .last = -1};
    session_turn_forget(s);
    int rc = store_message_each(store, s->id, collect, &r, e);
    *n = rc ? 0 : r.rest.n;
    if (!rc && (*n || all)) {
        rc = store_begin(store, e);
        if (!rc) rc = store_rewind(store, s->id, r.n_kept, keeps_cache(&r) ? INT64_MAX - 1 : -1, e);
        if (!rc) rc = add_again(&r, store, e);
        if (!rc && all) rc = session_system_save(s, store, e);
        if (!rc) rc = store_commit(store, e);
        store_rollback(store);
    }
    messages_release(&r.rest);
    return rc;
}
