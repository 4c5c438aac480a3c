/* packed: the weights as the kernels read them, in a file of their own, so that the next start maps
 * them instead of packing the model file again: nothing is copied, and programs that run the same
 * model share the memory.
 *
 * A copy belongs to a model file as it was: path, size, time and inode, which is what `--verify
 * sample` believes, too. It is written under another name, flushed, then renamed, so that there is
 * never a part of one; what a crash leaves goes with the next writing. Whether it holds what the
 * file gives today is seen by packing samples again (model_holds): no other layout passes. It may
 * be removed at any time; whoever maps it keeps it. */
#ifndef RETAIN_RUNTIME_MODEL_WEIGHT_CACHE_H
#define RETAIN_RUNTIME_MODEL_WEIGHT_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "store/store.h"

struct weight_cache {
    char path[4096];
    struct store_model model; /* the file it was made of, with its digest */
    size_t bytes;             /* of weights; 0 = there is no copy */
    int64_t used_ns;          /* when it was written or last mapped */
};

/* The copy in the folder `dir` of the file `now`, whose digest is not looked at. False: none, or
 * none of the file as it is now. */
bool weight_cache_find(struct weight_cache *out, const char *dir, const struct store_model *now);

/* All that are in the folder, in no order; a callback that returns non-zero ends the walk and that
 * value is returned. */
int weight_cache_list(const char *dir, int (*each)(void *ctx, const struct weight_cache *p),
                      void *ctx);

/* Gives `a` the copy as its memory, read-only, and brings it in from the disk. A copy that has
 * another size or cannot be mapped leaves a->base NULL. progress as in engine_open; ERR_STOP. */
int weight_cache_map(const struct weight_cache *p, struct arena *a, size_t bytes,
                     int (*progress)(void *, int64_t, int64_t), void *ctx, struct err *e);

void weight_cache_remove(const struct weight_cache *p);

/* Would a copy of so many bytes be kept in `dir`, which need not exist? All together may take a
 * quarter of what the disk had free without them. The error says why not. */
int weight_cache_room(const char *dir, size_t bytes, struct err *e);

/* ---- writing --------------------------------------------------------------------------------- */

/* Writes a copy on a thread of its own, with low priority. Others make room for it, those first
 * that were not used for the longest time. What fails leaves no copy and is no error: the next
 * start packs as this one did. `a` must stay until weight_cache_write_end. NULL = no thread. */
struct weight_cache_writer;
struct weight_cache_writer *weight_cache_write_begin(const char *dir,
                                                     const struct store_model *model,
                                                     const struct arena *a);
/* Waits for what is at the disk now and gives up the rest; NULL is fine. */
void weight_cache_write_end(struct weight_cache_writer *w);

#endif
