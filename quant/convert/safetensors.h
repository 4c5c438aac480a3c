/* safetensors: the weights of a Hugging Face folder, memory-mapped and checked before use.
 *
 * A file is a length, a JSON header and the tensors' bytes. As with gguf, every length, offset and
 * product is checked against the real size of the file; tensors may neither overlap nor leave
 * holes, as the format requires. Tensor data points into the mappings and is valid until
 * safetensors_close. Format: https://github.com/huggingface/safetensors#format */
#ifndef RETAIN_QUANT_CONVERT_SAFETENSORS_H
#define RETAIN_QUANT_CONVERT_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SAFETENSORS_DIMS_MAX 4
#define SAFETENSORS_BYTES    UINT32_MAX /* parts of a quantized tensor */

struct safetensors_tensor {
    const char *name;
    uint32_t type; /* a gguf_tensor_id: F32, F16 or BF16; or SAFETENSORS_BYTES */
    int n_dims;
    int64_t shape[SAFETENSORS_DIMS_MAX]; /* outermost first: [n_out][n_in] */
    const void *data;                    /* not aligned */
    size_t bytes;
};

struct safetensors;

/* Opens a file, or a folder's weights: model.safetensors, or the shards that
 * model.safetensors.index.json lists, each of which must contain the tensors that the index
 * says. */
int safetensors_open(struct safetensors **out, const char *path, struct err *e);

/* One file over bytes that the caller keeps (fuzzing, tests). `name` is used in messages. */
int safetensors_open_bytes(struct safetensors **out, const void *bytes, size_t n, const char *name,
                           struct err *e);
void safetensors_close(struct safetensors *s);

/* Tensors in order of name. */
size_t safetensors_n(const struct safetensors *s);
const struct safetensors_tensor *safetensors_at(const struct safetensors *s, size_t i);
const struct safetensors_tensor *safetensors_find(const struct safetensors *s, const char *name);

#endif
