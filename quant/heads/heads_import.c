#include "quant/heads/heads_import.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "cli/options/options.h"
#include "cli/print/report.h"
#include "quant/convert/safetensors.h"
#include "quant/heads/heads_calibrate.h"
#include "quant/heads/heads_file.h"
#include "runtime/forward/engine.h"
#include "runtime/model/blocks.h"

#define PIECES   7
#define SIDE_MAX 65536 /* hidden numbers, rank, base keys */

/* ---- sources --------------------------------------------------------------------------------- */

struct source {
    const char *author; /* for messages and the heads' file */
    enum retaining_form form;
    bool compares; /* its scores are logarithms of shares of attention in every head */
    /* The tensors of a layer: consecutive ones with the same part are its rows, one after another.
     * The first one tells the source from others. */
    struct {
        enum retaining_part part;
        const char *name; /* with %d for the layer */
    } pieces[PIECES];
};

static const struct source sources[] = {
    {.author = "Locret (arXiv 2410.01805)",
     .form = RETAINING_SILU,
     .pieces = {{RETAINING_W1, "model.layers.%d.self_attn.fc1.weight"},
                {RETAINING_W2, "model.layers.%d.self_attn.fc2.weight"}}},
    {.author = "KVzap (arXiv 2601.07891)",
     .form = RETAINING_GELU,
     .compares = true,
     .pieces = {{RETAINING_W1, "layers.%d.0.weight"},
                {RETAINING_BIAS1, "layers.%d.0.bias"},
                {RETAINING_W2, "layers.%d.2.weight"},
                {RETAINING_BIAS2, "layers.%d.2.bias"}}},
    {.author = "KVzap (arXiv 2601.07891)",
     .form = RETAINING_LINEAR,
     .compares = true,
     .pieces = {{RETAINING_W1, "layers.%d.weight"}, {RETAINING_BIAS1, "layers.%d.bias"}}},
    {.author = "Fast KVzip (arXiv 2601.17668)",
     .form = RETAINING_GATE,
     .compares = true,
     .pieces = {{RETAINING_W1, "module.%d.q_proj.weight"},
                {RETAINING_W1, "module.%d.k_proj.weight"},
                {RETAINING_BIAS1, "module.%d.q_proj.bias"},
                {RETAINING_NORMS, "module.%d.q_norm.weight"},
                {RETAINING_NORMS, "module.%d.k_norm.weight"},
                {RETAINING_BASE, "module.%d.k_base"},
                {RETAINING_BIAS2, "module.%d.b"}}},
};
#define N_SOURCES (sizeof sources / sizeof *sources)

struct import {
    const char *path;
    struct safetensors *file;
    const struct model *model;
    const struct source *source;
    struct retaining_shape shape;
    const struct safetensors_tensor *tensors[MODEL_LAYERS_MAX][PIECES];
};

static const struct safetensors_tensor *find(const struct import *m, const struct source *s,
                                             int piece, int layer)
{
    char name[80];
    snprintf(name, sizeof name, s->pieces[piece].name, layer);
    return safetensors_find(m->file, name);
}

static int find_source(struct import *m, struct err *e)
{
    for (size_t i = 0; i < N_SOURCES; i++)
        if (find(m, &sources[i], 0, 0)) {
            m->source = &sources[i];
            return 0;
        }
    return err_set(e, ERR_FORMAT,
                   "%s holds no retaining heads: it has neither "
                   "model.layers.0.self_attn.fc1.weight (Locret) nor layers.0.weight or "
                   "layers.0.0.weight (KVzap) nor module.0.q_proj.weight (Fast KVzip)",
                   m->path);
}

/* Locret: its scripts for InfiniteBench and L-Eval. KVzap: the window of its examples; it has a
 * threshold instead of a budget. Fast KVzip: keeps the newest 4,096 units, and 4 sinks. */
static struct retaining_settings settings_of(const struct import *m)
{
    switch (m->source->form) {
    case RETAINING_SILU:
        return m->model->n_kv_head == m->model->n_head
                   ? (struct retaining_settings){6000, 2500, 0, 3072}
                   : (struct retaining_settings){16384, 2500, 0, 1024};
    case RETAINING_GATE: return (struct retaining_settings){-1, 4096, 4, -1};
    default: return (struct retaining_settings){-1, 128, -1, -1};
    }
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Size i of a piece of the first layer; 0: it is missing or has fewer dimensions. */
static int side(const struct import *m, int piece, int i)
{
    const struct safetensors_tensor *x = find(m, m->source, piece, 0);
    return x && i < x->n_dims && x->shape[i] <= SIDE_MAX ? (int)x->shape[i] : 0;
}

static int read_shape(struct import *m, struct err *e)
{
    const struct model *model = m->model;
    const bool gate = m->source->form == RETAINING_GATE;
    struct retaining_shape *s = &m->shape;
    *s = (struct retaining_shape){.form = m->source->form,
                                  .n_layer = model->n_kv_layer,
                                  .n_in = retaining_n_in(m->source->form, model),
                                  .n_hidden = side(m, 0, 0),
                                  .n_head = model->n_kv_head};
    if (s->form == RETAINING_LINEAR) s->n_hidden = s->n_head;
    if (gate) {
        s->n_rank = side(m, 3, 0);
        s->n_base = side(m, 5, 2);
        s->n_hidden = s->n_rank * (model->n_head + model->n_kv_head);
    }
    if (s->n_hidden < 1 || (gate && s->n_base < 1))
        return err_set(e, ERR_FORMAT, "%s: the tensors of layer 0 do not have the shapes of %s",
                       m->path, m->source->author);
    if (find(m, m->source, 0, s->n_layer))
        return err_set(e, ERR_FORMAT,
                       "%s holds heads for more layers than the %d in which %s evicts units",
                       m->path, s->n_layer, model->name);
    return 0;
}

/* The rows of a piece: all of its part, or its share where two pieces are one part. */
static int rows_of(const struct import *m, int i, int n_rows)
{
    const enum retaining_part part = m->source->pieces[i].part;
    int keys = m->shape.n_head * m->shape.n_rank;
    if (m->source->form != RETAINING_GATE) return n_rows;
    if (part == RETAINING_NORMS) return 1;
    return part != RETAINING_W1 ? n_rows : i == 0 ? n_rows - keys : keys;
}

/* The tensor of piece i of a layer must have the shape that the model needs. */
static int bind(struct import *m, int layer, int i, struct err *e)
{
    const struct safetensors_tensor *x = find(m, m->source, i, layer);
    int n_rows, n_columns;
    int64_t n = 1;
    char name[80];
    retaining_part_shape(&m->shape, m->source->pieces[i].part, &n_rows, &n_columns);
    n_rows = rows_of(m, i, n_rows);
    for (int k = 0; x && k + 1 < x->n_dims; k++) n *= x->shape[k];
    m->tensors[layer][i] = x;
    if (x && x->type != SAFETENSORS_BYTES && x->n_dims > 0 && n == n_rows &&
        x->shape[x->n_dims - 1] == n_columns)
        return 0;
    snprintf(name, sizeof name, m->source->pieces[i].name, layer);
    return err_set(e, ERR_FORMAT, "%s: %s is missing or not %d x %d, as %s needs it", m->path, name,
                   n_rows, n_columns, m->model->name);
}

static int open_file(struct import *m, struct err *e)
{
    int rc = safetensors_open(&m->file, m->path, e);
    if (!rc) rc = find_source(m, e);
    if (!rc) rc = read_shape(m, e);
    for (int i = 0; !rc && i < m->shape.n_layer * PIECES; i++)
        if (m->source->pieces[i % PIECES].name) rc = bind(m, i / PIECES, i % PIECES, e);
    return rc;
}

/* ---- the heads ------------------------------------------------------------------------------- */

/* The row is in one of the pieces of the part. */
static int row(void *ctx, int layer, enum retaining_part part, int r, float *out, struct err *e)
{
    const struct import *m = ctx;
    int n_rows, n_columns;
    (void)e;
    retaining_part_shape(&m->shape, part, &n_rows, &n_columns);
    for (int i = 0; i < PIECES; i++) {
        const struct safetensors_tensor *t = m->tensors[layer][i];
        if (!t || m->source->pieces[i].part != part) continue;
        int64_t n = t->shape[0];
        for (int k = 1; k < t->n_dims; k++) n *= t->shape[k];
        if (r < n / n_columns) {
            const size_t bytes = gguf_row_bytes(t->type, n_columns);
            blocks_to_float(out, t->type, (const char *)t->data + (size_t)r * bytes,
                            (size_t)n_columns);
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
        .settings = settings_of(m),
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
    struct import m = {.path = o->args[1]};
    struct engine_opts alone = o->engine;
    struct engine *g = NULL;
    struct err e;
    char hex[65];
    int rc = 0;
    alone.heads = (struct engine_heads){.none = true};
    alone.verify = IDENTITY_VERIFY_FULL; /* the heads will be bound to the file's digest */
    if (o->n_args != 2 || !o->training.out)
        rc = err_set(&e, ERR_USAGE, "heads import takes one file, and --out FILE");
    if (!rc) rc = engine_prepare(&g, &alone, &e);
    if (!rc) m.model = g->model;
    if (!rc) rc = open_file(&m, &e);
    if (!rc) rc = write_heads(&m, g, o, hex, &e);
    bool compares = !rc && m.source->compares;
    bool text = o->training.text || o->training.data;
    safetensors_close(m.file);
    engine_close(g);
    if (rc) return report_error(&e);
    if (!compares && text) return calibrate(o);
    report_line("%s  %s", hex, o->training.out);
    if (!compares)
        report_note("these scores compare within a head only; with --text FILE import calibrates "
                    "them, so that policy keeper runs, and heads calibrate does it later");
    return 0;
}
