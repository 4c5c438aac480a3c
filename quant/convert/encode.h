/* encode: rows of floats to GGUF blocks.
 *
 * Q8_0 and plain Q4_0 are byte for byte equal to the output of the format's reference encoder. The
 * searched Q4_0 is the same format with better scales: per block of 32 it looks for the scale d (of
 * either sign) with the least sum of w[i] * (x[i] - d * (q[i] - 8))^2, and is never worse than the
 * plain rule. The weights are
 *
 *   w[i] = sqrt(mean(x^2) + x[i]^2)
 *
 * The root prevents clipping large numbers in favour of small ones, which would shrink every
 * output: least squares alone has 12 % less error than plain rounding, and showed no better
 * perplexity on small models.
 *
 * Independent of files and models; many threads can encode rows at once. */
#ifndef RETAIN_QUANT_CONVERT_ENCODE_H
#define RETAIN_QUANT_CONVERT_ENCODE_H

#include <stddef.h>
#include <stdint.h>

#define ENCODE_BLOCK      32
#define ENCODE_Q4_0_BYTES 18
#define ENCODE_Q8_0_BYTES 34

/* n numbers, a multiple of 32. */
void encode_q8_0(void *blocks, const float *x, size_t n);
void encode_q4_0_plain(void *blocks, const float *x, size_t n);

void encode_q4_0(void *blocks, const float *x, size_t n);

/* To half, rounded to nearest even. */
void encode_f16(void *out, const float *x, size_t n);

/* To Q4_0, Q8_0, F16 or F32. */
void encode_row(uint32_t type, void *out, const float *x, size_t n);

/* Checks that every number is finite and small enough for a half scale. The index of the first that
 * is not, or n. */
size_t encode_check(const float *x, size_t n);

#endif
