/* checksum: verifies that a model file is unchanged. A separate thread computes the digest of the
 * whole file while the weights are loaded; the digests that `retain quantize` writes into a file
 * (retain.digest.tensors) tell which tensor is damaged. BLAKE2b-256, as `b2sum -l 256` prints
 * it. */
#ifndef RETAIN_RUNTIME_MODEL_CHECKSUM_H
#define RETAIN_RUNTIME_MODEL_CHECKSUM_H

#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"

struct gguf;
struct gguf_tensor;
struct pool;
struct checksum;

/* Starts to read the file, which must stay open until checksum_end or checksum_close. */
int checksum_begin(struct checksum **out, const struct gguf *g, struct err *e);
/* Waits for the digest. */
void checksum_end(struct checksum *c, uint8_t digest[DIGEST_BYTES]);
/* Stops reading if it has not finished; NULL is fine. */
void checksum_close(struct checksum *c);

/* *damaged: the first tensor that does not match its digest in the file, NULL = none. Files without
 * digests pass. ERR_FORMAT when the number of digests is not the number of tensors. */
int checksum_tensors(const struct gguf *g, struct pool *p, const struct gguf_tensor **damaged,
                     struct err *e);

#endif
