/* quantize: converts a model in F32, F16 or BF16, from a GGUF file or a Hugging Face folder, to a
 * GGUF file in int4 (Q4_0) or int8 (Q8_0) that this program and llama.cpp load.
 *
 *   matrices          the requested type; F16 where the row length is not a multiple of 32
 *   output matrix     Q8_0 in either type: its rounding error directly changes the probabilities.
 *                     That is output.weight, or token_embd.weight where the output is tied to it
 *   experts in MXFP4  as they are, instead of int4: smaller, and nothing is rounded
 *   vectors, norms    F32
 *
 * Reads and writes tensor by tensor in blocks of rows, so memory stays below some tens of MiB
 * whatever the size of the model. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/pool.h"
#include "cli/commands/commands.h"
#include "cli/options/options.h"
#include "cli/print/report.h"
#include "quant/convert/encode.h"
#include "quant/convert/gguf_write.h"
#include "quant/convert/source.h"
#include "runtime/model/blocks.h"
#include "runtime/model/gguf.h"

#define BATCH_FLOATS  (4 << 20) /* 16 MiB of floats at once */
#define ROWS_PER_PART 8

enum { FILE_TYPE_Q4_0 = 2, FILE_TYPE_Q8_0 = 7, QUANTIZATION_VERSION = 2 };

/* ---- which type ------------------------------------------------------------------------------ */

static bool is_matrix(const struct source_tensor *t)
{
    return t->n_dims >= 2 && str_ends(t->name, ".weight") && !str_ends(t->name, "_norm.weight") &&
           !str_ends(t->name, "ffn_gate_inp.weight") && !str_ends(t->name, "conv1d.weight") &&
           !str_ends(t->name, "shortconv.conv.weight");
}

static bool has_output(const struct source *s)
{
    for (size_t i = 0; i < s->n_tensors; i++)
        if (!strcmp(s->tensors[i].name, "output.weight")) return true;
    return false;
}

static uint32_t choose_type(const struct source *s, const struct source_tensor *t, uint32_t wanted)
{
    const char *output = has_output(s) ? "output.weight" : "token_embd.weight";
    if (!is_matrix(t)) return GGUF_T_F32;
    if (t->ne[0] % ENCODE_BLOCK) return GGUF_T_F16;
    if (t->type == GGUF_T_MXFP4 && wanted == GGUF_T_Q4_0) return t->type;
    return strcmp(t->name, output) ? wanted : GGUF_T_Q8_0;
}

/* ---- one tensor ------------------------------------------------------------------------------ */

struct job {
    struct gguf_writer *out;
    struct source *source;
    struct pool *pool;
    uint32_t wanted;
    struct report_bar progress;
    int64_t done, total; /* numbers */
    float *floats;       /* [batch rows][row] */
    uint8_t *blocks;
    double error, energy; /* squared rounding error of quantized matrices, and sum of squares */
    int n_half;           /* matrices that were written as F16 */
};

/* Rows [first, first + n) of one tensor. */
struct batch {
    const struct job *job;
    const struct source_tensor *tensor;
    uint32_t type;
    size_t row_bytes; /* bytes of an output row */
    int64_t first, n;
    struct row {
        double error, energy; /* summed in a fixed order afterwards */
        int64_t bad;          /* the first column that can't be stored, or -1 */
    } * rows;                 /* [n] */
};

static void measure_row(const struct batch *b, int64_t i, const void *blocks, float *x)
{
    float decoded[ENCODE_BLOCK];
    const struct gguf_tensor_type *type = gguf_tensor_type(b->type);
    if (type->block != ENCODE_BLOCK) return;
    for (int64_t at = 0; at < b->tensor->ne[0]; at += ENCODE_BLOCK) {
        const uint8_t *block = (const uint8_t *)blocks + at / ENCODE_BLOCK * type->block_bytes;
        blocks_to_float(decoded, b->type, block, ENCODE_BLOCK);
        for (int j = 0; j < ENCODE_BLOCK; j++) {
            double miss = (double)x[at + j] - decoded[j];
            b->rows[i].error += miss * miss;
            b->rows[i].energy += (double)x[at + j] * x[at + j];
        }
    }
}

static void batch_part(void *ctx, int part, int thread)
{
    (void)thread;
    const struct batch *b = ctx;
    size_t n = (size_t)b->tensor->ne[0];
    int64_t end = (int64_t)(part + 1) * ROWS_PER_PART;
    /* Rows that already have the type are not rounded again. A vector in pair order is one row
     * whose numbers are permuted. */
    const bool copy = b->type == b->tensor->type && source_is_plain(b->tensor);
    for (int64_t i = (int64_t)part * ROWS_PER_PART; i < end && i < b->n; i++) {
        uint8_t *out = b->job->blocks + (size_t)i * b->row_bytes;
        float *x = b->job->floats + (size_t)i * n;
        b->rows[i] = (struct row){0, 0, -1};
        if (copy) {
            source_row_copy(b->tensor, b->first + i, out);
            continue;
        }
        source_row_floats(b->tensor, b->first + i, x);
        size_t bad = b->type == GGUF_T_F32 ? n : encode_check(x, n);
        if (bad < n)
            b->rows[i].bad = (int64_t)bad;
        else
            encode_row(b->type, out, x, n);
        if (bad == n) measure_row(b, i, out, x);
    }
}

static int check_batch(struct job *j, const struct batch *b, struct err *e)
{
    for (int64_t i = 0; i < b->n; i++) {
        j->error += b->rows[i].error;
        j->energy += b->rows[i].energy;
        if (b->rows[i].bad < 0) continue;
        float x = j->floats[i * b->tensor->ne[0] + b->rows[i].bad];
        return err_set(e, ERR_FORMAT,
                       "%s: tensor %s has %g in row %" PRId64 ", column %" PRId64
                       "; only numbers up to 65504 can be quantized: the model is damaged",
                       j->source->path, b->tensor->name, (double)x, b->first + i, b->rows[i].bad);
    }
    return 0;
}

static int run_batch(struct job *j, struct batch *b, struct err *e)
{
    int parts = (int)((b->n + ROWS_PER_PART - 1) / ROWS_PER_PART);
    pool_run(j->pool, parts, batch_part, b);
    int rc = check_batch(j, b, e);
    if (!rc) rc = gguf_write_data(j->out, j->blocks, (size_t)b->n * b->row_bytes, e);
    j->done += b->n * b->tensor->ne[0];
    if (!rc && report_bar_show(&j->progress, j->done, j->total))
        rc = err_set(e, ERR_STOP, "interrupted; nothing was written");
    return rc;
}

static int write_tensor(struct job *j, const struct source_tensor *t, struct err *e)
{
    int64_t all = source_rows(t), rows = BATCH_FLOATS / t->ne[0];
    if (rows < ROWS_PER_PART) rows = ROWS_PER_PART;
    if (rows > all) rows = all;
    uint32_t type = choose_type(j->source, t, j->wanted);
    struct batch b = {
        .job = j,
        .tensor = t,
        .type = type,
        .row_bytes = gguf_row_bytes(type, t->ne[0]),
        .rows = memory_new((size_t)rows, sizeof *b.rows),
    };
    j->floats = malloc((size_t)rows * (size_t)t->ne[0] * sizeof *j->floats);
    j->blocks = malloc((size_t)rows * b.row_bytes);
    j->n_half += type == GGUF_T_F16 && t->type != GGUF_T_F16;
    int rc =
        j->floats && j->blocks ? 0 : err_set(e, ERR_FAIL, "out of memory for tensor %s", t->name);
    for (b.first = 0; !rc && b.first < all; b.first += rows) {
        b.n = all - b.first < rows ? all - b.first : rows;
        rc = run_batch(j, &b, e);
    }
    source_forget(j->source, t);
    free(b.rows);
    free(j->floats);
    free(j->blocks);
    j->floats = NULL;
    j->blocks = NULL;
    return rc;
}

/* ---- the file -------------------------------------------------------------------------------- */

static int describe(struct job *j, struct err *e)
{
    struct source *s = j->source;
    int rc = 0;
    for (size_t i = 0; !rc && i < s->n_tensors; i++) {
        const struct source_tensor *t = &s->tensors[i];
        rc = gguf_write_tensor(j->out, t->name, choose_type(s, t, j->wanted), t->n_dims, t->ne, e);
        j->total += source_rows(t) * t->ne[0];
    }
    gguf_keys_u32(&s->keys, "general.file_type",
                  j->wanted == GGUF_T_Q4_0 ? FILE_TYPE_Q4_0 : FILE_TYPE_Q8_0);
    gguf_keys_u32(&s->keys, "general.quantization_version", QUANTIZATION_VERSION);
    if (!rc) rc = gguf_write_begin(j->out, &s->keys, e);
    return rc;
}

/* Writes `path` from `in`; hex: the digest of `path`. */
static int write_file(struct job *j, const char *in, const char *path, bool force, char hex[65],
                      struct err *e)
{
    j->progress = report_bar("quantizing");
    int rc = gguf_write_open(&j->out, path, force, e);
    if (!rc) rc = source_open(&j->source, in, e);
    if (!rc && *j->source->notice) report_note("%s", j->source->notice);
    if (!rc) rc = describe(j, e);
    for (size_t i = 0; !rc && i < j->source->n_tensors; i++)
        rc = write_tensor(j, &j->source->tensors[i], e);
    report_bar_end(&j->progress);
    if (!rc && report_interrupted()) rc = err_set(e, ERR_STOP, "interrupted; nothing was written");
    if (!rc) rc = gguf_write_commit(j->out, hex, e);
    gguf_write_close(j->out);
    source_close(j->source);
    return rc;
}

/* ---- the command ----------------------------------------------------------------------------- */

static void print_summary(const struct job *j, const struct options *o, const char *hex)
{
    if (j->n_half)
        report_note("%d matrices have rows that are not a multiple of %d and became F16", j->n_half,
                    ENCODE_BLOCK);
    if (j->energy > 0)
        report_note("%s: %" PRId64 " numbers, relative rounding error %.3g (squared)", o->args[1],
                    j->total, j->error / j->energy);
    report_line("%s  %s", hex, o->args[1]);
}

int cmd_quantize(const struct options *o)
{
    struct job j = {.wanted = o->quantize.type && !strcmp(o->quantize.type, "q8") ? GGUF_T_Q8_0
                                                                                  : GGUF_T_Q4_0};
    struct err e;
    char hex[65];
    int rc = 0;
    if (o->n_args != 2)
        rc = err_set(&e, ERR_USAGE,
                     "quantize takes two names: the model (a GGUF file or a folder "
                     "with safetensors) and the file to write");
    report_catch_interrupt();
    if (!rc) rc = gguf_write_check(o->args[1], o->force, &e);
    if (!rc) rc = pool_open(&j.pool, o->engine.threads, &e);
    if (!rc) rc = write_file(&j, o->args[0], o->args[1], o->force, hex, &e);
    if (!rc) print_summary(&j, o, hex);
    pool_close(j.pool);
    return rc ? report_error(&e) : 0;
}
