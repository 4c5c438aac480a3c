/* digest: BLAKE2b-256, as `b2sum -l 256` prints it, and what identifies a file. */
#ifndef RETAIN_BASE_DIGEST_H
#define RETAIN_BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define DIGEST_BYTES 32
#define DIGEST_HEX   (2 * DIGEST_BYTES + 1) /* with the NUL */

void digest_make(uint8_t out[DIGEST_BYTES], const void *bytes, size_t n);
void digest_hex(char out[DIGEST_HEX], const uint8_t digest[DIGEST_BYTES]);

/* A file as it was at some moment. Written to disk as it is (runtime/model/weight_cache.c). */
struct file_identity {
    char path[4096]; /* absolute, without links */
    int64_t size, mtime_ns, inode;
    uint8_t digest[DIGEST_BYTES]; /* of its bytes */
};

/* Everything but the digest, which is zero. ERR_FORMAT when there is no such file. */
int file_identity_read(struct file_identity *out, const char *path, struct err *e);

/* Size, time and inode are the same. */
bool file_identity_same(const struct file_identity *a, const struct file_identity *b);

#endif
