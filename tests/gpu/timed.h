/* timed: what the parts of speed.c share: the device, random data on it, and rows of times. Each
 * part describes launches of its kernels as jobs; time_job prints a row with the time of a job and
 * its bound by the time model (ceilings.h). Errors end the program. */
#ifndef RETAIN_TESTS_GPU_TIMED_H
#define RETAIN_TESTS_GPU_TIMED_H

#include "kernels/cuda/pack.h"
#include "tests/gpu/ceilings.h"

enum { CHUNK = 1024, HIDDEN = 1024, UNITS_MAX = 65536, HEADS_MAX = 32, VOCABULARY = 128256 };

struct shape { /* of a model's layers */
    const char *name;
    int embd, ff, heads, group, dim;
};

extern struct timed {
    struct cuda *gpu;
    struct ceilings ceilings;
    const char *folder; /* of the program */
    int divisor;        /* of all sizes; 1 but for a dry run */
    struct err error;
    struct variant {   /* other kernels than the program's */
        char name[40]; /* empty: there are none */
        bool has[CUDA_N_KERNELS];
    } variant;

    /* random data on the device */
    char *weights, *units, *act, *floats, *out, *expanded;
    struct words {
        int32_t len[HEADS_MAX], keep[HEADS_MAX];
        uint32_t tickets[2 * HEADS_MAX], pos;
    } * words, words_host;
    int32_t *pages, *ids;
    uint32_t *pos, *key;
    size_t weights_bytes, units_bytes, expanded_bytes;

    /* what the next launches compute */
    struct shape shape;
    enum kn_type type;
    enum kn_kv kv;
    int n_out, n_in, n_tok, floats_tok, n_units, n_split;
} now;

extern const char *const timed_names[CUDA_N_KERNELS];

void timed_check(int rc); /* ends the program with now.error if rc is not 0 */
double seconds_since(int64_t t0);
int scaled(int n, int multiple); /* n / divisor, a multiple */
int parts_of(int n, int size);   /* n / size, rounded up */

/* ---- rows ------------------------------------------------------------------------------------ */

struct job { /* launches of one kernel, on copy i of its data */
    const char *name;
    enum cuda_kernel kernel;
    int grid[3], threads;
    size_t shared;
    struct work work; /* of one launch, without slots */
    double mma;       /* matrix instructions of one launch */
    int n_copies;
    void (*args)(int copy, void *out);
    bool together; /* blocks wait for each other */
};

void timed_head(void);
/* Of a variant only the kernels that it has. */
void time_job(const struct job *j, const char *model, const char *size);
/* Prints the program's rows that are farthest from their bounds. */
void timed_gaps(void);

/* ---- data ------------------------------------------------------------------------------------ */

void take_memory(void);
void use_shape(const struct shape *s);
int n_qkv(void);
float *floats(void);
float *out(void);
struct cuda_act act(void);
struct cuda_act made_act(void); /* for kernels that write it */

/* The matrix in `now`: its bytes, copy i, and a job without arguments for n_tok tokens. */
double weight_bytes(void);
struct cuda_weight weight_of(int copy);
struct job matrix_job(const char *name, enum cuda_kernel kernel, int n_tok, int n_matrices);

/* A layer's units in several copies. use_units returns false if there is no memory for as many. */
bool use_units(enum kn_kv kv, int n_units);
struct cuda_cache cache_of(int copy);
int cache_copies(void);
/* Bytes of a key of now.kv and its value, which is of Q4 beside a key of S5. */
double unit_bytes(void);
int splits_of(int n_units, int blocks);

/* ---- the parts ------------------------------------------------------------------------------- */

void time_matrices(bool all_formats); /* time_matrices.c */
void time_attention(void);            /* time_attention.c */
void time_cache(void);                /* time_cache.c */
void time_sampling(void);

#endif
