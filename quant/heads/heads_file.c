#include "quant/heads/heads_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "quant/convert/encode.h"
#include "quant/convert/gguf_write.h"

#define HALF_MAX 65504.0f

static uint32_t type_of(const struct heads_file *h, enum retaining_part part)
{
    if (part != RETAINING_W1) return GGUF_T_F32;
    if (h->shape.form != RETAINING_SILU) return GGUF_T_F16;
    return h->shape.n_in % ENCODE_BLOCK == 0 ? GGUF_T_Q8_0 : GGUF_T_F32;
}

static void describe_settings(struct retaining_settings s, struct gguf_keys *k)
{
    const char *name;
    char key[64];
    for (int i = 0, *v; (v = retaining_setting(&s, i, &name)); i++) {
        snprintf(key, sizeof key, "retain.heads.%s", name);
        if (*v >= 0) gguf_keys_u32(k, key, (uint32_t)*v);
    }
}

static void describe(const struct heads_file *h, struct gguf_keys *k)
{
    const struct retaining_shape *s = &h->shape;
    size_t n = (size_t)s->n_layer * (size_t)s->n_head;
    char name[128], key[65];
    snprintf(name, sizeof name, "retaining heads of %.96s", h->model->name);
    retaining_key(h->model, key);
    gguf_keys_str(k, "general.type", "retaining-heads");
    gguf_keys_str(k, "general.name", name);
    if (h->author && *h->author) gguf_keys_str(k, "general.author", h->author);
    gguf_keys_u32(k, "retain.heads.version", 1);
    if (h->base_digest) gguf_keys_str(k, "retain.heads.base_digest", h->base_digest);
    gguf_keys_str(k, "retain.heads.model_key", key);
    gguf_keys_u32(k, "retain.heads.block_count", (uint32_t)s->n_layer);
    gguf_keys_u32(k, "retain.heads.input_length", (uint32_t)s->n_in);
    gguf_keys_u32(k, "retain.heads.hidden_length", (uint32_t)s->n_hidden);
    gguf_keys_u32(k, "retain.heads.head_count_kv", (uint32_t)s->n_head);
    gguf_keys_str(k, "retain.heads.activation", retaining_form_name(s->form));
    if (s->form == RETAINING_GATE) {
        gguf_keys_u32(k, "retain.heads.rank", (uint32_t)s->n_rank);
        gguf_keys_u32(k, "retain.heads.base_count", (uint32_t)s->n_base);
    }
    if (h->n_unit) gguf_keys_u32(k, "retain.heads.unit_length", (uint32_t)h->n_unit);
    describe_settings(h->settings, k);
    if (h->label) gguf_keys_str(k, "retain.heads.label", h->label);
    if (!h->mean) return;
    gguf_keys_array(k, "retain.heads.label_mean", GGUF_F32, n, h->mean, n * sizeof(float));
    gguf_keys_array(k, "retain.heads.label_std", GGUF_F32, n, h->std, n * sizeof(float));
}

/* Whether the type can hold all n numbers. */
static bool holds(uint32_t type, const float *x, size_t n)
{
    for (size_t i = 0; type == GGUF_T_F16 && i < n; i++)
        if (fabsf(x[i]) > HALF_MAX) return false;
    return encode_check(x, n) == n;
}

/* Calls f for each part of each layer that the form has. */
static int each_part(const struct heads_file *h,
                     int (*f)(const struct heads_file *h, int layer, enum retaining_part part,
                              int n_rows, int n_columns, void *ctx, struct err *e),
                     void *ctx, struct err *e)
{
    int rc = 0, n_rows, n_columns;
    for (int i = 0; !rc && i < h->shape.n_layer * RETAINING_PARTS; i++) {
        enum retaining_part part = (enum retaining_part)(i % RETAINING_PARTS);
        if (retaining_part_shape(&h->shape, part, &n_rows, &n_columns))
            rc = f(h, i / RETAINING_PARTS, part, n_rows, n_columns, ctx, e);
    }
    return rc;
}

static int describe_part(const struct heads_file *h, int layer, enum retaining_part part,
                         int n_rows, int n_columns, void *ctx, struct err *e)
{
    char name[64];
    int64_t ne[] = {n_columns, n_rows};
    retaining_part_name(name, layer, part);
    return gguf_write_tensor(ctx, name, type_of(h, part), 2, ne, e);
}

struct writing {
    struct gguf_writer *w;
    float *floats; /* buffers for the longest row */
    void *blocks;
};

static int write_part(const struct heads_file *h, int layer, enum retaining_part part, int n_rows,
                      int n_columns, void *ctx, struct err *e)
{
    const struct writing *w = ctx;
    const uint32_t type = type_of(h, part);
    size_t n = (size_t)n_columns;
    int rc = 0;
    for (int r = 0; !rc && r < n_rows; r++) {
        rc = h->row(h->ctx, layer, part, r, w->floats, e);
        if (!rc && !holds(type, w->floats, n))
            rc = err_set(e, ERR_FORMAT,
                         "layer %d: row %d holds a number that is not finite or too large", layer,
                         r);
        if (rc) break;
        encode_row(type, w->blocks, w->floats, n);
        rc = gguf_write_data(w->w, w->blocks, gguf_row_bytes(type, n_columns), e);
    }
    return rc;
}

int heads_file_write(const struct heads_file *h, const char *path, bool force, char hex[65],
                     struct err *e)
{
    struct gguf_keys keys = {0};
    const struct retaining_shape *s = &h->shape;
    size_t n = (size_t)(s->n_in > s->n_hidden ? s->n_in : s->n_hidden);
    struct writing w = {.floats = memory_new(n, sizeof(float)),
                        .blocks = memory_new(n, sizeof(float))};
    int rc = gguf_write_open(&w.w, path, force, e);
    if (!rc) rc = each_part(h, describe_part, w.w, e);
    describe(h, &keys);
    if (!rc) rc = gguf_write_begin(w.w, &keys, e);
    if (!rc) rc = each_part(h, write_part, &w, e);
    if (!rc) rc = gguf_write_commit(w.w, hex, e);
    gguf_write_close(w.w);
    gguf_keys_release(&keys);
    free(w.floats);
    free(w.blocks);
    return rc;
}
