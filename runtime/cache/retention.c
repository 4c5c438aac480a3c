#include "runtime/cache/retention.h"

#include <stddef.h>
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
