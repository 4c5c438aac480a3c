#include "quant/heads/heads_file.h"

#include <stdio.h>
#include <stdlib.h>

#include "quant/convert/encode.h"
#include "quant/convert/gguf_write.h"

static uint32_t type_of(const struct heads_file *h, int which)
{
    return which == 0 && h->n_in % ENCODE_BLOCK == 0 ? GGUF_T_Q8_0 : GGUF_T_F32;
}

static int n_rows(const struct heads_file *h, int which)
{
    return which ? h->n_head : h->n_hidden;
}

static int row_length(const struct heads_file *h, int which)
{
    return which ? h->n_hidden : h->n_in;
}

static void describe(const struct heads_file *h, struct gguf_keys *k)
{
    size_t n = (size_t)h->n_layer * (size_t)h->n_head;
    gguf_keys_str(k, "general.type", "retaining-heads");
    gguf_keys_str(k, "general.name", h->name);
    gguf_keys_u32(k, "retain.heads.version", 1);
    gguf_keys_str(k, "retain.heads.base_digest", h->base_digest);
    gguf_keys_u32(k, "retain.heads.block_count", (uint32_t)h->n_layer);
    gguf_keys_u32(k, "retain.heads.input_length", (uint32_t)h->n_in);
    gguf_keys_u32(k, "retain.heads.hidden_length", (uint32_t)h->n_hidden);
    gguf_keys_u32(k, "retain.heads.head_count_kv", (uint32_t)h->n_head);
    gguf_keys_str(k, "retain.heads.activation", "silu");
    if (h->label) gguf_keys_str(k, "retain.heads.label", h->label);
    if (!h->mean) return;
    gguf_keys_array(k, "retain.heads.label_mean", GGUF_F32, n, h->mean, n * sizeof(float));
    gguf_keys_array(k, "retain.heads.label_std", GGUF_F32, n, h->std, n * sizeof(float));
}

static int describe_tensors(const struct heads_file *h, struct gguf_writer *w, struct err *e)
{
    char name[64];
    int rc = 0;
    for (int i = 0; !rc && i < 2 * h->n_layer; i++) {
        int64_t ne[] = {row_length(h, i % 2), n_rows(h, i % 2)};
        snprintf(name, sizeof name, "blk.%d.retain_%d.weight", i / 2, i % 2 + 1);
        rc = gguf_write_tensor(w, name, type_of(h, i % 2), 2, ne, e);
    }
    return rc;
}

/* floats, blocks: buffers for one row. */
static int write_tensor(const struct heads_file *h, struct gguf_writer *w, int layer, int which,
                        float *floats, void *blocks, struct err *e)
{
    size_t n = (size_t)row_length(h, which);
    int rc = 0;
    for (int r = 0; !rc && r < n_rows(h, which); r++) {
        rc = h->row(h->ctx, layer, which, r, floats, e);
        if (!rc && encode_check(floats, n) < n)
            rc = err_set(e, ERR_FORMAT, "layer %d: row %d holds a number that is not finite", layer,
                         r);
        if (rc) return rc;
        if (type_of(h, which) == GGUF_T_F32) {
            rc = gguf_write_data(w, floats, n * sizeof *floats, e);
            continue;
        }
        encode_q8_0(blocks, floats, n);
        rc = gguf_write_data(w, blocks, n / ENCODE_BLOCK * ENCODE_Q8_0_BYTES, e);
    }
    return rc;
}

int heads_file_write(const struct heads_file *h, const char *path, bool force, char hex[65],
                     struct err *e)
{
    struct gguf_keys keys = {0};
    struct gguf_writer *w = NULL;
    size_t n = (size_t)(h->n_in > h->n_hidden ? h->n_in : h->n_hidden);
    float *floats = calloc(n, sizeof *floats);
    void *blocks = calloc(n / ENCODE_BLOCK + 1, ENCODE_Q8_0_BYTES);
    int rc = floats && blocks ? 0 : err_set(e, ERR_FAIL, "out of memory for retaining heads");
    if (!rc) rc = gguf_write_open(&w, path, force, e);
    if (!rc) rc = describe_tensors(h, w, e);
    describe(h, &keys);
    if (!rc) rc = gguf_write_begin(w, &keys, e);
    for (int i = 0; !rc && i < 2 * h->n_layer; i++)
        rc = write_tensor(h, w, i / 2, i % 2, floats, blocks, e);
    if (!rc) rc = gguf_write_commit(w, hex, e);
    gguf_write_close(w);
    gguf_keys_release(&keys);
    free(floats);
    free(blocks);
    return rc;
}
