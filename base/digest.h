/* digest: BLAKE2b-256, as `b2sum -l 256` prints it, and the identity of a file. */
#ifndef RETAIN_BASE_DIGEST_H
#define RETAIN_BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define DIGEST_BYTES 32
#define DIGEST_HEX   (2 * DIGEST_BYTES + 1) /* with the NUL */

void digest_make(uint8_t out[DIGEST_BYTES], const void *bytes, size_t n);
void digest_hex(char out[DIGEST_HEX], const uint8_t digest[DIGEST_BYTES]);

/* A file's state at some moment. Written to disk unchanged (runtime/model/weight_cache.c). */
struct file_identity {
    char path[4096]; /* absolute, without links */
    int64_t size, mtime_ns, inode;
    uint8_t digest[DIGEST_BYTES]; /* of its bytes */
};

/* A model in several files is named by the first, NAME-00001-of-00003.gguf. file_parts: their
 * number; 1 for every other name. file_part_path: the path of part i, from 0. */
int file_parts(const char *path);
int file_part_number(const char *path); /* from 1; 1 of a file that is no part */
void file_part_path(struct str *out, const char *path, int i);

/* Fills all but the digest, which is zero. Of a file in parts: their size together, the latest
 * time. ERR_FORMAT when a file does not exist. */
int file_identity_read(struct file_identity *out, const char *path, struct err *e);

/* Whether size, time and inode are equal. */
bool file_identity_same(const struct file_identity *a, const struct file_identity *b);

#endif
