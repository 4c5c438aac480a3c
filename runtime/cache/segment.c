#include "runtime/cache/segment.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static uint32_t get_u32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* ---- writing --------------------------------------------------------------------------------- */

static struct segment_header header_of(const struct cache *c, enum segment_form form, int n_heads,
                                       int64_t pos, int n)
{
    return (struct segment_header){
        .form = form,
        .pos = (uint32_t)pos,
        .n = (uint32_t)n,
        .n_head = (uint16_t)n_heads,
        .head_dim = (uint16_t)c->shape.head_dim,
        .k_type = segment_type(c->shape.k_type),
        .v_type = segment_type(c->shape.v_type),
    };
}

size_t segment_bytes(const struct cache *c, enum segment_form form, int n_heads, int n)
{
    size_t unit = form == SEGMENT_SCORES ? 0 : c->k_bytes + c->v_bytes;
    if (form != SEGMENT_BARE) unit += sizeof(float);
    return sizeof(struct segment_header) + (size_t)n_heads * (size_t)n * unit;
}

static uint8_t *put(uint8_t *out, const void *src, size_t n)
{
    memcpy(out, src, n);
    return out + n;
}

void segment_pack(const struct cache *c, enum segment_form form, int head, int n_heads, int64_t pos,
                  int n, uint8_t *out)
{
    struct segment_header header = header_of(c, form, n_heads, pos, n);
    const size_t count = (size_t)n;
    out = put(out, &header, sizeof header);
    for (int i = head; i < head + n_heads; i++) {
        const struct cache_head *h = &c->kv_heads[i];
        const size_t s = (size_t)(h->len - (int)(c->n_pos - pos));
        assert(h->len >= c->n_pos - pos && (n == 0 || h->pos[s] == (uint32_t)pos));
        if (form != SEGMENT_SCORES) {
            out = put(out, h->k + s * c->k_bytes, count * c->k_bytes);
            out = put(out, h->v + s * c->v_bytes, count * c->v_bytes);
        }
        if (form != SEGMENT_BARE) out = put(out, h->score + s, count * sizeof(float));
    }
}

void segment_pack_below(const struct cache *c, int layer, uint32_t end, struct str *out)
{
    struct segment_header header = header_of(c, SEGMENT_SPARSE, c->shape.n_head, 0, (int)end);
    str_append(out, &header, sizeof header);
    for (int i = 0; i < c->shape.n_head; i++) {
        const struct cache_head *h = cache_head(c, layer, i);
        const uint32_t n_units = (uint32_t)cache_slot(h, end);
        str_append(out, &n_units, sizeof n_units);
        str_append(out, h->pos, n_units * sizeof *h->pos);
        str_append(out, h->k, n_units * c->k_bytes);
        str_append(out, h->v, n_units * c->v_bytes);
        str_append(out, h->score, n_units * sizeof *h->score);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

static size_t unit_bytes(const struct segment *g)
{
    return g->k_bytes + g->v_bytes + g->score_bytes;
}

/* Bytes of one head's part that begins at p; 0 = it exceeds `left`. */
static size_t part_bytes(const struct segment *g, const uint8_t *p, size_t left, uint32_t *n)
{
    size_t unit = unit_bytes(g), head = 0;
    *n = g->header.n;
    if (g->header.form == SEGMENT_SPARSE) {
        if (left < sizeof *n) return 0;
        *n = get_u32(p);
        head = sizeof *n;
        unit += sizeof(uint32_t);
    }
    if (*n > g->header.n || (left - head) / unit < *n) return 0;
    return head + *n * unit;
}

static bool positions_rise(const struct segment *g, const struct segment_part *p)
{
    int64_t last = (int64_t)g->header.pos - 1;
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t pos = segment_position(g, p, i);
        if (pos <= last || pos >= g->header.pos + g->header.n) return false;
        last = pos;
    }
    return true;
}

static struct segment_part part_at(const struct segment *g, const uint8_t *p, uint32_t n)
{
    struct segment_part part = {.n = n};
    if (g->header.form == SEGMENT_SPARSE) {
        part.pos = p + sizeof n;
        p += sizeof n + n * sizeof(uint32_t);
    }
    if (g->k_bytes) part.k = p;
    if (g->k_bytes) part.v = p + n * g->k_bytes;
    if (g->score_bytes) part.score = p + n * (g->k_bytes + g->v_bytes);
    return part;
}

/* KN_KV_TYPES: there is none. */
static enum kn_kv type_of(uint16_t number)
{
    enum kn_kv type = 0;
    while (type < KN_KV_TYPES && segment_type(type) != number) type++;
    return number == segment_type(KN_KV_KEY) ? KN_KV_KEY : type;
}

/* The bytes of one unit follow from the header. */
static bool header_is_right(struct segment *g)
{
    const struct segment_header *h = &g->header;
    const bool units = h->form == SEGMENT_DENSE || h->form == SEGMENT_SPARSE;
    if (!units && h->form != SEGMENT_BARE && h->form != SEGMENT_SCORES) return false;
    if (h->n > (uint32_t)INT32_MAX || h->pos > UINT32_MAX - h->n || h->n_head == 0 ||
        h->head_dim == 0)
        return false;
    const enum kn_kv k = type_of(h->k_type), v = type_of(h->v_type);
    if (k == KN_KV_TYPES || k == KN_KV_KEY || v == KN_KV_TYPES) return false;
    if (h->form != SEGMENT_SCORES) {
        g->k_bytes = kn_kv_bytes(k, h->head_dim);
        g->v_bytes = kn_kv_bytes(v, h->head_dim);
    }
    if (h->form != SEGMENT_BARE) g->score_bytes = sizeof(float);
    return true;
}

bool segment_open(struct segment *g, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    *g = (struct segment){.bytes = bytes, .n_bytes = n};
    if (n < sizeof g->header) return false;
    memcpy(&g->header, bytes, sizeof g->header);
    if (!header_is_right(g)) return false;
    p += sizeof g->header;
    n -= sizeof g->header;
    for (int i = 0; i < g->header.n_head; i++) {
        uint32_t n_units;
        size_t used = part_bytes(g, p, n, &n_units);
        struct segment_part part = part_at(g, p, n_units);
        if ((used == 0 && g->header.n > 0) || (part.pos && !positions_rise(g, &part))) return false;
        p += used;
        n -= used;
    }
    return n == 0;
}

bool segment_fits(const struct segment *g, const struct cache *c, int n_heads)
{
    const struct segment_header *h = &g->header;
    struct segment_header expected =
        header_of(c, (enum segment_form)h->form, n_heads, h->pos, (int)h->n);
    return !memcmp(&expected, h, sizeof expected);
}

struct segment_part segment_part(const struct segment *g, int head)
{
    const uint8_t *p = g->bytes + sizeof g->header;
    size_t left = g->n_bytes - sizeof g->header;
    uint32_t n = g->header.n;
    if (g->header.form != SEGMENT_SPARSE)
        return part_at(g, p + (size_t)head * n * unit_bytes(g), n);
    for (int i = 0;; i++) {
        size_t used = part_bytes(g, p, left, &n);
        if (i == head) return part_at(g, p, n);
        p += used;
        left -= used;
    }
}

uint32_t segment_position(const struct segment *g, const struct segment_part *p, uint32_t i)
{
    return p->pos ? get_u32(p->pos + i * sizeof(uint32_t)) : g->header.pos + i;
}

static struct cache_unit unit_at(const struct segment *g, const struct segment_part *p, uint32_t i)
{
    struct cache_unit u = {
        .pos = segment_position(g, p, i), .k = p->k + i * g->k_bytes, .v = p->v + i * g->v_bytes};
    if (p->score) memcpy(&u.score, p->score + i * sizeof u.score, sizeof u.score);
    return u;
}

/* ---- recurrent layers ------------------------------------------------------------------------ */

bool segment_state_needed(const struct cache *c)
{
    return c->recurrent.shape.n_layer > 0;
}

/* The recurrent state that is saved with a layer of the KV cache: some layers of it, as many as
 * with every other, and with the first one the hidden row. */
struct recurrent_part {
    float *layers, *hidden;
    size_t n_layers, n_hidden; /* floats */
};

static struct recurrent_part recurrent_part(const struct cache *c, int layer)
{
    const struct recurrent_state *s = &c->recurrent;
    const int n = s->shape.n_layer, n_kv = c->shape.n_layer;
    const int first = layer * n / n_kv, end = (layer + 1) * n / n_kv;
    const size_t each = (size_t)(s->shape.n_window + s->shape.n_matrices);
    struct recurrent_part p = {0};
    if (n == 0) return p;
    p.layers = recurrent_state_window(s, first);
    p.n_layers = (size_t)(end - first) * each;
    p.hidden = s->hidden;
    p.n_hidden = layer == 0 ? (size_t)s->shape.n_hidden : 0;
    return p;
}

void segment_state_write(const struct cache *c, int layer, struct str *out)
{
    struct state_header h = {SEGMENT_STATE, (uint32_t)c->n_pos, 0};
    str_append(out, &h, sizeof h);
    const struct recurrent_part r = recurrent_part(c, layer);
    if (r.n_layers) str_append(out, r.layers, r.n_layers * sizeof(float));
    if (r.n_hidden) str_append(out, r.hidden, r.n_hidden * sizeof(float));
}

static bool take_floats(float *out, size_t n, const uint8_t **p, size_t *left)
{
    if (*left / sizeof(float) < n) return false;
    if (n) memcpy(out, *p, n * sizeof(float));
    *p += n * sizeof(float);
    *left -= n * sizeof(float);
    return true;
}

bool segment_state_read(struct cache *c, int layer, const void *bytes, size_t n, uint32_t end)
{
    struct state_header h;
    const uint8_t *p = bytes;
    if (n < sizeof h) return false;
    memcpy(&h, p, sizeof h);
    p += sizeof h;
    n -= sizeof h;
    if (h.form != SEGMENT_STATE || h.n_pos != end || h.n_state > n / sizeof(float)) return false;
    p += h.n_state * sizeof(float);
    n -= h.n_state * sizeof(float);
    const struct recurrent_part r = recurrent_part(c, layer);
    return take_floats(r.layers, r.n_layers, &p, &n) && take_floats(r.hidden, r.n_hidden, &p, &n) &&
           n == 0;
}

/* ---- positions ------------------------------------------------------------------------------- */

void positions_init(struct positions *g, int n_head)
{
    *g = (struct positions){n_head, memory_new((size_t)n_head, sizeof *g->heads)};
}

void positions_release(struct positions *g)
{
    for (int i = 0; g->heads && i < g->n_head; i++) free(g->heads[i].pos);
    free(g->heads);
    *g = (struct positions){0};
}

void positions_clear(struct positions *g)
{
    for (int i = 0; i < g->n_head; i++) g->heads[i].n = 0;
}

void positions_push(struct positions *g, int head, uint32_t pos)
{
    struct positions_head *h = &g->heads[head];
    h->pos = memory_more(h->pos, h->n, &h->max, sizeof *h->pos);
    h->pos[h->n++] = pos;
}

static int compare_u32(const void *a, const void *b)
{
    uint32_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

void positions_sort(struct positions *g)
{
    for (int i = 0; i < g->n_head; i++)
        if (g->heads[i].n) qsort(g->heads[i].pos, g->heads[i].n, sizeof(uint32_t), compare_u32);
}

int64_t positions_count(const struct positions *g)
{
    int64_t n = 0;
    for (int i = 0; i < g->n_head; i++) n += (int64_t)g->heads[i].n;
    return n;
}

size_t positions_times(const struct positions_head *h, uint32_t pos)
{
    const size_t first = cache_first_from(h->pos, h->n, pos);
    size_t n = 0;
    while (first + n < h->n && h->pos[first + n] == pos) n++;
    return n;
}

static void put_varint(struct str *out, uint32_t v)
{
    uint8_t bytes[5];
    size_t n = 0;
    for (; v >= 0x80; v >>= 7) bytes[n++] = (uint8_t)(v | 0x80);
    bytes[n++] = (uint8_t)v;
    str_append(out, bytes, n);
}

void positions_write(const struct positions *g, struct str *out)
{
    put_varint(out, SEGMENT_POSITIONS);
    for (int i = 0; i < g->n_head; i++) {
        const struct positions_head *h = &g->heads[i];
        uint32_t last = 0;
        put_varint(out, (uint32_t)h->n);
        for (size_t j = 0; j < h->n; j++) {
            put_varint(out, h->pos[j] - last);
            last = h->pos[j];
        }
    }
}

static bool get_varint(const uint8_t **p, const uint8_t *end, uint32_t *out)
{
    uint64_t v = 0;
    for (int shift = 0; shift < 35 && *p < end; shift += 7) {
        uint8_t b = *(*p)++;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (b & 0x80) continue;
        *out = (uint32_t)v;
        return v <= UINT32_MAX;
    }
    return false;
}

bool positions_read(struct positions *g, const bool *taken, const void *bytes, size_t n)
{
    const uint8_t *p = bytes, *end = p + n;
    uint32_t form, count, distance;
    if (!get_varint(&p, end, &form) || form != SEGMENT_POSITIONS) return false;
    for (int i = 0; i < g->n_head; i++) {
        uint32_t pos = 0;
        if (!get_varint(&p, end, &count)) return false;
        for (; count > 0; count--) {
            if (!get_varint(&p, end, &distance)) return false;
            pos += distance;
            if (!taken || taken[i]) positions_push(g, i, pos);
        }
    }
    return p == end;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* The number of adjacent units from index i on, below position `end`, that are not evicted. */
static uint32_t run_length(const struct segment *g, const struct segment_part *p, uint32_t i,
                           const struct positions_head *evicted, uint32_t end)
{
    const uint32_t pos = segment_position(g, p, i);
    const size_t at = cache_first_from(evicted->pos, evicted->n, pos);
    const uint32_t next = at < evicted->n ? evicted->pos[at] : UINT32_MAX;
    if (p->pos) return next != pos;
    if (end > next) end = next;
    return p->n - i < end - pos ? p->n - i : end - pos;
}

/* Appends a head's units of a segment at positions in [from, end) that are not evicted; only counts
 * them if there is no cache. -1 = there is no room. */
static int64_t append(struct cache *c, struct cache_head *h, const struct segment *g, int part,
                      const struct positions_head *evicted, uint32_t from, uint32_t end)
{
    const struct segment_part p = segment_part(g, part);
    int64_t n = 0;
    uint32_t i = 0, m;
    while (i < p.n && segment_position(g, &p, i) < from) i++;
    for (; i < p.n && segment_position(g, &p, i) < end; i += m ? m : 1) {
        m = run_length(g, &p, i, evicted, end);
        n += m;
        if (!c || m == 0) continue;
        if ((int64_t)m > h->capacity - h->len) return -1;
        const size_t s = (size_t)h->len;
        memcpy(h->k + s * c->k_bytes, p.k + i * g->k_bytes, m * c->k_bytes);
        memcpy(h->v + s * c->v_bytes, p.v + i * g->v_bytes, m * c->v_bytes);
        if (p.score)
            memcpy(h->score + s, p.score + i * sizeof *h->score, m * sizeof *h->score);
        else
            memset(h->score + s, 0, m * sizeof *h->score);
        for (uint32_t j = 0; j < m; j++) h->pos[s + j] = segment_position(g, &p, i + j);
        h->len += (int)m;
    }
    return n;
}

/* The number of different positions of a sorted list in [from, end). */
static int64_t count_between(const struct positions_head *h, uint32_t from, uint32_t end)
{
    int64_t n = 0;
    for (size_t i = 0; i < h->n; i++)
        n += h->pos[i] >= from && h->pos[i] < end && (i == 0 || h->pos[i] != h->pos[i - 1]);
    return n;
}

bool segment_expect(struct cache *c, int layer, const struct segment *base,
                    const struct positions *evicted, uint32_t end)
{
    const uint32_t from = base && base->header.n < end ? base->header.n : base ? end : 0;
    bool fits = true;
    for (int i = 0; i < c->shape.n_head; i++) {
        const struct positions_head *e = &evicted->heads[layer * c->shape.n_head + i];
        int64_t n = base ? append(NULL, NULL, base, i, e, 0, end) : 0;
        n += (int64_t)(end - from) - count_between(e, from, end);
        fits = fits && n <= cache_head_max(&c->shape);
        if (fits) cache_head(c, layer, i)->coming = (int)n;
    }
    return fits;
}

bool segment_load_base(struct cache *c, int layer, const struct segment *base,
                       const struct positions *evicted, uint32_t end)
{
    for (int i = 0; i < c->shape.n_head; i++) {
        const struct positions_head *e = &evicted->heads[layer * c->shape.n_head + i];
        if (append(c, cache_head(c, layer, i), base, i, e, 0, end) < 0) return false;
    }
    return true;
}

bool segment_load_block(struct cache *c, const struct segment *block, const uint32_t *from,
                        const struct positions *evicted, uint32_t end)
{
    for (int i = 0; i < cache_n_heads(c); i++)
        if (append(c, &c->kv_heads[i], block, i, &evicted->heads[i], from[i / c->shape.n_head],
                   end) < 0)
            return false;
    return true;
}

bool segment_load_returned(struct cache *c, const struct segment *block,
                           const struct positions *returned)
{
    for (int i = 0; i < cache_n_heads(c); i++) {
        const struct cache_head *h = &c->kv_heads[i];
        const struct positions_head *r = &returned->heads[i];
        const struct segment_part p = segment_part(block, i);
        for (uint32_t k = 0; k < p.n; k++) {
            struct cache_unit u = unit_at(block, &p, k);
            if (!positions_times(r, u.pos)) continue;
            if (h->len == h->capacity) return false;
            cache_insert(c, i, &u, 1);
        }
    }
    return true;
}

void segment_load_scores(struct cache *c, const struct segment *scores)
{
    const int64_t end = (int64_t)scores->header.pos + scores->header.n;
    for (int i = 0; i < cache_n_heads(c); i++) {
        struct cache_head *h = &c->kv_heads[i];
        const struct segment_part p = segment_part(scores, i);
        for (int s = cache_slot(h, scores->header.pos); s < h->len && h->pos[s] < end; s++)
            memcpy(&h->score[s], p.score + (h->pos[s] - scores->header.pos) * sizeof *h->score,
                   sizeof *h->score);
    }
}

/* Removes the units of a head from `pos` on, and all if those before it end earlier. */
static void cut_head(struct cache_head *h, uint32_t pos)
{
    while (h->len > 0 && h->pos[h->len - 1] >= pos) h->len--;
    if (h->len > 0 && h->pos[h->len - 1] + 1 != pos) h->len = 0;
}

bool segment_load_newest(struct cache *c, int layer, const struct segment *g, uint32_t from,
                         uint32_t end)
{
    const uint32_t g_end = g->header.pos + g->header.n;
    if (!segment_fits(g, c, c->shape.n_head) || g->header.form != SEGMENT_DENSE) return false;
    if (g->header.pos >= end) return true;
    if (from < g->header.pos) from = g->header.pos;
    if (end > g_end) end = g_end;
    for (int head = 0; head < c->shape.n_head; head++) {
        struct cache_head *h = cache_head(c, layer, head);
        const struct positions_head none = {0};
        cut_head(h, g->header.pos);
        if (append(c, h, g, head, &none, from, end) < 0) return false;
    }
    return true;
}
