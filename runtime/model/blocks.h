/* blocks: rows of a GGUF tensor as numbers, and in the layout that kernels compute.
 *
 * blocks_to_float is the reference: bit-exact to the definition of every format, for norms, for
 * --weights f32 and for tests. blocks_pack writes panels (kernels.h) without going through floats
 * when a format's integers can be kept: then at most the scales are rounded, to half.
 *
 *   Q4_0   Q4   exact      Q4_1    Q4A   exact      Q5_K  Q5A  scales rounded
 *   Q8_0   Q8   exact      Q5_1    Q5A   exact      Q6_K  Q6   scales rounded
 *   Q5_0   Q5A  exact      IQ4_NL  IQ4   exact      F32 F16 BF16  unchanged
 *   MXFP4  MX4  exact      IQ4_XS  IQ4S  exact      Q4_K  Q4S  exact
 *   NVFP4  NV4  exact      Q3_K    Q3S   exact      Q2_K  Q2S  exact
 *   IQ3_S  IQ3S exact      IQ3_XXS IQ3X  exact      IQ2_* IQ2, IQ1_* IQ1, TQ* Q2S  exact
 *
 * The GPU lacks the compact layouts IQ4, IQ4S, Q4S, Q3S, Q2S and the last row's; wide ones replace
 * them:
 *
 *   Q4_K  Q4A  scales rounded    IQ4_NL  Q8  exact             Q2_K  Q8  quantized again
 *   Q3_K  Q6   scales rounded    IQ4_XS  Q8  scales rounded    the last row's: the same
 *
 * A rounded scale is off by 2^-11 at most, a hundredth of the error of these formats. */
#ifndef RETAIN_RUNTIME_MODEL_BLOCKS_H
#define RETAIN_RUNTIME_MODEL_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

/* Whether this tensor type (a number as in the file) can be read. */
bool blocks_readable(uint32_t type);

/* n numbers (a multiple of the type's block) from packed little-endian blocks, bit-exact with
 * ggml. */
void blocks_to_float(float *out, uint32_t type, const void *blocks, size_t n);

/* The layout that tensors of a readable type are computed in; wide: as the GPU needs it. */
enum kn_type blocks_kernel_type(uint32_t type, bool wide);

/* Packs one row of w->n_in numbers as row r of w->data, which must be zeroed before the first row.
 * w->type is one that blocks_kernel_type(type) gives, or KN_F32. */
void blocks_pack(const struct kn_weight *w, int r, uint32_t type, const void *row);

#endif
