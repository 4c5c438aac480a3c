/* make_gguf: writes GGUF files into memory, for tests. Keys first, then tensors, then maker_end.
 * Tensors without data hold an x in each byte. */
#ifndef RETAIN_TESTS_MAKE_GGUF_H
#define RETAIN_TESTS_MAKE_GGUF_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "runtime/model/gguf.h"

struct maker {
    struct str keys, tensors, data, file;
    uint64_t n_keys, n_tensors;
    uint64_t data_bytes; /* so far, padded */
    size_t data_at;      /* set by maker_end */
};

static inline void put_u32(struct str *s, uint32_t v)
{
    str_append(s, &v, sizeof v);
}

static inline void put_u64(struct str *s, uint64_t v)
{
    str_append(s, &v, sizeof v);
}

static inline void put_text(struct str *s, const char *text, size_t n)
{
    put_u64(s, n);
    str_append(s, text, n);
}

static inline void maker_key(struct maker *m, const char *key, uint32_t type)
{
    put_text(&m->keys, key, strlen(key));
    put_u32(&m->keys, type);
    m->n_keys++;
}

static inline void maker_value(struct maker *m, const char *key, uint32_t type, const void *value,
                               size_t n)
{
    maker_key(m, key, type);
    str_append(&m->keys, value, n);
}

static inline void maker_str(struct maker *m, const char *key, const char *text)
{
    maker_key(m, key, GGUF_STRING);
    put_text(&m->keys, text, strlen(text));
}

static inline void maker_u32(struct maker *m, const char *key, uint32_t v)
{
    maker_value(m, key, GGUF_U32, &v, sizeof v);
}

static inline void maker_bool(struct maker *m, const char *key, bool v)
{
    maker_value(m, key, GGUF_BOOL, &v, 1);
}

/* Writes the head of an array; the caller appends its elements to m->keys. */
static inline void maker_array(struct maker *m, const char *key, uint32_t type, uint64_t n)
{
    maker_key(m, key, GGUF_ARRAY);
    put_u32(&m->keys, type);
    put_u64(&m->keys, n);
}

static inline void maker_tensor(struct maker *m, const char *name, uint32_t type, uint32_t n_dims,
                                const int64_t *ne, uint64_t bytes)
{
    put_text(&m->tensors, name, strlen(name));
    put_u32(&m->tensors, n_dims);
    str_append(&m->tensors, ne, n_dims * sizeof *ne);
    put_u32(&m->tensors, type);
    put_u64(&m->tensors, m->data_bytes);
    m->data_bytes += (bytes + 31) / 32 * 32;
    m->n_tensors++;
}

/* Describes a matrix [n_out][n_in], or a vector; the caller appends its bytes to m->data. */
static inline void maker_data(struct maker *m, const char *name, uint32_t type, int n_in, int n_out)
{
    const uint64_t n = (uint64_t)n_in * (uint64_t)n_out;
    while (m->data.n < m->data_bytes) str_append(&m->data, "", 1);
    maker_tensor(m, name, type, n_out > 1 ? 2 : 1, (int64_t[]){n_in, n_out},
                 type == GGUF_T_F32 ? n * 4 : n / 32 * (type == GGUF_T_Q4_1 ? 20 : 34));
}

static inline void maker_end(struct maker *m)
{
    str_append(&m->file, "GGUF", 4);
    put_u32(&m->file, 3);
    put_u64(&m->file, m->n_tensors);
    put_u64(&m->file, m->n_keys);
    str_append(&m->file, str_get(&m->keys), m->keys.n);
    str_append(&m->file, str_get(&m->tensors), m->tensors.n);
    while (m->file.n % 32) str_append(&m->file, "", 1);
    m->data_at = m->file.n;
    str_append(&m->file, str_get(&m->data), m->data.n);
    for (uint64_t i = m->data.n; i < m->data_bytes; i++) str_append(&m->file, "x", 1);
}

static inline void maker_release(struct maker *m)
{
    str_release(&m->keys);
    str_release(&m->tensors);
    str_release(&m->data);
    str_release(&m->file);
}

#endif
