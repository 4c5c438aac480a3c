#include "runtime/cache/archive.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* When full, it drops at least this share of its positions at once, so that values are rarely
 * computed. */
#define DROP_SHARE 16
/* After so many positions an archive takes large pages, which a search reads faster. */
#define LARGE (1 << 16)
/* The text of this share of n_text is dropped at once. */
#define TEXT_SHARE 16

size_t archive_position_bytes(const struct cache_shape *s)
{
    return (size_t)(s->n_layer * s->n_head) * (kn_kv_bytes(s->k_type, s->head_dim) +
                                               kn_kv_bytes(s->v_type, s->head_dim) + sizeof(float));
}

static void plan_compare(struct archive *x, struct arena *a)
{
    const struct archive_compare *o = &x->opts.compare;
    if (o->n_embd) {
        size_t n_embd = (size_t)o->n_embd;
        x->centre = arena_take(a, n_embd, sizeof *x->centre);
        x->common = arena_take(a, n_embd, sizeof *x->common);
        x->row = arena_take(a, n_embd, sizeof *x->row);
        x->vectors = arena_take(a, ARCHIVE_VECTORS * n_embd, sizeof *x->vectors);
        x->seen = arena_take(a, (size_t)x->opts.n_vocab, sizeof *x->seen);
        x->match = arena_take(a, (size_t)x->opts.n_vocab, ARCHIVE_VECTORS);
    }
}

static void set_up(struct archive *x, const struct archive_opts *o, const struct cache_shape *s)
{
    size_t bytes = archive_position_bytes(s), n = (size_t)o->bytes / bytes;
    *x = (struct archive){.opts = *o, .shape = *s, .position_bytes = bytes};
    if (n < 2 * ARCHIVE_PIECE) n = 2 * ARCHIVE_PIECE;
    if (n > INT32_MAX / 4) n = INT32_MAX / 4;
    x->n_max = (int)n;
    if (x->n_max >= o->n_text) x->opts.n_text = 0;
    x->n_index = x->n_max + x->opts.n_text + x->opts.n_text / TEXT_SHARE;
}

static void plan_index(struct archive *x, struct arena *a)
{
    const size_t n = (size_t)x->n_index;
    x->pos = arena_take(a, n, sizeof *x->pos);
    x->id = arena_take(a, n, sizeof *x->id);
    x->word = arena_take(a, n, sizeof *x->word);
    x->flags = arena_take(a, n, sizeof *x->flags);
    x->pieces = arena_take(a, (size_t)x->n_max, sizeof *x->pieces);
    x->weight = arena_take(a, n, sizeof *x->weight);
    x->value = arena_take(a, n, sizeof *x->value);
    x->peak = arena_take(a, n / ARCHIVE_BLOCK + 1, sizeof *x->peak);
    x->n_with = arena_take(a, ARCHIVE_WORDS, sizeof *x->n_with);
    x->last_with = arena_take(a, ARCHIVE_WORDS, sizeof *x->last_with);
    x->piece = arena_take(a, ARCHIVE_PIECE, x->position_bytes);
    x->returning = arena_take(a, (size_t)x->opts.n_returning, x->position_bytes);
    plan_compare(x, a);
}

void archive_plan(struct archive *x, const struct archive_opts *o, const struct cache_shape *s,
                  struct arena *a)
{
    set_up(x, o, s);
    const size_t n = (size_t)x->n_max;
    plan_index(x, a);
    if (!o->store.put) {
        x->slot = arena_take(a, (size_t)x->n_index, sizeof *x->slot);
        x->free_slots = arena_take(a, n, sizeof *x->free_slots);
        x->units = arena_take(a, n, x->position_bytes);
    }
    x->memory = a;
    if (x->pos) archive_clear(x);
}

size_t archive_index_bytes(const struct archive_opts *o, const struct cache_shape *s)
{
    struct archive x;
    struct arena a;
    arena_init_plan(&a, "archive");
    set_up(&x, o, s);
    plan_index(&x, &a);
    return a.used;
}

void archive_clear(struct archive *x)
{
    x->n = x->n_units = x->n_pieces = x->n_free = 0;
    x->n_seen = x->sentence = x->text_from = 0;
    memset(x->n_with, 0, ARCHIVE_WORDS * sizeof *x->n_with);
    memset(x->last_with, 0, ARCHIVE_WORDS * sizeof *x->last_with);
    x->open = 0;
    if (x->seen) memset(x->seen, 0, (size_t)x->opts.n_vocab * sizeof *x->seen);
    for (int i = x->n_max; x->units && i-- > 0;) x->free_slots[x->n_free++] = (uint32_t)i;
}

/* ---- words ----------------------------------------------------------------------------------- */

static void count_word(struct archive *x, uint32_t word, uint32_t stretch)
{
    const uint32_t i = word % ARCHIVE_WORDS;
    if (!word || x->last_with[i] == stretch) return;
    x->last_with[i] = stretch;
    x->n_with[i]++;
}

void archive_count(struct archive *x, const struct archive_token *t, int n)
{
    for (int i = 0; i < n; i++, x->n_seen++) {
        if (!t[i].joins) count_word(x, x->open, (uint32_t)((x->n_seen - 1) / ARCHIVE_PIECE) + 1);
        x->open = t[i].word;
        if (x->seen && t[i].word && !t[i].joins) x->seen[t[i].id] = 1;
        if (t[i].ends) x->sentence = x->n_seen + 1;
    }
}

float archive_idf(const struct archive *x, uint32_t n_with)
{
    float n = (float)(x->n_seen / ARCHIVE_PIECE + 1);
    float idf = logf((n + 1) / (float)(n_with + 1));
    return idf > 0 ? idf : 0;
}

float archive_rarity(const struct archive *x, uint32_t word)
{
    return word ? archive_idf(x, x->n_with[word % ARCHIVE_WORDS]) : 0;
}

/* The number of pieces, from the i-th on, in the same stretch of ARCHIVE_PIECE positions: several
 * if the units were added at several times. They are dropped together, so that nothing
 * depends on those times. */
static int n_in_stretch(const struct archive *x, int i)
{
    int n = 1;
    while (i + n < x->n_pieces &&
           x->pieces[i + n].pos / ARCHIVE_PIECE == x->pieces[i].pos / ARCHIVE_PIECE)
        n++;
    return n;
}

/* The sum of the cubed rarities of the words of n pieces; less for a question, which contains
 * little information. */
static float value_of(const struct archive *x, const struct archive_piece *p, int n)
{
    float sum = 0;
    uint32_t first = p->first, end = p[n - 1].first + p[n - 1].n;
    for (uint32_t i = first; i < end; i++) {
        bool again = false;
        for (uint32_t j = first; j < i; j++) again |= x->word[j] == x->word[i];
        float idf = again ? 0 : archive_rarity(x, x->word[i]);
        sum += idf * idf * idf * (x->flags[i] & ARCHIVE_ASKS ? ARCHIVE_QUESTION : 1);
    }
    return sum;
}

/* ---- dropping -------------------------------------------------------------------------------- */

static int compare_floats(const void *a, const void *b)
{
    const float *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void free_slots(struct archive *x, uint32_t first, int n)
{
    x->n_units -= n;
    for (uint32_t i = first; x->units && i < first + (uint32_t)n; i++)
        x->free_slots[x->n_free++] = x->slot[i];
}

/* Drops the units of a piece; its text stays. */
static int drop_piece(struct archive *x, const struct archive_piece *p, struct err *e)
{
    int rc = x->units ? 0 : x->opts.store.drop(x->opts.store.ctx, p->pos, p->n, e);
    if (rc) return rc;
    free_slots(x, p->first, p->n);
    for (uint32_t i = p->first; i < p->first + p->n; i++) x->flags[i] |= ARCHIVE_TEXT;
    return 0;
}

/* Moves n positions of the index. */
static void move_index(struct archive *x, int to, int from, int n)
{
    const size_t count = (size_t)n;
    memmove(x->pos + to, x->pos + from, count * sizeof *x->pos);
    memmove(x->id + to, x->id + from, count * sizeof *x->id);
    memmove(x->word + to, x->word + from, count * sizeof *x->word);
    memmove(x->flags + to, x->flags + from, count * sizeof *x->flags);
    if (x->slot) memmove(x->slot + to, x->slot + from, count * sizeof *x->slot);
}

/* After the index was moved. */
static void find_pieces(struct archive *x)
{
    for (int i = 0; i < x->n_pieces; i++)
        x->pieces[i].first = (uint32_t)archive_index(x, x->pieces[i].pos);
}

/* The first position whose text is kept without units, when there are n positions. It moves in
 * steps that depend on the positions alone. */
static int64_t text_from(const struct archive *x, int64_t n)
{
    const int64_t step = x->opts.n_text / TEXT_SHARE + 1;
    return n / ARCHIVE_PIECE * ARCHIVE_PIECE / step * step - x->opts.n_text;
}

/* Whether the i-th position has no units, and its text is too old or a thought. */
static bool is_old_text(const struct archive *x, int i)
{
    const bool drops = x->pos[i] < x->text_from || x->flags[i] & ARCHIVE_THOUGHT;
    return x->flags[i] & ARCHIVE_TEXT && drops;
}

static void drop_text(struct archive *x)
{
    int n = 0;
    for (int i = 0, end; i < x->n; i = end + 1) {
        for (end = i; end < x->n && !is_old_text(x, end);) end++;
        if (n != i) move_index(x, n, i, end - i);
        n += end - i;
    }
    x->n = n;
    find_pieces(x);
}

/* Computes the value of each stretch, for all of its pieces. Returns the number of stretches; their
 * values are in x->weight, too. */
static int value_stretches(struct archive *x)
{
    int n_stretches = 0;
    for (int i = 0, n; i < x->n_pieces; i += n) {
        n = n_in_stretch(x, i);
        x->value[i] = x->weight[n_stretches++] = value_of(x, &x->pieces[i], n);
        for (int j = 1; j < n; j++) x->value[i + j] = x->value[i];
    }
    return n_stretches;
}

/* Drops the units of the least valuable stretches until those of `n` positions fit. */
static int drop_units(struct archive *x, int n, struct err *e)
{
    int n_pieces = x->n_pieces, share = x->n_max / DROP_SHARE, rc = 0;
    int over = x->n_units + (n > share ? n : share) - x->n_max;
    if (x->n_units + n <= x->n_max) return 0;
    /* A full archive never grows: the number of pieces changes with their sizes, and the last slots
     * are rarely used. */
    if (!x->used) arena_use_all(x->memory);
    x->used = true;
    int n_stretches = value_stretches(x);
    /* stretches differ in size: take the share of them that on average holds enough positions */
    int n_least = (int)((int64_t)over * n_stretches / x->n_units);
    qsort(x->weight, (size_t)n_stretches, sizeof *x->weight, compare_floats);
    float limit = x->weight[n_least < n_stretches ? n_least : n_stretches - 1];
    bool drops = false;
    int64_t stretch = -1;
    x->n_pieces = 0;
    for (int i = 0; i < n_pieces; i++) {
        const struct archive_piece p = x->pieces[i];
        if (p.pos / ARCHIVE_PIECE != stretch) drops = over > 0 && x->value[i] <= limit;
        stretch = p.pos / ARCHIVE_PIECE;
        if (drops && !rc) rc = drop_piece(x, &p, e);
        if (drops && !rc) over -= p.n;
        if (!drops || rc) x->pieces[x->n_pieces++] = p;
    }
    return rc ? rc : over > 0 ? drop_units(x, n, e) : 0;
}

/* For n positions from `pos` on. */
static int make_room(struct archive *x, uint32_t pos, int n, struct err *e)
{
    const int n_units = x->n_units;
    const int64_t from = text_from(x, pos);
    const bool later = from > x->text_from;
    int rc = drop_units(x, n, e);
    if (later) x->text_from = from;
    if (x->n > x->n_units && (later || x->n_units < n_units)) drop_text(x);
    return rc;
}

/* Stores the first `head` and the last `tail` positions of a piece in its place. */
static int store_cut(struct archive *x, const struct archive_piece *p, int head, int tail,
                     struct err *e)
{
    const struct archive_store *s = &x->opts.store;
    size_t skip = (size_t)(p->n - tail) * x->position_bytes;
    int found = head + tail ? s->get(s->ctx, p->pos, p->n, x->piece, e) : 1;
    int rc = found < 0 ? found : s->drop(s->ctx, p->pos, p->n, e);
    if (!rc && found && head) rc = s->put(s->ctx, p->pos, head, x->piece, e);
    if (!rc && found && tail)
        rc = s->put(s->ctx, p->pos + p->n - (uint32_t)tail, tail, x->piece + skip, e);
    return rc;
}

static int within(int64_t n, int most)
{
    return n < 0 ? 0 : n > most ? most : (int)n;
}

static void add_cut(struct archive *x, uint32_t pos, int n)
{
    if (n) x->pieces[x->n_pieces++] = (struct archive_piece){pos, (uint16_t)n, 0};
}

/* Its index is removed later. */
static int cut_piece(struct archive *x, const struct archive_piece *p, int64_t from, int64_t end,
                     struct err *e)
{
    const int head = within(from - p->pos, p->n), tail = within((int64_t)p->pos + p->n - end, p->n);
    int rc = x->units ? 0 : store_cut(x, p, head, tail, e);
    if (rc) return rc;
    free_slots(x, p->first + (uint32_t)head, p->n - tail - head);
    add_cut(x, p->pos, head);
    add_cut(x, p->pos + p->n - (uint32_t)tail, tail);
    return 0;
}

bool archive_holds(const struct archive *x, int64_t from, int64_t end)
{
    const int i = archive_index(x, (uint32_t)from);
    return i < x->n && x->pos[i] < end;
}

int archive_forget(struct archive *x, int64_t from, int64_t end, struct err *e)
{
    int n_pieces = x->n_pieces, rc = 0;
    struct archive_piece next = n_pieces ? x->pieces[0] : (struct archive_piece){0};
    x->n_pieces = 0;
    for (int i = 0; i < n_pieces; i++) {
        const struct archive_piece p = next; /* one that is cut in two is written over the next */
        const bool cuts = !rc && p.pos < end && p.pos + (int64_t)p.n > from;
        if (i + 1 < n_pieces) next = x->pieces[i + 1];
        if (cuts) rc = cut_piece(x, &p, from, end, e);
        if (!cuts || rc) x->pieces[x->n_pieces++] = p;
    }
    if (rc) return rc;
    const int first = archive_index(x, (uint32_t)from), last = archive_index(x, (uint32_t)end);
    move_index(x, first, last, x->n - last);
    x->n -= last - first;
    find_pieces(x);
    CHECK(archive_check(x));
    return 0;
}

/* ---- adding ---------------------------------------------------------------------------------- */

/* Copies the units of the `back`-th newest position of every head. */
static void copy_position(const struct cache *c, int back, uint8_t *out)
{
    for (int i = 0; i < cache_n_heads(c); i++) {
        const struct cache_head *h = &c->kv_heads[i];
        size_t s = (size_t)(h->len - back);
        assert(h->len >= back && h->pos[s] == (uint32_t)(c->n_pos - back));
        memcpy(out, h->k + s * c->k_bytes, c->k_bytes);
        memcpy(out + c->k_bytes, h->v + s * c->v_bytes, c->v_bytes);
        memcpy(out + c->k_bytes + c->v_bytes, h->score + s, sizeof *h->score);
        out += c->k_bytes + c->v_bytes + sizeof *h->score;
    }
}

/* Marks the sentence from position `from` on, up to the question mark at `index`. */
static void mark_question(struct archive *x, int index, int64_t from)
{
    for (int i = index; i >= 0 && x->pos[i] >= from; i--) x->flags[i] |= ARCHIVE_ASKS;
}

/* A word that begins in the token before this position ends in this token, t. */
static void join_word(struct archive *x, uint32_t pos, const struct archive_token *t)
{
    if (t->joins && x->n && x->pos[x->n - 1] + 1 == pos) x->word[x->n - 1] = 0;
}

/* Adds positions to the index. flags: ARCHIVE_TEXT, or 0 if their units are added. */
static void add_tokens(struct archive *x, uint32_t pos, int n, const struct archive_token *t,
                       int flags)
{
    for (int i = 0; i < n; i++) {
        join_word(x, pos + (uint32_t)i, &t[i]);
        x->pos[x->n] = pos + (uint32_t)i;
        x->id[x->n] = t[i].id;
        x->word[x->n] = t[i].word;
        x->flags[x->n] =
            (uint8_t)((t[i].ends ? ARCHIVE_ENDS : 0) | (t[i].joins ? ARCHIVE_JOINS : 0) |
                      (t[i].answer ? ARCHIVE_ANSWER : 0) | (t[i].thought ? ARCHIVE_THOUGHT : 0) |
                      flags);
        x->weight[x->n] = x->value[x->n] = 0; /* no page fault in the first search */
        if (x->slot && !flags) x->slot[x->n] = x->free_slots[--x->n_free];
        if (++x->n == LARGE) arena_use_large(x->memory);
    }
}

static void add_piece(struct archive *x, uint32_t pos, int n)
{
    x->pieces[x->n_pieces++] = (struct archive_piece){pos, (uint16_t)n, (uint32_t)x->n};
    x->n_units += n;
}

/* Adds positions that are not counted yet. */
static void add_index(struct archive *x, uint32_t pos, int n, const struct archive_token *t)
{
    int64_t sentence = x->sentence;
    int first = x->n;
    add_piece(x, pos, n);
    add_tokens(x, pos, n, t, 0);
    for (int i = 0; i < n; i++) {
        if (t[i].asks) mark_question(x, first + i, sentence);
        if (t[i].ends) sentence = (int64_t)pos + i + 1;
    }
    archive_count(x, t, n);
}

int archive_add(struct archive *x, const struct cache *c, const struct archive_token *t, int n,
                struct err *e)
{
    int rc = n > 0 && x->units ? cache_fetch(c, n, e) : 0;
    for (int i = 0, part; !rc && i < n; i += part) {
        uint32_t pos = (uint32_t)(c->n_pos - n + i);
        part = ARCHIVE_PIECE - (int)(pos % ARCHIVE_PIECE);
        if (part > n - i) part = n - i;
        rc = make_room(x, pos, pos % ARCHIVE_PIECE ? part : ARCHIVE_PIECE, e);
        if (rc) break;
        if (!x->units) rc = x->opts.store.keep(x->opts.store.ctx, pos, part, e);
        if (rc) break;
        add_index(x, pos, part, t + i);
        for (int j = 0; x->units && j < part; j++)
            copy_position(c, n - i - j, x->units + x->slot[x->n - part + j] * x->position_bytes);
    }
    CHECK(archive_check(x));
    return rc;
}

/* Whether the sentence of a token ends with a question mark among the first n tokens. */
static bool asks_at(const struct archive_token *t, int64_t n, int64_t at)
{
    while (at < n && !t[at].ends) at++;
    return at < n && t[at].asks;
}

/* Adds n positions of a conversation of n_tokens that is resumed. */
static void found_tokens(struct archive *x, uint32_t pos, int n, const struct archive_token *t,
                         int64_t n_tokens, int flags)
{
    const int first = x->n;
    add_tokens(x, pos, n, t + pos, flags);
    for (int i = 0; i < n; i++)
        if (asks_at(t, n_tokens, (int64_t)pos + i)) x->flags[first + i] |= ARCHIVE_ASKS;
    if ((int64_t)pos + n < n_tokens && t[pos + (uint32_t)n].joins) x->word[x->n - 1] = 0;
}

/* Adds the text between the last position and `end`, without thoughts. */
static void found_text(struct archive *x, int64_t end, const struct archive_token *t,
                       int64_t n_tokens)
{
    const int64_t next = x->n ? (int64_t)x->pos[x->n - 1] + 1 : 0;
    x->text_from = text_from(x, n_tokens > 0 ? n_tokens - 1 : 0);
    for (int64_t i = next > x->text_from ? next : x->text_from; x->opts.n_text && i < end; i++)
        if (!t[i].thought) found_tokens(x, (uint32_t)i, 1, t, n_tokens, ARCHIVE_TEXT);
}

bool archive_found(struct archive *x, uint32_t pos, int n, const struct archive_token *t,
                   int64_t n_tokens)
{
    const bool follows = x->n == 0 || pos > x->pos[x->n - 1];
    if (!follows || n < 0 || n > ARCHIVE_PIECE || x->n_units + n > x->n_max) return false;
    if ((int64_t)pos + n > n_tokens) return false;
    found_text(x, n ? pos : n_tokens, t, n_tokens);
    if (n == 0) return true;
    add_piece(x, pos, n);
    found_tokens(x, pos, n, t, n_tokens, 0);
    CHECK(archive_check(x));
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

int archive_index(const struct archive *x, uint32_t pos)
{
    return (int)cache_first_from(x->pos, (size_t)x->n, pos);
}

static const struct archive_piece *piece_of(const struct archive *x, int index)
{
    int low = 0, high = x->n_pieces - 1;
    while (low < high) {
        int mid = low + (high - low + 1) / 2;
        if (x->pieces[mid].first <= (uint32_t)index)
            low = mid;
        else
            high = mid - 1;
    }
    return &x->pieces[low];
}

int archive_get(struct archive *x, int index, int n, uint8_t *out, struct err *e)
{
    for (int i = index; i < index + n; i++)
        if (x->flags[i] & ARCHIVE_TEXT) return 0;
    for (int i = index, part; i < index + n; i += part, out += (size_t)part * x->position_bytes) {
        const struct archive_piece *p = piece_of(x, i);
        int skip = i - (int)p->first;
        part = p->n - skip < index + n - i ? p->n - skip : index + n - i;
        int rc = x->units ? 1 : x->opts.store.get(x->opts.store.ctx, p->pos, p->n, x->piece, e);
        if (rc != 1) return rc;
        if (!x->units)
            memcpy(out, x->piece + (size_t)skip * x->position_bytes,
                   (size_t)part * x->position_bytes);
        for (int j = 0; x->units && j < part; j++)
            memcpy(out + (size_t)j * x->position_bytes,
                   x->units + x->slot[i + j] * x->position_bytes, x->position_bytes);
    }
    return 1;
}
