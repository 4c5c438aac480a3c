#include "quant/heads/heads_import.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/options/options.h"
#include "cli/print/report.h"
#include "quant/convert/safetensors.h"
#include "quant/heads/heads_file.h"
#include "quant/heads/torch_file.h"
#include "runtime/forward/engine.h"

#define ROW_MAX (1 << 20)

struct import {
    const char *path;
    void *bytes;
    size_t n_bytes;
    struct torch_file *torch;
    struct safetensors *safetensors;
    int n_layer;
    const struct safetensors_tensor *tensors[MODEL_LAYERS_MAX][2];
};

/* ---- the file -------------------------------------------------------------------------------- */

static int map(struct import *m, struct err *e)
{
    struct stat st;
    int fd = open(m->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) {
        if (fd >= 0) close(fd);
        return err_set(e, ERR_FORMAT, "%s cannot be read: %m", m->path);
    }
    void *p =
        st.st_size > 0 ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (p == MAP_FAILED) return err_set(e, ERR_FORMAT, "%s is empty or cannot be mapped", m->path);
    m->bytes = p;
    m->n_bytes = (size_t)st.st_size;
    return 0;
}

static int open_file(struct import *m, struct err *e)
{
    int rc = map(m, e);
    if (rc) return rc;
    if (torch_file_is(m->bytes, m->n_bytes))
        return torch_file_open(&m->torch, m->bytes, m->n_bytes, m->path, e);
    if (*(const unsigned char *)m->bytes == 0x80)
        return err_set(e, ERR_FORMAT,
                       "%s is a pickle as written by PyTorch before version 1.6; load it and save "
                       "it again with torch.save",
                       m->path);
    return safetensors_open_bytes(&m->safetensors, m->bytes, m->n_bytes, m->path, e);
}

static void close_file(struct import *m)
{
    torch_file_close(m->torch);
    safetensors_close(m->safetensors);
    if (m->bytes) munmap(m->bytes, m->n_bytes);
}

/* ---- the tensors ----------------------------------------------------------------------------- */

static const struct safetensors_tensor *find(const struct import *m, int layer, int which)
{
    char name[80];
    snprintf(name, sizeof name, "model.layers.%d.self_attn.fc%d.weight", layer, which + 1);
    return m->torch ? torch_file_find(m->torch, name) : safetensors_find(m->safetensors, name);
}

/* ERR_FORMAT unless every layer has both matrices in the shapes that the model needs. */
static int bind(struct import *m, const struct model *model, struct err *e)
{
    int n_in = (model->n_head + 2 * model->n_kv_head) * model->head_dim;
    const struct safetensors_tensor *first = find(m, 0, 0);
    int64_t n_hidden = first && first->n_dims == 2 ? first->shape[0] : 0;
    if (n_hidden < 1 || n_hidden > ROW_MAX)
        return err_set(e, ERR_FORMAT,
                       "%s holds no retaining heads: model.layers.0.self_attn.fc1.weight is "
                       "missing or not a matrix",
                       m->path);
    if (find(m, model->n_kv_layer, 0))
        return err_set(e, ERR_FORMAT, "%s holds heads for more than the %d layers of %s", m->path,
                       model->n_kv_layer, model->name);
    for (int i = 0; i < 2 * model->n_kv_layer; i++) {
        const struct safetensors_tensor *t = find(m, i / 2, i % 2);
        int64_t rows = i % 2 ? model->n_kv_head : n_hidden, length = i % 2 ? n_hidden : n_in;
        if (!t || t->n_dims != 2 || t->shape[0] != rows || t->shape[1] != length)
            return err_set(e, ERR_FORMAT,
                           "%s: model.layers.%d.self_attn.fc%d.weight is missing or not %lld x "
                           "%lld, as %s needs it",
                           m->path, i / 2, i % 2 + 1, (long long)rows, (long long)length,
                           model->name);
        m->tensors[i / 2][i % 2] = t;
    }
    m->n_layer = model->n_kv_layer;
    return 0;
}

/* Rows are not aligned in the file. */
static int row(void *ctx, int layer, int which, int r, float *out, struct err *e)
{
    const struct import *m = ctx;
    const struct safetensors_tensor *t = m->tensors[layer][which];
    size_t n = (size_t)t->shape[1], bytes = t->bytes / (size_t)t->shape[0];
    const char *p = (const char *)t->data + (size_t)r * bytes;
    (void)e;
    if (t->type == GGUF_T_F32) memcpy(out, p, bytes);
    for (size_t i = 0; t->type != GGUF_T_F32 && i < n; i++) {
        uint16_t half;
        memcpy(&half, p + i * sizeof half, sizeof half);
        out[i] = t->type == GGUF_T_BF16 ? kn_float_from_bf16(half) : kn_float_from_half(half);
    }
    return 0;
}

static int write_heads(struct import *m, const struct engine *g, const struct options *o,
                       char hex[65], struct err *e)
{
    char name[128];
    snprintf(name, sizeof name, "retaining heads of %.96s", g->model->name);
    struct heads_file f = {
        .name = name,
        .base_digest = g->model_digest,
        .n_layer = m->n_layer,
        .n_in = (int)m->tensors[0][0]->shape[1],
        .n_hidden = (int)m->tensors[0][0]->shape[0],
        .n_head = g->model->n_kv_head,
        .row = row,
        .ctx = m,
    };
    return heads_file_write(&f, o->training.out, o->force, hex, e);
}

int heads_import(const struct options *o)
{
    struct import m = {0};
    struct engine_opts alone = o->engine;
    struct engine *g = NULL;
    struct err e;
    char hex[65];
    int rc = 0;
    alone.heads = (struct engine_heads){.none = true};
    alone.verify = IDENTITY_VERIFY_FULL; /* the heads will be bound to the file's digest */
    if (o->n_args != 2 || !o->training.out)
        rc = err_set(&e, ERR_USAGE, "heads import takes one file, and --out FILE");
    else
        m.path = o->args[1];
    if (!rc) rc = engine_prepare(&g, &alone, &e);
    if (!rc) rc = open_file(&m, &e);
    if (!rc) rc = bind(&m, g->model, &e);
    if (!rc) rc = write_heads(&m, g, o, hex, &e);
    if (!rc) report_line("%s  %s", hex, o->training.out);
    close_file(&m);
    engine_close(g);
    return rc ? report_error(&e) : 0;
}
