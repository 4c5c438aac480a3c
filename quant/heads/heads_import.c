#include "quant/heads/heads_import.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/options/options.h"
#include "cli/print/report.h"
#include "quant/convert/safetensors.h"
#include "quant/heads/heads_calibrate.h"
#include "quant/heads/heads_file.h"
#include "quant/heads/heads_source.h"
#include "runtime/forward/engine.h"

struct import {
    struct heads_tensors from;
    void *bytes;
    size_t n_bytes;
    const struct heads_source *source;
    struct retaining_shape shape;
    const struct safetensors_tensor *tensors[MODEL_LAYERS_MAX][HEADS_SOURCE_PIECES];
};

/* ---- the file -------------------------------------------------------------------------------- */

static int map(struct import *m, struct err *e)
{
    struct stat st;
    int fd = open(m->from.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st)) {
        if (fd >= 0) close(fd);
        return err_set(e, ERR_FORMAT, "%s cannot be read: %m", m->from.path);
    }
    void *p =
        st.st_size > 0 ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (p == MAP_FAILED)
        return err_set(e, ERR_FORMAT, "%s is empty or cannot be mapped", m->from.path);
    m->bytes = p;
    m->n_bytes = (size_t)st.st_size;
    return 0;
}

static int open_file(struct import *m, struct err *e)
{
    int rc = map(m, e);
    if (rc) return rc;
    if (m->n_bytes >= 2 && (!memcmp(m->bytes, "PK", 2) || !memcmp(m->bytes, "\x80\2", 2)))
        return err_set(e, ERR_FORMAT,
                       "%s was written by torch.save; convert it: "
                       "quant/heads/to_safetensors.py %s heads.safetensors",
                       m->from.path, m->from.path);
    return safetensors_open_bytes(&m->from.safetensors, m->bytes, m->n_bytes, m->from.path, e);
}

static void close_file(struct import *m)
{
    safetensors_close(m->from.safetensors);
    if (m->bytes) munmap(m->bytes, m->n_bytes);
}

/* ---- the tensors ----------------------------------------------------------------------------- */

static int bind(struct import *m, const struct model *model, struct err *e)
{
    m->source = heads_source_of(&m->from, e);
    if (!m->source) return e->code;
    int rc = heads_source_shape(m->source, &m->from, model, &m->shape, e);
    for (int i = 0; !rc && i < m->shape.n_layer * HEADS_SOURCE_PIECES; i++) {
        int layer = i / HEADS_SOURCE_PIECES, piece = i % HEADS_SOURCE_PIECES;
        if (!m->source->pieces[piece].name) continue;
        rc = heads_source_bind(m->source, &m->from, &m->shape, model, layer, piece,
                               &m->tensors[layer][piece], e);
    }
    return rc;
}

/* n numbers from number `at` of a tensor on. They are not aligned in the file. */
static void read_numbers(const struct safetensors_tensor *t, size_t at, size_t n, float *out)
{
    const size_t size = t->type == GGUF_T_F32 ? sizeof(float) : sizeof(uint16_t);
    const char *p = (const char *)t->data + at * size;
    if (t->type == GGUF_T_F32) memcpy(out, p, n * size);
    for (size_t i = 0; t->type != GGUF_T_F32 && i < n; i++) {
        uint16_t half;
        memcpy(&half, p + i * size, size);
        out[i] = t->type == GGUF_T_BF16 ? kn_float_from_bf16(half) : kn_float_from_half(half);
    }
}

/* The row is in one of the pieces of the part. */
static int row(void *ctx, int layer, enum retaining_part part, int r, float *out, struct err *e)
{
    const struct import *m = ctx;
    int n_rows, n_columns;
    (void)e;
    retaining_part_shape(&m->shape, part, &n_rows, &n_columns);
    for (int i = 0; i < HEADS_SOURCE_PIECES; i++) {
        const struct safetensors_tensor *t = m->tensors[layer][i];
        if (!t || m->source->pieces[i].part != part) continue;
        int64_t n = t->shape[0];
        for (int k = 1; k < t->n_dims; k++) n *= t->shape[k];
        if (r < n / n_columns) {
            read_numbers(t, (size_t)r * (size_t)n_columns, (size_t)n_columns, out);
            return 0;
        }
        r -= (int)(n / n_columns);
    }
    return 0;
}

static int write_heads(struct import *m, const struct engine *g, const struct options *o,
                       char hex[65], struct err *e)
{
    size_t n = (size_t)m->shape.n_layer * (size_t)m->shape.n_head;
    float *same = memory_new(2 * n, sizeof *same); /* means of 0, deviations of 1 */
    for (size_t i = 0; i < n; i++) same[n + i] = 1;
    struct heads_file f = {
        .model = g->model,
        .base_digest = g->model_digest,
        .author = m->source->author,
        .shape = m->shape,
        .settings = heads_source_settings(m->source, g->model),
        .label = m->source->compares ? "share" : NULL,
        .mean = m->source->compares ? same : NULL,
        .std = same + n,
        .row = row,
        .ctx = m,
    };
    int rc = heads_file_write(&f, o->training.out, o->force, hex, e);
    free(same);
    return rc;
}

/* Calibrates the heads that were written, if text is at hand and their scores do not compare. */
static int calibrate(const struct options *o)
{
    struct options next = *o;
    next.engine.heads = (struct engine_heads){.path = o->training.out};
    next.force = true;
    next.n_args = 1; /* the heads are no text */
    return heads_calibrate(&next);
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
        m.from.path = o->args[1];
    if (!rc) rc = engine_prepare(&g, &alone, &e);
    if (!rc) rc = open_file(&m, &e);
    if (!rc) rc = bind(&m, g->model, &e);
    if (!rc) rc = write_heads(&m, g, o, hex, &e);
    bool compares = !rc && m.source->compares;
    bool text = o->training.text || o->training.data;
    close_file(&m);
    engine_close(g);
    if (rc) return report_error(&e);
    if (!compares && text) return calibrate(o);
    report_line("%s  %s", hex, o->training.out);
    if (!compares)
        report_note("these scores compare within a head only; with --text FILE import calibrates "
                    "them, so that policy keeper runs, and heads calibrate does it later");
    return 0;
}
