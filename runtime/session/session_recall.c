/* Recall in a conversation: units are archived before they can be evicted, and the windows that
 * a message is about return before the message's last part is run. */
#include "runtime/session/session_parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/system.h"
#include "base/word.h"
#include "runtime/forward/engine.h"

#define SENTENCES_MAX 96 /* positions of a passage that is read again */

struct session_recall {
    bool on;
    struct archive archive;
    struct arena arena;
    /* Tokens that are not archived yet, [n_said] from position said_from. The first n_ran were run;
     * the next n_skip that are told are known. */
    struct archive_token *said;
    size_t n_said, said_max, n_ran;
    int64_t said_from, n_skip;
    struct word_reader reader; /* of their words */
    void *embedding;           /* the token's that is compared (model_embedding) */
    /* the newest tokens of the user's last message's text, and of the one before */
    struct archive_token message[RECALL_MESSAGE], before[RECALL_MESSAGE];
    int n_message, n_before;
    struct archive_token newest[RECALL_ANSWER]; /* [n_newest] of the answer */
    int n_newest;
    /* words given to session_recall, or positions of session_recall_turn, for the next message */
    struct archive_token wanted[RECALL_MESSAGE];
    int n_wanted;
    uint32_t wanted_from, wanted_end;
    struct session_recalled last;
    struct str text[RECALL_MAX]; /* of last.windows */
};

static int keep(void *ctx, struct err *e)
{
    return session_recall_keep(ctx, e);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void embed(void *ctx, int32_t id, float *out)
{
    const struct session *s = ctx;
    model_embedding(s->engine->model, id, s->recall->embedding, out);
}

/* Takes the archive's memory from `a`, backed or only planned. */
static void plan(struct session *s, const struct archive_opts *o, struct arena *a)
{
    archive_plan(&s->recall->archive, o, &s->ctx.cache.shape, a);
    s->recall->embedding = arena_take(a, model_embedding_bytes(s->engine->model), 1);
}

static void reserve(struct session_recall *r, size_t n)
{
    if (n <= r->said_max) return;
    r->said_max = n > 2 * r->said_max ? n : 2 * r->said_max;
    r->said = memory_grow(r->said, r->said_max, sizeof *r->said);
}

int session_recall_open(struct session *s, struct err *e)
{
    const struct recall_opts *o = &s->opts.recall;
    struct session_recall *r = s->recall = memory_new(1, sizeof *r);
    struct arena a;
    if (o->chooser == RECALL_OFF || session_keeps_all(s)) return 0;
    struct archive_opts ao = {
        .bytes = o->archive_bytes,
        .n_text = o->n_text,
        .n_returning = RECALL_MAX * RECALL_SPAN,
        .n_vocab = tokenizer_n_vocab(s->engine->tokenizer),
        .compare = {s->engine->model->n_embd, embed, s},
    };
    if (!ao.bytes) ao.bytes = s->save ? RECALL_DISK_BYTES : RECALL_PRIVATE_BYTES;
    if (s->save) ao.store = save_archive(s->save, &s->ctx.cache, keep, s);
    arena_init_plan(&a, "archive");
    plan(s, &ao, &a);
    int rc = arena_init_sparse(&r->arena, "archive", a.used, e);
    if (rc) return rc;
    plan(s, &ao, &r->arena);
    reserve(r, (size_t)s->ctx.plan.chunk + (size_t)s->ctx.plan.reserve);
    r->on = true;
    return 0;
}

void session_recall_close(struct session *s)
{
    struct session_recall *r = s->recall;
    if (!r) return;
    arena_release(&r->arena);
    free(r->said);
    for (int i = 0; i < RECALL_MAX; i++) str_release(&r->text[i]);
    free(r);
}

struct archive *session_recall_archive(const struct session *s)
{
    return s->recall->on ? &s->recall->archive : NULL;
}

/* ---- messages and tokens --------------------------------------------------------------------- */

/* Drops the tokens at `position` and after it, which are told again; those that were run stay. */
static void tell_from(struct session_recall *r, int64_t position)
{
    int64_t n = position - r->said_from;
    if (n < (int64_t)r->n_ran) n = (int64_t)r->n_ran;
    if (n < (int64_t)r->n_said) r->n_said = (size_t)n;
    r->n_skip = r->said_from + (int64_t)r->n_said - position;
}

static struct archive_token describe_token(const struct session *s, struct word_reader *r,
                                           int32_t id, bool said)
{
    size_t n;
    const char *bytes = tokenizer_bytes(s->engine->tokenizer, id, false, &n);
    if (!said) *r = (struct word_reader){0};
    if (!said) return (struct archive_token){.id = -1, .ends = true};
    const struct word_piece piece = word_read(r, bytes, n);
    const bool asks = memchr(bytes, '?', n);
    return (struct archive_token){.id = id,
                                  .word = piece.word,
                                  .joins = piece.joins,
                                  .asks = asks,
                                  .ends = asks || memchr(bytes, '.', n) || memchr(bytes, '!', n) ||
                                          memchr(bytes, '\n', n)};
}

static struct archive_token tell(struct session *s, int32_t id, bool said, bool answer,
                                 bool thought)
{
    struct session_recall *r = s->recall;
    struct archive_token t = describe_token(s, &r->reader, id, said);
    t.answer = answer;
    t.thought = thought;
    if (r->on && r->n_skip <= 0) {
        reserve(r, r->n_said + 1);
        r->said[r->n_said++] = t;
    }
    if (r->n_skip > 0) r->n_skip--;
    return t;
}

/* Appends a token to the newest `max`; returns their number. */
static int push_newest(struct archive_token *newest, int n, int max, struct archive_token t)
{
    if (n == max) memmove(newest, newest + 1, (size_t)--n * sizeof *newest);
    newest[n] = t;
    return n + 1;
}

void session_recall_token(struct session *s, int32_t id, bool said, bool thought)
{
    struct session_recall *r = s->recall;
    const struct archive_token t = tell(s, id, said, true, thought);
    if (said) r->n_newest = push_newest(r->newest, r->n_newest, RECALL_ANSWER, t);
}

void session_recall_message(struct session *s, const struct store_message *m,
                            const uint16_t *n_bytes, const bool *past)
{
    struct session_recall *r = s->recall;
    tell_from(r, m->position);
    if (m->role != CHAT_USER) return;
    r->reader = (struct word_reader){0};
    memcpy(r->before, r->message, sizeof r->before);
    r->n_before = m->position ? r->n_message : 0;
    r->n_message = r->n_newest = 0;
    for (size_t i = 0; i < m->n_tokens; i++) {
        const struct archive_token t = tell(s, m->tokens[i], n_bytes[i] || past[i], false, false);
        if (n_bytes[i]) r->n_message = push_newest(r->message, r->n_message, RECALL_MESSAGE, t);
    }
}

static void want_nothing(struct session_recall *r)
{
    r->n_wanted = 0;
    r->wanted_from = r->wanted_end = 0;
}

void session_recall_forget(struct session *s)
{
    struct session_recall *r = s->recall;
    r->n_message = r->n_before = r->n_newest = r->last.n = 0;
    r->n_said = r->n_ran = 0;
    r->reader = (struct word_reader){0};
    r->said_from = r->n_skip = 0;
    want_nothing(r);
    if (r->on) archive_clear(&r->archive);
}

void session_recall_ran(struct session *s, int n)
{
    struct session_recall *r = s->recall;
    /* Once saving has failed, units can't be archived either. */
    if (s->save && save_is_broken(s->save)) r->on = false;
    if (r->on) r->n_ran += (size_t)n;
    assert(r->n_ran <= r->n_said);
}

/* ---- archiving ------------------------------------------------------------------------------- */

/* Drops the first n tokens that were told. */
static void drop_told(struct session_recall *r, size_t n)
{
    memmove(r->said, r->said + n, (r->n_said - n) * sizeof *r->said);
    r->n_said -= n;
    r->said_from += (int64_t)n;
}

int session_recall_keep(struct session *s, struct err *e)
{
    struct session_recall *r = s->recall;
    const size_t n = r->n_ran;
    if (!r->on || n == 0) return 0;
    int rc = archive_add(&r->archive, &s->ctx.cache, r->said, (int)n, e);
    r->n_ran = 0;
    drop_told(r, n);
    return rc;
}

struct found {
    struct archive *archive;
    const struct archive_token *said;
    int64_t n_saved;
};

static void found_piece(void *ctx, uint32_t pos, int n)
{
    struct found *f = ctx;
    archive_found(f->archive, pos, n, f->said, f->n_saved);
}

int session_recall_loaded(struct session *s, int64_t n_run, struct err *e)
{
    struct session_recall *r = s->recall;
    if (!r->on) return 0;
    struct found f = {&r->archive, r->said, save_position(s->save)};
    archive_count(&r->archive, r->said, (int)f.n_saved);
    int rc = save_archive_each(s->save, found_piece, &f, e);
    archive_found(f.archive, (uint32_t)f.n_saved, 0, r->said, f.n_saved);
    drop_told(r, (size_t)f.n_saved);
    /* the whole conversation was told: gives its memory back */
    r->said_max = r->n_said + 1;
    r->said = memory_grow(r->said, r->said_max, sizeof *r->said);
    session_recall_ran(s, (int)(n_run - f.n_saved));
    return rc;
}

/* ---- returning ------------------------------------------------------------------------------- */

/* The turn that a position belongs to, from 1; 0 = not known: a private conversation has no list of
 * its messages. */
static int64_t turn_of(const struct session *s, int64_t pos, int64_t *said_ms)
{
    int64_t turn = 0;
    *said_ms = 0;
    for (size_t i = 0; s->save && i < s->n_messages; i++) {
        turn += s->messages[i].role == CHAT_USER;
        *said_ms = s->messages[i].created_ms;
        if (pos < s->messages[i].end) return turn;
    }
    return 0;
}

static void spell(const struct session *s, int64_t first, int n, struct str *out)
{
    const struct archive *x = &s->recall->archive;
    str_clear(out);
    for (int i = archive_index(x, (uint32_t)first); i < x->n && x->pos[i] < first + n; i++) {
        size_t n_bytes;
        if (x->id[i] < 0) continue;
        const char *bytes = tokenizer_bytes(s->engine->tokenizer, x->id[i], false, &n_bytes);
        str_append(out, bytes, n_bytes);
    }
}

/* Finds the turn that most of a window's positions belong to, and its bytes of the text. */
static void credit(const struct session *s, struct session_window *w, struct str *text)
{
    int n_most = 0;
    for (int i = 0, n = 1; i < w->n; i += n, n = 1) {
        int64_t said_ms, other_ms, turn = turn_of(s, w->position + i, &said_ms);
        while (i + n < w->n && turn_of(s, w->position + i + n, &other_ms) == turn) n++;
        if (n <= n_most) continue;
        n_most = n;
        w->turn = turn;
        w->said_ms = said_ms;
        spell(s, w->position, i, text);
        w->from = text->n;
        spell(s, w->position, i + n, text);
        w->end = text->n;
    }
}

static void describe(struct session *s, const struct recall_window *w, int n)
{
    struct session_recall *r = s->recall;
    r->last.n = n;
    r->last.best = 0;
    for (int i = 0; i < n; i++) {
        struct session_window *out = &r->last.windows[i];
        if (w[i].weight > w[r->last.best].weight) r->last.best = i;
        *out = (struct session_window){.position = w[i].pos, .n = w[i].n};
        credit(s, out, &r->text[i]);
        spell(s, out->position, out->n, &r->text[i]);
        out->text = str_get(&r->text[i]);
    }
}

static struct recall_query query_of(const struct session *s)
{
    const struct session_recall *r = s->recall;
    return (struct recall_query){
        .text = r->message,
        .n = r->n_message,
        .before = r->before,
        .newest = context_newest(&s->ctx),
        .n_before = r->n_before,
        .wanted = r->wanted,
        .n_wanted = r->n_wanted,
        .from = r->wanted_from,
        .end = r->wanted_end,
    };
}

/* Forgets the wish before. ERR_USAGE: recall is off. */
static int begin_wish(struct session *s, struct err *e)
{
    if (!s->recall->on)
        return err_set(e, ERR_USAGE, "recall is off: /set recall words turns it on");
    want_nothing(s->recall);
    return 0;
}

/* The text that the user's wish alone finds now. */
static int preview(struct session *s, struct session_recalled *out)
{
    struct session_recall *r = s->recall;
    struct recall_window windows[RECALL_MAX];
    struct recall_query q = query_of(s);
    q.n = q.n_before = 0;
    q.room = RECALL_MAX * RECALL_SPAN;
    int n = recall_choose(&r->archive, &s->ctx.cache, &q, s->opts.recall.n_windows, windows);
    describe(s, windows, n);
    *out = r->last;
    r->last.n = 0;
    return 0;
}

/* The newest tokens of a text, of which there are *n_out. */
static int read_words(const struct session *s, const char *text, size_t n,
                      struct archive_token out[RECALL_MESSAGE], int *n_out, struct err *e)
{
    struct word_reader reader = {0};
    struct tokens ids = {0};
    const struct tokenizer_span span = {text, n, false};
    int rc = tokenizer_encode(s->engine->tokenizer, &span, 1, true, &ids, e);
    for (size_t i = 0; !rc && i < ids.n; i++)
        *n_out =
            push_newest(out, *n_out, RECALL_MESSAGE, describe_token(s, &reader, ids.ids[i], true));
    tokens_release(&ids);
    return rc;
}

int session_recall(struct session *s, const char *words, size_t n, struct session_recalled *out,
                   struct err *e)
{
    struct session_recall *r = s->recall;
    int rc = begin_wish(s, e);
    if (!rc) rc = read_words(s, words, n, r->wanted, &r->n_wanted, e);
    return rc ? rc : preview(s, out);
}

int session_recall_turn(struct session *s, int64_t turn, struct session_recalled *out,
                        struct err *e)
{
    int rc = begin_wish(s, e);
    if (rc) return rc;
    rc = session_check_turn(s, turn, 1, e);
    if (rc) return rc;
    s->recall->wanted_from = (uint32_t)session_turn_end(s, turn - 1);
    s->recall->wanted_end = (uint32_t)session_turn_end(s, turn);
    return preview(s, out);
}

/* ---- reading again --------------------------------------------------------------------------- */

/* Whether the i-th position continues what the one before it says. */
static bool goes_on(const struct archive *x, int i)
{
    const int speaker = ARCHIVE_ANSWER | ARCHIVE_ASKS;
    return i > 0 && i < x->n && x->id[i] >= 0 && x->pos[i - 1] + 1 == x->pos[i] &&
           !((x->flags[i] ^ x->flags[i - 1]) & speaker);
}

/* The sentences [*from, *end) of one speaker that a window has, without questions. */
static void whole_sentences(const struct archive *x, const struct recall_window *w, int *from,
                            int *end)
{
    const int first = archive_index(x, w->pos), last = first + w->n;
    int i = first, k;
    while (i < last && (x->id[i] < 0 || x->flags[i] & ARCHIVE_ASKS)) i++;
    *from = *end = i;
    if (i == last) return;
    for (k = i + 1; k < i + SENTENCES_MAX && goes_on(x, k); k++)
        if (k >= last && x->flags[k - 1] & ARCHIVE_ENDS) break;
    for (; i > k - SENTENCES_MAX && goes_on(x, i); i--)
        if (x->flags[i - 1] & ARCHIVE_ENDS) break;
    *from = i;
    *end = k;
}

static const char earlier[] = "Earlier", *const said_by[] = {" I said: ", " you said: "};

/* Whether the words of [from, end) were said again, in a passage with units. */
static bool said_again(const struct archive *x, int from, int end)
{
    while (from < end && !x->word[from]) from++;
    for (int at = end; at < x->n; at++) {
        int i = from, k = at;
        if (x->word[at] != x->word[from] || !archive_has_units(x, at)) continue;
        for (;;) {
            while (i < end && !x->word[i]) i++;
            while (k < x->n && !x->word[k]) k++;
            if (i == end || k == x->n || x->word[i] != x->word[k]) break;
            i++;
            k++;
        }
        if (i == end) return true;
    }
    return false;
}

/* `Earlier (2026-05-03) I said: …`, unless it is there. A sentence that was read again before keeps
 * only what it said first. The next message evicts a turn that was forgotten just now. */
static void put_sentences(const struct session *s, int from, int end, struct str *out)
{
    const struct archive *x = &s->recall->archive;
    struct str text = {0};
    int64_t said_ms;
    if (session_is_forgotten(s, turn_of(s, x->pos[from], &said_ms))) return;
    spell(s, x->pos[from], (int)(x->pos[end - 1] - x->pos[from]) + 1, &text);
    const time_t said = (time_t)(said_ms / 1000);
    struct tm day;
    char when[32] = "";
    if (said && localtime_r(&said, &day)) strftime(when, sizeof when, " (%Y-%m-%d)", &day);
    const char *first = str_get(&text), *again = strstr(first, said_by[0]);
    if (strstr(first, earlier) && again) first = again + strlen(said_by[0]);
    first += strspn(first, " \n");
    if (*first && !strstr(str_get(out), first))
        str_printf(out, "%s%s%s%s%s", out->n ? "\n" : "", earlier, when,
                   said_by[x->flags[from] & ARCHIVE_ANSWER ? 1 : 0], first);
    str_release(&text);
}

int session_recall_text(struct session *s, const char *message, size_t n, struct str *out,
                        struct err *e)
{
    const struct archive *x = &s->recall->archive;
    struct recall_window w[RECALL_MAX];
    struct archive_token text[RECALL_MESSAGE];
    struct recall_query q = query_of(s);
    int end = 0;
    if (!s->recall->on || x->n == x->n_units) return 0;
    q.before = q.text;
    q.n_before = q.n;
    q.text = text;
    q.n = 0;
    q.room = RECALL_MAX * RECALL_SPAN;
    q.texts = true;
    int rc = read_words(s, message, n, text, &q.n, e);
    if (rc) return rc;
    const int n_found =
        recall_choose(&s->recall->archive, &s->ctx.cache, &q, s->opts.recall.n_windows, w);
    recall_sort(w, n_found);
    for (int i = 0, from; i < n_found; i++) {
        const int before = end;
        if (!w[i].text) continue;
        whole_sentences(x, &w[i], &from, &end);
        if (from < before) from = before;
        if (from < end && !said_again(x, from, end)) put_sentences(s, from, end, out);
    }
    return 0;
}

/* Whether heads keep less than half of what is older than the newest units. */
static bool is_fragmentary(const struct session *s)
{
    const struct cache *c = &s->ctx.cache;
    const int64_t newest = c->n_pos - context_newest(&s->ctx);
    return 2 * (cache_units(c) - newest * cache_n_heads(c)) <
           (c->n_pos - newest) * cache_n_heads(c);
}

int session_recall_return(struct session *s, struct recall_window *w, int n, bool alone,
                          struct err *e)
{
    struct cache *c = &s->ctx.cache;
    int rc = context_put_back(&s->ctx, e);
    if (!rc) rc = cache_fetch(c, cache_len_max(c), e);
    if (!rc)
        rc = recall_return(&s->recall->archive, c, w, n, s->ctx.engine->pool,
                           &s->recall->last.n_units, e);
    if (!rc) c->n_returns++;
    if (!rc) c->n_returned += s->recall->last.n_units;
    if (!rc && alone && is_fragmentary(s)) {
        s->state.aside = (struct recall_aside){.from = context_newest(&s->ctx), .n = n};
        memcpy(s->state.aside.windows, w, (size_t)n * sizeof *w);
        context_set_aside(&s->ctx, &s->state.aside);
    }
    return rc ? rc : context_loaded(&s->ctx, e);
}

int session_recall_bring(struct session *s, int n_left, const struct session_sink *k, struct err *e)
{
    struct session_recall *r = s->recall;
    struct recall_query q = query_of(s);
    struct recall_window windows[RECALL_MAX];
    int64_t t0 = system_clock_ns();
    int rc = 0;
    r->last.n = 0;
    if (!r->on) return 0;
    q.room = (cache_room(&s->ctx.cache) - n_left) / 2; /* the other slots stay for the answer */
    q.more = true;
    int n = recall_choose(&r->archive, &s->ctx.cache, &q, s->opts.recall.n_windows, windows);
    want_nothing(r);
    if (n) rc = session_recall_return(s, windows, n, windows[0].named, e);
    if (rc || !n || !r->last.n_units) return rc;
    describe(s, windows, n);
    r->last.ms = (double)(system_clock_ns() - t0) / 1e6;
    if (k->recalled) k->recalled(k->ctx, &r->last);
    return 0;
}

int session_recall_again(struct session *s, struct err *e)
{
    struct session_recall *r = s->recall;
    struct recall_window windows[RECALL_MAX];
    struct recall_query q = query_of(s);
    const int64_t n_units = r->last.n_units;
    if (!r->on) return 0;
    q.room = (cache_room(&s->ctx.cache) - 1) / 2;
    q.before = q.text;
    q.n_before = q.n;
    q.n = r->n_newest;
    q.text = r->newest;
    int n = recall_choose(&r->archive, &s->ctx.cache, &q, s->opts.recall.n_windows, windows);
    if (!n) return 0;
    int rc = session_recall_return(s, windows, n, false, e);
    r->last.n_units = n_units; /* `last` is what returned for the message */
    return rc;
}

const struct session_recalled *session_recalled(const struct session *s)
{
    return &s->recall->last;
}
