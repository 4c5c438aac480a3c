/* gguf_parts: a parsed GGUF file, for gguf.c and gguf_split.c only. */
#ifndef RETAIN_RUNTIME_MODEL_GGUF_PARTS_H
#define RETAIN_RUNTIME_MODEL_GGUF_PARTS_H

#include "runtime/model/gguf.h"

struct gguf_kv {
    struct gguf_str key;
    struct gguf_array value; /* scalars are arrays of one */
    bool is_array;
};

struct gguf {
    char *name;
    const uint8_t *bytes;
    size_t n;
    bool mapped;
    bool start_only; /* the bytes end somewhere after the descriptions of tensors */
    size_t data_at;  /* offset of the data section; n when there is none */
    size_t alignment;
    struct gguf_kv *kvs; /* sorted by key */
    size_t n_kvs;
    struct gguf_tensor *tensors; /* in file order */
    struct gguf_tensor **by_name;
    size_t n_tensors;
};

struct gguf_opening {
    const void *bytes;
    size_t n;
    bool mapped; /* gguf_close unmaps the bytes, as does a failure */
    bool start_only;
};
int gguf_open_over(struct gguf **out, const struct gguf_opening *o, const char *name,
                   struct err *e);

/* Sorts by_name, which has room for n_tensors. ERR_FORMAT when a name occurs twice. */
int gguf_index_tensors(struct gguf *g, struct err *e);

#endif
