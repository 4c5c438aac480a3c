/* pack: weights from a GGUF file's blocks to the order in which the device reads them.
 *
 * Runs on the host, once, while loading. Layout: struct cuda_weight in args.h. */
#ifndef RETAIN_KERNELS_CUDA_PACK_H
#define RETAIN_KERNELS_CUDA_PACK_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of a matrix's quants (Q4 or Q8) and of its scales. */
size_t cuda_q4_bytes(int n_out, int n_in);
size_t cuda_q8_bytes(int n_out, int n_in);
size_t cuda_scale_bytes(int n_out, int n_in);

/* Packs row r from GGUF blocks of n_in / 32 groups: 18-byte Q4_0, 34-byte Q8_0. q and d were zeroed
 * before the first row. Lossless. */
void cuda_pack_q4(uint8_t *q, uint16_t *d, int r, int n_in, const void *blocks);
void cuda_pack_q8(uint8_t *q, uint16_t *d, int r, int n_in, const void *blocks);

#endif
