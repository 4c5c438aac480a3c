/* checksum: that a model file is what it was. The digest of the whole file is read on a thread of
 * its own, beside the loading of the weights; the digests that `retain quantize` writes into a file
 * (retain.digest.tensors) say which tensor is damaged. BLAKE2b-256, as `b2sum -l 256` prints it. */
#ifndef RETAIN_RUNTIME_MODEL_CHECKSUM_H
#define RETAIN_RUNTIME_MODEL_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define CHECKSUM_BYTES 32

struct gguf;
struct gguf_tensor;
struct pool;
struct checksum;

/* Begins to read the file, which must stay open until checksum_end or checksum_close. */
int checksum_begin(struct checksum **out, const struct gguf *g, struct err *e);
/* Waits for the digest. */
void checksum_end(struct checksum *c, uint8_t digest[CHECKSUM_BYTES]);
/* Stops reading if it is not at its end; NULL is fine. */
void checksum_close(struct checksum *c);

/* The digest of each CHECKSUM_PART_BYTES of the file, by all threads: where they are known, a file
 * is compared in a fraction of the time that the digest of all of it takes, which only one thread
 * can compute. out: [checksum_n_parts]. */
#define CHECKSUM_PART_BYTES ((size_t)4 << 20)
size_t checksum_n_parts(const struct gguf *g);
int checksum_parts(const struct gguf *g, struct pool *p, uint8_t (*out)[CHECKSUM_BYTES],
                   struct err *e);

/* *damaged: the first tensor that is not what the file says of it, NULL = none. Files without these
 * digests pass. ERR_FORMAT when there are not as many digests as tensors. */
int checksum_tensors(const struct gguf *g, struct pool *p, const struct gguf_tensor **damaged,
                     struct err *e);

#endif
