#include "runtime/cache/retention.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void retention_reserve(struct retention *r, int64_t n_pos)
{
    if (n_pos <= r->cap_heads) return;
    int64_t cap = r->cap_heads ? r->cap_heads : RETENTION_COLS;
    while (cap < n_pos) cap *= 2;
    r->heads = memory_grow(r->heads, (size_t)cap, sizeof *r->heads);
    r->cap_heads = cap;
}

void retention_free(struct retention *r)
{
    if (r) free(r->kept);
    if (r) free(r->heads);
    free(r);
}

void retention_copy(struct retention *to, const struct retention *from)
{
    const size_t n = (size_t)from->n_layer * (size_t)from->n_head * RETENTION_COLS;
    memcpy(to->kept, from->kept, n * sizeof *to->kept);
    if (from->heads) {
        retention_reserve(to, from->n_pos);
        memcpy(to->heads, from->heads, (size_t)from->n_pos * sizeof *to->heads);
    }
    struct retention copy = *from;
    copy.kept = to->kept;
    copy.heads = to->heads;
    copy.cap_heads = to->cap_heads;
    *to = copy;
}

/* Whether all units of a position, or of its column, are alive. */
static bool is_whole(const struct retention *r, int64_t position)
{
    const int64_t n_heads = (int64_t)r->n_layer * r->n_head;
    if (r->heads) return r->heads[position] == n_heads;
    const int64_t col = position / r->col_width, first = col * r->col_width;
    const int64_t n = r->n_pos - first < r->col_width ? r->n_pos - first : r->col_width;
    for (int64_t i = 0; i < n_heads; i++)
        if (r->kept[i * RETENTION_COLS + col] < n) return false;
    return true;
}

void retention_find_whole(struct retention *r)
{
    r->lead = 0;
    r->tail = r->n_pos;
    /* without single positions: every policy that has sinks keeps them */
    while (r->lead < r->n_pos && r->lead < r->n_sink && (!r->heads || is_whole(r, r->lead)))
        r->lead++;
    while (r->tail > 0 && is_whole(r, r->tail - 1)) r->tail--;
}
