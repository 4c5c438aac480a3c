#include "runtime/save/past_list.h"

#include <string.h>

static const int64_t from_the_beginning = -1;

bool past_list_init(struct past_list *p, const struct cache *c)
{
    *p = (struct past_list){.units_seq = -1};
    str_append(&p->bytes, &from_the_beginning, sizeof from_the_beginning);
    return positions_init(&p->positions, c->shape.n_head);
}

void past_list_release(struct past_list *p)
{
    str_release(&p->bytes);
    positions_release(&p->positions);
}

static void put_list(struct past_list *p, const struct store_segment *g, const void *list, size_t n)
{
    const struct past_record r = {g->seq, p->n_pos, (uint32_t)g->kind, n};
    str_append(&p->bytes, &r, sizeof r);
    str_append(&p->bytes, list, n);
}

bool past_list_returned(struct positions *positions, const struct store_segment *g, struct str *out)
{
    struct segment units;
    if (!segment_open(&units, g->bytes, g->n_bytes) ||
        units.header.n_head != (uint16_t)positions->n_head)
        return false;
    positions_clear(positions);
    for (int head = 0; head < positions->n_head; head++) {
        struct segment_part part = segment_part(&units, head);
        for (uint32_t i = 0; i < part.n; i++)
            if (!positions_push(positions, head, segment_position(&units, &part, i))) return false;
    }
    positions_write(positions, out);
    return true;
}

static bool take_units(struct past_list *p, const struct store_segment *g)
{
    struct segment units;
    if (policy_state_is(g->bytes, g->n_bytes)) return true; /* version 2 put it there */
    if (!segment_open(&units, g->bytes, g->n_bytes)) return false;
    p->n_pos = units.header.pos + units.header.n;
    p->units_seq = g->seq;
    if (p->bytes.n == sizeof(int64_t) && units.header.form == SEGMENT_SPARSE)
        memcpy(p->bytes.data, &g->seq, sizeof g->seq); /* merged without lists */
    return true;
}

bool past_list_take(struct past_list *p, const struct store_segment *g)
{
    struct str list = {0};
    switch (g->kind) {
    case STORE_UNITS: return take_units(p, g);
    case STORE_EVICTED: put_list(p, g, g->bytes, g->n_bytes); return true;
    case STORE_RETURNED:
        if (g->seq == p->units_seq) return true; /* a merged one: no change */
        if (past_list_returned(&p->positions, g, &list)) put_list(p, g, list.data, list.n);
        break;
    case STORE_PAST:
        if (g->n_bytes < sizeof(int64_t)) return false;
        str_clear(&p->bytes);
        str_append(&p->bytes, g->bytes, g->n_bytes);
        return true;
    default: return true;
    }
    bool ok = list.n > 0;
    str_release(&list);
    return ok;
}

bool past_list_next(const void *bytes, size_t n, size_t *at, struct past_record *out,
                    const void **list)
{
    const uint8_t *p = bytes;
    if (*at == 0) *at = sizeof(int64_t);
    if (n < *at || n - *at < sizeof *out) return false;
    memcpy(out, p + *at, sizeof *out);
    *at += sizeof *out;
    if (out->n_bytes > n - *at) return false;
    if (out->kind != STORE_EVICTED && out->kind != STORE_RETURNED) return false;
    *list = p + *at;
    *at += out->n_bytes;
    return true;
}

int64_t past_list_from(const void *bytes, size_t n)
{
    int64_t from = INT64_MAX;
    if (n >= sizeof from) memcpy(&from, bytes, sizeof from);
    return from;
}

void past_list_limit(struct past_list *p, size_t max_bytes)
{
    struct past_record r = {.seq = -1};
    const void *list;
    size_t at = 0, end = 0;
    while (p->bytes.n - end > max_bytes &&
           past_list_next(p->bytes.data, p->bytes.n, &at, &r, &list))
        end = at;
    if (end == 0) return;
    memcpy(p->bytes.data + end - sizeof r.seq, &r.seq, sizeof r.seq);
    memmove(p->bytes.data, p->bytes.data + end - sizeof r.seq, p->bytes.n - end + sizeof r.seq);
    p->bytes.n -= end - sizeof r.seq;
    p->bytes.data[p->bytes.n] = 0;
}
