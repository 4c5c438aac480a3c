/* source: a model as `retain quantize` reads it: keys ready for the output file and tensors whose
 * rows are read as floats, from a GGUF file or a Hugging Face folder.
 *
 * Files are memory-mapped; pages already read can be released, so that memory does not grow with
 * the model. Every tensor has a name that GGUF allows and a type that blocks_readable knows. */
#ifndef RETAIN_QUANT_CONVERT_SOURCE_H
#define RETAIN_QUANT_CONVERT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "quant/convert/gguf_write.h"

struct safetensors;

/* What GGUF has instead of a folder's numbers x. */
enum source_change { SOURCE_AS_IT_IS, SOURCE_PLUS_ONE /* x + 1 */, SOURCE_MINUS_EXP /* -e^x */ };

/* Where the numbers of another order are: row r of matrix m has its first at m * matrix + r * row
 * from `first` on, and the next ones `number` apart. row 0: the order is GGUF's. */
struct source_strides {
    int64_t first, matrix, row, number;
};

struct source_tensor {
    char name[64]; /* as in GGUF */
    uint32_t type; /* as in GGUF */
    int n_dims;
    int64_t ne[4]; /* ne[0] is the row length; unused ones are 1 */
    const void *data;
    /* [ne[2]] the matrices of a stack that the folder has one by one, or NULL: all are in data */
    const void **stack;
    struct source_strides strides;
    /* MXFP4 in two tensors: data has the codes of 32 numbers in 16 bytes, in order; this the
     * exponents. NULL: as GGUF has it */
    const uint8_t *exponents;
    /* Where each row is in the folder, [rows], or with by_number each number of a row, [ne[0]].
     * NULL: GGUF's order is the folder's */
    const int32_t *order;
    bool by_number;
    const float *factors; /* [rows] each row is multiplied by one, or NULL */
    enum source_change change;
};

struct source {
    char *path;
    struct gguf *gguf; /* the open files: one of these two */
    struct safetensors *weights;
    struct gguf_keys keys; /* without general.file_type and similar keys, which the output sets */
    struct source_tensor *tensors;
    size_t n_tensors, cap;
    void **made; /* data of tensors that no file contains, and stacks */
    size_t n_made;
    char notice[512]; /* a message for the user, or "" */
};

/* `path` is a GGUF file or a folder. ERR_FORMAT for unsupported input. */
int source_open(struct source **out, const char *path, struct err *e);
void source_close(struct source *s);

/* Rows, of ne[0] numbers each: ne[1] * ne[2] * ne[3]. */
int64_t source_rows(const struct source_tensor *t);
size_t source_row_bytes(const struct source_tensor *t);

/* Whether rows can be copied: source_row_floats would only convert their type. */
bool source_is_plain(const struct source_tensor *t);

/* Row r of a plain tensor in GGUF's form, in output order. */
void source_row_copy(const struct source_tensor *t, int64_t r, void *out);

/* The row as floats. */
void source_row_floats(const struct source_tensor *t, int64_t r, float *out);

/* Tells the system that a tensor of a file will not be read again. */
void source_forget(const struct source *s, const struct source_tensor *t);

/* ---- for convert.c and source.c -------------------------------------------------------------- */

/* Fills `s`, whose path is a Hugging Face folder. */
int convert_open(struct source *s, struct err *e);

struct source_tensor *source_add(struct source *s, const char *name);
/* A vector of n floats that the source owns, for the caller to fill. */
float *source_add_vector(struct source *s, const char *name, int n);
/* Makes the newest tensor a stack of n matrices, for the caller to fill in. */
const void **source_make_stack(struct source *s, int n);
/* Gives a tensor of s factors or another order, for the caller to fill in. */
float *source_make_factors(struct source *s, struct source_tensor *t);
int32_t *source_make_order(struct source *s, struct source_tensor *t, bool by_number);
/* The order of GGUF's "llama": the rows (of a vector: numbers) of a pair that is rotated, half a
 * head apart in the folder, are neighbours. */
void source_order_pairs(struct source *s, struct source_tensor *t, int n_heads);

#endif
