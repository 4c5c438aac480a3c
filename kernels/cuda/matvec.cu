/* matvec: y = W x for 1 to 8 tokens: determines the speed of generation. Bound by the weights'
 * bytes: each is read once, 16 bytes per lane, directly into the registers of the matrix
 * instructions; eight tokens take as long as one. */
#include "kernels/cuda/matvec.cuh"

KERNEL_OF(matvec_q4, struct cuda_matvec, CUDA_MATVEC_THREADS, 2, compute_one<CUDA_Q4>)
KERNEL_OF(matvec_q8, struct cuda_matvec, CUDA_MATVEC_THREADS, 2, compute_one<CUDA_Q8>)
KERNEL_OF(matvec_q4a, struct cuda_matvec, CUDA_MATVEC_THREADS, 2, compute_one<CUDA_Q4A>)
KERNEL_OF(matvec_q5a, struct cuda_matvec, CUDA_MATVEC_THREADS, 2, compute_one<CUDA_Q5A>)
KERNEL_OF(matvec_q6, struct cuda_matvec, CUDA_MATVEC_THREADS, 2, compute_one<CUDA_Q6>)
KERNEL_OF(matvec_gate_q4, struct cuda_matvec_gate, CUDA_MATVEC_THREADS, 2, compute_one<CUDA_Q4>)
KERNEL_OF(matvec_gate_q8, struct cuda_matvec_gate, CUDA_MATVEC_THREADS, 2, compute_one<CUDA_Q8>)
KERNEL_OF(matvec_gate_q4a, struct cuda_matvec_gate, CUDA_MATVEC_THREADS, 2, compute_one<CUDA_Q4A>)
KERNEL_OF(matvec_gate_q5a, struct cuda_matvec_gate, CUDA_MATVEC_THREADS, 2, compute_one<CUDA_Q5A>)
KERNEL_OF(matvec_gate_q6, struct cuda_matvec_gate, CUDA_MATVEC_THREADS, 2, compute_one<CUDA_Q6>)

/* A number of a tile, before its scale. */
template <int FORMAT> DEVICE int quant_at(const uint8_t *tile, int row, int c)
{
    const int group = c % 64 / 32, half = c % 32 / 16, t = c % 16 / 4, i = c % 4, r8 = row / 8;
    const int lane = row % 8 * 4 + t, pair = row % 8 * 4 + group * 2 + r8;

    if (FORMAT == CUDA_Q8) return (int8_t)tile[group * 512 + lane * 16 + half * 8 + r8 * 4 + i];
    const int low = tile[lane * 16 + group * 8 + r8 * 4 + i] >> 4 * half & 15;
    if (FORMAT == CUDA_Q4) return (low ^ 8) - 8;
    if (FORMAT == CUDA_Q4A) return low;
    if (FORMAT == CUDA_Q5A) return low | (tile[512 + pair * 4 + i] >> (t + 4 * half) & 1) << 4;
    return (low | (tile[512 + (pair * 2 + half) * 4 + i] >> 2 * t & 3) << 4) - 32;
}

/* Rows of a matrix as floats. A thread takes columns; the layout gives a column's place. */
template <int FORMAT> DEVICE void embed(const struct cuda_embed &a)
{
    enum { WIDE = weights<FORMAT>::WIDE };
    const int r = a.ids[block_x()], row = r % 16, n_block = n_block_of(a.w.n_in);
    const int64_t panel = (int64_t)(r / 16) * n_block;

    for (int c = thread_id(); c < a.w.n_in; c += 128) {
        const int64_t tile = panel + c / 64;
        const int pair = row % 8 * 4 + c % 64 / 32 * 2 + row / 8;
        const uint16_t *d = a.w.d + (tile * 32 + pair) * (1 + WIDE);
        const int q = quant_at<FORMAT>((const uint8_t *)a.w.q + tile * CUDA_TILE_BYTES(FORMAT), row, c);
        const bool second = FORMAT == CUDA_Q6 && c % 32 >= 16;
        float x = half_float(d[second]) * (float)q;

        if (WIDE && FORMAT != CUDA_Q6) x += half_float(d[WIDE]);
        a.x[(int64_t)block_x() * a.w.n_in + c] = x * a.scale;
    }
}

KERNEL_OF(embed_q4, struct cuda_embed, 128, 1, embed<CUDA_Q4>)
KERNEL_OF(embed_q8, struct cuda_embed, 128, 1, embed<CUDA_Q8>)
KERNEL_OF(embed_q4a, struct cuda_embed, 128, 1, embed<CUDA_Q4A>)
KERNEL_OF(embed_q5a, struct cuda_embed, 128, 1, embed<CUDA_Q5A>)
KERNEL_OF(embed_q6, struct cuda_embed, 128, 1, embed<CUDA_Q6>)
