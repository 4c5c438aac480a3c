/* backend_cuda_parts: what the files of backend_cuda share. */
#ifndef RETAIN_RUNTIME_BACKEND_CUDA_PARTS_H
#define RETAIN_RUNTIME_BACKEND_CUDA_PARTS_H

#include "kernels/cuda/args.h"
#include "kernels/cuda/list.h"
#include "runtime/backend_cuda.h"
#include "runtime/cuda_driver.h"

enum cuda_kernel {
#define ENTRY(name, args) CUDA_KERNEL_##name,
    CUDA_KERNELS(ENTRY)
#undef ENTRY
        CUDA_N_KERNELS
};

struct cuda_matrix {
    enum kn_type type;
    struct cuda_weight w;
};

/* Matrices with one input and one output row: q, k and v are one where they lie together. */
#define CUDA_LINEAR_MAX 3
struct cuda_linear {
    int n;
    struct cuda_linear_part {
        struct cuda_matrix m;
        const float *bias; /* or NULL */
        int row0;          /* where its output begins */
    } part[CUDA_LINEAR_MAX];
};

struct cuda_layer {
    const float *attn_norm, *ffn_norm, *q_norm, *k_norm;
    struct cuda_linear qkv, o, gate, up, down;
    struct cuda_matrix w1; /* of the retaining head */
    const float *w2;
};

struct cuda_model {
    struct cuda_matrix *matrices; /* [n_items] of struct model */
    const float **vectors;        /* [n_items] */
    struct cuda_layer *layers;    /* [n_layer] */
    struct cuda_matrix embedding;
    struct cuda_linear output;
    const float *output_norm;
};

struct cuda {
    struct cuda_driver driver;
    struct cuda_device device;
    int handle; /* the driver's name of the device */
    struct CUctx_st *context;
    struct CUmod_st *module;
    struct CUstream_st *stream;
    struct CUfunc_st *kernels[CUDA_N_KERNELS];
    struct arena weights, heads; /* on the device */
    struct cuda_model model;
};

/* A driver's call on g, checked; fills *e and returns its code. */
#define CUDA_DO(g, e, function, ...) \
    CUDA_CALL(&(g)->driver, (g)->device.ordinal, e, function, __VA_ARGS__)

/* Makes the device's context the calling thread's. */
int cuda_enter(struct cuda *g, struct err *e);

/* Device memory as an arena; `tag` says in messages what it is for. */
int cuda_arena_init(struct cuda *g, struct arena *a, const char *tag, size_t bytes, struct err *e);
void cuda_arena_release(struct cuda *g, struct arena *a);

/* In the stream's order. From and to page-locked memory these return at once. */
int cuda_put(struct cuda *g, const void *to, const void *from, size_t bytes, struct err *e);
int cuda_get(struct cuda *g, void *to, const void *from, size_t bytes, struct err *e);
int cuda_wait(struct cuda *g, struct err *e);

#endif
