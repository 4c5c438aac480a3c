#include "runtime/model/tensor_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/model/blocks.h"

enum { ROWS_SAMPLED = 32 }; /* rows of every matrix */

static const char *const layouts[KN_TYPES] = {
    [KN_F32] = "float32",      [KN_F16] = "float16",      [KN_BF16] = "bfloat16",
    [KN_Q4] = "int4",          [KN_Q8] = "int8",          [KN_Q4A] = "int4 + min",
    [KN_Q5A] = "int5 + min",   [KN_Q6] = "int6",          [KN_IQ4] = "4-bit codes",
    [KN_IQ4S] = "4-bit codes", [KN_MX4] = "mxfp4",        [KN_NV4] = "nvfp4",
    [KN_Q4S] = "int4 + min",   [KN_Q3S] = "int3",         [KN_Q2S] = "int2 + min",
    [KN_IQ3X] = "4-bit codes", [KN_IQ3S] = "4-bit codes", [KN_IQ2] = "3-bit codes",
    [KN_IQ1] = "3-bit codes",
};

/* A row as it is in the file, and after conversion to the kernels' layout. */
struct rows {
    float *want, *got; /* [n_in] */
    void *packed;      /* one row of panels */
    double sum, off;   /* sums of squares, and of squared differences */
};

static int rows_init(struct rows *s, const struct kn_weight *w, struct err *e)
{
    s->want = malloc((size_t)w->n_in * sizeof *s->want);
    s->got = malloc((size_t)w->n_in * sizeof *s->got);
    s->packed = malloc(kn_weight_bytes(w->type, 1, w->n_in));
    if (s->want && s->got && s->packed) return 0;
    return err_set(e, ERR_FAIL, "out of memory for a row of weights");
}

static void rows_release(struct rows *s)
{
    free(s->want);
    free(s->got);
    free(s->packed);
}

static void measure_row(struct rows *s, const struct kn_weight *w, uint32_t type, const void *row)
{
    const struct kn_weight one = {.type = w->type, .n_out = 1, .n_in = w->n_in, .data = s->packed};
    memset(s->packed, 0, kn_weight_bytes(w->type, 1, w->n_in));
    blocks_pack(&one, 0, type, row);
    kn_table("ref")->row[w->type](s->got, &one, 0);
    blocks_to_float(s->want, type, row, (size_t)w->n_in);
    for (int i = 0; i < w->n_in; i++) {
        const double want = (double)s->want[i], off = (double)s->got[i] - want;
        s->sum += want * want;
        s->off += off * off;
    }
}

static size_t row_bytes(const struct model_load_item *it)
{
    const struct gguf_tensor_type *t = gguf_tensor_type(it->tensor->type);
    return (size_t)(it->weight->n_in / t->block) * (size_t)t->block_bytes;
}

/* Measures rows of the matrix, evenly spread. */
static int measure(struct rows *total, const struct model_load_item *it, struct err *e)
{
    const struct kn_weight *w = it->weight;
    const uint8_t *data = (const uint8_t *)it->tensor->data + (size_t)it->row0 * row_bytes(it);
    struct rows s = {.sum = total->sum, .off = total->off};
    int rc = rows_init(&s, w, e), step = (w->n_out + ROWS_SAMPLED - 1) / ROWS_SAMPLED;
    for (int r = step / 2; !rc && r < w->n_out; r += step)
        measure_row(&s, w, it->tensor->type, data + (size_t)r * row_bytes(it));
    rows_release(&s);
    total->sum = s.sum;
    total->off = s.off;
    return rc;
}

static int measure_type(struct tensor_report *c, const struct model *m, struct err *e)
{
    struct rows total = {0};
    for (int i = 0; i < m->n_items; i++) {
        const struct model_load_item *it = &m->items[i];
        if (!it->weight || it->tensor->type != c->tensor_type) continue;
        int rc = measure(&total, it, e);
        if (rc) return rc;
    }
    c->error = total.sum > 0 ? sqrt(total.off / total.sum) : 0;
    return 0;
}

static int add_item(struct tensor_report *out, int n, const struct model_load_item *it)
{
    const struct kn_weight *w = it->weight;
    int k = 0;
    while (k < n && out[k].tensor_type != it->tensor->type) k++;
    if (k == TENSOR_REPORTS_MAX) return n;
    struct tensor_report *c = &out[k];
    if (k == n)
        *c = (struct tensor_report){.tensor_type = it->tensor->type,
                                    .type = gguf_tensor_type(it->tensor->type)->name,
                                    .layout = layouts[w->type]};
    c->n_tensors++;
    c->n_weights += (int64_t)w->n_out * w->n_in;
    c->file_bytes += (size_t)w->n_out * row_bytes(it);
    c->bytes += kn_weight_bytes(w->type, w->n_out, w->n_in);
    return k == n ? n + 1 : n;
}

static int by_bytes(const void *a, const void *b)
{
    const struct tensor_report *x = a, *y = b;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

int tensor_report_list(struct tensor_report out[TENSOR_REPORTS_MAX], const struct model *m,
                       struct err *e)
{
    int n = 0;
    for (int i = 0; i < m->n_items; i++)
        if (m->items[i].weight) n = add_item(out, n, &m->items[i]);
    for (int i = 0; i < n; i++) {
        int rc = measure_type(&out[i], m, e);
        if (rc) return rc;
    }
    qsort(out, (size_t)n, sizeof *out, by_bytes);
    return n;
}
