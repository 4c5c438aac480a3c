#include "runtime/cuda/parts.h"

/* Formats of quantized weights, and the kernels of a chain of one step. */
static const enum cuda_format format_of[] = {
    [KN_Q4] = CUDA_Q4,   [KN_Q8] = CUDA_Q8, [KN_Q4A] = CUDA_Q4A,
    [KN_Q5A] = CUDA_Q5A, [KN_Q6] = CUDA_Q6,
};
static const enum cuda_kernel product_of[] = {CUDA_OF_QUANTS(matvec)};
static const enum cuda_kernel gate_of[] = {CUDA_OF_QUANTS(matvec_gate)};

static int blocks_of(const struct cuda_chain_step *s)
{
    return s->gates ? s->gate.gate.n_out / 32 : cuda_parts_of(s->product.w.n_out, KN_PANEL);
}

static size_t shared_of(const struct cuda_chain_step *s)
{
    const struct cuda_input *made = s->gates ? &s->gate.made : &s->product.made;
    const int n_in = s->gates ? s->gate.gate.n_in : s->product.w.n_in;
    if ((s->gates ? s->gate.n_tok : s->product.n_tok) > 1) return CUDA_MATVEC_SUMS;
    return made->x ? CUDA_MATVEC_SHARED_MADE(n_in) : CUDA_MATVEC_SHARED;
}

static void launch_step(struct cuda_context *x, enum kn_type type, const struct cuda_chain_step *s)
{
    const void *job = s->gates ? (const void *)&s->gate : (const void *)&s->product;
    cuda_launch(x, s->gates ? gate_of[type] : product_of[type], blocks_of(s), 1, 1,
                CUDA_MATVEC_THREADS, shared_of(s), job);
}

static void add(struct cuda_context *x, enum kn_type type, const struct cuda_chain_step *s)
{
    struct cuda_chain *c = &x->chain.job;
    if (!x->chain.records) {
        launch_step(x, type, s);
        return;
    }
    if (c->n == CUDA_CHAIN_MAX) cuda_end_chain(x);
    if (!c->n) x->chain.type = type;
    c->steps[c->n] = *s;
    c->steps[c->n].format = format_of[type];
    c->n++;
}

void cuda_add_product(struct cuda_context *x, enum kn_type type, const struct cuda_matvec *job,
                      bool waits)
{
    const struct cuda_chain_step s = {.waits = waits, .product = *job};
    add(x, type, &s);
}

void cuda_add_gate(struct cuda_context *x, enum kn_type type, const struct cuda_matvec_gate *job)
{
    const struct cuda_chain_step s = {.gates = 1, .waits = 1, .gate = *job};
    add(x, type, &s);
}

void cuda_end_chain(struct cuda_context *x)
{
    struct cuda_chain job = x->chain.job;
    int blocks = x->g->device.chain_blocks, most = 0;
    size_t shared = 0;
    if (!job.n) return;
    x->chain.job.n = 0;
    if (job.n == 1) {
        launch_step(x, x->chain.type, &job.steps[0]);
        return;
    }
    for (int i = 0; i < job.n; i++) {
        const struct cuda_chain_step *s = &job.steps[i];
        if (blocks_of(s) > most) most = blocks_of(s);
        if (shared_of(s) > shared) shared = shared_of(s);
    }
    job.steps[0].waits = 0;
    job.ended = x->tickets + x->m->n_kv_head;
    if (blocks > most) blocks = most;
    cuda_launch_together(x, CUDA_KERNEL_chain, blocks, CUDA_MATVEC_THREADS, shared, &job);
}
