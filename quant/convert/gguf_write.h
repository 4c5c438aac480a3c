/* gguf_write: writes a GGUF v3 file from front to back, tensor by tensor, so that memory does not
 * grow with the model.
 *
 *   Keys and tensors are described first, gguf_write_begin writes the descriptions, gguf_write_data
 *   takes the tensors' bytes in the same order, gguf_write_commit ends the file.
 *
 * The bytes are written to PATH.tmp in the same folder. Commit flushes and renames it, so PATH is
 * either the old file or the complete new one; gguf_write_close without a commit removes PATH.tmp.
 * Two processes can't write one PATH.tmp.
 *
 * Digests, BLAKE2b-256 (as `b2sum -l 256` prints it):
 *   retain.digest.tensors   array of strings, 64 hex digits each: the bytes of every tensor,
 *                           without padding, in the file's order
 * The file's own digest can't be inside the file; commit returns it. */
#ifndef RETAIN_QUANT_CONVERT_GGUF_WRITE_H
#define RETAIN_QUANT_CONVERT_GGUF_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "runtime/model/gguf.h"

/* ---- keys: metadata in the file's form. Zero-initialise. ------------------------------------- */

struct gguf_keys {
    struct str bytes;
    uint64_t n;
};

void gguf_keys_release(struct gguf_keys *k);
void gguf_keys_u32(struct gguf_keys *k, const char *key, uint32_t v);
void gguf_keys_f32(struct gguf_keys *k, const char *key, float v);
void gguf_keys_bool(struct gguf_keys *k, const char *key, bool v);
void gguf_keys_str(struct gguf_keys *k, const char *key, const char *text);
/* n_bytes: size of the elements, which are in the file's format. */
void gguf_keys_array(struct gguf_keys *k, const char *key, enum gguf_type type, uint64_t n,
                     const void *elements, size_t n_bytes);
/* Copies a key of another file unchanged. */
void gguf_keys_copy(struct gguf_keys *k, struct gguf_str key, const struct gguf_array *value,
                    bool is_array);
/* Appends one element of an array of strings to `elements`. */
void gguf_keys_element(struct str *elements, const char *text, size_t n);

/* ---- the file -------------------------------------------------------------------------------- */

struct gguf_writer;

/* ERR_USAGE when `path` exists and `force` is not set, or is no regular file. */
int gguf_write_check(const char *path, bool force, struct err *e);
/* Checks the path, too. */
int gguf_write_open(struct gguf_writer **out, const char *path, bool force, struct err *e);
void gguf_write_close(struct gguf_writer *w);

/* Describes the next tensor. type must be known to gguf_tensor_type; the shape must fit it. */
int gguf_write_tensor(struct gguf_writer *w, const char *name, uint32_t type, int n_dims,
                      const int64_t *ne, struct err *e);

/* Writes everything before the tensors' data, and reserves the disk space if the system can. */
int gguf_write_begin(struct gguf_writer *w, const struct gguf_keys *keys, struct err *e);

/* Appends bytes of the current tensor; padding is added when it is complete. */
int gguf_write_data(struct gguf_writer *w, const void *bytes, size_t n, struct err *e);

/* All tensors must be complete. hex: the digest of the file, read back. */
int gguf_write_commit(struct gguf_writer *w, char hex[65], struct err *e);

#endif
