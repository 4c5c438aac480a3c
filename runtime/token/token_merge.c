#include "runtime/token/token_merge.h"

#include <stdlib.h>

#include "base/memory.h"

void token_merge_release(struct token_merge *m)
{
    free(m->symbols);
    free(m->heap);
    *m = (struct token_merge){0};
}

void token_merge_clear(struct token_merge *m)
{
    m->n = 0;
    m->n_heap = 0;
}

void token_merge_push(struct token_merge *m, size_t at, size_t n, int32_t id)
{
    if (m->n == m->cap) m->symbols = memory_more(m->symbols, m->n, &m->cap, sizeof *m->symbols);
    int32_t i = (int32_t)m->n++;
    if (i > 0) m->symbols[i - 1].next = i;
    m->symbols[i] = (struct token_merge_symbol){
        .prev = i - 1, .next = -1, .at = (uint32_t)at, .n = (uint32_t)n, .id = id};
}

/* ---- the heap -------------------------------------------------------------------------------- */

static bool before(const struct token_merge_pair *a, const struct token_merge_pair *b)
{
    return a->priority > b->priority || (a->priority == b->priority && a->left < b->left);
}

static void heap_push(struct token_merge *m, struct token_merge_pair p)
{
    if (m->n_heap == m->cap_heap)
        m->heap = memory_more(m->heap, m->n_heap, &m->cap_heap, sizeof *m->heap);
    size_t i = m->n_heap++;
    for (; i > 0 && before(&p, &m->heap[(i - 1) / 2]); i = (i - 1) / 2)
        m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = p;
}

static struct token_merge_pair heap_pop(struct token_merge *m)
{
    struct token_merge_pair top = m->heap[0];
    struct token_merge_pair last = m->heap[--m->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < m->n_heap; i = child) {
        if (child + 1 < m->n_heap && before(&m->heap[child + 1], &m->heap[child])) child++;
        if (!before(&m->heap[child], &last)) break;
        m->heap[i] = m->heap[child];
    }
    m->heap[i] = last;
    return top;
}

/* ---- joining --------------------------------------------------------------------------------- */

static void consider(struct token_merge *m, int32_t left, int32_t right)
{
    if (left < 0 || right < 0) return;
    const struct token_merge_symbol *a = &m->symbols[left], *b = &m->symbols[right];
    struct token_merge_pair p = {.left = left, .right = right, .n = a->n + b->n};
    if (m->join(m->ctx, a, b, &p.id, &p.priority)) heap_push(m, p);
}

void token_merge_run(struct token_merge *m)
{
    for (size_t i = 1; i < m->n; i++) consider(m, (int32_t)i - 1, (int32_t)i);
    while (m->n_heap > 0) {
        struct token_merge_pair p = heap_pop(m);
        struct token_merge_symbol *a = &m->symbols[p.left], *b = &m->symbols[p.right];
        /* a stale pair: one of the two has grown */
        if (a->n == 0 || b->n == 0 || a->n + b->n != p.n) continue;
        a->n = p.n;
        a->id = p.id;
        a->next = b->next;
        b->n = 0;
        if (a->next >= 0) m->symbols[a->next].prev = p.left;
        consider(m, a->prev, p.left);
        consider(m, p.left, a->next);
    }
}
