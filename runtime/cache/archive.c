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
    x->n = x->n_units = x->n_free = 0;
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

/* The first index, from `i` on, of a piece; x->n if there is none. */
static int next_piece(const struct archive *x, int i)
{
    while (i < x->n && !archive_has_units(x, i)) i++;
    return i;
}

/* The positions of the piece that begins at index `first`. */
static int piece_length(const struct archive *x, int first)
{
    int n = 1;
    while (first + n < x->n && !(x->flags[first + n] & (ARCHIVE_FIRST | ARCHIVE_TEXT))) n++;
    return n;
}

static uint32_t stretch_of(const struct archive *x, int i)
{
    return x->pos[i] / ARCHIVE_PIECE;
}

/* The end of the last piece in the same stretch of ARCHIVE_PIECE positions as the one at `first`:
 * several if the units were added at several times. They are dropped together, so that nothing
 * depends on those times. */
static int stretch_end(const struct archive *x, int first)
{
    int end = first;
    for (int i = first; i < x->n && stretch_of(x, i) == stretch_of(x, first);
         i = next_piece(x, end))
        end = i + piece_length(x, i);
    return end;
}

/* The sum of the cubed rarities of the words of a stretch; less for a question, which contains
 * little information. */
static float value_of(const struct archive *x, int first, int end)
{
    float sum = 0;
    for (int i = first; i < end; i++) {
        bool again = false;
        for (int j = first; j < i; j++) again |= x->word[j] == x->word[i];
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

/* The units of n positions were dropped; their text stays. */
static void take_units(struct archive *x, int first, int n)
{
    x->n_units -= n;
    for (int i = first; i < first + n; i++) {
        if (x->units) x->free_slots[x->n_free++] = x->slot[i];
        x->flags[i] = (uint8_t)((x->flags[i] & ~ARCHIVE_FIRST) | ARCHIVE_TEXT);
    }
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
    return !archive_has_units(x, i) && drops;
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
}

/* Computes the value of each stretch, at the index of its first unit. Returns the number of
 * stretches; their values are in x->weight, too. */
static int value_stretches(struct archive *x)
{
    int n_stretches = 0;
    for (int i = next_piece(x, 0), end; i < x->n; i = next_piece(x, end)) {
        end = stretch_end(x, i);
        x->value[i] = x->weight[n_stretches++] = value_of(x, i, end);
    }
    return n_stretches;
}

/* Drops the units of the pieces in a stretch; *over: how many more are to be dropped. */
static int drop_stretch(struct archive *x, int first, int end, int *over, struct err *e)
{
    for (int i = first, n; i < end; i = next_piece(x, i + n)) {
        n = piece_length(x, i);
        int rc = x->units ? 0 : x->opts.store.drop(x->opts.store.ctx, x->pos[i], n, e);
        if (rc) return rc;
        take_units(x, i, n);
        *over -= n;
    }
    return 0;
}

/* Drops the units of the least valuable stretches until those of `n` positions fit. */
static int drop_units(struct archive *x, int n, struct err *e)
{
    int share = x->n_max / DROP_SHARE, rc = 0;
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
    for (int i = next_piece(x, 0), end; !rc && over > 0 && i < x->n; i = next_piece(x, end)) {
        end = stretch_end(x, i);
        if (x->value[i] <= limit) rc = drop_stretch(x, i, end, &over, e);
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

/* Stores the first `head` and the last `tail` of a piece's n positions in its place. */
static int store_cut(struct archive *x, uint32_t pos, int n, int head, int tail, struct err *e)
{
    const struct archive_store *s = &x->opts.store;
    size_t skip = (size_t)(n - tail) * x->position_bytes;
    int found = head + tail ? s->get(s->ctx, pos, n, x->piece, e) : 1;
    int rc = found < 0 ? found : s->drop(s->ctx, pos, n, e);
    if (!rc && found && head) rc = s->put(s->ctx, pos, head, x->piece, e);
    if (!rc && found && tail)
        rc = s->put(s->ctx, pos + (uint32_t)(n - tail), tail, x->piece + skip, e);
    return rc;
}

static int within(int64_t n, int most)
{
    return n < 0 ? 0 : n > most ? most : (int)n;
}

/* The index of what it loses is removed later. */
static int cut_piece(struct archive *x, int first, int n, int64_t from, int64_t end, struct err *e)
{
    const uint32_t pos = x->pos[first];
    const int head = within(from - pos, n), tail = within((int64_t)pos + n - end, n);
    int rc = x->units ? 0 : store_cut(x, pos, n, head, tail, e);
    if (rc) return rc;
    take_units(x, first + head, n - tail - head);
    if (tail) x->flags[first + n - tail] |= ARCHIVE_FIRST;
    return 0;
}

bool archive_holds(const struct archive *x, int64_t from, int64_t end)
{
    const int i = archive_index(x, (uint32_t)from);
    return i < x->n && x->pos[i] < end;
}

int archive_forget(struct archive *x, int64_t from, int64_t end, struct err *e)
{
    int rc = 0;
    for (int i = next_piece(x, 0), n; i < x->n && x->pos[i] < end; i = next_piece(x, i + n)) {
        n = piece_length(x, i);
        if (x->pos[i] + (int64_t)n > from) rc = cut_piece(x, i, n, from, end, e);
        if (rc) return rc;
    }
    const int first = archive_index(x, (uint32_t)from), last = archive_index(x, (uint32_t)end);
    move_index(x, first, last, x->n - last);
    x->n -= last - first;
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

/* Adds positions to the index. flags: ARCHIVE_TEXT, or 0 if they are a piece. */
static void add_tokens(struct archive *x, uint32_t pos, int n, const struct archive_token *t,
                       int flags)
{
    for (int i = 0; i < n; i++) {
        /* a word that begins in the token before this position ends in this one */
        if (t[i].joins && x->n && x->pos[x->n - 1] + 1 == pos + (uint32_t)i) x->word[x->n - 1] = 0;
        x->pos[x->n] = pos + (uint32_t)i;
        x->id[x->n] = t[i].id;
        x->word[x->n] = t[i].word;
        x->flags[x->n] =
            (uint8_t)((t[i].ends ? ARCHIVE_ENDS : 0) | (t[i].joins ? ARCHIVE_JOINS : 0) |
                      (t[i].answer ? ARCHIVE_ANSWER : 0) | (t[i].thought ? ARCHIVE_THOUGHT : 0) |
                      (flags || i ? flags : ARCHIVE_FIRST));
        x->weight[x->n] = x->value[x->n] = 0; /* no page fault in the first search */
        if (x->slot && !flags) x->slot[x->n] = x->free_slots[--x->n_free];
        if (++x->n == LARGE) arena_use_large(x->memory);
    }
    if (!flags) x->n_units += n;
}

/* Adds positions that are not counted yet. */
static void add_index(struct archive *x, uint32_t pos, int n, const struct archive_token *t)
{
    int64_t sentence = x->sentence;
    int first = x->n;
    add_tokens(x, pos, n, t, 0);
    for (int i = 0; i < n; i++) {
        for (int k = first + i; t[i].asks && k >= 0 && x->pos[k] >= sentence; k--)
            x->flags[k] |= ARCHIVE_ASKS; /* the sentence up to its question mark */
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

bool archive_asks(const struct archive_token *t, int64_t n, int64_t at)
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
        if (archive_asks(t, n_tokens, (int64_t)pos + i)) x->flags[first + i] |= ARCHIVE_ASKS;
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

void archive_found(struct archive *x, uint32_t pos, int n, const struct archive_token *t,
                   int64_t n_tokens)
{
    const bool follows = x->n == 0 || pos > x->pos[x->n - 1];
    if (!follows || n < 0 || n > ARCHIVE_PIECE || x->n_units + n > x->n_max) return;
    if ((int64_t)pos + n > n_tokens) return;
    found_text(x, n ? pos : n_tokens, t, n_tokens);
    if (n) found_tokens(x, pos, n, t, n_tokens, 0);
    CHECK(archive_check(x));
}

/* ---- reading --------------------------------------------------------------------------------- */

int archive_index(const struct archive *x, uint32_t pos)
{
    return (int)cache_first_from(x->pos, (size_t)x->n, pos);
}

int archive_get(struct archive *x, int index, int n, uint8_t *out, struct err *e)
{
    for (int i = index; i < index + n; i++)
        if (!archive_has_units(x, i)) return 0;
    for (int i = index, part; i < index + n; i += part, out += (size_t)part * x->position_bytes) {
        int skip = 0;
        while (!(x->flags[i - skip] & ARCHIVE_FIRST)) skip++;
        const int of_piece = piece_length(x, i - skip);
        part = of_piece - skip < index + n - i ? of_piece - skip : index + n - i;
        int rc = x->units ? 1
                          : x->opts.store.get(x->opts.store.ctx, x->pos[i - skip], of_piece,
                                              x->piece, e);
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
