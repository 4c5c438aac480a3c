#include "quant/convert/source.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "quant/convert/safetensors.h"
#include "runtime/model/blocks.h"
#include "runtime/model/gguf.h"

struct source_tensor *source_add(struct source *s, const char *name)
{
    s->tensors = memory_more(s->tensors, s->n_tensors, &s->cap, sizeof *s->tensors);
    struct source_tensor *t = &s->tensors[s->n_tensors++];
    *t = (struct source_tensor){.n_dims = 1, .ne = {1, 1, 1, 1}};
    snprintf(t->name, sizeof t->name, "%s", name);
    return t;
}

/* Memory that the source owns. */
static void *make(struct source *s, size_t n, size_t size)
{
    s->made = memory_grow(s->made, s->n_made + 1, sizeof *s->made);
    return s->made[s->n_made++] = memory_new(n, size);
}

float *source_add_vector(struct source *s, const char *name, int n)
{
    float *data = make(s, (size_t)n, sizeof *data);
    struct source_tensor *t = source_add(s, name);
    t->type = GGUF_T_F32;
    t->ne[0] = n;
    t->data = data;
    return data;
}

const void **source_make_stack(struct source *s, int n)
{
    struct source_tensor *t = &s->tensors[s->n_tensors - 1];
    t->stack = make(s, (size_t)n, sizeof *t->stack);
    t->n_dims = 3;
    t->ne[2] = n;
    return t->stack;
}

float *source_make_factors(struct source *s, struct source_tensor *t)
{
    float *factors = make(s, (size_t)source_rows(t), sizeof *factors);
    t->factors = factors;
    return factors;
}

int32_t *source_make_order(struct source *s, struct source_tensor *t, bool by_number)
{
    int32_t *order = make(s, (size_t)(by_number ? t->ne[0] : source_rows(t)), sizeof *order);
    t->order = order;
    t->by_number = by_number;
    return order;
}

void source_order_pairs(struct source *s, struct source_tensor *t, int n_heads)
{
    int32_t *order = source_make_order(s, t, t->n_dims == 1);
    const int n = (int)t->ne[t->n_dims > 1], dim = n / n_heads;
    for (int r = 0; r < n; r++) order[r] = r - r % dim + r % dim / 2 + r % 2 * (dim / 2);
}

/* ---- a GGUF file ----------------------------------------------------------------------------- */

/* Keys that describe the file instead of the model: the output sets its own. */
static bool is_about_file(struct gguf_str key)
{
    static const char *const names[] = {
        "general.file_type",   "general.quantization_version",
        "general.alignment",   "split.",
        "quantize.imatrix.",   "retain.digest.",
        "retain.calibration.",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);
        bool whole = names[i][n - 1] != '.';
        if (whole ? key.n != n : key.n < n) continue;
        if (!memcmp(key.data, names[i], n)) return true;
    }
    return false;
}

static int check_gguf(const struct source *s, struct err *e)
{
    struct gguf_str type;
    if (gguf_get_str(s->gguf, "general.type", &type) &&
        (type.n != 5 || memcmp(type.data, "model", 5)))
        return err_set(e, ERR_FORMAT, "%s: is a GGUF file of type \"%s\", not a model", s->path,
                       gguf_show(type).text);
    if (gguf_n_tensors(s->gguf) == 0)
        return err_set(e, ERR_FORMAT, "%s: holds no tensors", s->path);
    return 0;
}

static int take_gguf_tensor(struct source *s, const struct gguf_tensor *from, struct err *e)
{
    char name[64] = "";
    memcpy(name, from->name.data, from->name.n); /* gguf allows 63 bytes */
    const struct gguf_tensor_type *type = gguf_tensor_type(from->type);
    if (!from->data)
        return err_set(e, ERR_FORMAT, "%s: the file ends before its tensors; download it again",
                       s->path);
    if (!blocks_readable(from->type))
        return err_set(e, ERR_FORMAT,
                       "%s: tensor %s has type %s, which is not supported; start from the model's "
                       "F16, BF16 or F32 file",
                       s->path, name, type ? type->name : "?");
    struct source_tensor *t = source_add(s, name);
    t->type = from->type;
    t->n_dims = from->n_dims;
    memcpy(t->ne, from->ne, sizeof t->ne);
    t->data = from->data;
    if (type->block > 1 && !*s->notice)
        snprintf(s->notice, sizeof s->notice,
                 "%s is already quantized: its F16, BF16 or F32 form would give a better model",
                 s->path);
    return 0;
}

static int open_gguf(struct source *s, struct err *e)
{
    struct gguf_str key;
    struct gguf_array value;
    bool is_array;
    int rc = gguf_open(&s->gguf, s->path, e);
    if (!rc) rc = check_gguf(s, e);
    if (rc) return rc;
    for (size_t i = 0; gguf_key_at(s->gguf, i, &key, &value, &is_array); i++)
        if (!is_about_file(key)) gguf_keys_copy(&s->keys, key, &value, is_array);
    for (size_t i = 0; !rc && i < gguf_n_tensors(s->gguf); i++)
        rc = take_gguf_tensor(s, gguf_tensor_at(s->gguf, i), e);
    return rc;
}

/* ---- opening --------------------------------------------------------------------------------- */

int source_open(struct source **out, const char *path, struct err *e)
{
    struct stat st;
    struct source *s = memory_new(1, sizeof *s);
    size_t n = strlen(path);
    *out = NULL;
    s->path = memory_copy(path);
    while (n > 1 && s->path[n - 1] == '/') s->path[--n] = 0;
    bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    int rc;
    if (!folder && n > 12 && !strcmp(s->path + n - 12, ".safetensors"))
        rc = err_set(
            e, ERR_FORMAT,
            "%s: name the folder of this file, which also has config.json and the tokenizer", path);
    else
        rc = folder ? convert_open(s, e) : open_gguf(s, e);
    if (rc)
        source_close(s);
    else
        *out = s;
    return rc;
}

void source_close(struct source *s)
{
    if (!s) return;
    gguf_close(s->gguf);
    safetensors_close(s->weights);
    gguf_keys_release(&s->keys);
    for (size_t i = 0; i < s->n_made; i++) free(s->made[i]);
    free(s->made);
    free(s->tensors);
    free(s->path);
    free(s);
}

/* ---- rows ------------------------------------------------------------------------------------ */

int64_t source_rows(const struct source_tensor *t)
{
    return t->ne[1] * t->ne[2] * t->ne[3];
}

size_t source_row_bytes(const struct source_tensor *t)
{
    return gguf_row_bytes(t->type, t->ne[0]);
}

/* Row r as stored in the file, in output order. */
static const void *source_row(const struct source_tensor *t, int64_t r)
{
    if (t->order && !t->by_number) r = t->order[r];
    const void *matrix = t->stack ? t->stack[r / t->ne[1]] : t->data;
    return (const char *)matrix + (size_t)(t->stack ? r % t->ne[1] : r) * source_row_bytes(t);
}

bool source_is_plain(const struct source_tensor *t)
{
    bool strided = t->strides.row && !t->exponents;
    return !t->by_number && !strided && !t->change && !t->factors;
}

/* The place of a row's first number. */
static int64_t strided_from(const struct source_tensor *t, int64_t r)
{
    const struct source_strides *s = &t->strides;
    return s->first + r / t->ne[1] * s->matrix + r % t->ne[1] * s->row;
}

/* Blocks of an exponent and 16 bytes: GGUF has number i beside number i + 16. */
static void copy_mxfp4(const struct source_tensor *t, int64_t r, uint8_t *out)
{
    const int64_t from = strided_from(t, r) / 32;
    for (int64_t b = from; b < from + t->ne[0] / 32; b++, out += 17) {
        const uint8_t *codes = (const uint8_t *)t->data + 16 * b;
        out[0] = t->exponents[b];
        for (int i = 0; i < 16; i += 2) {
            out[1 + i] = (uint8_t)((codes[i / 2] & 15) | (codes[i / 2 + 8] & 15) << 4);
            out[2 + i] = (uint8_t)(codes[i / 2] >> 4 | (codes[i / 2 + 8] >> 4) << 4);
        }
    }
}

void source_row_copy(const struct source_tensor *t, int64_t r, void *out)
{
    if (t->exponents)
        copy_mxfp4(t, r, out);
    else
        memcpy(out, source_row(t, r), source_row_bytes(t));
}

static void strided_floats(const struct source_tensor *t, int64_t r, float *out)
{
    const int64_t bytes = gguf_tensor_type(t->type)->block_bytes;
    const char *from = (const char *)t->data + strided_from(t, r) * bytes;
    for (int64_t i = 0; i < t->ne[0]; i++)
        blocks_to_float(out + i, t->type, from + i * t->strides.number * bytes, 1);
}

static void mxfp4_floats(const struct source_tensor *t, int64_t r, float *out)
{
    struct source_tensor block = *t; /* one after another: a row has no limit */
    uint8_t bytes[17];
    for (int64_t i = 0; i < t->ne[0]; i += 32) {
        block.strides.first = strided_from(t, r) + i;
        block.ne[0] = 32;
        copy_mxfp4(&block, 0, bytes);
        blocks_to_float(out + i, t->type, bytes, 32);
    }
}

/* Numbers in another order, as many at once as follow each other in the folder. */
static void ordered_floats(const struct source_tensor *t, int64_t r, float *out)
{
    const char *row = source_row(t, r);
    const size_t bytes = gguf_row_bytes(t->type, 1);
    for (int64_t i = 0, n; i < t->ne[0]; i += n) {
        for (n = 1; i + n < t->ne[0] && t->order[i + n] == t->order[i] + n;) n++;
        blocks_to_float(out + i, t->type, row + (size_t)t->order[i] * bytes, (size_t)n);
    }
}

void source_row_floats(const struct source_tensor *t, int64_t r, float *out)
{
    if (t->by_number)
        ordered_floats(t, r, out);
    else if (t->exponents)
        mxfp4_floats(t, r, out);
    else if (t->strides.row)
        strided_floats(t, r, out);
    else
        blocks_to_float(out, t->type, source_row(t, r), (size_t)t->ne[0]);
    for (int64_t i = 0; t->factors && i < t->ne[0]; i++) out[i] *= t->factors[r];
    for (int64_t i = 0; t->change && i < t->ne[0]; i++)
        out[i] = t->change == SOURCE_PLUS_ONE ? out[i] + 1 : -expf(out[i]);
}

static void forget(const void *data, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)data, end = start + bytes;
    start -= start % page; /* a page shared with a neighbouring tensor is only read again */
    end -= end % page;
    if (end > start) madvise((void *)start, end - start, MADV_DONTNEED);
}

void source_forget(const struct source *s, const struct source_tensor *t)
{
    for (size_t i = 0; i < s->n_made; i++)
        if (t->data == s->made[i]) return;
    const size_t row = t->exponents ? (size_t)t->ne[0] / 2 : source_row_bytes(t);
    if (!t->stack) forget(t->data, row * (size_t)source_rows(t));
    for (int64_t i = 0; t->stack && i < t->ne[2]; i++) forget(t->stack[i], row * (size_t)t->ne[1]);
}
