/* Matrices, and the rows between them. */
#include "tests/gpu/timed.h"

#include <stdio.h>

/* ---- matrices -------------------------------------------------------------------------------- */

static void vector_args(int copy, void *to)
{
    *(struct cuda_matvec *)to = (struct cuda_matvec){.w = weight_of(copy),
                                                     .x = act(),
                                                     .n_tok = 1,
                                                     .scale = 1.0f,
                                                     .y = out(),
                                                     .y_stride = now.n_out};
}

static void matrix_args(int copy, void *to)
{
    vector_args(copy, to);
    ((struct cuda_matvec *)to)->n_tok = now.n_tok;
}

static void gate_args(int copy, void *to)
{
    *(struct cuda_matvec_gate *)to = (struct cuda_matvec_gate){
        .gate = weight_of(2 * copy),
        .up = weight_of(2 * copy + 1),
        .x = act(),
        .n_tok = 1,
        .act = {(int8_t *)now.out, (struct cuda_scale *)(void *)now.floats},
        .made = {floats(), floats(), 1e-5f}};
}

/* Gate and up, then down: weights of the same size. */
static void chain_args(int copy, void *to)
{
    struct cuda_chain *c = to;
    const struct cuda_weight down = weight_of(3 * copy + 2);
    *c = (struct cuda_chain){.n = 2, .ended = now.words->tickets};
    gate_args(copy, &c->steps[0].gate);
    c->steps[0].gate.gate = weight_of(3 * copy);
    c->steps[0].gate.up = weight_of(3 * copy + 1);
    c->steps[0].gates = 1;
    vector_args(copy, &c->steps[1].product);
    c->steps[1].product.w = (struct cuda_weight){down.q, down.d, down.n_in, down.n_out};
    c->steps[1].waits = 1;
}

static void time_together(int n_matrices, int n_blocks, void (*args)(int, void *),
                          const char *model, const char *size)
{
    const int most = CUDA_CHAIN_BLOCKS * now.gpu->device.n_sm;
    struct job j = matrix_job("chain", CUDA_KERNEL_chain, 1, n_matrices);
    j.grid[0] = n_blocks < most ? n_blocks : most;
    j.shared = CUDA_MATVEC_SHARED_MADE(now.n_in);
    j.args = args;
    j.together = true;
    time_job(&j, model, size);
}

/* Steps of the smallest model's shape, which wait for each other: their times differ by those of
 * waits. */
static void steps_args(int copy, void *to)
{
    struct cuda_chain *c = to;
    *c = (struct cuda_chain){.n = now.n_split, .ended = now.words->tickets};
    for (int i = 0; i < c->n; i++) {
        vector_args(c->n * copy + i, &c->steps[i].product);
        c->steps[i].product.made = (struct cuda_input){floats(), floats(), 1e-5f};
        c->steps[i].waits = 1;
    }
}

static void time_steps(void)
{
    now.n_out = now.n_in = 576;
    for (int n = 1; n <= CUDA_CHAIN_MAX; n += CUDA_CHAIN_MAX - 1) {
        char size[16];
        now.n_split = n;
        snprintf(size, sizeof size, "q4 x %d", n);
        time_together(n, now.n_out / 16, steps_args, "576", size);
    }
}

static const struct format {
    const char *name;
    enum kn_type type;
    enum cuda_kernel matvec, gate, matmul;
} formats[] = {
#define FORMAT(name, type)                                                      \
    {                                                                           \
#name, type, CUDA_KERNEL_matvec_##name, CUDA_KERNEL_matvec_gate_##name, \
            CUDA_KERNEL_matmul_##name                                           \
    }
    FORMAT(q4, KN_Q4),   FORMAT(q8, KN_Q8), FORMAT(q4a, KN_Q4A),
    FORMAT(q5a, KN_Q5A), FORMAT(q6, KN_Q6),
#undef FORMAT
};

static void time_format(const struct format *f)
{
    const char *model = now.shape.name;
    now.type = f->type, now.n_out = now.shape.ff, now.n_in = now.shape.embd;
    struct job one = matrix_job("matvec", f->matvec, 1, 1), two = matrix_job("gate", f->gate, 1, 2);
    one.args = vector_args;
    time_job(&one, model, f->name);
    two.grid[0] = now.n_out / 32;
    two.shared = CUDA_MATVEC_SHARED_MADE(now.n_in);
    two.args = gate_args;
    time_job(&two, model, f->name);
    if (f->type == KN_Q4 && now.gpu->device.chain_blocks)
        time_together(3, now.n_out / 32, chain_args, model, "q4");
    struct job many = matrix_job("matmul", f->matmul, now.n_tok, 1);
    many.grid[0] = parts_of(now.n_out, CUDA_MATMUL_ROWS);
    many.grid[1] = parts_of(now.n_tok, CUDA_MATMUL_TOKENS);
    many.threads = CUDA_MATMUL_THREADS;
    many.shared = CUDA_MATMUL_SHARED;
    many.args = matrix_args;
    time_job(&many, model, f->name);
}

/* ---- rows between matrices ------------------------------------------------------------------- */

static void norm_args(int copy, void *to)
{
    *(struct cuda_norm *)to = (struct cuda_norm){.x = floats(),
                                                 .x_stride = now.n_in,
                                                 .w = floats(),
                                                 .n = now.n_in,
                                                 .eps = 1e-5f,
                                                 .act = made_act()};
}

static void silu_args(int copy, void *to)
{
    *(struct cuda_gate *)to =
        (struct cuda_gate){.gate = floats(), .up = out(), .n = now.n_out, .act = made_act()};
}

static void embed_args(int copy, void *to)
{
    *(struct cuda_embed *)to = (struct cuda_embed){weight_of(copy), now.ids, 1.0f, out()};
}

static void rows_between(void)
{
    struct job j = {.name = "norm_quantize",
                    .kernel = CUDA_KERNEL_norm_quantize,
                    .grid = {now.n_tok, 1, 1},
                    .threads = CUDA_NORM_THREADS,
                    .shared = 32,
                    .n_copies = 1,
                    .args = norm_args};
    now.type = KN_Q4, now.n_out = now.shape.ff, now.n_in = now.shape.embd;
    j.work.bytes = 5.25 * now.n_tok * now.n_in;
    time_job(&j, now.shape.name, "chunk");
    j.name = "gate_quantize", j.kernel = CUDA_KERNEL_gate_quantize, j.args = silu_args;
    j.work.bytes = 9.25 * now.n_tok * now.n_out;
    j.grid[1] = parts_of(now.n_out, CUDA_NORM_THREADS * 4);
    time_job(&j, now.shape.name, "chunk");
    j.grid[1] = 1;
    j.name = "embed", j.kernel = CUDA_KERNEL_embed_q4, j.args = embed_args, j.threads = 128;
    j.work.bytes = 4.5625 * now.n_tok * now.n_in;
    time_job(&j, now.shape.name, "q4");
}

/* ---- matrices of floats ---------------------------------------------------------------------- */

static void floats_args(int copy, void *to)
{
    const size_t bytes = (size_t)now.n_out * (size_t)now.n_in * 2;
    *(struct cuda_floats *)to = (struct cuda_floats){.w = now.weights + (size_t)copy * bytes,
                                                     .n_out = now.n_out,
                                                     .n_in = now.n_in,
                                                     .x = floats(),
                                                     .x_stride = now.n_in,
                                                     .n_tok = now.floats_tok,
                                                     .scale = 1.0f,
                                                     .y = out(),
                                                     .y_stride = now.n_out};
}

/* Of a chunk: two products of halves for each of floats. */
static void matrices_of_floats(void)
{
    now.n_out = now.shape.ff, now.n_in = now.shape.embd;
    const double bytes = 2.0 * now.n_out * now.n_in;
    const int n_copies = (int)((double)now.weights_bytes / bytes);
    struct job j = {.name = "matvec",
                    .kernel = CUDA_KERNEL_matvec_f16,
                    .grid = {parts_of(now.n_out, 8), 1, 1},
                    .threads = CUDA_FLOATS_THREADS,
                    .work.bytes = bytes,
                    .n_copies = n_copies > 1 ? n_copies : 1,
                    .args = floats_args};
    if (bytes > (double)now.weights_bytes) return;
    now.floats_tok = 1;
    time_job(&j, now.shape.name, "f16");
    now.floats_tok = now.n_tok;
    j.name = "matmul", j.kernel = CUDA_KERNEL_matmul_f16, j.shared = CUDA_FLOATS_SHARED;
    j.grid[0] = parts_of(now.n_out, CUDA_FLOATS_TILE);
    j.grid[1] = parts_of(now.n_tok, CUDA_FLOATS_TILE);
    j.work.f16 = 2.0 * now.n_tok * now.n_out * now.n_in;
    time_job(&j, now.shape.name, "f16");
}

/* ---- all ------------------------------------------------------------------------------------- */

void time_matrices(bool all_formats)
{
    const int n = all_formats ? (int)(sizeof formats / sizeof *formats) : 1;
    for (int i = 0; i < n; i++) time_format(&formats[i]);
    if (all_formats) matrices_of_floats();
    if (all_formats && now.gpu->device.chain_blocks) time_steps();
    rows_between();
}
