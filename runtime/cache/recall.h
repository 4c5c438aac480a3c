/* recall: brings evicted cache units back when a message needs them.
 *
 * Before the last part of a message is run, the archive (archive.h) is searched for the stretches
 * of RECALL_WINDOW positions that the message is about. Their units return to their heads, in
 * position order, in slots of chunk and reserve that are idle at that moment: the plan grows by no
 * byte. Then the message is run, answered, and at the next eviction returned units compete like all
 * others.
 *
 * Keys are kept before RoPE and rotated by slot, so a unit that returns is as good as it was: the
 * same bytes, the same order. The idea of pages that come back is ArkVale's (NeurIPS 2024) and
 * EpiCache's (arXiv 2509.17396); the choice by words is our own. */
#ifndef RETAIN_RUNTIME_CACHE_RECALL_H
#define RETAIN_RUNTIME_CACHE_RECALL_H

#include "runtime/cache/archive.h"

#define RECALL_WINDOW  16
#define RECALL_MAX     16  /* windows */
#define RECALL_MESSAGE 128 /* tokens of a message that are looked at: its newest */

enum recall_chooser { RECALL_OFF, RECALL_WORDS };

/* What the search looks for. Words of `before`, the message before this one, count a third: a
 * follow-up ("And my sister's?") names its subject only there. */
struct recall_query {
    const int32_t *ids, *before;
    int n, n_before;
};

struct recall_window {
    uint32_t pos; /* positions [pos, pos + n) */
    int n;
    float weight;
};

/* The chooser of a name, and all names; false = unknown. */
bool recall_chooser_named(const char *name, enum recall_chooser *out);
const char *recall_chooser_name(enum recall_chooser chooser);

/* By words: windows in which rare words and pairs of words of the message occur, those without a
 * question before those with one, the newest of equals; only windows most of whose units are
 * evicted. Returns how many were chosen, at most `max`, the best first. */
int recall_choose(struct archive *x, const struct cache *c, const struct recall_query *q, int max,
                  struct recall_window out[RECALL_MAX]);

/* Units of the windows return to the heads that lack them; sorted by position on return. Every head
 * must have room for all of the windows' positions. *n_units came back. A damaged piece of the
 * archive is left out. */
int recall_return(struct archive *x, struct cache *c, struct recall_window *windows, int n,
                  int64_t *n_units, struct err *e);

#endif
