#include "runtime/cache/segment.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static uint32_t get_u32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* ---- writing --------------------------------------------------------------------------------- */

size_t segment_bytes(const struct cache *c, int n)
{
    return sizeof(struct segment_header) +
           (size_t)c->shape.n_head * (size_t)n * (c->k_bytes + c->v_bytes + sizeof(float));
}

static struct segment_header header_of(const struct cache *c, int64_t pos, int n)
{
    return (struct segment_header){
        .form = SEGMENT_DENSE,
        .pos = (uint32_t)pos,
        .n = (uint32_t)n,
        .n_head = (uint16_t)c->shape.n_head,
        .head_dim = (uint16_t)c->shape.head_dim,
        .k_type = (uint16_t)c->shape.k_type,
        .v_type = (uint16_t)c->shape.v_type,
    };
}

static uint8_t *put(uint8_t *out, const void *src, size_t n)
{
    memcpy(out, src, n);
    return out + n;
}

void segment_pack(const struct cache *c, int layer, int64_t pos, int n, uint8_t *out)
{
    struct segment_header header = header_of(c, pos, n);
    out = put(out, &header, sizeof header);
    for (int i = 0; i < c->shape.n_head; i++) {
        const struct cache_head *h = cache_head(c, layer, i);
        size_t s = (size_t)(h->len - n);
        assert(h->len >= n && (n == 0 || h->pos[s] == (uint32_t)pos));
        out = put(out, h->k + s * c->k_bytes, (size_t)n * c->k_bytes);
        out = put(out, h->v + s * c->v_bytes, (size_t)n * c->v_bytes);
        out = put(out, h->score + s, (size_t)n * sizeof(float));
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Bytes of one head's part that begins at p; 0 = it exceeds `left`. */
static size_t part_bytes(const struct segment *g, const uint8_t *p, size_t left, uint32_t *n)
{
    size_t unit = g->k_bytes + g->v_bytes + sizeof(float), head = 0;
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
    part.k = p;
    part.v = part.k + n * g->k_bytes;
    part.score = part.v + n * g->v_bytes;
    return part;
}

bool segment_open(struct segment *g, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    struct segment_header *h = &g->header;
    *g = (struct segment){.bytes = bytes, .n_bytes = n};
    if (n < sizeof *h) return false;
    memcpy(h, bytes, sizeof *h);
    if (h->form != SEGMENT_DENSE && h->form != SEGMENT_SPARSE) return false;
    if (h->n > (uint32_t)INT32_MAX || h->pos > UINT32_MAX - h->n || h->n_head == 0 ||
        h->head_dim == 0 || h->k_type >= KN_KV_TYPES || h->v_type >= KN_KV_TYPES)
        return false;
    g->k_bytes = kn_kv_bytes((enum kn_kv)h->k_type, h->head_dim);
    g->v_bytes = kn_kv_bytes((enum kn_kv)h->v_type, h->head_dim);
    g->end = h->pos + h->n;
    p += sizeof *h;
    n -= sizeof *h;
    for (int i = 0; i < h->n_head; i++) {
        uint32_t n_units;
        size_t used = part_bytes(g, p, n, &n_units);
        struct segment_part part = part_at(g, p, n_units);
        if ((used == 0 && h->n > 0) || (part.pos && !positions_rise(g, &part))) return false;
        g->n_units += n_units;
        p += used;
        n -= used;
    }
    return n == 0;
}

struct segment_part segment_part(const struct segment *g, int head)
{
    const uint8_t *p = g->bytes + sizeof g->header;
    size_t left = g->n_bytes - sizeof g->header;
    uint32_t n;
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

/* ---- the policy's state ---------------------------------------------------------------------- */

bool policy_state_needed(const struct cache *c)
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

void policy_state_write(const struct cache *c, int layer, struct str *out)
{
    struct policy_state_header h = {SEGMENT_POLICY_STATE, (uint32_t)c->n_pos, 0};
    str_append(out, &h, sizeof h);
    const struct recurrent_part r = recurrent_part(c, layer);
    if (r.n_layers) str_append(out, r.layers, r.n_layers * sizeof(float));
    if (r.n_hidden) str_append(out, r.hidden, r.n_hidden * sizeof(float));
}

bool policy_state_is(const void *bytes, size_t n)
{
    return n >= sizeof(struct policy_state_header) && get_u32(bytes) == SEGMENT_POLICY_STATE;
}

static bool take_floats(float *out, size_t n, const uint8_t **p, size_t *left)
{
    if (*left / sizeof(float) < n) return false;
    if (n) memcpy(out, *p, n * sizeof(float));
    *p += n * sizeof(float);
    *left -= n * sizeof(float);
    return true;
}

bool policy_state_read(struct cache *c, int layer, const void *bytes, size_t n, uint32_t end)
{
    struct policy_state_header h;
    const uint8_t *p = bytes;
    if (!policy_state_is(bytes, n)) return false;
    memcpy(&h, p, sizeof h);
    p += sizeof h;
    n -= sizeof h;
    if (h.n_pos != end || h.n_state > n / sizeof(float)) return false;
    p += h.n_state * sizeof(float);
    n -= h.n_state * sizeof(float);
    const struct recurrent_part r = recurrent_part(c, layer);
    return take_floats(r.layers, r.n_layers, &p, &n) && take_floats(r.hidden, r.n_hidden, &p, &n) &&
           n == 0;
}

/* ---- evicted positions ----------------------------------------------------------------------- */

bool positions_init(struct positions *g, int n_head)
{
    *g = (struct positions){.n_head = n_head, .heads = calloc((size_t)n_head, sizeof *g->heads)};
    return g->heads != NULL;
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

bool positions_push(struct positions *g, int head, uint32_t pos)
{
    struct positions_head *h = &g->heads[head];
    if (h->n == h->max) {
        size_t max = h->max ? 2 * h->max : 64;
        uint32_t *p = realloc(h->pos, max * sizeof *p);
        if (!p) return false;
        h->pos = p;
        h->max = max;
    }
    h->pos[h->n++] = pos;
    return true;
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
    put_varint(out, SEGMENT_EVICTED);
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

bool positions_read(struct positions *g, const void *bytes, size_t n)
{
    const uint8_t *p = bytes, *end = p + n;
    uint32_t form, count, distance;
    if (!get_varint(&p, end, &form) || form != SEGMENT_EVICTED) return false;
    for (int i = 0; i < g->n_head; i++) {
        uint32_t pos = 0;
        if (!get_varint(&p, end, &count)) return false;
        for (; count > 0; count--) {
            if (!get_varint(&p, end, &distance)) return false;
            pos += distance;
            if (!positions_push(g, i, pos)) return false;
        }
    }
    return p == end;
}

/* ---- a layer's log --------------------------------------------------------------------------- */

bool segments_join(struct segment *g, size_t n, int64_t *end)
{
    int64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (g[i].header.pos > at) return false;
        for (size_t j = i; j-- > 0 && g[j].end > g[i].header.pos;) g[j].end = g[i].header.pos;
        at = (int64_t)g[i].header.pos + g[i].header.n;
    }
    *end = at;
    return true;
}

/* Walks the live units of one head over all segments. */
struct alive {
    const struct segment *g;
    size_t n, at;
    const struct positions_head *evicted;
    size_t evicted_at;
    int head;
    uint32_t end, i;
    struct segment_part part;
};

static struct alive alive_begin(const struct segment *g, size_t n, const struct positions *evicted,
                                int head, uint32_t end)
{
    struct alive a = {.g = g,
                      .n = n,
                      .evicted = evicted ? &evicted->heads[head] : NULL,
                      .head = head,
                      .end = end};
    if (n > 0) a.part = segment_part(g, head);
    return a;
}

static bool is_evicted(struct alive *a, uint32_t pos)
{
    const struct positions_head *h = a->evicted;
    if (!h) return false;
    while (a->evicted_at < h->n && h->pos[a->evicted_at] < pos) a->evicted_at++;
    return a->evicted_at < h->n && h->pos[a->evicted_at] == pos;
}

/* The number of adjacent live units from index i on, at position pos. */
static uint32_t run_length(struct alive *a, uint32_t i, uint32_t pos)
{
    const struct segment *g = &a->g[a->at];
    uint32_t end = a->end < g->end ? a->end : g->end, n = 1;
    if (a->part.pos) {
        for (; i + n < a->part.n; n++) {
            uint32_t next = segment_position(g, &a->part, i + n);
            if (next >= end || is_evicted(a, next)) break;
        }
        return n;
    }
    if (a->evicted && a->evicted_at < a->evicted->n && a->evicted->pos[a->evicted_at] < end)
        end = a->evicted->pos[a->evicted_at];
    n = a->part.n - i;
    return n < end - pos ? n : end - pos;
}

/* The next units: *n of them from index *i of a->part of segment a->at on. false = no more. */
static bool alive_next(struct alive *a, uint32_t *i, uint32_t *n)
{
    while (a->at < a->n) {
        while (a->i < a->part.n) {
            uint32_t pos = segment_position(&a->g[a->at], &a->part, a->i);
            if (pos >= a->end) return false;
            if (pos >= a->g[a->at].end) break;
            *i = a->i++;
            if (is_evicted(a, pos)) continue;
            *n = run_length(a, *i, pos);
            a->i = *i + *n;
            return true;
        }
        if (a->at + 1 == a->n) return false;
        a->i = 0;
        a->part = segment_part(&a->g[++a->at], a->head);
    }
    return false;
}

static bool same_shape(const struct cache *c, const struct segment *g)
{
    struct segment_header expected = header_of(c, g->header.pos, (int)g->header.n);
    expected.form = g->header.form;
    return !memcmp(&expected, &g->header, sizeof expected);
}

bool segments_load(struct cache *c, int layer, const struct segment *g, size_t n,
                   const struct positions *evicted, uint32_t end)
{
    for (size_t i = 0; i < n; i++)
        if (!same_shape(c, &g[i])) return false;
    uint32_t i, m;
    for (int head = 0; head < c->shape.n_head; head++) {
        struct alive a = alive_begin(g, n, evicted, head, end);
        while (alive_next(&a, &i, &m)) cache_head(c, layer, head)->coming += (int)m;
    }
    if (!cache_make_room(c, layer)) return false;
    for (int head = 0; head < c->shape.n_head; head++) {
        struct cache_head *h = cache_head(c, layer, head);
        struct alive a = alive_begin(g, n, evicted, head, end);
        while (alive_next(&a, &i, &m)) {
            size_t s = (size_t)h->len;
            memcpy(h->k + s * c->k_bytes, a.part.k + i * c->k_bytes, m * c->k_bytes);
            memcpy(h->v + s * c->v_bytes, a.part.v + i * c->v_bytes, m * c->v_bytes);
            memcpy(h->score + s, a.part.score + i * sizeof(float), m * sizeof(float));
            for (uint32_t j = 0; j < m; j++)
                h->pos[s + j] = segment_position(&a.g[a.at], &a.part, i + j);
            h->len += (int)m;
        }
    }
    return true;
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
    if (!same_shape(c, g) || g->header.form != SEGMENT_DENSE) return false;
    if (g->header.pos >= end) return true;
    if (from < g->header.pos) from = g->header.pos;
    if (end > g->end) end = g->end;
    for (int head = 0; head < c->shape.n_head; head++) {
        struct cache_head *h = cache_head(c, layer, head);
        const struct segment_part part = segment_part(g, head);
        cut_head(h, g->header.pos);
        const size_t n = end > from ? end - from : 0, at = from - g->header.pos;
        const size_t to = (size_t)h->len;
        if (n > (size_t)(h->capacity - h->len)) return false;
        memcpy(h->k + to * c->k_bytes, part.k + at * c->k_bytes, n * c->k_bytes);
        memcpy(h->v + to * c->v_bytes, part.v + at * c->v_bytes, n * c->v_bytes);
        memcpy(h->score + to, part.score + at * sizeof(float), n * sizeof(float));
        for (size_t i = 0; i < n; i++) h->pos[to + i] = from + (uint32_t)i;
        h->len += (int)n;
    }
    return true;
}

/* Writes one head: the number of units and their positions first, then the other arrays. */
static uint32_t merge_head(const struct segment *g, size_t n, const struct positions *evicted,
                           int head, struct str *out)
{
    struct str parts[4] = {{0}}; /* positions, keys, values, scores */
    struct alive a = alive_begin(g, n, evicted, head, UINT32_MAX);
    uint32_t i, m, n_units = 0;
    for (; alive_next(&a, &i, &m); n_units += m) {
        const struct segment *from = &a.g[a.at];
        for (uint32_t j = 0; j < m; j++) {
            uint32_t pos = segment_position(from, &a.part, i + j);
            str_append(&parts[0], &pos, sizeof pos);
        }
        str_append(&parts[1], a.part.k + i * from->k_bytes, m * from->k_bytes);
        str_append(&parts[2], a.part.v + i * from->v_bytes, m * from->v_bytes);
        str_append(&parts[3], a.part.score + i * sizeof(float), m * sizeof(float));
    }
    str_append(out, &n_units, sizeof n_units);
    for (int j = 0; j < 4; j++) {
        str_append(out, str_get(&parts[j]), parts[j].n);
        str_release(&parts[j]);
    }
    return n_units;
}

int64_t segments_merge(const struct segment *g, size_t n, const struct positions *evicted,
                       struct str *out)
{
    struct segment_header h = g[0].header;
    int64_t n_units = 0;
    h.form = SEGMENT_SPARSE;
    h.n = g[n - 1].header.pos + g[n - 1].header.n - h.pos;
    str_append(out, &h, sizeof h);
    for (int i = 0; i < h.n_head; i++) n_units += merge_head(g, n, evicted, i, out);
    return n_units;
}
