/* weight_cache: a file with the weights as the kernels read them, so that the next start maps it
 * instead of packing the model file again: nothing is copied, and programs that run the same model
 * share the memory.
 *
 * A copy belongs to one state of a model file: path, size, time and inode, which `--verify sample`
 * relies on, too. It is written under a temporary name, flushed, then renamed, so that an
 * incomplete copy is never used; the next write removes what a crash left. model_holds checks that
 * it still equals the packed model file by packing samples again: a copy in another layout fails. A
 * digest of each MiB follows the weights, and a thread compares them while the program runs.
 * It may be removed at any time; programs that have mapped it keep their mapping. */
#ifndef RETAIN_RUNTIME_MODEL_WEIGHT_CACHE_H
#define RETAIN_RUNTIME_MODEL_WEIGHT_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/digest.h"
#include "base/err.h"

struct weight_cache {
    char path[4096];
    struct file_identity model; /* the file it was made of, with its digest */
    size_t bytes;               /* of weights; 0 = no copy */
    uint64_t inode;             /* of the copy */
    int64_t used_ns;            /* when it was written or last mapped */
};

/* The copy in the folder `dir` of the file `now`, whose digest is ignored. False: there is none, or
 * none of the file's present state. */
bool weight_cache_find(struct weight_cache *out, const char *dir, const struct file_identity *now);

/* Walks all copies in the folder, in no order; a callback that returns non-zero ends the walk and
 * that value is returned. */
int weight_cache_list(const char *dir, int (*each)(void *ctx, const struct weight_cache *p),
                      void *ctx);

/* Gives `a` the copy as its memory, read-only. A copy that has another size or cannot be mapped
 * leaves a->base NULL. weight_cache_read then reads it from the disk; otherwise pages are read when
 * they are used, and the system may drop them again. progress as in engine_open; ERR_STOP. */
void weight_cache_map(const struct weight_cache *p, struct arena *a, size_t bytes);
int weight_cache_read(const struct arena *a, int (*progress)(void *, int64_t, int64_t), void *ctx,
                      struct err *e);

void weight_cache_remove(const struct weight_cache *p);

/* Compares each MiB of a mapped copy with its digest, on a separate thread with low priority, from
 * a random one on and after `delay_ms`; removes a copy that differs. `a` must stay valid until
 * weight_check_end. sparing: pages that were on the disk only need not stay in memory. NULL = no
 * thread. weight_check_damage: bytes from the start of the weights, -1 = no difference so far. */
struct weight_check;
struct weight_check *weight_check_begin(const struct weight_cache *p, const struct arena *a,
                                        bool sparing, int delay_ms);
int64_t weight_check_damage(const struct weight_check *c);
bool weight_check_is_whole(const struct weight_check *c); /* all was compared, and is in order */
void weight_check_end(struct weight_check *c);            /* stops; NULL is fine */

/* Whether `dir`, which need not exist, has room for a copy of this size. All copies together may
 * take a quarter of the disk space that would be free without them. The error gives the reason. */
int weight_cache_room(const char *dir, size_t bytes, struct err *e);

/* ---- writing --------------------------------------------------------------------------------- */

/* Writes a copy on a separate thread, with low priority. Makes room by removing the least recently
 * used copies. A failure leaves no copy and is not reported: the next start packs the weights
 * again. `a` must stay valid until weight_cache_write_end. NULL = no thread. */
struct weight_cache_writer;
struct weight_cache_writer *weight_cache_write_begin(const char *dir,
                                                     const struct file_identity *model,
                                                     const struct arena *a);
/* Waits for the current write and abandons the rest; NULL is fine. */
void weight_cache_write_end(struct weight_cache_writer *w);

/* Makes a copy of weights that need not fit into memory: `a` gets the copy's file as its memory, of
 * all its bytes on the disk. The caller fills it; then weight_cache_fill_end, which takes `a` back,
 * puts it in its place if it is whole. ERR_FAIL names the folder and the reason. */
int weight_cache_fill_begin(struct weight_cache_writer **out, const char *dir,
                            const struct file_identity *model, struct arena *a, size_t bytes,
                            struct err *e);
int weight_cache_fill_end(struct weight_cache_writer *w, struct arena *a, bool whole,
                          struct err *e);

#endif
