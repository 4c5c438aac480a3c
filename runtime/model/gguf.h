/* gguf: a GGUF v2/v3 file, memory-mapped and checked completely before any of it is used.
 *
 * Nothing in the file is trusted: every count, length, offset and product is checked against the
 * file's real size, so a hostile file costs an error line, never memory or a crash. Strings and
 * tensor data point into the mapping and are valid until gguf_close.
 * Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md */
#ifndef RETAIN_RUNTIME_MODEL_GGUF_H
#define RETAIN_RUNTIME_MODEL_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/utf8.h"

/* Value types, numbered as in the file. */
enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPES,
};

/* Tensor types that have a name here, numbered as in the file; gguf_tensor_type() knows all
 * types. */
enum gguf_tensor_id {
    GGUF_T_F32 = 0,
    GGUF_T_F16 = 1,
    GGUF_T_Q4_0 = 2,
    GGUF_T_Q4_1 = 3,
    GGUF_T_Q5_0 = 6,
    GGUF_T_Q5_1 = 7,
    GGUF_T_Q8_0 = 8,
    GGUF_T_Q2_K = 10,
    GGUF_T_Q3_K = 11,
    GGUF_T_Q4_K = 12,
    GGUF_T_Q5_K = 13,
    GGUF_T_Q6_K = 14,
    GGUF_T_IQ2_XXS = 16,
    GGUF_T_IQ2_XS = 17,
    GGUF_T_IQ3_XXS = 18,
    GGUF_T_IQ1_S = 19,
    GGUF_T_IQ4_NL = 20,
    GGUF_T_IQ3_S = 21,
    GGUF_T_IQ2_S = 22,
    GGUF_T_IQ4_XS = 23,
    GGUF_T_IQ1_M = 29,
    GGUF_T_BF16 = 30,
    GGUF_T_TQ1_0 = 34,
    GGUF_T_TQ2_0 = 35,
    GGUF_T_MXFP4 = 39,
    GGUF_T_NVFP4 = 40,
};

struct gguf_str { /* bytes in the file: not NUL-terminated, any content */
    const char *data;
    size_t n;
};

struct gguf_array {
    enum gguf_type type; /* of the elements; never GGUF_ARRAY */
    size_t n;
    const void *data; /* packed, unaligned; for strings use gguf_array_next_str */
    size_t bytes;     /* of data */
};

struct gguf_tensor {
    struct gguf_str name;
    uint32_t type;
    int n_dims;
    int64_t ne[4];    /* ne[0] is the row length; unused dimensions are 1 */
    const void *data; /* at a multiple of general.alignment in the file, which may be 1; NULL in a
                       * file that ends after its descriptions */
    size_t bytes;
};

struct gguf;

/* path: a file, or the first part of a split model (NAME-00001-of-00003.gguf), whose other parts
 * are next to it: their tensors are the model's, too. */
int gguf_open(struct gguf **out, const char *path, struct err *e);

/* The first bytes of a model's n parts, each at least up to the end of the tensors' descriptions: a
 * model whose tensors have no data, for a plan before a download. The caller keeps the bytes. */
struct gguf_start {
    const void *bytes;
    size_t n;
    const char *name; /* for messages */
};
int gguf_open_starts(struct gguf **out, const struct gguf_start *parts, int n, struct err *e);
bool gguf_is_start(const struct gguf *g); /* opened so */

/* The same over bytes that the caller owns and keeps (the embedded demo model, fuzzing). `name` is
 * used in messages. */
int gguf_open_bytes(struct gguf **out, const void *bytes, size_t n, const char *name,
                    struct err *e);
void gguf_close(struct gguf *g);

const char *gguf_name(const struct gguf *g); /* path or name, for messages */
/* Of a split model: its parts one after another, each with zeros up to a multiple of 64 KiB. */
const void *gguf_bytes(const struct gguf *g, size_t *n);
struct utf8_shown gguf_show(struct gguf_str s); /* a name from the file, made safe for messages */

/* Tells the system that n bytes of the file will hardly be read again (they were repacked), so that
 * their whole pages do not stay in the program's memory. evict: the memory is needed now, so the
 * system should not keep the pages as cached file data either. */
void gguf_forget(const struct gguf *g, const void *data, size_t n, bool evict);
/* The same for all tensors. */
void gguf_forget_data(const struct gguf *g);

/* Metadata. Each returns false when the key is absent or of another kind; integers of every width
 * are accepted when the value fits. */
bool gguf_get_u32(const struct gguf *g, const char *key, uint32_t *out);
bool gguf_get_f32(const struct gguf *g, const char *key, float *out);
bool gguf_get_bool(const struct gguf *g, const char *key, bool *out);
bool gguf_get_str(const struct gguf *g, const char *key, struct gguf_str *out);
bool gguf_get_array(const struct gguf *g, const char *key, struct gguf_array *out);

/* Element i of an array: 0 / an empty string when i or the type does not fit; true is 1. Random
 * access to strings is linear; use the cursor for whole arrays. */
float gguf_array_f32(const struct gguf_array *a, size_t i);
int32_t gguf_array_i32(const struct gguf_array *a, size_t i);

/* Walks an array of strings: *cursor starts at 0; false at the end. */
bool gguf_array_next_str(const struct gguf_array *a, size_t *cursor, struct gguf_str *out);

/* The i-th key, in alphabetical order, unchanged; a scalar is an array of one. False after the last
 * key. */
bool gguf_key_at(const struct gguf *g, size_t i, struct gguf_str *key, struct gguf_array *value,
                 bool *is_array);

/* Tensors. */
size_t gguf_n_tensors(const struct gguf *g);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t i);
const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name);

/* A tensor type: weights and bytes per block; NULL for an unknown id. Contains every type of the
 * format; the model decides which types can be run. */
struct gguf_tensor_type {
    uint32_t id;
    const char *name;
    int block; /* weights per block */
    int block_bytes;
};
const struct gguf_tensor_type *gguf_tensor_type(uint32_t id);
size_t gguf_row_bytes(uint32_t id, int64_t n); /* of n weights, a multiple of the block */

#endif
