/* save_windows: the units of layers with windows in a saved conversation.
 *
 * They are logged as the units of other layers, as layers n_layer, n_layer + 1, … of the log. None
 * are ever listed as evicted: loading takes the newest ones before a position, and what no
 * checkpoint needs is deleted with the checkpoints before it. An answer that is longer than a
 * window leaves a gap, in which there are no checkpoints. */
#ifndef RETAIN_RUNTIME_SAVE_SAVE_WINDOWS_H
#define RETAIN_RUNTIME_SAVE_SAVE_WINDOWS_H

#include "runtime/save/save_parts.h"

/* Writes the newest n units, or as many as there are, as entry s->next_seq. */
int save_windows_put(struct save *s, const struct cache *c, int n, struct err *e);

/* Fills the windows for a conversation of `end` positions; *ok = false: parts are missing. */
int save_windows_load(struct save *s, struct cache *c, int64_t end, bool *ok, struct err *e);

/* The newest unit of every head, as save_answer_token writes it. */
size_t save_windows_tail_bytes(const struct cache *c);
void save_windows_put_tail(const struct cache *c, uint8_t *out);
bool save_windows_take_tail(struct cache *c, const uint8_t *bytes);

/* Removes the newest position, which is saved without scores. */
void save_windows_drop_newest(struct cache *c);

/* Bytes that are kept for a checkpoint of n_run positions; those of the windows themselves. */
int64_t save_windows_bytes_since(const struct cache *c, int64_t n_run);
int64_t save_windows_bytes(const struct cache *c);

/* Deletes what the checkpoints from s->points[n] on do not need; those before it were forgotten. */
int save_windows_forget(struct save *s, const struct cache *c, size_t n, struct err *e);

#endif
